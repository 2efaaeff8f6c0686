"""Which claims may be on which flows: five-tuples, answers to them, queue pairs; and the nearest of them in time.

flows --id------------------------> claims on flows        Axes: F = flow, C = claim, P = pair of the two
      --id of the reversed tuple--> claims on flows
      --destination, queue pair---> claims on queue pairs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Codes, Ids, Ints
from leadline.analysis.path.claims import OPEN, as_spelled, gap_ns, matched
from leadline.analysis.path.ownership import Claims, Ranks
from leadline.analysis.path.reverse import packed_addresses, reversed_ids, spelled

# A rank looks at its sockets every 10 s, so a flow may be sampled that long before it is announced; and a switch and
# its collector keep a sample for a second or so.
SLACK_NS = 15 * 10**9

NOBODY, SEVERAL = -1, -2


@dataclass(frozen=True, slots=True)
class SeenFlows:
    """Flows that were seen, arrays over F, in any order."""

    flow_F2: Ids
    src_ip_F: Codes
    dst_ip_F: Codes
    src_port_F: Ints
    dst_port_F: Ints
    protocol_F: Ints
    dst_qp_F: Ints  # -1: none
    at_ns_F: Ints  # mean time of its samples

    def __len__(self) -> int:
        return len(self.at_ns_F)


@dataclass(frozen=True, slots=True)
class Ends:
    """Addresses of the flows in one spelling, and the hosts that have them. -1: none is known."""

    addresses: list[str]
    src_F: Ints
    dst_F: Ints
    src_host_F: Ints
    dst_host_F: Ints


def ends_of(flows: SeenFlows, host_of_address: Mapping[str, str], hosts: list[str]) -> Ends:
    addresses, place_T = as_spelled([*flows.src_ip_F.names, *flows.dst_ip_F.names])
    sources = len(flows.src_ip_F.names)
    src_F = np.append(place_T[:sources], -1)[flows.src_ip_F.code_N]
    dst_F = np.append(place_T[sources:], -1)[flows.dst_ip_F.code_N]
    number = {host: place for place, host in enumerate(hosts)}
    host_of = {spelled(address): number.get(host, -1) for address, host in sorted(host_of_address.items())}
    host_A = np.array([host_of.get(address, -1) for address in addresses] + [-1], np.int64)
    return Ends(addresses, src_F, dst_F, host_A[src_F], host_A[dst_F])


@dataclass(frozen=True, slots=True)
class Pairs:
    """Claims that may hold for flows. Arrays over P."""

    flow_P: Ints
    claim_P: Ints
    rank_P: Ints
    owner_P: Ints
    gap_ns_P: Ints  # how far the claim's span is from the flow's time
    receives_P: Bools  # it is on the queue pair

    def where(self, chosen: Bools | Ints) -> Pairs:
        """Some of them."""
        return Pairs(
            self.flow_P[chosen], self.claim_P[chosen], self.rank_P[chosen], self.owner_P[chosen],
            self.gap_ns_P[chosen], self.receives_P[chosen],
        )  # fmt: skip


def claimed(claims: Claims, ranks: Ranks, flows: SeenFlows, ends: Ends) -> Pairs:
    """All claims that hold within the slack."""
    direct = same_id(flows.flow_F2, claims.flow_C2)
    paired = matched(*pair_keys(flows, ends, claims.address_C, claims.number_C))
    free_F = flows.dst_qp_F < 0
    free_F[direct[0]] = False
    answers = _answering(flows, np.flatnonzero(free_F), claims)
    flow_P = np.concatenate((direct[0], answers[0], paired[0]))
    claim_P = np.concatenate((direct[1], answers[1], paired[1] + claims.on_flows))
    gap_ns_P = gap_ns(flows.at_ns_F[flow_P], claims.from_ns_C[claim_P], claims.to_ns_C[claim_P])
    rank_P = claims.rank_C[claim_P]
    pairs = Pairs(flow_P, claim_P, rank_P, ranks.owner_R[rank_P], gap_ns_P, claim_P >= claims.on_flows)
    return pairs.where(gap_ns_P <= SLACK_NS)


def same_id(id_N2: Ids, id_M2: Ids) -> tuple[Ints, Ints]:
    """Places (n, m) of all pairs of equal 128-bit ids."""
    place_P, other_P = matched(id_N2[:, 0], id_M2[:, 0])
    same = np.flatnonzero(id_N2[place_P, 1] == id_M2[other_P, 1])
    return place_P[same], other_P[same]


def pair_keys(flows: SeenFlows, ends: Ends, address_C: pa.Array, number_C: Ints) -> tuple[Ints, Ints]:
    """Keys of (address, queue pair) of the flows and of what is claimed; negative ones meet nothing."""
    encoded = address_C.dictionary_encode()
    place = {name: number for number, name in enumerate(ends.addresses)}
    names = [place.get(spelled(name), -1) for name in encoded.dictionary.to_pylist()]
    address = np.array([*names, -1], np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    key_F = np.where((flows.dst_qp_F >= 0) & (ends.dst_F >= 0), ends.dst_F << 32 | np.maximum(flows.dst_qp_F, 0), -1)
    return key_F, np.where(address >= 0, address << 32 | number_C, -2)


def _answering(flows: SeenFlows, free: Ints, claims: Claims) -> tuple[Ints, Ints]:
    """Claims on the flows that these flows answer."""
    if not len(free):
        return free, free
    packed, known_A = packed_addresses([*flows.src_ip_F.names, *flows.dst_ip_F.names])
    sources = len(flows.src_ip_F.names)
    src, dst = flows.src_ip_F.code_N[free], flows.dst_ip_F.code_N[free]
    there = (src >= 0) & (dst >= 0)
    free, src, dst = free[there], src[there], dst[there] + sources
    both = known_A[src] & known_A[dst]
    free, src, dst = free[both], src[both], dst[both]
    answered = reversed_ids(
        packed[src], packed[dst], flows.src_port_F[free], flows.dst_port_F[free], flows.protocol_F[free]
    )
    place_P, claim_P = same_id(answered, claims.flow_C2)
    return free[place_P], claim_P


def nearest(pairs: Pairs, flows: int) -> tuple[Ints, Pairs]:
    """Owner of each flow, and the pairs of flows that two claim: as near in time, for different owners."""
    best_F = np.full(flows, OPEN, np.int64)
    np.minimum.at(best_F, pairs.flow_P, pairs.gap_ns_P)
    near = pairs.where(pairs.gap_ns_P == best_F[pairs.flow_P])
    owner_F = one_of(near.flow_P, near.owner_P, flows)
    return owner_F, near.where(owner_F[near.flow_P] == SEVERAL)


def one_of(flow_P: Ints, value_P: Ints, flows: int) -> Ints:
    """The value that all pairs of a flow have; NOBODY where it has none, SEVERAL where they differ."""
    least_F, most_F = np.full(flows, OPEN, np.int64), np.full(flows, NOBODY, np.int64)
    np.minimum.at(least_F, flow_P, value_P)
    np.maximum.at(most_F, flow_P, value_P)
    return np.where(most_F == NOBODY, NOBODY, np.where(least_F == most_F, most_F, SEVERAL))
