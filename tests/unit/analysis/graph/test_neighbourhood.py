"""What a job stands on, on the tiny Clos of `tests.builders.fabrics`: two jobs, four hosts, two leaves, two spines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.builders.fabrics import BERT, BOOT, MOE, PROVIDER, STARTED, T0, TINY, Claim, S, relation_table, tiny_claims

from leadline.analysis.graph.answers import changes, neighbourhood
from leadline.analysis.graph.graph import Graph, graph
from leadline.analysis.graph.neighbourhood import Neighbourhood
from leadline.model.ids import link_id

UPLINK = link_id(TINY.up(1, 1), TINY.down(1, 1))
OTHER_UPLINK = link_id(TINY.up(2, 2), TINY.down(2, 2))


# The tiny site does not say which switch this port is in; here it does.
SITE = [*tiny_claims(), Claim(TINY.edge(4), "in", "switch:leaf2", "inventory")]


@pytest.fixture(scope="module")
def tiny() -> Graph:
    return graph(relation_table(SITE))


def entities(found: Neighbourhood, kind: str = "") -> set[str]:
    return {node.entity for node in found.nodes if not kind or node.kind == kind}


def with_more(*claims: Claim) -> Graph:
    return graph(relation_table([*SITE, *claims]))


def test_a_job_stands_on_ranks_gpus_hosts_ports_leaves_and_storage(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:moe-2", T0)
    assert entities(found, "rank") == {"rank:moe-2/0", "rank:moe-2/1"}
    assert entities(found, "gpu") == {TINY.gpu(2, 1), TINY.gpu(4, 1)}
    assert entities(found, "host") == {"host:h2", "host:h4"}
    assert entities(found, "port") == {TINY.nic(2), TINY.nic(4)}
    assert entities(found, "switch") == {"switch:leaf1", "switch:leaf2"}
    assert entities(found, "storage") == {"storage:nfs-a"}
    assert entities(found, "flow") | entities(found, "process") | entities(found, "comm") == set()


def test_layers_go_down_from_the_job(tiny: Graph) -> None:
    layers = {node.kind: node.layer for node in neighbourhood(tiny, "job:moe-2", T0).nodes}
    assert layers == {"job": 0, "rank": 1, "gpu": 2, "host": 3, "port": 4, "storage": 4, "switch": 5}


def test_every_edge_lies_between_nodes_and_its_upper_end_stands_above(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:bert-1", T0, {UPLINK: ["bert-1"]})
    layer = {node.entity: node.layer for node in found.nodes}
    assert all(layer[edge.child] < layer[edge.parent] for edge in found.edges)


def test_a_link_is_one_edge_whoever_tells_it(tiny: Graph) -> None:
    edges = [edge for edge in neighbourhood(tiny, "job:moe-2", T0).edges if edge.child == TINY.nic(2)]
    assert [(edge.parent, edge.link, edge.sources) for edge in edges] == [
        ("switch:leaf1", link_id(TINY.nic(2), TINY.edge(2)), ("agent/lldp", "inventory"))
    ]
    assert (edges[0].child_port, edges[0].parent_port) == (TINY.nic(2), TINY.edge(2))
    assert (edges[0].from_ns, edges[0].to_ns, edges[0].confidence) == (BOOT, None, 1.0)


def test_what_two_jobs_stand_on_is_shared_and_their_own_links_are_not(tiny: Graph) -> None:
    shared = {(each.entity, each.kind) for each in neighbourhood(tiny, "job:moe-2", T0).shared}
    both = {link_id(TINY.nic(host), TINY.edge(host)) for host in (2, 4)}  # bert-1 has ranks on these hosts, too
    assert shared == {
        ("host:h2", "host"), ("host:h4", "host"), ("storage:nfs-a", "storage"), ("switch:leaf1", "switch"),
        ("switch:leaf2", "switch"), ("host:h1", "machine"), *((link, "link") for link in both),
    }  # fmt: skip
    assert all(each.jobs == ("job:bert-1", "job:moe-2") for each in neighbourhood(tiny, "job:moe-2", T0).shared)


def test_jobs_on_one_leaf_share_the_switch_and_nothing_else() -> None:
    left, right = replace(BERT, hosts=(1,)), replace(MOE, hosts=(2,))
    claims = [*TINY.inventory(), *TINY.agents(), *left.claims(TINY), *right.claims(TINY)]
    shared = neighbourhood(graph(relation_table(claims)), "job:bert-1", T0).shared
    assert [(each.entity, each.jobs) for each in shared] == [("switch:leaf1", ("job:bert-1", "job:moe-2"))]


def test_jobs_on_one_machine_share_it_though_their_hosts_differ() -> None:
    left, right = replace(BERT, hosts=(1,)), replace(MOE, hosts=(4,))
    claims = [*TINY.inventory(), *TINY.agents(), *left.claims(TINY), *right.claims(TINY)]
    claims += [Claim(f"host:h{host}", "shares-machine", "host:h3", "inventory") for host in (1, 4)]
    shared = neighbourhood(graph(relation_table(claims)), "job:moe-2", T0).shared
    assert [(each.entity, each.kind) for each in shared] == [("host:h1", "machine")]


def test_without_traced_paths_nothing_is_said_above_the_leaves(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:bert-1", T0)
    assert "no path is traced above the leaves" in found.missing
    assert not any("spine" in node.entity for node in found.nodes)


def test_traced_paths_show_the_links_above_the_leaves_that_the_job_crosses(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:bert-1", T0, {UPLINK: ["bert-1", "moe-2"], OTHER_UPLINK: ["moe-2"]})
    assert "no path is traced above the leaves" not in found.missing
    spines = [node for node in found.nodes if "spine" in node.entity]
    assert [(node.entity, node.layer, node.jobs) for node in spines] == [
        ("switch:spine1", 6, ("job:bert-1", "job:moe-2"))
    ]
    edge = next(edge for edge in found.edges if edge.link == UPLINK)
    assert (edge.child, edge.parent) == ("switch:leaf1", "switch:spine1")
    assert UPLINK in {each.entity for each in found.shared}


def test_a_traced_link_that_nobody_told_of_is_said_to_be_missing(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:bert-1", T0, {"link:leaf9/a~spine9/b": ["bert-1"]})
    assert any("link:leaf9/a~spine9/b" in each for each in found.missing)


def test_tiers_above_the_spines_count_on() -> None:
    top = "swport:super1/Ethernet1"
    claims = [
        Claim("swport:spine1/Ethernet9", "linked", top, "inventory"),
        Claim(top, "in", "switch:super1", "inventory"),
        Claim("swport:spine1/Ethernet9", "in", "switch:spine1", "inventory"),
    ]
    paths = {UPLINK: ["bert-1"], link_id("swport:spine1/Ethernet9", top): ["bert-1"]}
    layers = {node.entity: node.layer for node in neighbourhood(with_more(*claims), "job:bert-1", T0, paths).nodes}
    assert (layers["switch:leaf1"], layers["switch:spine1"], layers["switch:super1"]) == (5, 6, 7)


def test_what_stands_on_a_leaf_goes_up_to_the_jobs(tiny: Graph) -> None:
    found = neighbourhood(tiny, "switch:leaf1", T0)
    assert entities(found, "job") == {"job:bert-1", "job:moe-2"}
    assert entities(found, "host") == {"host:h1", "host:h2"}
    assert found.as_answer()["of"] == "switch:leaf1"
    assert found.as_answer()["job"] is None


def test_what_stands_on_a_link_is_what_stands_on_its_host(tiny: Graph) -> None:
    found = neighbourhood(tiny, link_id(TINY.nic(1), TINY.edge(1)), T0)
    assert entities(found, "host") == {"host:h1"}
    assert entities(found, "job") == {"job:bert-1"}
    assert "switch:leaf1" in entities(found)


def test_a_job_on_a_spine_is_known_by_its_paths(tiny: Graph) -> None:
    assert entities(neighbourhood(tiny, "switch:spine1", T0), "job") == set()
    found = neighbourhood(tiny, "switch:spine1", T0, {UPLINK: ["bert-1"]})
    assert next(node.jobs for node in found.nodes if node.entity == "switch:spine1") == ("job:bert-1",)


def test_a_rank_stands_on_what_it_runs_on_and_its_job_stands_on_it(tiny: Graph) -> None:
    found = neighbourhood(tiny, "rank:bert-1/0", T0)
    assert entities(found, "job") == {"job:bert-1"}
    assert entities(found, "host") == {"host:h1"}
    assert entities(found, "rank") == {"rank:bert-1/0"}


def test_before_it_began_and_after_it_ended_a_job_stands_on_nothing() -> None:
    job = replace(BERT, name="short")
    whole = with_more(*job.claims(TINY, T0, T0 + S))
    assert entities(neighbourhood(whole, "job:short", T0), "rank") != set()
    for at_ns in (T0 - 1, T0 + S):
        found = neighbourhood(whole, "job:short", at_ns)
        assert entities(found) == {"job:short"}
        assert found.missing == ("no source reports a rank of job:short at this time",)


def test_an_entity_that_nobody_tells_of_is_answered_with_itself(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:never", T0)
    assert entities(found) == {"job:never"}
    assert found.missing == ("no source reports job:never",)


def test_of_contradicting_claims_both_are_shown_and_one_is_followed() -> None:
    found = neighbourhood(with_more(Claim(TINY.gpu(1, 0), "in", "host:h9", "inventory")), "job:bert-1", T0)
    claimed = {edge.parent: edge.used for edge in found.edges if edge.child == TINY.gpu(1, 0)}
    assert claimed == {"host:h1": True, "host:h9": False}
    assert [node.conflict for node in found.nodes if node.entity == TINY.gpu(1, 0)] == [True]
    row = next(row for row in found.conflicts if row["entity"] == TINY.gpu(1, 0))
    assert (row["kind"], row["used"], row["claims"]) == ("two-hosts", "host:h1", ["host:h1", "host:h9"])
    assert next(node.jobs for node in found.nodes if node.entity == "host:h9") == ()


def test_a_link_claimed_wrongly_is_marked_at_both_of_its_ports(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:bert-1", T0)  # the inventory says that host 4 hangs on host 3's port
    assert {row["entity"] for row in found.conflicts} >= {TINY.nic(4), TINY.edge(3)}
    wrong = [edge for edge in found.edges if not edge.used]
    assert [(edge.child_port, edge.parent_port) for edge in wrong] == [(TINY.nic(4), TINY.edge(3))]


def test_relations_that_are_not_understood_are_shown_at_what_was_asked_for() -> None:
    whole = with_more(Claim("host:h1", "cooled-by", "pump:7", "site"))
    found = neighbourhood(whole, "host:h1", T0)
    assert ("host:h1", "pump:7", "cooled-by") in {(edge.child, edge.parent, edge.kind) for edge in found.edges}
    assert next(node.kind for node in found.nodes if node.entity == "pump:7") == "pump"
    assert whole.counts()["unknown-relation"] == 1
    assert "pump:7" not in entities(neighbourhood(whole, "job:bert-1", T0))


def test_what_no_source_tells_is_named() -> None:
    claims = [Claim("rank:a/0", "in", "job:a", "scheduler"), Claim("rank:a/1", "in", "job:a", "scheduler"),
              Claim("rank:a/0", "runs-on", "host:lone", "scheduler")]  # fmt: skip
    missing = neighbourhood(graph(relation_table(claims)), "job:a", T0).missing
    assert missing == (
        "2 of kind rank (rank:a/0, rank:a/1): no source says which GPU it runs on",
        "rank:a/1: no source says where it runs",
        "host:lone: no source reports its ports",
    )


def test_a_switch_port_whose_switch_nobody_tells_is_a_node_itself() -> None:
    claims = [Claim("rank:a/0", "in", "job:a", "x"), Claim("rank:a/0", "runs-on", "host:h", "x"),
              Claim("port:h/0", "in", "host:h", "x"), Claim("port:h/0", "linked", "swport:s/1", "x")]  # fmt: skip
    found = neighbourhood(graph(relation_table(claims)), "job:a", T0)
    assert entities(found, "swport") == {"swport:s/1"}
    assert "swport:s/1: no source says which switch it is in" in found.missing


def test_only_the_rows_of_the_tenants_asked_for_count(tiny: Graph) -> None:
    found = neighbourhood(tiny, "job:moe-2", T0, tenants=[PROVIDER, MOE.tenant])
    assert entities(found, "rank") == {"rank:moe-2/0", "rank:moe-2/1"}
    assert {job for node in found.nodes for job in node.jobs} == {"job:moe-2"}
    assert entities(neighbourhood(tiny, "job:moe-2", T0, tenants=[PROVIDER]), "rank") == set()


def test_more_than_64_jobs_are_told_apart() -> None:
    jobs = [replace(BERT, name=f"j{number:03}", hosts=(1 + number % 2,)) for number in range(150)]
    claims = [*TINY.inventory(), *TINY.agents(), *(claim for job in jobs for claim in job.claims(TINY))]
    found = neighbourhood(graph(relation_table(claims)), "switch:leaf1", T0)
    on = {node.entity: node.jobs for node in found.nodes}
    assert on["switch:leaf1"] == tuple(f"job:j{number:03}" for number in range(150))
    assert on["host:h2"] == tuple(f"job:j{number:03}" for number in range(1, 150, 2))


def test_the_answer_is_json_and_has_the_agreed_keys(tiny: Graph) -> None:
    answer = neighbourhood(tiny, "job:bert-1", T0).as_answer()
    assert list(answer) == ["schema", "job", "of", "at_ns", "nodes", "edges", "shared", "conflicts", "missing"]
    assert answer == json.loads(json.dumps(answer))
    assert {"entity", "kind", "layer", "jobs", "conflict"} == set(answer["nodes"][0])
    assert {"child", "parent", "kind", "from_ns", "to_ns", "sources", "confidence", "link"} <= set(answer["edges"][0])


def test_changes_tell_what_came_and_went_in_order() -> None:
    nic, port = "port:h1/eth7", "swport:leaf1/Ethernet9"
    whole = with_more(Claim(nic, "linked", port, "agent/lldp", T0, T0 + S), Claim(nic, "in", "host:h1", "x", T0 + 5))
    told = [(each.at_ns - T0, each.what, each.edge.kind) for each in changes(whole, nic, T0, T0 + 2 * S)]
    assert told == [(0, "came", "linked"), (5, "came", "in"), (S, "went", "linked")]
    assert changes(whole, nic, T0, T0 + S)[-1].edge.kind == "in"
    assert [each.what for each in changes(whole, link_id(nic, port), T0, T0 + 1)] == ["came"]
    assert changes(whole, "port:never/0", STARTED, T0) == ()
