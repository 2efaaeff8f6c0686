"""Where things are put before anything is started: hosts onto machines, jobs onto hosts. From the seed, nothing else.

A cloud gives a tenant virtual hosts and does not say which machines carry them; so a topology with `machine_order`
is dealt anew for each seed, and a job with `placement: random` gets hosts that nobody else holds then. Both stand in
the truth file only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from leadline.lab.scenarios.parts import WITHOUT_GPU, PlannedWorkload, Scenario
from leadline.lab.topology import Topology, build
from leadline.lab.workloads import WORKLOADS
from leadline.lab.workloads.base import Lab, RankJob, Workload, free_store_port
from leadline.lab.workloads.bulk.job import Bulk
from leadline.lab.workloads.rings.job import Rings
from leadline.model.errors import ConfigError, UsageError


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A lab of which there is only the topology: enough to ask a job who its members will be."""

    topology: Topology


def cluster_of(scenario: Scenario, topology: Topology, seed: int) -> Topology:
    """The topology as this run has it: without the scenario's missing links, machines dealt from the seed.

    Errors: ConfigError for links that are not there, or without which hosts are cut off.
    """
    shape = topology.shape
    if shape.machine_order:
        shape = replace(shape, machine_order=1 + seed % 2**31)
    if scenario.links_down:
        shape = replace(shape, links_down=(*shape.links_down, *scenario.links_down))
    try:
        return topology if shape == topology.shape else build(shape)
    except UsageError as error:
        raise ConfigError(f"{scenario.links_place}: {error}") from error


def jobs_of(scenario: Scenario, topology: Topology, seed: int) -> list[Workload]:
    """The scenario's workloads, inert, each with its hosts. Errors: ConfigError with file and line."""
    jobs = []
    for work in scenario.workloads:
        try:
            jobs.append(WORKLOADS[work.kind](name=work.name, **work.parameters))
        except (UsageError, TypeError, ValueError) as error:
            raise ConfigError(f"{work.place}: {error}") from error
    for work, job in zip(scenario.workloads, jobs, strict=True):
        if isinstance(job, RankJob):
            _check_placement(work, job, topology)
            if job.fills_hosts and "gpus_per_host" not in work.parameters:
                job.gpus_per_host = topology.shape.ranks_per_host
    held = {
        number: frozenset(job.hosts)
        for number, job in enumerate(jobs)
        if isinstance(job, RankJob) and job.hosts and scenario.workloads[number].kind not in WITHOUT_GPU
    }
    for number, (work, job) in enumerate(zip(scenario.workloads, jobs, strict=True)):
        if isinstance(job, RankJob) and job.placement == "random":
            taken = {
                host for other, hosts in held.items() if _together(work, scenario.workloads[other]) for host in hosts
            }
            job.hosts = _drawn(work, job, topology, taken, random.Random(f"{seed}/placement/{work.name}"))
            held[number] = frozenset(job.hosts)
    for work, job in zip(scenario.workloads, jobs, strict=True):
        ranks_of(job, topology, work.place)
    _share_out(scenario, jobs, topology)
    return jobs


def _share_out(scenario: Scenario, jobs: Sequence[Workload], topology: Topology) -> None:
    """What only one job may have at a time: the port of its store; an address for RoCEv2, whose port has one owner.

    Errors: ConfigError.
    """
    running: list[tuple[PlannedWorkload, RankJob]] = []
    for work, job in sorted(zip(scenario.workloads, jobs, strict=True), key=lambda each: each[0].at_s):
        if not isinstance(job, RankJob):
            continue
        running = [each for each in running if each[0].end_s > work.at_s]
        job.store = free_store_port(job.name, {other.store for _, other in running})
        for before, other in running:
            shared = sorted(_roce_hosts(job, topology) & _roce_hosts(other, topology))
            if shared:
                raise ConfigError(
                    f"{work.place}: {job.name} and {other.name} ({before.place}) both have transport rocev2 on "
                    f"{shared[0]} at {work.at_s:g} s, where UDP port 4791 has one owner; give them other hosts or times"
                )
        running.append((work, job))


def _roce_hosts(job: RankJob, topology: Topology) -> frozenset[str]:
    if not isinstance(job, Rings) or job.transport != "rocev2":
        return frozenset()
    return frozenset(job.hosts or (host.name for host in topology.hosts))


def ranks_of(job: Workload, topology: Topology, place: str) -> int | None:
    """How many ranks a job will have; None where only the job itself knows. Errors: ConfigError."""
    if not isinstance(job, RankJob):
        return None
    try:
        for host in job.hosts:
            topology.host(host)
        if isinstance(job, Bulk):
            return len(job.hosts)  # also on storage hosts, which have no GPU
        unbuilt = cast("Lab", Unbuilt(topology))
        job.plan(unbuilt)
        return len(job.members(unbuilt))
    except UsageError as error:
        raise ConfigError(f"{place}: {error}") from error


def told(topology: Topology, jobs: Mapping[str, Workload]) -> dict[str, Any]:
    """What the truth file says about places: hosts by machine (where several share one), hosts of each job by rank."""
    found = topology.machines()
    machines = {machine: [host.name for host in found[machine]] for machine in sorted(found)}
    shared = any(len(hosts) > 1 for hosts in machines.values())
    placed = {name: list(job.hosts) for name, job in jobs.items() if isinstance(job, RankJob) and job.hosts}
    return {"machines": machines if shared else {}, "placement": placed}


def _check_placement(work: PlannedWorkload, job: RankJob, topology: Topology) -> None:
    wrong = ""
    if job.placement not in ("", "chosen", "random"):
        wrong = f"placement must be random or chosen, got {job.placement!r}"
    elif job.placement == "chosen" and not job.hosts:
        wrong = "placement chosen needs `hosts`, the list of those that are chosen"
    elif job.placement == "random" and job.hosts:
        wrong = "placement random draws the hosts itself; leave out `hosts`, or say placement: chosen"
    elif job.placement == "random" and job.world_size < 1:
        wrong = "placement random needs `world_size`, how many ranks are to be placed"
    if wrong:
        raise ConfigError(f"{work.place}: {work.name}: {wrong}")


def _drawn(work: PlannedWorkload, job: RankJob, topology: Topology, taken: set[str], rng: random.Random) -> list[str]:
    able = [host.name for host in topology.hosts if len(host.gpus) >= job.gpus_per_host]
    free = [name for name in able if name not in taken]
    wanted = math.ceil(job.world_size / job.gpus_per_host)
    if wanted > len(free):
        raise ConfigError(
            f"{work.place}: {work.name} needs {wanted} hosts with {job.gpus_per_host} free GPU each; {topology.name} "
            f"has {len(able)}, {len(able) - len(free)} of them held by other jobs at the time"
        )
    return rng.sample(free, wanted)


def _together(one: PlannedWorkload, other: PlannedWorkload) -> bool:
    return one.at_s < other.end_s and other.at_s < one.end_s
