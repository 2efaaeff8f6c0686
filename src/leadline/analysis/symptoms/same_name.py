"""Two jobs that call themselves the same at one time: what is said of one rank is then said by two processes.

    step      steps of one rank that overlap: a process makes one after the other  ──> name-shared
    relation  two processes of one rank, one of them just begun                    ──> wait with a stall

Rows of both jobs are one job's to whoever reads them, so nothing else is said of it meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, ints
from leadline.analysis.spec import S, Window
from leadline.analysis.symptoms.job_ranks import Process
from leadline.analysis.symptoms.spans import Blame, Evidence, Told, seconds
from leadline.model.incidents import Symptom

# Overlaps in a row of steps: a fit of a clock that errs makes one or two, so three are two jobs. Source: judgement.
OVERLAPS_MIN = 3
# Share of the shorter step that must overlap: a fit of a clock that is renewed moves it by far less. Source: judgement.
OVERLAP_SHARE = 0.2
# ns; no two steps of a rank at once for so long, and each job has its name again: many steps of most jobs. Source:
# judgement.
OVER_NS = 30 * S
# From the start of a process to its third step, since it loads its program and its data; until then no stall is told.
# Source: judgement.
COMES_UP_NS = 60 * S
# A launcher's restart ends one process before it starts the next, and the agent looks each second: both at once for
# longer are two jobs. Source: definition (two looks of the agent).
BOTH_NS = 2 * S


@dataclass(frozen=True, slots=True)
class Shared:
    """Steps of one rank at the same time: the rank with the most, when the first began, when the last ended, ns."""

    rank: int
    first_ns: int
    last_ns: int
    overlaps: int


def shared_of(step: pa.Table, to_ns: int) -> Shared | None:
    """Whether two processes make steps as one rank. Inputs: rows of `step`; those that end after `to_ns` are not known
    yet. Returns: of the rank that shows it best, None if none does at least three times."""
    rank_N, begin_N, end_N, number_N = (ints(step, name, 0) for name in ("rank", "start_ns", "end_ns", "step"))
    sound = np.flatnonzero((begin_N > 0) & (end_N > begin_N) & (end_N <= to_ns))
    order = sound[np.lexsort((end_N[sound], begin_N[sound], rank_N[sound]))]
    rank_N, begin_N, end_N, number_N = rank_N[order], begin_N[order], end_N[order], number_N[order]
    if len(order) < 2:
        return None
    both_N = np.minimum(end_N[:-1], end_N[1:]) - begin_N[1:]
    shorter_N = np.minimum(end_N[:-1] - begin_N[:-1], end_N[1:] - begin_N[1:])
    meets = (rank_N[:-1] == rank_N[1:]) & (both_N > OVERLAP_SHARE * shorter_N)
    pairs = np.flatnonzero(meets)
    if not len(pairs):
        return None
    ranks, counts = np.unique(rank_N[pairs], return_counts=True)
    best = int(np.argmax(counts))
    if counts[best] < OVERLAPS_MIN:
        return None
    of_rank = rank_N == ranks[best]
    if _set_back(number_N[of_rank], begin_N[of_rank]):
        return None
    mine: Ints = pairs[rank_N[pairs] == ranks[best]]
    last_ns = int(np.minimum(end_N[mine], end_N[mine + 1]).max())
    return Shared(int(ranks[best]), int(begin_N[mine + 1].min()), last_ns, int(counts[best]))


def _set_back(number_N: Ints, begin_N: Ints) -> bool:
    """Whether steps of a rank are those of one process whose clock was set back: each number once, and in their order
    they begin later and later, but for one step that follows its predecessor and begins before it."""
    if len(np.unique(number_N)) < len(number_N):
        return False
    order = np.argsort(number_N)
    back = np.flatnonzero(np.diff(begin_N[order]) < 0)
    return len(back) == 1 and int(np.diff(number_N[order])[back[0]]) == 1


def comes_up(processes: Mapping[int, Sequence[Process]], to_ns: int) -> bool:
    """Whether a second process of some rank began just now, so that its steps cannot have shown yet."""
    for of_rank in processes.values():
        newest = max(of_rank, key=lambda each: each.from_ns)
        if to_ns - newest.from_ns > COMES_UP_NS:
            continue
        until_ns = to_ns if newest.to_ns is None else newest.to_ns
        for each in of_rank:
            end_ns = to_ns if each.to_ns is None else each.to_ns
            if each.name != newest.name and min(end_ns, until_ns) - newest.from_ns > BOTH_NS:
                return True
    return False


def told_of(
    shared: Shared | None, processes: Mapping[int, Sequence[Process]], before: Sequence[Told], window: Window
) -> list[Told]:
    """The symptom `name-shared` that lasts, ends or is new. `before`: those of the job that were told before."""
    last = next((each for each in reversed(before) if each.end_ns is None), None)
    if shared is None or window.to_ns - shared.last_ns > OVER_NS:
        if last is None:
            return []
        return [replace(last, end_ns=max(last.start_ns, window.from_ns if shared is None else shared.last_ns))]
    entity = f"job:{window.job}"
    start_ns = shared.first_ns if last is None else last.start_ns
    names = sorted(
        each.name for each in processes.get(shared.rank, ()) if each.overlaps(shared.first_ns, shared.last_ns)
    )
    by = f": {' and '.join(names)}" if len(names) > 1 else ""
    text = (
        f"two processes make steps as rank {shared.rank} of {window.job}{by}; {shared.overlaps} of its steps in "
        f"{seconds(shared.last_ns - shared.first_ns)} overlap"
    )
    rank = f"rank:{window.job}/{shared.rank}"
    return [
        Told(
            entity, window.job, Symptom.NAME_SHARED, start_ns, None, window.to_ns if last is None else last.reported_ns,
            blamed=(Blame(entity, "shared", "step", 0.0, start_ns),),
            missing="which of the jobs of this name each row is of",
            evidence=(Evidence("step", rank, "overlap", start_ns, None, text),),
        )
    ]  # fmt: skip
