"""Jobs: they come, wait, run on whole hosts all at once, end, die of faults and start again from a checkpoint.

One pass over events in the order of time. What fails is decided here, too, because whom a fault befalls depends on
what runs at that moment.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np

from leadline.lab.truth import Magnitude
from leadline.simulator.archetypes import ARCHETYPES, Archetype
from leadline.simulator.effects import EFFECTS, effect_of
from leadline.simulator.fleet import Fleet
from leadline.simulator.hazards import Failure, failures
from leadline.simulator.spec import Planned, SimulationSpec
from leadline.simulator.targets import Befallen, Run, Where, uses

RESTART_S = 90.0  # from the death of a job until its next incarnation may start
QUEUE_LOOK = 64  # how far behind the first that does not fit another may start
TIMEOUT_S = 600.0  # a collective library gives up after this


@dataclass(slots=True)
class Schedule:
    """Everything that happens in the fleet."""

    runs: list[Run]
    faults: list[Befallen]
    lemons: dict[str, np.ndarray]
    utilisation: float  # share of the host time that was used


@dataclass(slots=True)
class _Waiting:
    job: str
    archetype: Archetype
    size: int
    left_s: float
    first_step: int = 0
    incarnation: int = 0
    not_before_s: float = 0.0


def schedule(spec: SimulationSpec, fleet: Fleet) -> Schedule:
    """Plan a fleet's whole time. The same spec gives the same schedule."""
    return _Scheduler(spec, fleet).plan()


class _Scheduler:
    def __init__(self, spec: SimulationSpec, fleet: Fleet) -> None:
        self.spec, self.fleet = spec, fleet
        streams = np.random.SeedSequence([spec.seed, 1]).spawn(4)
        self.rng, self.fault_rng, self.hazard_rng, arrivals = (np.random.default_rng(each) for each in streams)
        self.arrivals = arrivals
        self.free_H = np.ones(fleet.hosts, bool)
        self.repaired_s_H = np.full(fleet.hosts, -np.inf)  # jobs that ran before the span, too
        self.runs: list[Run] = []
        self.running: dict[int, Run] = {}
        self.left_s: dict[int, float] = {}
        self.queue: list[_Waiting] = []
        self.faults: list[Befallen] = []
        self.heap: list[tuple[float, int, str, object]] = []
        self.order = itertools.count()
        self.jobs = itertools.count(1)
        largest = max(1, fleet.hosts // 2)
        self.kinds = [each for each in ARCHETYPES if each.hosts_min <= largest]
        self.hosts_most = largest

    def plan(self) -> Schedule:
        """Fill the fleet, then go through what happens."""
        self._fill()
        for planned in self.spec.planned:
            self._push(planned.at_s, "planned", planned)
        lemons: dict[str, np.ndarray] = {}
        if self.spec.hazards and not self.spec.quiet:
            counts = {
                "gpu": self.fleet.gpu_count,
                "link": self.fleet.host_links,
                "host": self.fleet.hosts,
                "switch": self.fleet.switches,
            }
            found, lemons = failures(counts, self.spec.seconds, self.spec.age_days, self.hazard_rng)
            for failure in found:
                self._push(failure.at_s, "failure", failure)
        self._next_arrival(0.0)
        while self.heap and self.heap[0][0] < self.spec.seconds:
            at_s, _, what, about = heapq.heappop(self.heap)
            getattr(self, f"_on_{what}")(at_s, about)
        return Schedule(self.runs, self.faults, lemons, self._used())

    # -- what happens -----------------------------------------------------------------------------------------

    def _on_arrival(self, at_s: float, _: object) -> None:
        self.queue.append(self._submission(self._kind(self.arrivals, by_time=False), self.arrivals))
        self._start_waiting(at_s)
        self._next_arrival(at_s)

    def _on_end(self, at_s: float, run: Run) -> None:
        if self.running.get(run.number) is run:
            self._end(run, at_s, "exit/0")
            self._start_waiting(at_s)

    def _on_look(self, at_s: float, _: object) -> None:
        self._start_waiting(at_s)

    def _on_planned(self, at_s: float, planned: Planned) -> None:
        effect = effect_of(planned.name)
        lasts_s = planned.for_s if planned.for_s is not None else effect.lasts_s
        where = Where(self.fleet, list(self.running.values()), self.spec.hosts_per_machine)
        self._befall(where.choose(effect, planned.magnitude, at_s, at_s + lasts_s, self.fault_rng))

    def _on_failure(self, at_s: float, failure: Failure) -> None:
        effect = effect_of(failure.fault)
        magnitude: Magnitude = ("small", "medium", "large")[int(self.fault_rng.choice(3, p=(0.5, 0.35, 0.15)))]
        # A part that is no longer good is found and changed some hours later; one that has died, at once.
        lasts_s = effect.lasts_s if effect.dies else float(self.fault_rng.lognormal(np.log(2 * 3600), 1.0))
        where = Where(self.fleet, list(self.running.values()), self.spec.hosts_per_machine)
        fault = where.at(effect, magnitude, at_s, at_s + lasts_s, failure.of, failure.index)
        fault.cause = failure.part
        self._befall(fault)

    # -- faults -----------------------------------------------------------------------------------------------

    def _befall(self, fault: Befallen) -> None:
        self.faults.append(fault)
        effect = fault.effect
        crossed = effect.scope in ("uplink", "spine")  # a job below one leaf does not feel it, aimed at or not
        hit = [
            run for run in self.running.values()
            if uses(self.fleet, run.hosts, fault) or (run.number == fault.run and not crossed)
        ]  # fmt: skip
        for run in hit:
            run.faults.append(fault)
        if effect.dies:
            self._repair(fault)
            dying = [run for run in hit if effect.scope != "job" or run.number == fault.run]
            for run in dying:
                self._kill(run, fault)
        elif effect.hangs and fault.end_s - fault.at_s > TIMEOUT_S and fault.run in self.running:
            self._push(fault.at_s + TIMEOUT_S, "timeout", (self.running[fault.run], fault))

    def _on_timeout(self, at_s: float, about: tuple[Run, Befallen]) -> None:
        run, fault = about
        if self.running.get(run.number) is run:
            fault.end_s = at_s
            self._kill(run, fault, at_s, "signal/SIGABRT")
            self._start_waiting(at_s)

    def _repair(self, fault: Befallen) -> None:
        repair_s = fault.effect.repair_s
        hosts = fault.hosts or tuple(link // self.fleet.rails for link in fault.links if link < self.fleet.host_links)
        if repair_s and hosts:
            until_s = fault.at_s + repair_s
            fault.end_s = until_s
            self.repaired_s_H[list(hosts)] = np.maximum(self.repaired_s_H[list(hosts)], until_s)
            self._push(until_s, "look", None)

    def _kill(self, run: Run, fault: Befallen, at_s: float | None = None, how: str = "") -> None:
        at_s = fault.at_s if at_s is None else at_s
        kind = run.archetype
        ran_s = at_s - run.start_s
        # What was done since the last checkpoint is done again.
        again_s = ran_s % kind.checkpoint_s if kind.checkpoint_s else 0.0
        self._end(run, at_s, how or fault.effect.dies)
        kept = max(0, round((ran_s - again_s) / step_s(kind)))
        waiting = _Waiting(
            run.job, kind, len(run.hosts), self.left_s[run.number] - at_s + run.start_s + again_s,
            run.first_step + kept, run.incarnation + 1, at_s + RESTART_S,
        )  # fmt: skip
        per = self.fleet.gpus_per_host
        fault.lost_gpu_seconds += (again_s + RESTART_S) * len(run.hosts) * per
        self.queue.insert(0, waiting)
        self._push(at_s + RESTART_S, "look", None)

    # -- jobs -------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Jobs that run already when the span begins."""
        failed = 0
        while self.free_H.mean() > 1 - self.spec.utilisation and failed < 200:
            waiting = self._submission(self._kind(self.rng, by_time=True), self.rng)
            ran_s = waiting.left_s * self.rng.random()
            waiting.first_step = int(ran_s / step_s(waiting.archetype))
            if waiting.size > self.free_H.sum() - (1 - self.spec.utilisation) * self.fleet.hosts + 1:
                failed += 1
                continue
            self._start(waiting, -ran_s, waiting.left_s)

    def _submission(self, kind: Archetype, rng: np.random.Generator) -> _Waiting:
        size = int(kind.hosts_min * (1.0 - rng.random()) ** (-1.0 / kind.tail))
        size = max(1, min(size, kind.hosts_max, self.hosts_most))
        left_s = 3600.0 * kind.hours_median * float(np.exp(rng.normal(0.0, kind.hours_sigma)))
        return _Waiting(f"{kind.name}-{next(self.jobs):06d}", kind, size, max(120.0, left_s))

    def _kind(self, rng: np.random.Generator, by_time: bool) -> Archetype:
        """An archetype as submitted, or (`by_time`) as found running."""
        weights = np.array([each.weight * (each.hours_median if by_time else 1.0) for each in self.kinds])
        return self.kinds[int(rng.choice(len(self.kinds), p=weights / weights.sum()))]

    def _next_arrival(self, at_s: float) -> None:
        if not hasattr(self, "_every_s"):
            drawn = np.random.default_rng([self.spec.seed, 2])
            some = [self._submission(self._kind(drawn, by_time=False), drawn) for _ in range(500)]
            self.jobs = itertools.count(len(self.runs) + 1)
            work = float(np.mean([each.size * each.left_s for each in some]))
            self._every_s = work / (self.spec.utilisation * self.fleet.hosts)
        self._push(at_s + float(self.arrivals.exponential(self._every_s)), "arrival", None)

    def _start_waiting(self, at_s: float) -> None:
        place = looked = 0
        while place < len(self.queue) and looked < QUEUE_LOOK:
            waiting = self.queue[place]
            looked += 1
            if waiting.not_before_s <= at_s and waiting.size <= self._usable(at_s).sum():
                self.queue.pop(place)
                self._start(waiting, at_s, waiting.left_s)
            else:
                place += 1

    def _usable(self, at_s: float) -> np.ndarray:
        return self.free_H & (self.repaired_s_H <= at_s)

    def _start(self, waiting: _Waiting, at_s: float, left_s: float) -> None:
        free = np.flatnonzero(self._usable(at_s))
        if self.spec.placement == "random":
            hosts = np.sort(self.rng.choice(free, size=waiting.size, replace=False))
        else:
            hosts = free[: waiting.size]
        self.free_H[hosts] = False
        run = Run(
            len(self.runs), waiting.job, waiting.archetype, hosts, at_s, at_s + left_s, waiting.first_step,
            waiting.incarnation,
        )  # fmt: skip
        # What is broken already is inherited with the hosts.
        now_s = max(at_s, 0.0)
        run.faults = [
            each for each in self.faults
            if each.end_s > now_s and not each.effect.dies and each.effect.scope not in ("job", "stage")
            and not each.effect.hangs and uses(self.fleet, hosts, each)
        ]  # fmt: skip
        self.runs.append(run)
        self.running[run.number] = run
        self.left_s[run.number] = left_s
        self._push(run.end_s, "end", run)

    def _end(self, run: Run, at_s: float, how: str) -> None:
        run.end_s, run.end = at_s, how
        del self.running[run.number]
        self.free_H[run.hosts] = True

    def _used(self) -> float:
        seconds = self.spec.seconds
        used = sum(len(run.hosts) * (min(run.end_s, seconds) - max(run.start_s, 0.0)) for run in self.runs)
        return used / (seconds * self.fleet.hosts)

    def _push(self, at_s: float, what: str, about: object) -> None:
        heapq.heappush(self.heap, (at_s, next(self.order), what, about))


def step_s(kind: Archetype) -> float:
    """How long a healthy step takes by the plan, communication left out: for counting steps before the span."""
    return kind.compute_s + kind.data_s + kind.optimizer_s


def harmless_of_a_day(spec: SimulationSpec, hosts: int) -> tuple[Planned, ...]:
    """Harmless things as they happen anyway: some per thousand hosts and day, from the seed."""
    rng = np.random.default_rng([spec.seed, 3])
    out: list[Planned] = []

    for effect in EFFECTS.values():
        if effect.harmless:
            per_day = _HARMLESS_PER_DAY.get(effect.name, 5.0)
            count = rng.poisson(per_day * hosts / 1000 * spec.seconds / 86_400)
            out += [Planned(effect.name, float(at)) for at in rng.random(count) * spec.seconds]
    return tuple(sorted(out, key=lambda each: each.at_s))


# Of a thousand hosts and day; assumptions, to be replaced by a site's own.
_HARMLESS_PER_DAY = {
    "recompilation": 40.0, "variable-sequences": 20.0, "reinitialisation": 20.0, "preemption": 10.0,
    "maintenance": 3.0, "rolling-upgrade": 2.0, "exporter-restarts": 20.0,
    "log-noise": 30.0, "cron-job": 40.0, "unused-nic-flaps": 3.0, "extra-checkpoint": 10.0,
}  # fmt: skip
