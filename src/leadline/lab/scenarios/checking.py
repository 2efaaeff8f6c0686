"""Whether a scenario can happen on a topology: everything that would fail in the middle of a run, told before it.

What faults leave to the seed cannot contradict anything: it is drawn when they start, elsewhere than what is broken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

from leadline.lab.faults.base import Fault, JobFault, RankFault
from leadline.lab.harmless.preemption import Preemption
from leadline.lab.placement import ranks_of
from leadline.lab.scenarios.parts import PlannedFault, PlannedWorkload, Scenario, can_befall
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import Workload
from leadline.model.errors import ConfigError, UsageError

# Parameters that say what is befallen, where a fault has them.
IDENTITY = ("job", "rank", "link", "port", "host", "switch", "src", "dst", "storage", "gpu", "machine")
FATAL = frozenset({"sigsegv", "oom-kill", "xid", "gpu-lost"})  # a rank dies, and with it what it trains with others
ALONE = frozenset({"serve", "bulk", "incast"})  # jobs whose processes outlive each other


def checked(scenario: Scenario, topology: Topology, jobs: Sequence[Workload]) -> Scenario:
    """The scenario with every job that a fault leaves open filled in. `jobs`: its workloads, see `placement.jobs_of`.

    Errors: ConfigError with file and line.
    """
    found: list[PlannedFault] = []
    filled = list(scenario.faults)
    for number, planned in sorted(enumerate(scenario.faults), key=lambda each: (each[1].at_s, each[0])):
        one = _with_job(planned, scenario, found)
        _check_on(one, topology)
        _check_rank(one, scenario, topology, jobs)
        _check_names(one, scenario, found)
        _check_preempted(one, found)
        for other in found:
            _check_beside(one, other, topology)
        found.append(one)
        filled[number] = one
    return replace(scenario, faults=tuple(filled))


def _with_job(planned: PlannedFault, scenario: Scenario, before: Sequence[PlannedFault]) -> PlannedFault:
    """The fault with the job that it befalls: the named one, or the first that is at work then and of its kind."""
    fault = planned.fault
    needs_job = isinstance(fault, JobFault) or bool(fault.workloads) or _drawn_from_jobs(fault)
    if not needs_job:
        return planned
    works = _named(planned, scenario)
    fitting = [work for work in works if can_befall(fault, work.kind)]
    if not fitting:
        kinds = ", ".join(f"{work.kind} ({work.name})" for work in works)
        able = " or ".join(fault.workloads) or "jobs that use a GPU"
        raise ConfigError(f"{planned.place}: {fault.name} befalls {able} only, not {kinds}")
    works = fitting
    here = [work for work in works if work.at_s <= planned.at_s < _end_s(work)]
    if not here:
        spans = ", ".join(f"{work.name} runs from {work.at_s:g} s to {_until(work)}" for work in works)
        raise ConfigError(f"{planned.place}: {fault.name} at {planned.at_s:g} s befalls no running job: {spans}")
    alive = [work for work in here if _killer(work, planned, before) is None]
    if isinstance(fault, JobFault) and not alive:
        killer = _killer(here[0], planned, before)
        assert killer is not None
        raise ConfigError(
            f"{planned.place}: {fault.name} at {planned.at_s:g} s: {here[0].name} is dead by then, of "
            f"{killer.fault.name} at {killer.at_s:g} s ({killer.place}); let it come before, or on another job"
        )
    if isinstance(fault, JobFault):
        return replace(planned, fault=replace(fault, job=alive[0].name))
    return planned


def _named(planned: PlannedFault, scenario: Scenario) -> list[PlannedWorkload]:
    fault = planned.fault
    wanted = fault.job if isinstance(fault, JobFault) else None
    works = [work for work in scenario.workloads if wanted in (None, work.name)]
    if not works:
        there = ", ".join(work.name for work in scenario.workloads) or "none"
        raise ConfigError(
            f"{planned.place}: {fault.name} needs a workload called {wanted or '(any)'}; there are {there}"
        )
    return works


def _drawn_from_jobs(fault: Fault) -> bool:
    """Whether it is drawn from what jobs use: a link that nobody named."""
    return getattr(fault, "link", "") is None


def _end_s(work: PlannedWorkload) -> float:
    """When a workload ends at the latest, as far as the scenario itself says so."""
    seconds = work.parameters.get("seconds") or 0
    return min(work.end_s, work.at_s + seconds) if seconds > 0 else work.end_s


def _until(work: PlannedWorkload) -> str:
    return f"{_end_s(work):g} s" if _end_s(work) < float("inf") else "the end"


def _killer(work: PlannedWorkload, planned: PlannedFault, before: Sequence[PlannedFault]) -> PlannedFault | None:
    """The fault that has killed this job when `planned` starts."""
    for other in before:
        fault = other.fault
        if (
            isinstance(fault, RankFault)
            and fault.job == work.name
            and fault.name in FATAL
            and getattr(fault, "kills", True)
            and work.kind not in ALONE
            and other.at_s < planned.at_s
        ):
            return other
    return None


def _check_on(planned: PlannedFault, topology: Topology) -> None:
    """What it names is in the topology."""
    try:
        planned.fault.check(topology)
        if port := getattr(planned.fault, "port", None):
            topology.port(str(port))
    except UsageError as error:
        raise ConfigError(f"{planned.place}: {error}") from error


def _check_rank(planned: PlannedFault, scenario: Scenario, topology: Topology, jobs: Sequence[Workload]) -> None:
    fault = planned.fault
    if not isinstance(fault, RankFault) or fault.rank is None:
        return
    for work, job in zip(scenario.workloads, jobs, strict=True):
        ranks = ranks_of(job, topology, work.place)
        if work.name == fault.job and ranks is not None and not 0 <= fault.rank < ranks:
            raise ConfigError(
                f"{planned.place}: {fault.name}: {work.name} has ranks 0 to {ranks - 1}, got {fault.rank}"
            )


def _check_names(planned: PlannedFault, scenario: Scenario, before: Sequence[PlannedFault]) -> None:
    """A fault that starts a job of its own (`job` of a neighbour) gives it a name that nobody else has then."""
    name = _own_job(planned.fault)
    if name is None:
        return
    for other in before:
        if _own_job(other.fault) == name and _overlap(planned, other):
            raise ConfigError(
                f"{planned.place}: {planned.fault.name} starts a job called {name}, and so does {other.place} at the "
                "same time; give one of them another `job`"
            )
    for work in scenario.workloads:
        if work.name == name:
            raise ConfigError(
                f"{planned.place}: {planned.fault.name} starts a job called {name}, as is the workload of "
                f"{work.place}; give one of them another name"
            )


def _check_preempted(planned: PlannedFault, before: Sequence[PlannedFault]) -> None:
    """A job has no ranks while it is preempted: what befalls them may last into it, but not begin in it."""
    if not isinstance(planned.fault, JobFault):
        return
    for other in before:
        if (
            isinstance(other.fault, Preemption)
            and not isinstance(planned.fault, Preemption)  # twice at once: `_check_beside`
            and other.fault.job == planned.fault.job
            and other.at_s <= planned.at_s < other.end_s
        ):
            raise ConfigError(
                f"{planned.place}: {planned.fault.name} at {planned.at_s:g} s finds {planned.fault.job} preempted "
                f"(from {other.at_s:g} s to {_ended(other)}, {other.place}); let it begin before or after that"
            )


def _own_job(fault: Fault) -> str | None:
    return None if isinstance(fault, JobFault) else getattr(fault, "job", None)


def _check_beside(planned: PlannedFault, other: PlannedFault, topology: Topology) -> None:
    """The same fault cannot befall the same thing twice at once; others may."""
    if type(planned.fault) is not type(other.fault) or not _overlap(planned, other):
        return
    target = _target(planned.fault, topology)
    if target is not None and target == _target(other.fault, topology):
        what = " ".join(f"{name} {value}" for name, value in target) or "the whole cluster"
        raise ConfigError(
            f"{planned.place}: {planned.fault.name} befalls {what} at {planned.at_s:g} s while the same of "
            f"{other.place} still lasts (from {other.at_s:g} s to {_ended(other)}); end one before it"
        )


def _target(fault: Fault, topology: Topology) -> tuple[tuple[str, object], ...] | None:
    """What a fault befalls, by its parameters; None where the seed decides."""
    own = {field.name for field in dataclasses.fields(fault)}
    found = [(name, getattr(fault, name)) for name in IDENTITY if name in own]
    if any(value is None for _, value in found):
        return None
    return tuple((name, topology.link_between(value).id if name == "link" else value) for name, value in found)


def _overlap(one: PlannedFault, other: PlannedFault) -> bool:
    if one.at_s == other.at_s:
        return True
    return one.at_s < other.end_s and other.at_s < one.end_s


def _ended(planned: PlannedFault) -> str:
    return f"{planned.end_s:g} s" if planned.end_s < float("inf") else "the end"
