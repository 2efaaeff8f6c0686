"""Where the cause of lost seconds can be: what the blamed owner stands on, near and far.

What nothing blamed stands on is no candidate, however odd it is: so harmless anomalies elsewhere lose.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from leadline.analysis.cause.components import Components
from leadline.analysis.cause.traffic import Traffic
from leadline.analysis.graph.topology import Topology
from leadline.model.ids import EntityId, kind_of, name_of

NONE: frozenset[str] = frozenset()
# Share by which something explains blame that it is only on the way of: a rank's lateness by a switch that its flows
# cross, an edge's slowness by a GPU at its end. The ledger named such an owner about every second time. Source:
# measured: docs/analyses/ledger-evals.md (owners on runs that nobody had looked at, 0.55).
FAR = 0.5
# Share by which one component explains blame that names nobody in particular (a communicator, the job): as much as what
# is on the way, because as little points to it. Source: judgement.
ANYONE = 0.5
WHOLE = ("job", "switch", "storage")  # kinds that explain blame which names nobody in particular as well as any other


@dataclass(frozen=True, slots=True)
class Reach:
    """What one owner stands on. `own` is the owner itself, where it is an entity."""

    own: frozenset[str] = NONE
    near: frozenset[str] = NONE
    far: frozenset[str] = NONE
    machine: frozenset[str] = NONE  # other hosts on its machine
    storage: frozenset[str] = NONE
    anyone: bool = False  # the blame names nobody in particular: whatever the job stands on is near


@dataclass
class Ground:
    """What stands on what in a window, and its traffic; answers are remembered."""

    components: Components
    traffic: Traffic
    measured: frozenset[str] = NONE  # hosts that metrics are told of
    _known: dict[tuple[str, str, int | None], Reach] = field(default_factory=dict)
    _of_job: dict[tuple[str, str], bool] = field(default_factory=dict)

    @property
    def topology(self) -> Topology:
        """Where everything is."""
        return self.components.topology

    def nearness(self, owner: str, job: str, entity: str, where: str, at_ns: int | None = None) -> float:
        """How well a component explains blame of an owner of a job, 0 to 1, whatever is wrong with it.

        `at_ns`: when the blame began: a rank that died is placed anew when its job begins again. None: places of now.
        """
        if kind_of(entity) == "job" and entity != f"job:{job}":
            shared = self.traffic.links_of(entity) & self.traffic.links_of(f"job:{job}")
            return max((self.nearness(owner, job, link, where, at_ns) for link in sorted(shared)), default=0.0)
        reach = self.reach(owner, job, at_ns)
        if where == "storage":
            return float(entity in reach.storage)
        if where == "machine":
            mates = self.topology.hosts_beside(entity) if reach.anyone else NONE
            return float(entity in reach.machine or any(self.is_of(f"job:{job}", mate) for mate in mates))
        if entity in reach.near or entity in reach.own:
            return 1.0
        if reach.anyone and self.is_of(f"job:{job}", entity):
            return 1.0 if kind_of(entity) in WHOLE else ANYONE
        return FAR if entity in reach.far else 0.0

    def reach(self, owner: str, job: str, at_ns: int | None = None) -> Reach:
        """What an owner of a job's lost seconds stands on, or stood on at a time."""
        key = owner, job, at_ns
        if key not in self._known:
            self._known[key] = self._reach(owner, f"job:{job}" if job else "", at_ns)
        return self._known[key]

    def is_of(self, job: str, entity: str) -> bool:
        """Whether a job stands on a component: asked from the component up, because large jobs stand on much."""
        if (job, entity) not in self._of_job:
            self._of_job[job, entity] = self._is_of(job, entity)
        return self._of_job[job, entity]

    def _is_of(self, job: str, entity: str) -> bool:
        kind, name = kind_of(entity), name_of(job)
        if kind in ("rank", "comm"):
            return EntityId.of(entity).holder == name
        if kind in ("host", "gpu", "process"):
            ranks = self.topology.ranks_of(entity) | {one for one in self.topology.on(entity) if kind_of(one) == "rank"}
            return any(self.is_of(job, rank) for rank in ranks)
        if kind == "port":
            host, used = self.topology.owner(entity), self.traffic.ports_of(job)
            here = used & self.topology.ports_of(host)
            return entity in used or (not here and self.is_of(job, host))
        if kind == "link":
            links = self.traffic.links_of(job)
            return entity in links or any(
                kind_of(end) == "port" and self.is_of(job, end) for end in self.topology.ends(entity)
            )
        if kind in ("swport", "xcvr"):
            wholes = [one for one in self.components.wholes(entity) if kind_of(one) == "link"]
            return any(self.is_of(job, link) for link in wholes)
        if kind == "switch":
            ways = {self.topology.link(port) for port in self.topology.ports_of(entity)} - {""}
            return bool(ways & self.traffic.links_of(job)) or any(self.is_of(job, link) for link in sorted(ways))
        return entity == job

    def jobs_on(self, entity: str) -> frozenset[str]:
        """Names of the jobs that use a component: their ranks run on it, or their flows cross it."""
        ranks = self.topology.ranks_of(entity) if kind_of(entity) != "job" else NONE
        found = {EntityId.of(rank).holder for rank in ranks}
        if kind_of(entity) == "switch":
            links = {self.topology.link(port) for port in self.topology.ports_of(entity)} - {""}
            return self.traffic.jobs_on(frozenset(links)) | found
        return (self.traffic.jobs_on(frozenset({entity})) if kind_of(entity) == "link" else NONE) | found

    def _reach(self, owner: str, job: str, at_ns: int | None) -> Reach:
        sender, arrow, receiver = owner.partition(">")
        kind = kind_of(owner) if ":" in owner else ""
        if arrow:
            return self._edge(sender, receiver, job, at_ns)
        if kind == "rank":
            return self._rank(owner, job, at_ns)
        if kind in ("host", "gpu", "process"):
            return self._host(owner, job)
        if kind in ("port", "swport", "link", "switch", "xcvr"):
            return self._wire(owner, job)
        return self._whole(owner, job)

    def _rank(self, rank: str, job: str, at_ns: int | None) -> Reach:
        host = self.topology.host_of(rank, at_ns)
        near = {rank, host, *self.topology.on(rank), *self._wires(host, job)} - {""}
        # Ranks of a host that compute one replica wait for each other in collectives that nobody tells.
        mates = self.topology.ranks_of(host) if host else NONE
        beside = [each for each in sorted(mates) if f"job:{EntityId.of(each).holder}" == job]
        with_theirs = {*beside, *(one for each in beside for one in self.topology.on(each))}
        far = {job, *self._along(self.traffic.links_of(rank)), *with_theirs} - near - {""}
        machine = self.topology.hosts_beside(host)
        return Reach(frozenset({rank}), frozenset(near), frozenset(far), machine, self._storages(rank, host, job))

    def _edge(self, sender: str, receiver: str, job: str, at_ns: int | None) -> Reach:
        links, ends = self.traffic.links_between(sender, receiver), {sender, receiver}
        hosts = sorted({self.topology.host_of(rank, at_ns) for rank in ends} - {""})
        # Where nobody told the way, any link of the job between switches may be on it.
        near = self._along(links or self.traffic.links_of(job)).union(*(self._wires(host, job) for host in hosts))
        far = {job, *ends, *hosts}.union(*(self.topology.on(rank) for rank in ends))
        mates = NONE.union(*(self.topology.hosts_beside(host) for host in hosts))
        return Reach(NONE, frozenset(near - {""}), frozenset(far - near - {""}), mates, NONE)

    def _host(self, owner: str, job: str) -> Reach:
        host = self.topology.host_of(owner)
        near = {owner, host, *self.topology.gpus_of(host), *self._wires(host, job)} - {""}
        ranks, mates = self.topology.ranks_of(host), self.topology.hosts_beside(host)
        return Reach(frozenset({owner}), frozenset(near), ranks, mates, self._storages(host, job))

    def _wire(self, owner: str, job: str) -> Reach:
        wholes = set(self.components.wholes(owner)) if kind_of(owner) != "switch" else {owner}
        parts = NONE.union(*(self.components.parts(each) for each in wholes))
        hosts = {self.topology.host_of(each) for each in parts}
        switches = {self.topology.owner(each) for each in parts if kind_of(each) == "swport"}
        near = (wholes | parts | switches) - {""}
        return Reach(frozenset({owner}), frozenset(near), frozenset((hosts | {job}) - {""}))

    def _whole(self, owner: str, job: str) -> Reach:
        """A communicator, a job, words of missing input: all that the job stands on."""
        own = frozenset({job or owner})
        if job:
            return Reach(own, own, storage=self._storages(job), anyone=True)
        near = {owner, *self.components.parts(owner), *self.components.wholes(owner)} if ":" in owner else set()
        return Reach(own, frozenset(near))

    def _wires(self, host: str, job: str) -> set[str]:
        """The ports of a host that a job's flows use (all, where no flow is known), their links and switches' ends."""
        ports = {port for port in self.topology.ports_of(host) if kind_of(port) == "port"}
        used = ports & self.traffic.ports_of(job)
        return self._along(frozenset({self.topology.link(port) for port in used or ports} - {""})) | (used or ports)

    def _along(self, links: frozenset[str]) -> set[str]:
        """Links with both ends and the switches there."""
        ends = {end for link in links for end in self.topology.ends(link)}
        switches = {self.topology.owner(end) for end in ends if kind_of(end) == "swport"}
        return {*links, *ends, *switches} - {""}

    def _storages(self, *users: str) -> frozenset[str]:
        """What they mount; where nobody says who mounts what, any storage that there is."""
        told = NONE.union(*(self.topology.storage_of(user) for user in users if user))
        return told or self.topology.storages()
