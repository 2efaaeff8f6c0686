"""OTLP over gRPC: a real channel to the listener on the loopback; statuses, partial success, who may write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from leadline.ingest.grpc_server import METHODS, OtlpGrpcServer
from leadline.model.errors import RefusedError, WorldError
from leadline.model.principal import Caller as Asking
from leadline.model.principal import Principal, Role
from leadline.testing.clock import START_NS as T

from .conftest import Bench

METRICS, LOGS = (method for method, _, _ in METHODS)
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
Call = Callable[..., bytes]


def authorize(caller: Asking) -> Principal:
    token = caller.headers.get("authorization", "Bearer writer")
    if token == "Bearer wrong":
        raise RefusedError("unauthorized", "this token is not known")
    return Principal("acme", role=Role.TENANT_READ if token == "Bearer reader" else Role.TENANT_WRITE)


@pytest.fixture
def server(bench: Bench) -> Iterator[OtlpGrpcServer]:
    server = OtlpGrpcServer(bench.intake, authorize, "127.0.0.1:0")
    server.start()
    yield server
    server.stop(0)


@pytest.fixture
def call(server: OtlpGrpcServer) -> Iterator[Call]:
    """`call(method, body, **metadata)`: the answer's bytes, or grpc.RpcError."""
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield lambda method, body, **metadata: channel.unary_unary(method)(
            body, timeout=10, metadata=tuple(metadata.items())
        )


def metrics(*times_ns: int) -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="temp")
    for time_ns in times_ns:
        metric.gauge.data_points.add(time_unix_nano=time_ns, as_double=1.0)
    return request.SerializeToString()


def logs(*times_ns: int) -> bytes:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for time_ns in times_ns:
        scope.log_records.add(time_unix_nano=time_ns).body.string_value = "hello"
    return request.SerializeToString()


def status_of(call: Call, *args: object, **metadata: str) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        call(*args, **metadata)
    return error.value.code(), error.value.details()


def test_metrics_and_logs_are_stored(bench: Bench, call: Call) -> None:
    answer = ExportMetricsServiceResponse.FromString(call(METRICS, metrics(T)))
    assert not answer.HasField("partial_success")
    assert call(LOGS, logs(T)) == b""
    assert call(LOGS, logs(T)) == b""
    assert bench.stored() == [("temp{}", T, 1.0)]
    assert [(row["message"], row["tenant"]) for row in bench.store.rows("event")] == [("hello", "acme")]
    source = bench.sources.all()[0]
    assert (source.sender.way, source.sender.tenant) == ("otlp-grpc", "acme")
    assert source.sender.name.endswith("at 127.0.0.1")


def test_what_is_refused_in_part_is_a_partial_success(bench: Bench, call: Call) -> None:
    answer = ExportMetricsServiceResponse.FromString(call(METRICS, metrics(T, T + 3600 * 10**9, 1)))
    assert answer.partial_success.rejected_data_points == 2
    assert answer.partial_success.error_message
    assert bench.refused() == {"in_future": 1, "too_old": 1}


@pytest.mark.parametrize(
    ("method", "body", "metadata", "status", "refused"),
    [
        (METRICS, b"\xff\xff", {}, grpc.StatusCode.INVALID_ARGUMENT, {"malformed": 1}),
        (LOGS, b"\xff\xff", {}, grpc.StatusCode.INVALID_ARGUMENT, {"malformed": 1}),
        (LOGS, logs(T, T, 10**9), {}, grpc.StatusCode.INVALID_ARGUMENT, {"too_old": 3}),
        (METRICS, metrics(T), {"authorization": "Bearer wrong"}, grpc.StatusCode.UNAUTHENTICATED, {"unauthorized": 1}),
        (METRICS, metrics(T), {"authorization": "Bearer reader"}, grpc.StatusCode.UNAUTHENTICATED, {"unauthorized": 1}),
        (TRACES, b"", {}, grpc.StatusCode.UNIMPLEMENTED, {}),
    ],
    ids=["metrics", "logs", "too old", "token", "role", "traces"],
)
def test_every_refusal_has_its_status_and_is_counted(
    bench: Bench,
    call: Call,
    method: str,
    body: bytes,
    metadata: dict[str, str],
    status: grpc.StatusCode,
    refused: dict[str, int],
) -> None:
    code, details = status_of(call, method, body, **metadata)
    assert code is status
    assert details
    assert bench.refused() == refused
    assert bench.store.appends == []


def test_senders_are_told_to_try_again(bench: Bench, call: Call) -> None:
    bench.faults.broken = "disk is full"
    assert status_of(call, METRICS, metrics(T)) == (grpc.StatusCode.UNAVAILABLE, "disk is full")
    bench.faults.broken = ""
    bench.faults.open.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(call, METRICS, metrics(*range(T, T + 999)))
        assert bench.faults.waiting.wait(5)
        code, details = status_of(call, METRICS, metrics(T + 5000, T + 5001))
        bench.faults.open.set()
        first.result(10)
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "999 rows wait" in details
    assert bench.refused() == {"store_unavailable": 1, "queue_full": 1}
    call(METRICS, metrics(T + 5000, T + 5001))
    assert len(bench.stored()) == 1001


def test_a_body_over_the_limit_is_not_taken(make: Callable[..., Bench]) -> None:
    bench = make(body_bytes_max=1024)
    server = OtlpGrpcServer(bench.intake, authorize, "127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel, pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(METRICS)(metrics(*range(T, T + 200)), timeout=10)
    finally:
        server.stop(0)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_small_body_that_unpacks_beyond_the_limit_is_not_taken(make: Callable[..., Bench]) -> None:
    bench = make(body_bytes_max=65536)
    server = OtlpGrpcServer(bench.intake, authorize, "127.0.0.1:0")
    server.start()
    request = ExportMetricsServiceRequest()
    request.resource_metrics.add().scope_metrics.add().metrics.add(name="x" * 10**6)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            export = channel.unary_unary(METRICS)
            with pytest.raises(grpc.RpcError) as error:
                export(request.SerializeToString(), timeout=10, compression=grpc.Compression.Gzip)
    finally:
        server.stop(0)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert bench.intake.series_known == 0


def test_an_address_in_use_is_said(server: OtlpGrpcServer, bench: Bench) -> None:
    second = OtlpGrpcServer(bench.intake, authorize, f"127.0.0.1:{server.port}")
    with pytest.raises(WorldError, match="cannot listen for OTLP/gRPC"):
        second.start()
    second.stop()
