"""When a job was there, told by the second: kernels against the plain words of what they do; parts are the whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.analysis.ledger.collectives.arrival_kernels import SMALL
from leadline.analysis.ledger.presence import RANKS_MAX, claimed_size, distinct_of
from leadline.analysis.ledger.presence_kernels import by_second

S = 10**9


def told(begins: list[int], ends: list[int | None], seconds: int, longest_ns: int) -> tuple[list[int], list[int]]:
    first, last = [2**62] * seconds, [-(2**62)] * seconds
    for begin, end in zip(begins, ends, strict=True):
        if 0 <= begin < seconds * S:
            until = begin + 1 if end is None or not 0 < end - begin <= longest_ns else end
            first[begin // S] = min(first[begin // S], begin)
            last[begin // S] = max(last[begin // S], until)
    return first, last


def bits(ends: list[int | None]) -> NDArray[np.uint8]:
    return np.packbits([False, *(end is not None for end in ends)], bitorder="little")


def test_seconds_are_told_as_in_words_whole_and_in_parts() -> None:
    rng = np.random.default_rng(4)
    begins = rng.integers(-S, 6 * S, 400).tolist()
    ends = [None if rng.random() < 0.3 else begin + int(rng.integers(-5, 3 * S)) for begin in begins]
    begin_N, end_N, has_end = np.array(begins), np.array([-1 if end is None else end for end in ends]), bits(ends)
    whole = by_second(0, 400, begin_N, end_N, has_end, 1, 0, 2 * S, 5)
    assert tuple(each.tolist() for each in whole) == told(begins, ends, 5, 2 * S)
    parts = [by_second(first, last, begin_N, end_N, has_end, 1, 0, 2 * S, 5) for first, last in ((0, 150), (150, 400))]
    assert np.minimum(parts[0][0], parts[1][0]).tolist() == whole[0].tolist()
    assert np.maximum(parts[0][1], parts[1][1]).tolist() == whole[1].tolist()


def test_sizes_and_ranks_beyond_reason_are_passed_over() -> None:
    sizes = pa.table({"ranks": pa.array([None, -4, 0, 3, RANKS_MAX + 1, 2**62, 2], pa.int64())})
    assert claimed_size(sizes) == 3
    assert claimed_size(sizes.slice(0, 3)) == 0
    assert distinct_of(np.array([5, -1, RANKS_MAX, 2, 5, RANKS_MAX - 1])) == [2, 5, RANKS_MAX - 1]


def test_two_threads_find_what_one_finds() -> None:
    number_N = np.random.default_rng(5).integers(0, 3000, 2 * SMALL)
    assert distinct_of(number_N) == np.unique(number_N).tolist()
    assert claimed_size(pa.table({"ranks": number_N})) == number_N.max()
