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
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from leadline.model.errors import DataError, RefusedError
from leadline.model.units import COUNT, canonical_unit
from leadline.wire import otlp_kernels as kernels
from leadline.wire.labels import LABELS_MAX
from leadline.wire.otlp_text import JSON, media_type_of, number_text, request_from_json, value_text
from leadline.wire.samples import Metadata, Samples

# What stands in an error, by the codes of `otlp_kernels`.
EXPECTED = (
    "",
    "a varint of at most 10 bytes",
    "a field's tag",
    "8 (or 4) more bytes of a fixed-size number",
    "a length that stays within the message",
    "no groups (OTLP has none)",
    "a resource, scope, data or value at most once",
    "UTF-8 text",
)

# Attributes of a resource are repeated in each of its streams, so a small body can ask for much. A request of
# 8,192 points (the SDK's and the collector's usual batch) with 1 kB of labels each takes 8 MB.
LABEL_BYTES_MAX = 1 << 28

# Points, metrics and scopes of one request; of attributes, buckets and bounds four times as many. An empty point takes
# two bytes on the wire and 112 here, so without a limit 64 MB could ask for 3.6 GB.
ROWS_MAX = 1 << 20

_DROPPED = (
    ("time_missing", kernels.NO_TIME),
    ("in_future", kernels.LATE),
    ("empty_point", kernels.EMPTY),
    ("labels_too_many", kernels.CROWDED),
    ("label_invalid", kernels.UNNAMED),
    ("label_too_long", kernels.LONG),
)

_TYPES = {
    kernels.GAUGE: "gauge",
    kernels.SUM: "gauge",  # counter if it is monotonic
    kernels.HISTOGRAM: "histogram",
    kernels.EXPONENTIAL: "histogram",
    kernels.SUMMARY: "summary",
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
    arena, words, bound_texts = _arena(body, tables)
    streams = _streams(tables, arena, words, bound_texts)
    count = int(streams.counts[kernels.STREAMS])
    return Samples(
        label_bytes=streams.label_bytes[: int(streams.counts[kernels.LABEL_BYTES])],
        label_start=streams.label_start[:count],
        label_end=streams.label_end[:count],
        ids=streams.ids[:count],
        sample_series=np.arange(count, dtype=np.int64),
        time_ns=streams.time_ns[:count],
        value=streams.value[:count],
        metadata=_metadata(body, tables),
        dropped=_dropped(tables, streams),
    )


def _scan(body: bytes) -> kernels.Tables:
    """Run the scanner, with larger tables until everything fits. Errors: DataError, RefusedError."""
    data = np.frombuffer(body, np.uint8)
    rows = min(len(body) // 64 + 64, ROWS_MAX)  # a point of a real request takes about 70 bytes, an attribute 20
    while True:
        tables = _tables(rows)
        kernels.scan(tables, data)
        error, at = int(tables.state[kernels.ERROR]), int(tables.state[kernels.ERROR_AT])
        if error == kernels.OK:
            return tables
        if error != kernels.FULL:
            got = repr(body[at : at + 8]) if at < len(body) else "the end"
            raise DataError(f"the OTLP body, byte {at}", EXPECTED[error], got)
        if rows >= ROWS_MAX:
            raise RefusedError(
                "decompressed_too_large",
                f"more than {ROWS_MAX} points or {4 * ROWS_MAX} attributes or buckets in one request; send several",
            )
        rows = min(4 * rows, ROWS_MAX)


def _tables(rows: int) -> kernels.Tables:
    value_bits = np.empty((rows, 3), np.int64)
    bound_bits = np.empty(4 * rows, np.int64)
    return kernels.Tables(
        state=np.zeros(kernels.STATE_SIZE, np.int64),
        attributes=np.empty((4 * rows, 5), np.int64),
        scopes=np.empty((rows, 4), np.int64),
        metrics=np.empty((rows, 11), np.int64),
        points=np.empty((rows, 11), np.int64),
        value_bits=value_bits,
        value=value_bits.view(np.float64),
        buckets=np.empty(4 * rows, np.int64),
        bound_bits=bound_bits,
        bounds=bound_bits.view(np.float64),
    )


def _arena(body: bytes, tables: kernels.Tables) -> tuple[NDArray[np.uint8], int, NDArray[np.int64]]:
    """The body with every text behind it that labels need.

        body | WORDS | SUFFIXES | texts made here | integers | names of histograms

    Returns: (arena, where WORDS stand, (D, 2) spans of the bounds' texts). Errors: DataError.
    """
    words = len(body)
    suffixes = words + len(kernels.WORDS)
    at = suffixes + len(kernels.SUFFIXES)
    texts: list[bytes] = []
    at = _other_texts(body, tables, at, texts)
    bound_texts = _bound_texts(tables, at, texts)
    fixed = b"".join((body, kernels.WORDS, kernels.SUFFIXES, *texts))
    metrics = tables.metrics[: int(tables.state[kernels.METRICS])]
    named = metrics[metrics[:, kernels.DATA] >= kernels.HISTOGRAM]
    names = int(5 * named[:, kernels.NAME_SIZE].sum()) + len(named) * len(kernels.SUFFIXES)
    integers = int(tables.state[kernels.INTEGERS]) * kernels.INTEGER_BYTES
    arena = np.empty(len(fixed) + integers + names, np.uint8)
    arena[: len(fixed)] = np.frombuffer(fixed, np.uint8)
    attributes = int(tables.state[kernels.ATTRIBUTES])
    at = kernels.write_integers(tables.attributes, attributes, arena, len(fixed), words)
    kernels.write_names(tables.metrics, len(metrics), arena, at, suffixes)
    return arena, words, bound_texts


def _other_texts(body: bytes, tables: kernels.Tables, at: int, texts: list[bytes]) -> int:
    """Texts of doubles, arrays, maps and bytes; their rows become TEXT. Returns the end of what was added."""
    attributes = tables.attributes[: int(tables.state[kernels.ATTRIBUTES])]
    known: dict[bytes, tuple[int, int]] = {}
    for row in np.flatnonzero(attributes[:, kernels.KIND] == kernels.OTHER).tolist():
        start, size = (int(attributes[row, column]) for column in (kernels.VALUE, kernels.VALUE_SIZE))
        raw = body[start : start + size]
        if raw not in known:
            text = _other_text(raw, start)
            known[raw] = at, len(text)
            texts.append(text)
            at += len(text)
        attributes[row, kernels.KIND] = kernels.TEXT
        attributes[row, kernels.VALUE], attributes[row, kernels.VALUE_SIZE] = known[raw]
    return at


def _other_text(raw: bytes, start: int) -> bytes:
    try:
        return value_text(AnyValue.FromString(raw)).encode()
    except DecodeError as error:
        raise DataError(f"the OTLP body, byte {start}", "an attribute's value", str(error)) from None


def _bound_texts(tables: kernels.Tables, at: int, texts: list[bytes]) -> NDArray[np.int64]:
    """(D, 2) spans of the texts of bucket bounds and quantiles, each distinct number written once."""
    bits = tables.bound_bits[: int(tables.state[kernels.BOUNDS])]
    spans = np.zeros((len(bits), 2), np.int64)
    distinct, number_D = np.unique(bits, return_inverse=True)
    rows = []
    for value in distinct.view(np.float64).tolist():
        text = number_text(value).encode()
        texts.append(text)
        rows.append((at, len(text)))
        at += len(text)
    if rows:
        spans[:] = np.array(rows, np.int64)[number_D]
    return spans


def _streams(tables: kernels.Tables, arena: NDArray[np.uint8], words: int, bound_texts: NDArray[np.int64]) -> _Streams:
    """List and write the streams, with more room for labels until they fit. Errors: RefusedError."""
    points = int(tables.state[kernels.POINTS])
    rows = 5 * points + int(tables.state[kernels.BUCKETS]) + int(tables.state[kernels.BOUNDS])
    room = 2 * len(arena) + 1024
    pairs = np.empty((LABELS_MAX, 4), np.int64)
    while True:
        counts = np.zeros(kernels.COUNTS_SIZE, np.int64)
        listed = np.empty((rows, 7), np.int64)
        value = np.empty(rows, np.float64)
        kernels.list_streams(tables, counts, listed, value, words, bound_texts)
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
        kernels.write_streams(*given, pairs, *streams)
        if not counts[kernels.ROOM]:
            return streams
        if room >= LABEL_BYTES_MAX:
            raise RefusedError(
                "decompressed_too_large",
                f"the labels of this request take more than {LABEL_BYTES_MAX} bytes written out; "
                "send fewer points at once, or fewer and shorter resource attributes",
            )
        room = min(4 * room, LABEL_BYTES_MAX)


def _dropped(tables: kernels.Tables, streams: _Streams) -> dict[str, int]:
    dropped = {reason: int(streams.counts[place]) for reason, place in _DROPPED}
    dropped["exemplar"] = int(tables.state[kernels.EXEMPLARS])
    dropped["histogram_buckets"] = int(tables.state[kernels.NATIVE] + streams.counts[kernels.LOST_BUCKETS])
    return {reason: count for reason, count in dropped.items() if count}


def _metadata(body: bytes, tables: kernels.Tables) -> dict[str, Metadata]:
    """Type, unit and help by metric name; the streams of a histogram or summary under their names too."""
    metadata: dict[str, Metadata] = {}
    seen: set[bytes] = set()
    for row in tables.metrics[: int(tables.state[kernels.METRICS])].tolist():
        raw = body[row[kernels.NAME] : row[kernels.NAME] + row[kernels.NAME_SIZE]]
        if raw in seen or not raw:
            continue
        seen.add(raw)
        kind = row[kernels.DATA]
        type_ = "counter" if kind == kernels.SUM and row[kernels.MONOTONIC] else _TYPES.get(kind, "")
        unit = canonical_unit(body[row[kernels.UNIT] : row[kernels.UNIT] + row[kernels.UNIT_SIZE]].decode())
        told = body[row[kernels.HELP] : row[kernels.HELP] + row[kernels.HELP_SIZE]].decode()
        name = raw.decode()
        metadata[name] = Metadata(type_, unit, told)
        if kind >= kernels.HISTOGRAM:
            for suffix in ("_bucket", "_count"):
                metadata.setdefault(name + suffix, Metadata(type_, COUNT, told))
            metadata.setdefault(name + "_sum", Metadata(type_, unit, told))
            for suffix in ("_min", "_max"):
                metadata.setdefault(name + suffix, Metadata("gauge", unit, told))
    return metadata
