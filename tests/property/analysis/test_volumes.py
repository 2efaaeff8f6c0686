"""Laws of volumes: unbiased, honest intervals at any rate and size, in any order of what was sampled."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from leadline.analysis.path.poisson import limits
from leadline.analysis.path.volume import PathEntries, SampledGroups, Volumes, volumes

ENDS = np.array([[-1, 0], [0, 1], [1, 2], [2, -1]])
# Frames of a flow: (length, share of packets).
MIXES = {
    "full": ((4178, 1.0),),
    "tcp": ((9018, 0.85), (1000, 0.05), (66, 0.1)),
    "halves": ((9018, 0.5), (66, 0.5)),
    "skew": ((1514, 0.1), (66, 0.9)),
}


def sampled(mix: str, packets: float, rates: tuple[int, ...], flows: int, seed: int) -> tuple[SampledGroups, float]:
    """Samples of flows of so many packets at a chain of switches, and how many bytes each has."""
    rng = np.random.default_rng(seed)
    size, share = np.array(MIXES[mix]).T
    each_M = np.ceil(packets * share).astype(np.int64)
    count_GM = np.concatenate([rng.binomial(each_M, 1 / rate, (flows, len(each_M))) for rate in rates])
    switch_G, rate_G = np.repeat(np.arange(len(rates)), flows), np.repeat(np.array(rates), flows)
    flow = np.tile(np.arange(flows), len(rates))
    there = count_GM.sum(axis=1) > 0
    total, squares = (count_GM @ size**power for power in (1, 2))
    groups = SampledGroups(
        *(
            each[there]
            for each in (
                flow, switch_G, switch_G, switch_G + 1, rate_G, count_GM.sum(axis=1), total.astype(np.int64),
                squares.astype(np.int64), np.zeros(len(flow), bool),
            )
        )
    )  # fmt: skip
    return groups, float(each_M @ size)


def paths(flows: int) -> PathEntries:
    """All of them over all links of the chain."""
    flow, link = np.repeat(np.arange(flows), 4), np.tile(np.arange(4), flows)
    return PathEntries(flow, link, link - 1, np.where(link == 3, -1, link), np.ones(4 * flows))


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("rates", [(100, 100, 100), (2, 2, 2), (1000, 5000, 200_000)])
@pytest.mark.parametrize("expected", [0.3, 1, 3, 10, 100])
@pytest.mark.parametrize("mix", sorted(MIXES))
def test_at_least_95_of_100_intervals_hold_the_truth(
    mix: str, expected: float, rates: tuple[int, ...], direct: bool
) -> None:
    flows = 2000
    groups, truth = sampled(mix, expected / (1 / rates[0]), rates, flows, 3)
    direct_F = np.full(flows, direct)
    found = volumes(groups, paths(flows), direct_F, np.ones(3, bool), ENDS)
    told = np.unique(groups.flow_G)
    low, high = found.flow_low_F[told], found.flow_high_F[told]
    assert np.mean((low <= truth) & (truth <= high)) >= 0.945
    if not direct:
        all_flows = np.where(np.isnan(found.flow_bytes_F), 0, found.flow_bytes_F)
        error = np.std(all_flows) / np.sqrt(flows)
        assert np.mean(all_flows) == pytest.approx(truth, abs=4 * error + 1e-9 * truth)


def test_the_interval_becomes_as_narrow_as_sampling_theory_says() -> None:
    groups, truth = sampled("full", 1_000_000, (100, 100, 100), 50, 1)
    found = volumes(groups, paths(50), np.zeros(50, bool), np.ones(3, bool), ENDS)
    half = (found.flow_high_F - found.flow_low_F) / 2 / truth
    assert half == pytest.approx(np.full(50, 1.96 * np.sqrt(1 / 30_000) * np.sqrt(0.99)), rel=0.02)


group = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.integers(-1, 3), st.integers(-1, 3), st.sampled_from([1, 10, 4096]),
    st.integers(1, 50), st.integers(0, 9000), st.booleans(),
)  # fmt: skip
entry = st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(0.01, 1))


def as_groups(rows: list[tuple[int, int, int, int, int, int, int, bool]]) -> SampledGroups:
    """Groups of these rows, which tell the length of a frame."""
    flow, switch, came, left, rate, count, frame, dropped = (
        np.array([row[at] for row in rows], np.int64) for at in range(8)
    )
    return SampledGroups(
        flow, switch, came, left, rate, count, count * frame, count * frame**2, dropped.astype(bool)
    )  # fmt: skip


def as_entries(rows: list[tuple[int, int, float]]) -> PathEntries:
    """Entries of these rows in the direction of the chain."""
    distinct = {(flow, link): probability for flow, link, probability in rows}
    flow, link = (np.array([key[at] for key in distinct], np.int64) for at in range(2))
    probability: NDArray[np.float64] = np.array(list(distinct.values()), np.float64)
    return PathEntries(flow, link, link - 1, np.where(link == 3, -1, link), probability)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(group, max_size=25),
    st.lists(entry, max_size=12),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.randoms(use_true_random=False),
)
def test_any_groups_give_ordered_intervals_in_an_order_that_does_not_depend_on_theirs(
    rows: list[tuple[int, int, int, int, int, int, int, bool]],
    told: list[tuple[int, int, float]],
    direct: list[bool],
    tells: list[bool],
    random: object,
) -> None:
    entries = as_entries(told)
    found = volumes(as_groups(rows), entries, np.array(direct), np.array(tells), ENDS)
    assert np.all((found.low_V <= found.bytes_V * (1 + 1e-9)) & (found.bytes_V <= found.high_V * (1 + 1e-9) + 1e-9))
    assert np.all(found.low_V >= 0)
    assert np.isfinite(found.high_V).all()
    keys = list(zip(found.flow_V.tolist(), found.link_V.tolist(), found.from_V.tolist(), strict=True))
    assert keys == sorted(set(keys))
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    back = PathEntries(*(getattr(entries, field.name)[::-1] for field in fields(PathEntries)))
    again = volumes(as_groups(shuffled), back, np.array(direct), np.array(tells), ENDS)
    for field in fields(Volumes):
        assert getattr(found, field.name).tobytes() == getattr(again, field.name).tobytes(), field.name


@given(st.lists(st.floats(1, 1e6), max_size=30), st.floats(0, 1e6))
def test_limits_lie_on_both_sides(weights: list[float], largest: float) -> None:
    total, variance = (np.array([float(np.sum(np.array(weights) ** power))]) for power in (1, 2))
    low, high = limits(total, variance, np.array([largest]))
    assert 0 <= low[0] <= total[0] <= high[0]
    assert np.isfinite(high[0])
