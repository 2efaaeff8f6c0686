"""Traces of the PyTorch profiler (Kineto, Chrome trace format): what ran on the GPU, by training step.

    {"traceEvents": [{"ph": "X", "cat": "kernel", "name": ..., "ts": us, "dur": us, "args": {...}}, ...],
     "distributedInfo": {"rank": 0, "world_size": 2}, "baseTimeNanoseconds": ...}

Kept are events of the GPU: collectives by their name, other kernels as `compute`, copies and fills as `memory`. What
the host did (`cpu_op`, `cuda_runtime`) is counted in `notes`. A step is a `ProfilerStep#N` of the host; kernels belong
to the step in which they began. Source: pytorch/kineto, libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leadline.model.errors import DataError
from leadline.wire.traces.trace_file import TraceFile, numbered

FORMAT = "Kineto"
GPU = {"kernel": "compute", "gpu_memcpy": "memory", "gpu_memset": "memory"}
COMPUTE, MEMORY = "compute", "memory"
# Names of NCCL's kernels: ncclKernel_AllReduce_RING_LL_Sum_float, ncclDevKernel_ReduceScatter_..., ncclKernel_SendRecv.
_NCCL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")
_STEP = re.compile(r"ProfilerStep#([0-9]{1,18})(?![0-9])")  # as an int64 holds them
US = 1_000  # ns; times of the format are microseconds, with fractions


def read_kineto(where: str, whole: Mapping[str, Any]) -> TraceFile:
    """The operations of one rank. Errors: DataError if it holds no event of a GPU."""
    events = whole.get("traceEvents")
    if not isinstance(events, list):
        raise DataError(where, "`traceEvents`, a list of events", type(events).__name__)
    complete = [each for each in events if isinstance(each, dict) and each.get("ph") == "X"]
    kept = [each for each in complete if str(each.get("cat")).lower() in GPU and _is_timed(each)]
    if not kept:
        seen = ", ".join(f"{count} {name}" for name, count in _categories(complete).most_common(5)) or "no event"
        raise DataError(where, "events of a GPU (kernel, gpu_memcpy, gpu_memset)", seen)
    base_ns = _whole(whole.get("baseTimeNanoseconds"))
    begin_N = np.array([_ns(each["ts"]) + base_ns for each in kept], np.int64)
    duration_N = np.array([_ns(each["dur"]) for each in kept], np.int64)
    kinds = [kind_of(each) for each in kept]
    step_N, notes = _steps(complete, begin_N, base_ns)
    info = whole.get("distributedInfo")
    rank = _whole(info.get("rank")) if isinstance(info, dict) else 0
    rank_N = np.full(len(kept), rank, np.int64)
    none = np.full(len(kept), -1, np.int64)
    notes += _left_out(complete, len(kept))
    return TraceFile(
        FORMAT, rank_N, np.zeros_like(rank_N), rank_N, step_N, kinds, begin_N, duration_N,
        numbered(step_N, rank_N, kinds, begin_N), none, none, notes=notes,
    )  # fmt: skip


def kind_of(event: Mapping[str, Any]) -> str:
    """`all-reduce`, `reduce-scatter`, `send-recv` of a kernel of NCCL; `compute`, `memory` of others."""
    found = _NCCL.match(str(event.get("name", "")))
    if found:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", found[1]).lower()
    return GPU[str(event["cat"]).lower()]


def _is_timed(event: Mapping[str, Any]) -> bool:
    try:
        return abs(float(event["ts"])) < 2**52 and 0 <= float(event["dur"]) < 2**40
    except (KeyError, TypeError, ValueError, OverflowError):  # an integer of 400 digits is no float
        return False


def _ns(microseconds: float) -> int:
    """Whole and fraction apart: of a time since 1970, a product in float64 is only right to 256 ns."""
    whole = int(float(microseconds))
    return whole * US + round((float(microseconds) - whole) * US)


def _whole(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**62 else 0


def _categories(events: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(str(each.get("cat")).lower() for each in events)


def _steps(events: Sequence[Mapping[str, Any]], begin_N: Any, base_ns: int) -> tuple[Any, list[str]]:
    """The step of each begin; 0 for all where the profiler was not told of steps."""
    marks: dict[int, int] = {}
    for each in events:
        found = _STEP.match(str(each.get("name", "")))
        if found and str(each.get("cat")).lower() == "user_annotation" and _is_timed(each):
            marks[_ns(each["ts"]) + base_ns] = int(found[1])
    if not marks:
        return np.zeros(len(begin_N), np.int64), ["no ProfilerStep: all is step 0 (call `profiler.step()` in the loop)"]
    times_M = np.array(sorted(marks), np.int64)
    number_M = np.array([marks[time] for time in times_M.tolist()], np.int64)
    return number_M[np.maximum(np.searchsorted(times_M, begin_N, "right") - 1, 0)], []


def _left_out(events: Sequence[Mapping[str, Any]], kept: int) -> list[str]:
    left = len(events) - kept
    return [f"{left} events of the host or without a time are not kept"] if left else []
