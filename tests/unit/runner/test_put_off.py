"""More closes than can be judged: now goes first, the past when there is time, and the verdicts are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builders.incident import Names, rows_of
from tests.builders.stores import opened_store
from tests.unit.runner.toy_rows import BEGIN_NS, S, flows, steps
from tests.unit.runner.toy_world import World

from leadline.model.tables import BY_NAME
from leadline.runner.following import PUT_OFF_AFTER_NS, PUT_OFF_NS
from leadline.runner.windows import Due, Rhythm, Schedule, Why
from leadline.store import Store
from leadline.testing.analyses import TOYS

BUSY_S = 400
# What is told of the past has later windows judged again as far as late rows have: here farther than all of it.
LATE_TOYS = [replace(each, late_ns=2 * BUSY_S * S) for each in TOYS]


def told(store: Store) -> list[dict[str, Any]]:
    """The verdicts that count."""
    sql = "SELECT analysis, part, end_ns, state, digest FROM leadline.analysis_run FINAL ORDER BY ALL"
    return store.query(sql).to_pylist()


def said(world: World, job: str, to_s: float) -> None:
    row = {
        "host": f"of-{job}", "clock": f"of-{job}/1", "reported_ns": world.clock(),
        "to_ns": BEGIN_NS + round(to_s * S), "sender": "agent", "job": job, "ranks": 1, "state": "open",
    }  # fmt: skip
    world.come("watermark", rows_of(BY_NAME["watermark"], [row], Names()))


def lags_s(world: World) -> list[float]:
    """How far each analysis is behind its newest closed window."""
    now_ns = world.clock()
    return [
        (lane.schedule.rhythm.closed(now_ns, None) - lane.schedule.judged_to_ns) / S for lane in world.runner._lanes
    ]


def judged(folder: Path, jobs: bool, busy: bool) -> list[dict[str, Any]]:
    """The verdicts on BUSY_S in which, on a machine that is busy, one thing is done each 10 s; then there is time."""
    with opened_store(folder) as store:
        world = World(store, LATE_TOYS, from_ns=None)
        farthest_ns = 0
        for at_s in range(0, BUSY_S, 10):
            world.come("flow_sample", flows(range(at_s, at_s + 10)))
            world.come("step", steps(range(at_s, at_s + 10)))
            world.clock.advance(10)
            for job in ("bert", "llama") if jobs else ():
                said(world, job, at_s + 10)
            if busy:
                world.runner.step()
            else:
                world.go(0)
            farthest_ns = max(farthest_ns, round(max(lags_s(world)) * S))
        # A window that is being judged when the past is put off is one more, of 20 s at most.
        assert farthest_ns <= PUT_OFF_NS + PUT_OFF_AFTER_NS + 30 * S, "else it is nearly all of it"
        assert (world.counted["put_off"] > 0) is busy
        assert (sum(each.past for each in world.runner.states()) > 0) is busy
        for _ in range(30):
            world.go(10)
        assert sum(each.past for each in world.runner.states()) == 0
        world.runner.stop()
        world.runner._verdicts.store_runs()
        return told(store)


@pytest.mark.parametrize("jobs", [False, True], ids=["nobody says how far", "agents say how far"])
def test_now_goes_first_and_in_the_end_verdicts_are_those_of_an_idle_machine(tmp_path: Path, jobs: bool) -> None:
    assert judged(tmp_path / "busy", jobs, busy=True) == judged(tmp_path / "idle", jobs, busy=False)


def test_what_was_put_off_when_it_was_killed_is_judged_after_the_next_start(tmp_path: Path) -> None:
    with opened_store(tmp_path) as store:
        first = World(store, from_ns=None)
        first.come("flow_sample", flows(range(300)))
        first.come("step", steps(range(300)))
        first.go(15)
        first.clock.advance(260)
        first.runner.step()
        first.clock.advance(PUT_OFF_AFTER_NS / S)
        while max(lags_s(first)) > 0:
            assert first.runner.step()
        assert sum(each.past for each in first.runner.states()) > 40
        first.runner._verdicts.store_runs()  # and then it is killed
        again = World(store, at_s=310)
        again.runner._resume()
        for _ in range(12):
            again.go(10)
        again.runner.stop()
        again.runner._verdicts.store_runs()
        ends_s = {(row["analysis"], (row["end_ns"] - BEGIN_NS) // S) for row in told(store)}
    assert {end_s for name, end_s in ends_s if name == "toy-volume"} == set(range(10, 310, 10))
    assert {end_s for name, end_s in ends_s if name == "toy-seconds"} >= set(range(20, 301, 20))


def test_late_rows_of_windows_that_are_still_to_come_judge_none_twice() -> None:
    schedule = Schedule(Rhythm(10 * S, 0, 600 * S), 0)
    assert schedule.put_off(0, 200 * S) == 20
    schedule.touched(50 * S, 50 * S, 210 * S)
    assert schedule.next(209 * S) == Due(Why.BACKFILL, 10 * S)
    schedule.touched(195 * S, 205 * S, 300 * S)
    assert schedule.waiting(209 * S) == 20
    schedule.begin()
    schedule.touched(5 * S, 5 * S, 209 * S)  # it may have been loaded without them
    schedule.done(Due(Why.BACKFILL, 10 * S), 209 * S)
    assert schedule.asked == 19
    assert schedule.waiting(209 * S) == 20


def test_spans_put_off_again_and_again_are_bounded_and_none_is_lost() -> None:
    schedule = Schedule(Rhythm(10 * S, 0, 600 * S), 0)
    for number in range(300):
        begin_ns = number * 200 * S
        schedule.put_off(begin_ns, begin_ns + 100 * S)
    assert len(schedule.spans) <= Schedule.SPANS_MAX
    assert all(schedule.is_asked(number * 200 * S + 50 * S) for number in range(300))
