"""What a scanned OTLP metric request is: flat tables of numbers that say where everything stands.

    ResourceMetrics > ScopeMetrics > Metric > points      one row each in `scopes`, `metrics`, `points`
    KeyValue                                              one row in `attributes`; owners keep a range of rows

Nothing is copied: a string is a (start, size) span of the body. `otlp_requests` fills the tables, `otlp_arena`
turns every attribute into a text, `otlp_streams` reads them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

# What can be wrong beside the codes of wire.proto; FULL: a table has no room, the scan starts over with larger ones.
TWICE, UTF8, FULL = 101, 102, 103

# Places in `state`.
ERROR, ERROR_AT, ATTRIBUTES, SCOPES, METRICS, POINTS, BUCKETS, BOUNDS, EXEMPLARS, NATIVE, INTEGERS, RESOURCE_LO, \
    RESOURCE_HI, STATE_SIZE = range(14)  # fmt: skip

# Columns of `attributes`: span of the key, kind, and span of the value (INTEGER, BOOL: the number itself).
KEY, KEY_SIZE, KIND, VALUE, VALUE_SIZE = range(5)
NOTHING, TEXT, BOOL, INTEGER, OTHER = range(5)  # OTHER: the span is the whole AnyValue, left to upb

# Columns of `scopes`: range of the resource's attributes, span of the scope's name.
SCOPE_LO, SCOPE_HI, SCOPE_NAME, SCOPE_NAME_SIZE = range(4)

# Columns of `metrics`; DATA is the field number of the oneof. NAMES_AT: see `otlp_arena.write_names`.
SCOPE, NAME, NAME_SIZE, HELP, HELP_SIZE, UNIT, UNIT_SIZE, DATA, TEMPORALITY, MONOTONIC, NAMES_AT = range(11)
GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY = 5, 7, 9, 10, 11
DELTA = 1

# Columns of `points`; the ranges are rows of `attributes`, `buckets` and `bounds`. GIVEN: which of value (or
# sum), minimum and maximum there are, as bits 1, 2 and 4.
METRIC, ATTRIBUTE_LO, ATTRIBUTE_HI, TIME, FLAGS, GIVEN, COUNT, BUCKET_LO, BUCKET_HI, BOUND_LO, BOUND_HI = range(11)
NO_RECORDED_VALUE = 1


class Tables(NamedTuple):
    """What `otlp_requests.scan` fills; see the columns above."""

    state: Ints  # (STATE_SIZE,)
    attributes: Ints  # (A, 5)
    scopes: Ints  # (C, 4)
    metrics: Ints  # (M, 11)
    points: Ints  # (P, 11)
    value_bits: Ints  # (P, 3) value or sum, minimum, maximum, as they lie in memory
    value: Doubles  # (P, 3) the same memory
    buckets: Ints  # (B,) counts
    bound_bits: Ints  # (D,) bounds of buckets; of summaries quantile, value, quantile, value, ...
    bounds: Doubles  # (D,) the same memory


def empty_tables(rows: int) -> Tables:
    """Tables for `rows` scopes, metrics and points; four times as many attributes, buckets and bounds."""
    value_bits = np.empty((rows, 3), np.int64)
    bound_bits = np.empty(4 * rows, np.int64)
    return Tables(
        state=np.zeros(STATE_SIZE, np.int64),
        attributes=np.empty((4 * rows, 5), np.int64),
        scopes=np.empty((rows, 4), np.int64),
        metrics=np.empty((rows, 11), np.int64),
        points=np.empty((rows, 11), np.int64),
        value_bits=value_bits,
        value=value_bits.view(np.float64),
        buckets=np.empty(4 * rows, np.int64),
        bound_bits=bound_bits,
        bounds=bound_bits.view(np.float64),
    )
