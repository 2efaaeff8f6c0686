"""Who takes part in the probe mesh: hosts join, join again every few seconds, and are told whom to probe.

    agent ── join(host, address, port, pod) ──> Roster ──> key of the mesh, peers, their addresses, when to ask again
                                                 a host that then does not for KEPT times as long has left

Nothing is stored: a server that starts anew hears of its hosts when they ask again, under another key, and probes of
the old one are refused for that long; clocks are carried on meanwhile.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from leadline.analysis.clock.peers import RINGS, Edge, mesh_of, peers_of
from leadline.model.errors import BusyError

EVERY_S = 10.0
"""A host that joins is known to its peers within this. Source: judgement."""
JOINS_PER_S_MAX = 20.0
"""From all hosts of a mesh: each takes the server a millisecond, so 2 % of a core; 1,000 hosts ask every 50 s."""
KEPT = 3.5  # three requests were lost
KEY_BYTES = 16  # of SipHash-2-4
MESHES_MAX = 1000  # clusters; hosts of one more are told to come again
HOSTS_MAX = 100_000  # of one mesh
NEIGHBOURS = 2 * RINGS

Mesh = tuple[str, str]
"""Tenant and cluster."""


class Member(NamedTuple):
    """A host that takes part. `pod`: empty where nobody knows it; `neighbours`: that it wants at most."""

    host: str
    clock: str
    address: str
    port: int
    pod: str = ""
    neighbours: int = NEIGHBOURS


class Peer(NamedTuple):
    """Whom to probe. `number` names it in probes; `owned`: the edge is to be fitted by who asked."""

    number: int
    host: str
    clock: str
    address: str
    port: int
    owned: bool


class Joined(NamedTuple):
    """What a host is told. `key`: hexadecimal; `number`: its own."""

    number: int
    key: str
    every_s: float
    peers: list[Peer]


class _Members:
    def __init__(self) -> None:
        self.key = secrets.token_hex(KEY_BYTES)
        self.until_s: dict[str, float] = {}  # by host: it has left by then, if it does not ask again
        self.members: dict[str, Member] = {}
        self.edges: dict[str, list[Edge]] | None = None  # by host; None: members have changed

    @property
    def every_s(self) -> float:
        return max(EVERY_S, len(self.members) / JOINS_PER_S_MAX)

    def take(self, member: Member, now_s: float) -> None:
        gone = [host for host, until_s in self.until_s.items() if now_s > until_s]
        for host in gone:
            del self.until_s[host], self.members[host]
        before = self.members.get(member.host)
        if gone or before is None or (before.pod, before.neighbours) != (member.pod, member.neighbours):
            self.edges = None
        self.members[member.host] = member
        self.until_s[member.host] = now_s + KEPT * self.every_s

    def peers(self, host: str) -> list[Peer]:
        if self.edges is None:
            self.edges = {each: [] for each in self.members}
            pod_of = {each.host: each.pod for each in self.members.values()}
            for edge in mesh_of(pod_of, {each.host: each.neighbours for each in self.members.values()}):
                self.edges[edge.one].append(edge)
                self.edges[edge.other].append(edge)
        found = []
        for other, owned in sorted(peers_of(host, self.edges[host]).items()):
            peer = self.members[other]
            found.append(Peer(number_of(other), other, peer.clock, peer.address, peer.port, owned))
        return found


class Roster:
    """The members of all meshes. Thread-safe."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._meshes: dict[Mesh, _Members] = {}

    def join(self, mesh: Mesh, member: Member) -> Joined:
        """A host joins, or says that it is still there. Errors: BusyError where there are too many already."""
        with self._lock:
            members = self._meshes.get(mesh)
            if members is None:
                if len(self._meshes) >= MESHES_MAX:
                    raise BusyError(f"{MESHES_MAX} meshes are kept already", 60)
                members = self._meshes[mesh] = _Members()
            if member.host not in members.members and len(members.members) >= HOSTS_MAX:
                raise BusyError(f"{HOSTS_MAX} hosts are in the mesh of cluster {mesh[1]!r} already", 60)
            members.take(member, self._clock_s())
            return Joined(number_of(member.host), members.key, members.every_s, members.peers(member.host))


def number_of(host: str) -> int:
    """What probes call a host: 63 bits of its name's hash, not 0."""
    return (int.from_bytes(blake2b(host.encode(), digest_size=8).digest(), "big") >> 1) or 1
