"""What counts when: orders that clocks allow, and those that they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.analysis.cause.evidence import Face, Piece
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.analysis.cause.timing import STANDING, nearness_in_time, when
from leadline.model.incidents import Symptom

S = 10**9
PAST_SYMPTOM_WORDS = SymptomRow("job:j", "j", Symptom.SLOW, 1000 * S, None, S // 10, 0, 1.0, (), "", "t")
NOW = Piece(Face("anomaly", "m", "high"), "host:h", 1000 * S, None, S // 10, 9.0, "m")


def seen(after_s: float, **more: object) -> Piece:
    return replace(NOW, time_ns=round((1000 + after_s) * S), **more)  # type: ignore[arg-type]


def test_what_began_before_or_with_it_counts_whole() -> None:
    assert nearness_in_time(seen(0), PAST_SYMPTOM_WORDS) == nearness_in_time(seen(-30), PAST_SYMPTOM_WORDS) == 1.0


def test_what_began_later_than_both_clocks_allow_does_not_count() -> None:
    assert nearness_in_time(seen(10), PAST_SYMPTOM_WORDS) == 0.0
    assert nearness_in_time(seen(10, earliest_ns=1001 * S), PAST_SYMPTOM_WORDS) == 1.0, (
        "its last good sample was before"
    )


def test_an_unknown_clock_orders_nothing_and_proves_nothing() -> None:
    unknown = replace(PAST_SYMPTOM_WORDS, bound_ns=None)
    near = [nearness_in_time(seen(late, bound_ns=None), unknown) for late in (0, 10, 20, 60)]
    assert near[0] == 1.0
    assert near == sorted(near, reverse=True)
    assert 0 < near[2] < near[1] < 1
    assert near[3] == 0.0


def test_what_has_always_been_so_counts_less() -> None:
    assert nearness_in_time(seen(-3600), PAST_SYMPTOM_WORDS) == pytest.approx(STANDING)
    assert nearness_in_time(seen(-3600, end_ns=900 * S), PAST_SYMPTOM_WORDS) == pytest.approx(0.1), (
        "and was over long before"
    )


def test_a_link_that_is_up_again_tells_little_of_what_comes_long_after() -> None:
    down = seen(-50, face=Face("event", "link-down"))
    assert nearness_in_time(down, PAST_SYMPTOM_WORDS) == 1.0, "it is down still"
    assert nearness_in_time(replace(down, end_ns=995 * S), PAST_SYMPTOM_WORDS) == 1.0
    assert nearness_in_time(replace(down, end_ns=960 * S), PAST_SYMPTOM_WORDS) == pytest.approx(0.1)
    other = seen(-50, face=Face("event", "xid"), end_ns=950 * S)
    assert nearness_in_time(other, PAST_SYMPTOM_WORDS) == 1.0, "what has a time only is not over"


def test_times_are_told_as_the_clocks_allow() -> None:
    assert when(seen(-2), PAST_SYMPTOM_WORDS.start_ns) == "2.0 s before the first lost second"
    assert (
        when(seen(0.4, bound_ns=None), PAST_SYMPTOM_WORDS.start_ns)
        == "0.4 s after the first lost second, order unknown"
    )
    assert (
        when(seen(4, earliest_ns=999 * S), PAST_SYMPTOM_WORDS.start_ns) == "began within 4.0 s of the first lost second"
    )
