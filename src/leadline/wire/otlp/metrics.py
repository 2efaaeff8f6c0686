"""Decodes OTLP metric requests into streams and samples.

    ExportMetricsServiceRequest --scan--> tables --texts--> arena --list, write--> Samples
                                 kernel           Python           kernels

A point's stream has the metric's name as it came, the attributes of its resource (without `telemetry.sdk.*`),
`otel.scope.name`, and its own attributes, which win. Histograms and summaries become the streams Prometheus
knows: `_count`, `_sum`, `_bucket{le}`, `{quantile}`. docs/formats/otlp.md has the whole mapping.
Source: opentelemetry-proto 1.x; "Prometheus and OpenMetrics Compatibility" of the OpenTelemetry specification.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from leadline.model.errors import DataError, RefusedError
from leadline.model.units import COUNT, canonical_unit
from leadline.wire.labels import LABELS_MAX
from leadline.wire.otlp.arena import make_arena
from leadline.wire.otlp.requests import scan
from leadline.wire.otlp.streams import (
    COUNTS_SIZE,
    CROWDED,
    EMPTY,
    LABEL_BYTES,
    LATE,
    LONG,
    LOST_BUCKETS,
    NO_TIME,
    ROOM,
    STREAMS,
    UNNAMED,
    list_streams,
    write_streams,
)
from leadline.wire.otlp.tables import (
    BOUNDS,
    BUCKETS,
    DATA,
    ERROR,
    ERROR_AT,
    EXEMPLARS,
    EXPONENTIAL,
    FULL,
    GAUGE,
    HELP,
    HELP_SIZE,
    HISTOGRAM,
    METRICS,
    MONOTONIC,
    NAME,
    NAME_SIZE,
    NATIVE,
    POINTS,
    SUM,
    SUMMARY,
    TWICE,
    UNIT,
    UNIT_SIZE,
    UTF8,
    Tables,
    empty_tables,
)
from leadline.wire.otlp.text import JSON, media_type_of, request_from_json
from leadline.wire.proto import (
    BAD_TAG,
    BAD_WIRE_TYPE,
    GROUP,
    LONG_LENGTH,
    LONG_VARINT,
    OK,
    SHORT_FIXED,
    TRUNCATED,
)
from leadline.wire.samples import Metadata, Samples

# What stands in an error, by the codes of `proto` and `otlp_tables`.
EXPECTED = {
    TRUNCATED: "a varint of at most 10 bytes",
    LONG_VARINT: "a varint of at most 10 bytes",
    BAD_TAG: "a field's tag",
    BAD_WIRE_TYPE: "a field's tag",
    SHORT_FIXED: "8 (or 4) more bytes of a fixed-size number",
    LONG_LENGTH: "a length that stays within the message",
    GROUP: "no groups (OTLP has none)",
    TWICE: "a resource, scope, data or value at most once",
    UTF8: "UTF-8 text",
}

# Attributes of a resource are repeated in each of its streams, so a small body can ask for much. A request of
# 8,192 points (the SDK's and the collector's usual batch) with 1 kB of labels each takes 8 MB.
LABEL_BYTES_MAX = 1 << 28

# Points, metrics and scopes of one request; of attributes, buckets and bounds four times as many. An empty point takes
# two bytes on the wire and 112 here, so without a limit 64 MB could ask for 3.6 GB.
ROWS_MAX = 1 << 20

_DROPPED = (
    ("time_missing", NO_TIME),
    ("in_future", LATE),
    ("empty_point", EMPTY),
    ("labels_too_many", CROWDED),
    ("label_invalid", UNNAMED),
    ("label_too_long", LONG),
)

_TYPES = {
    GAUGE: "gauge",
    SUM: "gauge",  # counter if it is monotonic
    HISTOGRAM: "histogram",
    EXPONENTIAL: "histogram",
    SUMMARY: "summary",
}


class _Streams(NamedTuple):
    """What `list_streams` and `write_streams` fill; the columns of `listed` stand there."""

    counts: NDArray[np.int64]
    listed: NDArray[np.int64]  # (L, 7)
    value: NDArray[np.float64]  # (L,), as the following
    label_bytes: NDArray[np.uint8]  # (B,)
    label_start: NDArray[np.int64]
    label_end: NDArray[np.int64]
    ids: NDArray[np.uint64]  # (L, 2)
    time_ns: NDArray[np.int64]


def decode_otlp_metrics(body: bytes, content_type: str) -> Samples:
    """Streams, samples and metadata of one ExportMetricsServiceRequest.

    Inputs: the unpacked body; `application/x-protobuf` or `application/json`.
    Returns: one stream per sample, in the order of the points. A point flagged "no recorded value" is
    Prometheus' stale marker. Points without a time, a value or a name are counted in `dropped`.
    Errors: DataError for a body that is no such request; RefusedError for another content type, for more
    than ROWS_MAX points, or if the labels written out take more than LABEL_BYTES_MAX.
    """
    body = bytes(body)
    if media_type_of(content_type) == JSON:
        body = request_from_json(body, ExportMetricsServiceRequest).SerializeToString()
    tables = _scan(body)
    arena, words, bound_texts = make_arena(body, tables)
    streams = _streams(tables, arena, words, bound_texts)
    count = int(streams.counts[STREAMS])
    return Samples(
        label_bytes=streams.label_bytes[: int(streams.counts[LABEL_BYTES])],
        label_start=streams.label_start[:count],
        label_end=streams.label_end[:count],
        ids=streams.ids[:count],
        sample_series=np.arange(count, dtype=np.int64),
        time_ns=streams.time_ns[:count],
        value=streams.value[:count],
        metadata=_metadata(body, tables),
        dropped=_dropped(tables, streams),
    )


def _scan(body: bytes) -> Tables:
    """Run the scanner, with larger tables until everything fits. Errors: DataError, RefusedError."""
    data = np.frombuffer(body, np.uint8)
    rows = min(len(body) // 64 + 64, ROWS_MAX)  # a point of a real request takes about 70 bytes, an attribute 20
    while True:
        tables = empty_tables(rows)
        scan(tables, data)
        error, at = int(tables.state[ERROR]), int(tables.state[ERROR_AT])
        if error == OK:
            return tables
        if error != FULL:
            got = repr(body[at : at + 8]) if at < len(body) else "the end"
            raise DataError(f"the OTLP body, byte {at}", EXPECTED[error], got)
        if rows >= ROWS_MAX:
            raise RefusedError(
                "decompressed_too_large",
                f"more than {ROWS_MAX} points or {4 * ROWS_MAX} attributes or buckets in one request; send several",
            )
        rows = min(4 * rows, ROWS_MAX)


def _streams(tables: Tables, arena: NDArray[np.uint8], words: int, bound_texts: NDArray[np.int64]) -> _Streams:
    """List and write the streams, with more room for labels until they fit. Errors: RefusedError."""
    points = int(tables.state[POINTS])
    rows = 5 * points + int(tables.state[BUCKETS]) + int(tables.state[BOUNDS])
    room = 2 * len(arena) + 1024
    pairs = np.empty((LABELS_MAX, 4), np.int64)
    while True:
        counts = np.zeros(COUNTS_SIZE, np.int64)
        listed = np.empty((rows, 7), np.int64)
        value = np.empty(rows, np.float64)
        list_streams(tables, counts, listed, value, words, bound_texts)
        streams = _Streams(
            counts=counts,
            listed=listed,
            value=value,
            label_bytes=np.empty(room, np.uint8),
            label_start=np.empty(rows, np.int64),
            label_end=np.empty(rows, np.int64),
            ids=np.empty((rows, 2), np.uint64),
            time_ns=np.empty(rows, np.int64),
        )
        given = (tables.attributes, tables.scopes, tables.metrics, tables.points, arena, words)
        write_streams(*given, pairs, *streams)
        if not counts[ROOM]:
            return streams
        if room >= LABEL_BYTES_MAX:
            raise RefusedError(
                "decompressed_too_large",
                f"the labels of this request take more than {LABEL_BYTES_MAX} bytes written out; "
                "send fewer points at once, or fewer and shorter resource attributes",
            )
        room = min(4 * room, LABEL_BYTES_MAX)


def _dropped(tables: Tables, streams: _Streams) -> dict[str, int]:
    dropped = {reason: int(streams.counts[place]) for reason, place in _DROPPED}
    dropped["exemplar"] = int(tables.state[EXEMPLARS])
    dropped["histogram_buckets"] = int(tables.state[NATIVE] + streams.counts[LOST_BUCKETS])
    return {reason: count for reason, count in dropped.items() if count}


def _metadata(body: bytes, tables: Tables) -> dict[str, Metadata]:
    """Type, unit and help by metric name; the streams of a histogram or summary under their names too."""
    metadata: dict[str, Metadata] = {}
    seen: set[bytes] = set()
    for row in tables.metrics[: int(tables.state[METRICS])].tolist():
        raw = body[row[NAME] : row[NAME] + row[NAME_SIZE]]
        if raw in seen or not raw:
            continue
        seen.add(raw)
        kind = row[DATA]
        type_ = "counter" if kind == SUM and row[MONOTONIC] else _TYPES.get(kind, "")
        unit = canonical_unit(body[row[UNIT] : row[UNIT] + row[UNIT_SIZE]].decode())
        told = body[row[HELP] : row[HELP] + row[HELP_SIZE]].decode()
        name = raw.decode()
        metadata[name] = Metadata(type_, unit, told)
        if kind >= HISTOGRAM:
            for suffix in ("_bucket", "_count"):
                metadata.setdefault(name + suffix, Metadata(type_, COUNT, told))
            metadata.setdefault(name + "_sum", Metadata(type_, unit, told))
            for suffix in ("_min", "_max"):
                metadata.setdefault(name + suffix, Metadata("gauge", unit, told))
    return metadata
