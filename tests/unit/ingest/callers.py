"""Calls the HTTP ways in as an ASGI server would, and makes bodies for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cramjam
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from tests.oracle import remote_write as oracle

from leadline.ingest.http import IngestApp
from leadline.model.principal import Caller as Asking
from leadline.model.principal import Principal
from leadline.testing.clock import START_NS as T

if TYPE_CHECKING:
    from .conftest import Bench

MS = 10**6
WRITE = "/api/v1/write"
EVENTS = "/api/v1/rows/event"
V1 = {"content-encoding": "snappy", "content-type": "application/x-protobuf"}
V2 = {**V1, "content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
OTLP = {"content-type": "application/x-protobuf"}
NDJSON = {"content-type": "application/x-ndjson"}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, str]:
        return dict(json.loads(self.body)["error"])


def anyone(_: Asking) -> Principal:
    return Principal()


class Caller:
    """Posts to one application; `bench` is what is behind it."""

    def __init__(self, bench: Bench, decoders: ThreadPoolExecutor, authorize: Any = anyone) -> None:
        self.bench = bench
        self.app = IngestApp(bench.intake, decoders, authorize)

    async def call(
        self, path: str, chunks: list[bytes], headers: Mapping[str, str], method: str = "POST", hang_up: bool = False
    ) -> Answer:
        left = list(chunks)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not left and hang_up:
                return {"type": "http.disconnect"}
            chunk = left.pop(0) if left else b""
            return {"type": "http.request", "body": chunk, "more_body": bool(left) or hang_up}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "headers": raw, "client": ("10.0.0.7", 5061)}
        await self.app(scope, receive, send)
        assert [message["type"] for message in sent[:2]] == ["http.response.start", "http.response.body"]
        # Whoever is not read to the end is listened to until the answer is read, and only then cut off.
        ends = [message.get("more_body", False) for message in sent[1:]]
        assert ends == ([True, False] if sent[0]["status"] == 413 else [False])
        assert not any(message["body"] for message in sent[2:])
        if sent[0]["status"] == 413 and not hang_up:
            assert not left, "the answer ended before the body did"
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        assert int(found["content-length"]) == len(sent[1]["body"])
        return Answer(sent[0]["status"], found, sent[1]["body"])

    def post(self, path: str, body: bytes, headers: Mapping[str, str], **more: Any) -> Answer:
        return asyncio.run(self.call(path, [body], headers, **more))


def v1_body(*streams: tuple[dict[str, str], list[int]]) -> bytes:
    request = oracle.V1["WriteRequest"]()
    for labels, times_ns in streams:
        stream = request.timeseries.add()
        for name, value in labels.items():
            stream.labels.add(name=name, value=value)
        for time_ns in times_ns:
            stream.samples.add(timestamp=time_ns // MS, value=1.5)
    return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))


def v2_body() -> bytes:
    request = oracle.V2["Request"](symbols=["", "__name__", "up", "job", "x"])
    stream = request.timeseries.add(labels_refs=[1, 2, 3, 4])
    stream.samples.add(timestamp=T // MS, value=2.5)
    return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))


UP = {"__name__": "up", "job": "x"}
GOOD = v1_body((UP, [T]))


def metrics_body(times_ns: list[int]) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="temp", unit="Cel")
    for time_ns in times_ns:
        metric.gauge.data_points.add(time_unix_nano=time_ns, as_double=1.0)
    return request


def logs_body() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=T, severity_number=9)
    record.body.string_value = "hello"
    return request


def event(message: str, **more: Any) -> bytes:
    row = {
        "time_ns": T, "entity_kind": "host", "entity": "host:n1", "kind": "log", "severity": "info",
        "message": message, "attributes": {}, "source": "test", **more,
    }  # fmt: skip
    return json.dumps(row).encode() + b"\n"
