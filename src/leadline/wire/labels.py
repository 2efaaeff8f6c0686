"""Canonical label bytes (see `model.ids`) from pairs of slices, for numba kernels.

A decoder that cannot use its input's own bytes fills `pairs` (LABELS_MAX, 4) with where each label lies in the
input (name start, name end, value start, value end). `in_order` sorts them and looks for mistakes,
`write_canonical` writes the canonical form:

    pairs --in_order--> pairs by name, each once --write_canonical--> 0a.. 0a.. name 12.. value  0a.. ...

Sorting is by binary insertion: labels nearly always come sorted, and LABELS_MAX bounds what a hostile body can
cost to about eight comparisons per label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.words import byte_at, put_word, word_at

Bytes = NDArray[np.uint8]
Pairs = NDArray[np.int64]

# More labels than this are no stream's: ingest's own limit is far lower. The whole stream is dropped and counted.
LABELS_MAX = 256
# Nor is a longer name any label's. In remote-write 2.0 two bytes can name a megabyte, and sorting compares names:
# this keeps what a hostile body can cost in proportion to its size.
NAME_BYTES_MAX = 1024

# What `in_order` makes of a name that comes twice. By all three a label with an empty value is none in the end.
FILLED_ONCE = 0  # remote-write: a mistake, if both have a value
ONCE = 1  # exposition: a mistake
LATER_WINS = 2  # OTLP: the later label is kept, and an empty one takes the earlier away

# What `in_order` returns instead of a number of labels, < 0: no `__name__`, or a label whose name is empty; a name
# twice; a name over NAME_BYTES_MAX.
NO_NAME, TWICE, TOO_LONG = -1, -2, -3

NO_SUFFIX = np.zeros(0, np.uint8)

_NAME = np.uint64(int.from_bytes(b"__name__", "little"))


@kernel
def compare(data: Bytes, start_a: int, end_a: int, start_b: int, end_b: int) -> int:
    """Byte order of two slices: below, at or above zero."""
    size_a, size_b = end_a - start_a, end_b - start_b
    for i in range(min(size_a, size_b)):
        byte_a: int = byte_at(data, start_a + i)
        byte_b: int = byte_at(data, start_b + i)
        if byte_a != byte_b:
            return byte_a - byte_b
    return size_a - size_b


@kernel
def is_name(data: Bytes, start: int, end: int) -> bool:
    """Whether a label's name is `__name__`."""
    return end - start == 8 and word_at(data, start) == _NAME


@kernel
def in_order(data: Bytes, pairs: Pairs, count: int, twice: int) -> int:
    """Sort the first `count` pairs by name, in place; `twice` is FILLED_ONCE, ONCE or LATER_WINS.

    Returns: labels left (by ONCE and LATER_WINS empty ones are among them), or NO_NAME, TWICE or TOO_LONG.
    """
    kept, named = 0, False
    for row in range(count):
        n0, n1, v0, v1 = pairs[row, 0], pairs[row, 1], pairs[row, 2], pairs[row, 3]
        if v1 == v0 and twice == FILLED_ONCE:
            continue
        if n1 == n0:
            return NO_NAME
        if n1 - n0 > NAME_BYTES_MAX:
            return TOO_LONG
        named = named or is_name(data, n0, n1)
        place = _place(data, pairs, kept, n0, n1)
        if place < 0:
            if twice != LATER_WINS:
                return TWICE
            place = -1 - place
        else:
            for later in range(kept, place, -1):
                for column in range(4):
                    pairs[later, column] = pairs[later - 1, column]
            kept += 1
        pairs[place, 0], pairs[place, 1], pairs[place, 2], pairs[place, 3] = n0, n1, v0, v1
    return kept if named else NO_NAME


@kernel
def _place(data: Bytes, pairs: Pairs, kept: int, start: int, end: int) -> int:
    """Where a name belongs among the first `kept` pairs; -1 - row if it is there already."""
    if kept == 0 or compare(data, pairs[kept - 1, 0], pairs[kept - 1, 1], start, end) < 0:
        return kept
    low, high = 0, kept
    while low < high:
        middle = (low + high) // 2
        order = compare(data, pairs[middle, 0], pairs[middle, 1], start, end)
        if order == 0:
            return -1 - middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def varint_bytes(value: int) -> int:
    """How many bytes the shortest varint of a number takes."""
    size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


@kernel
def canonical_bytes_max(pairs: Pairs, count: int, suffix_bytes: int) -> int:
    """An upper bound of what `write_canonical` will write, for a suffix of up to 24 bytes.

    A label takes three tags, three lengths and its text. A length takes one byte, two from 128 on, three from 16,384
    on, and so forth: together never more beyond the three than a 32nd of the text.
    """
    size = suffix_bytes
    for row in range(count):
        text = pairs[row, 1] - pairs[row, 0] + pairs[row, 3] - pairs[row, 2]
        size += 6 + text + text // 32
    return size


@kernel
def write_canonical(data: Bytes, pairs: Pairs, count: int, suffix: Bytes, out: Bytes, at: int) -> int:
    """Write `count` labels, already in order, at `out[at:]`, but no empty ones; the metric's name gets `suffix`.

    Returns: the position after them. `canonical_bytes_max` bytes must be free from `at` on.
    """
    for row in range(count):
        n0, n1, v0, v1 = pairs[row, 0], pairs[row, 1], pairs[row, 2], pairs[row, 3]
        if v1 == v0:
            continue
        more = len(suffix) if len(suffix) > 0 and is_name(data, n0, n1) else 0
        name, value = n1 - n0, v1 - v0 + more
        out[at] = 0x0A
        at = _write_varint(out, at + 1, 2 + varint_bytes(name) + name + varint_bytes(value) + value)
        out[at] = 0x0A
        at = _write_varint(out, at + 1, name)
        at = copy(data, n0, n1, out, at)
        out[at] = 0x12
        at = _write_varint(out, at + 1, value)
        at = copy(data, v0, v1, out, at)
        if more:
            at = copy(suffix, 0, more, out, at)
    return at


@kernel
def copy(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Copy `data[start:end]` to `out[at:]`, for which there is room. Returns: the position after it.

    Labels are short: words that run up to 7 bytes past the end, where both arrays allow it, beat a call of
    memcpy. What is written past the end is overwritten by the next label or never read.
    """
    size = end - start
    if end + 8 <= len(data) and at + size + 8 <= len(out):
        for i in range(0, size, 8):
            put_word(out, at + i, word_at(data, start + i))
    else:
        for i in range(size):
            out[at + i] = data[start + i]
    return at + size


@kernel
def _write_varint(out: Bytes, at: int, value: int) -> int:
    while value > 0x7F:
        out[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1
