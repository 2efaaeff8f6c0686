"""VUS-PR against small cases worked out by hand and against the slow way to compute it."""

from __future__ import annotations

import numpy as np
import pytest
from evals.vus import PERIOD_USUAL, period_of, vus_pr

from leadline.analysis.columns import Bools, Floats


def slow_vus_pr(label_N: Bools, score_N: Floats, width_max: int, thresholds: int) -> float:
    """As the definition reads: for each width and each threshold, sample by sample."""
    count = len(label_N)
    spans, inside = [], False
    for n in range(count):
        if label_N[n] and not inside:
            spans.append([n, n])
        inside = bool(label_N[n])
        if inside:
            spans[-1][1] = n
    falling = sorted(score_N.tolist(), reverse=True)
    areas = []
    for width in range(width_max + 1):
        soft = [0.0] * count
        for first, last in spans:
            for n in range(count):
                distance = max(first - n, n - last, 0)
                if 0 < distance <= width // 2:
                    soft[n] += (1 - distance / width) ** 0.5
        soft = [1.0 if label_N[n] else min(soft[n], 1.0) for n in range(count)]
        merged: list[list[int]] = []
        for first, last in spans:
            low, high = max(first - width // 2, 0), min(last + width // 2, count - 1)
            if merged and spans[spans.index([first, last]) - 1][1] + width // 2 >= first - width // 2:
                merged[-1][1] = high
            else:
                merged.append([low, high])
        area, recall_before = 0.0, 0.0
        for place in range(thresholds):
            threshold = falling[int(place * (count - 1) / (thresholds - 1))]
            told = [score >= threshold for score in score_N]
            hits = sum(soft[n] for n in range(count) if told[n])
            labels = sum(1.0 if label_N[n] else soft[n] * told[n] for n in range(count))
            found = sum(any(told[low : high + 1]) for low, high in merged) / len(merged)
            recall = min(hits / ((sum(label_N) + labels) / 2), 1.0) * found
            area += (recall - recall_before) * hits / sum(told)
            recall_before = recall
        areas.append(area)
    return sum(areas) / len(areas)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_the_slow_way_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    label_N = np.zeros(60, bool)
    for first, length in zip(rng.integers(0, 58, 4), rng.integers(1, 6, 4), strict=True):
        label_N[first : first + length] = True
    score_N = np.round(rng.normal(size=60) + 1.5 * label_N, 1 if seed % 2 else 6)  # with and without ties
    assert vus_pr(label_N, score_N, 9, 25) == pytest.approx(slow_vus_pr(label_N, score_N, 9, 25), abs=1e-12)


def test_a_case_by_hand() -> None:
    label_N = np.array([0, 1, 1, 0], bool)
    # Every sample is a threshold. Width 0: told 2, 3 (wrong), 1, 0: precision 1, 1/2, 2/3, 1/2; recall 1/2, 1/2, 1, 1.
    score_N = np.array([1.0, 2.0, 4.0, 3.0])
    assert vus_pr(label_N, score_N, 0, 4) == pytest.approx(1 / 2 * 1 + 0 + 1 / 2 * 2 / 3)
    # Width 1 has edges of half a sample: none. Width 2: sample 3 counts sqrt(1/2) and half of that is to be found.
    edge = np.sqrt(0.5)
    recalls = [1 / 2, min((1 + edge) / (2 + edge / 2), 1), 1, 1]
    precisions = [1, (1 + edge) / 2, (2 + edge) / 3, (2 + 2 * edge) / 4]
    two = sum((now - before) * p for before, now, p in zip([0, *recalls], recalls, precisions, strict=False))
    assert vus_pr(label_N, score_N, 2, 4) == pytest.approx((5 / 6 + 5 / 6 + two) / 3)


def test_all_found_first_is_one_and_one_score_for_all_is_the_share_of_labels() -> None:
    label_N = np.arange(1000) // 100 % 5 == 2
    assert vus_pr(label_N, label_N.astype(float), 0) == pytest.approx(1.0)
    assert vus_pr(label_N, np.ones(1000), 0) == pytest.approx(label_N.mean())


def test_without_labels_there_is_nothing_to_say() -> None:
    assert np.isnan(vus_pr(np.zeros(10, bool), np.arange(10.0), 3))
    assert np.isnan(vus_pr(np.ones(10, bool), np.arange(10.0), 3))


def test_the_period_is_that_of_the_series_where_it_has_one() -> None:
    at_N = np.arange(3000)
    assert period_of(np.sin(2 * np.pi * at_N / 60)) == 60
    assert period_of(np.ones(3000)) == PERIOD_USUAL  # constant
    assert period_of(np.sin(2 * np.pi * at_N / 4)) != 4  # so short a period is taken for none, or for a multiple
    assert period_of(at_N[:2].astype(float)) == PERIOD_USUAL
