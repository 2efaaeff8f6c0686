"""Rows of table `operation` as whole steps: each operation at its place in the step, of each replica, in each step.

    rows --nonsense and copies left out--> lanes (a step of a replica) --most common shape--> template --> (T, D, O)

What does not have the shape that most have, is left out and counted: steps that were cut, run twice under one number,
or lack a rank.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints, codes, ints
from leadline.analysis.ledger.operations import kinds
from leadline.analysis.ledger.operations.graph import Graph, Node, graph_of
from leadline.analysis.ledger.operations.kernels import Cube

# Whole numbers up to here are exact in float64; a step or an operation that takes 104 days is nonsense. Source: bound.
LONG_NS = 2**53
# Cells: lanes times (stage, kind), of 4,096 replicas of 64 stages and 14 kinds over 13 steps. It bounds what nonsense
# can cost, as memory. Source: bound.
CELLS_MAX = 50_000_000
# Lanes that are tried as template, because clocks of one may be so wrong that its operations wait in a circle. Source:
# bound.
TRIES = 3


@dataclass(slots=True)
class Left:
    """What of the rows could not be used, and why."""

    rows: int = 0  # with negative or endless times, or without place
    copies: int = 0  # rows that were there already
    unknown_kinds: Counter[str] = field(default_factory=Counter)  # rows by kind
    steps: list[int] = field(default_factory=list)  # not whole: cut, run twice under one number, or a rank is missing
    dp_ranks: list[int] = field(default_factory=list)  # with too few whole steps
    missing: list[str] = field(default_factory=list)  # what else is not there, in words


@dataclass(frozen=True, slots=True)
class Trace:
    """T whole steps of D replicas with O operations each. Times in ns from the step's begin.

    step_T: number of the step. origin_T: its begin, ns. dp_rank_D. rank_DS: global rank of each replica's stages, -1
    where there is none. stage_O, kind_O (place in KINDS), seq_O (order in worker and kind), chunk_O, micro_batch_O (or
    -1).
    """

    step_T: Ints
    origin_T: Ints
    dp_rank_D: Ints
    rank_DS: Ints
    stage_O: Ints
    kind_O: Ints
    seq_O: Ints
    chunk_O: Ints
    micro_batch_O: Ints
    begin_TDO: Cube
    end_TDO: Cube
    graph: Graph

    def of_kinds(self, wanted: frozenset[str] | set[str]) -> Bools:
        """Which operations (O,) are of these kinds."""
        return np.isin(self.kind_O, [kinds.PLACE[kind] for kind in sorted(wanted)])


@dataclass(frozen=True, slots=True)
class _Rows:
    """N rows, sorted by step, replica, stage, kind, time. lane_N: step and replica; place_N: stage and kind."""

    step_N: Ints
    dp_N: Ints
    stage_N: Ints
    rank_N: Ints
    kind_N: Ints
    begin_N: Ints
    duration_N: Ints
    chunk_N: Ints
    micro_batch_N: Ints

    def at(self, which: Ints | Bools) -> _Rows:
        return _Rows(*(getattr(self, name)[which] for name in self.__slots__))


def read_trace(operation: pa.Table) -> tuple[Trace | None, Left]:
    """Whole steps in rows of table `operation` of one job, and what was left out.

    Returns: None for the trace if no step is whole. Order of rows and copies of rows do not matter. Errors: none.
    """
    left = Left()
    rows = _sorted(_rows(operation, left), left)
    lanes = _lanes(rows, left)
    if lanes is None:
        left.missing.append("a whole training step")
        return None, left
    step_T, dp_rank_D, rows = lanes
    shape = (len(step_T), len(dp_rank_D), -1)
    begin_TDO, duration_TDO = rows.begin_N.reshape(shape), rows.duration_N.reshape(shape)
    origin_T = begin_TDO.min((1, 2))
    from_T = (begin_TDO - origin_T[:, None, None]).astype(np.float64)
    end_TDO = from_T + duration_TDO
    places = _Places.of(rows.at(np.arange(begin_TDO.shape[2])))
    graph = _graph(places, from_T, end_TDO)
    if graph is None:
        left.missing.append("an order of operations that does not contradict itself")
        return None, left
    left.missing += [f"stage {stage}" for stage in range(places.stage_O.max()) if stage not in places.stage_O]
    trace = Trace(
        step_T, origin_T, dp_rank_D, _ranks(rows, shape, places.stage_O), places.stage_O, places.kind_O,
        places.seq_O, places.chunk_O, places.micro_batch_O, from_T, end_TDO, graph,
    )  # fmt: skip
    return trace, left


def _rows(operation: pa.Table, left: Left) -> _Rows:
    kind = codes(operation, "kind")
    place_K = np.array([kinds.PLACE.get(name, -1) for name in kind.names] + [-1], np.int64)
    names = ("step", "dp_rank", "stage", "rank", "start_ns", "duration_ns", "chunk", "micro_batch")
    step_N, dp_N, stage_N, rank_N, begin_N, duration_N, chunk_N, micro_N = (ints(operation, name) for name in names)
    rows = _Rows(
        step_N, dp_N, stage_N, rank_N, place_K[kind.code_N], begin_N, duration_N, np.maximum(chunk_N, 0), micro_N
    )
    known = rows.kind_N >= 0
    counts = np.bincount(kind.code_N[~known] + 1, minlength=len(kind.names) + 1)
    for name, count in zip(["", *kind.names], counts.tolist(), strict=True):
        if count:
            left.unknown_kinds[name] += count
    sound = (dp_N >= 0) & (stage_N >= 0) & (duration_N >= 0) & (duration_N < LONG_NS) & (rows.chunk_N < 2**20)
    sound &= (stage_N < 2**20) & (np.abs(begin_N.astype(np.float64)) < 2.0**62)
    left.rows += int((known & ~sound).sum())
    return rows.at(known & sound)


def _sorted(rows: _Rows, left: Left) -> _Rows:
    """By step, replica, stage, kind and time; each row once."""
    keys = (rows.duration_N, rows.begin_N, rows.stage_N * len(kinds.KINDS) + rows.kind_N, rows.dp_N, rows.step_N)
    order = np.lexsort(keys)
    tied = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        tied &= key[order[1:]] == key[order[:-1]]
    if tied.any():  # rare, and each further key costs as much as one of those above
        order = np.lexsort((rows.micro_batch_N, rows.chunk_N, rows.rank_N, *keys))
    rows = rows.at(order)
    same = np.ones(max(len(order) - 1, 0), bool)
    for name in rows.__slots__:
        column = getattr(rows, name)
        same &= column[1:] == column[:-1]
    first = np.concatenate([np.ones(min(len(order), 1), bool), ~same])
    left.copies += int((~first).sum())
    return rows.at(first)


def _lanes(rows: _Rows, left: Left) -> tuple[Ints, Ints, _Rows] | None:
    """Steps and replicas that have the most common shape, and their rows; None if there are none."""
    if not len(rows.step_N):
        return None
    step_T, step_N = np.unique(rows.step_N, return_inverse=True)
    dp_D, dp_N = np.unique(rows.dp_N, return_inverse=True)
    place, place_N = np.unique(rows.stage_N * len(kinds.KINDS) + rows.kind_N, return_inverse=True)
    whole_TD = _whole(step_N * len(dp_D) + dp_N, place_N, (len(step_T), len(dp_D), len(place)))
    whole_TD &= _short(rows, step_N, len(step_T))[:, None]
    # A replica that is not whole in at least half as many steps as the best is left out, not all the steps.
    count_D = whole_TD.sum(0)
    kept_D = (count_D > 0) & (2 * count_D >= count_D.max(initial=0))
    kept_T = whole_TD[:, kept_D].all(1) & kept_D.any()
    left.dp_ranks += dp_D[~kept_D].tolist()
    left.steps += step_T[~kept_T].tolist()
    if not kept_T.any():
        return None
    return step_T[kept_T], dp_D[kept_D], rows.at(kept_T[step_N] & kept_D[dp_N])


def _whole(lane_N: Ints, place_N: Ints, shape: tuple[int, int, int]) -> Bools:
    """Which lanes (T, D) have as many operations of each kind at each stage as the most of them."""
    steps, replicas, places = shape
    if steps * replicas * places > CELLS_MAX:
        return np.zeros((steps, replicas), bool)
    count_LP = np.bincount(lane_N * places + place_N, minlength=steps * replicas * places).reshape(-1, places)
    shapes, of_L, often = np.unique(count_LP, axis=0, return_inverse=True, return_counts=True)
    often = np.where(shapes.any(1), often, 0)
    best = np.lexsort((shapes.sum(1), often))[-1]
    whole: Bools = (of_L.ravel() == best).reshape(steps, replicas)
    return whole


def _short(rows: _Rows, step_N: Ints, steps: int) -> Bools:
    """Steps (T,) that do not last so long that their times are nonsense."""
    first_T, last_T = np.full(steps, 2**62), np.full(steps, -(2**62))
    np.minimum.at(first_T, step_N, rows.begin_N)
    np.maximum.at(last_T, step_N, rows.begin_N)
    return last_T.astype(np.float64) - first_T.astype(np.float64) < LONG_NS


@dataclass(frozen=True, slots=True)
class _Places:
    stage_O: Ints
    kind_O: Ints
    seq_O: Ints
    chunk_O: Ints
    micro_batch_O: Ints

    @staticmethod
    def of(lane: _Rows) -> _Places:
        """Of the rows of one lane: sorted by stage, kind and time."""
        first = np.ones(len(lane.kind_N), bool)
        first[1:] = (lane.kind_N[1:] != lane.kind_N[:-1]) | (lane.stage_N[1:] != lane.stage_N[:-1])
        at_O = np.arange(len(first))
        seq_O = at_O - np.maximum.accumulate(np.where(first, at_O, 0))
        return _Places(lane.stage_N, lane.kind_N, seq_O, lane.chunk_N, lane.micro_batch_N)


def _graph(places: _Places, begin_TDO: Cube, end_TDO: Cube) -> Graph | None:
    """The graph by the order of the first lane, or, if that contradicts itself, of one of the next."""
    steps = begin_TDO.shape[0]
    for step in range(min(TRIES, steps)):
        begin_O, end_O = begin_TDO[step, 0].tolist(), end_TDO[step, 0].tolist()
        nodes = [
            Node(at, stage, kinds.KINDS[kind], seq, begin_O[at], end_O[at], chunk)
            for at, (stage, kind, seq, chunk) in enumerate(
                zip(
                    *(each.tolist() for each in (places.stage_O, places.kind_O, places.seq_O, places.chunk_O)),
                    strict=True,
                )
            )
        ]
        graph = graph_of(nodes)
        if graph is not None:
            return graph
    return None


def _ranks(rows: _Rows, shape: tuple[int, int, int], stage_O: Ints) -> Ints:
    rank_DO = rows.rank_N.reshape(shape)[0]
    rank_DS = np.full((shape[1], int(stage_O.max()) + 1), -1, np.int64)
    for stage in np.unique(stage_O).tolist():
        rank_DS[:, stage] = rank_DO[:, np.argmax(stage_O == stage)]
    return rank_DS


def unfinished(operation: pa.Table, trace: Trace) -> tuple[int, Cube] | None:
    """The step that had begun but not ended: its begin, ns, and begin and end of its operations (2, D, O), ns from it.

    NaN where an operation is not there yet. None if there is no such step, or it does not go by the trace's schedule.
    It is the one that begins after all whole steps, so that its begin is not cut off and operations can be numbered.
    """
    ended = int((trace.origin_T + trace.end_TDO.max((1, 2))).max())
    later = operation.filter(pc.greater_equal(operation.column("start_ns"), min(ended, 2**63 - 1)))
    rows = _sorted(_rows(later, Left()), Left())
    after = rows.at(~np.isin(rows.step_N, trace.step_T) & np.isin(rows.dp_N, trace.dp_rank_D))
    if not len(after.step_N):
        return None
    rows = after.at(after.step_N == after.step_N[np.argmin(after.begin_N)])
    origin = int(rows.begin_N.min())
    lane = {
        key: at
        for at, key in enumerate(zip(trace.stage_O.tolist(), trace.kind_O.tolist(), trace.seq_O.tolist(), strict=True))
    }
    times_2DO = np.full((2, *trace.end_TDO.shape[1:]), np.nan)
    seen: Counter[tuple[int, int, int]] = Counter()
    dp_N = np.searchsorted(trace.dp_rank_D, rows.dp_N).tolist()
    spans = zip((rows.begin_N - origin).tolist(), rows.duration_N.tolist(), strict=True)
    for dp, stage, kind, span in zip(dp_N, rows.stage_N.tolist(), rows.kind_N.tolist(), spans, strict=True):
        at = lane.get((stage, kind, seen[dp, stage, kind]))
        if at is None:
            return None
        seen[dp, stage, kind] += 1
        times_2DO[:, dp, at] = span[0], span[0] + span[1]
    return origin, times_2DO
