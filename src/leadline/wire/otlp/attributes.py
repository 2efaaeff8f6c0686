"""Scans OTLP attributes (KeyValue and AnyValue) and strings into rows of `otlp_tables`.

Source: opentelemetry-proto 1.x, common/v1/common.proto; Unicode 15, table 3-7 for well-formed UTF-8.
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from leadline.wire.kernel import kernel
from leadline.wire.otlp.tables import (
    ATTRIBUTES,
    BOOL,
    FULL,
    INTEGER,
    INTEGERS,
    KEY,
    KEY_SIZE,
    KIND,
    NOTHING,
    OTHER,
    TEXT,
    TWICE,
    UTF8,
    VALUE,
    VALUE_SIZE,
    Bytes,
    Ints,
    Tables,
)
from leadline.wire.proto import failure, length, skip, tag, varint
from leadline.wire.words import byte_at, word_at

_SDK = np.frombuffer(b"telemetry.sdk.", np.uint8)


@kernel
def read_attribute(state: Ints, attribute: Ints, data: Bytes, at: int, end: int) -> int:
    """Read one KeyValue into the next row of the attributes."""
    row = state[ATTRIBUTES]
    if row >= len(attribute):
        return failure(FULL, 0)
    for column in range(5):
        attribute[row, column] = 0
    seen = False
    while 0 <= at < end:
        begin = at
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x0A:
            start, at = read_text(data, at, end)
            attribute[row, KEY] = start
            attribute[row, KEY_SIZE] = at - start
        elif field == 0x12:
            if seen:
                return failure(TWICE, begin)
            seen = True
            start, stop = length(data, at, end)
            at = _any_value(state, attribute, row, data, start, stop)
        else:
            at = skip(data, at, end, field)
    state[ATTRIBUTES] = row + 1
    return at


@kernel
def drop_sdk(t: Tables, data: Bytes, lo: int) -> None:
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
def _any_value(state: Ints, attribute: Ints, row: int, data: Bytes, begin: int, end: int) -> int:
    """Read one AnyValue into row `row` of the attributes."""
    at = begin
    kind, value, size = NOTHING, 0, 0
    while 0 <= at < end:
        field, at = tag(data, at, end)
        if at < 0:
            break
        if field == 0x0A:  # string_value
            value, at = read_text(data, at, end)
            size = at - value
            if kind != OTHER:
                kind = TEXT
        elif field == 0x10 or field == 0x18:  # bool_value, int_value
            number, at = varint(data, at, end)
            value = int(np.int64(number))
            if kind != OTHER:
                kind = BOOL if field == 0x10 else INTEGER
        else:
            if field == 0x21 or field == 0x2A or field == 0x32 or field == 0x3A or field == 0x40:
                kind = OTHER  # double, array, map, bytes, index into a string table
            at = skip(data, at, end, field)
    if kind == OTHER:
        value, size = begin, end - begin
    if kind == INTEGER:
        state[INTEGERS] += 1
    attribute[row, KIND] = kind
    attribute[row, VALUE] = value
    attribute[row, VALUE_SIZE] = size
    return at


@kernel
def read_text(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """(begin, end) of a string field; a string that is not UTF-8 fails."""
    begin, stop = length(data, at, end)
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
            at = failure(UTF8, at)
            return at, at
        at = after
    return begin, stop


@kernel
def _utf8_tail(data: Bytes, at: int, end: int, lead: int) -> int:
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
