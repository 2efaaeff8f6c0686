"""A fat tree of degree k, the probe mesh over it, and what a mesh measures when something is broken. Seeded.

    host -- edge -- aggregation -- core        k pods of k/2 edges and k/2 aggregations, k/2 hosts an edge

Each host probes `degree / 2` others and is probed by as many (a union of random rings), by several source ports, each
with a path of its own there and another back. Source of the topology: Al-Fares et al., SIGCOMM 2008.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.localise.mesh_paths import Classes, classes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mesh:
    """Links, and the directed paths of all probes. P = paths, L = links; direction l is up, L + l down."""

    hosts: int
    links: tuple[str, ...]
    switches: frozenset[str]
    host_links: int
    path_PX: Ints
    src_P: Ints
    dst_P: Ints
    told: Classes

    def name(self, direction: int) -> tuple[str, str]:
        """A directed link as a component: its entity, and the node it leads to."""
        link = self.links[direction % len(self.links)]
        first, second = (end.partition("/")[0] for end in link.removeprefix("link:").split("~"))
        return link, second if direction < len(self.links) else first


def mesh(seed: int, k: int = 8, degree: int = 10, ports: int = 4) -> Mesh:
    """The fabric, a random mesh of it, and paths by hash."""
    rng = np.random.default_rng([seed, 47])
    half = k // 2
    hosts, edges = k * half * half, k * half
    links: list[str] = []
    for host in range(hosts):
        links.append(f"link:h{host + 1}/eth0~edge{host // half + 1}/p{host % half + 1}")
    for edge in range(edges):
        pod = edge // half
        links += [f"link:edge{edge + 1}/u{a + 1}~agg{pod * half + a + 1}/p{edge % half + 1}" for a in range(half)]
    for agg in range(edges):
        pod, plane = divmod(agg, half)
        links += [f"link:agg{agg + 1}/u{slot + 1}~core{plane * half + slot + 1}/p{pod + 1}" for slot in range(half)]
    count = len(links)
    pairs = _rings(hosts, degree, rng)
    src = np.repeat(np.r_[pairs[:, 0], pairs[:, 1]], ports)
    dst = np.repeat(np.r_[pairs[:, 1], pairs[:, 0]], ports)
    a, j = (rng.integers(0, half, len(src)) for _ in range(2))
    e_src, e_dst = src // half, dst // half
    p_src, p_dst = e_src // half, e_dst // half
    agg_src, agg_dst = p_src * half + a, p_dst * half + a
    path = np.full((len(src), 6), -1, np.int64)
    path[:, 0], path[:, 5] = src, count + dst
    far = e_src != e_dst
    path[far, 1] = (hosts + e_src * half + a)[far]
    path[far, 4] = (count + hosts + e_dst * half + a)[far]
    over = p_src != p_dst
    path[over, 2] = (hosts + edges * half + agg_src * half + j)[over]
    path[over, 3] = (count + hosts + edges * half + agg_dst * half + j)[over]
    switches = frozenset(
        f"{tier}{n + 1}" for tier, n_of in (("edge", edges), ("agg", edges), ("core", half * half)) for n in range(n_of)
    )
    return Mesh(hosts, tuple(links), switches, hosts, path, src, dst, classes(path, links, switches))


def _rings(hosts: int, degree: int, rng: np.random.Generator) -> Ints:
    """Edges of a random regular graph of even degree: rings through all hosts, with no edge in common."""
    seen: set[tuple[int, int]] = set()
    for _ in range(degree // 2):
        order = rng.permutation(hosts)
        while common := [place for place, edge in enumerate(_edges(order)) if edge in seen]:
            for place in common:  # another host there
                other = int(rng.integers(0, hosts))
                order[[place, other]] = order[[other, place]]
        seen |= set(_edges(order))
    return np.array(sorted(seen), np.int64)


def _edges(order: Ints) -> list[tuple[int, int]]:
    pairs = zip(order.tolist(), np.roll(order, -1).tolist(), strict=True)
    return [(min(pair), max(pair)) for pair in pairs]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is broken: directions of links, and how much."""

    entity: str  # "" : nothing
    way: str = ""
    directions: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    loss: float = 0.0
    queue_ns: float = 0.0
    stalls: int = -1  # host that stands still now and then


@dataclass(frozen=True, slots=True)
class Noise:
    """What happens in a fabric where nothing is broken."""

    loss: float = 1e-5  # of any probe
    bursts_per_s: float = 0.05  # a queue of one link that overflows once
    burst_loss: float = 0.05
    queue_ns: float = 300.0  # a link's mean, lognormal
    hot_share: float = 0.03  # links that are busy, 1 to 4 us
    clock_ns: float = 50.0
    packets_per_s: float = 100.0  # of an edge and direction: 50 pairs, over all its ports
    wrong_paths: float = 0.0  # share of paths that are told wrong


@dataclass(frozen=True, slots=True)
class Measured:
    """By path and slot of a second."""

    sent_PT: Floats
    lost_PT: Floats
    queue_PT: Floats
    wait_HT: Floats  # program's stamp less the kernel's of what came in
    arrival_HT: Floats  # queueing of what came in


def measured(made: Mesh, fault: Fault, noise: Noise, seconds: int, ports: int, rng: np.random.Generator) -> Measured:
    """What the mesh measures in so many seconds."""
    count, paths = 2 * len(made.links), len(made.src_P)
    loss_D = np.zeros(count)
    loss_D[fault.directions] = -np.log1p(-min(fault.loss, 0.999999))
    sent = np.full((paths, seconds), round(noise.packets_per_s / ports), np.int64)
    log_PT = np.repeat((_over(made, loss_D) - np.log1p(-noise.loss))[:, None], seconds, axis=1)
    for slot in np.flatnonzero(rng.random(seconds) < noise.bursts_per_s).tolist():
        burst_D = np.zeros(count)
        burst_D[rng.integers(0, count)] = -np.log1p(-noise.burst_loss)
        log_PT[:, slot] += _over(made, burst_D)
    queue_D = noise.queue_ns * np.exp(0.5 * rng.standard_normal(count))
    hot = rng.random(count) < noise.hot_share
    queue_D[hot] = rng.uniform(1000, 4000, int(hot.sum()))
    queue_D[fault.directions] += fault.queue_ns
    wave_T = np.exp(0.3 * rng.standard_normal((count, seconds)))
    queue_PT = np.stack([_over(made, queue_D * wave_T[:, t]) for t in range(seconds)], axis=1)
    queue_PT += noise.clock_ns * rng.standard_normal(queue_PT.shape)
    wait_HT = rng.lognormal(np.log(20_000), 0.5, (made.hosts, seconds))
    if fault.stalls >= 0:
        # Stands still 200 ms of every third second: sends nothing meanwhile, and its socket overflows a little.
        slots = np.arange(seconds) % 3 == 1
        wait_HT[fault.stalls, slots] = rng.uniform(50e6, 200e6, int(slots.sum()))
        mine = np.ix_(made.src_P == fault.stalls, slots)
        sent[mine] = np.rint(sent[mine] * 0.8).astype(np.int64)
        log_PT[np.ix_(made.dst_P == fault.stalls, slots)] += 0.05
    lost = rng.binomial(sent, -np.expm1(-log_PT))
    queue_PT[lost == sent] = np.nan
    came_PT = np.nan_to_num(queue_PT)
    sums = [np.bincount(made.dst_P, came_PT[:, slot], made.hosts) for slot in range(seconds)]
    arrival_HT = np.stack(sums, axis=1) / np.bincount(made.dst_P, minlength=made.hosts)[:, None]
    return Measured(sent.astype(float), lost.astype(float), queue_PT, wait_HT, arrival_HT)


def _over(made: Mesh, value_D: Floats) -> Floats:
    """Sums along paths."""
    padded = np.r_[value_D, 0.0]
    found: Floats = padded[made.path_PX].sum(axis=1)  # -1 is the last: nothing
    return found


def misled(made: Mesh, share: float, rng: np.random.Generator) -> Classes:
    """Classes by paths of which a share is told wrong: as another path between other hosts of the same pods goes."""
    if not share:
        return made.told
    path = made.path_PX.copy()
    wrong = rng.random(len(path)) < share
    middle = rng.permutation(np.flatnonzero(wrong))
    path[np.flatnonzero(wrong), 1:5] = path[middle, 1:5]
    return classes(path, made.links, made.switches)
