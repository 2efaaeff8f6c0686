"""A clock that is set: nothing is judged by a time that does not stay, and nothing stays unjudged."""

from __future__ import annotations

from collections import Counter as Tally
from pathlib import Path
from typing import Any

import pytest
from tests.builders.stores import opened_store
from tests.unit.runner.toy_rows import BEGIN_NS, S, flows

from leadline.model.tables import BY_NAME
from leadline.runner.clock.steps import DOUBT_NS, ClockSteps
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import InProcess
from leadline.runner.run import Runner
from leadline.runner.windows import Rhythm, Schedule
from leadline.server.analyses import clock_findings
from leadline.store import Store
from leadline.testing import FakeClock
from leadline.testing.analyses import volumes
from leadline.views.rows import rows_where

HOUR_S = 3600
TABLES = ("flow_sample", "flow_volume", "relation", "event", "analysis_run", "clock_fit")  # to make all takes seconds


class World:
    """A runner of one analysis with windows of 10 s, rows of flows each second by the right time, and a clock that may
    be wrong."""

    def __init__(self, store: Store) -> None:
        self.store, self.right, self.off_ns, self.seconds = store, FakeClock(BEGIN_NS), 0, 0
        self.counted: Tally[str] = Tally()
        self.runner = Runner(RunnerConfig(), store, self._count, self._now_ns, [volumes], InProcess(),
                             elapsed_ns=self.right)  # fmt: skip
        self.runner.prepare()

    def _count(self, which: Any, amount: int) -> None:
        self.counted[which.reason] += amount

    def _now_ns(self) -> int:
        return self.right() + self.off_ns

    def go(self, seconds: int) -> None:
        """Time passes, a look each second; rows come every 5 s, so that the test is short."""
        for _ in range(seconds):
            self.seconds += 1
            self.right.advance(1)
            if self.seconds % 5 == 0:
                rows = flows(range(self.seconds - 5, self.seconds))
                self.store.append(BY_NAME["flow_sample"], rows)
                self.runner.touched("acme", "lab", BY_NAME["flow_sample"], {"rows": rows}, rows.num_rows)
            self.runner.look_at_clock()
            while self.runner.step():
                pass

    def unjudged(self) -> list[int]:
        """Ends of the windows, s, whose newest verdict does not say all that was sent in them."""
        sent: Tally[int] = Tally()
        for row in flows(range(self.seconds)).to_pylist():
            end_s = ((row["time_ns"] - BEGIN_NS) // S // 10 + 1) * 10
            sent[end_s] += row["rate"] * row["frame_bytes"]
        said = self.store.query(rows_where(BY_NAME["flow_volume"]))
        found: Tally[int] = Tally()
        for row in said.to_pylist():
            found[(row["end_ns"] - BEGIN_NS) // S] += round(row["bytes"])
        return [end for end in sorted(sent) if end <= self.seconds - 10 and found[end] != sent[end]]


@pytest.fixture
def world(tmp_path: Path) -> Any:
    with opened_store(tmp_path / "store", tuple(BY_NAME[name] for name in TABLES)) as store:
        yield World(store)


def test_a_clock_that_is_an_hour_ahead_for_half_a_minute_judges_nothing_meanwhile(world: World) -> None:
    """The audit's: before, the windows of that half minute were never judged, and the state was ok."""
    world.go(40)
    world.off_ns = HOUR_S * S
    world.go(30)
    (state,) = world.runner.states()
    assert (state.state, state.judged_to_ns) == ("clock", BEGIN_NS + 30 * S)
    world.off_ns = 0
    world.go(60)
    (state,) = world.runner.states()
    assert (state.state, state.judged_to_ns, world.unjudged()) == ("ok", BEGIN_NS + 120 * S, [])
    told = world.store.query("SELECT kind, attributes FROM leadline.event ORDER BY time_ns").to_pylist()
    steps = [(row["kind"], dict(row["attributes"])["by_ns"]) for row in told]
    assert sorted(steps) == [("clock-step", str(-HOUR_S * S)), ("clock-step", str(HOUR_S * S))]
    assert world.counted["server"] == 2
    findings = list(clock_findings(world.runner.clock_steps, world.right()))
    assert [each["text"].partition(" s, ")[0] for each in findings] == [
        "the clock of this machine was set forward by 3600.0",
        "the clock of this machine was set back by 3600.0",
    ]
    assert not list(clock_findings(world.runner.clock_steps, world.right() + HOUR_S * S))


def test_what_was_judged_by_a_wrong_clock_is_judged_again(world: World) -> None:
    """Longer than it is doubted: windows of the hour that was not there yet were passed over."""
    world.go(40)
    world.off_ns = HOUR_S * S
    world.go(round(DOUBT_NS / S) + 20)
    (state,) = world.runner.states()
    assert state.judged_to_ns is not None
    assert state.judged_to_ns > BEGIN_NS + HOUR_S * S
    world.off_ns = 0
    world.go(60)
    (state,) = world.runner.states()
    assert (state.state, world.unjudged()) == ("ok", [])
    assert state.lag_s is not None
    assert 0 <= state.lag_s < 20


def test_a_clock_that_was_an_hour_behind_goes_on(world: World) -> None:
    world.off_ns = -HOUR_S * S
    world.go(20)
    world.off_ns = 0
    world.go(round(DOUBT_NS / S) + 40)
    assert [each for each in world.unjudged() if each > 20] == []


def looked(*apart_s: float) -> list[float]:
    """Steps told, s, of looks a quarter of a second apart at clocks that are so far apart."""
    elapsed, told = FakeClock(0), list[float]()
    off = [0.0]
    steps = ClockSteps(lambda: elapsed() + round(off[0] * S), elapsed)
    for off_s in apart_s:
        elapsed.advance(0.25)
        off[0] = off_s
        step = steps.look()
        told += [step.by_ns / S] if step is not None else []
    return told


def test_steps_are_told_and_slews_are_not() -> None:
    assert looked(0, 0, 0) == []
    assert looked(7, 7, 7) == [], "nothing is known of the time before the first look"
    assert looked(*(place * 0.000125 for place in range(200_000))) == [], "500 ppm for fourteen hours: 25 s"
    assert looked(0, 6, 6, 6) == [6]
    assert looked(0, 3600, 3600, 0, 0) == [3600, -3600]
    assert looked(0, -6) == [-6]


def test_a_thread_that_was_put_aside_between_the_clocks_sees_no_step() -> None:
    reads = iter([0, 0, 10 * S, 40 * S, 40 * S, 40 * S])  # elapsed: before and after each look
    real = iter([0, 11 * S, 40 * S])
    steps = ClockSteps(lambda: next(real), lambda: next(reads))
    assert [steps.look() for _ in range(3)] == [None, None, None]


def test_nothing_of_a_schedule_lies_ahead_of_a_clock_that_was_set_back() -> None:
    schedule = Schedule(Rhythm(10 * S, 2 * S, 600 * S), 0)
    schedule.judged_to_ns = 4000 * S
    schedule.touched(3980 * S, 3990 * S, 4000 * S)
    schedule.backfill(0, 4000 * S)
    schedule.clock_stepped(400 * S)
    assert schedule.judged_to_ns == 390 * S
    assert schedule.waiting(402 * S) == 1 + 39, "the next window, and those asked for up to now"
