"""Who does the same: entities of one kind that hold the same place in the same job, or none in any.

A GPU's, a process's or a host's jobs are those of the ranks that run on it; a port's are its host's. Ports of hosts are
peers by name (`eth0` with `eth0`: rails carry different things), ports of switches by what their switch is called
without its number (`leaf#`) and by what the port at the other end of their cable is.

When a job begins on something, what that did before is no past of what it does now: see `since_of`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.anomaly.kinds import Way
from leadline.analysis.anomaly.streams import Names, Streams
from leadline.analysis.columns import Bools, Ints, codes, ints
from leadline.analysis.graph.topology import HELD, topology_of
from leadline.analysis.remembered import Remembered, fingerprint
from leadline.analysis.spec import S
from leadline.model.ids import EntityId, kind_of

EARLY_NS = 10 * S  # a job that told of something so early in the look-back was there before
PLANNED = ("exit/0", "exit/143", "exit/130", "signal/SIGTERM", "signal/SIGINT")
BUSY_RATIO = 0.2
PEERS_FEW = 4  # fewer streams than this do not show what is usual among them
WIRED = ("port", "swport", "xcvr")
# Windows before of so many clusters (and tenants of them) are remembered: some MB each in a cluster of 256 hosts.
# Source: bound.
ROLES_MOST = 8
_CARRIED = re.compile(r".*(?:packets_total|UcastPkts|packets)")
_CARRIERS = ("gpu", "host", "process")


class Roles:
    """What entities are part of, by the relations that held in the window and by where steps and collectives ran.
    Answers are remembered."""

    def __init__(self, relation: pa.Table, ran: list[tuple[str, str]]) -> None:
        self._topology = topology_of(relation, (*HELD, "linked"))
        self._ran: dict[str, set[str]] = defaultdict(set)
        for job, host in ran:
            self._ran[f"host:{host}"].add(job)
        self._roles: dict[str, str] = {}
        self._jobs: dict[str, frozenset[str]] = {}

    @staticmethod
    def of(relation: pa.Table, ran: list[tuple[str, str]]) -> Roles:
        """Those of the window before, with all answers, where relations and jobs are the same."""
        return _KNOWN.of((fingerprint(relation), tuple(ran)), lambda: Roles(relation, ran))

    def role(self, entity: str) -> str:
        """What an entity's peers have in common with it; a text to compare."""
        found = self._roles.get(entity)
        if found is None:
            found = self._roles[entity] = self._role(entity)
        return found

    def jobs(self, entity: str) -> frozenset[str]:
        """The jobs that an entity works for, as far as that is one or the other."""
        found = self._jobs.get(entity)
        if found is None:
            found = self._jobs[entity] = self._jobs_of(entity)
        return found

    def _role(self, entity: str) -> str:
        one = EntityId.of(entity)
        if one.kind == "swport":
            far = self._topology.far(entity)
            place = self.role(far) if kind_of(far) == "port" else _numberless(EntityId.of(far).holder)
            return f"{one.kind} {_numberless(one.holder)} {place}"
        jobs = " ".join(sorted(self.jobs(entity)))
        if one.kind in ("port", "xcvr"):
            return f"{one.kind} {one.part} {kind_of(self._topology.far(entity))} {jobs}"
        if one.kind in ("switch", "link"):
            return f"{one.kind} {_numberless(one.name)}"
        return f"{one.kind} {jobs}"

    def _jobs_of(self, entity: str) -> frozenset[str]:
        one = EntityId.of(entity)
        if one.kind in ("rank", "comm", "job"):
            return frozenset([one.job])
        if one.kind in ("port", "xcvr"):
            return self._on(f"host:{one.holder}")
        if one.kind == "nvlink":
            return self._on(f"gpu:{one.holder}")
        if one.kind == "swport":
            far = self._topology.far(entity)
            return self.jobs(far) if kind_of(far) == "port" else self._every
        return self._on(entity)

    def _on(self, entity: str) -> frozenset[str]:
        """The jobs on a GPU, host or process."""
        if kind_of(entity) not in _CARRIERS:
            return frozenset()
        return self._topology.jobs_on(entity) | self._ran.get(entity, frozenset())

    @cached_property
    def _every(self) -> frozenset[str]:
        """The jobs that run on anything."""
        carriers = {*self._ran, *(name for name in self._topology.names if kind_of(name) in _CARRIERS)}
        return frozenset().union(*map(self._on, carriers))


_KNOWN: Remembered[Roles] = Remembered(ROLES_MOST)


def _numberless(text: str) -> str:
    return re.sub(r"[0-9]+", "#", text)


def ran_on(*tables: pa.Table) -> list[tuple[str, str]]:
    """Which job ran on which host, by the rows of steps and collectives: distinct (job, host), in order."""
    found: set[tuple[str, str]] = set()
    for table in tables:
        job, host = codes(table, "job"), codes(table, "host")
        width = len(host.names) + 1
        for each in np.unique(job.code_N * width + host.code_N + 1)[:].tolist():
            which, where = divmod(each, width)
            if which >= 0 and where > 0:
                found.add((job.names[which], host.names[where - 1]))
    return sorted(found)


def turns(step: pa.Table, collective: pa.Table, event: pa.Table, from_ns: int) -> dict[str, int]:
    """When each job last began or ended, of those that did since `from_ns`.

    A job begins with the end of its first step, or its first collective where it tells of no steps. It ends when the
    last of its ranks that were seen has exited as it was meant to: a job that crashed is in trouble, not over.
    """
    found: dict[str, int] = {}
    ranks: dict[str, set[str]] = defaultdict(set)
    for table, name, first in ((collective, "enqueued_ns", "enqueued_ns"), (step, "end_ns", "start_ns")):
        job, rank_N, at_N, first_N = codes(table, "job"), ints(table, "rank"), ints(table, name), ints(table, first)
        for place, text in enumerate(job.names):
            of_job = job.code_N == place
            ranks[text] |= {f"rank:{text}/{rank}" for rank in np.unique(rank_N[of_job]).tolist()}
            if int(first_N[of_job].min()) > from_ns + EARLY_NS:
                found[text] = int(at_N[of_job].min())
            else:
                found.pop(text, None)
    exits = event.filter(pc.equal(event["kind"].cast(pa.string()), "process-exit"))
    exits = exits.filter(pc.is_in(exits["code"].cast(pa.string()), pa.array(PLANNED)))
    last: dict[str, int] = {}
    for whose, at_ns in zip(exits["entity"].to_pylist(), exits["time_ns"].to_pylist(), strict=True):
        last[whose] = max(at_ns, last.get(whose, at_ns))
    for text, seen in ranks.items():
        if seen and seen <= last.keys():
            found[text] = max(found.get(text, -(2**62)), *(last[each] for each in seen))
    return found


def roles_of(streams: Streams, roles: Roles) -> Ints:
    """The role of each entity, (E,): a number, the same for peers."""
    numbers = Names()
    return np.array([_role(roles, numbers, *key) for key in streams.entities.keys], np.int64)


def groups_of(streams: Streams, role_E: Ints) -> Ints:
    """The peer group of each stream, (R,): same metric, same labels but for numbers, entities of one role.

    Ports are peers only of ports that are as busy: one of two rails may carry all. Where these are too few to tell,
    what is bad by itself (errors, drops, pauses, states) is held against all ports of such small groups: a fabric of
    four hosts has no larger groups.
    """
    role_E = 2 * role_E + _busy(streams, role_E) if len(role_E) else role_E
    role_R = role_E[streams.entity_R] if len(role_E) else np.zeros(0, np.int64)
    group_R = _numbered(streams, role_R)
    few_R = (np.bincount(group_R)[group_R] < PEERS_FEW) & _counts_by_itself(streams)
    if not few_R.any():
        return group_R
    kinds = Names()
    kind_E = np.array([kinds.number("", kind_of(entity)) for _, entity in streams.entities.keys], np.int64)
    whole_R = _numbered(streams, np.where(few_R, kind_E[streams.entity_R], -1))
    return _numbered(streams, np.where(few_R, int(group_R.max()) + 1 + whole_R, group_R))


def _numbered(streams: Streams, role_R: Ints) -> Ints:
    """Groups of streams of one role, metric and labels, numbered from 0."""
    key_R = (role_R * max(len(streams.metrics), 1) + streams.metric_R) * (int(streams.role_R.max(initial=0)) + 1)
    _, group_R = np.unique(key_R + streams.role_R, return_inverse=True)
    numbers_R: Ints = group_R.reshape(-1).astype(np.int64)
    return numbers_R


def _counts_by_itself(streams: Streams) -> Bools:
    """Errors, drops, pauses and states of ports: those of any other port are a fair comparison, busy or not."""
    way_M = np.array([*(kind.way for kind in streams.kinds), 0], np.int64)
    wired_E = np.array([kind_of(entity) in WIRED for _, entity in streams.entities.keys], bool)
    some_R: Bools = (way_M[streams.metric_R] >= Way.HARM) & wired_E[streams.entity_R]
    return some_R


def _busy(streams: Streams, role_E: Ints) -> Ints:
    """1 for entities that carried at least a fifth as many packets as the busiest of their role; or if none tell."""
    carried_M = np.array([*(bool(_CARRIED.fullmatch(each)) for each in streams.metrics), False], bool)
    row_T = np.flatnonzero(carried_M[streams.metric_R] & streams.counter_R)
    begin_R, value_N = streams.samples.begin_R, streams.samples.value_N
    more_T = value_N[begin_R[row_T + 1] - 1] - value_N[begin_R[row_T]]
    most_E = np.zeros(len(role_E))
    np.maximum.at(most_E, streams.entity_R[row_T], np.maximum(more_T, 0.0))
    of_role = np.zeros(int(role_E.max()) + 1)
    np.maximum.at(of_role, role_E, most_E)
    return (most_E >= BUSY_RATIO * of_role[role_E]).astype(np.int64)


def since_of(streams: Streams, roles: Roles, turned: dict[str, int]) -> Ints:
    """Since when each stream's entity has done what it does now: the last turn of a job that it works for, (R,)."""
    none = -(2**62)
    since_E = np.full(len(streams.entities.keys), none, np.int64)
    if turned:
        for place, (_, entity) in enumerate(streams.entities.keys):
            since_E[place] = max((turned[job] for job in roles.jobs(entity) if job in turned), default=none)
    return since_E[streams.entity_R] if len(since_E) else np.zeros(0, np.int64)


def _role(roles: Roles, numbers: Names, tenant: str, entity: str) -> int:
    """Ranks of two tenants' jobs of one name are no peers; hardware is shared, so of it tenants do not matter."""
    return numbers.number(tenant if kind_of(entity) in ("rank", "comm") else "", roles.role(entity))
