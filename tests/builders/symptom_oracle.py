"""Calls, lateness, levels and places in the plainest words: what the kernels of symptoms must say, too.

They sort all rows and hold copies of all columns, which took seconds for a job of 10,240 ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import NEVER, PAIRWISE, RANKS_MAX, Calls
from leadline.analysis.symptoms.excursion_kernels import (
    CALM,
    FEW,
    KNOWN_MIN,
    ONCE_MAX,
    SCATTER_FEW,
    SCATTER_MAX,
    SCATTER_MIN,
    SLACK,
    TOLD,
)
from leadline.analysis.symptoms.job_ranks import JobRanks, rank_number
from leadline.analysis.symptoms.spans import NEAR_NS


def calls(rows: Sequence[Mapping[str, Any]], to_ns: int) -> list[dict[str, Any]]:
    """Calls of rows of `collective`, in order."""
    of: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        entered, rank = row["enqueued_ns"], row["rank"]
        if not 0 < entered < min(to_ns, NEAR_NS) or not 0 <= rank < RANKS_MAX:
            continue
        times = {
            name: NEVER if row[name] is None or not entered <= row[name] < to_ns else row[name]
            for name in ("started_ns", "finished_ns")
        }
        seq = min(row["seq"], 2**63 - 1)
        of.setdefault((row["comm"] or "", seq, rank, entered, row["op"] or ""), []).append({**row, **times})
    found = []
    for (comm, seq, rank, entered, op), mine in sorted(of.items(), key=lambda each: each[0]):
        first = min(mine, key=lambda row: row["finished_ns"])
        found.append({
            "comm": comm, "seq": seq, "rank": rank, "op": op, "bytes": min(first["bytes"], 2**63 - 1),
            "dtype": first["dtype"] or "", "size": min(max(first["ranks"], 0), RANKS_MAX), "entered": entered,
            "started": min(row["started_ns"] for row in mine), "ended": first["finished_ns"],
            "failed": any(row["state"] == "failed" for row in mine),
        })  # fmt: skip
    return found


def kinds(given: Calls) -> frozenset[tuple[str, int, str]]:
    """What was called with success."""
    done = (given.ended_N < NEVER) & ~given.failed_N & (given.op_N >= 0) & (given.dtype_N >= 0)
    told = np.column_stack([given.op_N, given.bytes_N, given.dtype_N])[done].tolist()
    return frozenset((given.ops[op], size, given.dtypes[dtype]) for op, size, dtype in told)


def places(relation: pa.Table, job: str) -> JobRanks:
    """Places of ranks, row by row: the last begun counts, then the first by name, then one without an end."""
    columns = [relation[name].to_pylist() for name in ("from_ns", "child", "kind", "parent", "to_ns")]
    found, rows = JobRanks(), list(zip(*columns, strict=True))
    rows.sort(key=lambda row: (row[4] is None, row[4] or 0))
    rows.sort(key=lambda row: str(row[3]), reverse=True)
    rows.sort(key=lambda row: (row[0], str(row[1])))
    for _, child, kind, parent, to_ns in rows:
        rank = rank_number(child or "", job)
        if rank is None or ":" not in (parent or ""):
            continue
        of, _, name = parent.partition(":")
        if kind == "in" and of == "job":
            found.left_ns[rank] = to_ns
        elif kind == "runs-on" and of == "host":
            found.host_of[rank] = name
        elif kind == "runs-on" and of == "gpu":
            found.gpus_of[rank].add(parent)
    return found


def level_of(unit_s_B: Floats) -> tuple[float, float] | None:
    """Median and scatter of blocks; None for fewer than `KNOWN_MIN`."""
    if len(unit_s_B) < KNOWN_MIN:
        return None
    median = float(np.median(unit_s_B))
    if not median > 0:
        return None
    ratio = unit_s_B / median
    spread = 1.4826 * float(np.median(np.abs(ratio - 1)))
    high = (float(np.quantile(ratio, 0.9)) - 1) / 1.2816 if len(ratio) >= FEW else 0.0
    least = SCATTER_MIN if len(ratio) >= FEW else SCATTER_FEW
    return (median, min(max(spread, high, least), SCATTER_MAX))


def excursion(unit_s_B: Floats) -> tuple[int, tuple[float, float]] | None:
    """The last time that blocks became slower and stayed so until the sum told it; None: they did not.

    Inputs: seconds a unit of B blocks in order of time, those of known trouble left out.
    Source: Page, Continuous inspection schemes, Biometrika 41 (1954): one-sided cumulative sum, reference value SLACK,
    decision interval TOLD; what one block adds is bounded, against single pauses.
    """
    known: list[float] = list(unit_s_B[:KNOWN_MIN])
    pending: list[float] = []
    total, first, calm = 0.0, -1, 0
    found: tuple[int, tuple[float, float]] | None = None
    level = level_of(np.array(known))
    for place in range(KNOWN_MIN, len(unit_s_B)):
        if level is None:
            return None
        value = float(unit_s_B[place])
        far = (value / level[0] - 1) / level[1]
        calm = calm + 1 if far < SLACK else 0
        total = max(0.0, total + min(far, ONCE_MAX) - SLACK) if calm < CALM else 0.0
        if total == 0.0:
            # One long pause that passed is what this job does, and makes its scatter.
            known, pending, first, found = [*known, *pending, value], [], -1, None
            level = level_of(np.array(known))
            continue
        first = place if first < 0 else first
        pending.append(value)
        if total >= TOLD:
            found, total = (first, level), TOLD
    return found


def lateness(calls: Calls, since_ns: int, until_ns: int, calm_ns: int) -> tuple[dict[int, float], dict[str, float]]:
    """What collectives that ended in [since, until) lost, held against those that ended before `calm_ns`.

    Arrivals are held against what each rank's arrivals differ from the median anyway: constant errors of clocks cancel.
    Nothing is told where no collective ended before.
    """
    met = _met(calls)
    if met is None:
        return ({}, {})
    group_M, rank_M, entered_M, begin_G, end_G, comm_G, kind_G = met
    calm_G, now_G = end_G < calm_ns, (end_G >= since_ns) & (end_G < until_ns)
    if not calm_G.any() or not now_G.any():
        return ({}, {})
    usually_R = _baseline_offset(group_M, rank_M, entered_M, begin_G, calm_G)
    right_M = entered_M - usually_R[rank_M]
    order_M = np.lexsort((rank_M, right_M, group_M))
    last = np.append(np.flatnonzero(np.diff(group_M[order_M])), len(group_M) - 1)
    size_G = np.diff(np.append(-1, last))
    middle_G = right_M[order_M][last - size_G + 1 + (size_G - 1) // 2]
    last_G, who_G = right_M[order_M][last], rank_M[order_M][last]
    before_G = _end_before(end_G, comm_G)
    wait_G = np.maximum(last_G - np.maximum(middle_G, before_G), 0) / S
    own_G = np.clip(end_G - np.maximum(last_G, before_G), 0, None) / S
    wait_G, own_G = (_beyond(each, kind_G, calm_G) for each in (wait_G, own_G))
    ranks, comms = np.unique(calls.rank_N), calls.comms
    late_R = np.bincount(who_G[now_G], wait_G[now_G], len(ranks))
    held_C = np.bincount(comm_G[now_G], own_G[now_G], len(comms))
    return (
        {int(ranks[place]): float(late_R[place]) for place in np.flatnonzero(late_R > 0)},
        {comms[place]: float(held_C[place]) for place in np.flatnonzero(held_C > 0)},
    )


def _met(calls: Calls) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints] | None:
    """Collectives that all who called them left: group and rank of each call, median entry and end of each group."""
    pair_O = np.array([op in PAIRWISE for op in calls.ops] + [False], bool)
    fits_N = (calls.ended_N < NEVER) & ~calls.failed_N & ~pair_O[calls.op_N] & (calls.comm_N >= 0)
    over = np.flatnonzero(fits_N)
    if not len(over):
        return None
    comm_M, seq_M = calls.comm_N[over], calls.seq_N[over]
    new_M = np.append(True, (comm_M[1:] != comm_M[:-1]) | (seq_M[1:] != seq_M[:-1]))
    group_M, first = np.cumsum(new_M) - 1, np.flatnonzero(new_M)
    size_G = np.diff(np.append(first, len(over)))
    whole_G: Bools = (size_G == calls.size_N[over][first]) & (size_G > 1)
    keep_M = whole_G[group_M]
    if not keep_M.any():
        return None
    over, group_M = over[keep_M], np.unique(group_M[keep_M], return_inverse=True)[1].ravel()
    first = np.flatnonzero(np.append(True, np.diff(group_M) > 0))
    _, rank_M = np.unique(calls.rank_N, return_inverse=True)
    rank_M = rank_M.ravel()[over]
    entered_M = calls.entered_N[over]
    order = np.lexsort((entered_M, group_M))
    sizes = np.diff(np.append(first, len(over)))
    middle_G = entered_M[order][first + (sizes - 1) // 2]
    end_G = np.maximum.reduceat(calls.ended_N[over], first)
    kinds = np.column_stack([calls.comm_N[over], calls.op_N[over], calls.bytes_N[over]])[first]
    kind_G = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
    return group_M, rank_M, entered_M, middle_G, end_G, calls.comm_N[over][first], kind_G


def _baseline_offset(group_M: Ints, rank_M: Ints, entered_M: Ints, middle_G: Ints, calm_G: Bools) -> Ints:
    """By how much each rank comes after the median, in the median of calm collectives, ns."""
    calm_M = calm_G[group_M]
    offset_M, rank = (entered_M - middle_G[group_M])[calm_M], rank_M[calm_M]
    order = np.lexsort((offset_M, rank))
    count_R = np.bincount(rank, minlength=int(rank_M.max()) + 1)
    first_R = np.cumsum(count_R) - count_R
    found_R = np.zeros(len(count_R), np.int64)
    has_R = count_R > 0
    found_R[has_R] = offset_M[order][(first_R + (count_R - 1) // 2)[has_R]]
    return found_R


def _end_before(end_G: Ints, comm_G: Ints) -> Ints:
    """When the collective before was over, of the same communicator; long ago for its first."""
    found = [0] * len(end_G)
    for place in range(1, len(end_G)):
        if comm_G[place] == comm_G[place - 1]:
            found[place] = int(end_G[place - 1])
    return np.array(found, np.int64)


def _beyond(value_G: Floats, kind_G: Ints, calm_G: Bools) -> Floats:
    """Values less what such collectives had in the mean while it was calm; sums of them may be negative."""
    calm = sorted(value_G[calm_G].tolist())
    whole = float(np.array(calm, np.float64).sum()) / max(len(calm), 1)
    mean_of: dict[int, float] = {}
    for kind in set(kind_G.tolist()):
        values = sorted(value_G[calm_G & (kind_G == kind)].tolist())
        total = 0.0
        for value in values:  # one after the other: `sum` of later Pythons keeps more digits
            total += value
        mean_of[kind] = total / len(values) if values else whole
    return np.array([value - mean_of[kind] for value, kind in zip(value_G.tolist(), kind_G.tolist(), strict=True)])
