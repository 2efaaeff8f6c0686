"""Faults of application, host and storage on real namespaces: what test_faults.py cannot try with its small job.

The co-located neighbour needs a machine with several hosts; what a training program obeys needs real training.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest

from leadline.lab.faults import BY_NAME, Fault
from leadline.lab.faults.host.colocated import ColocatedNeighbour
from leadline.lab.faults.host.slow_worker import SlowWorker
from leadline.lab.realise.cluster import Cluster
from leadline.lab.running import RunningLab
from leadline.lab.topology import build, load, read_shape
from leadline.lab.workloads.bert.job import Bert
from leadline.lab.workloads.rings.job import Rings

SHARED = """
name: shared
leaves: 2
spines: 1
hosts: 4
homes: 2
hosts_per_machine: 2
"""
# Each of another layer or another setting of the same control files, so all of them can be at once.
AT_ONCE = ("imbalanced-sequences", "loop-bug", "slow-operator", "checkpoint-storm", "slow-storage", "memory-pressure")


def wait_until(true: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait for something to come true; the time is long even for a busy machine."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.2)


@pytest.fixture
def shared(lab_name: str) -> Iterator[RunningLab]:
    """Two machines of two hosts; a job on one host of each."""
    with Cluster(build(read_shape(SHARED, "test")), lab_name) as cluster:
        lab = RunningLab(cluster)
        job = Rings(name="rings-1", hosts=("h1", "h3"), max_bytes=1 << 16, cycles=0, seconds=120.0, timeout_s=30.0)
        job.start(cluster)
        lab.jobs["rings-1"] = job
        try:
            yield lab
        finally:
            job.stop()


def quota(lab: RunningLab, rank: int) -> str:
    """What the kernel says of a rank's CPU quota: "-1" or "max" is none."""
    group = lab.rank(None, rank).process.cgroup
    v2 = group.file("cpu", "cpu.max")
    return str((v2 if v2.exists() else group.file("cpu", "cpu.cfs_quota_us")).read_text().split()[0])


def test_a_neighbour_takes_cpu_and_the_uplink_of_its_machine_and_leaves_nothing(shared: RunningLab) -> None:
    fault = ColocatedNeighbour().chosen(shared, random.Random(2))
    assert fault.host in ("h2", "h4"), "beside a rank, and without one"
    victim = 0 if fault.host == "h2" else 1
    assert fault.component(shared) == (f"host:{fault.host}", f"job:neighbour-{fault.host}")
    before = dict(fault.seen(shared))
    assert before["neighbour_cpu_s"] == 0
    fault.start(shared)
    try:
        wait_until(lambda: float(str(fault.seen(shared)["neighbour_cpu_s"])) > 0.05, "the neighbour computes")
        wait_until(lambda: int(str(fault.seen(shared)["bulk_bytes"])) > 1 << 20, "its traffic flows")
        throttled = int(str(before["throttled"]))
        wait_until(lambda: int(str(fault.seen(shared)["throttled"])) > throttled, "the rank lacks CPU")
        assert quota(shared, 1 - victim) in ("-1", "max"), "only the ranks on its machine"
    finally:
        fault.stop(shared)
    assert quota(shared, victim) in ("-1", "max")
    assert fault.seen(shared)["neighbour_cpu_s"] == 0, "its program has ended"
    assert all(code is None for code in shared.jobs["rings-1"].poll().values())


def test_of_two_slow_workers_the_stronger_rules_and_the_last_lets_go(shared: RunningLab) -> None:
    weak, strong = (SlowWorker(rank=0, cores=cores).chosen(shared, random.Random(1)) for cores in (0.4, 0.1))
    weak.start(shared)
    at_weak = quota(shared, 0)
    strong.start(shared)
    assert int(quota(shared, 0)) < int(at_weak)
    strong.stop(shared)
    assert quota(shared, 0) == at_weak
    weak.stop(shared)
    assert quota(shared, 0) in ("-1", "max")


@pytest.mark.slow
def test_training_obeys_several_faults_at_once_and_is_itself_again(lab_name: str) -> None:
    with Cluster(load("tiny"), lab_name) as cluster:
        lab = RunningLab(cluster)
        job = Bert(name="bert-1", evaluate_every=0, checkpoint_every=0)
        job.start(cluster)
        lab.jobs["bert-1"] = job
        try:
            wait_until(lambda: len(job.steps_done()) > 5, "it trains", 120.0)
            faults: dict[str, Fault] = {name: BY_NAME[name]().chosen(lab, random.Random(1)) for name in AT_ONCE}
            before = {name: dict(fault.seen(lab)) for name, fault in faults.items()}
            for fault in faults.values():
                fault.start(lab)
            try:
                for name, fault in faults.items():
                    wait_until(
                        lambda name=name, fault=fault: fault.seen(lab)[fault.signal] != before[name][fault.signal],  # type: ignore[misc]
                        f"{name} shows in {fault.signal}",
                        60.0,
                    )
            finally:
                for fault in faults.values():
                    fault.stop(lab)
            assert [one.control.read_text() for one in job.ranks] == ["{}", "{}"]
            assert all(one.process.cgroup.oom_kills() == 0 for one in job.ranks)
            done = len(job.steps_done())
            wait_until(lambda: len(job.steps_done()) > done + 3, "it goes on", 60.0)
        finally:
            job.stop()
