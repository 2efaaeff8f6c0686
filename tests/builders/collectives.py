"""Hand-made rows of collectives and steps, in the forms in which the runner hands them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from leadline.model.tables import BY_NAME

JOB = "j"
MS = 10**6
T0 = 1_767_225_600 * 10**9


@dataclass(frozen=True, slots=True)
class Call:
    """One collective of one rank; times in ms after T0. No end: it was never let go."""

    rank: int
    seq: int
    arrived: float
    ended: float | None = None
    comm: str = f"{JOB}/0x1"
    ranks: int = 3
    op: str = "all_reduce"
    bytes: int = 1024
    failed: bool = False


def collectives(calls: Sequence[Call], bound_ns: int | None = 0) -> pa.Table:
    """Two rows of each call, as the torch hook writes them: enqueued, and finished where it ended."""
    rows = []
    for call in calls:
        begun = {
            "job": JOB, "comm": call.comm, "ranks": call.ranks, "rank": call.rank, "seq": call.seq, "op": call.op,
            "bytes": call.bytes, "enqueued_ns": T0 + round(call.arrived * MS), "started_ns": None,
            "finished_ns": None, "state": "enqueued", "source": "torch-hook", "bound_ns": bound_ns,
        }  # fmt: skip
        rows.append(begun)
        if call.ended is not None:
            state = "failed" if call.failed else "finished"
            rows.append(begun | {"finished_ns": T0 + round(call.ended * MS), "state": state})
    names = ("job", "comm", "op", "state", "source")
    types = dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string())) | {"seq": pa.uint64(), "bytes": pa.uint64()}
    columns = [
        "job", "comm", "ranks", "rank", "seq", "op", "bytes", "enqueued_ns", "started_ns", "finished_ns", "state",
        "source", "bound_ns",
    ]  # fmt: skip
    return pa.table({name: pa.array([row[name] for row in rows], types.get(name, pa.int64())) for name in columns})


def steps(rows: Sequence[tuple[int, int, float, float, float, float, float]]) -> pa.Table:
    """Steps: rank, step, start, end (ms after T0), and ms of input, forward and backward pass."""
    places = {"rank": 0, "step": 1}
    times = {"start_ns": 2, "end_ns": 3}
    spans = {"data_ns": 4, "forward_ns": 5, "backward_ns": 6}
    columns = {name: pa.array([row[place] for row in rows], pa.int64()) for name, place in places.items()}
    columns |= {
        name: pa.array([T0 + round(row[place] * MS) for row in rows], pa.int64()) for name, place in times.items()
    }
    columns |= {name: pa.array([round(row[place] * MS) for row in rows], pa.int64()) for name, place in spans.items()}
    nothing = pa.nulls(len(rows), pa.int64())
    return pa.table(columns | {"optimizer_ns": nothing, "checkpoint_ns": nothing})


def edges(held: dict[tuple[int, int], float], comm: str = f"{JOB}/0x1") -> pa.Table:
    """Edges by sender and receiver: for how many seconds each held the communicator."""
    return pa.table(
        {
            "comm": pa.array([comm] * len(held), pa.string()),
            "src_rank": pa.array([src for src, _ in held], pa.int64()),
            "dst_rank": pa.array([dst for _, dst in held], pa.int64()),
            "held_s": pa.array(list(held.values()), pa.float64()),
        }
    )


def baseline(lengths_ms: dict[str, float]) -> pa.Table:
    """What is usual, by what it is called in table `baseline`."""
    length_s = pa.array([each / 1e3 for each in lengths_ms.values()], pa.float64())
    return pa.table(
        {
            "job": pa.array([JOB] * len(lengths_ms), pa.string()),
            "what": pa.array(list(lengths_ms), pa.string()),
            "end_ns": pa.array([T0] * len(lengths_ms), pa.int64()),
            "count": pa.array([100] * len(lengths_ms), pa.uint64()),
            "low_s": length_s,
            "median_s": length_s,
        }
    )


def empty(name: str) -> pa.Table:
    """A table without rows."""
    texts = ("job", "comm", "what")
    return pa.table(
        {each.name: pa.array([], pa.string() if each.name in texts else pa.int64()) for each in BY_NAME[name].columns}
    )
