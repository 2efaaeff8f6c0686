"""Senders, a network and a disk around the production ways in: everything that can fail, from one seed.

    senders (retry as real ones do) -> IngestApp -> Intake -> lanes -> Disk -> MemoryStore
                        ^                    a process that crashes           survives

What a sender sends is known with what must become of it; `World.check` holds that against the rows that are left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from collections import Counter as Tally
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import cramjam
import pyarrow as pa
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from tests.oracle import remote_write as oracle

from leadline.ingest.config import IngestConfig
from leadline.ingest.counts import Counts
from leadline.ingest.http import IngestApp
from leadline.ingest.intake import Intake
from leadline.ingest.sources import Sources
from leadline.model.counters import COUNTERS, accepted, refused
from leadline.model.errors import StoreError
from leadline.model.ids import series_id
from leadline.model.principal import Principal
from leadline.model.tables import Table
from leadline.testing import FakeClock, MemoryStore
from leadline.testing.clock import START_NS as T

MS, S = 10**6, 10**9
QUEUE_ROWS_MAX = 80  # a few bodies, so that it is full now and then
BODY_ROWS_MAX = 60
CONFIG = IngestConfig(queue_rows_max=QUEUE_ROWS_MAX, batch_rows=60, linger_s=0.002, requests_max=8, series_max=1000)

# A run takes 1 s, 3 on two busy processors. A CI machine once stood still for most of a minute.
RUN_S_MAX = 300.0

Sample = tuple[int, int]  # series id, time in ns


@dataclass
class Body:
    """One request, and what must become of it: samples or messages that are stored, others refused by reason."""

    path: str
    headers: Mapping[str, str]
    data: bytes
    samples: dict[Sample, float] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    refused: Tally[str] = field(default_factory=Tally)
    acknowledged: bool = False

    @property
    def sent(self) -> int:
        return len(self.samples) + len(self.messages) + sum(self.refused.values())


class Disk:
    """What one process sees of the store. Fails from its seed; a dead process reaches nothing any more."""

    def __init__(self, memory: MemoryStore, rng: random.Random, broken: Any) -> None:
        self._memory = memory
        self._rng = rng
        self._broken = broken  # a function: how likely an append fails now
        self._lock = threading.Lock()
        self.dead = False
        self.order_broken: list[str] = []

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        return self._memory.query(sql, parameters)

    def append(self, table: Table, rows: pa.Table) -> None:
        with self._lock:
            fate, stall, part = self._rng.random(), self._rng.random(), self._rng.random()
        if stall < 0.1:
            time.sleep(0.02 * stall * 10)
        if self.dead:
            raise StoreError("the process is dead")
        chance = self._broken()
        if fate < chance:
            raise StoreError("disk is full")
        if fate < 1.5 * chance:
            self._keep(table, rows.slice(0, int(part * rows.num_rows)))
            raise StoreError("disk became full within the append")
        self._keep(table, rows)
        if fate < 2 * chance or self.dead:
            raise StoreError("the answer of the store got lost")

    def _keep(self, table: Table, rows: pa.Table) -> None:
        if table.name == "metric_sample":
            known = {row["series"] for row in self._memory.rows("series")}
            if missing := set(rows["series"].to_pylist()) - known:
                self.order_broken.append(f"{len(missing)} series have samples and no row")
        self._memory.keep(table, rows)


class Process:
    """One run of the server's ways in."""

    def __init__(self, world: World) -> None:
        self.disk = Disk(world.memory, random.Random(world.rng.random()), world.how_broken)
        self.counts = Counts()
        self.intake = Intake(CONFIG, self.disk, self.counts, Sources(self.counts), world.clock)  # type: ignore[arg-type]
        self.app = IngestApp(self.intake, world.decoders, lambda _: Principal())
        self.intake.start()


class World:
    """All of it. `answers` counts what senders were told, by path's kind and reason."""

    def __init__(self, seed: int, crashes: bool) -> None:
        self.rng = random.Random(seed)
        self.crashes = crashes
        self.broken = 0.15
        self.clock = FakeClock()
        self.memory = MemoryStore()
        self.decoders = ThreadPoolExecutor(2)
        self.ended: list[Process] = []
        self.rows_most = 0
        self.process = Process(self)
        self.in_flight: set[asyncio.Task[Any]] = set()
        self.bodies: list[Body] = []
        self.whole: Tally[str] = Tally()  # requests refused whole, by reason
        self.parts: Tally[str] = Tally()  # samples refused of requests, by reason
        self.written = 0  # samples acknowledged
        self._number = 0
        self.troubles = 0  # how often trouble came
        self.pause_s = 0.0  # the longest time between two

    def how_broken(self) -> float:
        """How likely an append fails. Asked by each append, which is when most rows wait."""
        self.look()
        return self.broken

    # --- what is sent ---

    def number(self) -> int:
        self._number += 1
        return self._number

    def _points(self) -> list[tuple[dict[str, str], int, float, str | None]]:
        """(labels, time, value, reason to refuse it) of one body."""
        points: list[tuple[dict[str, str], int, float, str | None]] = []
        for _ in range(self.rng.randint(1, BODY_ROWS_MAX)):
            number = self.number()
            labels = {"__name__": f"m{self.rng.randint(0, 12)}", "job": self.rng.choice("ab")}
            time_ns, value = T + number * MS, float(number)
            kind = self.rng.random()
            if kind < 0.03:
                points.append((labels, T - 40 * 86400 * S - number * MS, value, "too_old"))
            elif kind < 0.06:
                points.append((labels, T + 86400 * S + number * MS, value, "in_future"))
            elif kind < 0.08:
                points.append(({"__name__": "DCGM_x", "job": "a"}, time_ns, 2.0**63, "blank_value"))
            else:
                points.append((labels, time_ns, value, None))
        return points

    def _expect(self, body: Body, points: list[tuple[dict[str, str], int, float, str | None]]) -> Body:
        for labels, time_ns, value, reason in points:
            if reason is None:
                body.samples[series_id(labels), time_ns] = value
            else:
                body.refused[reason] += 1
        return body

    def remote_write(self) -> Body:
        points = self._points()
        request = oracle.V1["WriteRequest"]()
        for labels, time_ns, value, _ in points:
            stream = request.timeseries.add()
            for name, text in labels.items():
                stream.labels.add(name=name, value=text)
            stream.samples.add(timestamp=time_ns // MS, value=value)
        data = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
        return self._expect(Body("/api/v1/write", {"content-encoding": "snappy"}, data), points)

    def otlp(self) -> Body:
        points = self._points()
        request = ExportMetricsServiceRequest()
        scope = request.resource_metrics.add().scope_metrics.add()
        for labels, time_ns, value, _ in points:
            point = scope.metrics.add(name=labels["__name__"]).gauge.data_points.add()
            point.time_unix_nano, point.as_double = time_ns, value
            point.attributes.add(key="job").value.string_value = labels["job"]
        headers = {"content-type": "application/x-protobuf"}
        return self._expect(Body("/v1/metrics", headers, request.SerializeToString()), points)

    def events(self) -> Body:
        messages = [f"event {self.number()}" for _ in range(self.rng.randint(1, BODY_ROWS_MAX))]
        rows = [
            {
                "time_ns": T, "entity_kind": "host", "entity": "host:n1", "kind": "log", "severity": "info",
                "message": message, "attributes": {}, "source": "sim",
            }
            for message in messages
        ]  # fmt: skip
        headers = {"content-type": "application/x-ndjson"}
        if self.rng.random() < 0.5:
            headers["leadline-batch"] = f"{self.rng.getrandbits(128):032x}"
        data = b"\n".join(json.dumps(row).encode() for row in rows)
        return Body("/api/v1/rows/event", headers, data, messages=messages)

    # --- senders ---

    async def send_all(self, make: Any, count: int) -> None:
        """A sender with one request at a time, that sends each body until it is told not to send it again."""
        for _ in range(count):
            body = make()
            self.bodies.append(body)
            while not body.acknowledged:
                await self._attempt(body)
                await asyncio.sleep(self.rng.uniform(0, 0.004))

    async def _attempt(self, body: Body) -> None:
        task = asyncio.create_task(self._call(body))
        self.in_flight.add(task)
        try:
            status, headers, answer = await task
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            return  # the process died: no answer, so the same body again
        finally:
            self.in_flight.discard(task)
        self._told(body, status, headers, answer)

    async def _call(self, body: Body) -> tuple[int, dict[str, str], bytes]:
        """One request over a network that cuts bodies in pieces."""
        cut = self.rng.randint(0, len(body.data))
        chunks = [body.data[:cut], body.data[cut:]]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if self.rng.random() < 0.3:
                await asyncio.sleep(0.001)
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in body.headers.items()]
        await self.process.app({"type": "http", "method": "POST", "path": body.path, "headers": raw}, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], headers, sent[1]["body"]

    def _told(self, body: Body, status: int, headers: dict[str, str], answer: bytes) -> None:
        """What the sender does with its answer, and what the answer must say."""
        if status in (429, 503):
            assert int(headers["retry-after"]) >= 1
            reason = json.loads(answer)["error"]["reason"]
            self.whole[reason] += 1
            if reason == "store_unavailable":
                self.parts.update(body.refused)
            return
        body.acknowledged = True
        self.parts.update(body.refused)
        wrong = sum(amount for reason, amount in body.refused.items() if reason != "blank_value")
        if body.path.endswith("write"):
            assert status == (400 if wrong else 204), answer
            assert int(headers["x-prometheus-remote-write-samples-written"]) == len(body.samples)
            self.written += len(body.samples)
        elif body.path.endswith("metrics"):
            assert status == 200
            assert ExportMetricsServiceResponse.FromString(answer).partial_success.rejected_data_points == wrong
            self.written += len(body.samples)
        else:
            assert (status, json.loads(answer)) == (200, {"rows": len(body.messages)})

    # --- trouble ---

    async def trouble(self) -> None:
        """Until cancelled: the clock moves, the disk gets better and worse, the process restarts and dies."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(self.rng.uniform(0.0005, 0.006))
            self.troubles += 1
            self.pause_s, before = max(self.pause_s, loop.time() - before), loop.time()
            self.look()
            self.clock.advance(self.rng.uniform(-0.5, 3))
            event = self.rng.random()
            if event < 0.1:
                self.broken = self.rng.choice([0.0, 0.05, 0.3, 0.5])
            elif event < 0.15:
                await self._save(loop)
            elif event < 0.19 and self.crashes:
                self.die()
            elif event < 0.22 and self.crashes:
                await self.restart()

    async def _save(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(StoreError):  # maintenance says so and tries again
            await loop.run_in_executor(None, self.process.intake.save_streams, 0)

    def look(self) -> None:
        """How many rows wait now, seen by the trouble and by each append."""
        self.rows_most = max(self.rows_most, *self.process.intake.waiting_rows.values())

    def die(self) -> None:
        """kill -9: what is in memory is gone, who waits gets no answer."""
        self.process.disk.dead = True
        for task in list(self.in_flight):
            task.cancel()
        self.ended.append(self.process)
        self.process = Process(self)

    async def restart(self) -> None:
        """SIGTERM: what was offered is answered, then the next process begins."""
        old = self.process
        await asyncio.get_running_loop().run_in_executor(None, old.intake.stop)
        self.ended.append(old)
        self.process = Process(self)

    # --- the run ---

    async def run(self) -> None:
        trouble = asyncio.create_task(self.trouble())
        senders = [*[self.remote_write] * 3, *[self.otlp] * 2, *[self.events] * 3]
        try:
            async with asyncio.timeout(RUN_S_MAX):
                await asyncio.gather(*(self.send_all(make, 4) for make in senders))
        except TimeoutError:
            raise AssertionError(self._stuck()) from None
        finally:
            trouble.cancel()
            (ended,) = await asyncio.gather(trouble, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), f"the trouble itself fell over: {ended!r}"
        self.broken = 0.0
        self.look()
        await self.restart()
        for process in self.ended:  # of those that died, threads that still try to reach the disk
            process.intake.stop()

    def _stuck(self) -> str:
        frames = [f"{f.f_code.co_filename}:{f.f_lineno}" for task in asyncio.all_tasks() for f in task.get_stack()]
        return (
            f"not done after {RUN_S_MAX:.0f} s: {sum(body.acknowledged for body in self.bodies)} of {len(self.bodies)} "
            f"bodies acknowledged, {len(self.in_flight)} in flight, {len(self.ended)} processes ended, trouble came "
            f"{self.troubles} times with {self.pause_s:.1f} s between two at most, an append fails with "
            f"{self.broken}, waiting {self.process.intake.waiting_rows}, tasks at {', '.join(frames)}"
        )

    def stop(self) -> None:
        for process in [*self.ended, self.process]:
            process.intake.stop()
        self.decoders.shutdown()

    # --- what must be true at the end ---

    def check(self) -> None:
        for process in [*self.ended, self.process]:
            assert process.disk.order_broken == []
        self._check_samples()
        self._check_events()
        assert self.rows_most <= max(QUEUE_ROWS_MAX, BODY_ROWS_MAX), f"{self.rows_most} rows waited"
        assert all(not any(process.intake.waiting_rows.values()) for process in [*self.ended, self.process])
        self._check_counts()

    def _check_samples(self) -> None:
        stored = {
            (int.from_bytes(row["series"], "little"), row["time_ns"]): row["value"]
            for row in self.memory.rows("metric_sample")
        }
        assert len(stored) == len(self.memory.rows("metric_sample"))
        sent = {key: value for body in self.bodies for key, value in body.samples.items()}
        assert all(body.acknowledged for body in self.bodies)
        assert stored == sent, f"{len(sent.keys() - stored.keys())} lost, {len(stored.keys() - sent.keys())} too many"
        last: dict[int, int] = {}
        first: dict[int, int] = {}
        for series, time_ns in stored:
            last[series] = max(last.get(series, 0), time_ns)
            first[series] = min(first.get(series, time_ns), time_ns)
        for row in self.memory.rows("series"):
            series = int.from_bytes(row["series"], "little")
            if series in last:
                assert (row["first_ns"], row["last_ns"]) == (first[series], last[series]) or self.crashes

    def _check_events(self) -> None:
        stored = Tally(row["message"] for row in self.memory.rows("event"))
        sent = [message for body in self.bodies for message in body.messages]
        assert stored == Tally(sent), "events lost or stored twice"

    def _check_counts(self) -> None:
        """Accepted and refused are all that was sent. Exact where no answer was lost with a process."""
        totals: Tally[Any] = Tally()
        for process in [*self.ended, self.process]:
            totals.update(process.counts.totals())
        family = refused("malformed").family
        counted = {c.reason: totals[c] for c in COUNTERS if c.family == family and totals[c]}
        told = {reason: amount for reason, amount in (self.whole + self.parts).items() if amount}
        if self.crashes:
            assert all(counted.get(reason, 0) >= amount for reason, amount in told.items())
            assert totals[accepted("samples")] >= self.written
            return
        assert counted == told
        assert totals[accepted("samples")] == self.written
        assert totals[accepted("rows")] == sum(len(body.messages) for body in self.bodies)
        sent = sum(body.sent for body in self.bodies)
        kept = len(self.memory.rows("metric_sample")) + len(self.memory.rows("event"))
        assert kept + sum(sum(body.refused.values()) for body in self.bodies) == sent
