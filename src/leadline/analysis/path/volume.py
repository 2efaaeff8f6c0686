"""How many bytes a flow carried over each link in a window, from sampled packets, with the error of sampling.

    samples by (flow, switch, in link, out link, rate) --known path--> one estimate of the flow, told on all its links
                                                       --direct------> one estimate per link, of the switches at its ends

Every switch samples one packet in N by itself, so the number of samples is Poisson and its relative error is about
1 / sqrt(count): method, formulas and known weaknesses in docs/analyses/flow-volume.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from leadline.analysis.columns import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class SampledGroups:
    """Samples of one window (no look-back), counted. Arrays over G, a group each; the order does not matter.

    A group is a flow at a switch with the links it came and left by, a rate, and whether it was dropped. `in_link_G`,
    `out_link_G`: index of the link behind the port, -1 where the port was not told or no link is known behind it.
    """

    flow_G: Ints  # index of the flow, 0 to F - 1
    switch_G: Ints  # index of the switch
    in_link_G: Ints
    out_link_G: Ints
    rate_G: Ints  # one packet in this many was sampled
    samples_G: Ints  # how many samples, at least 1
    bytes_G: Ints  # sum of their frame_bytes
    squares_G: Floats  # sum of frame_bytes squared
    dropped_G: Bools  # they are of packets that the switch discarded: they did not leave


@dataclass(frozen=True, slots=True)
class PathEntries:
    """Where flows with a path go: one entry per flow, link and direction with the probability that it is crossed.

    Arrays over E; the entries of one flow make up its posterior (alternatives summed: marginals per link). The order
    does not matter; a (flow, link, sender) comes once.
    """

    flow_E: Ints
    link_E: Ints
    from_E: Ints  # index of the switch that sends into the link; -1: a host or storage does
    to_E: Ints  # index of the switch that receives; -1: a host or storage does
    probability_E: Floats


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
    (sprayed, moved, contradicted: entries of them are ignored); `tells_S`: switches that sampled in this window;
    `ends_L2`: indices of the switches at both ends of each link (L, 2), -1 for a host or storage.
    """
    raise AssertionError("not yet")
