"""The ledger told from events: outages of the job and steps done again, which rule; checkpoints, evaluation, stops.

`outages` and `done_again` lie over everything else: what ranks do while a job comes up, or does again what it had
done, is none of its progress, however well collectives tell it. `from_events` lies under everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints
from leadline.analysis.ledger.instances import StepRows
from leadline.analysis.ledger.layers import merged
from leadline.analysis.ledger.presence import Presence, of_job, rank_number
from leadline.analysis.ledger.segments import Segments
from leadline.analysis.ledger.steps import Written
from leadline.model.accounts import Category, Depth
from leadline.model.units import S

START_UP = "start-up"
DONE_AGAIN = "steps done again"
EVALUATION = "evaluation"
# Seconds of a checkpoint that is believed at most: one that claims more than an hour is nonsense. Source: bound.
CHECKPOINT_S_MAX = 3600.0
# ns of start-up or outage, below which clocks of ranks tell more than the job does. Source: judgement.
LEAST_NS = 10**6
# Probabilities that are told with rows from events, so that a reader can weigh them: of restarts, of processes that
# were stopped, of pauses that a job announced. No verdict has a threshold on them. Source: judgement.
SURE, SURE_STOPPED, SURE_PAUSED = 0.9, 0.8, 0.7


def outages(presence: Presence, work_N: Ints, *, from_ns: int, to_ns: int) -> Segments:
    """Time in which the job was held and made no step, because it came up or had failed; `restart`.

    work_N: begins of its steps, or of its collectives where it tells no steps, ns, look-back included. An
    outage goes from the first rank that failed to the first step after, lost in full, its owner that rank. Coming up
    without a failure is no loss. A job whose work began before the look-back does not come up.
    """
    written = Written(Depth.EVENTS)
    failed = []
    for ended in presence.ends:
        if ended.failed:
            back = _first_after(work_N, ended.to_ns, to_ns)
            failed.append((ended.from_ns, back))
            begin, end = max(ended.from_ns, from_ns), min(back, to_ns)
            written.add(begin, end, Category.RESTART, ended.failed, float(end - begin), sure=SURE)
    for begin in presence.begins:
        first = _first_after(work_N, begin - LEAST_NS, to_ns)
        covered = any(start <= begin < end for start, end in failed)
        if len(work_N) and first - begin > LEAST_NS and not covered:
            written.add(max(begin, from_ns), min(first, to_ns), Category.RESTART, START_UP, sure=SURE)
    return written.segments()


def done_again(steps: StepRows, *, from_ns: int, to_ns: int) -> Segments:
    """Steps that the job had done before it failed; `restart`, lost in full."""
    written = Written(Depth.STEPS)
    spans = [(int(steps.begin_I[at]), int(steps.end_I[at])) for at in np.flatnonzero(steps.again_I).tolist()]
    for begin, end in merged(spans, from_ns, to_ns):
        written.add(begin, end, Category.RESTART, DONE_AGAIN, float(end - begin), sure=SURE)
    return written.segments()


def from_events(event: pa.Table, presence: Presence, *, job: str, from_ns: int, to_ns: int) -> Segments:
    """Checkpoints, evaluations, and stopped processes: all ranks `idle`, one of several is waited for."""
    mine = of_job(event, "entity", job)
    names = ("time_ns", "entity", "kind", "attributes")
    told = sorted(
        (
            (time_ns, entity, kind, dict(attributes or ()))
            for time_ns, entity, kind, attributes in zip(*(mine[name].to_pylist() for name in names), strict=True)
        ),
        key=lambda row: (row[0], row[1], row[2], sorted((str(k), str(v)) for k, v in row[3].items())),
    )
    told = [row for row in told if abs(row[0]) < 2**62]
    written = Written(Depth.EVENTS)
    spans = _stops(written, told, presence, job, from_ns, to_ns)
    for category, owner, found in (
        (Category.CHECKPOINT, "", _checkpoints(told)),
        (Category.COMPUTE, EVALUATION, _between(told, "evaluation-begin", "evaluation-end", to_ns)),
    ):
        for begin, end in _without(merged(found, from_ns, to_ns), spans):
            written.add(begin, end, category, owner, sure=SURE_PAUSED)
            spans = merged([*spans, (begin, end)], from_ns, to_ns)
    return written.segments()


_Told = Sequence[tuple[int, str, str, Mapping[str, str]]]


def _first_after(work_N: Ints, at_ns: int, otherwise_ns: int) -> int:
    later_N = work_N[work_N > at_ns]  # asked a few times, so it costs less than to sort
    return int(later_N.min()) if len(later_N) else otherwise_ns


def _checkpoints(told: _Told) -> list[tuple[int, int]]:
    found = []
    for time_ns, _, kind, attributes in told:
        try:
            seconds = float(attributes.get("seconds") or "")
        except ValueError:
            continue
        if kind == "checkpoint" and 0 < seconds <= CHECKPOINT_S_MAX:
            found.append((time_ns - round(seconds * S), time_ns))
    return found


def _between(told: _Told, begin_kind: str, end_kind: str, to_ns: int) -> list[tuple[int, int]]:
    """Spans from one event of an entity to its next other one; one that has not ended lasts until `to_ns`."""
    open_ns: dict[str, int] = {}
    found = []
    for time_ns, entity, kind, _ in told:
        if kind == begin_kind:
            open_ns.setdefault(entity, time_ns)
        elif kind == end_kind and entity in open_ns:
            found.append((open_ns.pop(entity), time_ns))
    return found + [(begin, to_ns) for begin in open_ns.values()]


def _stops(
    written: Written, told: _Told, presence: Presence, job: str, from_ns: int, to_ns: int
) -> list[tuple[int, int]]:
    """Write down where processes stood still. Returns: the spans, merged."""
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for entity in sorted({row[1] for row in told if row[2] == "process-stopped"}):
        rank = rank_number(entity, job)
        if rank is not None:
            spans = _between([row for row in told if row[1] == entity], "process-stopped", "process-continued", to_ns)
            by_rank[rank] = merged(spans, from_ns, to_ns)
    edges = sorted({edge for spans in by_rank.values() for span in spans for edge in span})
    for begin, end in pairwise(edges):
        stopped = [rank for rank, spans in by_rank.items() if any(start <= begin < stop for start, stop in spans)]
        if not stopped:
            continue
        if presence.ranks <= set(stopped):
            written.add(begin, end, Category.IDLE, "all processes stopped", sure=SURE_STOPPED)
        else:
            written.add(
                begin, end, Category.STRAGGLER, f"rank:{job}/{stopped[0]}", float(end - begin), sure=SURE_STOPPED
            )
    return merged([span for spans in by_rank.values() for span in spans], from_ns, to_ns)


def _without(spans: Sequence[tuple[int, int]], taken: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of some spans others leave; both disjoint and in order."""
    found = []
    for begin, end in spans:
        at = begin
        for other_begin, other_end in taken:
            if other_end <= at or other_begin >= end:
                continue
            if other_begin > at:
                found.append((at, other_begin))
            at = max(at, other_end)
        if at < end:
            found.append((at, end))
    return found
