"""The scanner of exposition pages: bytes in, spans, canonical labels, times and values out.

Every read is compared with the end of its line before it is made. Escapes are undone in place (unescaped text
is never longer), so the page must be a copy that may be written to. Numbers that cannot be computed exactly
with one multiplication or division are left to Python (`hard_value`, `hard_time`).

Source of the exact path: W. D. Clinger, "How to read floating point numbers accurately", PLDI 1990: a decimal
of a mantissa below 2**53 and a power of ten within 10**22 is correctly rounded by one IEEE operation.
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.labels import (
    LABELS_MAX,
    NO_SUFFIX,
    ONCE,
    TOO_LONG,
    TWICE,
    Bytes,
    Pairs,
    canonical_bytes_max,
    in_order,
    write_canonical,
)
from leadline.wire.series_id import series_slice
from leadline.wire.words import byte_at

# Errors, as indices of `exposition.EXPECTED`; 0 is none.
(
    OK,
    METRIC_NAME,
    LABEL_NAME,
    EQUALS,
    QUOTE,
    CLOSING,
    COMMA,
    VALUE,
    MILLISECONDS,
    SECONDS,
    LINE_END,
    NAMED_TWICE,
    ROOM,
) = range(13)

_NEWLINE, _RETURN, _SPACE, _TAB, _HASH = 10, 13, 32, 9, 35
_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _EQUALS, _COMMA = 34, 92, 123, 125, 61, 44
_PLUS, _MINUS, _DOT, _COLON, _UNDERSCORE, _N = 43, 45, 46, 58, 95, 110

_POWERS = np.array([10.0**power for power in range(23)])
_EXACT = np.uint64(1 << 53)
_NAN = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]  # Prometheus' ordinary NaN

# Places in `counts`: rows of the outputs, and lines that became none.
SAMPLES, LABEL_BYTES, HARD_VALUES, HARD_TIMES, COMMENTS, EXEMPLARS, CROWDED, LONG, COUNTS_SIZE = range(9)

# How a number came out.
_EXACTLY, _HARD, _BAD = 0, 1, 2

_MILLISECONDS_MAX = 9_223_372_036_854  # int64 ns end in the year 2262
_SECONDS_MAX = 9_223_372_035


@kernel
def _skip_blank(page: Bytes, at: int, end: int) -> int:
    while at < end and (byte_at(page, at) == _SPACE or byte_at(page, at) == _TAB):
        at += 1
    return at


@kernel
def _line_end(page: Bytes, at: int, end: int) -> int:
    while at < end and byte_at(page, at) != _NEWLINE:
        at += 1
    return at


@kernel
def _name_end(page: Bytes, at: int, end: int, colon: bool) -> int:
    """End of a bare metric name (`colon`) or label name; `at` itself if there is none."""
    start = at
    while at < end:
        byte = byte_at(page, at)
        letter = (97 <= (byte | 32) <= 122) or byte == _UNDERSCORE or (colon and byte == _COLON)
        if not letter and not (at > start and 48 <= byte <= 57):
            break
        at += 1
    return at


@kernel
def _quoted(page: Bytes, at: int, end: int) -> tuple[int, int]:
    """Unescape in place the quoted text that begins at `at` (behind its opening quote).

    Returns: (place of the closing quote or -1, length unescaped).
    """
    start = at
    while at < end and byte_at(page, at) != _QUOTE and byte_at(page, at) != _BACKSLASH:
        at += 1
    to = at
    while at < end:
        byte = byte_at(page, at)
        if byte == _QUOTE:
            return at, to - start
        if byte == _BACKSLASH and at + 1 < end:
            after = byte_at(page, at + 1)
            if after in (_QUOTE, _BACKSLASH, _N):
                byte = _NEWLINE if after == _N else after
                at += 1
        page[to] = byte
        to += 1
        at += 1
    return -1, 0


@kernel
def _one_label(page: Bytes, at: int, end: int, pairs: Pairs, row: int) -> tuple[int, int, bool]:
    """Read `name="value"` or a quoted metric name into a row of `pairs`: (end, error, is the metric's name)."""
    if at < end and byte_at(page, at) == _QUOTE:
        close, size = _quoted(page, at + 1, end)
        if close < 0:
            return at, CLOSING, False
        if size == 0:
            return at, LABEL_NAME, False
        pairs[row, 0], pairs[row, 1] = at + 1, at + 1 + size
        at = _skip_blank(page, close + 1, end)
        if at < end and (byte_at(page, at) == _COMMA or byte_at(page, at) == _CLOSE):
            return at, OK, True
    else:
        stop = _name_end(page, at, end, False)
        if stop == at:
            return at, LABEL_NAME, False
        pairs[row, 0], pairs[row, 1] = at, stop
        at = _skip_blank(page, stop, end)
    if at >= end or byte_at(page, at) != _EQUALS:
        return at, EQUALS, False
    at = _skip_blank(page, at + 1, end)
    if at >= end or byte_at(page, at) != _QUOTE:
        return at, QUOTE, False
    close, size = _quoted(page, at + 1, end)
    if close < 0:
        return at, CLOSING, False
    pairs[row, 2], pairs[row, 3] = at + 1, at + 1 + size
    return close + 1, OK, False


@kernel
def _label_set(page: Bytes, at: int, end: int, pairs: Pairs, count: int) -> tuple[int, int, int]:
    """Read labels from behind `{` to behind `}`; row 0 is the metric's name, which may come in here.

    Returns: (end, count of labels, error). Beyond LABELS_MAX labels are read and counted, not kept.
    """
    while True:
        at = _skip_blank(page, at, end)
        if at < end and byte_at(page, at) == _CLOSE:
            return at + 1, count, OK
        row = min(count, LABELS_MAX)
        begin = at
        at, error, is_metric = _one_label(page, at, end, pairs, row)
        if error != OK:
            return at, count, error
        if is_metric:
            if pairs[0, 3] > pairs[0, 2]:
                return begin, count, NAMED_TWICE
            pairs[0, 2], pairs[0, 3] = pairs[row, 0], pairs[row, 1]
        else:
            count += 1
        at = _skip_blank(page, at, end)
        if at < end and byte_at(page, at) == _COMMA:
            at += 1
            after = _skip_blank(page, at, end)
            if after < end and byte_at(page, after) == _CLOSE:
                return after + 1, count, OK
            continue
        if at < end and byte_at(page, at) == _CLOSE:
            return at + 1, count, OK
        return at, count, COMMA


@kernel
def _word(page: Bytes, at: int, end: int, negative: bool, signed: bool) -> tuple[int, int, float]:
    """NaN, Inf or Infinity in any case."""
    size = 0
    while at + size < end and 97 <= (byte_at(page, at + size) | 32) <= 122:
        size += 1
    code = 0
    if size == 3 or size == 8:
        for i in range(3):
            code = code * 256 + (byte_at(page, at + i) | 32)
    if size == 3 and code == 0x6E616E and not signed:  # nan
        return at + 3, _EXACTLY, _NAN
    if size == 8:  # inity
        for i in range(3, 8):
            code = code * 256 + (byte_at(page, at + i) | 32)
    if (size == 3 and code == 0x696E66) or (size == 8 and code == 0x696E66696E697479):
        return at + size, _EXACTLY, -np.inf if negative else np.inf
    return at, _BAD, 0.0


@kernel
def _exponent(page: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read `e-12` behind a mantissa: (end, power), (-1, 0) if malformed. Powers are cut at 100,000."""
    if at >= end or (byte_at(page, at) | 32) != 101:
        return at, 0
    at += 1
    negative = at < end and byte_at(page, at) == _MINUS
    if at < end and (byte_at(page, at) == _MINUS or byte_at(page, at) == _PLUS):
        at += 1
    first = at
    power = 0
    while at < end and 48 <= byte_at(page, at) <= 57:
        power = min(power * 10 + byte_at(page, at) - 48, 100_000)
        at += 1
    if at == first:
        return -1, 0
    return at, -power if negative else power


@kernel
def _number(page: Bytes, at: int, end: int) -> tuple[int, int, float]:
    """Read one floating point number: (end, how it came out, value)."""
    negative = at < end and byte_at(page, at) == _MINUS
    signed = negative or (at < end and byte_at(page, at) == _PLUS)
    if signed:
        at += 1
    mantissa = np.uint64(0)
    kept = digits = power = 0  # kept: digits in the mantissa, without leading zeros
    point = False
    while at < end:
        byte = byte_at(page, at)
        if 48 <= byte <= 57:
            digits += 1
            if kept > 0 or byte > 48:
                kept += 1
            if kept <= 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(byte - 48)
            if point:
                power -= 1
        elif byte == _DOT and not point:
            point = True
        else:
            break
        at += 1
    if digits == 0:
        if point:
            return at, _BAD, 0.0
        return _word(page, at, end, negative, signed)
    at, exponent = _exponent(page, at, end)
    if at < 0:
        return at, _BAD, 0.0
    power += exponent
    if kept == 0:
        return at, _EXACTLY, -0.0 if negative else 0.0
    if kept > 19 or mantissa > _EXACT or power < -22 or power > 22:
        return at, _HARD, 0.0
    value = float(mantissa)
    value = value * _POWERS[power] if power >= 0 else value / _POWERS[-power]
    return at, _EXACTLY, -value if negative else value


@kernel
def _milliseconds(page: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Read integer milliseconds: (end, how it came out, ns)."""
    negative = at < end and byte_at(page, at) == _MINUS
    if at < end and (byte_at(page, at) == _MINUS or byte_at(page, at) == _PLUS):
        at += 1
    first = at
    total = 0
    while at < end and 48 <= byte_at(page, at) <= 57:
        total = total * 10 + byte_at(page, at) - 48
        if total > _MILLISECONDS_MAX:
            return at, _BAD, 0
        at += 1
    total *= 1_000_000
    return at, _BAD if at == first else _EXACTLY, -total if negative else total


@kernel
def _seconds(page: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Read seconds with a fraction: (end, how it came out, ns). Exponents and over 9 decimals are hard."""
    negative = at < end and byte_at(page, at) == _MINUS
    stop, outcome, value = _number(page, at, end)
    if outcome == _BAD or stop < 0 or not abs(value) < np.inf:
        return at, _BAD, 0
    if at < end and (byte_at(page, at) == _MINUS or byte_at(page, at) == _PLUS):
        at += 1
    whole = fraction = 0
    decimals = -1
    while at < stop:
        byte = byte_at(page, at)
        if byte == _DOT:
            decimals = 0
        elif byte > 57 or decimals == 9:
            return stop, _HARD, 0
        elif decimals >= 0:
            fraction = fraction * 10 + byte - 48
            decimals += 1
        else:
            whole = whole * 10 + byte - 48
            if whole > _SECONDS_MAX:
                for later in range(at, stop):
                    if byte_at(page, later) > 57:  # an exponent, which may make it small again
                        return stop, _HARD, 0
                return at, _BAD, 0
        at += 1
    for _ in range(9 - max(decimals, 0)):
        fraction *= 10
    total = whole * 1_000_000_000 + fraction
    return stop, _EXACTLY, -total if negative else total


@kernel
def _exemplar(page: Bytes, at: int, end: int, pairs: Pairs) -> tuple[int, int]:
    """Read `# {labels} value [time]` from its hash on: (end, error). Nothing of it is kept."""
    at = _skip_blank(page, at + 1, end)
    if at >= end or byte_at(page, at) != _OPEN:
        return at, LINE_END
    pairs[0, 2], pairs[0, 3] = at, at + 1  # an exemplar has no metric name of its own
    at, _, error = _label_set(page, at + 1, end, pairs, 1)
    if error != OK:
        return at, error
    at = _skip_blank(page, at, end)
    stop, outcome, _ = _number(page, at, end)
    if outcome == _BAD:
        return at, VALUE
    at = _skip_blank(page, stop, end)
    if at == end:
        return at, OK
    stop, outcome, _ = _seconds(page, at, end)
    if outcome == _BAD:
        return at, SECONDS
    stop = _skip_blank(page, stop, end)
    return stop, OK if stop == end else LINE_END


@kernel
def _name_and_labels(page: Bytes, at: int, end: int, name_at: int, pairs: Pairs) -> tuple[int, int, int]:
    """Read what stands before the value; row 0 of `pairs` becomes `__name__`: (end, count, error)."""
    begin = at
    stop = _name_end(page, at, end, True)
    pairs[0, 0], pairs[0, 1], pairs[0, 2], pairs[0, 3] = name_at, name_at + 8, at, stop
    at = _skip_blank(page, stop, end)
    if at < end and byte_at(page, at) == _OPEN:
        at, count, error = _label_set(page, at + 1, end, pairs, 1)
        if error == OK and pairs[0, 3] == pairs[0, 2]:
            return begin, count, METRIC_NAME
        return at, count, error
    if stop == begin:
        return at, 1, METRIC_NAME
    if at == stop:  # no blank: whatever follows does not belong in a name
        return at, 1, METRIC_NAME if at < end else VALUE
    return at, 1, OK


@kernel
def _ends(page: Bytes, at: int, end: int) -> bool:
    """Whether a number ends at `at`: the line does, or a blank follows."""
    return at >= end or byte_at(page, at) == _SPACE or byte_at(page, at) == _TAB


@kernel
def _keep_span(rows: NDArray[np.int64], row: int, first: int, start: int, end: int) -> int:
    """Fill a row of `hard_value`, `hard_time` or `comments`. Returns: how many rows there are now."""
    rows[row, 0], rows[row, 1], rows[row, 2] = first, start, end
    return row + 1


@kernel
def _write_stream(page, pairs, count, counts, label_bytes, label_start, label_end, ids):  # type: ignore[no-untyped-def]
    """Write labels and id of the next sample's stream: (whether there is one, error); if not, it is counted."""
    if count > LABELS_MAX:
        counts[CROWDED] += 1
        return False, OK
    kept = in_order(page, pairs, count, ONCE)
    if kept == TOO_LONG:
        counts[LONG] += 1
        return False, OK
    if kept < 0:
        return False, NAMED_TWICE if kept == TWICE else LABEL_NAME
    start, row = counts[LABEL_BYTES], counts[SAMPLES]
    if canonical_bytes_max(pairs, kept, 0) > len(label_bytes) - start:
        return False, ROOM
    end = write_canonical(page, pairs, kept, NO_SUFFIX, label_bytes, start)
    counts[LABEL_BYTES] = end
    label_start[row] = start
    label_end[row] = end
    low, high = series_slice(label_bytes, start, end)
    ids[row, 0] = low
    ids[row, 1] = high
    return True, OK


@kernel
def _sample(page, at, end, size, openmetrics, now_ns, pairs, counts, streams, samples):  # type: ignore[no-untyped-def]
    """Read a line with a sample: (place, error). `streams` and `samples` are those columns of `scan`."""
    begin = at
    at, count, error = _name_and_labels(page, at, end, size, pairs)
    if error != OK:
        return at, error
    value_at = _skip_blank(page, at, end)
    value_end, value_outcome, number = _number(page, value_at, end)
    if value_outcome == _BAD or not _ends(page, value_end, end):
        return value_at, VALUE
    at = _skip_blank(page, value_end, end)

    time_at, time_end, time_outcome, time = at, at, _EXACTLY, now_ns
    if at < end and not (openmetrics and byte_at(page, at) == _HASH):
        if openmetrics:
            time_end, time_outcome, time = _seconds(page, at, end)
        else:
            time_end, time_outcome, time = _milliseconds(page, at, end)
        if time_outcome == _BAD or not _ends(page, time_end, end):
            return at, SECONDS if openmetrics else MILLISECONDS
        at = _skip_blank(page, time_end, end)

    label_bytes, label_start, label_end, ids = streams
    kept, error = _write_stream(page, pairs, count, counts, label_bytes, label_start, label_end, ids)
    if error != OK:
        return begin, error
    if kept:
        time_ns, value, hard_value, hard_time = samples
        row = counts[SAMPLES]
        counts[SAMPLES] = row + 1
        time_ns[row] = time
        value[row] = number
        if value_outcome == _HARD:
            counts[HARD_VALUES] = _keep_span(hard_value, counts[HARD_VALUES], row, value_at, value_end)
        if time_outcome == _HARD:
            counts[HARD_TIMES] = _keep_span(hard_time, counts[HARD_TIMES], row, time_at, time_end)

    if openmetrics and at < end and byte_at(page, at) == _HASH:
        counts[EXEMPLARS] += 1
        return _exemplar(page, at, end, pairs)
    return at, OK if at == end else LINE_END


@kernel
def scan(
    page: Bytes,
    size: int,
    openmetrics: bool,
    now_ns: int,
    pairs: Pairs,
    counts: NDArray[np.int64],
    label_bytes: Bytes,
    label_start: NDArray[np.int64],
    label_end: NDArray[np.int64],
    ids: NDArray[np.uint64],
    time_ns: NDArray[np.int64],
    value: NDArray[np.float64],
    hard_value: NDArray[np.int64],
    hard_time: NDArray[np.int64],
    comments: NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Read a page of `size` bytes; `page` goes on with the eight bytes `__name__`.

    Inputs: (LABELS_MAX + 1, 4) `pairs`, scratch; `counts` of zeros (COUNTS_SIZE,).
    Outputs, with room for the L samples and C comments that a page of this size can have: one row per sample of
    `label_start`, `label_end`, `ids` (L, 2), `time_ns`, `value`; (L, 3) `hard_value`, `hard_time`: sample, start and
    end of a number left to Python; (C, 3) `comments`: line, start and end of a line that begins with `#`.
    Returns: (error, line from 1, begin of that line, place).
    """
    streams = (label_bytes, label_start, label_end, ids)
    samples = (time_ns, value, hard_value, hard_time)
    line = at = begin = 0
    while at < size:
        line += 1
        begin = at
        line_end = _line_end(page, at, size)
        end = line_end
        if end > at and byte_at(page, end - 1) == _RETURN:
            end -= 1
        at = _skip_blank(page, at, end)
        if at < end and byte_at(page, at) == _HASH:
            counts[COMMENTS] = _keep_span(comments, counts[COMMENTS], line, at, end)
        elif at < end:
            at, error = _sample(page, at, end, size, openmetrics, now_ns, pairs, counts, streams, samples)
            if error != OK:
                return error, line, begin, at
        at = line_end + 1
    return OK, line, begin, at
