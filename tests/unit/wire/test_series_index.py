"""The index of series, and the newest time of each."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.model.errors import UsageError
from leadline.wire.series_index import SeriesIndex, touch

LEAST = np.iinfo(np.int64).min


def ids_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)


def test_numbers_are_consecutive_and_stay_while_it_grows() -> None:
    index = SeriesIndex(100_000)
    ids = ids_of(20_000)
    assert index.lookup(ids).tolist() == [-1] * 20_000
    for at in range(0, 20_000, 700):
        index.insert(ids[at : at + 700])
    assert len(index) == 20_000
    assert index.lookup(ids).tolist() == list(range(20_000))
    assert index.insert(ids[::-1]).tolist() == list(range(19_999, -1, -1))
    assert (index.ids == ids).all()
    assert index.lookup(ids_of(500, seed=1)).max() == -1


def test_ids_that_share_a_half_are_told_apart() -> None:
    ids = np.array([[1, 1], [1, 2], [2, 1], [0, 0], [1, 1]], np.uint64)
    index = SeriesIndex(10)
    assert index.insert(ids).tolist() == [0, 1, 2, 3, 0]
    assert index.lookup(ids[::-1]).tolist() == [0, 3, 2, 1, 0]


def test_no_more_than_the_maximum() -> None:
    index = SeriesIndex(3)
    ids = ids_of(5)
    assert index.insert(ids).tolist() == [0, 1, 2, -1, -1]
    assert index.lookup(ids).tolist() == [0, 1, 2, -1, -1]
    assert len(index) == 3


def test_exactly_as_many_as_it_holds_before_growing() -> None:
    for count in (511, 512, 513, 1024, 1025):
        index = SeriesIndex(count)
        assert index.insert(ids_of(count)).tolist() == list(range(count))


def test_columns_that_are_views_of_others() -> None:
    """Ids cut out of a wider array, not contiguous, and an empty call."""
    wide = ids_of(20).reshape(10, 4)
    index = SeriesIndex(100)
    assert index.insert(wide[:, 1:3]).tolist() == list(range(10))
    assert index.lookup(np.ascontiguousarray(wide[:, 1:3])).tolist() == list(range(10))
    assert index.lookup(np.zeros((0, 2), np.uint64)).tolist() == []


def test_seed_changes_nothing_but_the_places() -> None:
    ids = ids_of(3000)
    assert SeriesIndex(5000, seed=1 << 70 | 5).insert(ids).tolist() == SeriesIndex(5000).insert(ids).tolist()


def test_what_cannot_be() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        SeriesIndex(0)
    with pytest.raises(UsageError, match=r"\(S, 2\)"):
        SeriesIndex(1).lookup(np.zeros(4, np.uint64))


def test_touch_notes_the_newest_and_counts_the_late() -> None:
    last = np.full(3, LEAST, np.int64)
    number = np.array([2, -1, 0], np.int64)  # stream 1 was refused
    stream = np.array([0, 0, 0, 1, 2, 2, 2], np.int64)
    time = np.array([10, 5, 10, 99, 7, 8, 7], np.int64)
    assert touch(number, stream, time, last) == 2  # 5 after 10, 7 after 8; 10 again is not late
    assert last.tolist() == [8, LEAST, 10]
    assert touch(number, stream[:1], np.array([9], np.int64), last) == 1


@pytest.mark.parametrize(
    ("number", "stream", "times"), [([3], [0], [1]), ([0], [1], [1]), ([0], [-1], [1]), ([0], [0, 0], [1])]
)
def test_touch_refuses_to_leave_its_columns(number: list[int], stream: list[int], times: list[int]) -> None:
    columns = [np.array(column, np.int64) for column in (number, stream, times)]
    with pytest.raises(IndexError, match="touch"):
        touch(*columns, np.zeros(3, np.int64))
