"""How many bytes a flow carried over each link in a window, from sampled packets, with the error of sampling.

    sampled groups --flow with a path--> one estimate of all switches on it, told on all its links
                   --flow without one--> one estimate per link, of the switches at its ends

Every switch samples one packet in N by itself, so the number of samples is Poisson and its relative error is about
1 / sqrt(count): method, formulas and known weaknesses in docs/analyses/flow-volume.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.path.completeness import completeness
from leadline.analysis.path.pools import (
    PathEntries,
    SampledGroups,
    at_the_edge,
    by_link,
    by_switch,
    estimated,
    on_path,
    taken,
)

SURE = 0.975  # a link less likely than this may well not have been crossed at all: 0 is inside its interval
FRAME_BYTES_MIN = 64  # of Ethernet: what the largest frame is taken for where none was seen


@dataclass(frozen=True, slots=True)
class Volumes:
    """Bytes per flow and directed link (arrays over V, sorted by flow, link, sender), and per flow (arrays over F)."""

    flow_V: Ints
    link_V: Ints
    from_V: Ints  # index of the switch that sends into the link; -1: a host or storage does
    bytes_V: Floats
    low_V: Floats  # 95 % interval
    high_V: Floats
    flow_bytes_F: Floats  # NaN, and so its interval, where the flow has no usable sample
    flow_low_F: Floats
    flow_high_F: Floats


def volumes(groups: SampledGroups, entries: PathEntries, direct_F: Bools, tells_S: Bools, ends_L2: Ints) -> Volumes:
    """Bytes per flow and link with 95 % intervals.

    Inputs: sampled groups; the path of each flow that has one; `direct_F`: flows that are to be judged link by link
    (sprayed, moved, contradicted; entries of them are ignored), as flows without entries are; `tells_S`: switches whose
    silence about a flow means something; `ends_L2`: indices of the switches at both ends of each link (L, 2), -1 for a
    host or storage.
    Returns: a row for each entry of a flow with a path, and for each link and direction that a sample of another flow
    names. Bytes of frames as the switch tells their length: Ethernet header included, check sum and preamble not.
    Accuracy: unbiased; the interval holds the truth in at least 95 of 100 cases where packets are sampled independently
    (see docs/analyses/flow-volume.md for the measurement). A link that is crossed with probability p has p times the
    flow's bytes; its low end is 0 unless p is at least 0.975.
    Source: Phaal and Panchen, "Packet Sampling Basics" (sFlow.org); Horvitz and Thompson 1952; limits: `poisson`.
    """
    # The notification of a discarded packet is no sample: its rate is 1 whatever the switch's, and the packet may have
    # been sampled as well.
    groups = taken(groups, np.flatnonzero(~groups.dropped_G | (groups.rate_G > 1)))
    key_E3 = np.column_stack((entries.flow_E, entries.link_E, entries.from_E))
    entries = taken(entries, np.argsort(_place(key_E3, ends_L2), kind="stable"))
    chance_S = sampling_probability(groups, len(tells_S))
    steady = taken(entries, np.flatnonzero(~direct_F[entries.flow_E]))
    complete_S = completeness(groups, steady, chance_S, tells_S)
    # What is left of a switch's samples stands for more packets each.
    chance_S = chance_S * complete_S
    if (complete_S < 1).any():
        groups = replace(groups, rate_G=groups.rate_G / complete_S[groups.switch_G])
    frame_max, flows = largest_frame(groups), len(direct_F)
    whole = on_path(by_switch(groups, len(tells_S)), entries, chance_S, tells_S, flows)
    pathless_F = direct_F | (whole.chance_P <= 0)
    apart = _ordered(taken(groups, np.flatnonzero(pathless_F[groups.flow_G])))
    at_edge = estimated(at_the_edge(apart, chance_S, ends_L2, flows), frame_max)
    flow_F3 = np.where(pathless_F[:, None], at_edge, estimated(whole, frame_max))
    kept = taken(entries, np.flatnonzero(~pathless_F[entries.flow_E]))
    key_D3, direct = by_link(apart, chance_S, tells_S, ends_L2)
    key_V3 = np.concatenate((np.column_stack((kept.flow_E, kept.link_E, kept.from_E)), key_D3))
    value_V3 = np.concatenate((_on_links(kept, flow_F3), estimated(direct, frame_max)))
    order = np.argsort(_place(key_V3, ends_L2), kind="stable")  # two sorted runs: fast
    return Volumes(*key_V3[order].T, *value_V3[order].T, *flow_F3.T)


def _on_links(entries: PathEntries, flow_F3: Floats) -> Floats:
    """(E, 3): bytes, low and high of each entry, from those of its flow: all of them with its probability, or none."""
    value_E3: Floats = flow_F3[entries.flow_E]
    value_E3[:, 0] *= entries.probability_E
    sure_E = entries.probability_E >= SURE
    value_E3[:, 1] = np.where(sure_E, np.minimum(value_E3[:, 1], value_E3[:, 0]), 0.0)
    return value_E3


def sampling_probability(groups: SampledGroups, switches: int) -> Floats:
    """Probability with which each switch sampled a packet in this window, (S,); 0 for those that sampled none.

    Where the rate changed it is the mean over packets: samples by the packets that they stand for.
    """
    samples_S = np.bincount(groups.switch_G, groups.samples_G, switches)
    stood_for_S = np.bincount(groups.switch_G, groups.samples_G * np.maximum(groups.rate_G, 1.0), switches)
    found: Floats = samples_S / np.maximum(stood_for_S, 1)
    return found


def largest_frame(groups: SampledGroups) -> float:
    """About the length of the longest frame in the window: any flow may hide a few such that were not sampled."""
    mean_G = groups.squares_G / np.maximum(groups.bytes_G, 1)  # weighted by length; of one sample it is its length
    return float(max(mean_G.max(initial=0), FRAME_BYTES_MIN))


def undirected(found: Volumes) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    """(flow, link, bytes, low, high) with both directions of a link together: one row for each flow and link."""
    new_V = np.ones(len(found.flow_V), bool)
    new_V[1:] = (np.diff(found.flow_V) != 0) | (np.diff(found.link_V) != 0)
    first = np.flatnonzero(new_V)
    value_V3 = np.column_stack((found.bytes_V, found.low_V, found.high_V))
    value_U3 = np.add.reduceat(value_V3, first) if len(first) else value_V3
    return found.flow_V[first], found.link_V[first], value_U3[:, 0], value_U3[:, 1], value_U3[:, 2]


def busiest(found: Volumes, flows: int) -> tuple[Ints, Floats]:
    """(link, bytes), both (F,): of the links that each flow crossed, the one with most bytes of all flows that way.

    -1 and NaN where a flow has no volume. Of equal links the first. Only where a flow really went counts: links of
    alternatives that together are less likely than not are left out by what they carry of it, half of its most.
    """
    link_F, most_F = np.full(flows, -1, np.int64), np.full(flows, np.nan)
    if not len(found.flow_V):
        return link_F, most_F
    senders = int(found.from_V.max()) + 2
    _, way_V = np.unique(found.link_V * senders + found.from_V + 1, return_inverse=True)
    load_V = np.bincount(way_V, found.bytes_V)[way_V]
    own_F = np.zeros(flows)
    np.maximum.at(own_F, found.flow_V, found.bytes_V)
    there = np.flatnonzero((found.bytes_V > 0) & (2 * found.bytes_V >= own_F[found.flow_V]))
    order = there[np.lexsort((found.link_V[there], -load_V[there], found.flow_V[there]))]
    flow, first = np.unique(found.flow_V[order], return_index=True)
    link_F[flow], most_F[flow] = found.link_V[order[first]], load_V[order[first]]
    return link_F, most_F


def _place(key_V3: Ints, ends_L2: Ints) -> Ints:
    """One number for each (flow, link, sender), in their order."""
    flow_V, link_V, from_V = key_V3.T
    found: Ints = (flow_V * len(ends_L2) + link_V) * (int(ends_L2.max(initial=0)) + 2) + from_V + 1
    return found


def _ordered(groups: SampledGroups) -> SampledGroups:
    """The groups in one order, so that sums of floats do not depend on the order in which they were given."""
    order = np.lexsort(
        (
            groups.squares_G, groups.bytes_G, groups.samples_G, groups.dropped_G, groups.rate_G, groups.out_link_G,
            groups.in_link_G, groups.switch_G, groups.flow_G,
        )
    )  # fmt: skip
    return taken(groups, order)


__all__ = [
    "PathEntries",
    "SampledGroups",
    "Volumes",
    "busiest",
    "largest_frame",
    "sampling_probability",
    "undirected",
    "volumes",
]
