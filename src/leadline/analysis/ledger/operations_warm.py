"""A step of two operations: it compiles, or loads from the cache, all kernels of operations."""

from __future__ import annotations

import pyarrow as pa

from leadline.analysis.ledger.operations import from_operations
from leadline.analysis.ledger.operations_trace import read_trace
from leadline.analysis.ledger.operations_whatif import what_if
from leadline.analysis.ledger.segments import Segments
from leadline.analysis.spec import Window


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
