"""What the kernel is told, as text: checked without root."""

from __future__ import annotations

import json

import pytest

from leadline.lab.realise import drops, plan, status
from leadline.lab.realise.drops import DropRule
from leadline.lab.topology import load
from leadline.model.errors import UsageError, WorldError

TINY = load("tiny")


def test_every_cable_is_made_once_and_each_end_where_it_belongs() -> None:
    lines = plan.cable_lines(TINY, {node: f"ns-{node}" for node in TINY.nodes})
    assert len(lines) == len(TINY.links)
    assert lines[0] == (
        "link add name Ethernet1 index 1000 up address 02:4c:4c:00:00:00 mtu 4200 netns ns-leaf1 type veth "
        "peer name eth0 address 02:4c:4c:00:00:01 mtu 4200 netns ns-h1"
    )


def test_a_node_is_told_its_addresses_before_its_routes() -> None:
    lines = plan.node_lines(TINY)["leaf1"]
    assert lines == [
        "link set lo up",
        "address add 10.1.1.0/31 dev Ethernet1",
        "link set Ethernet1 up",
        "address add 10.201.1.1/31 dev Ethernet2",
        "link set Ethernet2 up",
        "route add 10.2.0.0/16 via 10.201.1.0 dev Ethernet2",
    ]


def test_a_host_with_two_nics_answers_by_the_one_that_was_asked() -> None:
    lines = plan.node_lines(load("clos8"))["h2"]
    assert "route add default metric 100 via 10.2.2.0 dev eth1" in lines
    assert "route add default metric 200 via 10.1.2.0 dev eth0" in lines
    assert "route add default table 101 via 10.1.2.0 dev eth0" in lines
    assert "rule add from 10.1.2.1 lookup 101 priority 1000" in lines


def test_leaves_share_by_hash() -> None:
    lines = plan.node_lines(load("clos8"))["leaf1"]
    assert "route add 10.2.0.0/16 nexthop via 10.201.1.0 dev Ethernet9 nexthop via 10.202.1.0 dev Ethernet10" in lines


def test_every_port_is_shaped() -> None:
    shapes = plan.node_shapes(TINY)
    assert set(shapes) == set(TINY.nodes)
    assert shapes["leaf1"][:3] == [
        "qdisc add dev Ethernet1 root handle 1: htb default 10 r2q 1000",
        "class add dev Ethernet1 parent 1: classid 1:10 htb rate 250000000bit burst 62500 cburst 62500",
        "qdisc add dev Ethernet1 parent 1:10 handle 10: bfifo limit 250000",
    ]
    assert f"bfifo limit {plan.HOST_QUEUE_BYTES}" in shapes["h1"][2]


def test_switches_hash_differently_and_the_same_in_every_run() -> None:
    topology = load("clos8")
    name = "net/ipv4/fib_multipath_hash_seed"
    seeds = [plan.sysctls(topology, switch.name)[name] for switch in topology.switches]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [plan.sysctls(load("clos8"), switch.name)[name] for switch in topology.switches]
    assert "net/ipv4/ip_forward" not in plan.sysctls(topology, "h1")


def test_hosts_of_one_machine_share_what_passes_a_leaf() -> None:
    topology = load("name: x\nhosts: 4\nhosts_per_machine: 2\nmachine_rate_bps: 300_000_000\n")
    uplinks = plan.shared_uplinks(topology, "leaf1")
    assert [(uplink.machine, uplink.ports, uplink.rate_bps) for uplink in uplinks] == [
        ("m1", ("Ethernet1", "Ethernet2"), 300_000_000),
        ("m2", ("Ethernet3", "Ethernet4"), 300_000_000),
    ]
    lines = plan.node_shapes(topology)["leaf1"]
    assert sum("redirect dev m1-out" in line for line in lines) == 2
    assert not any("redirect" in line for node in ("h1", "fe1") for line in plan.node_shapes(topology)[node])
    assert plan.shared_uplinks(TINY, "leaf1") == []


def test_a_drop_rule_is_text_that_cannot_smuggle_another() -> None:
    text = drops.add_text("Ethernet3", "ip daddr 10.1.2.1", 0.02, "sent")
    assert text.splitlines()[-1] == (
        'add rule inet leadline_lab sent oifname "Ethernet3" ip daddr 10.1.2.1 '
        "numgen random mod 1000000 < 20000 counter drop"
    )
    assert "numgen" not in drops.add_text("Ethernet3", "", 1.0, "received")
    for wrong in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(UsageError, match="probability"):
            drops.add_text("Ethernet3", "", wrong, "sent")
    with pytest.raises(UsageError, match="one nft expression"):
        drops.add_text("Ethernet3", "accept\nflush ruleset", 1.0, "sent")


def test_what_nft_told_is_understood_or_refused() -> None:
    echo = (
        'add rule inet leadline_lab sent oifname "x" counter packets 0 bytes 0 drop # handle 42\n# new generation 5\n'
    )
    assert drops.handle_of(echo) == 42
    with pytest.raises(WorldError, match="handle"):
        drops.handle_of("nothing\n")
    rule = DropRule("leaf1", "sent", 42)
    told = {"rule": {"chain": "sent", "handle": 42, "expr": [{"counter": {"packets": 7}}]}}
    assert drops.dropped(json.dumps({"nftables": [{"metainfo": {}}, told]}), rule) == 7
    with pytest.raises(WorldError, match="not there any more"):
        drops.dropped('{"nftables": []}', rule)


def test_what_tc_told_is_understood() -> None:
    listing = (
        "class htb 1:10 root leaf 10: prio 0 rate 250Mbit ceil 250Mbit burst 62500b cburst 62500b \n\n"
        "class htb 1:10 root leaf 10: prio 0 rate 1500Kbit ceil 1500Kbit burst 20000b cburst 20000b \n"
        "class htb 1:10 root leaf 10: prio 0 rate 2Gbit ceil 2Gbit burst 20000b cburst 20000b \n"
    )
    assert status.rates_of(listing) == [250_000_000, 1_500_000, 2_000_000_000]
    queues = (
        '[{"kind":"htb","dev":"e1"},{"kind":"bfifo","dev":"e1","drops":3,"backlog":1500},{"kind":"bfifo","dev":"e2"}]'
    )
    assert status.queues_of(queues) == {"e1": (3, 1500), "e2": (0, 0)}
