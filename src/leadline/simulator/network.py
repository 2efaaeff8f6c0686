"""What links carry and how long it takes: shares of flows, volumes, transfers with their overhead. Pure numpy.

    flows' paths + LinkState --max_min_rates--> rate of each flow --transfer_ns--> time of a message
                              --link_bytes----> volume of each direction of each link

Axes: F = flow, X = hop of a path, D = direction of a link (see `fabric`), L = link. Rates in bit/s, times in ns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leadline.lab.topology import Topology
from leadline.simulator.fabric import Bools, Fabric, Floats, Ints

ROUNDS_MAX = 10_000  # of filling; each freezes at least one bottleneck
RTO_S = 0.2  # Linux: least time until TCP sends again what nobody acknowledged
MERGING_MAX = 3


@dataclass(frozen=True, slots=True)
class Transport:
    """What it costs to carry bytes, beyond the line's rate."""

    segment_bytes: int  # payload of a full frame
    header_bytes: int  # the rest of the frame, as counters count it
    ack_share: float  # bytes that come back for each byte of the wire
    message_ns: float  # of a message that goes, comes and wakes somebody, however short
    byte_ns: float  # what a byte costs where the line is faster than the machine
    burst_s: float  # a port may be so far ahead of its rate: the token bucket of a shaped port
    rtt_ns: float  # without queues
    window_bytes: float  # that may be under way at the start
    loss_driven: bool  # whether loss bounds the rate as in TCP
    merge_share: float = 0.0  # time that a full port loses for each further sender, see `merged`

    @property
    def header_share(self) -> float:
        """Bytes of the wire for each byte of payload, less 1."""
        return self.header_bytes / self.segment_bytes

    def wire_bytes(self, payload: Floats | float) -> Floats | float:
        """Bytes that counters of a port see for so many bytes of long messages."""
        return payload * (1.0 + self.header_share)


# The lab: TCP over veth with MTU 4200 (4148 bytes and 66 of Ethernet, IPv4, TCP with time stamps; 2 ms of burst as in
# `realise.plan`). `calibration.FITTED` holds what was measured; docs/lab/calibration.md how.
LAB_TCP = Transport(4148, 66, 0.0078, 176_000.0, 0.0, 0.002, 60_000.0, 41_480.0, True, 0.06)
# RoCEv2 at 400 Gbit/s, of the order of public figures: 4096 bytes and 82 of headers, some microseconds a message, no
# slow start; a lost packet costs go-back-N, see `_goodput`.
ROCE = Transport(4096, 82, 0.001, 6_000.0, 0.0, 0.0, 12_000.0, 1e12, False)


@dataclass(frozen=True)
class LinkState:
    """How the links are for a while. Arrays over links (both directions alike) or over directions (2 L).

    `background_bps_L`: what others send there; `loss_L`: share of packets lost; `up_L`: has a carrier.
    """

    capacity_bps_L: Floats
    background_bps_L: Floats
    loss_L: Floats
    up_L: Bools
    fabric: Fabric
    queue_bytes: float = 250_000.0
    transport: Transport = LAB_TCP

    @property
    def free_bps_D(self) -> Floats:
        """What is left of each direction; a fair share at least, for background yields too. 0 where it is down."""
        capacity_D = self.by_direction(self.capacity_bps_L)
        free_D = np.maximum(capacity_D - self.by_direction(self.background_bps_L), 0.02 * capacity_D)
        return np.where(self.up_D, free_D, 0.0)

    @property
    def up_D(self) -> Bools:
        """Whether each direction has a carrier."""
        both: Bools = self.by_direction(self.up_L.astype(np.float64)) > 0
        return both

    def by_direction(self, value_L: Floats) -> Floats:
        """An array over directions of one over links."""
        return value_L if len(value_L) == 2 * self.fabric.links else np.concatenate((value_L, value_L))

    def rates(self, path_FX: Ints, limit_bps_F: Floats | None = None) -> Floats:
        """Bit/s of flows that all want as much as they get; inf where they cross nothing. See `max_min_rates`."""
        loss_F = path_loss(path_FX, self.by_direction(self.loss_L))
        return _goodput(max_min_rates(path_FX, self.free_bps_D, limit_bps_F), loss_F, self.transport)

    def collective_rates(self, path_FX: Ints, source_F: Ints) -> Floats:
        """The same for the flows of one collective, which wait for each other; `source_F`: who sends each."""
        loss_F = path_loss(path_FX, self.by_direction(self.loss_L))
        fair_F = max_min_rates(path_FX, self.free_bps_D)
        return _goodput(merged(path_FX, source_F, fair_F, self.free_bps_D, self.transport), loss_F, self.transport)


def still(fabric: Fabric, capacity_bps_L: Floats, transport: Transport = LAB_TCP) -> LinkState:
    """Links that all are well and carry nothing else."""
    zero = np.zeros(len(capacity_bps_L))
    return LinkState(capacity_bps_L, zero, zero, np.ones(len(capacity_bps_L), bool), fabric, transport=transport)


def state_of(topology: Topology, fabric: Fabric) -> LinkState:
    """The links of a lab as its topology sets them."""
    state = still(fabric, np.array([float(link.rate_bps) for link in topology.links]))
    return replace(state, queue_bytes=float(topology.shape.queue_bytes))


def max_min_rates(path_FX: Ints, capacity_bps_D: Floats, limit_bps_F: Floats | None = None) -> Floats:
    """Max-min fair rates of flows, (F,) bit/s: nobody can get more without somebody smaller getting less.

    Inputs: directions that each flow crosses (F, X), -1 for none; capacities (D,); what a flow wants at most (F,).
    Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), all local bottlenecks at once: a link whose
    share is the smallest on the path of each of its flows cannot get a larger one later, so they are settled together.
    A flow that crosses nothing gets its limit, inf without one.
    """
    limit_F = np.full(len(path_FX), np.inf) if limit_bps_F is None else limit_bps_F.astype(np.float64)
    rate_F = limit_F.copy()
    crossed_FX = path_FX >= 0
    open_F: Bools = np.asarray(crossed_FX.any(axis=1), bool)
    left_D = capacity_bps_D.astype(np.float64)
    for _ in range(ROUNDS_MAX):
        flow = np.flatnonzero(open_F)
        if not len(flow):
            return rate_F
        mask = crossed_FX[flow]
        row, link = np.nonzero(mask)[0], path_FX[flow][mask]
        count_D = np.bincount(link, minlength=len(left_D))
        share_D = np.where(count_D > 0, np.maximum(left_D, 0.0) / np.maximum(count_D, 1), np.inf)
        least = limit_F[flow].copy()
        np.minimum.at(least, row, share_D[link])
        lowest_D = np.full(len(left_D), np.inf)
        np.minimum.at(lowest_D, link, least[row])
        settled = least >= limit_F[flow]  # gets all it wants: shares only grow
        bottleneck = lowest_D[link] >= share_D[link] * (1 - 1e-9)
        settled[row[bottleneck]] = True
        rate_F[flow[settled]] = least[settled]
        taken = settled[row]
        left_D -= np.bincount(link[taken], weights=least[row[taken]], minlength=len(left_D))
        open_F = _without(open_F, flow[settled])
    raise AssertionError("progressive filling did not end")


def _without(open_F: Bools, gone: Ints) -> Bools:
    left = open_F.copy()
    left[gone] = False
    return left


def merged(path_FX: Ints, source_F: Ints, rate_F: Floats, capacity_bps_D: Floats, transport: Transport) -> Floats:
    """Rates of flows less what full ports lose where several senders merge, (F,).

    Drops of a shared queue hit one sender at a time, and a synchronous collective waits for it. At most
    `MERGING_MAX` further senders count: with more of them the losses even out.
    """
    crossed = path_FX >= 0
    flow, link = np.nonzero(crossed)[0], path_FX[crossed]
    if not transport.merge_share or not len(flow):
        return rate_F
    pair = np.unique(link * (int(source_F.max()) + 1) + source_F[flow]) // (int(source_F.max()) + 1)
    more_D = np.minimum(np.bincount(pair, minlength=len(capacity_bps_D)) - 1, MERGING_MAX)
    used_D = np.bincount(link, weights=rate_F[flow], minlength=len(capacity_bps_D))
    full_D = (used_D >= 0.95 * capacity_bps_D) & (more_D > 0)
    cost_D = np.where(full_D, 1.0 + transport.merge_share * more_D, 1.0)
    worst_F = np.ones(len(rate_F))
    np.maximum.at(worst_F, flow, cost_D[link])
    found: Floats = rate_F / worst_F
    return found


def path_loss(path_FX: Ints, loss_D: Floats) -> Floats:
    """Share of a flow's packets that is lost somewhere on its path, (F,)."""
    kept_FX = np.where(path_FX >= 0, 1.0 - loss_D[np.maximum(path_FX, 0)], 1.0)
    found: Floats = 1.0 - kept_FX.prod(axis=1)
    return found


def _goodput(rate_F: Floats, loss_F: Floats, transport: Transport) -> Floats:
    """What is left of a rate when so many packets are lost.

    TCP: Padhye et al., "Modeling TCP Throughput", SIGCOMM 1998, eq. 30 without delayed acknowledgements: above a few
    per cent the time-outs decide. RoCE sends again from the lost packet on (go-back-N), all that was under way.
    """
    # A flow inside a host has a rate without bounds and loses nothing; one behind a dead link has none.
    lossy_F = (loss_F > 0) & (loss_F < 1) & (rate_F > 0)
    found = np.where(loss_F >= 1, 0.0, rate_F)
    found[lossy_F] = _left(rate_F[lossy_F], loss_F[lossy_F], transport)
    return found


def _left(rate_F: Floats, loss_F: Floats, transport: Transport) -> Floats:
    if transport.loss_driven:
        timeout_s = RTO_S * np.minimum(1.0, 3 * np.sqrt(3 * loss_F / 8)) * loss_F * (1 + 32 * loss_F**2)
        segment_s = transport.rtt_ns / 1e9 * np.sqrt(2 * loss_F / 3) + timeout_s
        return np.asarray(np.minimum(rate_F, 8 * transport.segment_bytes / segment_s))
    packet_ns = 8e9 * transport.segment_bytes / rate_F
    under_way = np.maximum(1.0, transport.rtt_ns / packet_ns)
    found: Floats = rate_F * (1.0 - loss_F) / (1.0 - loss_F + loss_F * under_way)
    return found


def link_bytes(path_FX: Ints, bytes_F: Floats, directions: int, transport: Transport = LAB_TCP) -> Floats:
    """Bytes that each direction carries, (D,), as counters of ports see them: headers and acknowledgements included.

    Acknowledgements are taken to come back over the same links. Retransmissions are not in it.
    """
    crossed = path_FX >= 0
    wire_FX = np.broadcast_to((bytes_F * (1.0 + transport.header_share))[:, None], path_FX.shape)
    there_D = np.bincount(path_FX[crossed], weights=wire_FX[crossed], minlength=directions)
    back_D = np.roll(there_D, directions // 2)
    found: Floats = there_D + transport.ack_share * back_D
    return found


def transfer_ns(size_bytes: Floats, rate_bps: Floats, transport: Transport = LAB_TCP) -> Floats:
    """Time of one message on a connection that was idle before, ns.

    Its overhead, the rounds of slow start until the line is full, and its bytes with headers at `rate_bps`.
    """
    rate = np.asarray(rate_bps, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        bytes_ns = np.where(np.isinf(rate), 0.0, 8e9 * np.asarray(transport.wire_bytes(size_bytes)) / rate)
        pipe = np.minimum(size_bytes, rate / 8e9 * transport.rtt_ns)
    rounds = np.log2(np.maximum(1.0, pipe / transport.window_bytes))
    found: Floats = transport.message_ns + transport.byte_ns * size_bytes + rounds * transport.rtt_ns + bytes_ns
    return found


def shaped_ns(
    wire_bytes: Floats | float, rate_bps: Floats | float, idle_ns: Floats | float, least_ns: Floats | float,
    transport: Transport,
) -> Floats:  # fmt: skip
    """Time that bytes take through shaped ports: their own cost, or the rate less what the token bucket forgives.

    Inputs: bytes of the wire; the port's rate; how long it was idle before (the bucket fills meanwhile); what they
    would take through an infinitely fast port. Gaps of less than the bucket do not cost: the port catches up.
    """
    rate = np.maximum(np.asarray(rate_bps, np.float64), 1.0)
    forgiven_ns = np.minimum(transport.burst_s * 1e9, np.maximum(idle_ns, 0.0))
    line_ns = np.where(np.isinf(rate), 0.0, 8e9 * np.asarray(wire_bytes) / rate - forgiven_ns)
    found: Floats = np.maximum(least_ns, line_ns)
    return found
