"""Calls on a Ray cluster: a real one, on loopback, that the test starts and ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest
from tests.builders.ray_cluster import LOOPBACK, Cluster
from tests.builders.registries import EVERY_REGISTRY
from tests.unit.runner.test_execute import trouble_task, volume_task
from tests.unit.simulator.test_fleet import simulated

from leadline.analysis import ANALYSES
from leadline.runner.calls.ray_executor import RayExecutor
from leadline.runner.execute import Executor, InProcess, Task
from leadline.runner.offline import judge_rows
from leadline.runner.worker import DONE, FAILED, TIMEOUT, Outcome
from leadline.simulator.spec import SimulationSpec, planned_of
from leadline.testing.analyses import trouble

pytest.importorskip("ray", reason="Ray is an extra: pip install 'leadline[ray]'")
pytestmark = pytest.mark.slow  # a cluster takes half a minute to start where nothing is idle
WAIT_S = 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    try:
        yield made
    finally:
        made.end()
    assert made.processes() == []


@pytest.fixture(scope="module")
def on_ray(cluster: Cluster) -> Iterator[RayExecutor]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOOPBACK.items():
            patch.setenv(name, value)
        made = RayExecutor(cluster.address, EVERY_REGISTRY, workers=2)
        try:
            made.start()
            yield made
        finally:
            made.close()


def run(executor: Executor, task: Task) -> Outcome:
    return executor.submit(task).result(WAIT_S)


def test_a_worker_on_the_cluster_says_what_this_process_says(on_ray: RayExecutor) -> None:
    here, there = InProcess().submit(volume_task()).result(), run(on_ray, volume_task())
    assert here.state == there.state == DONE, there.error
    assert here.digest == there.digest
    assert here.tables["flow_volume"].equals(there.tables["flow_volume"])


def test_nothing_listens_beyond_loopback(cluster: Cluster, on_ray: RayExecutor) -> None:
    assert on_ray._driver is not None
    ours = psutil.Process(on_ray._driver.pid)
    listening = {each.laddr.ip for each in ours.net_connections("inet") if each.status == psutil.CONN_LISTEN}
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_what_goes_wrong_is_told_as_by_a_worker_process(on_ray: RayExecutor) -> None:
    asked = [on_ray.submit(trouble_task(each)) for each in ("hang", "raise", "nothing")]
    found = [each.result(WAIT_S) for each in asked]
    assert [each.state for each in found] == [TIMEOUT, FAILED, DONE]
    assert found[0].error == "took longer than 1 s and was stopped"
    assert found[1].error.startswith("ValueError: asked to raise (analyses.py, line ")


def test_a_recording_is_judged_as_in_this_process(on_ray: RayExecutor) -> None:
    spec = SimulationSpec(gpus=16, minutes=0.5, seed=3, planned=planned_of("xid", 30, 3))
    _, sink = simulated(spec)
    tables = {name: sink.all(name) for name in sink.rows}
    here, there = (judge_rows(tables, spec.start_ns, spec.end_ns, ANALYSES, each) for each in (InProcess(), on_ray))
    assert {"ledger", "baseline", "profile"} <= set(here), "a recording of which nothing is told tests nothing"
    assert set(here) == set(there)
    for name in here:
        assert there[name].equals(here[name]), name


def test_windows_of_workers_that_are_killed_are_judged_elsewhere(cluster: Cluster, on_ray: RayExecutor) -> None:
    workers = cluster.workers()
    assert workers
    given = [on_ray.submit(volume_task()) for _ in range(20)]
    for each in workers:
        each.kill()
    assert [each.result(WAIT_S).state for each in given] == [DONE] * 20
    patient = replace(trouble, seconds_max=WAIT_S)  # Ray takes seconds to see that a worker died, where nothing is idle
    assert run(on_ray, trouble_task("die", patient)).error.startswith("the worker on the Ray cluster died, 2 times")


def test_windows_of_a_node_that_leaves_are_judged_elsewhere(cluster: Cluster, on_ray: RayExecutor) -> None:
    given = [on_ray.submit(volume_task()) for _ in range(20)]
    cluster.leave()
    given += [on_ray.submit(volume_task()) for _ in range(4)]
    assert [each.result(WAIT_S).state for each in given] == [DONE] * 24


def test_a_driver_that_ends_loses_nothing(on_ray: RayExecutor) -> None:
    given = [on_ray.submit(volume_task()) for _ in range(4)]
    assert on_ray._driver is not None
    on_ray._driver.kill()
    assert [each.result(WAIT_S).state for each in given] == [DONE] * 4


def test_what_is_closed_has_ended_what_it_started_and_nothing_else(cluster: Cluster, on_ray: RayExecutor) -> None:
    hanging = on_ray.submit(trouble_task("hang"))
    on_ray.close()
    assert hanging.result(WAIT_S).error == "the workers were stopped"
    assert run(on_ray, volume_task()).error == "the workers were stopped"
    for _ in range(100):
        left = cluster.workers()
        if not left:
            break
        time.sleep(0.1)
    assert left == []
    assert [each for each in cluster.processes() if "raylet" in each.name()], "the cluster goes on"
