"""What a fault befalls: chosen from the seed among what runs, or given by the part that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leadline.lab.truth import Magnitude
from leadline.simulator.archetypes import Archetype
from leadline.simulator.effects import Effect, level
from leadline.simulator.fabric import Bools, Floats
from leadline.simulator.fleet import Fleet, Ints


@dataclass(slots=True)
class Befallen:
    """One fault at its place: global numbers of GPUs (as large as those of host links), links, hosts, switches."""

    effect: Effect
    magnitude: Magnitude
    at_s: float
    end_s: float
    gpus: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
    hosts: tuple[int, ...] = ()
    switches: tuple[int, ...] = ()
    beside: tuple[int, ...] = ()  # hosts of the same machine that it comes from
    storage: int = -1  # of that pod
    run: int = -1  # the run it is aimed at, -1: none
    cause: str = ""  # the part whose hazard it was; empty: planned
    lost_gpu_seconds: float = 0.0
    stuck_step: int = -1  # whose batch comes again and again, once that is known

    @property
    def level(self) -> int:
        """Place in the triples of the effect."""
        return level(self.magnitude)

    def down(self, at_s_T: Floats) -> Bools:
        """Whether its links have no carrier then, (T,)."""
        lasts_T: Bools = (at_s_T >= self.at_s) & (at_s_T < self.end_s)
        effect = self.effect
        down_s = effect.down_s[self.level]
        if down_s < 0 or (effect.dies and effect.scope == "link"):  # the job ends of it; the card stays dead
            return lasts_T
        return lasts_T & ((at_s_T - self.at_s) % effect.period_s < down_s)


@dataclass(slots=True)
class Run:
    """One incarnation of a job: these hosts, from then till then. `start_s` may be before the begin of the span."""

    number: int
    job: str
    archetype: Archetype
    hosts: Ints
    start_s: float
    end_s: float
    first_step: int
    incarnation: int = 0
    end: str = ""  # exit/0, signal/SIGKILL, ...; empty: it still runs at the end
    faults: list[Befallen] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Where:
    """The fleet and what runs on it now."""

    fleet: Fleet
    running: Sequence[Run]
    hosts_per_machine: int = 1

    def choose(
        self, effect: Effect, magnitude: Magnitude, at_s: float, end_s: float, rng: np.random.Generator
    ) -> Befallen:
        """A fault somewhere it hurts: in a training job that runs, if there is one."""
        out = Befallen(effect, magnitude, at_s, end_s)
        parts = effect.parts[out.level]
        run = self._run(effect, rng)
        hosts = run.hosts if run is not None else rng.integers(0, self.fleet.hosts, 1)
        out.run = run.number if run is not None else -1
        if effect.scope == "rank":
            self._ranks(out, hosts, parts, rng)
            if run is not None and run.archetype.tensor_parallel > 1 and effect.tokens[out.level] != 1.0:
                # Ranks of one replica get the same sequences; where all are longer, nothing is imbalanced.
                self._hosts(out, np.array(out.hosts[: max(1, len(hosts) // 2)]))
        elif effect.scope == "stage":
            # A stage is a run of hosts: the middle eighth of the job.
            size = max(1, len(hosts) // 8)
            begin = (len(hosts) - size) // 2
            self._hosts(out, hosts[begin : begin + size])
        elif effect.scope == "link":
            out.links = self._links(hosts, parts, rng)
        elif effect.scope == "uplink":
            out.links = (self._uplink(hosts, rng),)
        elif effect.scope in ("spine", "leaf"):
            out.switches = self._switches(effect, hosts, parts, rng)
        elif effect.scope == "storage":
            out.storage = int(hosts[0]) // self.fleet.pod_hosts
        elif effect.scope == "exporter":
            some = min(parts, self.fleet.hosts)
            first = int(rng.choice(hosts))
            self._hosts(out, (first + np.arange(some)) % self.fleet.hosts)
        elif effect.scope == "machine":
            self._machine(out, int(rng.choice(hosts)))
        return out

    def at(self, effect: Effect, magnitude: Magnitude, at_s: float, end_s: float, of: str, index: int) -> Befallen:
        """A fault of a part that failed. Whoever uses it suffers."""
        out = Befallen(effect, magnitude, at_s, end_s)
        if of == "gpu":
            out.gpus = (index,)
            out.hosts = (index // self.fleet.gpus_per_host,)
        elif of == "link":
            out.links = (index,)
        elif of == "host" and effect.scope == "machine":
            self._machine(out, index)
        elif of == "host":
            out.gpus = (index * self.fleet.gpus_per_host,)
            out.hosts = (index,)
        elif effect.scope == "uplink":
            out.links = (self.fleet.host_links + index % max(1, self.fleet.leaf_links),)
        elif effect.scope == "leaf":
            out.switches = (index % self.fleet.leaves,)
        else:
            out.switches = (self.fleet.leaves + index % self.fleet.spines,)
        hit = next((run for run in self.running if uses(self.fleet, run.hosts, out)), None)
        out.run = hit.number if hit is not None else -1
        return out

    def _machine(self, out: Befallen, host: int) -> None:
        """All hosts of a host's machine; of a fault that comes from beside, all but the one that it comes from, which
        trains nothing if there is such a one."""
        hosts = self.machine(host)
        if out.effect.beside and len(hosts) > 1:
            working = {int(each) for run in self.running for each in run.hosts}
            beside = min((int(each) for each in hosts if each != host), key=lambda each: (each in working, each))
            out.beside, hosts = (beside,), hosts[hosts != beside]
        self._hosts(out, hosts)

    def machine(self, host: int) -> np.ndarray:
        """All hosts of the machine that a host is on."""
        first = host // self.hosts_per_machine * self.hosts_per_machine
        return np.arange(first, min(first + self.hosts_per_machine, self.fleet.hosts))

    def _run(self, effect: Effect, rng: np.random.Generator) -> Run | None:
        wide = effect.scope in ("link", "uplink", "spine", "leaf", "stage")
        found = [run for run in self.running if run.archetype.trains and (len(run.hosts) > 1 or not wide)]
        if effect.scope in ("uplink", "spine"):  # what stays below one leaf crosses neither
            found = [run for run in found if len({host // self.fleet.pod_hosts for host in run.hosts.tolist()}) > 1]
        found = found or [run for run in self.running if run.archetype.trains] or list(self.running)
        return found[int(rng.integers(len(found)))] if found else None

    def _ranks(self, out: Befallen, hosts: np.ndarray, parts: int, rng: np.random.Generator) -> None:
        per = self.fleet.gpus_per_host
        ranks = rng.choice(len(hosts) * per, size=min(parts, len(hosts) * per), replace=False)
        out.gpus = tuple(sorted(int(hosts[rank // per]) * per + int(rank % per) for rank in ranks))
        out.hosts = tuple(sorted({gpu // per for gpu in out.gpus}))

    def _hosts(self, out: Befallen, hosts: np.ndarray) -> None:
        out.hosts = tuple(int(host) for host in hosts)
        per = self.fleet.gpus_per_host
        out.gpus = tuple(host * per + place for host in out.hosts for place in range(per))

    def _links(self, hosts: np.ndarray, parts: int, rng: np.random.Generator) -> tuple[int, ...]:
        chosen = rng.choice(
            len(hosts) * self.fleet.rails, size=min(parts, len(hosts) * self.fleet.rails), replace=False
        )
        rails = self.fleet.rails
        return tuple(sorted(int(hosts[each // rails]) * rails + int(each % rails) for each in chosen))

    def _uplink(self, hosts: np.ndarray, rng: np.random.Generator) -> int:
        leaf = int(hosts[0]) // self.fleet.pod_hosts * self.fleet.rails + int(rng.integers(self.fleet.rails))
        return self.fleet.host_links + leaf * self.fleet.uplinks + int(rng.integers(self.fleet.uplinks))

    def _switches(self, effect: Effect, hosts: np.ndarray, parts: int, rng: np.random.Generator) -> tuple[int, ...]:
        pod = int(hosts[0]) // self.fleet.pod_hosts
        if effect.scope == "leaf":
            chosen = rng.choice(self.fleet.rails, size=min(parts, self.fleet.rails), replace=False)
            return tuple(sorted(pod * self.fleet.rails + int(each) for each in chosen))
        chosen = rng.choice(self.fleet.uplinks, size=min(parts, self.fleet.uplinks), replace=False)
        first = pod * self.fleet.uplinks if self.fleet.three_tiers else 0
        return tuple(sorted(self.fleet.leaves + first + int(each) for each in chosen))


def ranks_of(fault: Befallen, run: Run, per: int) -> list[int]:
    """The ranks of a run that are befallen, `per` to a host."""
    place = {int(host): number for number, host in enumerate(run.hosts)}
    return [place[gpu // per] * per + gpu % per for gpu in fault.gpus if gpu // per in place]


def links_of(fleet: Fleet, fault: Befallen) -> Ints:
    """Links that a fault befalls."""
    ports = fleet.swports
    links = list(fault.links)
    if fault.effect.scope == "machine":
        links += list(fault.gpus)
    if fault.effect.scope == "spine":
        links += ports.link[np.isin(ports.switch, fault.switches)].tolist()
    return np.unique(np.array(links, np.int64))


def uses(fleet: Fleet, hosts: np.ndarray, fault: Befallen) -> bool:
    """Whether a job on these hosts stands on what is broken."""
    on = set(hosts.tolist())
    if any(host in on for host in fault.hosts):
        return True
    if any(link < fleet.host_links and link // fleet.rails in on for link in fault.links):
        return True
    pods = {host // fleet.pod_hosts for host in on}
    if fault.storage in pods:
        return True
    if len(pods) < 2:
        return False  # one leaf per rail: traffic of one pod does not reach the spines
    leaves = {
        (link - fleet.host_links) // fleet.uplinks // fleet.rails for link in fault.links if link >= fleet.host_links
    }
    spines = {(each - fleet.leaves) // fleet.uplinks for each in fault.switches if each >= fleet.leaves}
    return bool(leaves & pods) or (bool(spines & pods) if fleet.three_tiers else bool(spines))
