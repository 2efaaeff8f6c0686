"""Reference reading of OTLP metric requests: upb decodes, Python walks. Shares no code with `wire.otlp_metrics`."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

STALE = 0x7FF0000000000002
Row = tuple[tuple[tuple[str, str], ...], int, int]
LABELS_MAX = 256


def bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    short = Decimal(repr(value))
    if 1e-6 <= abs(value) < 1e21:
        text = format(short, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    digits = "".join(map(str, short.as_tuple().digits)).rstrip("0") or "0"
    power = short.adjusted()
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{'+' if power >= 0 else '-'}{abs(power)}"


def text(value: Any) -> str:
    kind = value.WhichOneof("value")
    if kind == "double_value":
        return double(value.double_value)
    if kind in ("array_value", "kvlist_value"):
        return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind == "bool_value":
        return str(value.bool_value).lower()
    return str(getattr(value, kind)) if kind in ("string_value", "int_value") else ""


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: _plain(each.value) for each in value.kvlist_value.values}
    if kind in ("bool_value", "int_value"):
        return getattr(value, kind)
    if kind == "double_value" and math.isfinite(value.double_value):
        return value.double_value
    return text(value) if kind else None


def _attributes(pairs: Iterable[Any]) -> list[tuple[str, str]]:
    return [(each.key, text(each.value)) for each in pairs]


def read(request: ExportMetricsServiceRequest) -> tuple[list[Row], Counter[str]]:
    """Rows as (labels, bits of the value, time in ns), and what was left out by reason."""
    rows: list[Row] = []
    dropped: Counter[str] = Counter()
    for resource_metrics in request.resource_metrics:
        resource = [
            pair
            for pair in _attributes(resource_metrics.resource.attributes)
            if not pair[0].startswith("telemetry.sdk.")
        ]
        for scope_metrics in resource_metrics.scope_metrics:
            scope = [("otel.scope.name", scope_metrics.scope.name)] if scope_metrics.scope.name else []
            for metric in scope_metrics.metrics:
                for point, value_of in _points(metric, dropped):
                    _read_point(metric, point, value_of, (resource, scope), rows, dropped)
    return rows, dropped


def _points(metric: Any, dropped: Counter[str]) -> Iterator[tuple[Any, str]]:
    kind = metric.WhichOneof("data")
    if not kind:
        return
    for point in getattr(metric, kind).data_points:
        if kind != "summary":
            dropped["exemplar"] += len(point.exemplars)
        if kind == "exponential_histogram":
            dropped["histogram_buckets"] += len(point.positive.bucket_counts) + len(point.negative.bucket_counts)
        yield point, kind


def _read_point(
    metric: Any,
    point: Any,
    kind: str,
    common: tuple[list[tuple[str, str]], list[tuple[str, str]]],
    rows: list[Row],
    dropped: Counter[str],
) -> None:
    resource, scope = common
    if not 0 < point.time_unix_nano < 2**63:
        dropped["in_future" if point.time_unix_nano else "time_missing"] += 1
        return
    if not metric.name:
        dropped["label_invalid"] += 1
        return
    stale = point.flags & 1
    values = list(_values(point, kind, metric.name, dropped))
    if not values and not stale:
        dropped["empty_point"] += 1
    if not values and stale:
        values = [(metric.name, [], 0.0)]
    own = _attributes(point.attributes)
    if len(resource) + len(own) + 4 > LABELS_MAX:
        dropped["labels_too_many"] += len(values)
        return
    data = getattr(metric, kind)
    delta = [("otel.temporality", "delta")] if getattr(data, "aggregation_temporality", 0) == 1 else []
    for name, more, value in values:
        pairs = [*resource, *scope, *own, *delta, *more, ("__name__", name)]
        if any(not key for key, _ in pairs):
            dropped["label_invalid"] += 1
            continue
        labels = tuple(sorted((key, label) for key, label in dict(pairs).items() if label))
        rows.append((labels, STALE if stale else bits(value), point.time_unix_nano))


def _values(
    point: Any, kind: str, name: str, dropped: Counter[str]
) -> Iterator[tuple[str, list[tuple[str, str]], float]]:
    if kind in ("gauge", "sum"):
        given = point.WhichOneof("value")
        if given:
            yield name, [], float(getattr(point, given))
        return
    yield name + "_count", [], float(point.count)
    if kind == "summary":
        yield name + "_sum", [], point.sum
        for each in point.quantile_values:
            yield name, [("quantile", double(each.quantile))], each.value
        return
    for field in ("sum", "min", "max"):
        if point.HasField(field):
            yield f"{name}_{field}", [], getattr(point, field)
    if kind == "histogram":
        counts, bounds = list(point.bucket_counts), list(point.explicit_bounds)
        if len(counts) != len(bounds) + 1 and (counts or bounds):
            dropped["histogram_buckets"] += max(len(counts), len(bounds) + 1)
            return
        total = 0
        for count, bound in zip(counts, bounds, strict=False):
            total = (total + count) % 2**64
            yield name + "_bucket", [("le", double(bound))], float(total)
        yield name + "_bucket", [("le", "+Inf")], float(point.count)
