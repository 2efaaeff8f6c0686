"""Samples as an OTLP/HTTP metrics request in protobuf, made from parts that hardly change.

One stream is one `Metric` with one point, whose time and value lie at its very end as fixed 8-byte fields:

    ScopeMetrics.metrics { name, unit, sum|gauge { temporality, monotonic, data_points { attributes, time, value } } }

So all but the last 18 bytes of a stream's bytes stay the same from reading to reading, lengths included, and are made
once. Without it, JSON or a protobuf library would be most of the agent's CPU time. Source: opentelemetry-proto 1.x.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from leadline.host.found import Labels, Sample, Stream

CONTENT_TYPE = "application/x-protobuf"
_POINT_END = struct.Struct("<BqBd")  # time_unix_nano, as_double
_CUMULATIVE, _MONOTONIC = b"\x10\x02", b"\x18\x01"
STREAMS_MAX = 16_384  # whose parts are kept; about 200 bytes each


def metrics_request(samples: Iterable[Sample], resource: Labels, own_resource: Labels) -> bytes:
    """The body of POST /v1/metrics.

    Inputs: samples; the attributes of the host, and those of the agent, under which streams with `own` are told.
    Returns: an ExportMetricsServiceRequest; empty if there are no samples.
    """
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for stream, time_ns, value in samples:
        parts[stream.own].append(_stream(stream) + _POINT_END.pack(0x19, time_ns, 0x21, value))
    return b"".join(
        _field(1, _resource(attributes) + _field(2, b"".join(metrics)))
        for attributes, metrics in zip((resource, own_resource), parts, strict=True)
        if metrics
    )


@lru_cache(maxsize=STREAMS_MAX)
def _stream(stream: Stream) -> bytes:
    """Everything of a stream's Metric but the end of its point."""
    attributes = b"".join(_field(7, _attribute(name, value)) for name, value in stream.labels)
    size = len(attributes) + _POINT_END.size
    kind = _CUMULATIVE + _MONOTONIC if stream.counter else b""
    inner = kind + b"\x0a" + _varint(size) + attributes  # data_points
    text = _field(1, _utf8(stream.name)) + (_field(3, _utf8(stream.unit)) if stream.unit else b"")
    metric = text + (b"\x3a" if stream.counter else b"\x2a") + _varint(len(inner) + _POINT_END.size) + inner
    return b"\x12" + _varint(len(metric) + _POINT_END.size) + metric  # ScopeMetrics.metrics


@lru_cache(maxsize=8)
def _resource(attributes: Labels) -> bytes:
    return _field(1, b"".join(_field(1, _attribute(name, value)) for name, value in attributes))


def _attribute(name: str, value: str) -> bytes:
    return _field(1, _utf8(name)) + _field(2, _field(1, _utf8(value)))


def _utf8(text: str) -> bytes:
    """A name of the system's that is no UTF-8 comes to us with lone surrogates: those become question marks."""
    return text.encode("utf-8", "replace")


def _field(number: int, body: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
