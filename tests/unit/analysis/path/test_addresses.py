"""Ports of addresses: told, learnt from samples, contradicted."""

from __future__ import annotations

import pytest
from tests.builders.fabrics import TINY, Claim, relation_table

from leadline.analysis.path.addresses import addresses, many, spelled, told_addresses
from leadline.analysis.path.topology import Topology, claimed_links, structure, topology

ROWS = structure(relation_table([*TINY.inventory(), *TINY.agents()]))
GRAPH: Topology = topology(ROWS, claimed_links(ROWS))
TOLD = told_addresses(ROWS, GRAPH)


def port(host: int) -> int:
    return GRAPH.port_places[TINY.nic(host)]


def test_told_addresses_have_their_port() -> None:
    assert TOLD[TINY.address(3)] == (port(3),)


def test_an_address_of_a_port_without_a_link_has_none() -> None:
    rows = relation_table([Claim("address:10.0.0.1", "in", "port:h9/eth0", "agent")])
    assert told_addresses(rows, GRAPH) == {}


def test_an_address_nobody_told_is_learnt() -> None:
    found = addresses({}, [("10.0.0.1", port(1), 3)], GRAPH)
    assert found.ports_of["10.0.0.1"] == (port(1),)
    assert found.learnt == {"10.0.0.1"}


def test_a_few_samples_at_another_host_do_not_move_an_address() -> None:
    found = addresses(TOLD, [(TINY.address(1), port(2), 5), (TINY.address(1), port(1), 5)], GRAPH)
    assert found.ports_of[TINY.address(1)] == (port(1),)
    assert not found.moved


def test_many_samples_at_another_host_do_and_it_is_told() -> None:
    found = addresses(TOLD, [(TINY.address(1), port(2), 50)], GRAPH)
    assert found.ports_of[TINY.address(1)] == (port(2),)
    assert found.moved == {TINY.address(1): ("host:h1", "host:h2", 50)}


def test_of_two_hosts_the_one_with_more_samples_is_learnt() -> None:
    found = addresses({}, [("10.0.0.1", port(2), 5), ("10.0.0.1", port(1), 50)], GRAPH)
    assert found.ports_of["10.0.0.1"] == (port(1),)


def test_multicast_is_learnt_nowhere() -> None:
    assert addresses({}, [("239.0.0.1", port(1), 50)], GRAPH).ports_of == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("FE80::0001", "fe80::1"), ("nonsense", "nonsense")],
)
def test_addresses_have_one_spelling(given: str, expected: str) -> None:
    assert spelled(given) == expected


def test_what_has_many_receivers_is_known_by_its_address() -> None:
    assert many("224.0.0.1")
    assert many("ff02::1")
    assert many("255.255.255.255")
    assert not many("10.0.0.1")
    assert not many("nonsense")
