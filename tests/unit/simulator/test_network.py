"""Paths, shares and times of the simulator's network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.topology import Host, Topology, load
from leadline.simulator.fabric import Fabric, Ints, fabric_of
from leadline.simulator.network import (
    LAB_TCP,
    ROCE,
    LinkState,
    Transport,
    link_bytes,
    max_min_rates,
    merged,
    path_loss,
    shaped_ns,
    state_of,
    still,
    transfer_ns,
)


def pairs(topology: Topology) -> tuple[Ints, Ints]:
    count = len(topology.hosts)
    src, dst = np.divmod(np.arange(count * count), count)
    return src[src != dst], dst[src != dst]


def all_paths(topology: Topology, rail: int = 0, dst_rail: int = 0) -> tuple[Fabric, Ints, Ints, Ints]:
    fabric = fabric_of(topology)
    src, dst = pairs(topology)
    rails = np.full(len(src), rail), np.full(len(src), dst_rail)
    return fabric, src, dst, fabric.paths(src, rails[0], dst, rails[1], src * 1000 + dst)


@pytest.mark.parametrize("preset", ["tiny", "clos8", "clos64"])
def test_paths_lead_from_host_to_host_over_cables_that_are_there(preset: str) -> None:
    topology = load(preset)
    fabric, src, dst, path_NX = all_paths(topology)
    for source, target, path in zip(src.tolist(), dst.tolist(), path_NX.tolist(), strict=True):
        at = f"h{source + 1}"
        for direction in path:
            if direction < 0:
                continue
            link = topology.links[direction % fabric.links]
            # `a` is the upper end of a host's cable and the lower one of a leaf-spine cable.
            host_cable = isinstance(topology.node(link.b.node), Host)
            low, high = (link.b.node, link.a.node) if host_cable else (link.a.node, link.b.node)
            begin, end = (low, high) if direction < fabric.links else (high, low)
            assert begin == at
            at = end
        assert at == f"h{target + 1}"


def test_flows_spread_over_spines_and_leave_a_dead_one() -> None:
    topology = load("clos64")
    fabric, src, dst, path_NX = all_paths(topology)
    _, counts = np.unique(path_NX[path_NX[:, 1] >= 0, 1], return_counts=True)
    assert counts.min() > 0.7 * counts.mean()
    zero = np.zeros(len(src), np.int64)
    up_D = np.ones(2 * fabric.links, bool)
    dead = fabric.climb_FS[:, 0]
    up_D[dead] = False
    up_D[fabric.links + dead] = False
    path_NX = fabric.paths(src, zero, dst, zero, src * 1000 + dst, up_D)
    assert not np.isin(path_NX, np.concatenate((dead, fabric.links + dead))).any()
    up_D[:] = False
    assert (
        fabric.paths(src, zero, dst, zero, src, up_D)[:, [0, 5]] >= 0
    ).all()  # nothing lives: the path it would have


def test_three_tiers_go_over_a_super_spine_between_pods_only() -> None:
    # Two pods of one leaf, two slots, two planes each.
    fabric = Fabric(
        links=10, host_link_HK=np.array([[0], [1]]), leaf_HK=np.array([[0], [1]]), climb_FS=np.array([[2, 3], [4, 5]]),
        spine_FS=np.array([[0, 1], [2, 3]]), rise_PV=np.array([[6], [7], [8], [9]]),
    )  # fmt: skip
    zero, one = np.zeros(50, np.int64), np.ones(50, np.int64)
    path_NX = fabric.paths(zero, zero, one, zero, np.arange(50))
    assert (path_NX >= 0).all()
    assert set(map(tuple, path_NX.tolist())) == {(0, 2, 6, 18, 14, 11), (0, 3, 7, 19, 15, 11)}
    assert (fabric.paths(zero, zero, zero, zero, zero) == -1).all()


def test_rails_are_taken_in_turn_from_the_hosts_first() -> None:
    fabric = fabric_of(load("clos8"))
    assert fabric.rails_of(np.array([0, 0, 1, 1, 0])).tolist() == [0, 1, 1, 0, 0]


@settings(deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda links: st.tuples(
            st.lists(st.lists(st.integers(-1, links - 1), min_size=3, max_size=3), min_size=1, max_size=25),
            st.lists(st.integers(0, 1000), min_size=links, max_size=links),
            st.lists(st.integers(1, 2000), min_size=25, max_size=25),
        )
    )
)
def test_shares_are_max_min_fair(drawn: tuple[list[list[int]], list[int], list[int]]) -> None:
    paths, capacities, limits = drawn
    path_FX = np.array([list(dict.fromkeys(path)) + [-1] * (3 - len(dict.fromkeys(path))) for path in paths])
    capacity, limit = np.array(capacities, float), np.array(limits[: len(paths)], float)
    rate = max_min_rates(path_FX, capacity, limit)
    used = np.zeros(len(capacity))
    for flow, path in enumerate(path_FX):
        used[path[path >= 0]] += rate[flow]
    assert (used <= capacity * (1 + 1e-6) + 1e-6).all()
    for flow, path in enumerate(path_FX):
        if rate[flow] >= limit[flow] * (1 - 1e-9):
            continue
        # Else some link on its path is full, and nobody there has more.
        there = path[path >= 0]
        assert any(
            used[link] >= capacity[link] * (1 - 1e-6) - 1e-6
            and rate[flow] >= max(rate[(path_FX == link).any(axis=1)]) * (1 - 1e-6) - 1e-6
            for link in there
        )


def test_a_flow_that_crosses_nothing_has_no_bound() -> None:
    assert max_min_rates(np.array([[-1, -1]]), np.ones(1)).tolist() == [np.inf]
    assert max_min_rates(np.zeros((0, 2), np.int64), np.ones(1)).tolist() == []


def test_background_loss_and_dead_links_cost() -> None:
    topology = load("tiny")
    fabric, _, _, path_NX = all_paths(topology)
    links = state_of(topology, fabric)
    whole = links.rates(path_NX)
    assert whole.tolist() == [250e6, 250e6]
    assert replace(links, background_bps_L=np.full(fabric.links, 1e8)).rates(path_NX).tolist() == [150e6, 150e6]
    assert replace(links, up_L=np.zeros(fabric.links, bool)).rates(path_NX).tolist() == [0.0, 0.0]
    lossy = replace(links, loss_L=np.full(fabric.links, 0.2))
    assert path_loss(path_NX, lossy.by_direction(lossy.loss_L)) == pytest.approx(1 - 0.8**4)
    assert (lossy.rates(path_NX) < 0.01 * whole).all()  # time-outs
    some = replace(links, loss_L=np.full(fabric.links, 0.005)).rates(path_NX)
    assert (some < whole).all()
    assert (some > 0.01 * whole).all()
    fast = LinkState(np.full(fabric.links, 4e11), np.zeros(fabric.links), np.full(fabric.links, 1e-3),
                     np.ones(fabric.links, bool), fabric, transport=ROCE)  # fmt: skip
    # Go-back-N over 12 us at 400 Gbit/s: 146 packets under way, lost with 0.4 % of them.
    assert fast.rates(path_NX)[0] == pytest.approx(4e11 * 0.996 / (0.996 + 0.004 * 600e3 / 4096), rel=0.02)


@pytest.mark.parametrize("transport", [LAB_TCP, ROCE])
def test_loss_elsewhere_leaves_flows_inside_a_host_and_behind_dead_links_as_they_are(transport: Transport) -> None:
    topology = load("tiny")
    fabric = fabric_of(topology)
    state = still(fabric, np.array([float(link.rate_bps) for link in topology.links]), transport)
    links = fabric.links
    lossy, dead, gone = np.arange(links) == 0, np.arange(links) == 1, np.arange(links) == 2
    state = replace(state, loss_L=0.01 * lossy + 1.0 * gone, up_L=~dead)
    rates = state.rates(np.array([[-1, -1], [0, -1], [1, -1], [2, -1], [3, -1]]))
    assert rates[0] == np.inf
    assert 0 < rates[1] < state.free_bps_D[0]
    assert rates[2:4].tolist() == [0.0, 0.0]
    assert rates[4] == state.free_bps_D[3]


def test_senders_that_merge_at_a_full_port_lose_some_of_it() -> None:
    path = np.array([[0], [0], [1]])
    rate = np.array([50.0, 50.0, 100.0])
    transport = replace(LAB_TCP, merge_share=0.1)
    assert merged(path, np.array([0, 1, 2]), rate, np.full(2, 100.0), transport).tolist() == pytest.approx(
        [50 / 1.1, 50 / 1.1, 100.0]
    )
    assert merged(path, np.array([0, 0, 2]), rate, np.full(2, 100.0), transport).tolist() == rate.tolist()


def test_bytes_of_links_have_headers_and_acknowledgements() -> None:
    fabric, _, _, path_NX = all_paths(load("tiny"))
    transport = replace(LAB_TCP, ack_share=0.01)
    volume = link_bytes(path_NX[:1], np.array([4148e3]), 2 * fabric.links, transport)
    crossed = path_NX[0][path_NX[0] >= 0]
    assert volume[crossed].tolist() == [4214e3] * 4
    back = (crossed + fabric.links) % (2 * fabric.links)
    assert volume[back].tolist() == pytest.approx([42.14e3] * 4)
    assert volume.sum() == pytest.approx(4 * 4214e3 * 1.01)


def test_transfers_cost_overhead_slow_start_and_the_line() -> None:
    times = transfer_ns(np.array([1.0, 1e6, 1e8]), np.full(3, 250e6))
    assert times[0] == pytest.approx(LAB_TCP.message_ns, rel=0.01)
    assert times[2] == pytest.approx(1e8 * 8 / 250e6 * 1e9 * (1 + 66 / 4148), rel=0.01)
    far = replace(LAB_TCP, rtt_ns=1e7)
    assert transfer_ns(np.array([1e7]), np.array([1e9]), far) > transfer_ns(np.array([1e7]), np.array([1e9])) + 2e7


def test_a_bucket_forgives_what_it_holds_and_no_more() -> None:
    def took(idle: float) -> float:
        return float(shaped_ns(1e6, 250e6, idle, 0.0, LAB_TCP))

    assert took(0.0) == 32e6
    assert took(1e6) == 31e6
    assert took(1e9) == 30e6
    assert float(shaped_ns(1e3, 250e6, 1e9, 7e5, LAB_TCP)) == 7e5


def test_links_alike_in_both_directions_may_be_given_once() -> None:
    fabric = fabric_of(load("tiny"))
    capacity = np.arange(1.0, fabric.links + 1)
    assert still(fabric, capacity).free_bps_D.tolist() == [*capacity.tolist(), *capacity.tolist()]
