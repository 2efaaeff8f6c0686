"""A lab while it runs: the cluster, its telemetry, its jobs. What faults and scenarios act on."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.lab.levers import Lever, Levers, merged, strongest
from leadline.lab.realise.plan import HOST_QUEUE_BYTES
from leadline.lab.telemetry import overlay
from leadline.lab.workloads.base import Process, RankProcess, Workload, signal_process
from leadline.lab.workloads.training.job import TrainingJob
from leadline.model.errors import UsageError
from leadline.model.ids import kind_of

if TYPE_CHECKING:
    from leadline.lab.agents import Agents
    from leadline.lab.realise.cluster import Cluster
    from leadline.lab.relay import Relay
    from leadline.lab.telemetry import Telemetry
    from leadline.lab.topology import Link, Port, Topology


@dataclass(frozen=True, slots=True)
class Preempted:
    """What a preempted job had: faults that hold its ranks may end before it goes on."""

    ranks: Sequence[RankProcess]
    steps: Sequence[tuple[int, int]]


@dataclass(slots=True)
class RunningLab:
    """Cluster, telemetry and jobs by name. One thread acts on it."""

    cluster: Cluster
    telemetry: Telemetry | None = None
    jobs: dict[str, Workload] = field(default_factory=dict)
    agents: Agents | None = None
    relay: Relay | None = None  # the hosts' way to Leadline, which can be cut
    _levers: Levers = field(default_factory=Levers, repr=False)
    _preempted: dict[str, Preempted] = field(default_factory=dict, repr=False)
    _ending: set[str] = field(default_factory=set, repr=False)  # jobs that nobody is to start again

    @property
    def state(self) -> Path:
        """Directory of the lab's files."""
        return self.cluster.state

    # -- choosing what is to be broken ------------------------------------------------------------------------

    def job(self, name: str | None) -> Workload:
        """A training job by name, also while it is preempted; or the first one, if possible one that runs.

        Errors: UsageError naming what runs.
        """
        training = {each: job for each, job in self.jobs.items() if job.ranks}
        known = training | {each: self.jobs[each] for each in self._preempted if each in self.jobs}
        if name is None and known:
            return next(iter(known.values()))
        if name in known:
            return known[name]
        raise UsageError(f"no job {name or 'with ranks'} runs in this lab; running: {', '.join(training) or 'none'}")

    def ranks(self, job: str | None) -> list[RankProcess]:
        """The ranks of a job; of one that is preempted those that it had, which have ended. Errors: UsageError."""
        found = self.job(job)
        return found.ranks or list(self._preempted[found.name].ranks)

    def steps_done(self, job: Workload) -> list[tuple[int, int]]:
        """The job's steps so far, also while it is preempted: see `Workload.steps_done`."""
        held = self._preempted.get(job.name)
        return list(held.steps) if held is not None and not job.ranks else job.steps_done()

    def rank(self, job: str | None, rank: int) -> RankProcess:
        """A rank of a job. Errors: UsageError."""
        ranks = self.ranks(job)
        for each in ranks:
            if each.rank == rank:
                return each
        raise UsageError(f"job {self.job(job).name} has ranks 0 to {len(ranks) - 1}, got {rank}")

    def some_rank(self, job: str | None, rng: random.Random) -> int:
        """A rank of the job, from the seed."""
        return rng.choice([each.rank for each in self.ranks(job)])

    def link(self, name: str) -> Link:
        """A link by its id or by its ends, each a port or only its node: `h3~leaf1`. Errors: UsageError."""
        return link_named(self.cluster.topology, name)

    def some_link(self, rng: random.Random, kinds: Iterable[str] = ("host", "uplink")) -> str:
        """A backend link that a job uses, from the seed: of a host (its primary port) or between switches.

        Errors: UsageError where none does: a job whose ranks share one host keeps to its loopback.
        """
        kinds = set(kinds)
        hosts: set[str] = set()
        for ranks in (*(job.ranks for job in self.jobs.values()), *(held.ranks for held in self._preempted.values())):
            of_job = {each.host for each in ranks}
            hosts |= of_job if len(of_job) > 1 else set()
        found = []
        for link in self.cluster.topology.links:
            if link.role != "backend":
                continue
            host = self.host_end(link)
            used = bool(hosts) if host is None else host.node in hosts and self.is_primary(host)
            if used and ("uplink" if host is None else "host") in kinds:
                found.append(link)
        if not found:
            raise UsageError(f"no running job of several hosts uses a backend link in {self.cluster.topology.name}")
        link = rng.choice(found)
        return link.id

    def host_end(self, link: Link) -> Port | None:
        """The host's port of a link, or None between switches."""
        return next((end for end in link.ends if kind_of(end.id) == "port"), None)

    def is_primary(self, port: Port) -> bool:
        """Whether a host's port is the one that its own traffic leaves by."""
        return self.cluster.topology.host(port.node).primary == port

    def link_entities(self, link: Link) -> tuple[str, ...]:
        """Entity ids of a link and its two ends."""
        return (link.id, link.a.id, link.b.id)

    # -- what operators and schedulers do ---------------------------------------------------------------------

    def preempt(self, name: str) -> None:
        """Stop a job as a scheduler does, which lets it write a checkpoint; `resume` starts it again.

        Errors: UsageError.
        """
        job = self.job(name)
        self._preempted[job.name] = Preempted(tuple(self.ranks(name)), tuple(job.steps_done()))
        if isinstance(job, TrainingJob):
            job.preempt()
        else:
            job.stop()

    def resume(self, name: str) -> None:
        """Start a preempted job again, from its checkpoint; what is held of its ranks is held of the new ones.

        Harmless if it is no longer planned to run.
        """
        job = self.jobs.get(name)
        if job is None or job.ranks or name in self._ending:
            return
        if isinstance(job, TrainingJob):
            job.resume = True
        job.start(self.cluster)
        self._preempted.pop(name, None)
        # Control groups and control files are the same as before, processes are not.
        for one in job.ranks:
            self._levers.renew(self.stopped(one))

    def ending(self, *names: str) -> None:
        """These jobs are about to end: one of them that is preempted stays so."""
        self._ending.update(names)

    # -- levers: what faults take hold of, see `levers` ---------------------------------------------------------

    def hold(self, lever: Lever, holder: object, value: Any) -> None:
        """Claim a lever for a fault; `release` lets go of it."""
        self._levers.hold(lever, holder, value)

    def release(self, lever: Lever, holder: object) -> None:
        """Let go of a lever; harmless if it is not held."""
        self._levers.release(lever, holder)

    def cpu(self, one: RankProcess) -> Lever:
        """The CPU quota of a rank's process, in cores."""
        return self.cpu_of(one.process)

    def cpu_of(self, process: Process) -> Lever:
        """The CPU quota of any program of the lab, in cores."""
        return Lever(("cpu", process.name), strongest, process.cgroup.set_cpu_quota)

    def stopped(self, one: RankProcess) -> Lever:
        """Whether a rank's process is stopped (SIGSTOP): as long as anybody holds it."""

        def apply(held: object) -> None:
            # The process of that name which runs now: a job that was preempted has new ones.
            running = [each.process for job in self.jobs.values() for each in job.ranks]
            process = next((each for each in running if each.name == one.process.name), one.process)
            signal_process(process, signal.SIGCONT if held is None else signal.SIGSTOP)

        return Lever(("stopped", one.process.name), any, apply)

    def memory(self, one: RankProcess) -> Lever:
        """The memory limit of a rank's process, in bytes."""
        return Lever(("memory", one.process.name), strongest, one.process.cgroup.set_memory_limit)

    def control(self, job: str | None, rank: int) -> Lever:
        """The control file of a rank: settings by name, as its program reads them."""
        path = self.rank(job, rank).control
        return Lever(("control", str(path)), merged, lambda settings: write_json(path, settings or {}))

    def gpu(self, host: str, gpu: str) -> Lever:
        """What the GPU model of a host is told about one GPU: the fields of `telemetry.gpu_model.Control`."""
        path = self.state / "hosts" / host / "gpu_control.json"

        def apply(values: dict[str, Any] | None) -> None:
            now = json.loads(path.read_text()) if path.exists() else {}
            now.pop(gpu, None)
            write_json(path, now if values is None else {**now, gpu: values})

        return Lever(("gpu", host, gpu), merged, apply)

    def overlay(self, node: str) -> Lever:
        """What is played into the counters and gauges of a host or switch: a `telemetry.overlay.Claim`."""
        switches = {each.name for each in self.cluster.topology.switches}
        directory = self.state / ("switches" if node in switches else "hosts") / node
        return Lever(("overlay", node), overlay.together, lambda claim: overlay.replan(directory, claim))

    def port_rate(self, port: Port) -> Lever:
        """The share of its rate at which a port sends, 0 to 1."""
        link = self.cluster.topology.link_of(port)
        queue_bytes = link.queue_bytes if kind_of(port.id) == "swport" else HOST_QUEUE_BYTES

        def apply(ratio: float | None) -> None:
            rate_bps = round(link.rate_bps * (1.0 if ratio is None else ratio))
            self.cluster.shape(port.node, port.name, rate_bps, queue_bytes)

        return Lever(("port-rate", port.id), strongest, apply)

    def cut(self, link: str) -> Lever:
        """A link's carrier: down while anybody holds it."""

        def apply(held: object) -> None:
            if held is None:
                self.cluster.link_up(link)
            else:
                self.cluster.link_down(link)

        return Lever(("cut", link), any, apply)


def link_named(topology: Topology, name: str) -> Link:
    """The link with these two ends, each a port (`h3/eth0`) or only its node (`h3`). Errors: UsageError."""
    return topology.link_between(name)


def write_json(path: Path, value: object) -> None:
    """Write a small file, whole or not at all: its reader may look at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(value))
    partial.replace(path)
