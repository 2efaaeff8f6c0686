"""The kernels of the ledger on a row or two: they compile, or load from the cache. One warmer for each depth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, read_only
from leadline.analysis.ledger.collectives.collectives import from_collectives
from leadline.analysis.ledger.operations.operations import from_operations
from leadline.analysis.ledger.operations.trace import read_trace
from leadline.analysis.ledger.operations.whatif import what_if
from leadline.analysis.ledger.presence_kernels import by_second
from leadline.analysis.ledger.segments import Segments
from leadline.analysis.spec import S, Window

PHASES = ("data_ns", "forward_ns", "backward_ns", "optimizer_ns", "checkpoint_ns")


def warm_presence() -> Ints:
    """When one row was about something, of whom, and of how many."""
    one, none = read_only(np.ones(1, np.int64)), read_only(np.zeros(0, np.uint8))
    _, last_B = by_second(0, 1, one, one, none, 0, 0, 10, 1)
    return last_B


def warm_operations() -> Segments:
    """Segments of one step, after its what-if answers."""
    names = ("rank", "stage", "dp_rank", "step", "seq", "micro_batch", "chunk")
    operation = pa.table(
        {name: pa.array([0, 0], pa.int64()) for name in names}
        | {"job": ["warm"] * 2, "kind": ["forward-compute", "optimizer"]}
        | {"start_ns": pa.array([0, 2], pa.int64()), "duration_ns": pa.array([2, 1], pa.int64())}
    )
    trace, _ = read_trace(operation)
    if trace is not None:
        assert what_if(trace).slowdown == 1.0
    return from_operations(operation, Window(0, 3, job="warm"))


def warm_collectives() -> object:
    """Two collectives of two ranks, and a third that nobody has ended."""
    names = {"comm": "0x1", "op": "all_reduce", "state": "finished"}
    calls = [(seq, rank, seq * S) for seq in range(3) for rank in range(2)]
    size = len(calls)
    collective = pa.table(
        {name: pa.array([text] * size, pa.dictionary(pa.int32(), pa.string())) for name, text in names.items()}
        | {name: pa.array([2] * size, pa.int64()) for name in ("ranks", "bound_ns")}
        | {"rank": pa.array([call[1] for call in calls], pa.int64())}
        | {"seq": pa.array([call[0] for call in calls], pa.uint64()), "bytes": pa.array([8] * size, pa.uint64())}
        | {"enqueued_ns": pa.array([call[2] for call in calls], pa.int64()), "started_ns": pa.nulls(size, pa.int64())}
        | {"finished_ns": pa.array([call[2] + 1 if call[0] < 2 else None for call in calls], pa.int64())}
    )
    step = pa.table(
        {"rank": pa.array([0, 1], pa.int64()), "step": pa.array([0, 0], pa.int64())}
        | {"start_ns": pa.array([0, 0], pa.int64())}
        | {"end_ns": pa.array([4 * S, 4 * S], pa.int64())}
        | {name: pa.nulls(2, pa.int64()) for name in PHASES}
    )
    nothing = pa.table({name: pa.array([], pa.string()) for name in ("comm", "what")})
    return from_collectives(collective, step, nothing, nothing, window=Window(0, 4 * S, job="warm"))
