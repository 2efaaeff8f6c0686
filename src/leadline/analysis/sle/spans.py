"""What is open and what happened, by second: events that others end, collectives that have not finished."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Floats, Ints, codes, ints
from leadline.analysis.sle.scope import Entities
from leadline.analysis.sle.seconds import NS_MIN, S

NEVER_NS = 2**62  # the end of what has not ended


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


def opened(begins: Spans, ends: Spans) -> Spans:
    """Events until the next that ends them; one that comes while another is open opens nothing anew."""
    end_N = np.full(len(begins.entity_N), NEVER_NS, np.int64)
    for entity in np.unique(begins.entity_N).tolist():
        own_N = np.flatnonzero(begins.entity_N == entity)
        over_K = ends.begin_N[ends.entity_N == entity]
        place_N = np.searchsorted(over_K, begins.begin_N[own_N], side="right")
        end_N[own_N] = np.append(over_K, NEVER_NS)[place_N]
    first_N = np.ones(len(end_N), bool)
    same_N = (begins.entity_N[1:] == begins.entity_N[:-1]) & (end_N[1:] == end_N[:-1])
    first_N[1:] = ~same_N
    return Spans(begins.entity_N[first_N], begins.begin_N[first_N], end_N[first_N])


def collectives(collective: pa.Table, rank_N: Ints) -> Spans:
    """Collectives from when the rank arrived until it was done.

    A communicator's collectives end in their order: one whose end was not told is over when a later one is.
    """
    comm, seq_N = codes(collective, "comm"), ints(collective, "seq")
    begin_N, end_N = ints(collective, "enqueued_ns"), ints(collective, "finished_ns", NEVER_NS)
    keep_N = (rank_N >= 0) & (begin_N > NS_MIN) & (begin_N < NEVER_NS) & (end_N >= begin_N)
    key_N5 = np.column_stack([rank_N, comm.code_N, seq_N, end_N, begin_N])[keep_N]
    key_N5 = key_N5[np.lexsort(key_N5.T[::-1])]
    # The same one is told when it was enqueued and when it had finished: the earliest end counts.
    first_N = np.ones(len(key_N5), bool)
    first_N[1:] = (key_N5[1:, :3] != key_N5[:-1, :3]).any(axis=1)
    rank_N, comm_N, _, end_N, begin_N = key_N5[first_N].T
    end_N = _over_later(rank_N, comm_N, end_N)
    order_N = np.lexsort((end_N, begin_N, rank_N))
    return Spans(rank_N[order_N], begin_N[order_N], end_N[order_N])


def _over_later(rank_N: Ints, comm_N: Ints, end_N: Ints) -> Ints:
    """The smallest end of this and all later rows of the same rank and communicator; rows are in order of these."""
    found_N = end_N.copy()
    edge_N = np.flatnonzero((np.diff(rank_N) != 0) | (np.diff(comm_N) != 0)) + 1
    for part in np.split(np.arange(len(end_N)), edge_N):
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


def ages(spans: Spans, row_N: Ints, born_R: Ints, ends_C: Ints) -> Floats:
    """Seconds since the last begin of a row's spans, or since the row's entity was there, (R, C); NaN if neither is."""
    last_RC = np.full((len(born_R), len(ends_C)), NS_MIN, np.int64)
    last_RC[:] = born_R[:, None]
    for place in np.flatnonzero(row_N >= 0).tolist():
        begin = int(spans.begin_N[place])
        later_C = ends_C >= begin
        last_RC[row_N[place], later_C] = np.maximum(last_RC[row_N[place], later_C], begin)
    return np.where(last_RC > NS_MIN, (ends_C - last_RC) / S, np.nan)
