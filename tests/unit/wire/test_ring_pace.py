"""How often agents look into rings, as the server says it and an agent understands it."""

from __future__ import annotations

import pytest

from leadline.wire.ring.pace import LOOK_S_MAX, look_s, told_look_s


def test_a_small_fleet_looks_as_often_as_it_is_set_and_a_large_one_shares_the_server() -> None:
    assert look_s(8) == 0.08, "less than any agent is set to by default"
    assert look_s(100) == 1.0
    assert look_s(10_000) == LOOK_S_MAX


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, 0.0), ("", 0.0), ("1.28", 1.28), ("999", LOOK_S_MAX), ("-1", 0.0), ("nan", 0.0), ("soon", 0.0)],
)
def test_what_an_answer_says(text: str | None, seconds: float) -> None:
    assert told_look_s(text) == seconds
