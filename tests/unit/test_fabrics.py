"""The tiny fabric of the tests holds together: paths lie on its links, samples on their paths, ids on their flows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.builders.fabrics import (
    BERT,
    FLOWS,
    LIED_ABOUT,
    PARTIAL,
    RING,
    SPRAYED,
    T0,
    TINY,
    Claim,
    Clos,
    S,
    relation_table,
    sample_table,
    samples,
    tiny,
    tiny_claims,
    tiny_samples,
)  # fmt: skip

from leadline.model.ids import link_id, parse_entity_id
from leadline.model.tables import BY_NAME
from leadline.store.schema import arrow_schema

WIDE = Clos(leaves=3, spines=4, hosts_per_leaf=5, gpus_per_host=1)


@pytest.mark.parametrize("clos", [TINY, WIDE], ids=["tiny", "wide"])
def test_paths_lie_on_the_cables(clos: Clos) -> None:
    cables = {link_id(*each) for each in clos.cables()}
    assert len(cables) == len(clos.hosts) + clos.leaves * clos.spines
    for src in clos.hosts:
        for dst in clos.hosts:
            links, hops = clos.links(src, dst, clos.spines), clos.hops(src, dst, clos.spines)
            assert set(links) <= cables
            assert len(links) == len(hops) + 1
            for hop, (before, after) in zip(hops, pairwise(links), strict=True):
                assert f"{hop.switch}/{hop.in_port}" in before
                assert f"{hop.switch}/{hop.out_port}" in after


def test_relations_are_of_entities_and_said_once() -> None:
    relation, _ = tiny()
    assert relation.num_rows == len({(each.child, each.kind, each.parent, each.source) for each in tiny_claims()})
    for name in ("child", "parent"):
        assert all(parse_entity_id(text) for text in relation[name].to_pylist())


def test_a_closed_edge_is_one_row() -> None:
    edge = Claim("a", "in", "b", "agent")
    table = relation_table([edge, Claim("a", "in", "b", "agent", to_ns=T0)])
    assert table["to_ns"].to_pylist() == [T0]


def test_inventory_and_agents_tell_all_cables() -> None:
    told = {
        link_id(each.child, each.parent)
        for each in (*WIDE.inventory(), *WIDE.agents())
        if each.kind == "linked"
    }  # fmt: skip
    assert told == {link_id(*each) for each in WIDE.cables()}
    assert not [each for each in WIDE.agents(addresses=False) if each.child.startswith("address:")]


def test_samples_lie_on_the_path_of_their_flow() -> None:
    found = list(samples(TINY, RING[1], 5))
    assert len(found) == 15
    assert {each.flow for each in found} == {RING[1].id(TINY)}
    assert all(T0 <= each.time_ns < T0 + 10 * S for each in found)
    hops = {(hop.switch, hop.in_port, hop.out_port) for hop in TINY.hops(RING[1].src, RING[1].dst, RING[1].spines[0])}
    assert {(each.switch, each.in_port, each.out_port) for each in found} == hops
    assert {each.switch for each in samples(TINY, PARTIAL, 2, only=("leaf2",))} == {"leaf2"}
    assert {each.switch for each in samples(TINY, SPRAYED, 4)} == {"leaf2", "spine1", "spine2", "leaf1"}


def test_the_tiny_site_has_what_it_promises() -> None:
    relation, flow_sample = tiny()
    flows = set(flow_sample["flow"].to_pylist())
    assert flows == {each.id(TINY).to_bytes(16, "little") for each in FLOWS} | {bytes(16)}
    cables = {
        (row["parent"], row["source"]) for row in relation.to_pylist() if TINY.nic(4) in (row["child"], row["parent"])
    }
    assert (TINY.edge(4), "agent/lldp") in cables
    assert TINY.edge(3) in {row["child"] for row in relation.to_pylist() if row["parent"] == TINY.nic(4)}
    wrong = [each for each in tiny_samples() if each.flow == LIED_ABOUT.id(TINY) and each.switch == "spine2"]
    assert {each.in_port for each in wrong} == {"Ethernet1"}
    assert len({BERT.rank(number) for number in range(4)}) == 4


def test_no_rows_make_empty_tables() -> None:
    assert relation_table([]).num_rows == sample_table([]).num_rows == 0
    assert relation_table([]).schema == arrow_schema(BY_NAME["relation"])
