"""What a running lab knows of a job while it is preempted, and what its new ranks get when it goes on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leadline.lab.faults.application.signals import Hang, state_of
from leadline.lab.harmless.job import Recompilation
from leadline.lab.realise.cluster import Cluster
from leadline.lab.running import RunningLab
from leadline.lab.topology import load
from leadline.lab.workloads.base import RankProcess, stop_all
from leadline.lab.workloads.control import Control


@dataclass
class Sleeping:
    """Stands for the process of a rank: a real one, that sleeps."""

    name: str
    node: str
    popen: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.popen.pid


@dataclass
class Sleepers:
    """Stands for a job: its ranks sleep; it may be stopped and started again."""

    name: str
    directory: Path
    ranks: list[RankProcess] = field(default_factory=list)

    def start(self, lab: Any) -> None:
        for rank in range(2):
            process = Sleeping(f"{self.name}-rank{rank}", f"h{rank + 1}", subprocess.Popen(["sleep", "600"]))
            paths = (self.directory / f"rank{rank}{suffix}" for suffix in (".json", ".log"))
            self.ranks.append(RankProcess(rank, process.node, process, f"GPU-{rank}", *paths))  # type: ignore[arg-type]

    def stop(self) -> None:
        stop_all([one.process for one in self.ranks])
        self.ranks = []

    def steps_done(self) -> list[tuple[int, int]]:
        return [(0, 10)] if self.ranks else []

    def poll(self) -> dict[int, int | None]:
        return {one.rank: one.process.popen.poll() for one in self.ranks}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[RunningLab]:
    found = RunningLab(Cluster(load("tiny"), "x", tmp_path))
    job = Sleepers("bert-1", tmp_path)
    job.start(found.cluster)
    found.jobs[job.name] = job  # type: ignore[assignment]
    yield found
    job.stop()


def comes_to_be(pid: int, stopped: bool) -> bool:
    """Whether a process is stopped, or goes on: the kernel does so within moments of the signal."""
    deadline = time.monotonic() + 10
    while (state_of(pid) == "T") != stopped and time.monotonic() < deadline:
        time.sleep(0.01)
    return (state_of(pid) == "T") == stopped


def test_its_ranks_and_steps_are_known_while_it_is_preempted(lab: RunningLab) -> None:
    before = lab.ranks("bert-1")
    lab.preempt("bert-1")
    assert lab.ranks("bert-1") == before
    assert lab.rank(None, 1) == before[1]
    assert lab.steps_done(lab.job("bert-1")) == [(0, 10)]
    lab.resume("bert-1")
    after = lab.ranks("bert-1")
    assert [one.process.name for one in after] == [one.process.name for one in before]
    assert after[0].process.pid != before[0].process.pid


def test_a_rank_that_hangs_hangs_again_and_goes_on_when_the_fault_is_mended(lab: RunningLab) -> None:
    fault = Hang(job="bert-1", rank=1)
    fault.start(lab)
    lab.preempt("bert-1")
    lab.resume("bert-1")
    healthy, hanging = (one.process.pid for one in lab.ranks("bert-1"))
    assert comes_to_be(hanging, stopped=True)
    assert state_of(healthy) != "T"
    fault.stop(lab)
    assert comes_to_be(hanging, stopped=False)


def test_a_job_that_is_about_to_end_is_not_started_again(lab: RunningLab) -> None:
    lab.preempt("bert-1")
    lab.ending("bert-1")
    lab.resume("bert-1")
    assert not lab.jobs["bert-1"].ranks


def test_each_recompilation_is_one_whatever_numbers_the_seed_draws(lab: RunningLab) -> None:
    control = Control(str(lab.ranks("bert-1")[0].control))
    told, deeds = [], [Recompilation("bert-1", number=number) for number in (700, 30, 500)]
    for each in deeds:
        each.start(lab)
        assert control.changed()
        told.append(control.number("pause_number"))
    for each in reversed(deeds):
        each.stop(lab)
        control.changed()
        told.append(control.number("pause_number"))
    assert told == [700, 30, 500, 0, 0, 0], "a rank pauses when the number changes, and not for 0"
