"""The OpenTelemetry SDK sends metrics and logs, over gRPC and HTTP, plain and gzip; all values are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from grpc import Compression as GrpcCompression
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.http import Compression as HttpCompression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import (
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)
from opentelemetry.sdk.resources import Resource
from tests.senders.running import RunningLeadline

WAYS = ["grpc", "grpc-gzip", "http", "http-gzip", "http-8440"]
Rows = dict[tuple[str, str], float]


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path_factory.mktemp("opentelemetry")) as server:
        yield server


def _exporters(leadline: RunningLeadline, way: str) -> tuple[Any, Any]:
    if way.startswith("grpc"):
        kind = GrpcCompression.Gzip if way.endswith("gzip") else GrpcCompression.NoCompression
        where = f"127.0.0.1:{leadline.otlp_grpc_port}"
        return (
            GrpcMetrics(where, insecure=True, compression=kind),
            GrpcLogs(where, insecure=True, compression=kind),
        )
    port = leadline.port if way.endswith("8440") else leadline.otlp_http_port
    packed = HttpCompression.Gzip if way.endswith("gzip") else HttpCompression.NoCompression
    url = f"http://127.0.0.1:{port}/v1"
    return HttpMetrics(f"{url}/metrics", compression=packed), HttpLogs(f"{url}/logs", compression=packed)


@pytest.mark.parametrize("way", WAYS)
def test_metrics(leadline: RunningLeadline, way: str) -> None:
    metrics, logs = _exporters(leadline, way)
    logs.shutdown()
    service = f"metrics-{way}"
    resource = Resource.create({"service.name": service, "host.name": "n12", "deployment.tags": ["a", "b"]})
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=math.inf)
    views = [
        View(instrument_name="example.wait", aggregation=ExplicitBucketHistogramAggregation([0.1, 1.0, 10.0])),
        View(instrument_name="example.spread", aggregation=ExponentialBucketHistogramAggregation()),
    ]
    meters = MeterProvider([reader], resource, views=views)
    meter = meters.get_meter("tests")
    done = meter.create_counter("example.done", unit="1")
    done.add(3, {"op": "read", "cached": True})
    done.add(2**53 + 2, {"op": "write", "try": 7})
    meter.create_up_down_counter("example.open").add(-4)
    meter.create_counter("example.energy", unit="J").add(0.1 + 0.2)
    wait = meter.create_histogram("example.wait", unit="s")
    for seconds in (0.05, 0.1, 0.5, 20.0):
        wait.record(seconds)
    meter.create_histogram("example.spread").record(3.5)

    def temperature(_: CallbackOptions) -> list[Observation]:
        return [Observation(-273.15, {"gpu": "0"}), Observation(5e-324, {"gpu": "1"})]

    meter.create_observable_gauge("example.temperature", [temperature], unit="Cel")
    assert meters.force_flush(20_000)
    meters.shutdown()

    where = f"labels['service.name'] = '{service}'"
    found = _values(leadline, where)
    assert found == {
        ("example.done", "read"): 3.0,
        ("example.done", "write"): float(2**53 + 2),
        ("example.open", ""): -4.0,
        ("example.energy", ""): 0.1 + 0.2,
        ("example.wait_count", ""): 4.0,
        ("example.wait_sum", ""): 0.05 + 0.1 + 0.5 + 20.0,
        ("example.wait_bucket", "0.1"): 2.0,
        ("example.wait_bucket", "1"): 3.0,
        ("example.wait_bucket", "10"): 3.0,
        ("example.wait_bucket", "+Inf"): 4.0,
        ("example.wait_min", ""): 0.05,
        ("example.wait_max", ""): 20.0,
        ("example.spread_min", ""): 3.5,
        ("example.spread_max", ""): 3.5,
        ("example.spread_count", ""): 1.0,
        ("example.spread_sum", ""): 3.5,
        ("example.temperature", "0"): -273.15,
        ("example.temperature", "1"): 5e-324,
    }
    told = leadline.sql(f"SELECT name, any(type) AS type, any(unit) AS unit FROM series WHERE {where} GROUP BY name")
    types = {row["name"]: (row["type"], row["unit"]) for row in told}
    assert types["example.done"][0] == "counter"
    assert types["example.open"][0] == "gauge"
    assert types["example.wait_bucket"][0] == "histogram"
    assert types["example.energy"] == ("counter", "J")
    (read,) = leadline.sql(f"SELECT * FROM series WHERE {where} AND labels['op'] = 'read'")
    assert read["labels"].pop("service.instance.id")  # the SDK's own, another for each process
    assert read["labels"] == {
        "service.name": service,
        "host.name": "n12",
        "deployment.tags": '["a","b"]',
        "otel.scope.name": "tests",
        "op": "read",
        "cached": "true",
    }
    assert read["source"] == way.split("-")[0].replace("grpc", "otlp-grpc").replace("http", "otlp-http")
    assert read["host"] == "n12"
    # Buckets of exponential histograms have no place here: counted, not silent.
    assert leadline.refused()["ingest_refused", "histogram_buckets"] >= 1


def _values(leadline: RunningLeadline, where: str) -> Rows:
    """Values by metric name and the label that tells its streams apart."""
    rows = leadline.sql(
        f"SELECT name, labels, groupArray(value) AS values FROM metric_sample JOIN series USING (series) WHERE {where} "
        "GROUP BY name, labels"
    )
    found: Rows = {}
    for row in rows:
        labels = row["labels"]
        key = (row["name"], labels.get("op") or labels.get("gpu") or labels.get("le") or "")
        assert key not in found
        # A flush and the shutdown export the same sums; they may be two samples.
        assert len(set(row["values"])) == 1, row
        found[key] = row["values"][0]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_logs(leadline: RunningLeadline, way: str) -> None:
    metrics, logs = _exporters(leadline, way)
    metrics.shutdown()
    service = f"logs-{way}"
    loggers = LoggerProvider(Resource.create({"service.name": service, "host.name": "n12"}))
    loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
    logger = loggers.get_logger("tests")
    told = [
        (SeverityNumber.INFO, "began", {"step": 1}),
        (SeverityNumber.ERROR, "Xid 79: has fallen off the bus ☠ [/not markup]", {"hw.id": "GPU-5c1e", "retry": False}),
        (SeverityNumber.WARN2, {"text": "structured", "n": [1, 2]}, {}),
    ]
    for severity, body, attributes in told:
        logger.emit(severity_number=severity, body=body, attributes=attributes)
    loggers.shutdown()
    rows = leadline.sql(f"SELECT * FROM event WHERE source = '{service}' ORDER BY time_ns")
    assert [row["severity"] for row in rows] == ["info", "error", "warning"]
    assert [row["message"] for row in rows[:2]] == [told[0][1], told[1][1]]
    assert "structured" in rows[2]["message"]
    assert rows[0]["attributes"]["step"] == "1"
    assert rows[1]["attributes"]["retry"] == "false"
    assert {row["host"] for row in rows} == {"n12"}
    assert rows[0]["entity"] == f"service:{service}"


def test_who_sent(leadline: RunningLeadline) -> None:
    """doctor names both ways and what they tell; the SDK's own name stands there."""
    sources = {(each["way"], tuple(each["tells"])): each for each in leadline.doctor()["sources"]}
    ways = {way for way, _ in sources}
    assert ways == {"otlp-grpc", "otlp-http"}
    assert all(each["state"] in ("ok", "warning") for each in sources.values())
    assert any("OTel" in each["name"] for each in sources.values())


def test_traces_are_told_that_nobody_takes_them(leadline: RunningLeadline) -> None:
    answer = leadline.http.post("/v1/traces", content=b"", headers={"content-type": "application/x-protobuf"})
    assert answer.status_code == 404
    assert "takes metrics and logs" in answer.json()["error"]["message"]
    assert leadline.refused()["ingest_refused", "span"] == 1
