"""One run of a scenario: the cluster comes up, is watched, works, breaks as planned, and is gone at the end.

The order is the promise: a fault's truth is on disk before the fault starts; whatever happens (an error, Ctrl-C),
faults are mended, jobs stopped and the namespaces removed in reverse order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from leadline.host.mesh.prober import find_program
from leadline.lab import oscillators, placement, preflight
from leadline.lab.agents import Agents, probing
from leadline.lab.faults.base import Fault, JobFault, parameters_of
from leadline.lab.flow_truth import FlowTruthFile
from leadline.lab.flow_truth.watching import FlowWatch
from leadline.lab.loss import Span, losses, until_now
from leadline.lab.oscillators import Injected
from leadline.lab.realise.cluster import Cluster
from leadline.lab.relay import Relay
from leadline.lab.running import RunningLab
from leadline.lab.scenarios.checking import checked
from leadline.lab.scenarios.decoys import elsewhere, with_decoys
from leadline.lab.scenarios.parts import Due, PlannedFault, Scenario, time_line
from leadline.lab.telemetry import Telemetry, TelemetryConfig, lldp
from leadline.lab.topology import Topology
from leadline.lab.truth import Entry, TruthFile
from leadline.lab.workloads.base import Workload
from leadline.model.errors import UsageError, WorldError

READY_S_MAX = 240.0  # eight ranks import torch on two quiet cores in some 20 s
HEARD_S_MAX = 30.0  # an agent speaks a second after its start, on a machine that is busy some more
LOOK_EVERY_S = 0.2
DRAWS = 8  # of a fault, until it is not on what the same fault befalls already


@dataclass(frozen=True, slots=True)
class Happening:
    """Something to tell the person who watches. `at_s` is None before second 0."""

    kind: str  # lab, job, fault, mended, end
    text: str
    time_ns: int
    at_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario as one seed has it: its faults with their jobs and decoys, its topology, its jobs with their hosts."""

    scenario: Scenario
    topology: Topology
    jobs: Sequence[Workload]

    def require_machine(self) -> None:
        """Errors: WorldError, UsageError for what this machine cannot give."""
        preflight.require(self.scenario, self.topology, self.jobs)


def plan_for(scenario: Scenario, topology: Topology, seed: int) -> Plan:
    """Everything that can be said before anything is started. Errors: ConfigError, with file and line."""
    cluster = placement.cluster_of(scenario, topology, seed)
    jobs = placement.jobs_of(scenario, cluster, seed)
    return Plan(checked(with_decoys(scenario, seed), cluster, jobs), cluster, jobs)


@dataclass(slots=True)
class ScenarioRun:
    """A scenario on its way. `run` does it all; the callbacks are called from the same thread."""

    scenario: Scenario
    topology: Topology
    lab_name: str
    seed: int
    truth: TruthFile
    leadline: str | None  # http://ADDRESS:PORT of the Leadline that watches, as seen from here; None: nobody watches
    tell: Callable[[Happening], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False
    telemetry: TelemetryConfig | None = field(default_factory=TelemetryConfig)
    state_root: Path | None = None
    flow_truth: Path | None = None  # where the truth of flows goes; None: nobody counts them
    mesh: bool = True  # agents probe each other, unless they are too many for one machine
    clocks: str = "normal"  # of probes: a kind of `oscillators.IN_LABS`

    lab: RunningLab | None = field(default=None, init=False)
    _zero_s: float | None = field(default=None, init=False)
    _faults: dict[int, tuple[int, Fault]] = field(default_factory=dict, init=False)  # number -> truth entry, fault
    _jobs: dict[int, Workload] = field(default_factory=dict, init=False)  # by their number in the scenario
    _agents: Agents | None = field(default=None, init=False)
    _befallen: dict[int, tuple[str, ...]] = field(
        default_factory=dict, init=False
    )  # entity ids, by number of the fault
    _told_ended: set[str] = field(default_factory=set, init=False)

    @property
    def at_s(self) -> float | None:
        """Seconds since the time line began, or None before."""
        return None if self._zero_s is None else time.monotonic() - self._zero_s

    def run(self) -> None:
        """Do all of it.

        Errors: ConfigError for what cannot happen on this topology, UsageError for what is too much for this machine,
        WorldError if it refuses.
        """
        plan = plan_for(self.scenario, self.topology, self.seed)
        plan.require_machine()
        for planned in plan.scenario.faults:
            planned.fault.require()
        self.scenario, self.topology = plan.scenario, plan.topology
        self._jobs = dict(enumerate(plan.jobs))
        # Also where nothing breaks; and nobody takes that of an earlier run for ours.
        self.truth.tell(placement.told(self.topology, {job.name: job for job in plan.jobs}))
        with ExitStack() as stack:
            cluster = (
                Cluster(self.topology, self.lab_name, self.state_root)
                if self.state_root
                else Cluster(self.topology, self.lab_name)
            )
            began = time.monotonic()
            stack.callback(cluster.down)
            cluster.up()
            self._say("lab", f"{describe(self.topology)} up in {time.monotonic() - began:.1f} s")
            self.lab = RunningLab(cluster)
            for planned in self.scenario.faults:
                planned.fault.prepare(self.lab)
            if self.flow_truth is not None:
                watch = FlowWatch(cluster, FlowTruthFile(self.flow_truth))
                stack.callback(self._stop_counting, watch)
                watch.start()
                self._say("lab", "switches count every flow")
            if self.telemetry is not None:
                config = self.telemetry
                if config.lldp and lldp.program() is None:
                    config = replace(config, lldp=False)
                    self._say("lab", "lldpd is not installed (Debian: apt install lldpd): neighbours are not reported")
                self.lab.telemetry = Telemetry(cluster, config)
                stack.callback(self.lab.telemetry.stop)
                self.lab.telemetry.start()
                self._say("lab", "switches export sFlow, exporters and the kernel log speak")
            if self.leadline is not None:
                self.lab.relay = Relay(cluster, self.leadline)
                stack.callback(self.lab.relay.stop)
                self.lab.relay.start()
                self._agents = self.lab.agents = Agents(cluster, mesh=self.probes, clocks=self._drawn_clocks())
                stack.callback(self._agents.stop)
                self._agents.start()
                probing = ", which probe each other" if self.probes else ""
                few = ", too many on one machine to probe each other" if self.mesh and not self.probes else ""
                self._say("lab", f"an agent on each of {len(self.topology.hosts)} hosts{probing}{few}")
            stack.callback(self._stop_workloads)
            stack.callback(self._write_losses)
            stack.callback(self._mend_all)
            self._follow(time_line(self.scenario))
            self._say("end", "the scenario has ended; the cluster is taken down")

    @property
    def probes(self) -> bool:
        """Whether hosts probe each other."""
        return self.mesh and probing(len(self.topology.hosts)) is not None

    def _drawn_clocks(self) -> dict[str, Injected]:
        """The clocks of probes, which are in the truth before anybody shows them."""
        if not self.probes:
            return {}
        kind = self.clocks
        if find_program() is None:
            self._say("lab", "no leadline-prober (scripts/build-prober makes it): probes are stamped in Python, to us")
            kind = oscillators.TRUE  # the one in Python bends none
        machines = {name: [host.name for host in hosts] for name, hosts in self.topology.machines().items()}
        found = oscillators.drawn(machines, kind, self.seed)
        self.truth.tell(oscillators.told(kind, found))
        return found

    def _stop_counting(self, watch: FlowWatch) -> None:
        watch.stop()
        told = f"{watch.rows} rows of what flows really carried in {self.flow_truth}"
        if watch.missed:
            told += f"; {watch.missed} packets are in none: no counter was free, or they were fragments"
        if watch.failures:
            told += f"; {len(watch.failures)} readings failed, the first: {watch.failures[0]}"
        self._say("lab", told)

    # -- the time line ----------------------------------------------------------------------------------------

    def _follow(self, line: Sequence[Due]) -> None:
        early = [due for due in line if due.deed == "start workload" and due.at_s == 0]
        for due in early:
            self._start_workload(due.number)
        if not self._wait_ready() or not self._wait_heard():
            return
        self._zero_s = time.monotonic()
        later = [due for due in line if due not in early]
        while not self.stopping():
            now_s = time.monotonic() - self._zero_s
            while later and later[0].at_s <= now_s:
                self._do(later.pop(0))
            self._look_at_jobs()
            self._look_at_watchers()
            if now_s >= self.scenario.duration_s:
                return
            time.sleep(LOOK_EVERY_S)

    def _do(self, due: Due) -> None:
        if due.deed == "start workload":
            self._start_workload(due.number)
        elif due.deed == "stop workload":
            self._stop_workload(due.number)
        elif due.deed == "start fault":
            self._start_fault(due.number, self.scenario.faults[due.number])
        else:
            self._mend(due.number)

    def _wait_ready(self) -> bool:
        """Whether every workload of second 0 is at work (who trains has made a step); False if we were told to stop."""
        assert self.lab is not None
        began = time.monotonic()
        waiting = dict(self.lab.jobs)
        while waiting:
            for name, job in list(waiting.items()):
                codes = job.poll()
                # Ctrl-C at a terminal may reach a rank that was just forked, too: that is no failure of the job.
                if any(codes.values()) and not self.stopping():
                    raise WorldError(f"{name} ended before it was at work ({_exits(codes)}); {_last_words(job)}")
                # Short jobs may have done all they were to do before we looked.
                if job.ready() or _done(job):
                    del waiting[name]
                    self._say("job", f"{name} is at work, {time.monotonic() - began:.0f} s after its start")
            if self.stopping():
                return False
            if time.monotonic() - began > READY_S_MAX:
                raise WorldError(f"{', '.join(waiting)} was not at work within {READY_S_MAX:.0f} s")
            time.sleep(LOOK_EVERY_S)
        return True

    def _wait_heard(self) -> bool:
        """Whether every agent has spoken: what breaks before that nobody would tell. False if we were told to stop."""
        assert self.lab is not None
        began = time.monotonic()
        while self.lab.relay is not None and self._agents is not None:
            silent = set(self.lab.relay.unheard()) - set(self._agents.ended())
            if not silent:
                break
            if self.stopping():
                return False
            if time.monotonic() - began > HEARD_S_MAX:
                self._say("lab", f"nothing was heard yet from the agents of {', '.join(sorted(silent))}; going on")
                break
            time.sleep(LOOK_EVERY_S)
        return True

    # -- workloads --------------------------------------------------------------------------------------------

    def _start_workload(self, number: int) -> None:
        assert self.lab is not None
        planned = self.scenario.workloads[number]
        job = self._jobs[number]
        job.start(self.lab.cluster)
        self.lab.jobs[planned.name] = job
        self._say("job", f"{planned.name} starts ({planned.kind}, {len(job.ranks)} ranks)")

    def _stop_workload(self, number: int) -> None:
        assert self.lab is not None
        job = self._jobs[number]
        self.lab.ending(job.name)
        # What is wrong with its ranks ends with them, and what it lost is known now or never.
        for fault_number, (_, fault) in list(self._faults.items()):
            if isinstance(fault, JobFault) and fault.job == job.name:
                self._mend(fault_number)
        self._write_loss(job)
        del self.lab.jobs[job.name]
        job.stop()
        self._say("job", f"{job.name} ends")

    def _stop_workloads(self) -> None:
        if self.lab is not None:
            for job in self.lab.jobs.values():
                job.stop()

    def _look_at_jobs(self) -> None:
        assert self.lab is not None
        for name, job in self.lab.jobs.items():
            codes = job.poll()
            if name not in self._told_ended and codes and all(code is not None for code in codes.values()):
                self._told_ended.add(name)
                self._say("job", f"{name} has ended ({_exits(codes)})")

    def _look_at_watchers(self) -> None:
        """Say so when an agent or the switches' telemetry has died: the recording is poorer from then on."""
        ended = {f"the agent of {host}" for host in (self._agents.ended() if self._agents else [])}
        if self.lab is not None and self.lab.telemetry is not None and self.lab.telemetry.ended():
            ended.add("the telemetry of the switches")
        for who in sorted(ended - self._told_ended):
            self._told_ended.add(who)
            self._say("lab", f"{who} has died: what it would have told is missing from now on")

    # -- faults -----------------------------------------------------------------------------------------------

    def _start_fault(self, number: int, planned: PlannedFault) -> None:
        assert self.lab is not None
        fault = self._chosen(number, planned)
        if fault is None:
            return
        now_ns = time.time_ns()
        lasts = planned.for_s is not None and fault.lasts
        entry = self.truth.plan(
            Entry(
                fault=fault.name,
                component=fault.component(self.lab),
                layer=fault.layer,
                fault_class=fault.fault_class,
                onset_ns=now_ns,
                end_ns=now_ns + int((planned.for_s or 0) * 1e9) if lasts else None,
                decoy=planned.decoy,
                magnitude=planned.magnitude,
                parameters=parameters_of(fault),
                seen_in=fault.seen_in,
                seen={"before": dict(fault.seen(self.lab))},
            )
        )
        self._faults[number] = (entry, fault)
        self._befallen[number] = self.truth.entries[entry].component
        onset_ns = time.time_ns()
        try:
            fault.start(self.lab)
        except BaseException as error:
            self.truth.change(entry, onset_ns=onset_ns, seen={"failed": f"{type(error).__name__}: {error}"})
            raise
        self.truth.change(entry, onset_ns=onset_ns)
        self._say("fault", f"{fault.name} on {self.truth.entries[entry].component[0]}")

    def _chosen(self, number: int, planned: PlannedFault) -> Fault | None:
        """The fault with all that was left to the seed; None for a decoy that finds no place."""
        assert self.lab is not None
        rng = random.Random(f"{self.seed}/{number}")
        if isinstance(planned.fault, JobFault) and planned.fault.job and _done(self.lab.job(planned.fault.job)):
            text = f"{planned.fault.name} finds {planned.fault.job} at its end ({planned.place})"
            if not planned.decoy:
                raise UsageError(f"{text}; let the job run longer, or the fault come earlier")
            self._say("lab", f"{text}; left out")
            return None
        if planned.beside is not None:
            decoy = elsewhere(planned, self._befallen.get(planned.beside, ()), self.lab, rng)
            if decoy is None:
                self._say("lab", f"no decoy finds a place that the fault leaves free ({planned.place}); left out")
            return decoy
        fault = planned.fault.chosen(self.lab, rng)
        for _ in range(DRAWS):
            taken = {self._befallen.get(other) for other, (_, one) in self._faults.items() if type(one) is type(fault)}
            if fault.component(self.lab) not in taken:
                break
            fault = planned.fault.chosen(self.lab, rng)
        return fault

    def _mend(self, number: int) -> None:
        assert self.lab is not None
        if number not in self._faults:
            return
        entry, fault = self._faults.pop(number)
        seen: dict[str, object] = {}
        try:
            try:
                seen["after"] = dict(fault.seen(self.lab))
            finally:
                fault.stop(self.lab)
        finally:
            self.truth.change(entry, end_ns=time.time_ns() if fault.lasts else None, seen=seen)
        self._say("mended", f"{fault.name} is over")

    def _write_losses(self) -> None:
        assert self.lab is not None
        for job in self.lab.jobs.values():
            self._write_loss(job)

    def _write_loss(self, job: Workload) -> None:
        """What each fault cost, by the steps that the training itself wrote down."""
        assert self.lab is not None
        now_ns = time.time_ns()
        steps = until_now(self.lab.steps_done(job), job.poll(), now_ns)
        entries = self.truth.entries if steps else ()
        spans = [Span(entry.onset_ns, entry.end_ns or now_ns, entry.decoy) for entry in entries]
        for number, loss in enumerate(losses(steps, spans, len(self.lab.ranks(job.name)) if steps else 0)):
            if loss is not None:
                before = entries[number]
                self.truth.change(
                    number,
                    lost_gpu_seconds=round(loss.gpu_seconds + (before.lost_gpu_seconds or 0.0), 3),
                    shared=before.shared or loss.shared,
                )

    def _mend_all(self) -> None:
        """Mend what is broken still, each whatever becomes of the others. Errors: what the first of them raised."""
        assert self.lab is not None
        self.lab.ending(*self.lab.jobs)
        with ExitStack() as stack:
            for number in list(self._faults):
                stack.callback(self._mend, number)

    def _say(self, kind: str, text: str) -> None:
        self.tell(Happening(kind, text, time.time_ns(), self.at_s))


def describe(topology: Topology) -> str:
    """A topology in words: `clos8: 8 hosts, 2 leaves, 2 spines`."""
    tiers = [switch.tier for switch in topology.switches]
    return f"{topology.name}: {len(topology.hosts)} hosts, {tiers.count('leaf')} leaves, {tiers.count('spine')} spines"


def _done(job: Workload) -> bool:
    """Whether a job has ended by itself, all ranks with 0: it has done its work, nothing failed."""
    codes = job.poll()
    return bool(codes) and all(code == 0 for code in codes.values())


def _exits(codes: dict[int, int | None]) -> str:
    ended = {rank: code for rank, code in codes.items() if code}
    if not ended:
        return "all ranks with 0"
    return ", ".join(f"rank {rank} with {code}" for rank, code in sorted(ended.items())[:4])


def _last_words(job: Workload) -> str:
    for one in job.ranks:
        if one.process.popen.poll() and one.log.exists():
            lines = one.log.read_text(errors="replace").strip().splitlines()
            return f"{one.log} ends with: {lines[-1] if lines else 'nothing'}"
    return "no log"
