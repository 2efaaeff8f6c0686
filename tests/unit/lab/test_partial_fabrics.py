"""Clos fabrics with links missing, presets of the wide lab, and which hosts share a machine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.realise import plan
from leadline.lab.topology import Shape, Topology, build, cut_off, load, load_file, relations, routes
from leadline.lab.topology.routing import leaf_prefix
from leadline.model.errors import ConfigError, UsageError

FABRIC = "name: x\nleaves: 2\nspines: 2\nhosts: 4\nhomes: 2\n"


def test_a_link_that_is_not_there_leaves_the_others_as_they_are() -> None:
    whole, partial = load(FABRIC), load(FABRIC + "links_down: [spine1~leaf1]\n")
    [lost] = {link.id for link in whole.links} - {link.id for link in partial.links}
    assert lost == whole.link_between("leaf1~spine1").id
    assert {port.id for port in whole.ports} - {port.id for port in partial.ports} == {
        end.id for end in whole.link(lost).ends
    }
    assert set(partial.ports) < set(whole.ports), "names, addresses and MACs do not move"
    [route] = routes(partial)["leaf1"]
    assert [hop.via for hop in route.hops] == ["10.202.1.0"], "only spine2 is left"
    assert lost not in "\n".join(str(row) for row in relations(partial, 0))
    assert len(plan.cable_lines(partial, {node: node for node in partial.nodes})) == len(whole.links) - 1


def test_a_host_may_lose_one_of_its_nics() -> None:
    partial = load(FABRIC + "links_down: [h1/eth0~leaf1]\n")
    assert partial.host("h1").primary.name == "eth1"
    assert [port.name for port in partial.host("h1").backend] == ["eth1"]
    assert partial.host("h2") == load(FABRIC).host("h2")


def test_a_shape_comes_back_from_a_record() -> None:
    shape = load(FABRIC + "links_down: [spine1~leaf1]\n").shape
    again = Shape(**json.loads(json.dumps(asdict(shape))))
    assert again == shape
    assert build(again) == build(shape)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FABRIC + "links_down: [leaf1~spine9]\n", r"line 6: no link 'leaf1~spine9' in x; there are leaf1~h1"),
        (FABRIC + "links_down: leaf1~spine1\n", r"line 6: links_down: expected a list of links like \[leaf1~spine1"),
        (FABRIC + "links_down: [leaf1]\n", r"line 6: links_down: expected a list of links"),
        (
            FABRIC + "links_down:\n  - leaf1~spine1\n  - leaf2~spine2\n",
            r"line 6: links_down: expected that all hosts reach each other, but no spine is linked to both leaf1 and",
        ),
        (FABRIC + "links_down: [h1~leaf1, h1~leaf2]\n", r"line 6: .*h1 has no backend link"),
        (FABRIC + "links_down: [h1~fe1]\n", r"line 6: .*h1 has no frontend link"),
        (FABRIC + "links_down: [storage1~fe1]\n", r"line 6: .*storage1 has no storage link"),
        ("name: x\nmachine_order: 3\n", r"line 2: machine_order: expected several hosts_per_machine, got 3"),
    ],
)
def test_a_fabric_that_cuts_hosts_off_is_refused_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "partial.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told) as caught:
        load_file(path)
    assert str(caught.value).startswith(str(path))


@settings(deadline=None)
@given(st.sets(st.tuples(st.integers(1, 4), st.integers(1, 3)), max_size=9))
def test_what_is_built_reaches_everybody(missing: set[tuple[int, int]]) -> None:
    names = tuple(f"leaf{leaf}~spine{spine}" for leaf, spine in sorted(missing))
    shape = Shape(name="x", leaves=4, spines=3, hosts=8, homes=2, links_down=names)
    common = all(
        any((a, s) not in missing and (b, s) not in missing for s in (1, 2, 3))
        for a in range(1, 5)
        for b in range(1, a)
    )
    try:
        topology = build(shape)
    except UsageError:
        assert not common
        return
    assert common
    assert cut_off(topology) == []
    for leaf in range(1, 5):
        prefixes = {route.prefix for route in routes(topology)[f"leaf{leaf}"]}
        assert prefixes == {leaf_prefix(f"leaf{other}") for other in range(1, 5) if other != leaf}


def test_dead_links_cut_off_as_missing_ones_do() -> None:
    whole = load(FABRIC)
    dead = [whole.link_between(name).id for name in ("leaf1~spine1", "leaf1~spine2")]
    assert cut_off(whole, dead) == ["no spine is linked to both leaf1 and leaf2"]
    assert cut_off(whole, dead[:1]) == []


@pytest.fixture(scope="module")
def cloud() -> Topology:
    return load("cloud16")


def test_cloud16_is_rented_machines(cloud: Topology) -> None:
    assert len(cloud.hosts) == 16
    assert {len(host.gpus) for host in cloud.hosts} == {2}
    sizes = Counter(host.machine for host in cloud.hosts)
    assert sorted(sizes.values()) == [2, 2, 3, 3, 3, 3]
    for hosts in cloud.machines().values():
        assert len({host.pod for host in hosts}) == 1, "a machine is cabled in one pod"
    shared = [uplink for leaf in ("leaf1", "leaf2") for uplink in plan.shared_uplinks(cloud, leaf)]
    assert {uplink.machine: len(uplink.ports) for uplink in shared} == sizes
    assert {uplink.rate_bps for uplink in shared} == {200_000_000}
    assert plan.shared_uplinks(cloud, "spine1") == []


def test_neither_names_nor_inventory_tell_who_shares_a_machine(cloud: Topology) -> None:
    other = build(replace(cloud.shape, machine_order=2))
    assert {host.name: host.machine for host in cloud.hosts} != {host.name: host.machine for host in other.hosts}
    assert relations(cloud, 0) == relations(other, 0)
    assert cloud.ports == other.ports
    assert build(cloud.shape) == cloud, "the same seed deals the same hosts"
    told = "\n".join(str(row) for row in relations(cloud, 0))
    assert not any(f"'{machine}'" in told for machine in cloud.machines())


@pytest.mark.parametrize("seed", range(1, 30))
def test_every_order_deals_all_hosts(cloud: Topology, seed: int) -> None:
    dealt = build(replace(cloud.shape, machine_order=seed)).machines()
    assert sorted(host.name for hosts in dealt.values() for host in hosts) == sorted(h.name for h in cloud.hosts)
    assert sorted(len(hosts) for hosts in dealt.values()) == [2, 2, 3, 3, 3, 3]


def test_rails_have_a_leaf_each_in_their_pod() -> None:
    topology = load("rails")
    for host in topology.hosts:
        pod = int(host.pod[1:]) - 1
        at = [topology.neighbour(port).node for port in host.backend]
        assert at == [f"leaf{4 * pod + rail + 1}" for rail in range(4)]
    assert {host.pod for host in topology.hosts} == {"p1", "p2"}


def test_oversubscribed_leaves_take_four_times_what_they_pass_on() -> None:
    topology = load("oversubscribed")
    for leaf in ("leaf1", "leaf2"):
        links = [topology.link_of(port) for port in topology.switch(leaf).ports]
        up = sum(link.rate_bps for link in links if link.b.node.startswith("spine"))
        down = sum(link.rate_bps for link in links if link.b.node.startswith("h"))
        assert down == 4 * up
