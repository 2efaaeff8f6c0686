"""Samples that see the same packets, pooled: of which switches, with what probability, and what they tell together.

on_path      all switches on the path of a flow     -> the bytes of the flow
at_the_edge  the first and the last one that it met -> the bytes of a flow whose path is not known
by_link      the two at the ends of a link          -> the bytes of a flow on that link
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.path.poisson import limits

Rows = TypeVar("Rows", "SampledGroups", "PathEntries")


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
    rate_G: Ints | Floats  # one packet in this many was sampled, or reached us
    samples_G: Ints  # how many samples, at least 1
    bytes_G: Ints  # sum of their frame_bytes
    squares_G: Ints | Floats  # sum of frame_bytes squared
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
class Pools:
    """Sampled bytes of the switches that see the same packets. Arrays over P (pools) or N (what was sampled for one).

    A sample counts as `weight_N` of the samples that its switch takes on the mean of the window, which is 1 where the
    rate did not change. `chance_P`: samples to expect of each packet, all switches together.
    """

    pool_N: Ints
    weight_N: Floats
    bytes_N: Ints
    squares_N: Ints | Floats
    rate_N: Ints | Floats
    chance_P: Floats
    squared_P: Floats  # sum of the squared chances of the switches


def estimated(pools: Pools, frame_max: float) -> Floats:
    """(P, 3): bytes, low and high of each pool; NaN where no switch could have seen its packets."""
    count = len(pools.chance_P)
    # Horvitz and Thompson: every sample counts with the inverse of its probability. A packet that is sampled for sure
    # adds no variance.
    sum_P = _sums(pools.pool_N, pools.weight_N * pools.bytes_N, count)
    variance_N = pools.weight_N**2 * pools.squares_N * (1 - 1 / np.maximum(pools.rate_N, 1))
    variance_P = _sums(pools.pool_N, variance_N, count)
    told_P = pools.chance_P > 0
    chance_P = np.where(told_P, pools.chance_P, 1.0)
    # A packet not seen has the weight that makes the limit of no sample exact: (1 - p) ** packets = 2.5 %.
    mean_P = np.clip(pools.squared_P / chance_P, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        unseen_P = np.where(mean_P > 0, mean_P / -np.log1p(-mean_P), 1.0)
    low_P, high_P = limits(sum_P, variance_P, frame_max * unseen_P)
    value_P3 = np.column_stack((sum_P, low_P, high_P)) / chance_P[:, None]
    value_P3[~told_P] = np.nan
    return value_P3


def by_switch(groups: SampledGroups, switches: int) -> SampledGroups:
    """The same by flow, switch and rate, sorted, whichever links they name: sums of whole numbers, so exact."""
    rates, code_G = np.unique(groups.rate_G, return_inverse=True)
    key_G = (groups.flow_G * switches + groups.switch_G) * len(rates) + code_G
    key_J, which_G = np.unique(key_G, return_inverse=True)
    none_J = np.full(len(key_J), -1)
    place_J = key_J // max(len(rates), 1)
    return SampledGroups(
        flow_G=place_J // max(switches, 1),
        switch_G=place_J % max(switches, 1),
        in_link_G=none_J,
        out_link_G=none_J,
        rate_G=rates[key_J % max(len(rates), 1)] if len(rates) else none_J,
        samples_G=_sums(which_G, groups.samples_G, len(key_J)).astype(np.int64),
        bytes_G=_sums(which_G, groups.bytes_G, len(key_J)).astype(np.int64),
        squares_G=_sums(which_G, groups.squares_G, len(key_J)),
        dropped_G=none_J > 0,
    )


def on_path(groups: SampledGroups, entries: PathEntries, chance_S: Floats, tells_S: Bools, flows: int) -> Pools:
    """A pool for each flow: the switches on its path, each as far as the flow is believed to cross it.

    That counts the silence of a switch that is crossed perhaps: all the switches of one tier together are crossed once.
    Where silence means nothing, a switch counts for the flows that it has samples of.
    """
    enters = np.flatnonzero(entries.to_E >= 0)
    place_E = entries.flow_E[enters] * len(chance_S) + entries.to_E[enters]
    place_J, which_E = np.unique(place_E, return_inverse=True)
    crossed_J = _sums(which_E, entries.probability_E[enters], len(place_J))
    flow_J, switch_J = place_J // max(len(chance_S), 1), place_J % max(len(chance_S), 1)
    on_G, at_G = _places(place_J, groups.flow_G * len(chance_S) + groups.switch_G)
    used = np.flatnonzero(on_G)
    counts_J = tells_S[switch_J]
    counts_J[at_G[used]] = True
    chance_J = chance_S[switch_J] * counts_J
    crossed_G, chance_G = crossed_J[at_G[used]], chance_J[at_G[used]]
    return Pools(
        pool_N=groups.flow_G[used],
        weight_N=np.minimum(crossed_G, 1.0) * chance_G * groups.rate_G[used],
        bytes_N=groups.bytes_G[used],
        squares_N=groups.squares_G[used],
        rate_N=groups.rate_G[used],
        chance_P=_sums(flow_J, crossed_J * chance_J, flows),
        squared_P=_sums(flow_J, crossed_J * chance_J**2, flows),
    )


def at_the_edge(groups: SampledGroups, chance_S: Floats, ends_L2: Ints, flows: int) -> Pools:
    """A pool for each flow without a path: the switches where it came from or left to a host, for all of it is there.

    A flow that no such switch tells of is judged by the switch that saw most of it: the others may see parts of it.
    """
    place_J, which_G = np.unique(groups.flow_G * len(chance_S) + groups.switch_G, return_inverse=True)
    flow_J, switch_J = place_J // max(len(chance_S), 1), place_J % max(len(chance_S), 1)
    edge_G = _is_edge(groups.in_link_G, ends_L2) | _is_edge(groups.out_link_G, ends_L2)
    edge_J = _sums(which_G, edge_G, len(place_J)) > 0
    stood_for_J = _sums(which_G, groups.rate_G * groups.bytes_G.astype(np.float64), len(place_J))
    order = np.lexsort((switch_J, -stood_for_J, flow_J))
    first = order[np.r_[True, np.diff(flow_J[order]) != 0]] if len(order) else order
    most_J = np.zeros(len(place_J), bool)
    most_J[first] = True
    at_edge_F = _sums(flow_J, edge_J, flows) > 0
    used_J = np.where(at_edge_F[flow_J], edge_J, most_J)
    used = np.flatnonzero(used_J[which_G])
    chance_J = chance_S[switch_J] * used_J
    return Pools(
        pool_N=groups.flow_G[used],
        weight_N=chance_S[groups.switch_G[used]] * groups.rate_G[used],
        bytes_N=groups.bytes_G[used],
        squares_N=groups.squares_G[used],
        rate_N=groups.rate_G[used],
        chance_P=_sums(flow_J, chance_J, flows),
        squared_P=_sums(flow_J, chance_J**2, flows),
    )


def by_link(groups: SampledGroups, chance_S: Floats, tells_S: Bools, ends_L2: Ints) -> tuple[Ints, Pools]:
    """A pool for each flow, link and sender that a sample names (P, 3): the switches at both ends of the link.

    What was dropped came by its link, but did not leave. Samples of the flow at a switch that lack the link are spread
    over those that tell it: the switch's chance is that much smaller.
    """
    sent, came = (
        np.flatnonzero((groups.out_link_G >= 0) & ~groups.dropped_G),
        np.flatnonzero(groups.in_link_G >= 0),
    )
    link_N = np.concatenate((groups.out_link_G[sent], groups.in_link_G[came]))
    group_N = np.concatenate((sent, came))
    out_N = np.arange(len(link_N)) < len(sent)
    switch_N = groups.switch_G[group_N]
    fits_N = (ends_L2[link_N] == switch_N[:, None]).any(axis=1)
    link_N, group_N, out_N, switch_N = (each[fits_N] for each in (link_N, group_N, out_N, switch_N))
    other_N = ends_L2[link_N].sum(axis=1) - switch_N
    key_N3 = np.column_stack((groups.flow_G[group_N], link_N, np.where(out_N, switch_N, other_N)))
    key_P3, pool_N = _distinct_rows(key_N3)
    flow_P, link_P, from_P = key_P3.T
    to_P = ends_L2[link_P].sum(axis=1) - from_P
    sides = ((from_P, groups.out_link_G, ~groups.dropped_G), (to_P, groups.in_link_G, np.ones_like(groups.dropped_G)))
    chance_P2 = np.column_stack(
        [
            _told_share(groups, flow_P, switch_P, link_G, counted_G, tells_S) * np.append(chance_S, 0.0)[switch_P]
            for switch_P, link_G, counted_G in sides
        ]
    )
    pools = Pools(
        pool_N=pool_N,
        weight_N=chance_S[switch_N] * groups.rate_G[group_N],
        bytes_N=groups.bytes_G[group_N],
        squares_N=groups.squares_G[group_N],
        rate_N=groups.rate_G[group_N],
        chance_P=chance_P2.sum(axis=1),
        squared_P=(chance_P2**2).sum(axis=1),
    )
    return key_P3, pools


def _told_share(
    groups: SampledGroups, flow_P: Ints, switch_P: Ints, link_G: Ints, counted_G: Bools, tells_S: Bools
) -> Floats:
    """Share of a flow's samples at a switch that name the link. 1 where it has none of the flow, if that means so."""
    switches = len(tells_S)
    place_J, which_G = np.unique(groups.flow_G * switches + groups.switch_G, return_inverse=True)
    all_J = _sums(which_G, groups.samples_G * counted_G, len(place_J))
    told_J = _sums(which_G, groups.samples_G * (counted_G & (link_G >= 0)), len(place_J))
    share_J = np.where(all_J > 0, told_J / np.maximum(all_J, 1), 1.0)
    known_P, at_P = _places(place_J, flow_P * switches + switch_P)
    known_P &= switch_P >= 0
    found: Floats = np.append(tells_S, False)[switch_P].astype(np.float64)
    found[known_P] = share_J[at_P[known_P]]
    return found


def _is_edge(link_G: Ints, ends_L2: Ints) -> Bools:
    edge_L = np.append((ends_L2 < 0).any(axis=1), False)  # the last: no link
    found: Bools = edge_L[link_G]
    return found


def _places(sorted_J: Ints, wanted_N: Ints) -> tuple[Bools, Ints]:
    """Whether each wanted key is there, and its place (some place where it is not)."""
    if not len(sorted_J):
        return np.zeros(len(wanted_N), bool), np.zeros(len(wanted_N), np.int64)
    at_N = np.minimum(np.searchsorted(sorted_J, wanted_N), len(sorted_J) - 1)
    return sorted_J[at_N] == wanted_N, at_N


def _distinct_rows(key_N3: Ints) -> tuple[Ints, Ints]:
    """Distinct rows in ascending order, and which of them each row is."""
    order = np.lexsort(key_N3.T[::-1])
    ordered = key_N3[order]
    new_N = np.ones(len(order), bool)
    new_N[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    which_N = np.empty(len(order), np.int64)
    which_N[order] = np.cumsum(new_N) - 1
    return ordered[new_N], which_N


def taken(rows: Rows, place_M: Ints) -> Rows:
    """Some of the rows, in this order."""
    return type(rows)(*(getattr(rows, field.name)[place_M] for field in fields(rows)))


def _sums(place_N: Ints, value_N: NDArray[np.generic], count: int) -> Floats:
    found: Floats = np.bincount(place_N, value_N, count).astype(np.float64)
    return found
