"""The scanner of exposition pages: bytes in, spans, canonical labels, times and values out.

Every read is compared with the end of its line before it is made. Escapes are undone in place (unescaped text
is never longer), so the page must be a copy that may be written to. Numbers that cannot be computed exactly
with one multiplication or division are left to Python (`hard_value`, `hard_time`).

Source of the exact path: W. D. Clinger, "How to read floating point numbers accurately", PLDI 1990: a decimal
of a mantissa below 2**53 and a power of ten within 10**22 is correctly rounded by one IEEE operation.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from leadline.wire.label_kernels import LABELS_MAX, NO_ROOM, TWICE, write_canonical
from leadline.wire.murmur import murmur3_slice
from leadline.wire.words import byte_at

# Errors, as indices of `exposition.EXPECTED`; 0 is none.
OK, METRIC_NAME, LABEL_NAME, EQUALS, QUOTE, CLOSING, COMMA, VALUE, MILLISECONDS, SECONDS, LINE_END, ONCE, ROOM = range(
    13
)

_NEWLINE, _RETURN, _SPACE, _TAB, _HASH = 10, 13, 32, 9, 35
_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _EQUALS, _COMMA = 34, 92, 123, 125, 61, 44
_PLUS, _MINUS, _DOT, _COLON, _UNDERSCORE, _N = 43, 45, 46, 58, 95, 110

_POWERS = np.array([10.0**power for power in range(23)])
_EXACT = np.uint64(1 << 53)
_NAN = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]  # Prometheus' ordinary NaN

# How a number came out.
_EXACTLY, _HARD, _BAD = 0, 1, 2

_MILLISECONDS_MAX = 9_223_372_036_854  # int64 ns end in the year 2262
_SECONDS_MAX = 9_223_372_035


@njit(nogil=True, cache=True, inline="always")
def _skip_blank(page: NDArray[np.uint8], at: int, end: int) -> int:
    while at < end and (byte_at(page, at) == _SPACE or byte_at(page, at) == _TAB):
        at += 1
    return at


@njit(nogil=True, cache=True, inline="always")
def _line_end(page: NDArray[np.uint8], at: int, end: int) -> int:
    while at < end and byte_at(page, at) != _NEWLINE:
        at += 1
    return at


@njit(nogil=True, cache=True, inline="always")
def _name_end(page: NDArray[np.uint8], at: int, end: int, colon: bool) -> int:
    """End of a bare metric name (`colon`) or label name; `at` itself if there is none."""
    start = at
    while at < end:
        byte = byte_at(page, at)
        letter = (97 <= (byte | 32) <= 122) or byte == _UNDERSCORE or (colon and byte == _COLON)
        if not letter and not (at > start and 48 <= byte <= 57):
            break
        at += 1
    return at


@njit(nogil=True, cache=True)
def _quoted(page: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
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


@njit(nogil=True, cache=True)
def _one_label(page: NDArray[np.uint8], at: int, end: int, label: NDArray[np.int64]) -> tuple[int, int, bool]:
    """Read `name="value"` or a quoted metric name into `label`; returns (end, error, is the metric's name)."""
    quoted = at < end and byte_at(page, at) == _QUOTE
    if quoted:
        label[0] = at + 1
        close, label[1] = _quoted(page, at + 1, end)
        if close < 0:
            return at, CLOSING, False
        if label[1] == 0:
            return at, LABEL_NAME, False
        at = _skip_blank(page, close + 1, end)
        if at < end and (byte_at(page, at) == _COMMA or byte_at(page, at) == _CLOSE):
            return at, OK, True
    else:
        stop = _name_end(page, at, end, False)
        if stop == at:
            return at, LABEL_NAME, False
        label[0], label[1] = at, stop - at
        at = _skip_blank(page, stop, end)
    if at >= end or byte_at(page, at) != _EQUALS:
        return at, EQUALS, False
    at = _skip_blank(page, at + 1, end)
    if at >= end or byte_at(page, at) != _QUOTE:
        return at, QUOTE, False
    label[2] = at + 1
    close, label[3] = _quoted(page, at + 1, end)
    if close < 0:
        return at, CLOSING, False
    return close + 1, OK, False


@njit(nogil=True, cache=True)
def _label_set(
    page: NDArray[np.uint8], at: int, end: int, labels: NDArray[np.int64], count: int
) -> tuple[int, int, int]:
    """Read labels from behind `{` to behind `}`; row 0 is the metric's name, which may come in here.

    Returns: (end, count of labels, error). A count over LABELS_MAX says that the rest was read, not kept.
    """
    while True:
        at = _skip_blank(page, at, end)
        if at < end and byte_at(page, at) == _CLOSE:
            return at + 1, count, OK
        row = min(count, LABELS_MAX)
        begin = at
        at, error, is_name = _one_label(page, at, end, labels[row])
        if error != OK:
            return at, count, error
        if is_name:
            if labels[0, 3] > 0:
                return begin, count, ONCE
            labels[0, 2], labels[0, 3] = labels[row, 0], labels[row, 1]
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


@njit(nogil=True, cache=True)
def _word(page: NDArray[np.uint8], at: int, end: int, negative: bool, signed: bool) -> tuple[int, int, float]:
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


@njit(nogil=True, cache=True)
def _exponent(page: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
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


@njit(nogil=True, cache=True)
def _number(page: NDArray[np.uint8], at: int, end: int) -> tuple[int, int, float]:
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


@njit(nogil=True, cache=True)
def _milliseconds(page: NDArray[np.uint8], at: int, end: int) -> tuple[int, int, int]:
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


@njit(nogil=True, cache=True)
def _seconds(page: NDArray[np.uint8], at: int, end: int) -> tuple[int, int, int]:
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
                return at, _BAD, 0
        at += 1
    for _ in range(9 - max(decimals, 0)):
        fraction *= 10
    total = whole * 1_000_000_000 + fraction
    return stop, _EXACTLY, -total if negative else total


@njit(nogil=True, cache=True)
def _exemplar(page: NDArray[np.uint8], at: int, end: int, labels: NDArray[np.int64]) -> tuple[int, int]:
    """Read `# {labels} value [time]` from its hash on: (end, error). Nothing of it is kept."""
    at = _skip_blank(page, at + 1, end)
    if at >= end or byte_at(page, at) != _OPEN:
        return at, LINE_END
    labels[0, 3] = 1  # an exemplar has no metric name of its own
    at, _, error = _label_set(page, at + 1, end, labels, 1)
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
    return _skip_blank(page, stop, end), OK


@njit(nogil=True, cache=True)
def _name_and_labels(
    page: NDArray[np.uint8], at: int, end: int, name_at: int, labels: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Read what stands before the value; row 0 of `labels` becomes `__name__`: (end, count, error)."""
    begin = at
    stop = _name_end(page, at, end, True)
    labels[0, 0], labels[0, 1], labels[0, 2], labels[0, 3] = name_at, 8, at, stop - at
    at = _skip_blank(page, stop, end)
    if at < end and byte_at(page, at) == _OPEN:
        at, count, error = _label_set(page, at + 1, end, labels, 1)
        if error == OK and labels[0, 3] == 0:
            return begin, count, METRIC_NAME
        return at, count, error
    if stop == begin:
        return at, 1, METRIC_NAME
    if at == stop:  # no blank: whatever follows does not belong in a name
        return at, 1, METRIC_NAME if at < end else VALUE
    return at, 1, OK


@njit(nogil=True, cache=True)
def _ends(page: NDArray[np.uint8], at: int, end: int) -> bool:
    """Whether a number ends at `at`: the line does, or a blank follows."""
    return at >= end or byte_at(page, at) == _SPACE or byte_at(page, at) == _TAB


@njit(nogil=True, cache=True)
def scan(
    page: NDArray[np.uint8],
    size: int,
    openmetrics: bool,
    now_ns: int,
    label_bytes: NDArray[np.uint8],
    label_start: NDArray[np.int64],
    label_end: NDArray[np.int64],
    ids: NDArray[np.uint64],
    time_ns: NDArray[np.int64],
    value: NDArray[np.float64],
    hard_value: NDArray[np.int64],
    hard_time: NDArray[np.int64],
    comments: NDArray[np.int64],
) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    """Read a page of `size` bytes; `page` goes on with the eight bytes `__name__`.

    Outputs, with room for the L samples and C comments that a page of this size can have: one row per sample of
    `label_start`, `label_end`, `ids` (L, 2), `time_ns`, `value`; (L, 3) `hard_value`, `hard_time`: sample, start and
    end of a number left to Python; (C, 3) `comments`: line, start and end of a line that begins with `#`.
    Returns: (error, line from 1, begin of that line, place, samples, hard values, hard times, comments,
    exemplars, samples with too many labels).
    """
    labels = np.zeros((LABELS_MAX + 1, 4), np.int64)
    samples = hard_values = hard_times = comment_count = exemplars = crowded = 0
    line = at = used = 0
    error = OK
    begin = 0
    while at < size:
        line += 1
        begin = at
        next_line = _line_end(page, at, size)
        end = next_line
        if end > at and byte_at(page, end - 1) == _RETURN:
            end -= 1
        at = _skip_blank(page, at, end)
        if at == end:
            at = next_line + 1
            continue
        if byte_at(page, at) == _HASH:
            comments[comment_count, 0] = line
            comments[comment_count, 1] = at
            comments[comment_count, 2] = end
            comment_count += 1
            at = next_line + 1
            continue

        at, count, error = _name_and_labels(page, at, end, size, labels)
        if error != OK:
            break
        at = _skip_blank(page, at, end)
        value_at = at
        stop, outcome, number = _number(page, at, end)
        if outcome == _BAD or not _ends(page, stop, end):
            error = VALUE
            break
        value_stop = stop
        hard = outcome == _HARD
        at = _skip_blank(page, stop, end)

        time = now_ns
        time_at = time_stop = 0
        if at < end and not (openmetrics and byte_at(page, at) == _HASH):
            stop, outcome, time = _seconds(page, at, end) if openmetrics else _milliseconds(page, at, end)
            if outcome == _BAD or not _ends(page, stop, end):
                error = SECONDS if openmetrics else MILLISECONDS
                break
            if outcome == _HARD:
                time_at, time_stop = at, stop
            at = _skip_blank(page, stop, end)

        if count <= LABELS_MAX:
            if used + 64 > len(label_bytes):
                error = ROOM
                break
            written = write_canonical(page, labels, count, False, label_bytes, used)
            if written < 0:
                at = begin
                error = ONCE if written == TWICE else (ROOM if written == NO_ROOM else LABEL_NAME)
                break
            label_start[samples] = used
            label_end[samples] = written
            low, high = murmur3_slice(label_bytes, used, written)
            ids[samples, 0] = low
            ids[samples, 1] = high
            used = written
            time_ns[samples] = time
            value[samples] = number
            if hard:
                hard_value[hard_values, 0] = samples
                hard_value[hard_values, 1] = value_at
                hard_value[hard_values, 2] = value_stop
                hard_values += 1
            if time_stop > 0:
                hard_time[hard_times, 0] = samples
                hard_time[hard_times, 1] = time_at
                hard_time[hard_times, 2] = time_stop
                hard_times += 1
            samples += 1
        else:
            crowded += 1

        if openmetrics and at < end and byte_at(page, at) == _HASH:
            at, error = _exemplar(page, at, end, labels)
            if error != OK:
                break
            exemplars += 1
        if at < end:
            error = LINE_END
            break
        at = next_line + 1
    return error, line, begin, at, samples, hard_values, hard_times, comment_count, exemplars, crowded
