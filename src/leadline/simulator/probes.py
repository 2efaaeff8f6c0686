"""Traces of a probe mesh with their truth: pairs of packets both ways on each edge, delays as measured. Pure, seeded.

    schedule ──> sent ──> floor + queue + path of code ──> received ──> stamps by each end's clock

Delays are those of kernel stamps on virtual Ethernet: the first packet of a pair finds cold code and is slow (0.2 %
within 200 ns of the floor), the second is fast (18 %). A queue is the work that waits at the receiver's port: bursts of
other traffic come at random, and packets wait for it. Stamps of the user's program have a distribution of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leadline.simulator.fabric import Bools, Floats, Ints
from leadline.simulator.oscillators import S_NS, Oscillators

# ns above the floor by quantile, idle: shares within 200 ns, medians and the tail as measured on virtual Ethernet.
FIRST = ((0.0, 0.002, 0.1, 0.5, 0.9, 0.99, 1.0), (0.0, 200.0, 1_900.0, 4_067.0, 7_500.0, 18_000.0, 150_000.0))
SECOND = ((0.0, 0.18, 0.5, 0.9, 0.99, 1.0), (0.0, 200.0, 1_167.0, 4_000.0, 13_000.0, 120_000.0))
USER = ((0.0, 0.1, 0.5, 0.9, 0.99, 1.0), (0.0, 6_069.0, 17_075.0, 41_582.0, 241_038.0, 2_000_000.0))
FLOOR_NS, USER_FLOOR_NS = 2_084.0, 6_710.0


@dataclass(frozen=True, slots=True)
class Load:
    """Other traffic at the ports of receivers: the share of time that they are busy, and the length of bursts."""

    busy_ratio: float
    burst_ns: float


IDLE = Load(0.0, 1.0)
# Of it come the median, 90th and 99th percentile of delays measured at "80 %" (6.6 us, 1.6 ms, 4.7 ms).
MEASURED = Load(0.33, 900_000.0)
HEAVY = Load(0.85, 480_000.0)  # ports that are busy 85 % of the time, bursts of 8 packets at 200 Mbit/s


@dataclass(frozen=True, slots=True)
class Pause:
    """A host stands still: it sends nothing, and stamps what comes when it goes on."""

    host: int
    at_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Lie:
    """A host says later send times than true, from some time on."""

    host: int
    at_s: float
    by_ns: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """What traces are made of, beside clocks."""

    load: Load = IDLE
    pairs_per_s: float = 50.0
    spacing_ns: float = 20_000.0
    jitter_ns: float = 20.0  # of a reading, uniform
    uneven_ns: float = 4.0  # half the difference of both ways' floors, standard deviation over edges
    late_ratio: float = 0.0  # of transmit stamps
    late_ns: float = 300.0  # mean of the exponential
    biased_ratio: float = 0.0  # of edges
    biased_ns: float = 1_000.0  # in the offset: one way takes twice this longer
    lost_ratio: float = 0.0
    user: bool = False  # stamps of the user's program
    pauses: Sequence[Pause] = ()
    lies: Sequence[Lie] = ()


@dataclass(frozen=True, slots=True)
class Traces:
    """N packets that arrived, by edge, way and arrival; E edges, whose offsets are of `dst_E` above `src_E`."""

    src_E: Ints
    dst_E: Ints
    biased_E: Bools  # truth
    edge_N: Ints
    forward_N: Bools  # from the edge's source to its destination
    pair_N: Ints
    position_N: Ints  # 0 or 1
    tx_ns_N: Ints  # stamps, on the clocks of those who made them
    rx_ns_N: Ints
    true_tx_ns_N: Ints  # truth
    true_rx_ns_N: Ints
    start_N: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # (2 E + 1,): rows of edge e, way f: 2 e + f


def regular_edges(hosts: int, degree: int, seed: int) -> tuple[Ints, Ints]:
    """Edges (src, dst) of a random graph of about this degree: rings in random order. All pairs if hosts are few."""
    if hosts <= degree + 1:
        src, dst = np.triu_indices(hosts, 1)
        return src.astype(np.int64), dst.astype(np.int64)
    rng = np.random.default_rng([seed, 32])
    if hosts <= _FEW:  # rings in random order would share edges: one ring, and steps of several lengths along it
        others = 2 + rng.permutation((hosts - 1) // 2 - 1)[: degree // 2 - 1]
        ring, steps = rng.permutation(hosts), np.append(others, 1)
        rings = [np.stack([ring, np.roll(ring, step)], axis=1) for step in steps.tolist()]
    else:
        orders = [rng.permutation(hosts) for _ in range(degree // 2)]
        rings = [np.stack([order, np.roll(order, 1)], axis=1) for order in orders]
    ends = np.unique(np.sort(np.concatenate(rings), axis=1), axis=0)
    flip = rng.random(len(ends)) < 0.5
    return np.where(flip, ends[:, 1], ends[:, 0]), np.where(flip, ends[:, 0], ends[:, 1])


_FEW = 64  # hosts


def traces(clocks: Oscillators, src_E: Ints, dst_E: Ints, seconds: float, how: Conditions, seed: int) -> Traces:
    """Probes of all edges over some seconds since the clocks' start."""
    rng = np.random.default_rng([seed, 33])
    edges, pairs = len(src_E), int(seconds * how.pairs_per_s)
    biased_E = rng.random(edges) < how.biased_ratio
    longer_E = np.where(rng.random(edges) < 0.5, 1, -1) * biased_E
    uneven_E = np.clip(rng.normal(0, how.uneven_ns, edges), -15, 15)
    # Axes: edge, way, pair, position of the packet in it.
    shape = (edges, 2, pairs, 2)
    period = S_NS / how.pairs_per_s
    at = (np.arange(pairs)[None, None, :, None] + rng.uniform(0, 0.2, (edges, 2, pairs, 1))) * period
    at = at + rng.uniform(0, period, (edges, 2, 1, 1))
    gap = rng.uniform(0.95, 1.1, (edges, 2, pairs, 1)) * how.spacing_ns * np.array([0, 1])
    sent = np.rint(at + gap).ravel()
    edge_N, way_N, pair_N, position_N = (each.ravel() for each in np.indices(shape, np.int64))
    forward_N = way_N == 1
    from_N, to_N = np.where(forward_N, src_E[edge_N], dst_E[edge_N]), np.where(forward_N, dst_E[edge_N], src_E[edge_N])
    sign_N = np.where(forward_N, 1, -1)
    floor_N = (USER_FLOOR_NS if how.user else FLOOR_NS) + uneven_E[edge_N] * sign_N
    floor_N += 2 * how.biased_ns * (longer_E[edge_N] == sign_N)
    draw_N = rng.random(len(sent))
    if how.user:
        code_N = np.interp(draw_N, *USER)
    else:
        code_N = np.where(position_N == 0, np.interp(draw_N, *FIRST), np.interp(draw_N, *SECOND))
    queue_N = _waits(to_N, sent, seconds, how.load, rng)
    got = np.rint(sent + floor_N + code_N + queue_N)
    keep_N = (rng.random(len(sent)) >= how.lost_ratio) & (sent < seconds * S_NS)
    for pause in how.pauses:
        begin, end = pause.at_s * S_NS, (pause.at_s + pause.lasts_s) * S_NS
        keep_N &= ~((from_N == pause.host) & (sent >= begin) & (sent < end))
        got = np.where((to_N == pause.host) & (got >= begin) & (got < end), end + rng.uniform(0, 5e4, len(got)), got)
    got = np.rint(got)
    late_N = np.where(rng.random(len(sent)) < how.late_ratio, rng.exponential(how.late_ns, len(sent)), 0.0)
    jitter_N2 = rng.uniform(0, how.jitter_ns, (2, len(sent)))
    true_tx_N, true_rx_N = (clocks.start_ns + each.astype(np.int64) for each in (sent, got))
    tx_N = clocks.shown(from_N, true_tx_N) + np.rint(late_N + jitter_N2[0]).astype(np.int64)
    rx_N = clocks.shown(to_N, true_rx_N) + np.rint(jitter_N2[1]).astype(np.int64)
    for lie in how.lies:
        tx_N = tx_N + np.where((from_N == lie.host) & (sent >= lie.at_s * S_NS), lie.by_ns, 0)
    rows = np.flatnonzero(keep_N)
    group_N = 2 * edge_N + way_N
    rows = rows[np.lexsort((true_rx_N[rows], group_N[rows]))]
    start_N = np.searchsorted(group_N[rows], np.arange(2 * edges + 1))
    return Traces(
        src_E, dst_E, biased_E, edge_N[rows], forward_N[rows], pair_N[rows], position_N[rows], tx_N[rows], rx_N[rows],
        true_tx_N[rows], true_rx_N[rows], start_N.astype(np.int64),
    )  # fmt: skip


def _waits(to_N: Ints, sent_N: Floats, seconds: float, load: Load, rng: np.random.Generator) -> Floats:
    """How long packets wait for the work at their receivers' ports, ns (Lindley's recursion, from the right)."""
    wait_N = np.zeros(len(sent_N))
    if load.busy_ratio <= 0:
        return wait_N
    for host in np.unique(to_N):
        bursts = int(seconds * S_NS * load.busy_ratio / load.burst_ns * 1.2) + 10
        gap_B = rng.exponential(load.burst_ns / load.busy_ratio, bursts)
        work_B = rng.exponential(load.burst_ns, bursts)
        at_B = gap_B.cumsum()
        # Work that waits right after burst b: all that came less the time, above the lowest that this was before one.
        came_B = work_B.cumsum()
        waiting_B = came_B - at_B - np.minimum.accumulate(came_B - work_B - at_B)
        mine_N = np.flatnonzero(to_N == host)
        last_N = np.searchsorted(at_B, sent_N[mine_N], side="right") - 1
        left_N = waiting_B[np.maximum(last_N, 0)] - (sent_N[mine_N] - at_B[np.maximum(last_N, 0)])
        wait_N[mine_N] = np.where(last_N >= 0, np.maximum(left_N, 0.0), 0.0)
    return wait_N
