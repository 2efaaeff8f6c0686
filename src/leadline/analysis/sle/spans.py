"""What is open and what happened, by second: events that others end, collectives that have not finished."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Floats, Ints, codes, ints
from leadline.analysis.sle.scope import Entities
from leadline.analysis.sle.seconds import NS_MIN
from leadline.model.units import S

NEVER_NS = 2**62  # the end of what has not ended
FIRST_SEQ_MAX = 1  # some count collectives from 0, some from 1


@dataclass(frozen=True, slots=True)
class Spans:
    """N spans of time of entities, in order of entity and begin; `end_N` is NEVER_NS where there is none."""

    entity_N: Ints
    begin_N: Ints
    end_N: Ints


def events(event: pa.Table, entities: Entities, names: tuple[str, ...]) -> Spans:
    """Events of some kinds, each of no length. The same one told twice at once is one."""
    kind = codes(event, "kind")
    wanted = [kind.places()[name] for name in names if name in kind.places()]
    entity_N, time_N = entities.numbers(event, "entity"), ints(event, "time_ns")
    keep_N = np.isin(kind.code_N, wanted) & (entity_N >= 0) & (time_N > NS_MIN) & (time_N < NEVER_NS)
    found_U2 = np.unique(np.column_stack([entity_N[keep_N], time_N[keep_N]]), axis=0)
    return Spans(found_U2[:, 0], found_U2[:, 1], found_U2[:, 1])


def long_open(failure: pa.Table, entities: Entities, names: tuple[str, ...], before_ns: int) -> Spans:
    """Failures of the kinds of some events that began so long ago that the events themselves are not read."""
    kind = codes(failure, "kind")
    wanted = [kind.places()[name] for name in names if name in kind.places()]
    entity_N, begin_N = entities.numbers(failure, "entity"), ints(failure, "start_ns")
    end_N = ints(failure, "end_ns", NEVER_NS)
    keep_N = np.isin(kind.code_N, wanted) & (entity_N >= 0) & (begin_N > NS_MIN) & (begin_N < before_ns)
    found_U3 = np.unique(np.column_stack([entity_N[keep_N], begin_N[keep_N], end_N[keep_N]]), axis=0)
    return Spans(*found_U3.T)


def ends_of(spans: Spans) -> Spans:
    """The ends of those that have one, as spans of no length."""
    over_N = spans.end_N < NEVER_NS
    order_N = np.lexsort((spans.end_N[over_N], spans.entity_N[over_N]))
    end_N = spans.end_N[over_N][order_N]
    return Spans(spans.entity_N[over_N][order_N], end_N, end_N)


def united(one: Spans, other: Spans) -> Spans:
    """Both, in order of entity and begin."""
    entity_N, begin_N, end_N = (
        np.concatenate([getattr(one, name), getattr(other, name)]) for name in ("entity_N", "begin_N", "end_N")
    )
    order_N = np.lexsort((end_N, begin_N, entity_N))
    return Spans(entity_N[order_N], begin_N[order_N], end_N[order_N])


def opened(begins: Spans, ends: Spans) -> Spans:
    """Events until the next that ends them; one that comes while another is open opens nothing anew."""
    end_N = np.full(len(begins.entity_N), NEVER_NS, np.int64)
    for entity in np.unique(begins.entity_N).tolist():
        own_N = np.flatnonzero(begins.entity_N == entity)
        over_K = ends.begin_N[ends.entity_N == entity]
        # What ends at the time at which it began was short: times of events may be those of their batch.
        place_N = np.searchsorted(over_K, begins.begin_N[own_N], side="left")
        end_N[own_N] = np.append(over_K, NEVER_NS)[place_N]
    first_N = np.ones(len(end_N), bool)
    same_N = (begins.entity_N[1:] == begins.entity_N[:-1]) & (end_N[1:] == end_N[:-1])
    first_N[1:] = ~same_N
    return Spans(begins.entity_N[first_N], begins.begin_N[first_N], end_N[first_N])


def collectives(collective: pa.Table, rank_N: Ints) -> Spans:
    """Collectives from when the rank arrived until it was done.

    A communicator's collectives end in their order: one whose end was not told is over when a later one is. Where
    their numbers begin anew, the job was started again: those are other collectives.
    """
    comm, seq_N = codes(collective, "comm"), ints(collective, "seq")
    begin_N, end_N = ints(collective, "enqueued_ns"), ints(collective, "finished_ns", NEVER_NS)
    keep_N = (rank_N >= 0) & (begin_N > NS_MIN) & (begin_N < NEVER_NS) & (end_N >= begin_N)
    run_N = _runs(rank_N[keep_N], comm.code_N[keep_N], begin_N[keep_N], seq_N[keep_N])
    key_N5 = np.column_stack([run_N, seq_N[keep_N], end_N[keep_N], begin_N[keep_N], rank_N[keep_N]])
    key_N5 = key_N5[np.lexsort(key_N5.T[::-1])]
    # The same one is told when it was enqueued and when it had finished: the earliest end counts.
    first_N = np.ones(len(key_N5), bool)
    first_N[1:] = (key_N5[1:, :2] != key_N5[:-1, :2]).any(axis=1)
    run_N, _, end_N, begin_N, rank_N = key_N5[first_N].T
    end_N = _over_later(run_N, end_N)
    order_N = np.lexsort((end_N, begin_N, rank_N))
    return Spans(rank_N[order_N], begin_N[order_N], end_N[order_N])


def _runs(rank_N: Ints, comm_N: Ints, begin_N: Ints, seq_N: Ints) -> Ints:
    """The run of a rank and communicator that each row is of; one that begins to count anew is another."""
    order_N = np.lexsort((seq_N, begin_N, comm_N, rank_N))
    anew_N = np.ones(len(order_N), bool)
    rank_N, comm_N, seq_N = rank_N[order_N], comm_N[order_N], seq_N[order_N]
    same_N = (rank_N[1:] == rank_N[:-1]) & (comm_N[1:] == comm_N[:-1])
    # Only back to its first number: others go back a little where sends are numbered apart, or by a clock's error.
    anew_N[1:] = ~same_N | ((seq_N[1:] < seq_N[:-1]) & (seq_N[1:] <= FIRST_SEQ_MAX))
    run_N = np.empty(len(order_N), np.int64)
    run_N[order_N] = np.cumsum(anew_N)
    return run_N


def _over_later(run_N: Ints, end_N: Ints) -> Ints:
    """The smallest end of this and all later rows of the same run; rows are in order of these."""
    found_N = end_N.copy()
    for part in np.split(np.arange(len(end_N)), np.flatnonzero(np.diff(run_N)) + 1):
        found_N[part] = np.minimum.accumulate(end_N[part][::-1])[::-1]
    return found_N


def open_s(spans: Spans, row_N: Ints, rows: int, ends_C: Ints) -> Floats:
    """For how long the longest of a row's spans has been open, (R, C); 0 where none is.

    A second that a span only touches counts it as long as it was then: an outage of 0.3 s is a bad second.
    """
    found_RC = np.zeros((rows, len(ends_C)))
    step_ns = int(ends_C[1] - ends_C[0]) if len(ends_C) > 1 else S
    near_N = (spans.end_N > ends_C[0] - step_ns) & (spans.begin_N < ends_C[-1]) & (row_N >= 0)
    for place in np.flatnonzero(near_N).tolist():
        begin, end, row = int(spans.begin_N[place]), int(spans.end_N[place]), int(row_N[place])
        open_C = (ends_C > begin) & (ends_C - step_ns < end)
        long_C = (np.minimum(ends_C, end) - begin) / S
        found_RC[row, open_C] = np.maximum(found_RC[row, open_C], long_C[open_C])
    return found_RC


def counts(spans: Spans, row_N: Ints, rows: int, ends_C: Ints, over_s: float) -> Floats:
    """How many spans of a row began in the `over_s` before the end of each column, (R, C)."""
    found_RC = np.zeros((rows, len(ends_C)))
    for place in np.flatnonzero(row_N >= 0).tolist():
        begin = int(spans.begin_N[place])
        found_RC[row_N[place], (ends_C > begin) & (ends_C - round(over_s * S) <= begin)] += 1
    return found_RC


def ages(spans: Spans, row_N: Ints, rows: int, ends_C: Ints) -> Floats:
    """Seconds since the last begin of a row's spans, (R, C); NaN before the first, and where there is none: who never
    told may tell by other means, or not do it at all."""
    last_RC = np.full((rows, len(ends_C)), NS_MIN, np.int64)
    for place in np.flatnonzero(row_N >= 0).tolist():
        begin = int(spans.begin_N[place])
        later_C = ends_C >= begin
        last_RC[row_N[place], later_C] = np.maximum(last_RC[row_N[place], later_C], begin)
    return np.where(last_RC > NS_MIN, (ends_C - last_RC) / S, np.nan)
