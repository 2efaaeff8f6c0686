"""The oracle of remote-write: upb's messages, built at run time, and a plain walk over them.

Nothing here shares code with `wire.remote_write` but the reasons of what is dropped, the shape `Metadata` and
the definition of a series id in `model.ids`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from leadline.model.ids import series_id
from leadline.wire.labels import LABELS_MAX
from leadline.wire.samples import STALE_NAN_BITS, Metadata

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "double": _Field.TYPE_DOUBLE,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "sint64": _Field.TYPE_SINT64,
    "int32": _Field.TYPE_INT32,
    "uint32": _Field.TYPE_UINT32,
    "sint32": _Field.TYPE_SINT32,
    "string": _Field.TYPE_STRING,
}
# name number type; `*` repeated; `/group` in a oneof. Enums are int32 on the wire and written so here.
_HISTOGRAM = """count_int 1 uint64/count, count_float 2 double/count, sum 3 double, schema 4 sint32,
    zero_threshold 5 double, zero_count_int 6 uint64/zero, zero_count_float 7 double/zero,
    negative_spans 8 BucketSpan*, negative_deltas 9 sint64*, negative_counts 10 double*,
    positive_spans 11 BucketSpan*, positive_deltas 12 sint64*, positive_counts 13 double*,
    reset_hint 14 int32, timestamp 15 int64, custom_values 16 double*"""
_SPAN = "offset 1 sint32, length 2 uint32"
_SAMPLE = "value 1 double, timestamp 2 int64"
_V1 = {
    "Label": "name 1 string, value 2 string",
    "Sample": _SAMPLE,
    "Exemplar": "labels 1 Label*, value 2 double, timestamp 3 int64",
    "BucketSpan": _SPAN,
    "Histogram": _HISTOGRAM,
    "TimeSeries": "labels 1 Label*, samples 2 Sample*, exemplars 3 Exemplar*, histograms 4 Histogram*",
    "MetricMetadata": "type 1 int32, metric_family_name 2 string, help 4 string, unit 5 string",
    "WriteRequest": "timeseries 1 TimeSeries*, metadata 3 MetricMetadata*",
}
_V2 = {
    "Sample": _SAMPLE,
    "Exemplar": "labels_refs 1 uint32*, value 2 double, timestamp 3 int64",
    "BucketSpan": _SPAN,
    "Histogram": _HISTOGRAM,
    "Metadata": "type 1 int32, help_ref 3 uint32, unit_ref 4 uint32",
    "TimeSeries": """labels_refs 1 uint32*, samples 2 Sample*, histograms 3 Histogram*, exemplars 4 Exemplar*,
        metadata 5 Metadata, created_timestamp 6 int64""",
    "Request": "symbols 4 string*, timeseries 5 TimeSeries*",
}


def _messages(package: str, declared: dict[str, str]) -> dict[str, Any]:
    """The message classes of one package, from the little language above."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in declared.items():
        message = file.message_type.add(name=name)
        groups: list[str] = []
        for text in fields.split(","):
            field_name, number, kind = text.split()
            kind, _, group = kind.partition("/")
            repeated, kind = kind.endswith("*"), kind.rstrip("*")
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            one = message.field.add(name=field_name, number=int(number), label=label)
            if kind in _SCALARS:
                one.type = _SCALARS[kind]
            else:
                one.type, one.type_name = _Field.TYPE_MESSAGE, f".{package}.{kind}"
            if group:
                if group not in groups:
                    groups.append(group)
                    message.oneof_decl.add(name=group)
                one.oneof_index = groups.index(group)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in declared}


V1 = _messages("prometheus", _V1)
V2 = _messages("io.prometheus.write.v2", _V2)


@dataclass
class Decoded:
    """What a body says: samples as (series id, time in ns, bits of the value) in the order of the body."""

    samples: list[tuple[int, int, int]] = field(default_factory=list)
    labels: dict[int, dict[str, str]] = field(default_factory=dict)
    metadata: dict[str, Metadata] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)

    def drop(self, reason: str, number: int = 1) -> None:
        if number:
            self.dropped[reason] = self.dropped.get(reason, 0) + number


_KINDS = ("", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")


def decode(body: bytes, version: int) -> Decoded:
    """Walk a body as upb reads it. Errors: google.protobuf.message.DecodeError."""
    out = Decoded()
    if version == 1:
        request = V1["WriteRequest"].FromString(body)
        for one in request.metadata:
            if one.metric_family_name:
                _tell(out, one.metric_family_name, one.type, one.help, one.unit)
        for stream in request.timeseries:
            _stream(out, stream, [(label.name, label.value) for label in stream.labels])
        return out
    request = V2["Request"].FromString(body)
    symbols = list(request.symbols)
    for stream in request.timeseries:
        refs = list(stream.labels_refs)
        pairs = None
        if len(refs) % 2 == 0 and all(ref < len(symbols) for ref in refs):
            pairs = [(symbols[refs[i]], symbols[refs[i + 1]]) for i in range(0, len(refs), 2)]
        if _stream(out, stream, pairs) and stream.HasField("metadata"):
            help_, unit = (
                symbols[ref] if ref < len(symbols) else ""
                for ref in (stream.metadata.help_ref, stream.metadata.unit_ref)
            )
            _tell(out, dict(kept(pairs))["__name__"], stream.metadata.type, help_, unit)
    return out


def kept(pairs: list[tuple[str, str]] | None) -> list[tuple[str, str]]:
    """Labels with an empty value are no labels."""
    return [(name, value) for name, value in pairs or [] if value]


def _tell(out: Decoded, name: str, kind: int, help_: str, unit: str) -> None:
    out.metadata.setdefault(name, Metadata(_KINDS[kind] if 0 <= kind < len(_KINDS) else "", unit, help_))


def _stream(out: Decoded, stream: Any, pairs: list[tuple[str, str]] | None) -> bool:
    """Take one stream; whether it was kept."""
    out.drop("exemplar", len(stream.exemplars))
    size = len(stream.samples) + 2 * len(stream.histograms)
    if pairs is not None and len(pairs) > LABELS_MAX:
        out.drop("labels_too_many", size)
        return False
    labels = dict(kept(pairs))
    names = [name for name, _ in kept(pairs)]
    if len(set(names)) < len(names) or "" in names or "__name__" not in names:
        out.drop("label_invalid", size)
        return False
    _samples(out, labels, [(one.timestamp, _bits(one.value)) for one in stream.samples])
    counts, sums = [], []
    for one in stream.histograms:
        count = one.count_float if one.WhichOneof("count") == "count_float" else float(one.count_int)
        stale = _bits(one.sum) == STALE_NAN_BITS
        counts.append((one.timestamp, STALE_NAN_BITS if stale else _bits(count)))
        sums.append((one.timestamp, _bits(one.sum)))
        for buckets in (
            one.negative_deltas,
            one.negative_counts,
            one.positive_deltas,
            one.positive_counts,
        ):
            out.drop("histogram_buckets", len(buckets))
    _samples(out, labels | {"__name__": labels["__name__"] + "_count"}, counts)
    _samples(out, labels | {"__name__": labels["__name__"] + "_sum"}, sums)
    return True


def _samples(out: Decoded, labels: dict[str, str], samples: list[tuple[int, int]]) -> None:
    series = series_id(labels)
    for ms, bits in samples:
        if abs(ms) > (2**63 - 1) // 10**6:
            out.drop("in_future" if ms > 0 else "too_old")
        else:
            out.labels[series] = labels
            out.samples.append((series, ms * 10**6, bits))


def _bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def varint(value: int) -> bytes:
    """Protobuf's shortest form of a number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])
