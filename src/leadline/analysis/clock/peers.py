"""Who probes whom: a random graph of degree 10 that hardly changes when a host joins or leaves.

    ring 1  h3 - h7 - h1 - h9 - ...     each ring has all hosts in an order of its own, by the hash of their names;
    ring 2  h9 - h1 - h3 - h7 - ...     neighbours on a ring probe each other
    ...

A ring connects all of its hosts, so the mesh is connected whoever is missing. A host that joins stands between two
others on each ring: those edges alone change. Random graphs of this kind are expanders, which is what makes neighbours
agree after a dozen rounds. Source of the shape: unions of random Hamiltonian cycles (Law and Siu, "Distributed
construction of random expander networks", INFOCOM 2003).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

RINGS = 5
"""Two neighbours on each: degree 10, at which a tenth of all edges may be wrong by a microsecond and the clocks still
agree to 31 ns (a degree of 6 did not survive that)."""
RINGS_ACROSS = 1
"""Of these, so many have the hosts of all pods; the others those of one pod: a fifth of the edges leave it."""


class Edge(NamedTuple):
    """Two hosts that probe each other. `owner` fits the edge; it is one of the two."""

    one: str
    other: str
    owner: str


def mesh_of(pod_of: Mapping[str, str], neighbours_of: Mapping[str, int] | None = None) -> list[Edge]:
    """The edges between hosts, sorted. `pod_of`: the pod of each host; the same text for all where none is known;
    `neighbours_of`: how many a host wants at most, where that is fewer than 2 `RINGS`. It stands on half as many rings,
    and always on the first, which connects all hosts.

    The number of edges that a host owns differs by chance: 5 in the mean.
    """
    wanted = neighbours_of or {}
    pairs: set[tuple[str, str]] = set()
    by_pod: dict[str, list[str]] = defaultdict(list)
    for host, pod in pod_of.items():
        by_pod[pod].append(host)
    for ring in range(RINGS):
        across = ring < RINGS_ACROSS or len(by_pod) == 1
        for hosts in [list(pod_of)] if across else by_pod.values():
            pairs |= _neighbours([each for each in hosts if ring < max(1, wanted.get(each, 2 * RINGS) // 2)], ring)
    return [Edge(one, other, _owner(one, other)) for one, other in sorted(pairs)]


def peers_of(host: str, edges: Iterable[Edge]) -> dict[str, bool]:
    """Whom a host probes, and whether it owns the edge."""
    found = {}
    for one, other, owner in edges:
        if host in (one, other):
            found[other if host == one else one] = owner == host
    return found


def _neighbours(hosts: Iterable[str], ring: int) -> set[tuple[str, str]]:
    order = sorted(hosts, key=lambda host: (_hash(f"{ring}", host), host))
    if len(order) < 2:
        return set()
    return {(min(one, other), max(one, other)) for one, other in zip(order, order[1:] + order[:1], strict=True)}


def _owner(one: str, other: str) -> str:
    return one if _hash("owner", one, other) & 1 else other


def _hash(*words: str) -> int:
    return int.from_bytes(blake2b("\0".join(words).encode(), digest_size=8).digest(), "big")
