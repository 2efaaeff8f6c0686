"""Links from claims: once, whichever end was named; one link of a port at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.builders.fabrics import BOOT, STARTED, TINY, Claim, relation_table

from leadline.analysis.path.topology import (
    ClaimedLink,
    Topology,
    claimed_links,
    contested,
    named_node,
    structure,
    topology,
    used_links,
)

A, B, C = "swport:leaf1/Ethernet1", "swport:spine1/Ethernet1", "swport:spine2/Ethernet1"


def links(claims: Iterable[Claim]) -> list[ClaimedLink]:
    return claimed_links(structure(relation_table(claims)))


def graph(claims: Iterable[Claim]) -> Topology:
    rows = structure(relation_table(claims))
    return topology(rows, claimed_links(rows))


def test_a_link_told_from_both_ends_is_one_link_of_two_sources() -> None:
    [link] = links([Claim(A, "linked", B, "agent/lldp"), Claim(B, "linked", A, "inventory", BOOT - 1)])
    assert (link.a, link.b, link.from_ns) == (A, B, BOOT - 1)
    assert link.sources == ("agent/lldp", "inventory")


def test_what_links_no_two_ports_is_no_link() -> None:
    assert links([Claim("host:h1", "linked", "host:h2", "x"), Claim(A, "linked", A, "x")]) == []


def test_one_port_with_two_links_at_a_time_is_contested() -> None:
    found = links([Claim(A, "linked", B, "inventory"), Claim(A, "linked", C, "agent/lldp")])
    assert contested(found) == {A: [0, 1]}


def test_one_port_with_two_links_one_after_the_other_is_not() -> None:
    found = links([Claim(A, "linked", B, "x", to_ns=STARTED), Claim(A, "linked", C, "x", STARTED)])
    assert contested(found) == {}
    assert used_links(found, {}).all()
    both = graph([Claim(A, "linked", B, "x", to_ns=STARTED), Claim(A, "linked", C, "x", STARTED)])
    assert both.link_of(int(both.into_P[both.port_places[A]])) == found[1].name, "the later one"


def test_without_samples_the_better_source_is_used() -> None:
    found = links([Claim(A, "linked", B, "inventory"), Claim(A, "linked", C, "agent/lldp")])
    assert used_links(found, {}).tolist() == [False, True]


def test_samples_count_more_than_sources() -> None:
    found = links([Claim(A, "linked", B, "inventory"), Claim(A, "linked", C, "agent/lldp")])
    assert used_links(found, {0: 3}).tolist() == [True, False]


def test_a_link_that_loses_one_port_frees_its_other_port_for_others() -> None:
    other = "swport:leaf2/Ethernet1"
    claims = [Claim(A, "linked", B, "lldp"), Claim(A, "linked", C, "inventory"), Claim(other, "linked", C, "inventory")]
    found = links(claims)
    used = {link.name for link, use in zip(found, used_links(found, {}).tolist(), strict=True) if use}
    assert used == {"link:leaf1/Ethernet1~spine1/Ethernet1", "link:leaf2/Ethernet1~spine2/Ethernet1"}


def test_ports_belong_to_what_is_told_else_to_what_their_name_says() -> None:
    found = graph([Claim("port:x/0", "linked", A, "x"), Claim("port:x/0", "in", "storage:nfs-a", "x")])
    assert found.nodes == ["storage:nfs-a", "switch:leaf1"]
    assert named_node("port:h3/eth0") == "host:h3"
    assert named_node("swport:odd") == "switch:odd"


def test_directions_go_both_ways_between_the_ends() -> None:
    found = graph([*TINY.inventory(), *TINY.agents()])
    for direction in range(2 * len(found.links)):
        back = (direction + len(found.links)) % (2 * len(found.links))
        assert (found.from_D[direction], found.to_D[direction]) == (found.to_D[back], found.from_D[back])
    first, onward = found.onward
    assert len(onward) == 8, "four cables between switches, both ways"
    assert first[-1] == len(onward)


def test_an_empty_fabric_is_a_fabric() -> None:
    found = graph([])
    assert (found.nodes, found.ports, found.links) == ([], [], [])
    assert len(found.onward[1]) == 0


def test_closed_claims_keep_their_time() -> None:
    [link] = links([replace(Claim(A, "linked", B, "x"), to_ns=STARTED)])
    assert (link.from_ns, link.to_ns) == (BOOT, STARTED)
