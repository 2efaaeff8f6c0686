"""Where the cause of lost seconds can be: what the blamed owner stands on, near and far.

What nothing blamed stands on is no candidate, however odd it is: so harmless anomalies elsewhere lose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from leadline.analysis.cause.hurts import Blame, Hurt
from leadline.analysis.cause.places import Places, kind_of
from leadline.analysis.cause.rule import Rule
from leadline.analysis.cause.traffic import Traffic

FAR = 0.5
"""How well something explains blame that it is only on the way of: a rank's lateness by a switch that its flows cross,
an edge's slowness by a GPU at its end. The ledger names such an owner about every second time (ledger-evals.md)."""
ANYONE = 0.5
"""How well one component explains blame that names nobody in particular (a communicator, the job)."""
MISFIT = 0.2
"""How well a rule explains blame of another category than its own: owners are right more often than categories."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What one owner stands on. `own` is the owner itself, where it is an entity."""

    own: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    far: frozenset[str] = frozenset()
    machine: frozenset[str] = frozenset()  # other hosts on its machine
    storage: frozenset[str] = frozenset()
    anyone: bool = False  # the blame names nobody in particular

    def nearness(self, entity: str, where: str) -> float:
        """How well a component explains this blame, 0 to 1, whatever is wrong with it."""
        if where:
            return float(entity in (self.machine if where == "machine" else self.storage))
        if entity in self.near or entity in self.own:
            return ANYONE if self.anyone and kind_of(entity) not in ("job", "switch", "storage") else 1.0
        return FAR if entity in self.far else 0.0


@dataclass
class Ground:
    """Places and traffic of a window, and what was asked of them already."""

    places: Places
    traffic: Traffic
    _known: dict[tuple[str, str], Reach] = field(default_factory=dict)

    def reach(self, owner: str, job: str) -> Reach:
        """What an owner of a job's lost seconds stands on."""
        if (owner, job) not in self._known:
            self._known[owner, job] = self._reach(owner, f"job:{job}" if job else "")
        return self._known[owner, job]

    def jobs_on(self, entity: str) -> frozenset[str]:
        """Names of the jobs that use a component: their ranks run on it, or their flows cross it."""
        ranks = self.places.ranks_of.get(entity, set()) if not entity.startswith("job:") else set()
        found = {rank.partition(":")[2].rpartition("/")[0] for rank in ranks}
        along = self.places.parts(entity) if kind_of(entity) in ("link", "switch") else frozenset({entity})
        for user, links in self.traffic.links_of.items():
            if user.startswith("job:") and links & along:
                found.add(user.partition(":")[2])
        return frozenset(found)

    def _reach(self, owner: str, job: str) -> Reach:
        sender, arrow, receiver = owner.partition(">")
        kind = kind_of(owner) if ":" in owner else ""
        if arrow:
            return self._edge(sender, receiver, job)
        if kind == "rank":
            return self._rank(owner, job)
        if kind in ("host", "gpu", "process"):
            return self._host(owner, job)
        if kind in ("port", "swport", "link", "switch", "xcvr"):
            return self._wire(owner, job)
        return self._whole(owner, job)

    def _rank(self, rank: str, job: str) -> Reach:
        host = self.places.host(rank)
        wires = self._wires(host, job)
        way = self._along(self.traffic.links_of.get(rank, set()))
        near = {rank, host, *self.places.on.get(rank, ()), *wires}
        return Reach(
            frozenset({rank}), frozenset(near - {""}), frozenset({job, *way} - {""}),
            frozenset(self.places.mates.get(host, ())), self._storages(rank, host, job),
        )  # fmt: skip

    def _edge(self, sender: str, receiver: str, job: str) -> Reach:
        links = self.traffic.links_between.get((sender, receiver), set()) | self.traffic.links_between.get(
            (receiver, sender), set()
        )
        ends = {sender, receiver}
        hosts = {self.places.host(rank) for rank in ends} - {""}
        near = self._along(links).union(*(self._wires(host, job) for host in sorted(hosts)))
        if not links:  # nobody told the way: any link of the job between switches may be on it
            near |= self._along(self.traffic.links_of.get(job, set()))
        far = {job, *ends, *hosts}.union(*(self.places.on.get(rank, set()) for rank in sorted(ends)))
        mates = set().union(*(self.places.mates.get(host, set()) for host in sorted(hosts)))
        return Reach(frozenset(), frozenset(near - {""}), frozenset(far - near - {""}), frozenset(mates), frozenset())

    def _host(self, owner: str, job: str) -> Reach:
        host = self.places.host(owner)
        near = {owner, host, *self.places.gpus_of.get(host, ()), *self._wires(host, job)}
        ranks = self.places.ranks_of.get(host, set())
        mates = frozenset(self.places.mates.get(host, ()))
        return Reach(frozenset({owner}), frozenset(near - {""}), frozenset(ranks), mates, self._storages(host, job))

    def _wire(self, owner: str, job: str) -> Reach:
        wholes = set(self.places.wholes(owner)) if kind_of(owner) != "switch" else {owner}
        parts = set().union(*(self.places.parts(each) for each in sorted(wholes)))
        hosts = {self.places.host(each) for each in sorted(parts)} - {""}
        switches = {self.places.owner(each) for each in sorted(parts) if kind_of(each) == "swport"}
        near = wholes | parts | switches
        return Reach(frozenset({owner}), frozenset(near - {""}), frozenset(hosts | {job} - {""}), frozenset())

    def _whole(self, owner: str, job: str) -> Reach:
        """A communicator, a job, words of missing input: all that the job stands on."""
        ranks = self.places.ranks_of.get(job, set())
        hosts = {self.places.host(rank) for rank in sorted(ranks)} - {""}
        near = {job, *ranks, *hosts}.union(*(self.places.on.get(rank, set()) for rank in ranks))
        near = near.union(*(self._wires(host, job) for host in sorted(hosts)))
        near |= self._along(self.traffic.links_of.get(job, set()))
        if not job and ":" in owner:
            near |= {owner, *self.places.parts(owner), *self.places.wholes(owner)}
        mates = set().union(*(self.places.mates.get(host, set()) for host in sorted(hosts)))
        storage = self._storages(job, *sorted(ranks), *sorted(hosts))
        own = frozenset({job or owner} - {""})
        return Reach(own, frozenset(near - {""}), frozenset(), frozenset(mates), storage, anyone=True)

    def _wires(self, host: str, job: str) -> set[str]:
        """The ports of a host that a job's flows use (all, where no flow is known), their links and switches' ends."""
        ports = {port for port in self.places.ports_of.get(host, set()) if kind_of(port) == "port"}
        used = ports & self.traffic.ports_of.get(job, set())
        return self._along({self.places.link(port) for port in used or ports} - {""}) | (used or ports)

    def _along(self, links: set[str]) -> set[str]:
        """Links with both ends and the switches there."""
        ends = {end for link in links for end in self.places.ends(link)}
        far = {self.places.far[end] for end in ends if end in self.places.far}
        switches = {self.places.owner(end) for end in ends | far if kind_of(end) == "swport"}
        return {*links, *ends, *far, *switches} - {""}

    def _storages(self, *users: str) -> frozenset[str]:
        told = set().union(*(self.places.mounts.get(user, set()) for user in users))
        return frozenset(told or self._all_storage)

    @cached_property
    def _all_storage(self) -> set[str]:
        """Where nobody says who mounts what: any storage that there is."""
        return {each for each in self.places.ports_of if kind_of(each) == "storage"}


def explained(blame: Blame, hurt: Hurt, entity: str, rule: Rule, ground: Ground) -> float:
    """Share of one blame, 0 to 1, that a rule explains of a component."""
    nearness = ground.reach(blame.owner, hurt.job).nearness(entity, rule.where)
    fits = not rule.categories or blame.category in rule.categories
    return nearness * (1.0 if fits else MISFIT)
