"""How far a simulated fleet says that its rows have come: never further than they are, and ended at the end."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.model.tables import BY_NAME
from leadline.simulator.archetypes import ARCHETYPES
from leadline.simulator.run import Simulation
from leadline.simulator.spec import SimulationSpec
from leadline.simulator.targets import Run
from leadline.simulator.watermarks import ENDED, OPEN, Said, Watermarks
from leadline.store.schema import checked_rows

S = 10**9
SPEC = SimulationSpec(gpus=64, minutes=3, seed=5, detail="jobs")


def run(number: int, job: str, hosts: list[int], start_s: float, end_s: float, end: str = "") -> Run:
    return Run(number, job, ARCHETYPES[0], np.array(hosts), start_s, end_s, 0, end=end)


def test_a_job_is_open_before_its_first_rows_and_ended_after_its_last() -> None:
    told = Watermarks(start_ns=100 * S)
    job = run(0, "a", [3, 4], -50.0, 70.0, "exit/0")
    assert told.begun([job], 0.0, 60.0) == [Said("a", 3, 100 * S, OPEN), Said("a", 4, 100 * S, OPEN)]
    assert told.passed([job], 60.0) == [Said("a", 3, 160 * S, OPEN), Said("a", 4, 160 * S, OPEN)]
    assert told.begun([job], 60.0, 120.0) == []
    assert told.passed([job], 120.0) == [Said("a", 3, 220 * S, ENDED), Said("a", 4, 220 * S, ENDED)]
    assert told.ended() == []


def test_one_that_starts_again_stays_open_where_it_was_and_ends_where_it_left() -> None:
    told = Watermarks(start_ns=0)
    first, second = run(0, "a", [1, 2], 0.0, 20.0, "exit/1"), run(1, "a", [2, 3], 30.0, 1e9)
    told.begun([first], 0.0, 10.0)
    told.passed([first], 10.0)
    assert told.begun([first, second], 10.0, 60.0) == [Said("a", 3, 30 * S, OPEN)], (
        "the first one's rows on 2 are to come"
    )
    assert told.passed([second, first], 60.0) == [
        Said("a", 1, 60 * S, ENDED), Said("a", 2, 60 * S, OPEN), Said("a", 3, 60 * S, OPEN),
    ]  # fmt: skip
    assert told.ended() == [Said("a", 2, 60 * S, ENDED), Said("a", 3, 60 * S, ENDED)]


def test_a_fleet_says_so_of_every_job_and_host_and_its_rows_fit_the_table() -> None:
    simulation, said, seen = Simulation(SPEC), list[Said](), 0

    class Counting:
        """A double of a sink: what is claimed to be there must have been written."""

        def write(self, table: object, rows: object) -> None:
            nonlocal seen
            seen = len(said)

        def finish(self) -> int:
            return 0

        def close(self) -> None: ...

    for _ in simulation.write(Counting(), say=said.extend):
        pass
    runs = [each for each in simulation.schedule.runs if each.start_s < SPEC.seconds]
    places = {(each.job, host) for each in runs for host in each.hosts.tolist()}
    assert {(each.job, each.host) for each in said} == places
    assert {(each.job, each.host): each.state for each in said} == dict.fromkeys(places, ENDED)
    assert max(each.to_ns for each in said) == SPEC.end_ns
    assert all(each.to_ns < SPEC.end_ns for each in said[:seen]), "not before the last rows"
    rows = checked_rows(BY_NAME["watermark"], simulation.watermark_rows(said[:20], SPEC.end_ns))
    off_ns = np.array(rows["to_ns"].to_pylist()) - [each.to_ns for each in said[:20]]
    assert (np.abs(off_ns) < S).all(), "by the clock of the host"
    assert rows["job"].to_pylist() == [each.job for each in said[:20]]
    assert set(rows["ranks"].to_pylist()) == {8}


def test_a_fleet_that_is_broken_off_has_ended() -> None:
    simulation, said = Simulation(SPEC), list[Said]()

    class Broken:
        """A double of a sink that is interrupted at the first step."""

        def write(self, table: object, rows: object) -> None:
            if getattr(table, "name", "") == "step":
                raise KeyboardInterrupt

        def finish(self) -> int:
            return 0

        def close(self) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        list(simulation.write(Broken(), say=said.extend))
    assert said
    last = {(each.job, each.host): each for each in said}.values()
    assert {(each.to_ns, each.state) for each in last} == {(SPEC.end_ns, ENDED)}, "not before rows that came"
