"""Spans that many windows tell: the newest row of each says whether it is over, in a store as in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.incident import Names, rows_of

from leadline.model.tables import BY_NAME, Table
from leadline.runner.conditions import fulfilling
from leadline.runner.held import HeldRows
from leadline.runner.load import Chosen, StoreRows
from leadline.store import Store
from leadline.views.rows import rows_where

CONFLICT, INCIDENT, FAILURE, VOLUME, LEDGER = (
    BY_NAME[name] for name in ("conflict", "incident", "failure", "flow_volume", "ledger")
)
ENTITIES = ("a", "b", "c")
ANALYSIS = {"conflict": "graph", "incident": "cause", "failure": "failures", "flow_volume": "path", "ledger": "ledger"}
Row = dict[str, Any]


def told(table: Table, entity: str, seen: int, start: int, end: int | None, revision: int = 0) -> Row:
    name = "incident" if table is INCIDENT else "entity"
    return {
        name: entity, "start_ns": start, "end_ns": end, "seen_ns": seen, "analysis": ANALYSIS[table.name],
        "version": 1, "revision": revision,
    }  # fmt: skip


def history(table: Table, seed: int) -> list[Row]:
    """What windows of ten told of some spans, in any order; they are told again, end, begin again, or go silent."""
    rng = np.random.default_rng(seed)
    rows = []
    for seen in rng.permutation(np.arange(10, 110, 10)).tolist():
        for entity in ENTITIES:
            if rng.random() < 0.4:
                continue
            start = int(rng.choice([1, 35, 62]))
            end = None if rng.random() < 0.5 else int(max(start, seen - rng.integers(0, 30)))
            rows.append(told(table, entity, seen, start, end, int(rng.random() < 0.2)))
    return rows


def kept(store: Store, cluster: str, table: Table, rows: list[Row], runs: list[Row] | None = None) -> pa.Table:
    made = rows_of(table, rows, Names(cluster=cluster))
    store.append(table, made)
    if runs:
        store.append(BY_NAME["analysis_run"], rows_of(BY_NAME["analysis_run"], runs, Names(cluster=cluster)))
    return made


def valid(table: Table, cluster: str, from_ns: int, to_ns: int) -> Chosen:
    name = "incident" if table is INCIDENT else "entity"
    return Chosen(table, (name, "start_ns", "end_ns", "seen_ns", "revision"), from_ns, to_ns, True, cluster)


def rows_in(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


def expected(table: Table, rows: list[Row], from_ns: int, to_ns: int) -> list[tuple[Any, ...]]:
    """The same said plainly: the newest row of each key first."""
    newest: dict[Any, Row] = {}
    for row in rows:
        key = row["incident"] if table is INCIDENT else (row["entity"], row["start_ns"])
        best = newest.get(key)
        if best is None or (row["seen_ns"], row["revision"]) > (best["seen_ns"], best["revision"]):
            newest[key] = row
    out = []
    for row in newest.values():
        end = row["end_ns"]
        silent = not table.told_once and row["seen_ns"] <= from_ns
        if row["start_ns"] < to_ns and (end is None or end > from_ns) and not silent:
            shown = None if end is None or end > to_ns else end
            out.append((row.get("incident") or row["entity"], row["start_ns"], shown, row["seen_ns"], row["revision"]))
    return sorted(out, key=str)


@pytest.mark.parametrize("table", [CONFLICT, INCIDENT, FAILURE], ids=lambda table: table.name)
def test_the_newest_row_of_a_key_decides_in_store_and_memory(store: Store, table: Table) -> None:
    some = 0
    for seed in range(6):
        cluster, rows = f"law-{seed}", history(table, seed)
        held = HeldRows({table.name: kept(store, cluster, table, rows)})
        for from_ns, to_ns in ((0, 200), (25, 40), (55, 70), (95, 105), (100, 200)):
            chosen = valid(table, cluster, from_ns, to_ns)
            found = rows_in(StoreRows(store).chosen(chosen))
            assert found == rows_in(held.chosen(chosen)) == expected(table, rows, from_ns, to_ns), (seed, from_ns)
            assert StoreRows(store).owners(chosen) == held.owners(chosen)
            some += len(found)
    assert some > 20


def test_a_span_that_ended_does_not_come_back_open(store: Store) -> None:
    rows = [told(CONFLICT, "a", 10, 1, None), told(CONFLICT, "a", 20, 1, 15)]
    held = HeldRows({"conflict": kept(store, "ended", CONFLICT, rows)})
    for source in (StoreRows(store), held):
        assert rows_in(source.chosen(valid(CONFLICT, "ended", 12, 30))) == [("a", 1, 15, 20, 0)]
        assert source.chosen(valid(CONFLICT, "ended", 15, 30)).num_rows == 0
        assert source.owners(valid(CONFLICT, "ended", 15, 30)) == []


def test_an_open_span_that_no_window_tells_is_over_after_the_look_back_unless_it_is_told_once(store: Store) -> None:
    for table, still in ((CONFLICT, 0), (FAILURE, 1)):
        held = HeldRows({table.name: kept(store, "silent", table, [told(table, "a", 20, 1, None)])})
        for source in (StoreRows(store), held):
            assert source.chosen(valid(table, "silent", 19, 90)).num_rows == 1
            assert source.chosen(valid(table, "silent", 20, 90)).num_rows == still


def run(table: Table, end: int, revision: int, **more: Any) -> Row:
    return {
        "analysis": ANALYSIS[table.name], "end_ns": end, "window_ns": 10, "version": 1, "revision": revision,
        "state": "done", **more,
    }  # fmt: skip


def windows(table: Table, rng: np.random.Generator) -> list[Row]:
    """Rows of windows, some of which were judged again."""
    rows: list[Row] = []
    for end in (10, 20, 30):
        for revision in range(1 + int(rng.random() < 0.2)):
            for job in ("j", "k"):
                own = {"link": job, "flow": 1} if table is VOLUME else {"job": job, "category": f"c{revision}"}
                if rng.random() < 0.7:
                    rows.append({**own, **run(table, end, revision), "tenant": str(rng.choice(["acme", "beta"]))})
    return [{name: value for name, value in row.items() if name != "state"} for row in rows]


@pytest.mark.parametrize("table", [CONFLICT, VOLUME, LEDGER], ids=lambda table: table.name)
def test_the_quick_way_gives_what_the_query_gives(store: Store, table: Table) -> None:
    """Whatever was judged again, for whom, and cut off before its run was written."""
    for seed in range(14):
        rng, cluster = np.random.default_rng([seed, 5]), f"quick-{seed}"
        rows = history(table, seed) if table.newest else windows(table, rng)
        parts = [""] if table is CONFLICT or rng.random() < 0.3 else ["j", "k"]
        runs = [
            run(table, end, int(rng.random() < 0.15), part=part, tenant=tenant, state=state)
            for end in range(10, 110, 10)
            for part in parts
            for tenant in ("acme", "beta")
            for state in [str(rng.choice(["done", "done", "failed"]))]
            if rng.random() < 0.8
        ]
        kept(store, cluster, table, rows, runs)
        name = {"conflict": "entity", "flow_volume": "link", "ledger": "job"}[table.name]
        shown = ("tenant", name, "end_ns", "revision")
        chosen = Chosen(table, shown, 5, 100, bool(table.newest), cluster)
        names = ", ".join(column.name for column in table.columns)
        counting = rows_where(table, f"cluster = '{cluster}'")
        whole = store.query(f"SELECT {names} FROM ({counting})")
        wanted = fulfilling(whole, [each for part in chosen.conditions for each in part]).select(shown)
        assert rows_in(StoreRows(store).chosen(chosen)) == rows_in(wanted), seed


def test_rows_in_memory_are_put_together_and_only_the_newest_of_a_span_is_kept() -> None:
    held = HeldRows({})
    for seen in range(1, 1000):
        held.add(CONFLICT, rows_of(CONFLICT, [told(CONFLICT, "a", seen, 1, None)], Names(cluster="east")))
    [found] = rows_in(held.chosen(valid(CONFLICT, "east", 0, 2000)))
    assert found == ("a", 1, None, 999, 0)
    assert held.rows_held() < 200
    held.forget(CONFLICT, "seen_ns", 1000)
    assert held.chosen(valid(CONFLICT, "east", 0, 2000)).num_rows == 0
