"""The index of series behaves as a dict, `touch` as a plain loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.wire.series_index import SeriesIndex, touch

# Few halves, so that ids repeat and share a half; the extremes are numbers like any other.
HALF = st.one_of(st.integers(0, 3), st.sampled_from([2**63, 2**64 - 1]))
BATCH = st.lists(st.tuples(HALF, HALF), max_size=30)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), BATCH), max_size=6), st.integers(1, 40), st.integers(0, 2**64 - 1))
def test_index_is_a_bounded_dict(steps: list[tuple[bool, list[tuple[int, int]]]], most: int, seed: int) -> None:
    index, known = SeriesIndex(most, seed), dict[tuple[int, int], int]()
    for is_insert, batch in steps:
        if is_insert:
            for one in batch:
                if one not in known and len(known) < most:
                    known[one] = len(known)
        ids = np.array(batch, np.uint64).reshape(-1, 2)
        got = index.insert(ids) if is_insert else index.lookup(ids)
        assert got.tolist() == [known.get(one, -1) for one in batch]
        assert len(index) == len(known)
    assert [tuple(row) for row in index.ids.tolist()] == list(known)


@settings(deadline=None)
@given(
    st.lists(st.integers(-1, 5), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), max_size=30),
)
def test_touch_is_a_plain_loop(number: list[int], samples: list[tuple[int, int]]) -> None:
    samples = [(stream % len(number), time) for stream, time in samples]
    expected, late = [-(2**63)] * 6, 0
    for stream, time in samples:
        if number[stream] >= 0:
            late += time < expected[number[stream]]
            expected[number[stream]] = max(expected[number[stream]], time)
    last = np.full(6, -(2**63), np.int64)
    streams, times = (np.array(column, np.int64) for column in (zip(*samples, strict=True) if samples else ((), ())))
    assert touch(np.array(number, np.int64), streams, times, last) == late
    assert last.tolist() == expected
