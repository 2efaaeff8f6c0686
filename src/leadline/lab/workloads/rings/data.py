"""The numbers that `rings` sends, and what must come out: small integers, so that every sum is exact in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from leadline.lab.workloads.rings.algorithm import Op, Span, split

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES = ("float32", "float64", "int32", "int64")
_PATTERN = 251  # a prime: no block, share or packet has a length in step with it
_RANK_STRIDE = 17


def pattern(rank: int, count: int, dtype: str, first: int = 0) -> Array:
    """Elements `first` to `first + count` of a rank's input: (31 i + 17 rank) mod 251."""
    period = (31 * np.arange(_PATTERN) + _RANK_STRIDE * rank) % _PATTERN
    start = first % _PATTERN
    return np.tile(period, count // _PATTERN + 2)[start : start + count].astype(dtype)


def prepare(op: Op, given: Array, work: Array, rank: int, ranks: int) -> None:
    """Make the buffer that is worked on as the collective expects it: the input, or only one's own block of it."""
    if op.name == "all_to_all":
        own = block(len(given), rank, ranks)
        work[own.start : own.stop] = given[own.start : own.stop]
    else:
        work[:] = given


def wrong(op: Op, work: Array, rank: int, ranks: int, root: int = 0) -> int:
    """How many elements of the result are not what they must be. nccl-tests' #wrong."""
    count, dtype = len(work), str(work.dtype)
    if op.name in ("all_reduce", "reduce_scatter"):
        own = block(count, rank, ranks) if op.name == "reduce_scatter" else Span(0, count)
        total = sum(pattern(each, own.length, "int64", own.start) for each in range(ranks))
        return _differing(work[own.start : own.stop], np.asarray(total).astype(dtype))
    if op.name == "broadcast":
        return _differing(work, pattern(root, count, dtype))
    bad = 0
    for source in range(ranks):
        span = block(count, source, ranks)
        first = block(count, rank, ranks).start if op.name == "all_to_all" else span.start
        bad += _differing(work[span.start : span.stop], pattern(source, span.length, dtype, first))
    return bad


def block(count: int, rank: int, ranks: int) -> Span:
    """The block of a buffer that bears a rank's number."""
    return split(Span(0, count), ranks)[rank]


def _differing(got: Array, expected: Array) -> int:
    return int(np.count_nonzero(got != expected))
