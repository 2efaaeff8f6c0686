"""A small training job as rows of its senders: four ranks, one of them slow, one step done and one begun each second.

rank 0  |data|fwd| backward            |opt|      time in steps of 1 s from T0 - 20 s;
rank 1  |data|fwd       | backward     |opt|      rank 1 is late from T0 + 2 s on, by 0.4 s
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, S

from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_table

JOB = "bert-1"
COMM = f"{JOB}/0x9c"
RANKS = 4
MS = 10**6
Row = dict[str, Any]


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a whole table: what they do not say is null, or empty, or a host's name."""
    spec = BY_NAME[name]
    usual = {"tenant": "default", "cluster": "default", "host": "h1", "clock": "h1/1", "metrics": {}, "attributes": {}}
    usual |= {"batch": 1, "batch_row": 0, "revision": 0, "version": 1, "analysis": "messages"}
    return arrow_table(
        spec, {column.name: [row.get(column.name, usual.get(column.name)) for row in rows] for column in spec.columns}
    )


def step(rank: int, number: int, start_ns: int, length_ns: int = S, **phases_ms: int) -> Row:
    """One step of one rank; phases in ms, by the beginning of their name: data=3."""
    phases = {"data": 5, "forward": 200, "backward": 750, "optimizer": 45} | phases_ms
    told = {f"{name}_ns": ms * MS for name, ms in phases.items()}
    return {"job": JOB, "rank": rank, "step": number, "start_ns": start_ns, "end_ns": start_ns + length_ns, **told}


def collective(rank: int, seq: int, enqueued_ns: int, finished_ns: int, **more: Any) -> Row:
    """One all-reduce on one rank, as the hook tells it when it is finished."""
    told = {"job": JOB, "comm": COMM, "ranks": RANKS, "rank": rank, "seq": seq, "op": "all_reduce", "bytes": 4096}
    told |= {"dtype": "float32", "enqueued_ns": enqueued_ns, "finished_ns": finished_ns, "state": "finished"}
    return {**told, "source": "torch-hook", **more}


def event(time_ns: int, rank: int, kind: str, severity: str = "info", code: str | None = None, **more: str) -> Row:
    """One event of a rank."""
    told = {"time_ns": time_ns, "entity_kind": "rank", "entity": f"rank:{JOB}/{rank}", "kind": kind}
    return {**told, "severity": severity, "code": code, "message": kind, "attributes": more, "source": "test"}


def relations(from_ns: int, to_ns: int | None = None, ranks: int = RANKS) -> list[Row]:
    """Where ranks run, on a GPU each."""
    span = {"from_ns": from_ns, "to_ns": to_ns, "source": "test", "confidence": 1.0}
    return [
        {"child": f"rank:{JOB}/{rank}", "parent": parent, "kind": kind, **span}
        for rank in range(ranks)
        for parent, kind in ((f"job:{JOB}", "in"), (f"gpu:GPU-{rank}", "runs-on"), (f"host:h{rank}", "runs-on"))
    ]


def steps(first_ns: int, count: int, number: int = 0, length_ns: int = S) -> list[Row]:
    """Steps of all ranks, one after the other."""
    begins = [first_ns + at * length_ns for at in range(count)]
    return [step(rank, number + at, begin, length_ns) for at, begin in enumerate(begins) for rank in range(RANKS)]


def slow_rank_job() -> dict[str, pa.Table]:
    """Twenty steps as usual, two more, then six in which rank 1 needs 0.4 s more in its own work; then it fails."""
    rows = steps(T0 - 20 * S, 22)
    all_reduces = []
    for at in range(5):
        begin = T0 + 2 * S + at * 1400 * MS
        for rank in range(RANKS):
            own = {"forward": 600, "backward": 750} if rank == 1 else {"forward": 200, "backward": 1150}
            rows.append(step(rank, 22 + at, begin, 1400 * MS, **own))
            late = 405 * MS if rank == 1 else 0
            all_reduces.append(collective(rank, at, begin + 900 * MS + late, begin + 1350 * MS))
    events = [event(T0 + 8 * S, 0, "checkpoint", seconds="0.5"), event(T0 + 9_200 * MS, 1, "process-exit", "error")]
    usual_ = [
        {"job": JOB, "what": what, "end_ns": T0, "window_ns": 60 * S, "count": 20, "low_s": s, "median_s": s}
        for what, s in (("step", 1.0), ("input", 0.005), ("compute", 0.245))
    ]
    return {
        "step": table("step", rows),
        "collective": table("collective", all_reduces),
        "operation": table("operation", []),
        "event": table("event", events),
        "relation": table("relation", relations(T0 - 30 * S)),
        "edge": table("edge", []),
        "flow_path": table("flow_path", []),
        "baseline": table("baseline", usual_),
    }
