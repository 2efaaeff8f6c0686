"""Harmless things really happen, are told apart from faults, and leave a job as it was.

What only a training program can obey (recompilation, preemption) is checked on real training in test_training.py and
by the scenario `healthy`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from leadline.lab.agents import Agents
from leadline.lab.harmless import BESIDE, HARMLESS, HARMLESS_BY_NAME
from leadline.lab.realise.cluster import Cluster
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import Telemetry, TelemetryConfig
from leadline.lab.topology import load
from leadline.lab.workloads.rings.job import Rings
from leadline.model.errors import UsageError

NOBODY = ("127.0.0.1", 9)
HERE = ("maintenance", "rolling-upgrade", "exporter-restarts", "log-noise", "cron-job", "unused-nic-flaps")


@pytest.fixture(scope="module")
def lab() -> Iterator[RunningLab]:
    """Four hosts, three of them with a job; agents that reach nobody, and exporters."""
    with Cluster(load("quad"), f"h{os.getpid()}") as cluster:
        running = RunningLab(cluster)
        running.telemetry = Telemetry(cluster, TelemetryConfig(collectors=(NOBODY,), lldp=False, kernel_log=False))
        running.telemetry.start()
        running.agents = Agents(cluster)  # nothing listens there
        running.agents.start()
        job = Rings(name="rings-1", hosts=("h1", "h2", "h3"), max_bytes=1 << 16, seconds=300.0, pause_s=0.05)
        job.start(cluster)
        running.jobs["rings-1"] = job
        try:
            yield running
        finally:
            job.stop()
            running.agents.stop()
            running.telemetry.stop()


@pytest.mark.parametrize("name", HERE)
def test_it_happens_and_the_job_goes_on(lab: RunningLab, name: str) -> None:
    one = HARMLESS_BY_NAME[name]().chosen(lab, random.Random(3))
    assert one == HARMLESS_BY_NAME[name]().chosen(lab, random.Random(3))
    for entity in one.component(lab):
        assert entity.partition(":")[0] in ("host", "service", "link", "port", "swport"), entity
    before = dict(one.seen(lab))
    one.start(lab)
    wait_until(lambda: dict(one.seen(lab)) != before, f"{name} is seen")
    one.stop(lab)
    if name in ("maintenance", "cron-job"):
        wait_until(lambda: dict(one.seen(lab)) == before, f"{name} is over")
    assert set(lab.jobs["rings-1"].poll().values()) == {None}, "the job runs on"
    if name == "rolling-upgrade":
        assert lab.agents is not None
        assert lab.agents.ended() == []


def test_maintenance_is_for_hosts_that_no_job_uses(lab: RunningLab) -> None:
    with pytest.raises(UsageError, match="busy: h1, h2, h3"):
        HARMLESS_BY_NAME["maintenance"](host="h2").chosen(lab, random.Random(1))  # type: ignore[call-arg]


def test_every_harmless_thing_is_tried_somewhere() -> None:
    training = {"recompilation", "variable-sequences", "reinitialisation", "extra-checkpoint", "preemption"}
    assert set(HERE) | training == set(HARMLESS_BY_NAME)
    assert {kind.name for kind in BESIDE} <= set(HERE)
    assert all(kind.fault_class == "transient" for kind in HARMLESS)


def wait_until(true: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait for something to come true."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.2)
