"""A runner that follows live data: which windows wait, for whom, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders.incident import Names, rows_of
from tests.builders.stores import opened_store
from tests.unit.runner.toy_rows import BEGIN_NS, S, flows, steps
from tests.unit.runner.toy_world import World

from leadline.analysis import BY_NAME as ANALYSIS
from leadline.model.tables import BY_NAME
from leadline.runner import following
from leadline.runner.following import Following
from leadline.runner.lanes import Lane
from leadline.runner.plan import rhythms
from leadline.runner.watermarks import LATE_NS
from leadline.runner.windows import Schedule
from leadline.store import Store
from leadline.testing.analyses import volumes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened_store(tmp_path / "store") as made:
        yield made


def test_windows_of_a_job_wait_for_its_senders_and_those_of_others_do_not(store: Store) -> None:
    """The toy ledger judges jobs in windows of 20 s."""
    world = World(store)

    def said(host: str, job: str, to_s: float, state: str = "open") -> None:
        row = {
            "host": host, "clock": f"{host}/1", "reported_ns": world.clock(), "to_ns": BEGIN_NS + round(to_s * S),
            "sender": "agent", "job": job, "ranks": 1, "state": state,
        }  # fmt: skip
        world.come("watermark", rows_of(BY_NAME["watermark"], [row], Names()))

    def judged() -> set[str]:
        sql = "SELECT part FROM leadline.analysis_run WHERE part != '' AND end_ns = {end:Int64}"
        rows = store.query(sql, {"end": BEGIN_NS + 20 * S})
        return {row["part"] for row in rows.to_pylist()}

    world.come("step", steps(range(20)))
    said("h1", "bert", 0), said("h2", "bert", 0), said("h3", "llama", 0)
    world.clock.advance(30)
    said("h1", "bert", 30), said("h2", "bert", 5), said("h3", "llama", 30)
    world.go(1)
    assert judged() == {"llama"}
    said("h2", "bert", 30)
    world.go(1)
    assert judged() == {"llama", "bert"}


def test_jobs_that_are_behind_are_judged_though_more_is_due_than_can_be_judged(store: Store) -> None:
    """Whenever a window was judged the next has closed already, as on a machine that is too slow."""
    world = World(store, from_ns=None)

    def said(host: str, job: str, to_s: float) -> None:
        row = {
            "host": host, "clock": f"{host}/1", "reported_ns": world.clock(), "to_ns": BEGIN_NS + round(to_s * S),
            "sender": "agent", "job": job, "ranks": 1, "state": "open",
        }  # fmt: skip
        world.come("watermark", rows_of(BY_NAME["watermark"], [row], Names()))

    def of_bert() -> list[int]:
        sql = "SELECT end_ns FROM leadline.analysis_run WHERE part = 'bert' AND end_ns > {begin:Int64} ORDER BY end_ns"
        return [(row["end_ns"] - BEGIN_NS) // S for row in store.query(sql, {"begin": BEGIN_NS}).to_pylist()]

    world.come("step", steps(range(40)))
    said("h1", "bert", 5), said("h3", "llama", 60)
    world.go(60)
    assert of_bert() == []
    said("h1", "bert", 1000), said("h3", "llama", 1000)
    for number in range(8):
        world.come("flow_sample", flows(range(60 + 20 * number, 61 + 20 * number)))
        world.clock.advance(20)
        assert world.runner.step()
    world.runner.stop()
    world.runner._verdicts.store_runs()
    assert of_bert()[:2] == [20, 40]


@pytest.mark.parametrize("table", ["metric_sample", "step"])
def test_what_is_told_later_is_waited_for_as_long_as_it_usually_takes(
    store: Store, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Prometheus that holds its samples for 4 s, or a job whose steps last so long and are told when they are over:
    a window of `anomaly` is judged when they have come, once."""
    monkeypatch.setattr(following, "CHEAP_SHARE", -1.0)  # it takes long
    world = World(store, [ANALYSIS["anomaly"]], from_ns=None)
    (lane,) = world.runner._lanes

    def scraped(at_s: int, sent_s: int) -> None:
        world.go(sent_s - world.passed_s())
        row = {"series": bytes(16), "time_ns": BEGIN_NS + at_s * S, "value": 1.0}
        sample = rows_of(BY_NAME["metric_sample"], [row], Names())
        world.come(table, sample if table == "metric_sample" else steps(range(at_s, at_s + 1)))

    for at_s in range(4, 44, 5):
        scraped(at_s, at_s + 4)
    world.go(10)
    assert world.counted["judged_again"] <= 1, "but for the first, of which nobody knew how late it comes"
    assert lane.schedule.judged_to_ns >= BEGIN_NS + 40 * S


def test_a_window_that_costs_little_is_judged_at_once_and_again_when_steps_are_over(store: Store) -> None:
    world = World(store, [ANALYSIS["anomaly"]], from_ns=None)
    (lane,) = world.runner._lanes
    for at_s in range(4, 44, 5):
        world.go(at_s + 4 - world.passed_s())
        world.come("step", steps(range(at_s, at_s + 1)))
    lane.last_took_s = 0.01
    world.go(4.5)
    assert lane.schedule.judged_to_ns >= BEGIN_NS + 45 * S, "not 4 s later"
    assert world.counted["judged_again"] >= 4


def test_what_judges_all_jobs_waits_for_those_that_are_behind_for_a_bounded_time() -> None:
    lane = Lane(volumes, Schedule(rhythms([volumes])[0], BEGIN_NS), [], back_ns=BEGIN_NS)
    following = Following([lane])
    end_ns = BEGIN_NS + 10 * S
    assert following.waits(lane, end_ns, end_ns + LATE_NS - 1, {})
    assert not following.waits(lane, end_ns, end_ns + LATE_NS, {})
