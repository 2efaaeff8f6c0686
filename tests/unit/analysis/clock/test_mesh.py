"""The mesh: exact without noise, indifferent to order, and not moved by a tenth of its edges."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.clock.mesh import certain_bounds, solved
from leadline.analysis.clock.pods import solved_by_pod
from leadline.simulator.probes import regular_edges

seeds = st.integers(0, 2**32 - 1)


def apart(x_H: np.ndarray, truth_H: np.ndarray) -> np.ndarray:
    off = x_H - truth_H
    return off - off.mean()


@given(seeds, st.integers(2, 40))
def test_without_noise_offsets_are_exact(seed: int, hosts: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1_000, hosts)
    src, dst = regular_edges(hosts, 6, seed)
    found = solved(src, dst, truth[dst] - truth[src], np.full(len(src), 10.0), hosts)
    assert np.abs(apart(found.x_H, truth)).max() < 0.1
    assert not found.flagged_E.any()
    assert (found.island_H == 0).all()


@given(seeds)
def test_the_order_and_direction_of_edges_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    src, dst = regular_edges(30, 10, seed)
    value = rng.normal(0, 100, len(src)) + 1_000 * (rng.random(len(src)) < 0.1)
    spread = rng.uniform(5, 30, len(src))
    before = solved(src, dst, value, spread, 30)
    p, flip = rng.permutation(len(src)), rng.random(len(src)) < 0.5
    src, dst, value = np.where(flip, dst, src)[p], np.where(flip, src, dst)[p], np.where(flip, -value, value)[p]
    after = solved(src, dst, value, spread[p], 30)
    assert np.abs(before.x_H - after.x_H).max() < 0.1
    assert (before.flagged_E[p] == after.flagged_E).all()


def test_a_split_mesh_is_two_islands() -> None:
    src, dst = regular_edges(20, 6, 1)
    two = np.concatenate([src, src + 20]), np.concatenate([dst, dst + 20])
    found = solved(*two, np.zeros(2 * len(src)), np.full(2 * len(src), 10.0), 41)
    assert set(found.island_H.tolist()) == {0, 20, 40}
    assert found.freedom == 2 * len(src) - 41 + 3
    assert np.isinf(found.sigma_H[40])


def test_biased_edges_are_flagged_and_cost_nothing() -> None:
    rng = np.random.default_rng(3)
    src, dst = regular_edges(1_000, 10, 3)
    truth = rng.normal(0, 1_000, 1_000)
    biased = rng.random(len(src)) < 0.1
    value = truth[dst] - truth[src] + rng.normal(0, 30, len(src)) + biased * rng.choice([-1_000, 1_000], len(src))
    spread = np.full(len(src), 30.0)
    robust, plain = (solved(src, dst, value, spread, 1_000, robust=each) for each in (True, False))
    assert robust.flagged_E[biased].mean() >= 0.9
    assert robust.flagged_E[~biased].mean() < 0.002
    assert apart(robust.x_H, truth).std() < 0.2 * apart(plain.x_H, truth).std()
    assert 0.7 < apart(robust.x_H, truth).std() / np.median(robust.sigma_H) < 1.4


def test_a_chain_is_solved_too() -> None:
    hosts = 500
    src = np.arange(hosts - 1)
    found = solved(src, src + 1, np.full(hosts - 1, 1e9), np.full(hosts - 1, 10.0), hosts)
    assert np.abs(np.diff(found.x_H) - 1e9).max() < 1e4  # a relative accuracy: give what is left after a prediction
    assert found.freedom == 0


def test_without_edges_every_host_is_alone() -> None:
    none = np.zeros(0, np.int64)
    found = solved(none, none, np.zeros(0), np.zeros(0), 3)
    assert found.island_H.tolist() == [0, 1, 2]
    assert np.isinf(found.sigma_H).all()


def test_pods_joined_by_a_top_layer_are_nearly_as_good_as_all_at_once() -> None:
    rng = np.random.default_rng(4)
    pods, size = 8, 200
    inner = [regular_edges(size, 10, seed) for seed in range(pods)]
    src = np.concatenate([each[0] + size * place for place, each in enumerate(inner)])
    dst = np.concatenate([each[1] + size * place for place, each in enumerate(inner)])
    between = rng.integers(0, pods * size, (2, 300))
    between = between[:, between[0] // size != between[1] // size]
    src, dst = np.concatenate([src, between[0]]), np.concatenate([dst, between[1]])
    truth = rng.normal(0, 1_000, pods * size)
    value = truth[dst] - truth[src] + rng.normal(0, 30, len(src))
    value += (rng.random(len(src)) < 0.1) * rng.choice([-1_000, 1_000], len(src))
    pod = np.arange(pods * size) // size
    found = solved_by_pod(src, dst, value, np.full(len(src), 30.0), pod)
    whole = solved(src, dst, value, np.full(len(src), 30.0), pods * size)
    assert (found.island_H == 0).all()
    assert apart(found.x_H, truth).std() < 1.2 * apart(whole.x_H, truth).std()
    no_cross = pod[src] == pod[dst]
    split = solved_by_pod(src[no_cross], dst[no_cross], value[no_cross], np.full(no_cross.sum(), 30.0), pod)
    assert len(np.unique(split.island_H)) == pods


@given(seeds)
def test_certain_bounds_hold_whatever_queues_did(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1_000, 30)
    src, dst = regular_edges(30, 6, seed)
    width = rng.uniform(100, 3_000, len(src))
    value = truth[dst] - truth[src] + rng.uniform(-1, 1, len(src)) * width
    found = solved(src, dst, value, np.full(len(src), 30.0), 31)
    certain = certain_bounds(src, dst, width, found.residual_E, found.island_H)
    assert certain[30] == 0  # alone: certain of itself
    off = found.x_H[:30] - truth
    apart_ = np.abs(off[:, None] - off[None, :])
    assert (apart_ <= certain[:30, None] + certain[None, :30] + 1e-6).all()
