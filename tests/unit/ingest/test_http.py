"""The HTTP ways in: what is taken and what is refused, with which status and headers."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cramjam
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from tests.oracle import remote_write as oracle

from leadline.ingest import http
from leadline.model.errors import RefusedError
from leadline.model.principal import Caller as Asking
from leadline.model.principal import Principal, Role
from leadline.testing.clock import START_NS as T

from .callers import (
    EVENTS,
    GOOD,
    MS,
    NDJSON,
    OTLP,
    UP,
    V1,
    V2,
    WRITE,
    Caller,
    event,
    logs_body,
    metrics_body,
    v1_body,
    v2_body,
)
from .conftest import Bench

# --- taken ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "headers"), [(GOOD, V1), (v2_body(), V2), (GOOD, {})], ids=["1.0", "2.0", "bare"])
def test_remote_write_is_stored_and_answered_204(caller: Caller, body: bytes, headers: dict[str, str]) -> None:
    answer = caller.post(WRITE, body, headers)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"
    assert answer.headers["x-prometheus-remote-write-histograms-written"] == "0"
    assert [(name, time_ns) for name, time_ns, _ in caller.bench.stored()] == [("up{job=x}", T)]


def test_a_partial_write_is_400_so_that_nobody_sends_it_again(caller: Caller) -> None:
    answer = caller.post(WRITE, v1_body((UP, [T, T - 40 * 86400 * 10**9]), ({"job": "nameless"}, [T])), V1)
    assert (answer.status, answer.error["reason"]) == (400, "partial")
    assert "1 samples stored" in answer.error["message"]
    assert "1 too_old" in answer.error["message"]
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"
    assert len(caller.bench.stored()) == 1


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_otlp_metrics_are_answered_in_protobuf(caller: Caller, encoding: str) -> None:
    body = metrics_body([T]).SerializeToString()
    packed = gzip.compress(body) if encoding else body
    answer = caller.post("/v1/metrics", packed, {**OTLP, "content-encoding": encoding} if encoding else OTLP)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert not ExportMetricsServiceResponse.FromString(answer.body).HasField("partial_success")
    assert caller.bench.stored() == [("temp{}", T, 1.0)]


def test_otlp_tells_a_partial_success(caller: Caller) -> None:
    times_ns = [T, T + 3600 * 10**9, 0]
    body = metrics_body(times_ns)
    told = ExportMetricsServiceResponse.FromString(caller.post("/v1/metrics", body.SerializeToString(), OTLP).body)
    assert told.partial_success.rejected_data_points == 2
    assert "ahead of our clock" in told.partial_success.error_message
    point = {"timeUnixNano": str(T + 3600 * 10**9), "asDouble": 1.0}
    scope = {"scopeMetrics": [{"metrics": [{"name": "temp", "gauge": {"dataPoints": [point]}}]}]}
    in_json = json.dumps({"resourceMetrics": [scope]}).encode()
    answer = caller.post("/v1/metrics", in_json, {"content-type": "application/json"})
    assert answer.status == 200
    assert json.loads(answer.body)["partialSuccess"]["rejectedDataPoints"] == "1"


def test_otlp_logs_are_events_and_the_same_body_is_the_same_events(caller: Caller) -> None:
    body = logs_body().SerializeToString()
    for _ in range(2):
        assert caller.post("/v1/logs", body, OTLP).status == 200
    assert [row["message"] for row in caller.bench.store.rows("event")] == ["hello"]
    assert caller.bench.accepted("repeated_batches") == 1


def test_rows_are_stored_and_counted_in_the_answer(caller: Caller) -> None:
    answer = caller.post(EVENTS, event("a") + event("b"), NDJSON)
    assert (answer.status, json.loads(answer.body)) == (200, {"rows": 2})
    assert sorted(row["message"] for row in caller.bench.store.rows("event")) == ["a", "b"]


def test_a_batch_id_makes_another_body_the_same_batch(caller: Caller) -> None:
    batch = {"leadline-batch": "00112233445566778899aabbccddeeff", **NDJSON}
    caller.post(EVENTS, event("first"), batch)
    caller.post(EVENTS, event("spelled otherwise"), {**batch, "leadline-batch": batch["leadline-batch"].upper()})
    caller.post(EVENTS, event("first"), NDJSON)
    rows = caller.bench.store.rows("event")
    assert sorted(row["message"] for row in rows) == ["first", "first"], "without the header its hash is the batch"
    ids = {int.from_bytes(row["batch"], "little") for row in rows}
    assert 0x00112233445566778899AABBCCDDEEFF in ids
    assert len(ids) == 2


# --- refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["", "12", "g" * 32, "0x" + "1" * 30, "1_" * 16, " " + "1" * 31, "+" + "1" * 31, "١" * 32, "1" * 33]
)
def test_a_batch_id_is_32_hex_digits(caller: Caller, given: str) -> None:
    answer = caller.post(EVENTS, event("a"), {**NDJSON, "leadline-batch": given})
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert "32 hex digits" in answer.error["message"]
    assert caller.bench.store.appends == []


BOMB = gzip.compress(bytes(10**6))
REFUSALS = [
    ("malformed", 400, WRITE, b"\x02\x04\xff\xff", V1),
    ("malformed", 400, WRITE, b"", V1),
    ("malformed", 400, "/v1/metrics", b"\xff\xff", OTLP),
    ("malformed", 400, "/v1/logs", b"\xff\xff", OTLP),
    ("malformed", 400, EVENTS, b"not gzip", {**NDJSON, "content-encoding": "gzip"}),
    ("bad_row", 400, EVENTS, b'{"time_ns": 1}\n', NDJSON),
    ("bad_row", 400, EVENTS, b"nonsense", {"content-type": "application/vnd.apache.arrow.stream"}),
    ("too_old", 400, EVENTS, event("a", time_ns=1), NDJSON),
    ("unsupported_encoding", 415, WRITE, b"x", {**V1, "content-encoding": "br"}),
    ("unsupported_encoding", 415, WRITE, GOOD, {**V1, "content-type": "text/plain"}),
    ("unsupported_encoding", 415, "/v1/metrics", b"", {"content-type": "text/plain"}),
    ("unsupported_encoding", 415, "/v1/logs", b"", {}),
    ("unsupported_encoding", 415, EVENTS, b"", {"content-type": "text/csv"}),
    ("body_too_large", 413, EVENTS, bytes(70_000), NDJSON),
    ("body_too_large", 413, EVENTS, b"", {**NDJSON, "content-length": "70000"}),
    ("decompressed_too_large", 413, EVENTS, BOMB, {**NDJSON, "content-encoding": "gzip"}),
    ("decompressed_too_large", 413, WRITE, b"\xff\xff\xff\xff\x0f", V1),
    ("unknown_table", 404, "/api/v1/rows/evnt", b"", NDJSON),
    ("unknown_table", 404, "/api/v1/rows/metric_sample", b"", NDJSON),
    ("unknown_table", 404, "/api/v1/rows/", b"", NDJSON),
]


@pytest.mark.parametrize(("reason", "status", "path", "body", "headers"), REFUSALS)
def test_every_refusal_has_its_status_is_counted_and_stores_nothing(
    make: Callable[..., Bench],
    decoders: ThreadPoolExecutor,
    reason: str,
    status: int,
    path: str,
    body: bytes,
    headers: dict[str, str],
) -> None:
    bench = make(body_bytes_max=65536, decompressed_bytes_max=262144)
    answer = Caller(bench, decoders).post(path, body, headers)
    assert (answer.status, answer.error["reason"]) == (status, reason)
    assert answer.error["message"]
    assert bench.refused() == {reason: 1}
    assert bench.store.appends == []
    assert ("connection" in answer.headers) == (status == 413), "the rest of a body too large is not read"
    source = bench.sources.all()[0]
    assert source.refused == {reason: 1}
    assert source.last_error == answer.error["message"][:500]


def test_a_table_misspelled_is_told_the_right_name(caller: Caller) -> None:
    assert "did you mean event" in caller.post("/api/v1/rows/evnt", b"", NDJSON).error["message"]


def test_other_methods_and_paths_are_told(caller: Caller) -> None:
    answer = asyncio.run(caller.call(WRITE, [], {}, method="GET"))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert caller.post("/api/v1/other", b"", {}).status == 404
    assert caller.bench.refused() == {}


def test_a_sender_that_hangs_up_is_counted(caller: Caller) -> None:
    answer = asyncio.run(caller.call(WRITE, [GOOD[:5]], {**V1, "content-length": str(len(GOOD))}, hang_up=True))
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert caller.bench.intake.room.held_bytes == 0, "what it held is given back"


def test_a_decoder_that_breaks_is_a_body_refused(
    bench: Bench, decoders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise SystemError("error return without exception set")

    monkeypatch.setitem(http.ROUTES, "/v1/metrics", broken)
    answer = Caller(bench, decoders).post("/v1/metrics", b"", OTLP)
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert bench.refused() == {"malformed": 1}


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/logs"])
def test_half_a_surrogate_as_a_name_is_bad_json(caller: Caller, path: str) -> None:
    """It made protobuf raise a SystemError, which was answered 500 and not counted."""
    answer = caller.post(path, b'{"\\ud800":1}', {"content-type": "application/json"})
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert caller.bench.refused() == {"malformed": 1}


def test_a_stream_without_a_name_is_refused_in_words(caller: Caller) -> None:
    request = oracle.V2["Request"](symbols=["", "job", "x"])
    request.timeseries.add(labels_refs=[1, 2]).samples.add(timestamp=T // MS, value=2.5)
    body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
    for answer in (caller.post(WRITE, body, V2), caller.post(WRITE, v1_body(({"job": "x"}, [T])), V1)):
        assert answer.status == 400
        assert "without a name" in answer.error["message"]


@pytest.mark.parametrize("role", [Role.TENANT_READ, None])
def test_who_may_not_write_is_told_before_the_body_is_read(
    bench: Bench, decoders: ThreadPoolExecutor, role: Role | None
) -> None:
    def authorize(caller: Asking) -> Principal:
        if role is None:
            raise RefusedError("unauthorized", "no token")
        return Principal("acme", role=role)

    caller = Caller(bench, decoders, authorize)
    answer = asyncio.run(caller.call(WRITE, [GOOD], V1))
    assert (answer.status, answer.error["reason"]) == (401, "unauthorized")
    assert bench.refused() == {"unauthorized": 1}
    assert bench.store.appends == []


def test_a_body_is_taken_in_any_chunks(caller: Caller) -> None:
    answer = asyncio.run(caller.call(WRITE, [bytes([byte]) for byte in GOOD], V1))
    assert answer.status == 204
    assert len(caller.bench.stored()) == 1


def test_a_sender_is_named_by_its_agent_and_address(caller: Caller) -> None:
    caller.post(WRITE, GOOD, {**V1, "user-agent": "Prometheus/2.42.0 (linux)"})
    source = caller.bench.sources.all()[0]
    assert source.sender.name == "Prometheus/2.42.0 at 10.0.0.7"
    assert (source.sender.way, source.sender.tenant, source.requests, source.samples) == (
        "remote-write",
        "default",
        1,
        1,
    )
