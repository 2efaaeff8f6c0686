"""A run's promise about faults, with faults that fail: each is mended, and the truth says what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from leadline.lab.faults.base import Fault
from leadline.lab.realise.cluster import Cluster
from leadline.lab.run import ScenarioRun
from leadline.lab.running import RunningLab
from leadline.lab.scenarios.spec import PlannedFault, Scenario
from leadline.lab.topology import load
from leadline.lab.truth import TruthFile, read_truth
from leadline.model.errors import WorldError


@dataclass(frozen=True, slots=True)
class Failing(Fault):
    """A double of a fault: it fails where it is told to and writes down what was asked of it."""

    name = "failing"
    layer = "host"
    fault_class = "gray"
    done: ClassVar[list[str]] = []

    label: str = ""
    fails: str = ""

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"host:{self.label}",)

    def start(self, lab: RunningLab) -> None:
        self._do("start")

    def stop(self, lab: RunningLab) -> None:
        self._do("stop")

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        if "start " + self.label in self.done:
            self._do("seen")
        return {}

    def _do(self, what: str) -> None:
        self.done.append(f"{what} {self.label}")
        if self.fails == what:
            raise WorldError(f"no {what} of {self.label}")


def broken_by(*faults: Fault, directory: Path) -> ScenarioRun:
    """A run in which these faults were started, on a lab that is not up: nothing here touches it."""
    Failing.done.clear()
    planned = [PlannedFault(fault, 0.0, 60.0, decoy=False) for fault in faults]
    topology = load("tiny")
    truth = TruthFile(directory / "x.truth.json", "x", 1)
    run = ScenarioRun(Scenario("x", "", "tiny", 60.0, (), planned), topology, "x", 1, truth, None)
    run.lab = RunningLab(Cluster(topology, "x"))
    for number, each in enumerate(planned):
        run._start_fault(number, each)
    return run


@pytest.mark.parametrize("fails", ["stop", "seen"])
def test_a_fault_that_cannot_be_mended_keeps_no_other_from_it(tmp_path: Path, fails: str) -> None:
    run = broken_by(Failing("a"), Failing("b", fails=fails), Failing("c"), directory=tmp_path)
    with pytest.raises(WorldError, match=f"no {fails} of b"):
        run._mend_all()
    assert {"stop a", "stop b", "stop c"} <= set(Failing.done)
    for entry in read_truth(tmp_path / "x.truth.json")[0]:
        assert entry.end_ns is not None
        assert entry.end_ns - entry.onset_ns < 30e9, "when it ended, not when it was to end"


def test_a_fault_that_cannot_be_started_is_mended_and_the_truth_says_so(tmp_path: Path) -> None:
    run = broken_by(directory=tmp_path)
    with pytest.raises(WorldError, match="no start of a"):
        run._start_fault(0, PlannedFault(Failing("a", fails="start"), 0.0, 60.0, decoy=False))
    run._mend_all()
    assert Failing.done[-1] == "stop a"
    [entry] = read_truth(tmp_path / "x.truth.json")[0]
    assert entry.seen is not None
    assert entry.seen["failed"] == "WorldError: no start of a"
    assert entry.end_ns is not None
    assert entry.end_ns - entry.onset_ns < 30e9
