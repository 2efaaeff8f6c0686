"""Laws of every topology: unique addresses, every host reachable by the derived routes, ids that do not move."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leadline.lab.realise import plan
from leadline.lab.topology import Host, Route, Shape, Switch, Topology, build, ecmp_groups, routes
from leadline.lab.topology.shape import TOGETHER

HOPS_MAX = 5  # host, leaf, spine, leaf, host


@st.composite
def topologies(draw: st.DrawFn, spines_min: int = 0) -> Topology:
    homes = draw(st.integers(1, 3))
    pods = draw(st.integers(1, 3))
    shape = Shape(
        name="x",
        homes=homes,
        leaves=homes * pods,
        spines=draw(st.integers(max(spines_min, homes * pods > 1), 4)),
        hosts=draw(st.integers(pods, 12)),
        gpus=draw(st.integers(0, 3)),
        hosts_per_machine=draw(st.integers(1, 3)),
        hosts_per_rack=draw(st.integers(0, 4)),
        oversubscription=draw(st.sampled_from([0.0, 1.0, 3.5])),
        storage=draw(st.integers(0, 2)),
    )
    assert not any(wrong(shape) for _, wrong, _ in TOGETHER)
    return build(shape)


@settings(deadline=None)  # a busy machine is no slow topology
@given(topologies())
def test_names_addresses_and_ids_are_unique(topology: Topology) -> None:
    ports = topology.ports
    for of in (lambda port: port.address, lambda port: port.mac, lambda port: port.id):
        assert len({of(port) for port in ports}) == len(ports)
    gpus = [gpu for host in topology.hosts for gpu in host.gpus]
    assert len(set(gpus)) == len(gpus)
    assert len({link.id for link in topology.links}) == len(topology.links)
    assert len(topology.nodes) == len(set(topology.nodes))
    for port in ports:
        assert len(port.name) <= 15  # the kernel's limit


@settings(deadline=None)  # a busy machine is no slow topology
@given(topologies())
def test_a_link_is_one_network_of_two_addresses(topology: Topology) -> None:
    for link in topology.links:
        networks = {ipaddress.ip_interface(f"{end.address}/{end.prefix_len}").network for end in link.ends}
        assert len(networks) == 1
        assert topology.neighbour(link.a) == link.b
        assert topology.neighbour(link.b) == link.a
        assert link.rate_bps >= 1_000_000
    assert len({str(ipaddress.ip_interface(f"{link.a.address}/31").network) for link in topology.links}) == len(
        topology.links
    )


@settings(deadline=None)  # a busy machine is no slow topology
@given(topologies())
def test_the_same_shape_gives_the_same_cluster(topology: Topology) -> None:
    assert build(topology.shape) == topology


@settings(deadline=None)  # a busy machine is no slow topology
@given(topologies())
def test_a_host_has_one_nic_on_each_leaf_of_its_pod(topology: Topology) -> None:
    for host in topology.hosts:
        leaves = [topology.switch(topology.neighbour(port).node) for port in host.backend]
        assert len({leaf.name for leaf in leaves}) == topology.shape.homes
        assert {leaf.pod for leaf in leaves} == {host.pod}
        assert host.primary in host.backend


@settings(deadline=None, max_examples=40)
@given(topologies())
def test_every_host_reaches_every_address_by_every_choice(topology: Topology) -> None:
    table = routes(topology)
    for source in topology.hosts:
        for target in topology.hosts:
            for port in target.backend if source is not target else ():
                for path in paths(topology, table, source.name, port.address):
                    assert path[-1] == target.name
    for source in (*topology.hosts, *topology.storage):
        for target in (*topology.hosts, *topology.storage):
            if source is not target:
                address = target.ports[-1].address
                assert [path[-1] for path in paths(topology, table, source.name, address)] == [target.name]


@settings(deadline=None, max_examples=40)
@given(topologies(spines_min=2), st.data())
def test_a_dead_uplink_is_used_by_nobody_and_missed_by_nobody(topology: Topology, data: st.DataObject) -> None:
    uplinks = [link for link in topology.links if isinstance(topology.node(link.b.node), Switch)]
    dead = data.draw(st.sampled_from(uplinks))
    table = routes(topology, {dead.id})
    for source in topology.hosts:
        for target in topology.hosts:
            for port in target.backend if source is not target else ():
                for path in paths(topology, table, source.name, port.address):
                    assert path[-1] == target.name
                    assert (dead.a.node, dead.b.node) not in pairwise(path)
                    assert (dead.b.node, dead.a.node) not in pairwise(path)


@settings(deadline=None)  # a busy machine is no slow topology
@given(topologies(spines_min=2))
def test_leaves_choose_among_all_spines(topology: Topology) -> None:
    assume(topology.shape.leaves > 1)
    groups = ecmp_groups(topology)
    assert len(groups) == topology.shape.leaves * (topology.shape.leaves - 1)
    assert {len(group.hops) for group in groups} == {topology.shape.spines}


@settings(deadline=None)  # a busy machine is no slow topology
@given(topologies(spines_min=1), st.data())
def test_route_changes_lead_from_one_table_to_the_other(topology: Topology, data: st.DataObject) -> None:
    links = [link.id for link in topology.links]
    one = data.draw(st.sets(st.sampled_from(links), max_size=3))
    other = data.draw(st.sets(st.sampled_from(links), max_size=3))
    before, after = routes(topology, one), routes(topology, other)
    for node in topology.nodes:
        table = {plan.route_line("", route) for route in before[node]}
        by_key = {key_of(line): line for line in table}
        for line in plan.route_changes(before[node], after[node]):
            verb, rest = line.split()[1], line.replace(line.split()[1] + " ", " ", 1)
            if verb == "replace":
                by_key[key_of(rest)] = rest
            else:
                assert by_key.pop(key_of(rest), None) is not None, "only what is there is deleted"
        assert set(by_key.values()) == {plan.route_line("", route) for route in after[node]}


def key_of(line: str) -> str:
    return line.partition(" via")[0].partition(" nexthop")[0]


def paths(topology: Topology, table: dict[str, tuple[Route, ...]], source: str, address: str) -> Iterator[list[str]]:
    """All ways that a packet may take: an independent forwarder, longest prefix first, then smallest metric."""
    target = ipaddress.ip_address(address)
    pending = [[source]]
    while pending:
        path = pending.pop()
        assert len(path) <= HOPS_MAX, f"a loop: {path}"
        node = topology.node(path[-1])
        if any(port.address == address for port in node.ports):
            yield path
            continue
        peers = {peer.address: peer.node for _, peer in topology.neighbours(node.name)}
        if address in peers:
            pending.append([*path, peers[address]])
            continue
        fits = [route for route in table[node.name] if route.table == 0 and target in network_of(route)]
        assert fits, f"{node.name} has no route to {address}"
        best = min(fits, key=lambda route: (-network_of(route).prefixlen, route.metric))
        if isinstance(node, Host):
            assert len(best.hops) == 1
        pending += [[*path, peers[hop.via]] for hop in best.hops]


def network_of(route: Route) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network("0.0.0.0/0" if route.prefix == "default" else route.prefix)
