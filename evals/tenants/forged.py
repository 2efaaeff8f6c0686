"""Bob sends rows about others by every way in; all is judged again; which verdicts of theirs are others now?"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from evals.tenants.forging import Forger, names_of
from evals.tenants.place import ARROW, ROWS_OF_A_BODY, Server, arrow_stream, ndjson, remote_write
from evals.tenants.scene import ACME, JOB, PROVIDER, Row, Scene, Stream
from evals.tenants.verdicts import TABLES, Verdicts, changed, verdicts
from leadline.ingest.decode import NOT_BY_ROWS
from leadline.model.tables import BY_NAME, Table
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

SENDERS = ("bob-write", "bob-operate")
WATCHED = (ACME, PROVIDER)
RINGS = 4
ONE_BY_ONE = 25  # rows of a body: one that does not fit refuses its whole body
# Tables whose rows analyses take for evidence get more of them.
MORE = {"event": 6, "relation": 6, "step": 2, "collective": 2}


@dataclass(slots=True)
class Forged:
    """What was sent and what it changed."""

    changes: list[tuple[str, str, Row]] = field(default_factory=list)  # (table, gone or new, row)
    sent: Counter[str] = field(default_factory=Counter)  # rows or requests by way in
    taken: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # requests, by way in and status
    watched: int = 0

    def by_table(self) -> dict[str, int]:
        """How many verdicts of each table are gone or new."""
        return dict(Counter(f"{table} {how}" for table, how, _ in self.changes))

    def shown(self, count: int) -> list[dict[str, Any]]:
        """The first changes of each table, in a few fields."""
        out: list[dict[str, Any]] = []
        for table in sorted({each[0] for each in self.changes}):
            for _, how, row in [each for each in self.changes if each[0] == table][: max(2, count // len(TABLES))]:
                short = {
                    k: v for k, v in row.items() if isinstance(v, str | int | float) and len(str(v)) < 120 and v != ""
                }
                out.append({"table": table, "how": how, **short})
        return out


def forged(server: Server, scene: Scene, before: Verdicts, seed: int, rows: int, told: Callable[[str], None]) -> Forged:
    """Send, and have all judged again. `before`: the verdicts without what bob sends."""
    out, span = Forged(watched=sum(map(len, before.values()))), (scene.from_ns, scene.to_ns)
    _send(server, scene, random.Random(seed), rows, out)
    told(f"bob sent {sum(out.sent.values())} rows and requests, {sum(out.taken.values())} were taken")
    out.changes = changed(before, verdicts(server.judged(span), WATCHED))
    return out


def _send(server: Server, scene: Scene, chance: random.Random, rows: int, out: Forged) -> None:
    real = {
        table: [*scene.rows[ACME].get(table, ()), *scene.rows[PROVIDER].get(table, ())]
        for table in ("event", "relation", "step", "collective")
    }
    forger = Forger(chance, (scene.from_ns, scene.to_ns), names_of(real), real)
    tables = [each for each in BY_NAME.values() if each.name not in NOT_BY_ROWS]
    share = max(1, rows // sum(MORE.get(each.name, 1) for each in tables))
    for table in tables:
        made = [forger.row(table) for _ in range(share * MORE.get(table.name, 1))]
        for at in range(0, len(made), ONE_BY_ONE):
            chunk = made[at : at + ONE_BY_ONE]
            arrow = chance.random() < 0.3 and _arrow(table, chunk)
            body, kind = (arrow, ARROW) if arrow else (ndjson(chunk), "application/x-ndjson")
            _post(server, f"/api/v1/rows/{table.name}", body, kind, len(chunk), out)
    for _ in range(RINGS):
        _post(server, "/api/v1/ring", ring(chance, forger.span), "application/octet-stream", 1, out)
    _metrics(server, scene, chance, out)
    _acts(server, scene, out)


def _post(server: Server, target: str, body: bytes, kind: str, count: int, out: Forged, encoding: str = "") -> None:
    """Send it with each of bob's tokens that may be let in; the first that is takes it."""
    way = target.removeprefix("/api/v1/")
    out.sent[way] += count
    for who in SENDERS:
        headers = [("content-type", kind), *([("content-encoding", encoding)] if encoding else [])]
        status, _, _ = server.send("POST", target, headers, body, who)
        if status < 300:
            out.taken[way] += count
            return
        out.refused[f"{way} {status}"] += 1


def _arrow(table: Table, rows: Sequence[Row]) -> bytes | None:
    """Rows as an Arrow stream; None for those that Arrow cannot guess the types of."""
    try:
        return arrow_stream(pa.Table.from_pylist(list(rows)))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def ring(chance: random.Random, span: tuple[int, int]) -> bytes:
    """A segment of a ring that says it is a rank of acme's job: steps, a crash, and that it runs elsewhere."""
    rank, begin = chance.randrange(8), chance.randrange(*span)
    memory = bytearray(ring_bytes(1024))
    format_ring(
        memory,
        host=f"h{rank + 1}",
        job=JOB,
        rank=rank,
        world_size=8,
        source="torch-hook",
        pid=1,
        tid=1,
        boot_id=bytes(16),
        start_ns=begin,
        start_monotonic_ns=0,
    )
    writer = RingWriter(memory)
    writer.relation(f"rank:{JOB}/{rank}", f"host:h{1 + (rank + 1) % 8}", "runs-on", span[0])
    for step in range(20):
        writer.step(step, begin + step * 10**9, begin + step * 10**9 + 5 * 10**8, loss=1.0)
    writer.event(
        "process-exit", begin + 10**9, "gone", severity="error", entity=f"rank:{JOB}/{rank}", code="signal/SIGKILL"
    )
    return read_segment(memory, 0).segment


def _metrics(server: Server, scene: Scene, chance: random.Random, out: Forged) -> None:
    """The provider's own streams with other values, as remote-write and as OTLP."""
    at_ms = scene.to_ns // 10**6
    streams = [
        Stream(each.labels, [(at_ms - 1000 * second, chance.choice((0.0, 1e9, 99.0))) for second in range(100, 0, -1)])
        for each in chance.sample(list(scene.streams[PROVIDER]), min(40, len(scene.streams[PROVIDER])))
    ]
    samples = sum(len(each.samples) for each in streams)
    _post(
        server,
        "/api/v1/write",
        remote_write(streams[:ROWS_OF_A_BODY]),
        "application/x-protobuf",
        samples,
        out,
        "snappy",
    )
    points = [{"timeUnixNano": str(scene.to_ns - second * 10**9), "asDouble": 1e9} for second in range(60)]
    said = {
        "resourceMetrics": [
            {
                "resource": {
                    "attributes": [
                        {"key": key, "value": {"stringValue": value}}
                        for key, value in each.labels.items()
                        if key != "__name__"
                    ]
                },
                "scopeMetrics": [{"metrics": [{"name": each.labels["__name__"], "gauge": {"dataPoints": points}}]}],
            }
            for each in streams
        ]
    }
    _post(server, "/v1/metrics", json.dumps(said).encode(), "application/json", len(streams) * len(points), out)
    lines = [
        {
            "timeUnixNano": str(chance.randrange(scene.from_ns, scene.to_ns)),
            "severityText": "ERROR",
            "body": {"stringValue": "NVRM: Xid 79, GPU has fallen off the bus"},
            "attributes": [
                {"key": "rank", "value": {"stringValue": str(number % 8)}},
                {"key": "job", "value": {"stringValue": JOB}},
            ],
        }
        for number in range(30)
    ]
    said = {"resourceLogs": [{"scopeLogs": [{"logRecords": lines}]}]}
    _post(server, "/v1/logs", json.dumps(said).encode(), "application/json", len(lines), out)


def _acts(server: Server, scene: Scene, out: Forged) -> None:
    """Marks and dismissals of acme's incidents, judging again, a freeze."""
    span = {"from_ns": scene.from_ns, "to_ns": scene.to_ns}
    acts: list[tuple[str, dict[str, Any]]] = [("/api/v1/backfill", span), ("/api/v1/freeze", {})]
    for each in server.json("/api/v1/incidents", "acme-read")["incidents"]:
        acts += [
            ("/api/v1/marks", {"incident": each["incident"], "mark": mark}) for mark in ("dismissed", "wrong", "right")
        ]
    for target, body in acts:
        _post(server, target, json.dumps(body).encode(), "application/json", 1, out)
