"""The analysis `colocation`: from lines of edges to rows, window after window, and edges of the graph."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.machines import MESH, WINDOW, delay, edges, pairs, tables
from tests.common.analysis_laws import judged, rows_of

from leadline.analysis.colocation.edges import machine_edges, with_machines
from leadline.analysis.colocation.machines import colocation
from leadline.analysis.graph.topology import topology_of
from leadline.analysis.spec import Window
from leadline.model.units import S

Row = dict[str, Any]


def said(given: dict[str, pa.Table], window: Window = WINDOW) -> list[Row]:
    verdicts = judged(colocation, given, window)
    return rows_of(colocation, verdicts, window)["colocation"]


def told_pairs(rows: list[Row]) -> set[frozenset[str]]:
    return {
        frozenset((row["entity"], other))
        for row in rows for other in row["others"] if row["kind"] == "shares-machine" and row["end_ns"] is None
    }  # fmt: skip


def again(rows: list[Row]) -> list[Row]:
    """Rows as the next window reads them."""
    return [row | {"probability": float.fromhex(row["probability"])} for row in rows]


@pytest.mark.parametrize("seed", range(4))
def test_hosts_of_one_machine_are_told_although_a_daemon_steers_what_they_show(seed: int) -> None:
    rows = said(tables(edges(seed=seed)))
    assert told_pairs(rows) == pairs(seed=seed)
    assert all(json.loads(row["evidence"])[0]["table"] == "edge_fit" for row in rows)


def test_unknown_is_said_where_the_guests_clock_is_steered_by_its_host() -> None:
    rows = said(tables(edges(replace(MESH, one_clock=True))))
    assert told_pairs(rows) == set()
    assert {row["kind"] for row in rows} == {"unknown"}
    assert len(rows) == MESH.hosts
    assert "somebody steers" in json.loads(rows[0]["evidence"])[0]["text"]


def test_lines_that_no_clocks_made_are_left_out() -> None:
    """Nothing is dropped in silence: who is without lines is told by nobody, and who has few as unknown."""
    wrong = ({"state": "few-points"}, {"rate_ppb": 1e9}, {"noise_ns": float("nan")}, {"offset_ns": None},
             {"offset_ns": 2**62})  # fmt: skip
    for more in wrong:
        assert not judged(colocation, tables([row | more for row in edges()]), WINDOW)["colocation"]["entity"]
    host = "h01"
    few = [row for row in edges() if host not in (row["src"], row["dst"]) or row["end_ns"] > WINDOW.to_ns - 12 * S]
    found = {row["entity"]: row for row in said(tables(few))}
    assert found[f"host:{host}"]["kind"] == "unknown"
    assert "too short" in json.loads(found[f"host:{host}"]["evidence"])[0]["text"]


def test_a_few_lines_that_lie_move_nobody() -> None:
    rows = edges()
    for place in range(0, len(rows), 97):
        rows[place] = rows[place] | {"offset_ns": rows[place]["offset_ns"] + 10**7}
    assert told_pairs(said(tables(rows))) == pairs()


def test_a_prober_that_began_anew_is_unknown_until_it_was_followed() -> None:
    host = min(min(pairs(), key=sorted)).removeprefix("host:")
    since_ns, by_ns = WINDOW.to_ns - 12 * S, 7 * 10**15
    rows = []
    for row in edges():
        if row["end_ns"] > since_ns and row["src"] == host:
            row |= {"clock": f"{host}/2", "probe_ns": row["probe_ns"] + by_ns, "offset_ns": row["offset_ns"] - by_ns}
        if row["end_ns"] > since_ns and row["dst"] == host:
            row |= {"dst_clock": f"{host}/2", "offset_ns": row["offset_ns"] + by_ns}
        rows.append(row)
    found = {row["entity"]: row for row in said(tables(rows))}
    assert found[f"host:{host}"]["kind"] == "unknown"
    assert "too short" in json.loads(found[f"host:{host}"]["evidence"])[0]["text"]


@pytest.mark.parametrize("by_ns", [10**13, 2**59, -(2**59)])
def test_a_line_of_another_time_costs_no_memory_and_moves_nobody(by_ns: int) -> None:
    rows = edges()
    rows[5] = rows[5] | {"probe_ns": rows[5]["probe_ns"] + by_ns}
    tracemalloc.start()
    try:
        assert told_pairs(said(tables(rows))) == pairs()
        assert tracemalloc.get_traced_memory()[1] < 200 * 10**6  # all blocks between once took 23 GB
    finally:
        tracemalloc.stop()


def test_what_still_holds_keeps_its_begin_and_what_no_longer_does_ends() -> None:
    first = said(tables(edges()))
    later = Window(WINDOW.to_ns, WINDOW.to_ns + 30 * S)
    more = [row | {name: row[name] + 30 * S for name in ("end_ns", "probe_ns")} for row in edges()]
    second = said(tables(more, told=again(first)), later)
    assert {row["entity"]: row["start_ns"] for row in second} == {row["entity"]: row["start_ns"] for row in first}
    steered = [
        row | {name: row[name] + 30 * S for name in ("end_ns", "probe_ns")}
        for row in edges(replace(MESH, one_clock=True))
    ]
    third = said(tables(steered, told=again(first)), later)
    ended = {row["entity"]: row["end_ns"] for row in third if row["kind"] == "shares-machine"}
    assert ended == {row["entity"]: WINDOW.to_ns for row in first if row["kind"] == "shares-machine"}
    now = {row["entity"] for row in third if row["kind"] == "unknown" and row["end_ns"] is None}
    assert len(now) == MESH.hosts


def test_hosts_of_two_tenants_are_never_compared() -> None:
    names = ("host", "clock", "src", "dst", "dst_clock")
    both = [*edges(), *(row | {name: f"x{row[name]}" for name in names} | {"tenant": "b"} for row in edges())]
    for one, other in told_pairs(said(tables(both))):
        assert one.startswith("host:x") == other.startswith("host:x")


def test_queues_that_grow_at_once_make_no_pair() -> None:
    waits = [delay(host, WINDOW.to_ns - k * 5 * S, 10_000 * (k * k % 7)) for host in ("h01", "h02") for k in range(36)]
    assert told_pairs(said(tables(edges(), waits))) == pairs()


def test_the_table_is_an_edge_of_the_graph_each_pair_once() -> None:
    rows = tables([], told=again(said(tables(edges()))))["colocation"]
    shared = machine_edges(rows)
    assert {
        frozenset(pair) for pair in zip(*(shared[name].to_pylist() for name in ("child", "parent")), strict=True)
    } == pairs()
    assert shared.num_rows == len(pairs())
    types = [(name, pa.string()) for name in ("child", "parent", "kind")] + [
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
    ]
    topology = topology_of(with_machines(pa.schema(types).empty_table(), rows), ("shares-machine",))
    one, other = min(pairs(), key=sorted)
    assert other in topology.hosts_beside(one)
    assert one in topology.hosts_beside(other)
