"""Metrics: remote-write, OTLP, pages that are scraped; and the encodings that bodies come in."""

from __future__ import annotations

import contextlib
import zlib

import cramjam
from tests.fuzz.target import REFUSALS
from tests.fuzz.targets.guarded import Guarded
from tests.oracle.agreement import exposition_agrees, otlp_metrics_agree, remote_write_agrees, rows_of

from leadline.model.errors import DataError, RefusedError
from leadline.wire.body import Body
from leadline.wire.exposition.pages import OPENMETRICS
from leadline.wire.otlp.logs import decode_otlp_logs
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.otlp.text import JSON, PROTOBUF

TEXT = "text/plain; version=0.0.4"
_PAGE = ["# HELP ", "# TYPE ", "# UNIT ", "# EOF\n", "counter", "gauge", "histogram", "summary", "_total", "_bucket",
         'le="+Inf"', " # {", "+Inf", "NaN", "1e-400", "9223372036854", "__name__"]  # fmt: skip
_ANY = ['"stringValue":', '"intValue":', '"doubleValue":', '"boolValue":', '"bytesValue":', '"arrayValue":{"values":[',
        '"kvlistValue":{"values":[', '"key":', '"value":', '"attributes":[', '"name":', '"scope":{', '"resource":{',
        '"timeUnixNano":', '"traceId":', '"spanId":', "null", '"NaN"', "\\ud800", "host.name"]  # fmt: skip
WORDS = {
    "exposition": _PAGE,
    "openmetrics": _PAGE,
    "otlp_metrics_json": [*_ANY, '"resourceMetrics":[', '"scopeMetrics":[', '"metrics":[', '"dataPoints":[',
                          '"gauge":{',
                          '"sum":{', '"histogram":{', '"exponentialHistogram":{', '"summary":{', '"asInt":',
                          '"asDouble":', '"bucketCounts":[', '"explicitBounds":[', '"aggregationTemporality":',
                          '"isMonotonic":', '"quantileValues":[', '"exemplars":[', '"flags":', '"unit":'],
    "otlp_logs_json": [*_ANY, '"resourceLogs":[', '"scopeLogs":[', '"logRecords":[', '"body":{', '"eventName":',
                       '"severityNumber":', '"severityText":', '"observedTimeUnixNano":'],
    "otlp_metrics": ["host.name", "service.name", "telemetry.sdk.name", "__name__", "le"],
    "otlp_logs": ["host.name", "host.boot.id", "service.name", "leadline.rank", "job"],
    "remote_write_1": ["__name__", "job", "instance"],
    "remote_write_2": ["__name__", "job", "instance"],
}  # fmt: skip
BODY_BYTES_MAX, UNPACKED_BYTES_MAX = 1 << 16, 1 << 20
PACKED = ("gzip", "deflate", "snappy", "zstd")

_room: list[Guarded] = []


def _guarded(data: bytes) -> memoryview:
    """Made at the first input: the test that replays a corpus needs no more of them than it has targets."""
    if not _room:
        _room.append(Guarded(BODY_BYTES_MAX))
    return _room[0].place(data)


def remote_write_1(data: bytes) -> None:
    """Prometheus remote-write 1.0, unpacked."""
    remote_write_agrees(data, 1, _guarded(data))


def remote_write_2(data: bytes) -> None:
    """Prometheus remote-write 2.0, unpacked."""
    remote_write_agrees(data, 2, _guarded(data))


def otlp_metrics(data: bytes) -> None:
    """An ExportMetricsServiceRequest as protobuf."""
    otlp_metrics_agree(data)


def otlp_metrics_json(data: bytes) -> None:
    """The same as JSON."""
    with contextlib.suppress(*REFUSALS):
        rows_of(decode_otlp_metrics(data, JSON))


def otlp_logs(data: bytes) -> None:
    """An ExportLogsServiceRequest as protobuf."""
    _logs(data, PROTOBUF)


def otlp_logs_json(data: bytes) -> None:
    """The same as JSON."""
    _logs(data, JSON)


def _logs(data: bytes, content_type: str) -> None:
    with contextlib.suppress(*REFUSALS):
        columns = decode_otlp_logs(data, content_type)
        assert len({len(values) for values in columns.values()}) == 1, "columns of unequal length"
        for values in columns.values():
            for value in values:
                str(value).encode()  # what is no UTF-8 cannot be stored


def exposition(data: bytes) -> None:
    """A page that was scraped, read as Prometheus' text."""
    exposition_agrees(data, TEXT)


def openmetrics(data: bytes) -> None:
    """A page that was scraped, read as OpenMetrics."""
    exposition_agrees(data, OPENMETRICS)


def body(data: bytes) -> None:
    """A packed body: first byte: how; second: size of the pieces that it comes in. Pieces change nothing."""
    if len(data) < 2:
        return
    encoding, piece, packed = PACKED[data[0] % len(PACKED)], data[1] or 256, data[2:]
    whole = _unpacked(encoding, [packed])
    pieces = _unpacked(encoding, [packed[at : at + piece] for at in range(0, len(packed), piece)])
    assert whole == pieces, "pieces change what a body unpacks to"
    if whole is None:
        return
    assert len(whole) <= UNPACKED_BYTES_MAX
    if encoding == "gzip":
        assert whole == zlib.decompress(packed, wbits=31)
    elif encoding == "deflate":
        assert whole == zlib.decompress(packed)
    elif encoding == "snappy":
        assert whole == bytes(cramjam.snappy.decompress_raw(packed))


def _unpacked(encoding: str, pieces: list[bytes]) -> bytes | None:
    held = 0

    def hold(more: int) -> None:
        nonlocal held
        held += more

    one = Body(encoding, BODY_BYTES_MAX, UNPACKED_BYTES_MAX)
    try:
        for piece in pieces:
            one.feed(piece)
        found = one.finish(hold)
    except (DataError, RefusedError):
        return None
    assert held == len(found), f"held {held} bytes for {len(found)}"
    return found
