"""Which windows may be begun: causes are not as late as the slowest that speaks for them, and have a worker."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from leadline.analysis import ANALYSES
from leadline.model.units import S
from leadline.runner.calls.flights import SHORT_NS, Flight, Order, Traffic, room
from leadline.runner.plan import beside, upstream
from leadline.runner.windows import Due, Why

PLACE = {each.name: place for place, each in enumerate(ANALYSES)}
CAUSE, ANOMALY, STALLS = PLACE["cause"], PLACE["anomaly"], PLACE["stalls"]


def flight(place: int, closes_ns: int, busy: int = 1) -> Flight:
    """A window that is being judged, with so many calls that are not answered."""
    found = Flight(Due(Why.LIVE, closes_ns), (Why.LIVE, closes_ns, place), ANALYSES[place].window_ns, lambda _: True, 0,
                   None, 0)  # fmt: skip
    call: Any = None
    found.running += [(call, Future()) for _ in range(busy)]
    return found


def may_begin(order: Order, others: list[Flight], patient_ns: int) -> bool:
    above = upstream(ANALYSES)
    below = [[place for place, each in enumerate(above) if at in each] for at in range(len(above))]
    flights = {each.order[-1]: each for each in others}
    return Traffic(flights, {order[-1]: order}, above, below, beside(ANALYSES), patient_ns).may_begin(order)


def test_a_cause_waits_a_moment_for_what_speaks_for_it_and_then_takes_what_there_is() -> None:
    slow, mine = flight(ANOMALY, 100 * S), (Why.LIVE, 101 * S, CAUSE)
    assert not may_begin(mine, [slow], patient_ns=101 * S)
    assert may_begin(mine, [slow], patient_ns=101 * S + 1)


def test_a_cause_waits_for_its_symptoms_however_late_they_are() -> None:
    mine = (Why.LIVE, 101 * S, CAUSE)
    assert not may_begin(mine, [flight(STALLS, 100 * S)], patient_ns=10_000 * S)


def test_only_longer_windows_that_are_read_without_waiting_are_not_waited_for() -> None:
    found = beside(ANALYSES)
    assert ANOMALY in found[CAUSE]
    assert STALLS not in found[CAUSE]
    assert found[ANOMALY] == []
    for place, others in enumerate(found):
        assert all(ANALYSES[each].window_ns > ANALYSES[place].window_ns for each in others)


@pytest.mark.parametrize(
    ("workers", "long", "short", "expected"),
    [
        (1, 0, 0, (True, True)),
        (1, 1, 0, (False, False)),
        (2, 0, 0, (True, True)),
        (2, 1, 0, (True, False)),
        (2, 0, 1, (True, True)),
        (2, 1, 1, (False, False)),
        (4, 2, 0, (True, True)),
        (4, 3, 0, (True, False)),
    ],
)
def test_of_several_workers_one_is_left_to_short_windows(
    workers: int, long: int, short: int, expected: tuple[bool, bool]
) -> None:
    assert ANALYSES[STALLS].window_ns <= SHORT_NS < ANALYSES[ANOMALY].window_ns
    flights = {ANOMALY: flight(ANOMALY, S, long), STALLS: flight(STALLS, S, short)}
    assert room(flights, workers) == expected
