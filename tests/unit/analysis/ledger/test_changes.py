"""Change points of many series: medians without the missing, and the best partition against all partitions."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from leadline.analysis.columns import Floats
from leadline.analysis.ledger.onset.changes import medians, segments
from leadline.analysis.ledger.onset.changes_kernels import last_begins


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_medians_are_those_of_numpy_to_the_last_bit(axis: int) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(7, 8, 9))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[2, 3, :] = values[:, 3, 4] = values[2, :, 4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        wanted = np.nanmedian(values, axis=axis)
    assert np.isnan(wanted).any()
    assert np.array_equal(medians(values, axis), wanted, equal_nan=True)


def cost(series_T: Floats, places: tuple[int, ...], penalty: float) -> float:
    parts = np.split(series_T, places)
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + penalty * (len(parts) - 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_all_partitions_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series_WT = rng.normal(size=(3, 12)) + np.repeat(rng.normal(0, 3, (3, 3)), 4, axis=1)
    sums = [np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0))) for each in (series_WT**0, series_WT, series_WT**2)]
    from_WT = np.zeros((3, 13), np.int64)
    last_begins(0, 3, sums[0], sums[1], sums[2], np.full(3, 2.0), 2, from_WT)
    for series_T, from_T in zip(series_WT, from_WT, strict=True):
        every = [
            places
            for many in range(6)
            for places in itertools.combinations(range(2, 11), many)
            if all(after - before >= 2 for before, after in itertools.pairwise(places))
        ]
        found, end = [], 12
        while end := int(from_T[end]):
            found.append(end)
        assert cost(series_T, tuple(found[::-1]), 2.0) == pytest.approx(
            min(cost(series_T, each, 2.0) for each in every)
        )


def test_series_are_cut_the_same_alone_and_among_others() -> None:
    rng = np.random.default_rng(9)
    series_WT = rng.normal(0, 0.02, (40, 120))
    series_WT[7, 60:] += 0.3
    together = segments(series_WT, length_min=6, penalty=4.0)
    alone = [segments(each[None, :], length_min=6, penalty=4.0)[0] for each in series_WT]
    assert [each.tolist() for each in together] == [each.tolist() for each in alone]
    assert together[7].tolist() == [0, 60]
