"""When something was there, and when it was whole for the last time."""

from __future__ import annotations

from dataclasses import replace

from tests.builders.fabrics import T0, Claim, S, relation_table

from leadline.analysis.graph.graph import Graph, graph
from leadline.analysis.graph.lasting import Lasting, lasting


def rank(number: int, to_ns: int | None, from_ns: int = T0) -> list[Claim]:
    name = f"rank:j/{number}"
    return [
        Claim(name, "in", "job:j", "torch-hook", from_ns, to_ns),
        Claim(name, "runs-on", "host:h1", "torch-hook", from_ns, to_ns),
    ]


def made(*parts: list[Claim]) -> Graph:
    return graph(relation_table([claim for part in parts for claim in part]))


def test_a_job_whose_ranks_end_one_by_one_was_whole_before_the_first() -> None:
    whole = made(rank(0, T0 + 90 * S), rank(1, T0 + 91 * S), rank(2, T0 + 92 * S))
    assert lasting(whole, "job:j") == Lasting(T0, T0 + 92 * S, T0 + 90 * S - 1)


def test_a_rank_that_left_long_before_is_not_waited_for() -> None:
    found = lasting(made(rank(0, T0 + 900 * S), rank(1, T0 + 9 * S)), "job:j")
    assert found == Lasting(T0, T0 + 900 * S, T0 + 900 * S - 1)


def test_what_holds_has_no_end() -> None:
    found = lasting(made(rank(0, None), rank(1, T0 + S)), "job:j")
    assert found is not None
    assert found.to_ns is None


def test_an_edge_of_a_rank_that_nobody_closes_does_not_keep_its_job() -> None:
    open_for_ever = Claim("rank:j/0", "runs-on", "gpu:GPU-1", "agent/graph", T0)
    found = lasting(made(rank(0, T0 + 9 * S), [open_for_ever]), "job:j")
    assert found == Lasting(T0, T0 + 9 * S, T0 + 9 * S - 1)


def test_a_tenant_is_told_of_its_own_rows_only() -> None:
    whole = made([replace(each, tenant="other") for each in rank(0, T0 + S)], rank(1, T0 + 2 * S))
    found = lasting(whole, "job:j", ["other"])
    assert found is not None
    assert found.to_ns == T0 + S
    assert lasting(whole, "job:j", ["third"]) is None


def test_what_ends_before_it_begins_was_never_there() -> None:
    assert lasting(made(rank(0, T0 - S)), "job:j") is None
    assert lasting(made(rank(0, T0)), "job:never") is None
