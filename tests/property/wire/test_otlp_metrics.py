"""Laws of OTLP metrics: the scanner gives what upb and a walk in Python give; nothing crashes it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from tests.oracle.agreement import otlp_agrees, otlp_metrics_agree

from leadline.model.errors import DataError, RefusedError
from leadline.wire.otlp import metrics as otlp_metrics
from leadline.wire.otlp.metrics import decode_otlp_metrics

PROTOBUF, JSON = "application/x-protobuf", "application/json"

texts = st.one_of(st.text(max_size=6), st.sampled_from(["", "node-1", "é" * 9, "x" * 140, "mlx5_0"]))
keys = st.sampled_from(
    ["a", "host.name", "telemetry.sdk.name", "telemetry.sdk", "le", "__name__", "otel.scope.name", "zz", "é"]
)
doubles = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0, 0.005, 1e21, 1e-7, 2.5e-6, 1e300, 123456789.125]))
int64s = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 10**18, -(2**63), 9, 10]))
uint64s = st.one_of(st.integers(0, 1000), st.integers(0, 2**64 - 1))
times = st.one_of(st.just(1_700_000_000_000_000_000), st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]))


def any_values(depth: int = 2) -> st.SearchStrategy[AnyValue]:
    flat = st.one_of(
        texts.map(lambda v: AnyValue(string_value=v)),
        texts.map(lambda v: AnyValue(string_value=v)),
        int64s.map(lambda v: AnyValue(int_value=v)),
        st.booleans().map(lambda v: AnyValue(bool_value=v)),
        doubles.map(lambda v: AnyValue(double_value=v)),
        st.binary(max_size=4).map(lambda v: AnyValue(bytes_value=v)),
        st.just(AnyValue()),
    )
    if depth == 0:
        return flat
    inner = st.lists(any_values(depth - 1), max_size=2)
    return st.one_of(
        flat,
        flat,
        flat,
        inner.map(lambda v: AnyValue(array_value={"values": v})),
        inner.map(
            lambda v: AnyValue(kvlist_value={"values": [KeyValue(key=f"k{i}", value=x) for i, x in enumerate(v)]})
        ),
    )


attributes = st.lists(st.builds(lambda k, v: KeyValue(key=k, value=v), keys, any_values()), max_size=4)


@st.composite
def points(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    time = draw(times) if draw(st.integers(0, 5)) == 0 else 1_700_000_000_000_000_000
    point: dict[str, Any] = {"attributes": draw(attributes), "time_unix_nano": time, "start_time_unix_nano": 7}
    point["flags"] = draw(st.sampled_from([0, 0, 0, 1, 2, 3, 2**32 - 1]))
    if kind in ("gauge", "sum"):
        which = draw(st.sampled_from(["as_double", "as_double", "as_int", ""]))
        if which:
            point[which] = draw(doubles if which == "as_double" else int64s)
    else:
        point["count"] = draw(uint64s)
        if draw(st.booleans()) or kind == "summary":
            point["sum"] = draw(doubles)
    if kind in ("histogram", "exponential_histogram"):
        for field in ("min", "max"):
            if draw(st.booleans()):
                point[field] = draw(doubles)
    if kind == "histogram":
        bounds = draw(st.lists(doubles, max_size=3))
        size = len(bounds) + 1 if draw(st.integers(0, 4)) else draw(st.integers(0, 4))
        point["explicit_bounds"] = bounds
        point["bucket_counts"] = draw(st.lists(uint64s, min_size=size, max_size=size))
    if kind == "exponential_histogram":
        point["scale"] = draw(st.integers(-3, 3))
        point["positive"] = {"offset": 1, "bucket_counts": draw(st.lists(uint64s, max_size=3))}
        point["negative"] = {"bucket_counts": draw(st.lists(uint64s, max_size=2))}
    if kind == "summary":
        pairs = draw(st.lists(st.tuples(doubles, doubles), max_size=3))
        point["quantile_values"] = [{"quantile": q, "value": v} for q, v in pairs]
    elif draw(st.integers(0, 3)) == 0:
        point["exemplars"] = [{"as_double": 1.5, "trace_id": b"\x01" * 16, "span_id": b"\x02" * 8}]
    return point


@st.composite
def metrics(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["gauge", "sum", "sum", "histogram", "exponential_histogram", "summary", ""]))
    name = draw(st.sampled_from(["hw.gpu.io", "up", "é.b", "", "n" * 150]))
    metric: dict[str, Any] = {"name": name, "unit": draw(st.sampled_from(["", "By", "s", "1"])), "description": "d"}
    if kind:
        data: dict[str, Any] = {"data_points": draw(st.lists(points(kind), max_size=3))}
        if kind in ("sum", "histogram", "exponential_histogram"):
            data["aggregation_temporality"] = draw(st.sampled_from([0, 1, 2]))
        if kind == "sum":
            data["is_monotonic"] = draw(st.booleans())
        metric[kind] = data
    return metric


@st.composite
def requests(draw: st.DrawFn) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    for _ in range(draw(st.integers(0, 2))):
        resource_metrics = request.resource_metrics.add()
        resource_metrics.resource.attributes.extend(draw(attributes))
        for _ in range(draw(st.integers(0, 2))):
            scope = {"name": draw(st.sampled_from(["", "agent", "é"])), "version": "1"}
            made = draw(st.lists(metrics(), max_size=3))
            resource_metrics.scope_metrics.add(scope=scope, metrics=made, schema_url="https://x")
    return request


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(requests())
def test_agrees_with_upb(request: ExportMetricsServiceRequest) -> None:
    otlp_agrees(decode_otlp_metrics(request.SerializeToString(), PROTOBUF), request)


@settings(max_examples=150, deadline=None)
@given(requests())
def test_json_says_the_same(request: ExportMetricsServiceRequest) -> None:
    given = json_format.MessageToDict(request, use_integers_for_enums=True)
    text = json.dumps(_ids_in_hex(given)).encode()
    again = json_format.Parse(json_format.MessageToJson(request), ExportMetricsServiceRequest())
    otlp_agrees(decode_otlp_metrics(text, JSON), again)  # not `request`: JSON has one NaN, a double has many


def _ids_in_hex(given: Any) -> Any:
    if isinstance(given, dict):
        hexed = {"traceId": "01" * 16, "spanId": "02" * 8}
        return {name: hexed.get(name) or _ids_in_hex(value) for name, value in given.items()}
    return [_ids_in_hex(each) for each in given] if isinstance(given, list) else given


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(requests(), st.data())
def test_damaged_bodies(request: ExportMetricsServiceRequest, data: st.DataObject) -> None:
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        size = data.draw(st.integers(0, 2))
        body[at : at + size] = data.draw(st.one_of(st.binary(max_size=2), st.sampled_from([b"\x80", b"\x0a", b"\xff"])))
    otlp_metrics_agree(bytes(body))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=60), requests().map(lambda r: r.SerializeToString()[:-1])))
def test_any_bytes_decode_or_raise_data_error(body: bytes) -> None:
    otlp_metrics_agree(body)
    with contextlib.suppress(DataError):
        decode_otlp_metrics(body, JSON)


words = st.sampled_from(
    [
        "resourceMetrics",
        "resource",
        "scopeMetrics",
        "metrics",
        "name",
        "gauge",
        "dataPoints",
        "asInt",
        "asDouble",
        "timeUnixNano",
        "attributes",
        "key",
        "value",
        "stringValue",
        "intValue",
        "bytesValue",
        "exemplars",
        "traceId",
    ]
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), int64s, st.floats(allow_nan=False), texts, st.sampled_from(["1", "-1", "NaN"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=250, deadline=None)
@given(json_values, st.lists(words, max_size=6))
def test_any_json_decodes_or_raises_data_error(value: Any, path: list[str]) -> None:
    for word in reversed(path):
        value = {word: [value] if word[-1] == "s" else value}
    with contextlib.suppress(DataError):
        decode_otlp_metrics(json.dumps(value).encode(), JSON)


def test_fields_in_any_order() -> None:
    """protobuf lets a sender write fields in any order: values before attributes, metrics before the resource."""
    request = ExportMetricsServiceRequest()
    resource_metrics = request.resource_metrics.add()
    resource_metrics.resource.attributes.add(key="host.name").value.string_value = "n1"
    metric = {"name": "x", "sum": {"data_points": [{"time_unix_nano": 5, "as_int": 3}], "is_monotonic": True}}
    resource_metrics.scope_metrics.add(scope={"name": "s"}, metrics=[metric])
    raw = resource_metrics.SerializeToString()
    size = 2 + raw[1]
    turned = raw[size:] + raw[:size]
    body = b"\x0a" + bytes([len(turned)]) + turned
    otlp_agrees(decode_otlp_metrics(body, PROTOBUF), request)


def test_more_rows_than_first_guessed() -> None:
    """Empty points and attributes take two bytes each: the tables grow until they fit."""
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="x")
    for _ in range(3000):
        metric.gauge.data_points.add()
    point = metric.gauge.data_points.add(time_unix_nano=1, as_int=1)
    for number in range(200):
        point.attributes.add(key=f"k{number}")
    samples = decode_otlp_metrics(request.SerializeToString(), PROTOBUF)
    assert samples.dropped == {"time_missing": 3000}
    assert len(samples.value) == 1


def test_labels_written_out_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ExportMetricsServiceRequest()
    resource_metrics = request.resource_metrics.add()
    resource_metrics.resource.attributes.add(key="big").value.string_value = "x" * 10_000
    metric = resource_metrics.scope_metrics.add().metrics.add(name="x")
    for _ in range(100):
        metric.gauge.data_points.add(time_unix_nano=1, as_int=1)
    monkeypatch.setattr(otlp_metrics, "LABEL_BYTES_MAX", 1_100_000)
    assert len(decode_otlp_metrics(request.SerializeToString(), PROTOBUF).value) == 100
    monkeypatch.setattr(otlp_metrics, "LABEL_BYTES_MAX", 900_000)
    with pytest.raises(RefusedError, match="labels of this request") as refusal:
        decode_otlp_metrics(request.SerializeToString(), PROTOBUF)
    assert refusal.value.reason == "decompressed_too_large"


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty points are two bytes each on the wire, so their number is bounded and not only the body's."""
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="x")
    for _ in range(1000):
        metric.gauge.data_points.add()
    monkeypatch.setattr(otlp_metrics, "ROWS_MAX", 1000)
    assert decode_otlp_metrics(request.SerializeToString(), PROTOBUF).dropped == {"time_missing": 1000}
    monkeypatch.setattr(otlp_metrics, "ROWS_MAX", 999)
    with pytest.raises(RefusedError, match="more than 999 points"):
        decode_otlp_metrics(request.SerializeToString(), PROTOBUF)
