"""Kernels of the replay: one pass over the operations of each step, each after all that it waits for.

Axes: T = step, D = data-parallel rank, O = operation of a replica of the model, G = group that meets. Times are float64
ns from the begin of a step: exact up to 2**53 ns, 104 days.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.ledger.operations.graph import Graph

Cube = NDArray[np.float64]  # (T, D, O)


@compiled()
def replayed(
    graph: Graph,
    real_TDO: Cube,
    ideal_O: Floats,
    keep_DO: Bools,
    delay_TDO: Cube,
    begin_TDO: Cube,
    end_TDO: Cube,
) -> None:
    """Begin and end of every operation, written to `begin_TDO` and `end_TDO`.

    An operation begins when all it waits for has ended, `delay_TDO` later (its T may be 0: no delays). It takes
    `real_TDO` where `keep_DO`, else `ideal_O`; one that meets others takes that from when the last of them began.
    Outputs may have one step only (T = 1): then they hold the step replayed last; use `lengths` for the lengths.
    """
    member_first = graph.member_first
    groups = len(member_first) - 1
    missing_G = np.zeros(groups, np.int64)
    for step in range(real_TDO.shape[0]):
        out = min(step, begin_TDO.shape[0] - 1)
        for group in range(groups):
            missing_G[group] = member_first[group + 1] - member_first[group]
        for operation in graph.order_O:
            _begin(step, out, operation, graph, delay_TDO, begin_TDO, end_TDO)
            group = graph.group_O[operation]
            if group < 0:
                for replica in range(real_TDO.shape[1]):
                    own = real_TDO[step, replica, operation] if keep_DO[replica, operation] else ideal_O[operation]
                    end_TDO[out, replica, operation] = begin_TDO[out, replica, operation] + own
                continue
            missing_G[group] -= 1
            if missing_G[group] == 0:
                members = graph.member[member_first[group] : member_first[group + 1]]
                _meet(step, out, members, graph.replicas_G[group], real_TDO, ideal_O, keep_DO, begin_TDO, end_TDO)


@compiled()
def _begin(
    step: int,
    out: int,
    operation: int,
    graph: Graph,
    delay_TDO: Cube,
    begin_TDO: Cube,
    end_TDO: Cube,
) -> None:
    wait, first, last = graph.wait, graph.wait_first[operation], graph.wait_first[operation + 1]
    for replica in range(begin_TDO.shape[1]):
        at = 0.0 if first == last else end_TDO[out, replica, wait[first]]
        for place in range(first + 1, last):
            at = max(at, end_TDO[out, replica, wait[place]])
        if len(delay_TDO):
            at += delay_TDO[step, replica, operation]
        begin_TDO[out, replica, operation] = at


@compiled()
def _meet(
    step: int,
    out: int,
    members: Ints,
    replicas: bool,
    real_TDO: Cube,
    ideal_O: Floats,
    keep_DO: Bools,
    begin_TDO: Cube,
    end_TDO: Cube,
) -> None:
    all_there = -np.inf
    if replicas:
        for replica in range(begin_TDO.shape[1]):
            for operation in members:
                all_there = max(all_there, begin_TDO[out, replica, operation])
    for replica in range(begin_TDO.shape[1]):
        there = all_there
        if not replicas:
            for operation in members:
                there = max(there, begin_TDO[out, replica, operation])
        for operation in members:
            own = real_TDO[step, replica, operation] if keep_DO[replica, operation] else ideal_O[operation]
            end_TDO[out, replica, operation] = there + own


@compiled()
def lengths(
    graph: Graph,
    real_TDO: Cube,
    ideal_O: Floats,
    keep_DO: Bools,
    delay_TDO: Cube,
    last_O: Bools,
) -> Floats:
    """Length of each step (T,), ns: when the latest of `last_O` ends; one step's times are kept at a time."""
    steps, replicas, operations = real_TDO.shape
    begin_1DO, end_1DO = np.empty((1, replicas, operations)), np.empty((1, replicas, operations))
    length_T = np.zeros(steps)
    for step in range(steps):
        replayed(graph, real_TDO[step : step + 1], ideal_O, keep_DO, delay_TDO[step : step + 1], begin_1DO, end_1DO)
        for replica in range(replicas):
            for operation in range(operations):
                if last_O[operation]:
                    length_T[step] = max(length_T[step], end_1DO[0, replica, operation])
    return length_T


@compiled()
def critical(graph: Graph, begin_DO: Floats, end_DO: Floats, ran_DO: Ints) -> tuple[Floats, Ints]:
    """What a step waited for at each instant, from its end back: N pieces of its critical path.

    Inputs: begin and end of operations (D, O), ns; NaN for what has not ended yet. ran_DO: the computation of the same
    worker that had ended last when the operation began, or -1.
    Returns: span_N2 (from, to), ns, disjoint, falling; what_N3: replica and operation, and the replica whose operation
    of the same group began last (that is where the path goes on). Between pieces nobody ran: launch delays.
    The host posts some operations later than the schedule demands, after a computation that they need not wait for (the
    receive of the next backward after the forward in between). Of what an operation waits for and what ran before it,
    the path follows what ended last: that is what kept the worker.
    """
    replicas, operations = end_DO.shape
    span_N2 = np.empty((2 * replicas * operations + 1, 2))
    what_N3 = np.empty((2 * replicas * operations + 1, 3), np.int64)
    replica, operation = _last(end_DO)
    count, until = 0, np.inf
    while operation >= 0 and count < len(span_N2):
        ended = min(end_DO[replica, operation], until)
        at, starter = replica, operation
        if graph.group_O[operation] >= 0:
            at, starter = _last_to_begin(graph, replica, operation, begin_DO)
        began = min(begin_DO[at, starter], ended)
        span_N2[count, 0], span_N2[count, 1] = began, ended
        what_N3[count, 0], what_N3[count, 1], what_N3[count, 2] = replica, operation, at
        count += 1
        until, replica, operation = began, at, _kept_by(graph, at, starter, end_DO, ran_DO)
    return span_N2[:count], what_N3[:count]


@compiled()
def _last(end_DO: Floats) -> tuple[int, int]:
    replica, operation, latest = 0, -1, -np.inf
    for each in range(end_DO.shape[0]):
        for place in range(end_DO.shape[1]):
            if end_DO[each, place] > latest:
                replica, operation, latest = each, place, end_DO[each, place]
    return replica, operation


@compiled()
def _last_to_begin(graph: Graph, replica: int, operation: int, begin_DO: Floats) -> tuple[int, int]:
    group = graph.group_O[operation]
    at, starter, latest = replica, operation, begin_DO[replica, operation]
    first, last = (0, begin_DO.shape[0]) if graph.replicas_G[group] else (replica, replica + 1)
    for each in range(first, last):
        for place in range(graph.member_first[group], graph.member_first[group + 1]):
            if begin_DO[each, graph.member[place]] > latest:
                at, starter = each, graph.member[place]
                latest = begin_DO[at, starter]
    return at, starter


@compiled()
def _kept_by(graph: Graph, replica: int, operation: int, end_DO: Floats, ran_DO: Ints) -> int:
    """What the operation waited for, or what ran before it, whichever ended last; -1 if neither is known."""
    found, latest = -1, -np.inf
    for place in range(graph.wait_first[operation], graph.wait_first[operation + 1]):
        before = graph.wait[place]
        if end_DO[replica, before] > latest:
            found, latest = before, end_DO[replica, before]
    ran = ran_DO[replica, operation]
    return ran if ran >= 0 and end_DO[replica, ran] > latest else found
