"""Execution traces of MLCommons Chakra in their JSON form: nodes with how long they took and what they wait for.

    {"workload_graph": [{"Id": 217, "Name": "aten::cat", "runtime": us, "data_deps": [216], "ctrlDeps": [3],
                         "is_cpu_op": true}, ...]}

The form has no times of day: a node begins when all it waits for has ended, at the earliest. Nodes of the host are
counted in `notes` where nodes of a GPU are there. Source: mlcommons/chakra, src/converter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from leadline.model.errors import DataError
from leadline.wire.traces.trace_file import TraceFile, numbered

FORMAT = "Chakra"
US = 1_000  # ns; `runtime` is in microseconds
_BEGIN_NS_MAX = 2**61  # 73 years: what is added to it stays in 64 bits
_COLLECTIVES = {"allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter",
                "alltoall": "all-to-all", "broadcast": "broadcast", "sendrecv": "send-recv"}  # fmt: skip


def read_chakra(where: str, whole: Mapping[str, Any]) -> TraceFile:
    """The operations of one rank. Errors: DataError for nodes without `Id`, or that wait for each other in a circle."""
    nodes = whole.get("workload_graph")
    if not isinstance(nodes, list) or not nodes:
        raise DataError(where, "`workload_graph`, a list of nodes", f"{type(nodes).__name__} without a node")
    by_id: dict[int, Mapping[str, Any]] = {}
    for place, node in enumerate(nodes):
        if not isinstance(node, dict) or not isinstance(node.get("Id"), int):
            raise DataError(f"{where}, node {place}", "an object with a whole number `Id`", str(node)[:80])
        by_id[node["Id"]] = node
    waits = {name: _waits(node, by_id) for name, node in by_id.items()}
    begin_us = _begins(where, by_id, waits)
    if max(begin_us.values()) * US >= _BEGIN_NS_MAX:
        raise DataError(where, "nodes that end within 73 years of the first", f"{max(begin_us.values()):.3g} us")
    names = sorted(by_id, key=lambda name: (begin_us[name], name))
    begin_N = np.array([round(begin_us[name] * US) for name in names], np.int64)
    duration_N = np.array([round(_runtime(by_id[name]) * US) for name in names], np.int64)
    kinds = [kind_of(by_id[name]) for name in names]
    zero, none = np.zeros(len(names), np.int64), np.full(len(names), -1, np.int64)
    edges = sum(map(len, waits.values()))
    note = (
        f"{len(names)} nodes, {edges} dependencies; the file has no times of day: each node begins as soon as what it "
        "waits for has ended"
    )
    return TraceFile(
        FORMAT, zero, zero, zero, zero, kinds, begin_N, duration_N, numbered(zero, zero, kinds, begin_N), none, none,
        notes=[note],
    )  # fmt: skip


def kind_of(node: Mapping[str, Any]) -> str:
    """`all-reduce` and the like, `compute` of a GPU, `host` of a CPU operation."""
    name = str(node.get("Name", "")).lower().replace("_", "")
    for word, kind in _COLLECTIVES.items():
        if word in name:
            return kind
    return "host" if node.get("is_cpu_op") else "compute"


def _runtime(node: Mapping[str, Any]) -> float:
    took = node.get("runtime")
    return float(took) if isinstance(took, int | float) and 0 <= took < 2**40 else 0.0


def _waits(node: Mapping[str, Any], by_id: Mapping[int, object]) -> list[int]:
    """What a node waits for that is in the file: a cut trace names nodes that were left out."""
    lists = (each for each in (node.get("data_deps"), node.get("ctrlDeps")) if isinstance(each, list))
    return sorted({each for some in lists for each in some if isinstance(each, int) and each in by_id})


def _begins(where: str, by_id: Mapping[int, Mapping[str, Any]], waits: Mapping[int, list[int]]) -> dict[int, float]:
    """The earliest begin of each node, us. Errors: DataError for a circle."""
    left = {name: len(before) for name, before in waits.items()}
    after: dict[int, list[int]] = {}
    for name, before in waits.items():
        for each in before:
            after.setdefault(each, []).append(name)
    begin = dict.fromkeys(by_id, 0.0)
    free = [name for name, count in left.items() if not count]
    done = 0
    while free:
        name = free.pop()
        done += 1
        end = begin[name] + _runtime(by_id[name])
        for each in after.get(name, ()):
            begin[each] = max(begin[each], end)
            left[each] -= 1
            if not left[each]:
                free.append(each)
    if done < len(by_id):
        circle = sorted(name for name, count in left.items() if count)
        raise DataError(where, "dependencies without a circle", f"nodes {circle[:5]} that wait for each other")
    return begin
