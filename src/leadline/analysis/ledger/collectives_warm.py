"""The ledger from collectives on two ranks: it compiles, or loads from the cache, its kernels."""

from __future__ import annotations

import pyarrow as pa

from leadline.analysis.ledger.collectives import from_collectives
from leadline.analysis.spec import S, Window

PHASES = ("data_ns", "forward_ns", "backward_ns", "optimizer_ns", "checkpoint_ns")


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
