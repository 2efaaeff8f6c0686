"""The class of a fault from what was seen of it."""

from __future__ import annotations

import pytest

from leadline.analysis.cause.history import AGAIN, LASTS_NS, SPARED, Episode, class_of
from leadline.model.incidents import FaultClass

S = 10**9
NOW_NS = 10**6 * S
SHORT = Episode(NOW_NS - 60 * S, NOW_NS - 30 * S)
OVER_LONG = Episode(NOW_NS - LASTS_NS - 60 * S, NOW_NS - LASTS_NS)


@pytest.mark.parametrize(
    ("newest", "works", "wanted"),
    [
        (Episode(NOW_NS - 20 * S, None), True, FaultClass.UNKNOWN),
        (Episode(NOW_NS - 20 * S, None), False, FaultClass.UNKNOWN),
        (SHORT, True, FaultClass.UNKNOWN),
        (SHORT, False, FaultClass.UNKNOWN),
        (OVER_LONG, True, FaultClass.TRANSIENT),
        (OVER_LONG, False, FaultClass.TRANSIENT),
        (Episode(NOW_NS - LASTS_NS, None), False, FaultClass.PERSISTENT),
        (Episode(NOW_NS - LASTS_NS, None), True, FaultClass.GRAY),
        (Episode(NOW_NS - LASTS_NS - 5 * S, NOW_NS - 6 * S), True, FaultClass.UNKNOWN),
    ],
)
def test_one_episode(newest: Episode, works: bool, wanted: FaultClass) -> None:
    assert class_of([newest], NOW_NS, works=works) is wanted


def test_what_comes_again_is_no_accident() -> None:
    times = [Episode(NOW_NS - days * 86400 * S, NOW_NS - days * 86400 * S + S) for days in range(1, AGAIN + 1)]
    assert class_of(times[:-1], NOW_NS, works=True) is FaultClass.TRANSIENT
    assert class_of(times, NOW_NS, works=True) is FaultClass.GRAY
    assert class_of(times[::-1], NOW_NS, works=False) is FaultClass.PERSISTENT


def test_what_stops_some_jobs_and_spares_others_is_gray() -> None:
    spared = frozenset(f"job-{number}" for number in range(SPARED))
    hurt = Episode(NOW_NS - 20 * S, None, frozenset({"bert"}))
    assert class_of([hurt], NOW_NS, works=False, spared=spared) is FaultClass.GRAY
    assert class_of([hurt], NOW_NS, works=False, spared=frozenset(sorted(spared)[1:])) is FaultClass.UNKNOWN
    both = Episode(hurt.start_ns, None, frozenset({"bert"}) | spared)
    assert class_of([both], NOW_NS, works=False, spared=spared) is FaultClass.UNKNOWN


def test_without_history_nothing_is_said() -> None:
    assert class_of([], NOW_NS, works=True) is FaultClass.UNKNOWN
