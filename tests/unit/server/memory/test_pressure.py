"""When memory is tight, and that it takes less to come out of that than to fall into it."""

from __future__ import annotations

import pytest

from leadline.server.memory.pressure import Pressure, pressure

EASY, TIGHT, FULL = Pressure


@pytest.mark.parametrize(
    ("held", "before", "now"),
    [
        (849, EASY, EASY),
        (850, EASY, TIGHT),
        (999, EASY, TIGHT),
        (1000, EASY, FULL),
        (1000, TIGHT, FULL),
        (951, FULL, FULL),
        (949, FULL, TIGHT),
        (801, TIGHT, TIGHT),
        (799, TIGHT, EASY),
        (799, FULL, EASY),
    ],
)
def test_states(held: int, before: Pressure, now: Pressure) -> None:
    assert pressure(held, 1000, before) is now


@pytest.mark.parametrize("before", list(Pressure))
def test_more_is_never_easier(before: Pressure) -> None:
    states = [pressure(held, 1000, before) for held in range(0, 1200, 7)]
    assert states == sorted(states)


def test_its_words_are_those_of_counters() -> None:
    assert [each.word for each in Pressure] == ["easy", "tight", "full"]
