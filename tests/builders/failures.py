"""Rows of jobs that fail, for tests: who runs where, steps, events; times in seconds after T0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, S

from leadline.analysis.spec import Window
from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_table

MINUTE = 60 * S
BEGIN = T0 // MINUTE * MINUTE
WINDOW = Window(BEGIN, BEGIN + MINUTE, tenant="provider")


def at(seconds: float) -> int:
    """A time, ns."""
    return BEGIN + round(seconds * S)


def rows_of(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows of a table; what they do not say is null, or plain."""
    table, given = BY_NAME[name], list(rows)
    plain = {"tenant": "provider", "cluster": "default", "clock": "c/1", "batch": 1, "attributes": {}, "metrics": {},
             "severity": "error", "message": "", "source": "test", "host": "", "confidence": 1.0,
             "analysis": "failures", "version": 1, "revision": 0, "code": None}  # fmt: skip
    columns = {}
    for column in table.columns:
        columns[column.name] = [row.get(column.name, plain.get(column.name)) for row in given]
    if "batch_row" in columns:
        columns["batch_row"] = list(range(len(given)))
    return arrow_table(table, columns)


def event(
    seconds: float, entity: str, kind: str, code: str | None = None, host: str = "", **more: Any
) -> dict[str, Any]:
    """A row of `event`."""
    told = {"time_ns": at(seconds), "entity": entity, "entity_kind": entity.partition(":")[0], "kind": kind,
            "code": code, "host": host, "message": f"{kind} {code or ''} of {entity}".strip()}  # fmt: skip
    return {**told, **more}


def exits(
    job: str, ranks: Iterable[int], seconds: float, code: str, apart_s: float = 0.01, **more: Any
) -> list[dict[str, Any]]:
    """Ends of ranks, one after the other; rank r is on host h<r + 1>."""
    severity = "info" if code == "exit/0" else "error"
    return [
        event(
            seconds + place * apart_s,
            f"rank:{job}/{rank}",
            "process-exit",
            code,
            f"h{rank + 1}",
            severity=severity,
            **more,
        )
        for place, rank in enumerate(ranks)
    ]


def steps(job: str, ranks: Iterable[int], begin_s: float, end_s: float, every_s: float = 1.0) -> list[dict[str, Any]]:
    """Steps of ranks, one after the other."""
    count = round((end_s - begin_s) / every_s)
    return [
        {"job": job, "rank": rank, "step": number, "start_ns": at(begin_s + number * every_s),
         "end_ns": at(begin_s + (number + 1) * every_s), "host": f"h{rank + 1}", "tenant": "provider"}
        for number in range(count) for rank in ranks
    ]  # fmt: skip


def places(job: str, ranks: int, first_host: int = 1, gpus: bool = True) -> list[dict[str, Any]]:
    """Relations of a job with one rank on each host."""
    found = []
    for rank in range(ranks):
        name, host = f"rank:{job}/{rank}", f"host:h{first_host + rank}"
        parents = [
            ("in", f"job:{job}"),
            ("runs-on", host),
            *([("runs-on", f"gpu:GPU-{first_host + rank}")] if gpus else []),
        ]
        found += [{"child": name, "kind": kind, "parent": parent, "from_ns": at(-3600)} for kind, parent in parents]
        if gpus:
            found.append({"child": f"gpu:GPU-{first_host + rank}", "kind": "in", "parent": host, "from_ns": at(-3600)})
    return found


def failing_job() -> dict[str, pa.Table]:
    """bert-1 dies of an XID 79 and starts anew; a link flaps; moe-2 is out of memory and does not come back."""
    return {
        "event": rows_of("event", [
            event(10, "gpu:GPU-2", "xid", "79", "h2"), *exits("bert-1", (1, 0, 2, 3), 10.5, "signal/SIGABRT"),
            event(20, "port:h9/eth0", "link-down", None, "h9"),
            event(23, "port:h9/eth0", "link-up", None, "h9", severity="info"),
            *exits("moe-2", (5, 4), 30, "signal/SIGKILL", attributes={"reason": "oom-kill"}),
            *exits("gone-3", (7,), 31, "exit/143"), *exits("fine-4", (8,), 32, "exit/0"),
        ]),
        "step": rows_of("step", [*steps("bert-1", range(4), 0, 10), *steps("bert-1", range(4), 40, 55)]),
        "relation": rows_of("relation", [*places("bert-1", 4), *places("moe-2", 2, 5)]),
        "failure": rows_of("failure", []),
        "anomaly": rows_of("anomaly", []),
    }  # fmt: skip
