"""Scans the points of OTLP metrics, of every kind, into rows of `otlp_tables`.

Fields that all kinds have are read in `read_point`, though their numbers differ; the others by kind.
Source: opentelemetry-proto 1.x, metrics/v1/metrics.proto.
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from leadline.wire.kernel import kernel
from leadline.wire.otlp.attributes import read_attribute
from leadline.wire.otlp.tables import (
    ATTRIBUTE_HI,
    ATTRIBUTE_LO,
    ATTRIBUTES,
    BOUND_HI,
    BOUND_LO,
    BOUNDS,
    BUCKET_HI,
    BUCKET_LO,
    BUCKETS,
    COUNT,
    EXEMPLARS,
    EXPONENTIAL,
    FLAGS,
    FULL,
    GAUGE,
    GIVEN,
    HISTOGRAM,
    METRIC,
    NATIVE,
    POINTS,
    SUM,
    SUMMARY,
    TIME,
    Bytes,
    Ints,
    Tables,
)
from leadline.wire.proto import LONG_LENGTH, SHORT_FIXED, failure, fixed64, length, skip, tag, varint
from leadline.wire.words import word_at


@kernel
def read_point(t: Tables, data: Bytes, at: int, end: int, metric: int, kind: int) -> int:
    """Read one point of any kind into the next row of `points`."""
    row = t.state[POINTS]
    if row >= len(t.points):
        return failure(FULL, 0)
    for column in range(11):
        t.points[row, column] = 0
    t.points[row, METRIC] = metric
    t.points[row, ATTRIBUTE_LO] = t.state[ATTRIBUTES]
    t.points[row, BUCKET_LO] = t.state[BUCKETS]
    t.points[row, BOUND_LO] = t.state[BOUNDS]
    is_number = kind in (GAUGE, SUM)
    attributes_tag = 0x3A
    flags_tag = 0x40
    if kind == HISTOGRAM:
        attributes_tag, flags_tag = 0x4A, 0x50
    elif kind == EXPONENTIAL:
        attributes_tag, flags_tag = 0x0A, 0x50
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x19:
            t.points[row, TIME], at = fixed64(data, at, end)
        elif field == attributes_tag:
            begin, stop = length(data, at, end)
            at = read_attribute(t.state, t.attributes, data, begin, stop)
        elif field == flags_tag:
            t.points[row, FLAGS], at = varint(data, at, end)
        elif is_number and (field == 0x21 or field == 0x31):  # as_double, as_int
            bits, at = fixed64(data, at, end)
            _keep(t, row, 0, bits)
            if field == 0x31:
                t.value[row, 0] = np.float64(np.int64(bits))
        elif is_number:
            if field == 0x2A:
                t.state[EXEMPLARS] += 1
            at = skip(data, at, end, field)
        elif kind == SUMMARY:
            at = _summary_field(t, data, at, end, field, row)
        else:
            at = _histogram_field(t, data, at, end, field, row, kind == EXPONENTIAL)
    t.points[row, ATTRIBUTE_HI] = t.state[ATTRIBUTES]
    t.points[row, BUCKET_HI] = t.state[BUCKETS]
    t.points[row, BOUND_HI] = t.state[BOUNDS]
    t.state[POINTS] = row + 1
    return at


@kernel
def _histogram_field(t: Tables, data: Bytes, at: int, end: int, field: int, row: int, exponential: bool) -> int:
    """A field that a histogram's or an exponential histogram's point has beside those that all have."""
    if field == 0x21:
        t.points[row, COUNT], at = fixed64(data, at, end)
        return at
    column = -1
    if field == 0x29:
        column = 0
    elif field == (0x61 if exponential else 0x59):
        column = 1
    elif field == (0x69 if exponential else 0x61):
        column = 2
    if column >= 0:
        bits, at = fixed64(data, at, end)
        _keep(t, row, column, bits)
        return at
    if field == (0x5A if exponential else 0x42):
        t.state[EXEMPLARS] += 1
    elif exponential and (field == 0x42 or field == 0x4A):
        begin, stop = length(data, at, end)
        return _native_buckets(t.state, data, begin, stop)
    elif not exponential and field in (0x31, 0x32, 0x39, 0x3A):  # bucket counts, bounds; packed and not
        begin, stop = at, at + 8
        if field & 7 == 2:
            begin, stop = length(data, at, end)
        elif end - at < 8:
            return failure(SHORT_FIXED, at)
        if field >> 3 == 6:
            return _doubles(t.state, BUCKETS, t.buckets, data, begin, stop)
        return _doubles(t.state, BOUNDS, t.bound_bits, data, begin, stop)
    return skip(data, at, end, field)


@kernel
def _summary_field(t: Tables, data: Bytes, at: int, end: int, field: int, row: int) -> int:
    """A field that a summary's point has beside those that all have."""
    if field == 0x21:
        t.points[row, COUNT], at = fixed64(data, at, end)
        return at
    if field == 0x29:
        bits, at = fixed64(data, at, end)
        _keep(t, row, 0, bits)
        return at
    if field == 0x32:
        begin, stop = length(data, at, end)
        return _quantile(t.state, t.bound_bits, data, begin, stop)
    return skip(data, at, end, field)


@kernel
def _keep(t: Tables, row: int, column: int, bits: np.uint64) -> None:
    """Keep an eight-byte value of a point: value or sum (0), minimum (1), maximum (2)."""
    t.value_bits[row, column] = bits
    t.points[row, GIVEN] |= 1 << column


@kernel
def _doubles(state: Ints, count_at: int, into: Ints, data: Bytes, at: int, end: int) -> int:
    """Append eight-byte values to `into`, whose length is kept in `state[count_at]`."""
    if (end - at) % 8 != 0:
        return failure(LONG_LENGTH, at)
    while at < end:
        count = state[count_at]
        if count >= len(into):
            return failure(FULL, 0)
        into[count] = np.int64(word_at(data, at))
        state[count_at] = count + 1
        at += 8
    return at


@kernel
def _quantile(state: Ints, into: Ints, data: Bytes, at: int, end: int) -> int:
    """Append quantile and value of one ValueAtQuantile to `bound_bits`."""
    count = state[BOUNDS]
    if count + 2 > len(into):
        return failure(FULL, 0)
    into[count] = into[count + 1] = 0
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x09 or field == 0x11:
            bits, at = fixed64(data, at, end)
            into[count + (1 if field == 0x11 else 0)] = bits
        else:
            at = skip(data, at, end, field)
    state[BOUNDS] = count + 2
    return at


@kernel
def _native_buckets(state: Ints, data: Bytes, at: int, end: int) -> int:
    """Count the buckets of one side of an exponential histogram."""
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x12:
            at, stop = length(data, at, end)
            while 0 <= at < stop:
                _, at = varint(data, at, stop)
                state[NATIVE] += 1
        else:
            if field == 0x10:
                state[NATIVE] += 1
            at = skip(data, at, end, field)
    return at
