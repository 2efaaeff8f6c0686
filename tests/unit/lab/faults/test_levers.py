"""Several holders of one lever: the strongest rules while it holds, and in the end the lever is free."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.levers import Lever, Levers, merged, strongest


def test_the_strongest_claim_rules_until_it_is_released() -> None:
    applied: list[Any] = []
    lever, levers = Lever(("cpu", "x"), strongest, applied.append), Levers()
    one, other = object(), object()
    levers.hold(lever, one, 0.3)
    levers.hold(lever, other, 0.1)
    levers.release(lever, other)
    levers.release(lever, other)  # not held: nothing happens
    levers.release(lever, one)
    assert applied == [0.3, 0.1, 0.3, None]


def test_settings_of_several_are_merged() -> None:
    assert merged([{"a_s": 1.0, "on": True}, {"a_s": 3.0, "b": "x"}, {"a_s": 2.0}]) == {
        "a_s": 3.0,
        "on": True,
        "b": "x",
    }
    assert merged([{"clock_factor": 0.5}, {"clock_factor": 0.8}]) == {"clock_factor": 0.5}
    assert merged([{"fields": {"x": 1}}, {"fields": {"y": 2, "x": 3}}]) == {"fields": {"x": 3, "y": 2}}


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.floats(0.01, 8.0)), max_size=30))
def test_it_is_free_exactly_when_nobody_holds_it(deeds: list[tuple[int, float | None]]) -> None:
    now: list[Any] = [None]
    lever, levers = Lever(("k",), strongest, lambda v: now.__setitem__(0, v)), Levers()
    holders = [[number] for number in range(5)]
    held: dict[int, float] = {}
    for number, value in deeds:
        if value is None:
            levers.release(lever, holders[number])
            held.pop(number, None)
        else:
            levers.hold(lever, holders[number], value)
            held[number] = value
        assert now[0] == (min(held.values()) if held else None)
