"""Hosts onto machines and jobs onto hosts: from the seed, told in the truth only; and the decoys of faults."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leadline.lab import harmless
from leadline.lab.faults import BY_NAME
from leadline.lab.placement import told
from leadline.lab.realise.cluster import Cluster
from leadline.lab.run import Plan, ScenarioRun, plan_for
from leadline.lab.running import RunningLab
from leadline.lab.scenarios.decoys import elsewhere, places
from leadline.lab.scenarios.parts import PlannedFault
from leadline.lab.scenarios.spec import parse, scenario_of
from leadline.lab.topology import load
from leadline.lab.truth import TruthFile
from leadline.lab.workloads.base import RankJob
from leadline.model.errors import ConfigError

CLOUD = """
topology: cloud16
duration_s: 60
workloads:
  - {workload: rings, name: a, placement: random, world_size: 10, gpus_per_host: 2, for_s: 30}
  - {workload: rings, name: b, placement: random, world_size: 4}
  - {workload: rings, name: c, placement: chosen, hosts: [h4, h2]}
  - {workload: rings, name: d, at_s: 30, placement: random, world_size: 5}
"""


def plan(seed: int, text: str = CLOUD) -> Plan:
    scenario = parse(text, "cloud.yaml")
    return plan_for(scenario, load(scenario.topology), seed)


def hosts_of(found: Plan) -> dict[str, list[str]]:
    return {job.name: list(job.hosts) for job in found.jobs if isinstance(job, RankJob)}


@pytest.mark.parametrize("seed", range(20))
def test_jobs_that_run_together_get_different_hosts(seed: int) -> None:
    placed = hosts_of(plan(seed))
    assert {name: len(hosts) for name, hosts in placed.items()} == {"a": 5, "b": 4, "c": 2, "d": 5}
    assert placed["c"] == ["h4", "h2"]
    for together in ("abc", "bcd"):
        hosts = [host for name in together for host in placed[name]]
        assert len(set(hosts)) == len(hosts)


def test_the_seed_chooses_hosts_and_machines_and_nothing_else_does() -> None:
    assert hosts_of(plan(7)) == hosts_of(plan(7))
    assert plan(7).topology == plan(7).topology
    assert len({str(hosts_of(plan(seed))) for seed in range(8)}) == 8
    machines = {str(sorted((host.name, host.machine) for host in plan(seed).topology.hosts)) for seed in range(8)}
    assert len(machines) == 8
    fixed = parse("topology: clos8\nduration_s: 5", "x")
    assert plan_for(fixed, load("clos8"), 3).topology == load("clos8")


def test_a_job_that_starts_before_its_neighbour_in_the_file_leaves_it_no_gpu() -> None:
    with pytest.raises(
        ConfigError, match=r"line 6: b needs 12 hosts with 1 free GPU each; cloud16 has 16, 7 of them held"
    ):
        plan(1, CLOUD.replace("world_size: 4", "world_size: 12"))


def test_the_truth_says_where_everything_is(tmp_path: Path) -> None:
    found = plan(5)
    places_told = told(found.topology, {job.name: job for job in found.jobs})
    assert places_told["placement"] == hosts_of(found)
    assert sorted(host for hosts in places_told["machines"].values() for host in hosts) == sorted(
        host.name for host in found.topology.hosts
    )
    assert told(load("clos8"), {})["machines"] == {}, "each host is a machine of its own"


# -- decoys ---------------------------------------------------------------------------------------------------------

WITH_DECOY = """
duration_s: 60
workloads: [{workload: rings, name: r}]
faults:
  - {fault: slow-link, at_s: 5, for_s: 20, link: h3~leaf1, with_decoy: WHICH}
harmless:
  - {harmless: log-noise, at_s: 7}
"""


def idle(preset: str = "clos8") -> RunningLab:
    return RunningLab(Cluster(load(preset), "x"))


@pytest.mark.parametrize("which", ["true", "cron-job"])
def test_a_fault_may_bring_something_harmless_with_it(which: str) -> None:
    faults = plan(4, WITH_DECOY.replace("WHICH", which)).scenario.faults
    fault, noise, decoy = faults
    assert (noise.fault.name, noise.decoy, noise.beside) == ("log-noise", True, None)
    assert not fault.decoy
    assert decoy.decoy
    assert (decoy.at_s, decoy.for_s, decoy.beside) == (5.0, 20.0, 0)
    assert type(decoy.fault) in harmless.BESIDE
    if which != "true":
        assert decoy.fault.name == which
    again = plan(4, WITH_DECOY.replace("WHICH", which)).scenario.faults[2]
    assert type(again.fault) is type(decoy.fault)


def test_without_its_word_no_decoy() -> None:
    assert len(plan(4, WITH_DECOY.replace("WHICH", "false")).scenario.faults) == 2


@pytest.mark.parametrize("seed", range(30))
def test_the_decoy_is_elsewhere(seed: int) -> None:
    lab = idle()
    befallen = BY_NAME["slow-link"](link="h3~leaf1").component(lab)  # type: ignore[call-arg]
    assert places(befallen, lab) == {"h3"}
    decoy = plan(seed, WITH_DECOY.replace("WHICH", "true")).scenario.faults[2]
    found = elsewhere(decoy, befallen, lab, random.Random(seed))
    assert found is not None
    assert "h3" not in places(found.component(lab), lab)


def test_a_decoy_that_needs_what_is_not_there_gives_way_to_another() -> None:
    lab = idle("tiny")  # one NIC a host: none is unused
    flaps = harmless.HARMLESS_BY_NAME["unused-nic-flaps"]()
    anything = PlannedFault(flaps, 0.0, 5.0, decoy=True, with_decoy=True, beside=0)
    found = elsewhere(anything, ("host:h1",), lab, random.Random(1))
    assert found is not None
    assert places(found.component(lab), lab) == {"h2"}
    only = PlannedFault(flaps, 0.0, 5.0, decoy=True, with_decoy=False, beside=0)
    assert elsewhere(only, ("host:h1",), lab, random.Random(1)) is None
    assert elsewhere(anything, ("host:h1", "host:h2"), lab, random.Random(1)) is None


@pytest.mark.parametrize(
    ("entity", "place"),
    [
        ("port:h3/eth0", {"h3"}),
        ("swport:leaf1/Ethernet3", {"h3"}),
        ("link:h3/eth0~leaf1/Ethernet3", {"h3"}),
        ("link:leaf1/Ethernet9~spine1/Ethernet1", {"leaf1", "spine1"}),
        ("host:h3", {"h3"}),
        ("switch:spine1", {"spine1"}),
        ("service:dcgm-exporter/h3", {"h3"}),
        (f"gpu:{load('clos8').host('h3').gpus[0]}", {"h3"}),
        ("gpu:GPU-of-nobody", {"gpu:GPU-of-nobody"}),
        ("rank:r/1", {"h2"}),
        ("job:r", {"job:r"}),
    ],
)
def test_where_a_component_is(entity: str, place: set[str]) -> None:
    lab = idle()
    ranks = [SimpleNamespace(rank=n, host=f"h{n + 1}") for n in range(2)]
    lab.jobs["r"] = cast("Any", SimpleNamespace(name="r", ranks=ranks))
    assert places([entity], lab) == place


# -- what a run does with them --------------------------------------------------------------------------------------


def run_of(text: str, directory: Path, said: list[str]) -> ScenarioRun:
    """A run whose lab is not up: nothing here touches it."""
    scenario = parse(text, "x.yaml")
    topology = load(scenario.topology)
    truth = TruthFile(directory / "x.truth.json", "x", 1)
    run = ScenarioRun(scenario, topology, "x", 1, truth, None, tell=lambda happening: said.append(happening.text))
    run.scenario = plan_for(scenario, topology, 1).scenario
    run.lab = RunningLab(Cluster(topology, "x"))
    return run


def ended_job(code: int) -> Any:
    """A double of a job whose two ranks have ended with a code."""
    ranks = [SimpleNamespace(rank=n, host=f"h{n + 1}") for n in range(2)]
    return SimpleNamespace(name="r", ranks=ranks, poll=lambda: {0: code, 1: code}, ready=lambda: False)


def test_a_short_job_that_has_done_its_work_was_at_work(tmp_path: Path) -> None:
    said: list[str] = []
    run = run_of("topology: tiny\nduration_s: 5", tmp_path, said)
    assert run.lab is not None
    run.lab.jobs["r"] = ended_job(0)
    assert run._wait_ready()
    run._look_at_jobs()
    assert "r has ended (all ranks with 0)" in said


def test_a_fault_that_finds_its_job_at_its_end_is_told_and_a_decoy_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    text = "topology: tiny\nduration_s: 50\nworkloads: [{workload: bert, name: r}]\n"
    run = run_of(
        text + "faults: [{fault: slow-worker, at_s: 5}]\nharmless: [{harmless: recompilation, at_s: 6}]", tmp_path, said
    )
    assert run.lab is not None
    run.lab.jobs["r"] = ended_job(0)
    with pytest.raises(Exception, match=r"slow-worker finds r at its end \(x.yaml, line 4\); let the job run longer"):
        run._start_fault(0, run.scenario.faults[0])
    run._start_fault(1, run.scenario.faults[1])
    assert said == ["recompilation finds r at its end (x.yaml, line 5); left out"]
    assert run.truth.entries == ()


def test_the_same_fault_twice_is_drawn_on_two_links() -> None:
    text = "topology: tiny\nduration_s: 50\nworkloads: [{workload: rings, name: r}]\nfaults:\n"
    text += "  - {fault: exporter-hangs, at_s: 5}\n" * 2
    faults = []
    for seed in range(10):
        scenario = parse(text, "x.yaml")
        run = ScenarioRun(scenario, load("tiny"), "x", seed, cast("Any", None), None)
        run.lab = idle("tiny")
        first = run._chosen(0, scenario.faults[0])
        assert first is not None
        run._faults[0], run._befallen[0] = (0, first), first.component(run.lab)
        second = run._chosen(1, scenario.faults[1])
        assert second is not None
        faults.append((first.component(run.lab), second.component(run.lab)))
    assert all(first != second for first, second in faults)


def test_harmless_things_are_scenarios_of_their_own() -> None:
    scenario = scenario_of("recompilation")
    assert scenario.faults[0].decoy
    assert scenario.workloads[0].kind in scenario.faults[0].fault.workloads


def ranks_by_host(text: str, topology: str) -> list[str]:
    """The host of each rank of the first job."""
    found = plan_for(parse(text, "x.yaml"), load(topology), 1)
    [job] = found.jobs
    assert isinstance(job, RankJob)
    return [host for host, _ in job.members(cast("Any", SimpleNamespace(topology=found.topology)))]


@pytest.mark.parametrize(
    ("topology", "hosts"),
    [
        ("pair2", ["h1", "h1", "h2", "h2"]),
        ("node8", ["h1"] * 8),
        ("tiny", ["h1", "h2"]),
        ("quad", ["h1", "h2", "h3", "h4"]),
    ],
)
@pytest.mark.parametrize("kind", ["bert", "pipeline", "rings"])
def test_a_job_puts_as_many_ranks_on_a_host_as_the_topology_says(kind: str, topology: str, hosts: list[str]) -> None:
    text = f"topology: {topology}\nduration_s: 60\nworkloads:\n  - {{workload: {kind}, name: a}}\n"
    assert ranks_by_host(text, topology) == hosts


def test_what_a_scenario_says_of_ranks_goes_before_the_topology() -> None:
    one = "topology: pair2\nduration_s: 60\nworkloads:\n  - {workload: bert, name: a, gpus_per_host: 1}\n"
    assert ranks_by_host(one, "pair2") == ["h1", "h2"]
    odd = "topology: pair2\nduration_s: 60\nworkloads:\n  - {workload: bert, name: a, world_size: 3}\n"
    assert ranks_by_host(odd, "pair2") == ["h1", "h1", "h2"]


def test_roce_has_one_rank_on_a_host_whatever_the_topology_says() -> None:
    roce = "topology: pair2\nduration_s: 60\nworkloads:\n  - {workload: rings, name: a, transport: rocev2%s}\n"
    assert ranks_by_host(roce % "", "pair2") == ["h1", "h2"]
    with pytest.raises(ConfigError, match=r"x\.yaml, line 4: workload a: with transport rocev2 a host has one rank"):
        ranks_by_host(roce % ", gpus_per_host: 2", "pair2")


def test_the_small_clusters_carry_the_steady_scenario_and_single_faults() -> None:
    for topology in ("pair2", "node8"):
        for name in ("steady", "slow-worker", "gpu-throttle", "xid", "sigstop", "slow-loader"):
            planned = plan_for(scenario_of(name), load(topology), 1)
            assert planned.topology.shape.ranks_per_host == len(planned.topology.hosts[0].gpus)
    with pytest.raises(ConfigError, match="duplicate-uuid needs two hosts with GPUs, and node8 has not"):
        plan_for(scenario_of("duplicate-uuid"), load("node8"), 1)
