"""The graph takes rows as they come."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from tests.builders.fabrics import BERT, T0, TINY, Claim, S, relation_table, tiny_claims

from leadline.analysis.graph.answers import neighbourhood
from leadline.analysis.graph.graph import graph

EDGE = Claim("gpu:g", "in", "host:a", "agent/graph", T0)


def test_an_edge_that_is_closed_is_the_same_edge() -> None:
    whole = graph(relation_table([EDGE])).updated(relation_table([replace(EDGE, to_ns=T0 + S)]))
    assert len(whole) == 1
    assert [node.entity for node in neighbourhood(whole, "gpu:g", T0).nodes] == ["gpu:g", "host:a"]
    assert [node.entity for node in neighbourhood(whole, "gpu:g", T0 + S).nodes] == ["gpu:g"]


def test_an_edge_that_is_opened_again_holds_again() -> None:
    closed = graph(relation_table([replace(EDGE, to_ns=T0 + S)]))
    assert len(neighbourhood(closed.updated(relation_table([EDGE])), "gpu:g", T0 + S).nodes) == 2


def test_an_update_leaves_the_older_graph_as_it_was() -> None:
    older = graph(relation_table(tiny_claims()))
    before = neighbourhood(older, "job:bert-1", T0)
    newer = older.updated(relation_table(replace(BERT, name="new").claims(TINY)))
    assert neighbourhood(older, "job:bert-1", T0) == before
    assert neighbourhood(older, "job:new", T0).edges == ()
    assert len(neighbourhood(newer, "job:new", T0).edges) > 4


def test_nothing_new_is_the_same_graph() -> None:
    whole = graph(relation_table([EDGE]))
    assert whole.updated(relation_table([])) is whole


def test_a_name_that_comes_later_can_make_two_things_one() -> None:
    whole = graph(relation_table([replace(EDGE, child="gpu:GPU-A1")]))
    whole = whole.updated(relation_table([Claim("rank:j/0", "runs-on", "gpu:gpu-a1", "torch-hook", T0)]))
    assert [node.entity for node in neighbourhood(whole, "rank:j/0", T0).nodes] == ["rank:j/0", "gpu:GPU-A1", "host:a"]


def test_a_name_that_comes_later_can_make_one_thing_two() -> None:
    def port(host: str) -> pa.Table:
        return relation_table([Claim(f"port:{host}/0", "in", f"host:{host}", "agent/graph", T0)])

    whole = graph(port("n1")).updated(port("n1.a.org"))
    assert [each.entity for each in whole.ambiguous] == []
    assert len(neighbourhood(whole, "host:n1", T0).nodes) == 2
    assert neighbourhood(whole, "host:n1.a.org", T0).nodes == neighbourhood(whole, "host:n1", T0).nodes
    whole = whole.updated(port("n1.b.org"))
    assert [each.entity for each in whole.ambiguous] == ["host:n1"]
    assert neighbourhood(whole, "host:n1.a.org", T0).nodes != neighbourhood(whole, "host:n1", T0).nodes


def test_rows_without_a_name_are_counted_and_left_out() -> None:
    whole = graph(relation_table([EDGE, replace(EDGE, child=""), replace(EDGE, parent="")]))
    assert (len(whole), whole.counts()["nameless"]) == (1, 2)


def test_a_table_without_tenants_and_without_rows_is_a_graph() -> None:
    assert len(graph(relation_table([EDGE]).drop_columns(["tenant"]))) == 1
    empty = graph(relation_table([]))
    assert neighbourhood(empty, "job:a", T0).missing == ("no source reports job:a",)
    assert empty.counts()["edges"] == 0
    assert len(empty.updated(relation_table([EDGE]))) == 1
