"""`wire.blank`: the sentinels are found, real values near them are not."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.wire.blank import is_dcgm_blank

BLANKS = [
    *(float(0x7FFFFFFFFFFFFFF0 + n) for n in range(4)),
    *(float(0x7FFFFFF0 + n) for n in range(4)),
    *(140737488355328.0 + n for n in range(4)),
]
VALUES = [0.0, -1.0, 0x7FFFFFF0 - 1.0, 0x7FFFFFF4 * 1.0, 140737488355327.0, 140737488355332.0, 2147483632.5]
VALUES += [2.0**62, -(2.0**63), float("inf"), float("nan"), 9.3e18]


@pytest.mark.parametrize("value", BLANKS)
def test_sentinels_are_blank(value: float) -> None:
    assert is_dcgm_blank(np.array([value])).tolist() == [True]


@pytest.mark.parametrize("value", VALUES)
def test_other_values_are_not(value: float) -> None:
    assert is_dcgm_blank(np.array([value])).tolist() == [False]


def test_empty() -> None:
    assert is_dcgm_blank(np.zeros(0)).tolist() == []


def test_a_stale_marker_is_no_sentinel_and_no_warning() -> None:
    marker = np.array([0x7FF0000000000002], np.uint64).view(np.float64)
    assert is_dcgm_blank(marker).tolist() == [False]
