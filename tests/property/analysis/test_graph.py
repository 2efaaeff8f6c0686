"""Laws of the graph: however rows come, the same graph; however strange they are, an answer."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.analysis.graph import graph as graph_module
from leadline.analysis.graph.answers import changes, neighbourhood
from leadline.analysis.graph.conflicts import conflicts
from leadline.analysis.graph.graph import Graph, graph
from leadline.analysis.graph.neighbourhood import Neighbourhood
from leadline.analysis.spec import Window

NAMES = (
    "job:a", "job:b", "rank:a/0", "rank:a/1", "rank:b/0", "gpu:GPU-1", "gpu:gpu-1", "gpu:GPU-2", "host:h1", "host:h2",
    "host:h1.x.org", "host:h1.y.org", "port:h1/0", "port:h1.x.org/0", "port:h2/0", "swport:s/1", "swport:s/2",
    "swport:t/1", "switch:s", "switch:t", "storage:n", "comm:a/1", "flow:1", "qp:1/2", "link:h1/0~s/1", "pump:7", "",
    ":", "host:", "käse", "a b\n",
)  # fmt: skip
KINDS = ("in", "runs-on", "linked", "member", "owns", "mounts", "shares-machine", "has", "", "cooled-by")
TIMES = st.integers(-3, 12)
FIELDS = ("child", "parent", "kind", "from_ns", "to_ns", "source", "confidence", "tenant")
SCHEMA = pa.schema([
    ("child", pa.string()), ("parent", pa.string()), ("kind", pa.string()), ("from_ns", pa.int64()),
    ("to_ns", pa.int64()), ("source", pa.string()), ("confidence", pa.float64()), ("tenant", pa.string()),
])  # fmt: skip

Row = tuple[Any, ...]
ROW = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(KINDS), TIMES, st.none() | TIMES,
    st.sampled_from(["agent/graph", "inventory", "agent/lldp", ""]), st.sampled_from([0.5, 1.0]),
    st.sampled_from(["default", "ana"]),
)  # fmt: skip
ROWS = st.lists(ROW, max_size=40)


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(FIELDS, row, strict=True)) for row in rows], SCHEMA)


def key(row: Row) -> Row:
    child, parent, kind, from_ns, _, source, _, tenant = row
    return (child, parent, kind, from_ns, source, tenant)


def answers(whole: Graph) -> list[dict[str, Any]]:
    paths = {"link:s/1~t/1": ["a"], "link:s/2~t/1": ["job:b", "a"], "nonsense": ["a"], "link:": ["b"]}
    return [
        neighbourhood(whole, name, at_ns, traced).as_answer()
        for name in ("job:a", "gpu:GPU-1", "host:h1", "switch:s", "link:h1/0~s/1", "", "flow:1")
        for at_ns, traced in ((0, None), (5, paths))
    ]


@settings(deadline=None, max_examples=40)
@given(older=ROWS, newer=st.lists(ROWS, max_size=4))
def test_updating_gives_what_building_from_all_gives(older: list[Row], newer: list[list[Row]]) -> None:
    grown, whole = graph(table(older)), list(older)
    for rows in newer:
        grown, whole = grown.updated(table(rows)), whole + rows
    again = graph(table(whole))
    assert answers(grown) == answers(again)
    assert grown.counts() | {"nameless": 0} == again.counts() | {"nameless": 0}


@settings(deadline=None, max_examples=20)
@given(older=ROWS, newer=st.lists(ROWS, max_size=4))
def test_so_it_does_when_every_update_makes_a_new_base(older: list[Row], newer: list[list[Row]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "DELTA_MIN", 3)
        grown, whole = graph(table(older)), list(older)
        for rows in newer:
            grown, whole = grown.updated(table(rows)), whole + rows
        assert answers(grown) == answers(graph(table(whole)))


@settings(deadline=None, max_examples=40)
@given(rows=ROWS, random=st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Row], random: Any) -> None:
    rows = list({key(row): row for row in rows}.values())
    shuffled = random.sample(rows, len(rows))
    assert answers(graph(table(rows))) == answers(graph(table(shuffled)))


@settings(deadline=None, max_examples=40)
@given(rows=ROWS)
def test_nonsense_is_answered(rows: list[Row]) -> None:
    whole = graph(table(rows))
    for answer in answers(whole):
        assert answer == json.loads(json.dumps(answer))
        nodes = [node["entity"] for node in answer["nodes"]]
        assert len(set(nodes)) == len(nodes)
        assert {edge[end] for edge in answer["edges"] for end in ("child", "parent")} <= set(nodes)
    assert all(each.at_ns in (-1, 0, 1) for each in changes(whole, "host:h1", -1, 2))
    judged = conflicts(table(rows), window=Window(0, 10))["conflict"]
    assert all(end is None or end >= start for start, end in zip(judged["start_ns"], judged["end_ns"], strict=True))


@settings(deadline=None, max_examples=40)
@given(rows=ROWS)
def test_only_what_holds_at_the_time_is_shown(rows: list[Row]) -> None:
    whole = graph(table(rows))
    for name in ("job:a", "host:h1", "switch:s"):
        found = neighbourhood(whole, name, 5)
        assert all(edge.from_ns <= 5 and (edge.to_ns is None or edge.to_ns > 5) for edge in found.edges)
        told = {key(row)[:3] for row in rows if row[3] <= 5 and (row[4] is None or row[4] > 5)}
        assert _kinds(found) <= {kind for _, _, kind in told}


def _kinds(found: Neighbourhood) -> set[str]:
    return {edge.kind for edge in found.edges}
