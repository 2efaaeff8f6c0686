"""How evenly a switch spreads bytes over equal-cost links, and which flows collide on the busiest one.

volumes by sender and link --links of a set--> bytes per link --> mean / maximum, the busiest, what makes it busy
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.path.volume import Volumes

MOST = 0.8  # share of the busiest link's bytes that the flows named must carry together
NAMED_MAX = 8  # of them: more are no few that could be moved
IDLE = 0.5  # a link with less than this share of the busiest one's bytes had room


@dataclass(frozen=True, slots=True)
class EcmpSets:
    """Sets of equal-cost links that switches choose among. Arrays over E, in any order."""

    switch_E: Ints  # index of the switch that chooses
    links_E: list[tuple[int, ...]]  # indices of the links that it may send by, each once


@dataclass(frozen=True, slots=True)
class Balance:
    """How one set was loaded in the window; links and flows by their index, jobs by their code."""

    switch: int
    links: tuple[int, ...]  # ascending
    link_bytes: tuple[float, ...]  # what the switch sent by each
    flows: int
    bytes: float
    efficiency: float  # mean over maximum of the links' bytes
    busiest: int  # link; of equal ones the first
    busiest_bytes: float
    colliding: tuple[int, ...]  # flows, the largest first
    jobs: tuple[int, ...]  # of those flows, ascending; nobody's (-1) left out


def balance(volumes: Volumes, sets: EcmpSets, job_F: Ints) -> list[Balance]:
    """One entry for each set that carried anything, by switch and links.

    Inputs: volumes with their direction; sets of links; job of each flow, -1 for nobody.
    Only what the switch itself sends counts: the other direction of a link is another switch's choice. All of it
    counts, also that of flows which could not have taken each link of the set: it fills the link all the same.
    Flows collide if at least two are needed to make up most of the busiest link while another link of the set carries
    less than half as much; one flow alone is large, and no other path would make it smaller.
    """
    sent = _Sent(volumes)
    pairs = zip(sets.switch_E.tolist(), sets.links_E, strict=True)
    distinct = sorted({(switch, tuple(sorted(set(links)))) for switch, links in pairs if links})
    judged = (_balance(switch, links, sent, job_F) for switch, links in distinct)
    return [each for each in judged if each is not None]


class _Sent:
    """Volumes by the switch that sends and the link, the largest first."""

    def __init__(self, volumes: Volumes) -> None:
        there = np.flatnonzero((volumes.from_V >= 0) & (volumes.bytes_V > 0))
        flow, link, sender = (each[there] for each in (volumes.flow_V, volumes.link_V, volumes.from_V))
        count = volumes.bytes_V[there]
        order = np.lexsort((flow, -count, link, sender))
        self._links = int(link.max(initial=-1)) + 1
        self._key_V = sender[order] * self._links + link[order]
        self._flow_V, self._bytes_V = flow[order], count[order]

    def by(self, switch: int, link: int) -> tuple[Ints, Floats]:
        """(flows, bytes) that a switch sent by a link."""
        if link >= self._links:
            return self._flow_V[:0], self._bytes_V[:0]
        first, last = np.searchsorted(self._key_V, switch * self._links + link + np.arange(2))
        return self._flow_V[first:last], self._bytes_V[first:last]


def _balance(switch: int, links: tuple[int, ...], sent: _Sent, job_F: Ints) -> Balance | None:
    flows, counts = zip(*(sent.by(switch, link) for link in links), strict=True)
    bytes_K = np.array([float(each.sum()) for each in counts])
    if not bytes_K.any():
        return None
    busiest = int(bytes_K.argmax())
    colliding = _colliding(flows[busiest], counts[busiest], bytes_K)
    return Balance(
        switch=switch,
        links=links,
        link_bytes=tuple(bytes_K.tolist()),
        flows=len(np.unique(np.concatenate(flows))),
        bytes=float(bytes_K.sum()),
        efficiency=float(bytes_K.mean() / bytes_K[busiest]),
        busiest=links[busiest],
        busiest_bytes=float(bytes_K[busiest]),
        colliding=tuple(colliding.tolist()),
        jobs=tuple(np.unique(job_F[colliding][job_F[colliding] >= 0]).tolist()),
    )


def _colliding(flow_M: Ints, bytes_M: Floats, bytes_K: Floats) -> Ints:
    """The largest flows of the busiest link that carry most of it, if they stand in each other's way."""
    needed = int(np.searchsorted(np.cumsum(bytes_M), MOST * bytes_M.sum())) + 1
    if needed < 2 or bytes_K.min() >= IDLE * bytes_K.max():
        return flow_M[:0]
    return flow_M[: min(needed, NAMED_MAX)]
