"""The one reader of relations: what counts where rows disagree, and what is not told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.failures import rows_of

from leadline.analysis.failures.parts import parts_of
from leadline.analysis.graph.topology import Placed, topology_of
from leadline.analysis.symptoms.job_ranks import job_ranks

RANK = "rank:bert-1/0"


def row(child: str, parent: str, kind: str = "runs-on", from_ns: int = 1, to_ns: int | None = None) -> dict[str, Any]:
    return {"child": child, "parent": parent, "kind": kind, "from_ns": from_ns, "to_ns": to_ns}


def relation(*rows: dict[str, Any]) -> pa.Table:
    return rows_of("relation", list(rows))


def test_the_place_that_a_rank_was_put_on_last_counts() -> None:
    found = topology_of(relation(row(RANK, "host:h9", from_ns=1), row(RANK, "host:h2", from_ns=5)))
    assert found.host_of(RANK) == "host:h2"
    assert [each.parent for each in found.placed("runs-on", "rank", "host")] == ["host:h9", "host:h2"]
    assert found.on(RANK) == {"host:h2", "host:h9"}, "a set: it was on both"


def test_of_places_since_one_time_the_first_by_name_counts() -> None:
    found = topology_of(relation(row(RANK, "host:h3"), row(RANK, "host:h2"), row(RANK, "host:h4")))
    assert found.host_of(RANK) == "host:h2"
    assert found.placed("runs-on", "rank", "host")[-1] == Placed(RANK, "host:h2", 1, None)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_cable_that_was_plugged_in_last_counts_whichever_end_told_of_it(backwards: bool) -> None:
    rows = [
        row("port:h1/eth0", "swport:leaf9/E9", "linked", from_ns=1),
        row("swport:leaf1/E2", "port:h1/eth0", "linked", from_ns=5),
        row("port:h1/eth0", "swport:leaf1/E1", "linked", from_ns=5),
        row("port:h1/eth0", "host:h8", "in", from_ns=1),
        row("port:h1/eth0", "host:h1", "in", from_ns=5),
    ]
    found = topology_of(relation(*(rows[::-1] if backwards else rows)))
    assert found.far("port:h1/eth0") == "swport:leaf1/E1", "of two since one time the first by name"
    assert found.owner("port:h1/eth0") == "host:h1"


def test_names_of_ports_may_have_slashes() -> None:
    found = topology_of(relation(row("port:h1/eth0", "swport:leaf1/Ethernet1/1", "linked")))
    assert found.owner("swport:leaf1/Ethernet1/1") == "switch:leaf1"


hosts = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), min_size=1, max_size=6)


@given(hosts)
def test_all_analyses_place_a_rank_alike(moves: Sequence[tuple[str, int]]) -> None:
    rows = relation(*(row(RANK, f"host:{host}", from_ns=at) for host, at in moves))
    wanted = topology_of(rows).host_of(RANK)
    assert f"host:{job_ranks(rows, 'bert-1').host_of[0]}" == wanted
    assert f"host:{parts_of(rows).host_of[RANK]}" == wanted


@given(st.permutations(range(5)))
def test_the_order_of_rows_does_not_matter(order: Sequence[int]) -> None:
    rows = [
        row(RANK, "host:h1"), row(RANK, "gpu:G1"), row("gpu:G1", "host:h1", "in"), row(RANK, "job:bert-1", "in"),
        row("port:h1/eth0", "swport:leaf1/E1", "linked"),
    ]  # fmt: skip
    found = topology_of(relation(*(rows[place] for place in order)))
    assert (found.above(RANK), found.gpus_of("host:h1"), found.jobs_on("gpu:G1"), found.far("swport:leaf1/E1")) == (
        [("in", "job:bert-1"), ("runs-on", "gpu:G1"), ("runs-on", "host:h1")], {"gpu:G1"}, {"bert-1"}, "port:h1/eth0",
    )  # fmt: skip


def test_names_of_jobs_may_have_slashes() -> None:
    found = topology_of(relation(row("rank:team/bert/3", "host:h1")), child="rank:team/bert/")
    assert found.jobs_on("host:h1") == {"team/bert"}
    assert topology_of(relation(row("rank:team/bert/3", "host:h1")), child="rank:team/x").names == []


@pytest.mark.parametrize("entity", [RANK, "host:h1", "port:h1/eth0", "link:a~b", "nonsense", ""])
def test_of_no_rows_nothing_is_told(entity: str) -> None:
    found = topology_of(relation(row("", "host:h1"))[:0])
    assert (found.above(entity), found.below(entity), found.began_ns(entity)) == ([], [], None)
    assert found.jobs_on(entity) == found.ranks_of(entity) == found.ports_of(entity) == frozenset()
    assert (found.count("gpu"), found.count("link")) == (1, 1), "the least number of peers is one"


def test_rows_without_an_end_are_left_out_and_other_relations_too() -> None:
    rows = relation(row(RANK, ""), row("", "host:h1"), row(RANK, "host:h1"), row(RANK, "storage:s", "mounts"))
    assert topology_of(rows, ("runs-on",)).names == ["host:h1", RANK]
    assert topology_of(rows).storage_of(RANK) == {"storage:s"}


def test_where_something_was_at_a_time() -> None:
    rows = [row(RANK, f"host:h{number}", from_ns=from_ns) for number, from_ns in ((1, 100), (2, 200), (3, 200))]
    topology = topology_of(relation(*rows))
    places = [topology.host_of(RANK, at_ns) for at_ns in (50, 100, 199, 200, 900)]
    assert places == ["host:h1", "host:h1", "host:h1", "host:h2", "host:h2"]
    assert topology.host_of(RANK) == "host:h2"
    assert topology.host_of("rank:bert-1/1", 100) == ""
