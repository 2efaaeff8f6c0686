"""Laws of what explains a symptom, on any graph of calls with any losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.analysis.rootcause.propagation import Calls, Explained, explained, own_losses, passing


@dataclass(frozen=True)
class World:
    lost_TN: np.ndarray
    calls: Calls

    def judged(self) -> Explained:
        return explained(self.lost_TN, self.lost_TN[:, 0], self.calls, 0)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count, length = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    ends = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=12))
    names = [str(n) for n in range(count)]
    calls = Calls.of(names, [(str(a), str(b)) for a, b in pairs])
    loss = st.one_of(st.just(float("nan")), st.just(0.0), st.floats(0.01, 100.0))
    rows = draw(st.lists(st.lists(loss, min_size=count, max_size=count), min_size=length, max_size=length))
    return World(np.array(rows, dtype=np.float64).reshape(length, count), calls)


@settings(max_examples=60)
@given(worlds())
def test_shares_are_shares_and_of_those_alone_that_are_reached(world: World) -> None:
    found = world.judged()
    assert (found.share_N >= 0).all()
    assert (found.share_N <= 1 + 1e-9).all()
    assert (found.share_N[~world.calls.reached(0)] == 0).all()
    assert (found.fit_N <= found.share_N + 1e-9)[~found.inferred_N].all()


@settings(max_examples=60)
@given(worlds())
def test_no_more_passes_than_the_symptom_and_than_the_component_loses(world: World) -> None:
    symptom_T = np.nan_to_num(world.lost_TN[:, 0])
    passing_TN = passing(world.lost_TN, symptom_T, world.calls, 0)
    assert (passing_TN <= symptom_T[:, None]).all()
    known_TN = np.isfinite(world.lost_TN)
    known_TN[:, 0] = False  # the target passes itself
    assert (passing_TN[known_TN] <= world.lost_TN[known_TN]).all()
    assert (own_losses(world.lost_TN, world.calls) <= np.nan_to_num(world.lost_TN)).all()


@settings(max_examples=60)
@given(worlds(), st.floats(0.5, 50.0))
def test_the_unit_does_not_matter(world: World, unit: float) -> None:
    scaled = World(world.lost_TN * unit, world.calls).judged()
    np.testing.assert_allclose(scaled.share_N, world.judged().share_N, atol=1e-9)


@settings(max_examples=60)
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_components_does_not_matter(world: World, chance: object) -> None:
    order = np.arange(world.calls.count)
    chance.shuffle(order)  # type: ignore[attr-defined]
    place = np.argsort(order)
    calls = Calls(world.calls.count, place[world.calls.caller_E], place[world.calls.callee_E])
    moved = explained(world.lost_TN[:, order], world.lost_TN[:, 0], calls, int(place[0]))
    np.testing.assert_allclose(moved.share_N[place], world.judged().share_N, atol=1e-9)


@settings(max_examples=60)
@given(worlds())
def test_a_chain_below_one_that_loses_nothing_is_never_named(world: World) -> None:
    """Whoever is reached only through components that lost nothing cannot have caused anything."""
    lost_TN = world.lost_TN.copy()
    first = np.unique(world.calls.callee_E[world.calls.caller_E == 0])
    lost_TN[:, first[first != 0]] = 0.0
    found = World(lost_TN, world.calls).judged()
    assert [n for n in found.ranked() if not found.inferred_N[n]] == []
