"""The analysis `colocation`: from fits of clocks to rows, window after window, and edges of the graph."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.machines import SCENE, WINDOW, delay, fits, pairs, tables
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
    rows = said(tables(fits(seed=seed)))
    assert told_pairs(rows) == pairs(seed=seed)
    assert all(json.loads(row["evidence"])[0]["table"] == "clock_fit" for row in rows)


def test_unknown_is_said_where_the_guests_clock_is_steered_by_its_host() -> None:
    rows = said(tables(fits(replace(SCENE, steered="exact"))))
    assert told_pairs(rows) == set()
    assert {row["kind"] for row in rows} == {"unknown"}
    assert len(rows) == SCENE.hosts
    assert "somebody steers" in json.loads(rows[0]["evidence"])[0]["text"]


def test_fits_that_are_no_witness_are_left_out() -> None:
    carried = [row | {"state": "carried"} for row in fits()]
    coarse = [row | {"analysis": "coarse", "ahead_ns": None} for row in fits()]
    assert not judged(colocation, tables([*carried, *coarse]), WINDOW)["colocation"]["entity"]


def test_a_prober_that_began_anew_is_unknown_until_it_was_followed() -> None:
    host = min(min(pairs(), key=sorted)).removeprefix("host:")
    since_ns = WINDOW.to_ns - 12 * S
    rows = [
        row | {"clock": f"{host}/2", "ahead_ns": row["ahead_ns"] - 7 * 10**15}
        if row["host"] == host and row["end_ns"] > since_ns else row
        for row in fits()
    ]  # fmt: skip
    found = {row["entity"]: row for row in said(tables(rows))}
    assert found[f"host:{host}"]["kind"] == "unknown"
    assert "too short" in json.loads(found[f"host:{host}"]["evidence"])[0]["text"]


def test_what_still_holds_keeps_its_begin_and_what_no_longer_does_ends() -> None:
    first = said(tables(fits()))
    later = Window(WINDOW.to_ns, WINDOW.to_ns + 10 * S)
    more = [row | {"end_ns": row["end_ns"] + 10 * S} for row in fits()]
    second = said(tables(more, told=again(first)), later)
    assert {row["entity"]: row["start_ns"] for row in second} == {row["entity"]: row["start_ns"] for row in first}
    steered = [row | {"end_ns": row["end_ns"] + 10 * S} for row in fits(replace(SCENE, steered="exact"))]
    third = said(tables(steered, told=again(first)), later)
    ended = {row["entity"]: row["end_ns"] for row in third if row["kind"] == "shares-machine"}
    assert ended == {row["entity"]: WINDOW.to_ns for row in first if row["kind"] == "shares-machine"}
    now = {row["entity"] for row in third if row["kind"] == "unknown" and row["end_ns"] is None}
    assert len(now) == SCENE.hosts


def test_hosts_of_two_tenants_are_never_compared() -> None:
    both = [*fits(), *(row | {"host": f"x{row['host']}", "clock": f"x{row['clock']}"} for row in fits(tenant="b"))]
    for one, other in told_pairs(said(tables(both))):
        assert one.startswith("host:x") == other.startswith("host:x")


def test_queues_that_grow_at_once_make_no_pair() -> None:
    waits = [delay(host, WINDOW.to_ns - k * 5 * S, 10_000 * (k * k % 7)) for host in ("h01", "h02") for k in range(36)]
    assert told_pairs(said(tables(fits(), waits))) == pairs()


def test_the_table_is_an_edge_of_the_graph_each_pair_once() -> None:
    rows = tables([], told=again(said(tables(fits()))))["colocation"]
    edges = machine_edges(rows)
    assert {
        frozenset(pair) for pair in zip(*(edges[name].to_pylist() for name in ("child", "parent")), strict=True)
    } == pairs()
    assert edges.num_rows == len(pairs())
    types = [(name, pa.string()) for name in ("child", "parent", "kind")] + [
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
    ]
    topology = topology_of(with_machines(pa.schema(types).empty_table(), rows), ("shares-machine",))
    one, other = min(pairs(), key=sorted)
    assert other in topology.hosts_beside(one)
    assert one in topology.hosts_beside(other)
