"""When a job was there, with how many GPUs, and which of its time was start-up, outage, or steps done again.

rank:J/0  |--------x                  |---------------     `relation`: in, runs-on; an exit ends what is still open
rank:J/1  |--------x                  |---------------
steps         0 1 2                       1 2 3
          |---|    |==================|---|=|
       start-up      restart (a rank failed)  steps done again
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Ints, ints
from leadline.analysis.complaints import FAILED, is_of_peers
from leadline.analysis.ledger.layers import merged
from leadline.model.ids import kind_of
from leadline.model.units import S

# ranks of one job; a communicator that claims more is nonsense, and arrays would not fit. Source: bound.
RANKS_MAX = 1_000_000
# Without a word of the inventory, a job is there this long after the last row of it: a window of the ledger, so that a
# slow step leaves no hole. Source: judgement.
SILENCE_NS = 10 * S
# Ends of ranks this near each other are one end of the job, since launchers end the others within a minute; as in
# `symptoms.crashes`. Source: judgement.
TOGETHER_NS = 60 * S
_ENDS = ("process-exit", FAILED)
# It was asked to: by its signal, or as a program says that it obeyed one.
_STOPPED_BY = ("signal/SIGTERM", "signal/SIGINT", "signal/SIGUSR1", "exit/143", "exit/130", "exit/138")


@dataclass(frozen=True, slots=True)
class Ended:
    """An end of the job: of some of its ranks within `TOGETHER_NS` of each other. ns."""

    from_ns: int  # the first of them
    to_ns: int  # the last of them
    failed: str | None  # rank that failed first; None: nobody failed
    ranks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Presence:
    """When a job was there in a window: disjoint spans in order, ns; GPUs held; ranks that are known of."""

    spans: list[tuple[int, int]]
    gpus: int
    ranks: frozenset[int]
    begins: list[int]  # times at which it came up after not being there, in and before the window
    ends: list[Ended]


def rank_number(entity: str, job: str) -> int | None:
    """Number of a rank of this job, of `rank:JOB/3`; None of anything else."""
    start = f"rank:{job}/"
    number = entity[len(start) :] if entity.startswith(start) else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None


def of_job(table: pa.Table, column: str, job: str) -> pa.Table:
    """The rows whose entity is the job or a rank of it. Texts are looked at once each, not once a row."""
    texts = table[column].cast(pa.string())
    mine = pc.or_(pc.equal(texts, f"job:{job}"), pc.starts_with(texts, f"rank:{job}/"))
    return table.filter(pc.fill_null(mine, False))


def told_ranks(relation: pa.Table, job: str) -> dict[int, list[tuple[int, int | None, str, str]]]:
    """By rank of the job what the inventory says: begin and end (None: still), ns, kind, parent."""
    mine = of_job(relation, "child", job)
    found: dict[int, list[tuple[int, int | None, str, str]]] = {}
    names = ("child", "from_ns", "to_ns", "kind", "parent")
    columns = (mine[name].to_pylist() for name in names)
    for child, from_ns, to_ns, kind, parent in zip(*columns, strict=True):
        rank = rank_number(child, job)
        if rank is not None and from_ns is not None and kind in ("in", "runs-on"):
            found.setdefault(rank, []).append((from_ns, to_ns, kind, parent or ""))
    return found


def ends_of(event: pa.Table, job: str) -> list[Ended]:
    """The ends of a job, as exits of its ranks tell them, in order of time."""
    mine = of_job(event, "entity", job)
    columns = (mine[name].to_pylist() for name in ("time_ns", "entity", "kind", "severity", "code", "message"))
    exits = []
    for time_ns, entity, kind, severity, code, message in zip(*columns, strict=True):
        rank = rank_number(entity, job)
        if rank is not None and kind in _ENDS:
            is_failure = severity in ("error", "critical", "fatal") and (code or "") not in _STOPPED_BY
            # Who gave up because of others says so before the one that failed has ended.
            is_failure = is_failure and not (kind == FAILED and is_of_peers(message or "", code or ""))
            exits.append((time_ns, rank, is_failure, (code or "").startswith("signal/")))
    groups: list[list[tuple[int, int, bool, bool]]] = []
    for one in sorted(set(exits)):
        if groups and one[0] - groups[-1][-1][0] < TOGETHER_NS:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [_ended(group, job) for group in groups]


def _ended(group: Sequence[tuple[int, int, bool, bool]], job: str) -> Ended:
    # A rank killed by a signal is the cause before any that ended because a peer was gone, whoever was seen first.
    failed = (
        min((not by_signal, at, rank) for at, rank, is_failure, by_signal in group if is_failure)
        if any(each[2] for each in group)
        else None
    )
    name = f"rank:{job}/{failed[2]}" if failed else None
    return Ended(group[0][0], group[-1][0], name, frozenset(each[1] for each in group))


def presence(
    relation: pa.Table,
    ends: list[Ended],
    talked: Sequence[tuple[int, int]],
    ranks_seen: Iterable[int],
    ranks_claimed: int,
    *,
    job: str,
    from_ns: int,
    to_ns: int,
) -> Presence:
    """When the job was there in [from, to).

    talked: spans in which rows of the job tell of something that went on, look-back included. ranks_claimed: the
    largest communicator's size, 0: none. A span of the inventory that is still open ends with the exit of its rank.
    """
    told = told_ranks(relation, job)
    last_ns = max((end for _, end in talked), default=from_ns)
    spans = list(talked)
    for rank, rows in told.items():
        spans += [(begin, _closed(begin, end, rank, ends, to_ns)) for begin, end, _, _ in rows]
    if not told and talked:
        spans += _bridged(talked, ends)
        spans.append((last_ns, min(last_ns + SILENCE_NS, _next_end(last_ns, ends))))
    for before, ended in enumerate(ends):
        if ended.failed:  # GPUs are kept while it is brought back, as far as anybody can tell
            later = [begin for begin, _ in spans if begin > ended.to_ns]
            later += [each.to_ns for each in ends[before + 1 :]]
            spans.append((ended.from_ns, min(later, default=to_ns)))
    held = merged(spans, -(2**62), to_ns)
    ranks = frozenset(told) | {rank for rank in ranks_seen if 0 <= rank < RANKS_MAX}
    return Presence(
        spans=merged(held, from_ns, to_ns),
        gpus=_gpus(told, ranks, ranks_claimed if ranks_claimed <= RANKS_MAX else 0, from_ns),
        ranks=ranks,
        begins=[begin for begin, _ in held],
        ends=ends,
    )


def _closed(begin: int, end: int | None, rank: int, ends: Sequence[Ended], to_ns: int) -> int:
    exits = [each.to_ns for each in ends if rank in each.ranks and each.to_ns > begin]
    return min([to_ns if end is None else end, *exits])


def _bridged(talked: Sequence[tuple[int, int]], ends: Sequence[Ended]) -> list[tuple[int, int]]:
    """From each row to the next: between two rows of a job it was there, unless it ended meanwhile."""
    found = []
    known = merged(talked, -(2**62), 2**62)
    for (_, end), (begin, _) in pairwise(known):
        if not any(end <= each.to_ns < begin for each in ends):
            found.append((end, begin))
    return found


def _next_end(at_ns: int, ends: Sequence[Ended]) -> int:
    return min((each.to_ns for each in ends if each.to_ns >= at_ns), default=2**62)


def _gpus(
    told: dict[int, list[tuple[int, int | None, str, str]]], ranks: frozenset[int], claimed: int, from_ns: int
) -> int:
    """GPUs that are told of, and one for each rank of which none is."""
    now = {
        rank: {parent for _, end, _, parent in rows if kind_of(parent) == "gpu" and (end is None or end > from_ns)}
        for rank, rows in told.items()
    }
    gpus = set().union(*now.values()) if now else set()
    with_gpu = sum(1 for each in now.values() if each)
    return max(1, len(gpus) + max(len(ranks), claimed) - with_gpu)


def claimed_size(collective: pa.Table) -> int:
    """Size of the largest communicator; 0: there is none."""
    size_N = ints(collective, "ranks", 0)
    return int(size_N[size_N <= RANKS_MAX].max(initial=0))


def distinct(table: pa.Table, column: str) -> list[int]:
    """Distinct ranks of a column, in order; numbers that no rank has are left out."""
    return distinct_of(ints(table, column))


def distinct_of(number_N: Ints) -> list[int]:
    """The same of an array."""
    seen_R = np.zeros(RANKS_MAX, np.bool_)
    seen_R[number_N[(number_N >= 0) & (number_N < RANKS_MAX)]] = True
    found: list[int] = np.flatnonzero(seen_R).tolist()
    return found
