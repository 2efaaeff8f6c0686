"""The scanner of OTLP metric requests: protobuf bytes in, flat tables of what stands where out.

`scan` reads the structure once, down to the metrics; `otlp_points` reads their points, `otlp_attributes` the
attributes of both. `otlp_tables` has the tables.

A submessage that protobuf allows once and merges when repeated (resource, scope, data, value) is refused when it
comes twice: no sender does that. Groups are refused. Unknown fields are skipped, whatever they hold.
Source: opentelemetry-proto 1.x, metrics/v1/metrics.proto; protobuf's encoding guide.
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from leadline.wire.kernel import kernel
from leadline.wire.otlp.attributes import drop_sdk, read_attribute, read_text
from leadline.wire.otlp.points import read_point
from leadline.wire.otlp.tables import (
    ATTRIBUTES,
    DATA,
    ERROR,
    ERROR_AT,
    EXPONENTIAL,
    FULL,
    GAUGE,
    HISTOGRAM,
    METRICS,
    MONOTONIC,
    NAME,
    RESOURCE_HI,
    RESOURCE_LO,
    SCOPE,
    SCOPE_HI,
    SCOPE_LO,
    SCOPE_NAME,
    SCOPE_NAME_SIZE,
    SCOPES,
    SUM,
    SUMMARY,
    TEMPORALITY,
    TWICE,
    Bytes,
    Tables,
)
from leadline.wire.proto import CODE_BITS, CODE_MASK, failure, length, skip, tag, varint


@kernel
def scan(t: Tables, data: Bytes) -> None:
    """Read one ExportMetricsServiceRequest into `t`; `state[ERROR]` and `state[ERROR_AT]` tell how it went.

    FULL says that a table has no room: the caller tries again with larger ones.
    """
    t.state[:] = 0
    at = 0
    end = len(data)
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x0A:
            begin, stop = length(data, at, end)
            at = _resource_metrics(t, data, begin, stop)
        else:
            at = skip(data, at, end, field)
    if at < 0:
        t.state[ERROR] = -at & CODE_MASK
        t.state[ERROR_AT] = -at >> CODE_BITS


@kernel
def _resource_metrics(t: Tables, data: Bytes, begin: int, end: int) -> int:
    """Read one ResourceMetrics: its resource first, wherever it stands, then its scopes."""
    lo = t.state[ATTRIBUTES]
    t.state[RESOURCE_LO] = lo
    at = begin
    seen = False
    for turn in range(2):
        if at < 0:
            return at
        at = begin
        while 0 <= at < end:
            start = at
            field, at = tag(data, at, end)
            if at < 0:
                break
            if field == 0x0A and turn == 0:
                if seen:
                    return failure(TWICE, start)
                seen = True
                inner, stop = length(data, at, end)
                at = _resource(t, data, inner, stop)
            elif field == 0x12 and turn == 1:
                inner, stop = length(data, at, end)
                at = _scope_metrics(t, data, inner, stop)
            else:
                at = skip(data, at, end, field)
        if turn == 0 and at >= 0:
            drop_sdk(t, data, lo)
            t.state[RESOURCE_HI] = t.state[ATTRIBUTES]
    return at


@kernel
def _resource(t: Tables, data: Bytes, at: int, end: int) -> int:
    """Read a Resource's attributes."""
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x0A:
            begin, stop = length(data, at, end)
            at = read_attribute(t.state, t.attributes, data, begin, stop)
        else:
            at = skip(data, at, end, field)
    return at


@kernel
def _scope_metrics(t: Tables, data: Bytes, begin: int, end: int) -> int:
    """Read one ScopeMetrics: its scope first, wherever it stands, then its metrics."""
    row = t.state[SCOPES]
    if row >= len(t.scopes):
        return failure(FULL, 0)
    for column in range(4):
        t.scopes[row, column] = 0
    t.scopes[row, SCOPE_LO] = t.state[RESOURCE_LO]
    t.scopes[row, SCOPE_HI] = t.state[RESOURCE_HI]
    t.state[SCOPES] = row + 1
    at = begin
    seen = False
    for turn in range(2):
        if at < 0:
            return at
        at = begin
        while 0 <= at < end:
            start = at
            field, at = tag(data, at, end)
            if at < 0:
                break
            if field == 0x0A and turn == 0:
                if seen:
                    return failure(TWICE, start)
                seen = True
                inner, stop = length(data, at, end)
                at = _scope_name(t, data, inner, stop, row)
            elif field == 0x12 and turn == 1:
                inner, stop = length(data, at, end)
                at = _metric(t, data, inner, stop, row)
            else:
                at = skip(data, at, end, field)
    return at


@kernel
def _scope_name(t: Tables, data: Bytes, at: int, end: int, row: int) -> int:
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x0A:
            begin, at = read_text(data, at, end)
            t.scopes[row, SCOPE_NAME] = begin
            t.scopes[row, SCOPE_NAME_SIZE] = at - begin
        else:
            at = skip(data, at, end, field)
    return at


@kernel
def _metric(t: Tables, data: Bytes, at: int, end: int, scope: int) -> int:
    """Read one Metric into the next row of `metrics`."""
    row = t.state[METRICS]
    if row >= len(t.metrics):
        return failure(FULL, 0)
    for column in range(11):
        t.metrics[row, column] = 0
    t.metrics[row, SCOPE] = scope
    while 0 <= at < end:
        start = at
        field, at = tag(data, at, end)
        if at < 0:
            break
        number = field >> 3
        if field == 0x0A or field == 0x12 or field == 0x1A:
            begin, at = read_text(data, at, end)
            column = NAME + 2 * (number - 1)
            t.metrics[row, column] = begin
            t.metrics[row, column + 1] = at - begin
        elif field & 7 == 2 and number in (GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY):
            if t.metrics[row, DATA] != 0:
                return failure(TWICE, start)
            t.metrics[row, DATA] = number
            begin, stop = length(data, at, end)
            at = _data(t, data, begin, stop, row, number)
        else:
            at = skip(data, at, end, field)
    t.state[METRICS] = row + 1
    return at


@kernel
def _data(t: Tables, data: Bytes, at: int, end: int, metric: int, kind: int) -> int:
    """Read Gauge, Sum, Histogram, ExponentialHistogram or Summary."""
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x0A:
            begin, stop = length(data, at, end)
            at = read_point(t, data, begin, stop, metric, kind) if begin >= 0 else begin
        elif field == 0x10 and kind != GAUGE and kind != SUMMARY:
            t.metrics[metric, TEMPORALITY], at = varint(data, at, end)
        elif field == 0x18 and kind == SUM:
            t.metrics[metric, MONOTONIC], at = varint(data, at, end)
        else:
            at = skip(data, at, end, field)
    return at
