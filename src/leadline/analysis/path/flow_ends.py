"""Which rank sends a flow and which receives it, once it is known whose job it is of.

owner of the queue pair                             receives
claims the five-tuple, runs where the address is    is at that end
the only rank of the job on the host of an address  is at that end, if nobody else is
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.path.claimed import NOBODY, SEVERAL, SLACK_NS, Ends, Pairs, SeenFlows, one_of, pair_keys
from leadline.analysis.path.claims import OPEN, gap_ns, matched
from leadline.analysis.path.ownership import Claims, Ranks

ROCE_PORT = 4791


def only(pairs: Pairs, flows: int) -> Ints:
    """The one rank whose claims on a flow are nearest in time."""
    best_F = np.full(flows, OPEN, np.int64)
    np.minimum.at(best_F, pairs.flow_P, pairs.gap_ns_P)
    near = pairs.where(pairs.gap_ns_P == best_F[pairs.flow_P])
    return one_of(near.flow_P, near.rank_P, flows)


def placed(pairs: Pairs, ranks: Ranks, flows: SeenFlows, ends: Ends, dst_F: Ints) -> tuple[Ints, Ints]:
    """Sending and receiving rank of each flow, as far as ranks that claim it tell by where they run.

    A rank whose host is not known, or whose flow's addresses are not, sends if it does not receive, over RoCEv2: there
    only the sender says that a flow is its own, or both do, and the receiver has the queue pair.
    """
    tuples = pairs.where(~pairs.receives_P)
    place_N, row_N = matched(tuples.rank_P, ranks.rank_H)
    at_ns_N = flows.at_ns_F[tuples.flow_P[place_N]]
    holds = gap_ns(at_ns_N, ranks.from_ns_H[row_N], ranks.to_ns_H[row_N]) <= SLACK_NS
    place_N, host_N = place_N[holds], ranks.host_H[row_N[holds]]
    at_src_P, at_dst_P, somewhere_P = (np.zeros(len(tuples.flow_P), bool) for _ in range(3))
    somewhere_P[place_N] = True
    at_src_P[place_N[host_N == ends.src_host_F[tuples.flow_P[place_N]]]] = True
    at_dst_P[place_N[host_N == ends.dst_host_F[tuples.flow_P[place_N]]]] = True
    received_P = tuples.rank_P == dst_F[tuples.flow_P]
    roce_P = flows.dst_qp_F[tuples.flow_P] >= 0
    nowhere_P = ~somewhere_P | (ends.src_host_F[tuples.flow_P] < 0)
    sends_P = (at_src_P & ~(at_dst_P & received_P)) | (nowhere_P & roce_P & ~received_P & ~at_dst_P)
    sends_P &= (dst_F[tuples.flow_P] >= 0) | at_src_P
    src_F = only(tuples.where(sends_P), len(flows))
    by_host_F = only(tuples.where(at_dst_P & ~(at_src_P & (tuples.rank_P == src_F[tuples.flow_P]))), len(flows))
    return src_F, np.where(dst_F == NOBODY, by_host_F, dst_F)


def comms_of(claims: Claims, flows: SeenFlows, ends: Ends) -> tuple[Ints, Ints]:
    """(flow, communicator) of flows whose queue pair is told to belong to one."""
    flow_P, row_P = matched(*pair_keys(flows, ends, claims.address_Q, claims.number_Q))
    return flow_P, claims.comm_Q[row_P]


def by_address(
    ranks: Ranks, owner_F: Ints, host_F: Ints, at_ns_F: Ints, comms: tuple[Ints, Ints], rank_F: Ints
) -> Ints:
    """Ranks where none is known yet: the only one of the job on the host, or the only one in the communicator there."""
    open_ones = np.flatnonzero((rank_F == NOBODY) & (owner_F >= 0) & (host_F >= 0))
    hosts = len(ranks.hosts)
    wanted = owner_F[open_ones] * hosts + host_F[open_ones]
    place_N, row_N = matched(wanted, ranks.owner_R[ranks.rank_H] * hosts + ranks.host_H)
    flow_N = open_ones[place_N]
    holds = gap_ns(at_ns_F[flow_N], ranks.from_ns_H[row_N], ranks.to_ns_H[row_N]) <= SLACK_NS
    flow_N, rank_N = flow_N[holds], ranks.rank_H[row_N[holds]]
    found_F = one_of(flow_N, rank_N, len(rank_F))
    crowded = found_F[flow_N] == SEVERAL
    member = _members(ranks, flow_N[crowded], rank_N[crowded], comms)
    narrowed_F = one_of(flow_N[crowded][member], rank_N[crowded][member], len(rank_F))
    found_F = np.where(found_F == SEVERAL, narrowed_F, found_F)
    return np.where(rank_F == NOBODY, found_F, rank_F)


def _members(ranks: Ranks, flow_N: Ints, rank_N: Ints, comms: tuple[Ints, Ints]) -> Bools:
    """Whether each rank is in a communicator of each flow."""
    count = 1 + max(int(ranks.comm_M.max(initial=0)), int(comms[1].max(initial=0)))
    place_P, row_P = matched(flow_N, comms[0])
    told = np.isin(rank_N[place_P] * count + comms[1][row_P], ranks.rank_M * count + ranks.comm_M)
    found = np.zeros(len(flow_N), bool)
    found[place_P[told]] = True
    return found


def answers(flows: SeenFlows, ends: Ends, owner_F: Ints, src_F: Ints, dst_F: Ints) -> tuple[Ints, Ints, Ints]:
    """The same with RoCEv2 flows that nobody owns, but which answer one that somebody does.

    Both ends of a connection use one UDP source port (Linux, rdma_calc_flow_label), so an acknowledgement goes back to
    the sender's address with the source port of what it acknowledges; its own queue pair is the sender's.
    """
    roce_F = (flows.dst_qp_F >= 0) & (flows.dst_port_F == ROCE_PORT) & (ends.src_F >= 0) & (ends.dst_F >= 0)
    free, owned = np.flatnonzero(roce_F & (owner_F == NOBODY)), np.flatnonzero(roce_F & (owner_F >= 0))
    addresses = len(ends.addresses)
    back = (ends.dst_F[free] * addresses + ends.src_F[free]) * 65536 + flows.src_port_F[free]
    there = (ends.src_F[owned] * addresses + ends.dst_F[owned]) * 65536 + flows.src_port_F[owned]
    place_P, other_P = matched(back, there)
    flow_P, other_P = free[place_P], owned[other_P]
    found_F = one_of(flow_P, owner_F[other_P], len(owner_F))
    one = found_F[flow_P] >= 0
    flow_P, other_P = flow_P[one], other_P[one]
    sender_F = one_of(flow_P, dst_F[other_P], len(owner_F))
    receiver_F = one_of(flow_P, src_F[other_P], len(owner_F))
    answers_F = found_F >= 0
    return (
        np.where(answers_F, found_F, owner_F),
        np.where(answers_F, sender_F, src_F),
        np.where(answers_F, receiver_F, dst_F),
    )
