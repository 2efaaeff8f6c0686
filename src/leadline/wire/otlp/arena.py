"""The arena: the body of an OTLP metric request with every text behind it that a label needs and the body lacks.

Labels are spans of one array, so what no sender wrote as text is written here: `__name__` and its like, integers,
the five names of a histogram by kernels; doubles, arrays, maps, bytes and bounds of buckets by Python.
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from leadline.model.errors import DataError
from leadline.wire.kernel import kernel
from leadline.wire.labels import copy
from leadline.wire.otlp.tables import (
    ATTRIBUTES,
    BOOL,
    BOUNDS,
    DATA,
    HISTOGRAM,
    INTEGER,
    INTEGERS,
    KIND,
    METRICS,
    NAME,
    NAME_SIZE,
    NAMES_AT,
    OTHER,
    TEXT,
    VALUE,
    VALUE_SIZE,
    Bytes,
    Ints,
    Tables,
)
from leadline.wire.otlp.text import number_text, value_text

# Texts that stand behind the body in the arena, and where each does: (place, size).
WORDS = b"__name__leotel.scope.nameotel.temporalitydeltafalsetrue+Infquantile"
NAME_LABEL, LE, SCOPE_LABEL, TEMPORALITY_LABEL, DELTA_TEXT = (0, 8), (8, 2), (10, 15), (25, 16), (41, 5)
FALSE, TRUE, INFINITY, QUANTILE = (46, 5), (51, 4), (55, 4), (59, 8)

# What is put behind the name of a histogram or summary: suffix i is SUFFIXES[SUFFIX_AT[i] : SUFFIX_AT[i + 1]].
SUFFIXES = b"_bucket_count_sum_min_max"
SUFFIX_AT = np.array([0, 7, 13, 17, 21, 25])

INTEGER_BYTES = 20  # of the longest int64 as text


def make_arena(body: bytes, tables: Tables) -> tuple[Bytes, int, Ints]:
    """The body with every text behind it that labels need.

        body | WORDS | SUFFIXES | texts made here | integers | names of histograms

    Returns: (arena, where WORDS stand, (D, 2) spans of the bounds' texts). Errors: DataError.
    """
    words = len(body)
    suffixes = words + len(WORDS)
    at = suffixes + len(SUFFIXES)
    texts: list[bytes] = []
    at = _other_texts(body, tables, at, texts)
    bound_texts = _bound_texts(tables, at, texts)
    fixed = b"".join((body, WORDS, SUFFIXES, *texts))
    metrics = tables.metrics[: int(tables.state[METRICS])]
    named = metrics[metrics[:, DATA] >= HISTOGRAM]
    names = int(5 * named[:, NAME_SIZE].sum()) + len(named) * len(SUFFIXES)
    integers = int(tables.state[INTEGERS]) * INTEGER_BYTES
    arena = np.empty(len(fixed) + integers + names, np.uint8)
    arena[: len(fixed)] = np.frombuffer(fixed, np.uint8)
    attributes = int(tables.state[ATTRIBUTES])
    at = write_integers(tables.attributes, attributes, arena, len(fixed), words)
    write_names(tables.metrics, len(metrics), arena, at, suffixes)
    return arena, words, bound_texts


def _other_texts(body: bytes, tables: Tables, at: int, texts: list[bytes]) -> int:
    """Texts of doubles, arrays, maps and bytes; their rows become TEXT. Returns the end of what was added."""
    attributes = tables.attributes[: int(tables.state[ATTRIBUTES])]
    known: dict[bytes, tuple[int, int]] = {}
    for row in np.flatnonzero(attributes[:, KIND] == OTHER).tolist():
        start, size = (int(attributes[row, column]) for column in (VALUE, VALUE_SIZE))
        raw = body[start : start + size]
        if raw not in known:
            text = _other_text(raw, start)
            known[raw] = at, len(text)
            texts.append(text)
            at += len(text)
        attributes[row, KIND] = TEXT
        attributes[row, VALUE], attributes[row, VALUE_SIZE] = known[raw]
    return at


def _other_text(raw: bytes, start: int) -> bytes:
    try:
        return value_text(AnyValue.FromString(raw)).encode()
    except DecodeError as error:
        raise DataError(f"the OTLP body, byte {start}", "an attribute's value", str(error)) from None


def _bound_texts(tables: Tables, at: int, texts: list[bytes]) -> Ints:
    """(D, 2) spans of the texts of bucket bounds and quantiles, each distinct number written once."""
    bits = tables.bound_bits[: int(tables.state[BOUNDS])]
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


@kernel
def write_integers(attributes: Ints, count: int, arena: Bytes, at: int, words: int) -> int:
    """Write integers as decimal text from `at` on, and point booleans at their words: all become TEXT."""
    for row in range(count):
        kind, value = attributes[row, KIND], attributes[row, VALUE]
        if kind == BOOL:
            place, size = FALSE if value == 0 else TRUE
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
def write_names(metrics: Ints, count: int, arena: Bytes, at: int, suffixes: int) -> int:
    """Write the five names of every histogram and summary from `at` on: `name_bucket`, `name_count`, ..."""
    for row in range(count):
        if metrics[row, DATA] < HISTOGRAM:
            continue
        metrics[row, NAMES_AT] = at
        name = metrics[row, NAME]
        for suffix in range(5):
            at = copy(arena, name, name + metrics[row, NAME_SIZE], arena, at)
            at = copy(arena, suffixes + SUFFIX_AT[suffix], suffixes + SUFFIX_AT[suffix + 1], arena, at)
    return at
