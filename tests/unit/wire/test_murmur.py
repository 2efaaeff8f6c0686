"""The hash kernel against the definition in model.ids and against PyPI's mmh3."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest

from leadline.model.ids import murmur3_128
from leadline.wire.murmur import murmur3_slice, murmur3_slices

DATA = np.random.default_rng(1).integers(0, 256, 400, dtype=np.uint8)


@pytest.mark.parametrize("size", [*range(50), 255, 390])
@pytest.mark.parametrize("start", [0, 3])
def test_equals_definition_and_mmh3(size: int, start: int) -> None:
    raw = DATA.tobytes()[start : start + size]
    low, high = murmur3_slice(DATA, start, start + size)
    assert int(low) | int(high) << 64 == murmur3_128(raw)
    assert (int(low), int(high)) == mmh3.hash64(raw, signed=False)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (5, 4), (0, 401), (401, 401)])
def test_slices_that_leave_the_array_are_refused(start: int, end: int) -> None:
    with pytest.raises(IndexError, match="leaves the array"):
        murmur3_slice(DATA, start, end)


def test_many_slices() -> None:
    start = np.array([0, 10, 390], np.int64)
    end = np.array([10, 10, 400], np.int64)
    ids = np.zeros((3, 2), np.uint64)
    murmur3_slices(DATA, start, end, ids)
    for row in range(3):
        raw = DATA[start[row] : end[row]].tobytes()
        assert int(ids[row, 0]) | int(ids[row, 1]) << 64 == murmur3_128(raw)
    with pytest.raises(IndexError, match="differ in length"):
        murmur3_slices(DATA, start, end, ids[:2])
