"""`wire.otlp_metrics`: what a request becomes, point by point; what errors say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint

from leadline.model.errors import DataError, RefusedError
from leadline.wire.labels import NAME_BYTES_MAX
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.otlp.text import number_text
from leadline.wire.samples import STALE_NAN_BITS, Metadata, Samples

PROTOBUF = "application/x-protobuf"


def decode(**metric: Any) -> Samples:
    request = ExportMetricsServiceRequest()
    resource_metrics = request.resource_metrics.add()
    for key, value in (("host.name", "n1"), ("telemetry.sdk.name", "x"), ("zone", "a")):
        resource_metrics.resource.attributes.add(key=key).value.string_value = value
    resource_metrics.scope_metrics.add(scope={"name": "agent"}, metrics=[{"name": "m", **metric}])
    return decode_otlp_metrics(request.SerializeToString(), PROTOBUF)


def rows(samples: Samples) -> dict[str, float]:
    """Value by name and own labels, those of the resource and scope checked and left out."""
    out = {}
    for n in range(len(samples.value)):
        labels = samples.labels(n)
        assert (labels.pop("host.name"), labels.pop("otel.scope.name")) == ("n1", "agent")
        labels.pop("zone")
        name = labels.pop("__name__")
        out[name + "".join(f" {key}={value}" for key, value in sorted(labels.items()))] = float(samples.value[n])
    return out


def test_a_gauge_keeps_its_name_and_its_points_attributes_win() -> None:
    attributes = [{"key": "zone", "value": {"string_value": "b"}}, {"key": "n", "value": {"int_value": -5}}]
    samples = decode(
        unit="By",
        description="d",
        gauge={"data_points": [{"time_unix_nano": 7, "as_int": 3, "attributes": attributes}]},
    )
    assert samples.labels(0) == {"__name__": "m", "host.name": "n1", "otel.scope.name": "agent", "zone": "b", "n": "-5"}
    assert samples.metadata == {"m": Metadata("gauge", "bytes", "d")}
    assert samples.time_ns.tolist() == [7]


def test_sums() -> None:
    points = [{"time_unix_nano": 7, "as_double": 2.5}]
    assert decode(sum={"data_points": points, "is_monotonic": True}).metadata["m"].type == "counter"
    assert decode(sum={"data_points": points}).metadata["m"].type == "gauge"
    assert rows(decode(sum={"data_points": points, "aggregation_temporality": 1})) == {"m otel.temporality=delta": 2.5}


def test_a_histogram() -> None:
    point = {
        "time_unix_nano": 7,
        "count": 6,
        "sum": 3.5,
        "min": 0.1,
        "bucket_counts": [1, 2, 3],
        "explicit_bounds": [0.5, 1],
    }
    samples = decode(unit="s", histogram={"data_points": [point], "aggregation_temporality": 2})
    assert rows(samples) == {
        "m_count": 6.0, "m_sum": 3.5, "m_min": 0.1,
        "m_bucket le=0.5": 1.0, "m_bucket le=1": 3.0, "m_bucket le=+Inf": 6.0,
    }  # fmt: skip
    assert samples.metadata["m_bucket"] == Metadata("histogram", "1", "")
    assert samples.metadata["m_sum"] == Metadata("histogram", "s", "")


@pytest.mark.parametrize("after", [b"", b"\x10\x05\x10\x05\x10\x05\x10\x05"], ids=["at-the-end", "before-more"])
def test_a_bound_of_another_wire_type_is_an_unknown_field(after: bytes) -> None:
    """As in every protobuf decoder. Found by fuzzing: field 7 as a varint wanted eight bytes behind it."""
    point = HistogramDataPoint(time_unix_nano=7, count=3, sum=1.5).SerializeToString() + b"\x38\x05" + after
    histogram = b"\x0a" + bytes([len(point)]) + point
    metric = b"\x0a\x01m" + b"\x4a" + bytes([len(histogram)]) + histogram
    body = b"".join((bytes([0x0A, len(metric) + 4, 0x12, len(metric) + 2, 0x12, len(metric)]), metric))
    samples = decode_otlp_metrics(body, PROTOBUF)
    names = [samples.labels(n)["__name__"] for n in range(len(samples.value))]
    assert dict(zip(names, samples.value.tolist(), strict=True)) == {"m_count": 3.0, "m_sum": 1.5, "m_bucket": 3.0}


def test_buckets_that_do_not_match_their_bounds_are_counted() -> None:
    point = {"time_unix_nano": 7, "count": 6, "bucket_counts": [1, 2, 3], "explicit_bounds": [0.5]}
    samples = decode(histogram={"data_points": [point]})
    assert rows(samples) == {"m_count": 6.0}
    assert samples.dropped == {"histogram_buckets": 3}


def test_an_exponential_histogram() -> None:
    point = {"time_unix_nano": 7, "count": 6, "sum": 3.5, "positive": {"bucket_counts": [1, 300]}, "exemplars": [{}]}
    samples = decode(exponential_histogram={"data_points": [point]})
    assert rows(samples) == {"m_count": 6.0, "m_sum": 3.5}
    assert samples.dropped == {"histogram_buckets": 2, "exemplar": 1}


def test_a_summary() -> None:
    point = {"time_unix_nano": 7, "count": 6, "sum": 3.5, "quantile_values": [{"quantile": 0.99, "value": 2}]}
    assert rows(decode(summary={"data_points": [point]})) == {"m_count": 6.0, "m_sum": 3.5, "m quantile=0.99": 2.0}


def test_points_without_a_value_or_time() -> None:
    points = [
        {"time_unix_nano": 7, "flags": 1},
        {"time_unix_nano": 7},
        {"as_int": 1},
        {"time_unix_nano": 2**63, "as_int": 1},
    ]
    samples = decode(gauge={"data_points": points})
    assert samples.value.view(np.uint64).tolist() == [STALE_NAN_BITS]
    assert samples.dropped == {"empty_point": 1, "time_missing": 1, "in_future": 1}


def test_attributes_with_too_long_a_key_are_counted() -> None:
    points = [
        {"time_unix_nano": 7, "as_int": 1, "attributes": [{"key": "k" * size, "value": {"string_value": "x"}}]}
        for size in (NAME_BYTES_MAX, NAME_BYTES_MAX + 1)
    ]
    samples = decode(gauge={"data_points": points})
    assert len(samples.value) == 1
    assert samples.dropped == {"label_too_long": 1}


def test_an_empty_attribute_takes_its_resources_away() -> None:
    points = [{"time_unix_nano": 7, "as_int": 1, "attributes": [{"key": "zone", "value": {"string_value": ""}}]}]
    assert decode(gauge={"data_points": points}).labels(0) == {
        "__name__": "m",
        "host.name": "n1",
        "otel.scope.name": "agent",
    }


def test_json() -> None:
    point = {"timeUnixNano": "7", "asInt": "9", "attributes": [{"key": "a", "value": {"boolValue": True}}], "new": 1}
    request = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [point]}}]}]}]}
    samples = decode_otlp_metrics(json.dumps(request).encode(), "application/json; charset=utf-8")
    assert samples.labels(0) == {"__name__": "m", "a": "true"}
    assert samples.value.tolist() == [9.0]


def test_errors() -> None:
    with pytest.raises(DataError, match="the OTLP body, byte 1: expected a length that stays within the message"):
        decode_otlp_metrics(b"\x0a\x05", PROTOBUF)
    with pytest.raises(DataError, match="expected ExportMetricsServiceRequest as JSON"):
        decode_otlp_metrics(b"[]", "application/json")
    with pytest.raises(RefusedError, match="got text/plain"):
        decode_otlp_metrics(b"", "text/plain")
    twice = b"\x0a\x04\x0a\x00\x0a\x00"  # one ResourceMetrics with two resources
    with pytest.raises(DataError, match="byte 4: expected a resource, scope, data or value at most once"):
        decode_otlp_metrics(twice, PROTOBUF)


def nested(field: bytes, *tags: int) -> bytes:
    """A field within messages, the innermost tag last."""
    for each in reversed(tags):
        field = bytes([each, len(field)]) + field
    return field


TO_POINT = (0x0A, 0x12, 0x12, 0x2A, 0x0A)  # request > resource > scope > metric > gauge > point


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\x0a", "byte 1: expected a varint of at most 10 bytes, got the end"),
        (nested(b"\x40\x80", *TO_POINT), "byte 11: expected a varint of at most 10 bytes"),
        (nested(b"\x40" + b"\xff" * 11, *TO_POINT), "byte 11: expected a varint of at most 10 bytes"),
        (nested(b"\x88\x80\x80\x80\x80\x00\x01", *TO_POINT), "byte 10: expected a field's tag"),
        (nested(b"\x02", *TO_POINT), "byte 10: expected a field's tag"),
        (nested(b"\x0e", *TO_POINT), "byte 11: expected a field's tag"),
        (nested(b"\x0b", *TO_POINT), "byte 11: expected no groups"),
        (nested(b"\x19\x01", *TO_POINT), "byte 11: expected 8 .or 4. more bytes of a fixed-size number"),
        (nested(b"\x0d\x01", *TO_POINT), "byte 11: expected 8 .or 4. more bytes of a fixed-size number"),
        (nested(b"\x3a\x05\x0a", *TO_POINT), "byte 11: expected a length that stays within the message"),
        (nested(b"\x32\x07" + bytes(7), *TO_POINT[:3], 0x4A, 0x0A), "byte 12: expected a length that stays within"),
        (nested(b"a\xffb", *TO_POINT, 0x3A, 0x0A), "byte 15: expected UTF-8 text"),
    ],
)
def test_malformed_bodies_say_what_and_where(body: bytes, said: str) -> None:
    with pytest.raises(DataError, match="the OTLP body, " + said):
        decode_otlp_metrics(body, PROTOBUF)


def test_bits_of_a_varint_beyond_the_64th_are_dropped() -> None:
    """As upb does: such a body is OTLP to every other receiver."""
    flags = nested(b"\x19" + b"\x05" + bytes(7) + b"\x21" + bytes(8) + b"\x40" + b"\x80" * 9 + b"\x02", 0x0A)
    body = nested(b"\x0a\x01m" + nested(flags, 0x2A), *TO_POINT[:3])
    assert ExportMetricsServiceRequest.FromString(body)
    assert decode_otlp_metrics(body, PROTOBUF).value.tolist() == [0.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"), (0.25, "0.25"), (-0.0, "0"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"), (0.000001, "0.000001"), (float("inf"), "+Inf"), (float("nan"), "NaN"), (5e-324, "5e-324"),
    ],
)  # fmt: skip
def test_numbers_as_text(value: float, text: str) -> None:
    assert number_text(value) == text
