"""What cannot happen is refused before anything starts: each refusal with its file, its line and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.lab.faults import BY_NAME
from leadline.lab.faults.base import JobFault
from leadline.lab.run import plan_for
from leadline.lab.scenarios.parameters import misfit, parameters_of_workload
from leadline.lab.scenarios.spec import parse, scenario_of, shipped
from leadline.lab.topology import load
from leadline.lab.workloads import WORKLOADS
from leadline.lab.workloads.base import store_port
from leadline.lab.workloads.pipeline.job import Pipeline
from leadline.lab.workloads.ray_cluster import job as ray_job
from leadline.model.errors import ConfigError

# Line 1 is empty; workloads are in lines 5 and 6, what is tried in line 8 and after it.
SCENARIO = """
name: x
duration_s: 100
workloads:
  - {{workload: bert, name: b, at_s: 0, for_s: 60}}
  - {{workload: rings, name: r, at_s: 20}}
faults:
{faults}
"""
TWICE = """
  - {fault: slow-link, at_s: 10, for_s: 30, link: h1~leaf1}
  - {fault: slow-link, at_s: 20, for_s: 5, link: h1/eth0~leaf1/Ethernet1}""".lstrip("\n")
NEIGHBOURS = """
  - {fault: neighbour-congestion, at_s: 5, for_s: 9, src: h1, dst: h2, job: bulk-1}
  - {fault: neighbour-congestion, at_s: 7, src: h3, dst: h4, job: bulk-1}""".lstrip("\n")


def planned(faults: str, topology: str = "clos8", seed: int = 1) -> list[JobFault]:
    plan = plan_for(parse(SCENARIO.format(faults=faults), "x.yaml"), load(topology), seed)
    return [each.fault for each in plan.scenario.faults]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        # a time line that contradicts itself
        (
            TWICE,
            "line 9: slow-link befalls link link:h1/eth0~leaf1/Ethernet1 at 20 s while the same of x.yaml, line 8",
        ),
        (
            "  - {fault: slow-worker, at_s: 10, rank: 3}\n  - {fault: slow-worker, at_s: 20, job: b, rank: 3}",
            "line 9: slow-worker befalls job b rank 3 at 20 s while the same of x.yaml, line 8 still lasts (from",
        ),
        (
            "  - {fault: slow-worker, at_s: 30, job: b}\n  - {fault: sigsegv, at_s: 10, rank: 3}",
            "x.yaml, line 8: slow-worker at 30 s: b is dead by then, of sigsegv at 10 s (x.yaml, line 9); let it come",
        ),
        (
            "  - {fault: slow-worker, at_s: 15}\nharmless:\n  - {harmless: preemption, job: b, at_s: 10, for_s: 20}",
            "line 8: slow-worker at 15 s finds b preempted (from 10 s to 30 s, x.yaml, line 10); let it begin before",
        ),
        (
            "  - {fault: sigsegv, at_s: 60, job: b}",
            "x.yaml, line 8: sigsegv at 60 s befalls no running job: b runs from 0",
        ),
        ("  - {fault: sigsegv, at_s: 9, job: r}", "befalls no running job: r runs from 20 s to the end"),
        ("  - {fault: sigsegv, at_s: 10, job: c}", "x.yaml, line 8: sigsegv needs a workload called c; there are b, r"),
        ("  - {fault: sigsegv, at_s: 101}", "x.yaml, line 8: at_s 101.0 is after the end, duration_s 100"),
        (
            NEIGHBOURS,
            "line 9: neighbour-congestion starts a job called bulk-1, and so does x.yaml, line 8 at the same time",
        ),
        (
            "  - {fault: neighbour-congestion, at_s: 5, src: h1, dst: h2, job: r}",
            "x.yaml, line 8: neighbour-congestion starts a job called r, as is the workload of x.yaml, line 6",
        ),
        # a kind of job that it cannot befall
        (
            "  - {fault: imbalanced-stage, at_s: 5}",
            "x.yaml, line 8: imbalanced-stage befalls pipeline only, not bert (b), rings (r)",
        ),
        # what is not there
        ("  - {fault: slow-worker, at_s: 5, rank: 8}", "x.yaml, line 8: slow-worker: a rank on clos8 is 0 to 7, got 8"),
        ("  - {fault: slow-link, at_s: 5, link: h9~leaf1}", "x.yaml, line 8: no link 'h9~leaf1' in clos8"),
        ("  - {fault: blackhole, at_s: 5, switch: spine7}", "x.yaml, line 8: no node 'spine7' in topology clos8"),
        (
            "  - {fault: exporter-hangs, at_s: 5, host: spine1}",
            "x.yaml, line 8: 'spine1' of topology clos8 is a switch",
        ),
        # its words
        ("  - {fault: slow-link, at_s: 5,\n     rate: 0.5}", "x.yaml, line 9: slow-link has no parameter 'rate'"),
        ("  - {fault: slow-link, at_s: 5,\n     magnitude: huge}", "x.yaml, line 9: magnitude must be one of small"),
        ("  - {fault: slow-lnk, at_s: 5}", "did you mean slow-link?"),
        ("  - {fault: slow-link, at_s: 5, with_decoy: slow-link}", "x.yaml, line 8: with_decoy must be true or one of"),
        ("  - {fault: slow-link, at_s: 5, decoy: 1}", "x.yaml, line 8: decoy must be true or false, got 1"),
        ("  - slow-link", "x.yaml, line 7: faults: expected mappings like {at_s: 30}, got 'slow-link'"),
        ("harmless:\n  - {harmless: slow-link, at_s: 5}", "x.yaml, line 9: harmless must be one of"),
        ("links_down: [leaf1~spine9]", "x.yaml, line 8: no link 'leaf1~spine9' in clos8"),
        ("links_down: [leaf1~spine1, leaf2~spine2]", "x.yaml, line 8: links_down: expected that all hosts reach"),
        ("links_down: 3", "x.yaml, line 8: links_down: expected a list of links"),
        ("topology: clos9", "x.yaml, line 8: topology: expected "),
        ("topology: clos9.yaml", "or a .yaml file that is there, got 'clos9.yaml'"),
        ("fault: []", "x.yaml, line 8: unknown fault; a scenario takes name, doc"),
    ],
)
def test_what_cannot_happen_is_refused_with_its_line(faults: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(faults)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("work", "told"),
    [
        ("{workload: bert, stps: 5}", "line 3: bert has no parameter 'stps'; it takes "),
        ("{workload: bert, steps: many}", "line 3: bert.steps expects int, got 'many'"),
        ("{workload: bert, steps: true}", "line 3: bert.steps expects int, got True"),
        ("{workload: bert, hosts: h1}", "line 3: bert.hosts expects a list of str, got 'h1'"),
        ("{workload: bert, hosts: [1]}", "line 3: bert.hosts expects a list of str, got [1]"),
        ("{workload: bert, hosts: [h9]}", "line 3: no node 'h9' in topology clos8"),
        ("{workload: bert, hosts: [leaf1]}", "line 3: 'leaf1' of topology clos8 is a switch"),
        ("{workload: bert, gpus_per_host: 2}", "line 3: host h1 of topology clos8 has 1 GPU; 2 ranks on a host need"),
        ("{workload: bert, world_size: 9}", "line 3: workload bert-1 wants 9 ranks; its hosts hold 8, with 1 on each"),
        ("{workload: bert, gpus_per_host: 0}", "line 3: bert.gpus_per_host must be 1 to 64, got 0"),
        ("{workload: bert,\n    steps: -3}", "x.yaml, line 4: bert.steps must be 0 to 1000000000, got -3"),
        ("{workload: bert, seconds: .nan}", "line 3: bert.seconds must be 0 to 30000000, got nan"),
        ("{workload: bert, hidden: 130}", "line 3: workload bert-1: hidden must be a multiple of 4 (heads), got 130"),
        ("{workload: pipeline, hidden: 98}", "line 3: workload pipeline-1: hidden must be a multiple of 4 (heads)"),
        ("{workload: bert, storage_host: s9}", "line 3: bert-1 needs storage host s9; topology clos8 has storage1"),
        ("{workload: bert, hosts: [h1, h1]}", "line 3: host h1 stands twice among the hosts"),
        ("{workload: finetune, base: ../x}", "line 3: workload finetune-1: base must be the name of a job"),
        ("{workload: rings, transport: infiniband}", "line 3: workload rings-1: transport must be tcp or rocev2"),
        ("{workload: rings, ops: [sum]}", "line 3: workload rings-1: ops are all_reduce, "),
        ("{workload: rings, max_bytes: 9}", "line 3: workload rings-1: min_bytes must be at most max_bytes"),
        (
            "{workload: rings, transport: rocev2}\n - {workload: rings, name: b, transport: rocev2, at_s: 5}",
            "line 4: b and rings-1 (x.yaml, line 3) both have transport rocev2 on h1 at 5 s",
        ),
        ("{workload: incast, hosts: [h1]}", "line 3: workload incast-1 needs two hosts at least"),
        ("{workload: pipeline, world_size: 3, replicas: 2}", "x 2 replicas in a world_size of 3; give hosts, stages"),
        ("{workload: rings, every_s: 0.001, for_s: 0.0005}", "line 3: every_s 0.001 gives 60000 turns until the end"),
        (
            "{workload: bert, placement: somewhere}",
            "line 3: bert-1: placement must be random or chosen, got 'somewhere'",
        ),
        ("{workload: bert, placement: chosen}", "line 3: bert-1: placement chosen needs `hosts`"),
        ("{workload: bert, placement: random}", "line 3: bert-1: placement random needs `world_size`"),
        ("{workload: bert, placement: random, hosts: [h1]}", "line 3: bert-1: placement random draws the hosts itself"),
        (
            "{workload: bert, placement: random, world_size: 9}",
            "line 3: bert-1 needs 9 hosts with 1 free GPU each; clos8",
        ),
        ("{workload: bulk}", "line 3: workload bulk-1 needs src, dst and at least one flow, or transfers"),
        ("{workload: bulk, transfers: [{from: h1}]}", "line 3: workload bulk-1: a transfer has source and target"),
        ("{workload: pipeline, replicas: 3}", "line 3: workload pipeline-1: 8 hosts are not some stages x 3 replicas"),
        ("{workload: pipeline, micro_batches: 0}", "line 3: pipeline.micro_batches must be 1 to 1024, got 0"),
        ("{workload: serve, servers: 8}", "line 3: workload serve-1 needs a server and a client at least; 8 servers"),
        ("{workload: none}", "line 3: workload must be one of bert"),
        ("{workload: rings, every_s: 5}", "line 3: every_s 5.0 needs a for_s that is shorter, got None"),
        (
            "{workload: rings}\n - {workload: rings}",
            "line 4: two workloads are called rings-1 (the first: x.yaml, line 3)",
        ),
        ("{workload: rings, name: a b}", "line 3: a name is letters and digits"),
    ],
)
def test_a_job_that_cannot_be_placed_is_refused_with_its_line(work: str, told: str) -> None:
    text = f"duration_s: 60\nworkloads:\n - {work}\n"
    with pytest.raises(ConfigError) as caught:
        plan_for(parse(text, "x.yaml"), load("clos8"), 1)
    assert str(caught.value).startswith("x.yaml, ")
    assert told in str(caught.value)


@pytest.mark.parametrize("kind", ["bulk, src: h1, dst: h2", "incast"])
@pytest.mark.parametrize("fault", ["gpu-throttle", "xid", "gpu-lost", "row-remaps", "nvlink-errors"])
def test_a_job_that_uses_no_gpu_suffers_no_fault_of_one(kind: str, fault: str) -> None:
    text = f"duration_s: 60\nworkloads: [{{workload: {kind}}}]\nfaults: [{{fault: {fault}, at_s: 5}}]\n"
    with pytest.raises(
        ConfigError, match=f"line 3: {fault} befalls jobs that use a GPU only, not {kind.split(',')[0]}"
    ):
        plan_for(parse(text, "x.yaml"), load("clos8"), 1)


def test_ray_is_refused_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_job, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="line 2: workload ray-1 needs Ray, which is not installed here: pip install"):
        plan_for(parse("duration_s: 60\nworkloads: [{workload: ray}]\n", "x.yaml"), load("clos8"), 1)


def test_a_pipeline_has_a_stage_on_each_gpu() -> None:
    text = "duration_s: 60\nworkloads: [{workload: pipeline, hosts: [h1, h2], gpus_per_host: 2, replicas: 2}]\n"
    [job] = plan_for(parse(text, "x.yaml"), load("cloud16"), 1).jobs
    assert isinstance(job, Pipeline)
    assert (job.stages, job.replicas, job.world_size) == (2, 2, 4)


def test_jobs_that_run_at_the_same_time_have_stores_of_their_own() -> None:
    """finetune-104 has by its name the port that bert-1 has: a day of `healthy` met it after four hours."""
    assert store_port("bert-1") == store_port("finetune-104")
    scenario = scenario_of("healthy", 16_000.0)
    jobs = plan_for(scenario, load(scenario.topology), 1).jobs
    by_name = {job.name: job for job in jobs}
    assert by_name["finetune-104"].store_port != by_name["bert-1"].store_port  # type: ignore[attr-defined]


def test_a_job_that_ends_by_its_seconds_has_no_fault_after_them() -> None:
    text = (
        "duration_s: 90\nworkloads: [{workload: rings, name: r, at_s: 5, seconds: 20}]\n"
        "faults: [{fault: sigsegv, at_s: 30}]\n"
    )
    with pytest.raises(ConfigError, match="line 3: sigsegv at 30 s befalls no running job: r runs from 5 s to 25 s"):
        plan_for(parse(text, "x.yaml"), load("tiny"), 1)


def test_a_fault_gets_the_first_job_that_runs_then() -> None:
    assert [fault.job for fault in planned("  - {fault: slow-worker, at_s: 10}\n  - {fault: sigsegv, at_s: 70}")] == [
        "b",
        "r",
    ]


def test_what_does_not_contradict_may_be_together() -> None:
    faults = (
        "  - {fault: slow-link, at_s: 10, for_s: 10, link: h1~leaf1}",
        "  - {fault: slow-link, at_s: 20, for_s: 10, link: h1~leaf1}",  # one ends when the other begins
        "  - {fault: slow-link, at_s: 10, for_s: 999, link: h2~leaf2}",  # beyond the end
        "  - {fault: lossy-link, at_s: 10, for_s: 50, link: h1~leaf1}",  # another fault on the same link
        "  - {fault: slow-worker, at_s: 10, for_s: 9}",
        "  - {fault: slow-worker, at_s: 10, for_s: 9}",  # the seed draws two that differ
        "  - {fault: sigsegv, at_s: 50, rank: 0}",
        "  - {fault: slow-worker, at_s: 55, for_s: 5}",  # on r: b is dead
    )
    found = planned("\n".join(faults))
    assert len(found) == len(faults)
    assert found[-1].job == "r"


@pytest.mark.parametrize("name", [*shipped(), *BY_NAME])
def test_what_is_shipped_can_happen(name: str) -> None:
    scenario = scenario_of(name)
    topology = BY_NAME[name].preset if name in BY_NAME else ""
    plan = plan_for(scenario, load(topology or scenario.topology), 1)
    assert len(plan.jobs) == len(scenario.workloads)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_the_types_of_every_workload_can_be_told(name: str) -> None:
    known = parameters_of_workload(WORKLOADS[name])
    assert "name" not in known
    assert known
    for parameter, hint in known.items():
        assert misfit(object(), hint), parameter


def test_missing_links_of_a_scenario_are_missing_in_its_cluster(tmp_path: Path) -> None:
    plan = plan_for(parse("duration_s: 5\nlinks_down: [leaf1~spine1]", "x"), load("clos8"), 1)
    assert len(plan.topology.links) == len(load("clos8").links) - 1
    path = tmp_path / "x.yaml"
    path.write_text("duration_s: 5\nduration_s: 6\n")
    with pytest.raises(ConfigError, match=r"x.yaml, line 2: duration_s stands twice; the first is in line 1"):
        scenario_of(str(path))


def test_the_documented_examples_can_happen() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lab" / "scenarios.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        scenario = parse(example, "docs/lab/scenarios.md")
        plan_for(scenario, load(scenario.topology), 1)
