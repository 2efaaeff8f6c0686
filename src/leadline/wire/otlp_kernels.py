"""The scanner of OTLP metric requests: protobuf bytes in, flat tables of what stands where out.

`scan` reads the structure once; nothing is copied, strings are (start, size) spans of the body:

    ResourceMetrics > ScopeMetrics > Metric > points      one row each in `scopes`, `metrics`, `points`
    KeyValue                                              one row in `attributes`; owners keep a range of rows

`list_streams` then lists the streams that every point is, and `write_streams` writes their labels and ids.
Between, Python makes texts of the values that a kernel cannot (doubles, arrays, maps, bytes, bucket bounds).

A submessage that protobuf allows once and merges when repeated (resource, scope, data, value) is refused when it
comes twice: no sender does that. Groups are refused. Unknown fields are skipped, whatever they hold.
Source: opentelemetry-proto 1.x, metrics/v1/metrics.proto; protobuf's encoding guide.
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.labels import (
    LABELS_MAX,
    LATER_WINS,
    NO_SUFFIX,
    TOO_LONG,
    Pairs,
    canonical_bytes_max,
    copy,
    in_order,
    is_name,
    write_canonical,
)
from leadline.wire.murmur import murmur3_slice
from leadline.wire.words import byte_at, word_at

# Errors, as indices of `otlp_metrics.EXPECTED`.
OK, VARINT, TAG, FIXED, LENGTH, GROUP, TWICE, UTF8, FULL = range(9)

# Places in `state`.
ERROR, ERROR_AT, ATTRIBUTES, SCOPES, METRICS, POINTS, BUCKETS, BOUNDS, EXEMPLARS, NATIVE, INTEGERS, RESOURCE_LO, \
    RESOURCE_HI, STATE_SIZE = range(14)  # fmt: skip

# Columns of `attributes`: span of the key, kind, and span of the value (INTEGER, BOOL: the number itself).
KEY, KEY_SIZE, KIND, VALUE, VALUE_SIZE = range(5)
NOTHING, TEXT, BOOL, INTEGER, OTHER = range(5)  # OTHER: the span is the whole AnyValue, left to upb

# Columns of `scopes`: range of the resource's attributes, span of the scope's name.
SCOPE_LO, SCOPE_HI, SCOPE_NAME, SCOPE_NAME_SIZE = range(4)

# Columns of `metrics`; DATA is the field number of the oneof.
SCOPE, NAME, NAME_SIZE, HELP, HELP_SIZE, UNIT, UNIT_SIZE, DATA, TEMPORALITY, MONOTONIC, NAMES_AT = range(11)
GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY = 5, 7, 9, 10, 11
DELTA = 1

# Columns of `points`; the ranges are rows of `attributes`, `buckets` and `bounds`. GIVEN: which of value (or
# sum), minimum and maximum there are, as bits 1, 2 and 4.
METRIC, ATTRIBUTE_LO, ATTRIBUTE_HI, TIME, FLAGS, GIVEN, COUNT, BUCKET_LO, BUCKET_HI, BOUND_LO, BOUND_HI = range(11)
NO_RECORDED_VALUE = 1

_SDK = np.frombuffer(b"telemetry.sdk.", np.uint8)


class Tables(NamedTuple):
    """What `scan` fills; see the columns above."""

    state: NDArray[np.int64]  # (STATE_SIZE,)
    attributes: NDArray[np.int64]  # (A, 5)
    scopes: NDArray[np.int64]  # (C, 4)
    metrics: NDArray[np.int64]  # (M, 11)
    points: NDArray[np.int64]  # (P, 11)
    value_bits: NDArray[np.int64]  # (P, 3) value or sum, minimum, maximum, as they lie in memory
    value: NDArray[np.float64]  # (P, 3) the same memory
    buckets: NDArray[np.int64]  # (B,) counts
    bound_bits: NDArray[np.int64]  # (D,) bounds of buckets; of summaries quantile, value, quantile, value, ...
    bounds: NDArray[np.float64]  # (D,) the same memory


# Where reading fails, the place returned instead of an end is negative and tells what went wrong and where; every
# reader hands it up as it is, and a reader given it as its begin and end does nothing and returns it. (Keeping it
# in an array made that array, with its reference count, an argument of every varint: 6 of 8 us per point.)
_AT_BITS = 40


@kernel
def _fail(error: int, at: int) -> int:
    return -((error << _AT_BITS) | at)


@kernel
def _long_varint(data: NDArray[np.uint8], start: int, end: int) -> tuple[int, int]:
    at = start
    value = np.uint64(0)
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = byte_at(data, at)
        at += 1
        value |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            if shift == 63 and byte > 1:
                break
            return at, np.int64(value)  # type: ignore[return-value]
    return _fail(VARINT, start), 0


@kernel
def _varint(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """(end, value as the int64 of its low 64 bits)."""
    if at < end and byte_at(data, at) < 0x80:
        return at + 1, byte_at(data, at)
    return _long_varint(data, at, end)


@kernel
def _tag(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """(end, field number * 8 + wire type)."""
    after, tag = _varint(data, at, end)
    if after >= 0 and not 8 <= tag <= 0xFFFFFFFF:
        after = _fail(TAG, at)
    return after, tag


@kernel
def _span(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """(begin, end) of what a length goes before."""
    after, size = _varint(data, at, end)
    if after < 0:
        return after, after
    if size < 0 or size > end - after:
        after = _fail(LENGTH, at)
        return after, after
    return after, after + size


@kernel
def _skip(data: NDArray[np.uint8], at: int, end: int, tag: int) -> int:
    """End of a field whose tag was read."""
    wire = tag & 7
    if wire == 0:
        return _varint(data, at, end)[0]
    if wire == 2:
        return _span(data, at, end)[1]
    if wire == 1 or wire == 5:
        size = 8 if wire == 1 else 4
        return at + size if end - at >= size else _fail(FIXED, at)
    return _fail(GROUP if wire == 3 or wire == 4 else TAG, at)


@kernel
def _fixed(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """(end, the eight bytes as int64)."""
    if end - at < 8:
        return _fail(FIXED, at), 0
    return at + 8, np.int64(word_at(data, at))  # type: ignore[return-value]


@kernel
def _utf8_tail(data: NDArray[np.uint8], at: int, end: int, lead: int) -> int:
    """End of the character that begins with the byte `lead` >= 0x80, or -1 if it is not well formed."""
    low, high, more = 0x80, 0xBF, 0
    if 0xC2 <= lead <= 0xDF:
        more = 1
    elif 0xE0 <= lead <= 0xEF:
        more = 2
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    elif 0xF0 <= lead <= 0xF4:
        more = 3
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    if more == 0 or end - at <= more:
        return -1
    for i in range(1, more + 1):
        byte = byte_at(data, at + i)
        if byte < low or byte > high:
            return -1
        low, high = 0x80, 0xBF
    return at + more + 1


@kernel
def _text(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """(begin, end) of a string field; a string that is not UTF-8 fails."""
    begin, stop = _span(data, at, end)
    at = begin
    while at < stop:
        if stop - at >= 8 and word_at(data, at) & np.uint64(0x8080808080808080) == np.uint64(0):
            at += 8
            continue
        byte = byte_at(data, at)
        if byte < 0x80:
            at += 1
            continue
        after = _utf8_tail(data, at, stop, byte)
        if after < 0:
            at = _fail(UTF8, at)
            return at, at
        at = after
    return begin, stop


@kernel
def _any_value(
    state: NDArray[np.int64], attribute: NDArray[np.int64], row: int, data: NDArray[np.uint8], begin: int, end: int
) -> int:
    """Read one AnyValue into row `row` of the attributes."""
    at = begin
    kind, value, size = NOTHING, 0, 0
    while 0 <= at < end:
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x0A:  # string_value
            value, at = _text(data, at, end)
            size = at - value
            if kind != OTHER:
                kind = TEXT
        elif tag == 0x10 or tag == 0x18:  # bool_value, int_value
            at, value = _varint(data, at, end)
            if kind != OTHER:
                kind = BOOL if tag == 0x10 else INTEGER
        else:
            if tag == 0x21 or tag == 0x2A or tag == 0x32 or tag == 0x3A or tag == 0x40:
                kind = OTHER  # double, array, map, bytes, index into a string table
            at = _skip(data, at, end, tag)
    if kind == OTHER:
        value, size = begin, end - begin
    if kind == INTEGER:
        state[INTEGERS] += 1
    attribute[row, KIND] = kind
    attribute[row, VALUE] = value
    attribute[row, VALUE_SIZE] = size
    return at


@kernel
def _attribute(
    state: NDArray[np.int64], attribute: NDArray[np.int64], data: NDArray[np.uint8], at: int, end: int
) -> int:
    """Read one KeyValue into the next row of the attributes."""
    row = state[ATTRIBUTES]
    if row >= len(attribute):
        return _fail(FULL, 0)
    for column in range(5):
        attribute[row, column] = 0
    seen = False
    while 0 <= at < end:
        begin = at
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x0A:
            start, at = _text(data, at, end)
            attribute[row, KEY] = start
            attribute[row, KEY_SIZE] = at - start
        elif tag == 0x12:
            if seen:
                return _fail(TWICE, begin)
            seen = True
            start, stop = _span(data, at, end)
            at = _any_value(state, attribute, row, data, start, stop)
        else:
            at = _skip(data, at, end, tag)
    state[ATTRIBUTES] = row + 1
    return at


@kernel
def _drop_sdk(t: Tables, data: NDArray[np.uint8], lo: int) -> None:
    """Take out resource attributes from row `lo` on that name the sender's SDK: they change with every upgrade."""
    kept = lo
    for row in range(lo, t.state[ATTRIBUTES]):
        sdk = t.attributes[row, KEY_SIZE] >= len(_SDK)
        for i in range(len(_SDK)):
            sdk = sdk and byte_at(data, t.attributes[row, KEY] + i) == _SDK[i]
        if not sdk:
            for column in range(5):
                t.attributes[kept, column] = t.attributes[row, column]
            kept += 1
    t.state[ATTRIBUTES] = kept


@kernel
def _doubles(
    state: NDArray[np.int64], count_at: int, into: NDArray[np.int64], data: NDArray[np.uint8], at: int, end: int
) -> int:
    """Append eight-byte values to `into`, whose length is kept in `state[count_at]`."""
    if (end - at) % 8 != 0:
        return _fail(LENGTH, at)
    while at < end:
        count = state[count_at]
        if count >= len(into):
            return _fail(FULL, 0)
        into[count] = np.int64(word_at(data, at))
        state[count_at] = count + 1
        at += 8
    return at


@kernel
def _quantile(state: NDArray[np.int64], into: NDArray[np.int64], data: NDArray[np.uint8], at: int, end: int) -> int:
    """Append quantile and value of one ValueAtQuantile to `bound_bits`."""
    count = state[BOUNDS]
    if count + 2 > len(into):
        return _fail(FULL, 0)
    into[count] = into[count + 1] = 0
    while 0 <= at < end:
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x09 or tag == 0x11:
            at, bits = _fixed(data, at, end)
            into[count + (1 if tag == 0x11 else 0)] = bits
        else:
            at = _skip(data, at, end, tag)
    state[BOUNDS] = count + 2
    return at


@kernel
def _native_buckets(state: NDArray[np.int64], data: NDArray[np.uint8], at: int, end: int) -> int:
    """Count the buckets of one side of an exponential histogram."""
    while 0 <= at < end:
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x12:
            at, stop = _span(data, at, end)
            while 0 <= at < stop:
                at, _ = _varint(data, at, stop)
                state[NATIVE] += 1
        else:
            if tag == 0x10:
                state[NATIVE] += 1
            at = _skip(data, at, end, tag)
    return at


@kernel
def _keep(t: Tables, row: int, column: int, bits: int) -> None:
    """Keep an eight-byte value of a point: value or sum (0), minimum (1), maximum (2)."""
    t.value_bits[row, column] = bits
    t.points[row, GIVEN] |= 1 << column


@kernel
def _histogram_field(
    t: Tables, data: NDArray[np.uint8], at: int, end: int, tag: int, row: int, exponential: bool
) -> int:
    """A field that a histogram's or an exponential histogram's point has beside those that all have."""
    if tag == 0x21:
        at, t.points[row, COUNT] = _fixed(data, at, end)
        return at
    column = -1
    if tag == 0x29:
        column = 0
    elif tag == (0x61 if exponential else 0x59):
        column = 1
    elif tag == (0x69 if exponential else 0x61):
        column = 2
    if column >= 0:
        at, bits = _fixed(data, at, end)
        _keep(t, row, column, bits)
        return at
    if tag == (0x5A if exponential else 0x42):
        t.state[EXEMPLARS] += 1
    elif exponential and (tag == 0x42 or tag == 0x4A):
        begin, stop = _span(data, at, end)
        return _native_buckets(t.state, data, begin, stop)
    elif not exponential and 0x31 <= tag <= 0x3A and tag & 7 <= 2:
        begin, stop = at, at + 8  # one that is not packed
        if tag & 7 == 2:
            begin, stop = _span(data, at, end)
        elif end - at < 8:
            return _fail(FIXED, at)
        if tag >> 3 == 6 and tag & 7 > 0:
            return _doubles(t.state, BUCKETS, t.buckets, data, begin, stop)
        if tag >> 3 == 7 and tag & 7 > 0:
            return _doubles(t.state, BOUNDS, t.bound_bits, data, begin, stop)
    return _skip(data, at, end, tag)


@kernel
def _summary_field(t: Tables, data: NDArray[np.uint8], at: int, end: int, tag: int, row: int) -> int:
    """A field that a summary's point has beside those that all have."""
    if tag == 0x21:
        at, t.points[row, COUNT] = _fixed(data, at, end)
        return at
    if tag == 0x29:
        at, bits = _fixed(data, at, end)
        _keep(t, row, 0, bits)
        return at
    if tag == 0x32:
        begin, stop = _span(data, at, end)
        return _quantile(t.state, t.bound_bits, data, begin, stop)
    return _skip(data, at, end, tag)


@kernel
def _point(t: Tables, data: NDArray[np.uint8], at: int, end: int, metric: int, kind: int) -> int:
    """Read one point of any kind into the next row of `points`."""
    row = t.state[POINTS]
    if row >= len(t.points):
        return _fail(FULL, 0)
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
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x19:
            at, t.points[row, TIME] = _fixed(data, at, end)
        elif tag == attributes_tag:
            begin, stop = _span(data, at, end)
            at = _attribute(t.state, t.attributes, data, begin, stop)
        elif tag == flags_tag:
            at, t.points[row, FLAGS] = _varint(data, at, end)
        elif is_number and (tag == 0x21 or tag == 0x31):  # as_double, as_int
            at, bits = _fixed(data, at, end)
            _keep(t, row, 0, bits)
            if tag == 0x31:
                t.value[row, 0] = np.float64(bits)
        elif is_number:
            if tag == 0x2A:
                t.state[EXEMPLARS] += 1
            at = _skip(data, at, end, tag)
        elif kind == SUMMARY:
            at = _summary_field(t, data, at, end, tag, row)
        else:
            at = _histogram_field(t, data, at, end, tag, row, kind == EXPONENTIAL)
    t.points[row, ATTRIBUTE_HI] = t.state[ATTRIBUTES]
    t.points[row, BUCKET_HI] = t.state[BUCKETS]
    t.points[row, BOUND_HI] = t.state[BOUNDS]
    t.state[POINTS] = row + 1
    return at


@kernel
def _data(t: Tables, data: NDArray[np.uint8], at: int, end: int, metric: int, kind: int) -> int:
    """Read Gauge, Sum, Histogram, ExponentialHistogram or Summary."""
    while 0 <= at < end:
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x0A:
            begin, stop = _span(data, at, end)
            at = _point(t, data, begin, stop, metric, kind) if begin >= 0 else begin
        elif tag == 0x10 and kind != GAUGE and kind != SUMMARY:
            at, t.metrics[metric, TEMPORALITY] = _varint(data, at, end)
        elif tag == 0x18 and kind == SUM:
            at, t.metrics[metric, MONOTONIC] = _varint(data, at, end)
        else:
            at = _skip(data, at, end, tag)
    return at


@kernel
def _metric(t: Tables, data: NDArray[np.uint8], at: int, end: int, scope: int) -> int:
    """Read one Metric into the next row of `metrics`."""
    row = t.state[METRICS]
    if row >= len(t.metrics):
        return _fail(FULL, 0)
    for column in range(11):
        t.metrics[row, column] = 0
    t.metrics[row, SCOPE] = scope
    while 0 <= at < end:
        start = at
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        field = tag >> 3
        if tag == 0x0A or tag == 0x12 or tag == 0x1A:
            begin, at = _text(data, at, end)
            column = NAME + 2 * (field - 1)
            t.metrics[row, column] = begin
            t.metrics[row, column + 1] = at - begin
        elif tag & 7 == 2 and field in (GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY):
            if t.metrics[row, DATA] != 0:
                return _fail(TWICE, start)
            t.metrics[row, DATA] = field
            begin, stop = _span(data, at, end)
            at = _data(t, data, begin, stop, row, field)
        else:
            at = _skip(data, at, end, tag)
    t.state[METRICS] = row + 1
    return at


@kernel
def _scope_name(t: Tables, data: NDArray[np.uint8], at: int, end: int, row: int) -> int:
    while 0 <= at < end:
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x0A:
            begin, at = _text(data, at, end)
            t.scopes[row, SCOPE_NAME] = begin
            t.scopes[row, SCOPE_NAME_SIZE] = at - begin
        else:
            at = _skip(data, at, end, tag)
    return at


@kernel
def _resource(t: Tables, data: NDArray[np.uint8], at: int, end: int) -> int:
    """Read a Resource's attributes."""
    while 0 <= at < end:
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x0A:
            begin, stop = _span(data, at, end)
            at = _attribute(t.state, t.attributes, data, begin, stop)
        else:
            at = _skip(data, at, end, tag)
    return at


@kernel
def _scope_metrics(t: Tables, data: NDArray[np.uint8], begin: int, end: int) -> int:
    """Read one ScopeMetrics: its scope first, wherever it stands, then its metrics."""
    row = t.state[SCOPES]
    if row >= len(t.scopes):
        return _fail(FULL, 0)
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
            at, tag = _tag(data, at, end)
            if at < 0:
                break
            if tag == 0x0A and turn == 0:
                if seen:
                    return _fail(TWICE, start)
                seen = True
                inner, stop = _span(data, at, end)
                at = _scope_name(t, data, inner, stop, row)
            elif tag == 0x12 and turn == 1:
                inner, stop = _span(data, at, end)
                at = _metric(t, data, inner, stop, row)
            else:
                at = _skip(data, at, end, tag)
    return at


@kernel
def _resource_metrics(t: Tables, data: NDArray[np.uint8], begin: int, end: int) -> int:
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
            at, tag = _tag(data, at, end)
            if at < 0:
                break
            if tag == 0x0A and turn == 0:
                if seen:
                    return _fail(TWICE, start)
                seen = True
                inner, stop = _span(data, at, end)
                at = _resource(t, data, inner, stop)
            elif tag == 0x12 and turn == 1:
                inner, stop = _span(data, at, end)
                at = _scope_metrics(t, data, inner, stop)
            else:
                at = _skip(data, at, end, tag)
        if turn == 0 and at >= 0:
            _drop_sdk(t, data, lo)
            t.state[RESOURCE_HI] = t.state[ATTRIBUTES]
    return at


@kernel
def scan(t: Tables, data: NDArray[np.uint8]) -> None:
    """Read one ExportMetricsServiceRequest into `t`; `state[ERROR]` and `state[ERROR_AT]` tell how it went.

    FULL says that a table has no room: the caller tries again with larger ones.
    """
    t.state[:] = 0
    at = 0
    end = len(data)
    while 0 <= at < end:
        at, tag = _tag(data, at, end)
        if at < 0:
            break
        if tag == 0x0A:
            begin, stop = _span(data, at, end)
            at = _resource_metrics(t, data, begin, stop)
        else:
            at = _skip(data, at, end, tag)
    if at < 0:
        t.state[ERROR] = -at >> _AT_BITS
        t.state[ERROR_AT] = -at & ((1 << _AT_BITS) - 1)


# --- streams -------------------------------------------------------------------------------------------------

# Texts that stand behind the body in the arena, at these places.
WORDS = b"__name__leotel.scope.nameotel.temporalitydeltafalsetrue+Infquantile"
_NAME_LABEL, _LE, _SCOPE_LABEL, _TEMPORALITY_LABEL, _DELTA_TEXT = (0, 8), (8, 2), (10, 15), (25, 16), (41, 5)
_FALSE, _TRUE, _INFINITY, _QUANTILE = (46, 5), (51, 4), (55, 4), (59, 8)

SUFFIXES = b"_bucket_count_sum_min_max"
_SUFFIX_AT = np.array([0, 7, 13, 17, 21, 25])
_NO_SUFFIX, _BUCKET, _COUNT_OF, _SUM_OF, _MIN, _MAX = -1, 0, 1, 2, 3, 4

INTEGER_BYTES = 20  # of the longest int64 as text

# Places in `counts`, which `list_streams` and `write_streams` share.
LISTED, STREAMS, LABEL_BYTES, NO_TIME, LATE, EMPTY, CROWDED, UNNAMED, LONG, LOST_BUCKETS, ROOM, COUNTS_SIZE = range(12)

# Columns of `listed`: the stream's point, the span of its name, the spans of one label more (le, quantile).
POINT, FULL_NAME, FULL_NAME_SIZE, MORE, MORE_SIZE, MORE_TEXT, MORE_TEXT_SIZE = range(7)

_STALE = np.array([0x7FF0000000000002], np.uint64).view(np.float64)[0]
_SPECIALS = 4  # labels beside attributes: scope, temporality, le or quantile, name


@kernel
def write_integers(attributes: NDArray[np.int64], count: int, arena: NDArray[np.uint8], at: int, words: int) -> int:
    """Write integers as decimal text from `at` on, and point booleans at their words: all become TEXT."""
    for row in range(count):
        kind, value = attributes[row, KIND], attributes[row, VALUE]
        if kind == BOOL:
            place, size = _FALSE if value == 0 else _TRUE
            attributes[row, VALUE] = words + place
            attributes[row, VALUE_SIZE] = size
        elif kind == INTEGER:
            start = at
            rest = np.uint64(value)
            if value < 0:
                rest = np.uint64(0) - rest
                arena[at] = 45
                at += 1
            digits = 1
            power = np.uint64(10)
            while digits < 19 and rest >= power:
                power *= np.uint64(10)
                digits += 1
            for i in range(digits - 1, -1, -1):
                arena[at + i] = 48 + rest % np.uint64(10)
                rest //= np.uint64(10)
            at += digits
            attributes[row, VALUE] = start
            attributes[row, VALUE_SIZE] = at - start
        else:
            continue
        attributes[row, KIND] = TEXT
    return at


@kernel
def write_names(metrics: NDArray[np.int64], count: int, arena: NDArray[np.uint8], at: int, suffixes: int) -> int:
    """Write the five names of every histogram and summary from `at` on: `name_bucket`, `name_count`, ..."""
    for row in range(count):
        if metrics[row, DATA] < HISTOGRAM:
            continue
        metrics[row, NAMES_AT] = at
        name = metrics[row, NAME]
        for suffix in range(5):
            at = copy(arena, name, name + metrics[row, NAME_SIZE], arena, at)
            at = copy(arena, suffixes + _SUFFIX_AT[suffix], suffixes + _SUFFIX_AT[suffix + 1], arena, at)
    return at


@kernel
def _list(
    counts: NDArray[np.int64],
    listed: NDArray[np.int64],
    value: NDArray[np.float64],
    metric: NDArray[np.int64],
    point: int,
    suffix: int,
    number: float,
) -> int:
    """Append one stream with its value and no label more; returns its row."""
    row = counts[LISTED]
    counts[LISTED] = row + 1
    start, size = metric[NAME], metric[NAME_SIZE]
    if suffix != _NO_SUFFIX:
        start = metric[NAMES_AT] + suffix * size + _SUFFIX_AT[suffix]
        size += _SUFFIX_AT[suffix + 1] - _SUFFIX_AT[suffix]
    listed[row, POINT], listed[row, FULL_NAME], listed[row, FULL_NAME_SIZE] = point, start, size
    listed[row, MORE] = listed[row, MORE_SIZE] = listed[row, MORE_TEXT] = listed[row, MORE_TEXT_SIZE] = 0
    value[row] = number
    return int(row)


@kernel
def _list_quantiles(
    t: Tables,
    counts: NDArray[np.int64],
    listed: NDArray[np.int64],
    value: NDArray[np.float64],
    point: int,
    words: int,
    texts: NDArray[np.int64],
) -> None:
    """Append the quantiles of a summary."""
    metric = t.metrics[t.points[point, METRIC]]
    for i in range(t.points[point, BOUND_LO], t.points[point, BOUND_HI], 2):
        row = _list(counts, listed, value, metric, point, _NO_SUFFIX, t.bounds[i + 1])
        listed[row, MORE], listed[row, MORE_SIZE] = words + _QUANTILE[0], _QUANTILE[1]
        listed[row, MORE_TEXT], listed[row, MORE_TEXT_SIZE] = texts[i, 0], texts[i, 1]


@kernel
def _list_buckets(
    t: Tables,
    counts: NDArray[np.int64],
    listed: NDArray[np.int64],
    value: NDArray[np.float64],
    point: int,
    words: int,
    texts: NDArray[np.int64],
) -> None:
    """Append the buckets of a histogram, cumulative, the one without a bound last."""
    metric = t.metrics[t.points[point, METRIC]]
    lo, bounds = t.points[point, BOUND_LO], t.points[point, BOUND_HI] - t.points[point, BOUND_LO]
    first = t.points[point, BUCKET_LO]
    given = t.points[point, BUCKET_HI] - first
    if given != bounds + 1 and (given != 0 or bounds != 0):
        counts[LOST_BUCKETS] += max(given, bounds + 1)
        return
    total = np.uint64(0)
    for i in range(bounds + 1):
        last = i == bounds
        if last:
            total = np.uint64(t.points[point, COUNT])
        else:
            total += np.uint64(t.buckets[first + i])
        row = _list(counts, listed, value, metric, point, _BUCKET, np.float64(total))
        listed[row, MORE], listed[row, MORE_SIZE] = words + _LE[0], _LE[1]
        listed[row, MORE_TEXT] = words + _INFINITY[0] if last else texts[lo + i, 0]
        listed[row, MORE_TEXT_SIZE] = _INFINITY[1] if last else texts[lo + i, 1]


@kernel
def list_streams(
    t: Tables,
    counts: NDArray[np.int64],
    listed: NDArray[np.int64],
    value: NDArray[np.float64],
    words: int,
    texts: NDArray[np.int64],
) -> None:
    """List the streams that the points are, each with its value; what is left out is counted.

    Inputs: scanned tables; `counts` of zeros; `listed` (L, 7) and `value` (L,) with room for all; where WORDS
    stand in the arena; `texts` (D, 2), the spans of the bounds' and quantiles' texts.
    """
    for point in range(t.state[POINTS]):
        time, given = t.points[point, TIME], t.points[point, GIVEN]
        stale = t.points[point, FLAGS] & NO_RECORDED_VALUE != 0
        metric = t.metrics[t.points[point, METRIC]]
        kind = metric[DATA]
        if time <= 0:
            counts[NO_TIME if time == 0 else LATE] += 1
            continue
        if metric[NAME_SIZE] == 0:
            counts[UNNAMED] += 1
            continue
        first = counts[LISTED]
        if kind in (GAUGE, SUM):
            if given == 0 and not stale:
                counts[EMPTY] += 1
                continue
            _list(counts, listed, value, metric, point, _NO_SUFFIX, t.value[point, 0])
        else:
            everything = np.float64(np.uint64(t.points[point, COUNT]))
            _list(counts, listed, value, metric, point, _COUNT_OF, everything)
            if kind == SUMMARY:
                if given & 1 == 0:
                    t.value[point, 0] = 0.0  # protobuf leaves out a zero
                given = 1
            for i in range(3):
                if given & 1 << i:
                    _list(counts, listed, value, metric, point, _SUM_OF + i, t.value[point, i])
            if kind == HISTOGRAM:
                _list_buckets(t, counts, listed, value, point, words, texts)
            elif kind == SUMMARY:
                _list_quantiles(t, counts, listed, value, point, words, texts)
        if stale:
            value[first : counts[LISTED]] = _STALE


@kernel
def _add(pairs: Pairs, row: int, name: int, name_size: int, value: int, value_size: int) -> int:
    """Append a label. Returns: how many there are now."""
    pairs[row, 0], pairs[row, 1] = name, name + name_size
    pairs[row, 2], pairs[row, 3] = value, value + value_size
    return row + 1


@kernel
def _add_attributes(
    attributes: NDArray[np.int64], lo: int, hi: int, arena: NDArray[np.uint8], pairs: Pairs, count: int
) -> int:
    """Append attributes as labels. One named `__name__` is left out: the metric's own name stands."""
    for row in range(lo, hi):
        key, size = attributes[row, KEY], attributes[row, KEY_SIZE]
        if not is_name(arena, key, key + size):
            count = _add(pairs, count, key, size, attributes[row, VALUE], attributes[row, VALUE_SIZE])
    return count


@kernel
def write_streams(
    attributes: NDArray[np.int64],
    scopes: NDArray[np.int64],
    metrics: NDArray[np.int64],
    points: NDArray[np.int64],
    arena: NDArray[np.uint8],
    words: int,
    pairs: Pairs,
    counts: NDArray[np.int64],
    listed: NDArray[np.int64],
    value: NDArray[np.float64],
    label_bytes: NDArray[np.uint8],
    label_start: NDArray[np.int64],
    label_end: NDArray[np.int64],
    ids: NDArray[np.uint64],
    time_ns: NDArray[np.int64],
) -> None:
    """Write labels, id and time of every listed stream; `value` is closed up where one is left out.

    Inputs: what `scan` and `list_streams` filled; the arena and where WORDS stand in it; (LABELS_MAX, 4) `pairs`,
    scratch. Later labels win: those of the resource, the scope, the point, then ours. With `counts[ROOM]` > 0
    `label_bytes` was too small, and the caller lists and writes again.
    """
    used = streams = 0
    for row in range(counts[LISTED]):
        point = listed[row, POINT]
        metric = points[point, METRIC]
        scope = metrics[metric, SCOPE]
        lo, hi = scopes[scope, SCOPE_LO], scopes[scope, SCOPE_HI]
        own_lo, own_hi = points[point, ATTRIBUTE_LO], points[point, ATTRIBUTE_HI]
        if hi - lo + own_hi - own_lo + _SPECIALS > LABELS_MAX:
            counts[CROWDED] += 1
            continue
        # The name first: it sorts before lower case, so the insertion has nothing to move.
        start, size = listed[row, FULL_NAME], listed[row, FULL_NAME_SIZE]
        count = _add(pairs, 0, words + _NAME_LABEL[0], _NAME_LABEL[1], start, size)
        count = _add_attributes(attributes, lo, hi, arena, pairs, count)
        start, size = scopes[scope, SCOPE_NAME], scopes[scope, SCOPE_NAME_SIZE]
        if size > 0:
            count = _add(pairs, count, words + _SCOPE_LABEL[0], _SCOPE_LABEL[1], start, size)
        count = _add_attributes(attributes, own_lo, own_hi, arena, pairs, count)
        if metrics[metric, TEMPORALITY] == DELTA:
            start, size = words + _TEMPORALITY_LABEL[0], _TEMPORALITY_LABEL[1]
            count = _add(pairs, count, start, size, words + _DELTA_TEXT[0], _DELTA_TEXT[1])
        if listed[row, MORE_SIZE] > 0:
            start, size = listed[row, MORE_TEXT], listed[row, MORE_TEXT_SIZE]
            count = _add(pairs, count, listed[row, MORE], listed[row, MORE_SIZE], start, size)
        kept = in_order(arena, pairs, count, LATER_WINS)
        if kept < 0:
            counts[LONG if kept == TOO_LONG else UNNAMED] += 1  # unnamed: an attribute without a key
            continue
        if canonical_bytes_max(pairs, kept, 0) > len(label_bytes) - used:
            counts[ROOM] = 1
            return
        end = write_canonical(arena, pairs, kept, NO_SUFFIX, label_bytes, used)
        label_start[streams] = used
        label_end[streams] = end
        low, high = murmur3_slice(label_bytes, used, end)
        ids[streams, 0] = low
        ids[streams, 1] = high
        time_ns[streams] = points[point, TIME]
        value[streams] = value[row]
        streams += 1
        used = end
    counts[STREAMS] = streams
    counts[LABEL_BYTES] = used
