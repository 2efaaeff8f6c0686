"""Rows held in memory are those that the store would give, whatever is appended, again or late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.incident import Names, rows_of

from leadline.model.errors import StoreError
from leadline.model.tables import BY_NAME, Table
from leadline.runner import recent
from leadline.runner.conditions import Condition
from leadline.runner.load import Chosen, StoreRows
from leadline.runner.recent import Recent, hashes
from leadline.store import Store, StoreConfig

S = 10**9
EVENT, RELATION, CONFLICT, FAILURE, VOLUME, SAMPLE, RUN = (
    BY_NAME[name]
    for name in ("event", "relation", "conflict", "failure", "flow_volume", "metric_sample", "analysis_run")
)
TABLES = (EVENT, RELATION, CONFLICT, FAILURE, VOLUME, SAMPLE)
Row = dict[str, Any]


class Counting(Store):
    """A store that counts its statements and can be told that its disk is full."""

    queries = 0
    fails = False

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, *, limits: Any = None) -> pa.Table:
        self.queries += 1
        return super().query(sql, parameters, limits=limits)

    def _check_disk(self) -> None:
        if self.fails:
            raise StoreError("the disk is full")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Counting]:
    made = Counting(StoreConfig(path=str(tmp_path / "store"), ttl=False), (*TABLES, RUN))
    made.start()
    yield made
    made.stop()


def row_of(table: Table, at: int, rng: np.random.Generator) -> Row:
    """A row that is told at a time of what began before; few keys, so that many rows say the same thing anew."""
    entity, began = str(rng.choice(["a", "b", "c"])), int(at - rng.integers(0, 30))
    end = None if rng.random() < 0.5 else int(began + rng.integers(0, 40)) * S
    by = {"version": 1, "revision": int(rng.random() < 0.05)}
    if table in (CONFLICT, FAILURE):
        analysis = "graph" if table is CONFLICT else "failures"
        return {"entity": entity, "kind": "loop", "start_ns": began // 15 * 15 * S, "end_ns": end, "seen_ns": at * S,
                "analysis": analysis, **by}  # fmt: skip
    if table is RELATION:
        return {"child": entity, "parent": "host:x", "kind": "in", "from_ns": began // 10 * 10 * S, "to_ns": end}
    if table is VOLUME:
        ends = {"end_ns": began // 10 * 10 * S, "window_ns": 10 * S}
        return {"link": entity, "flow": at % 3, **ends, "bytes": float(at), "analysis": "path", **by}
    if table is SAMPLE:
        return {"series": ord(entity), "time_ns": began * S, "value": float(at)}
    return {"entity": entity, "time_ns": began * S, "kind": "xid", "batch": at % 4, "batch_row": began % 9}


def reads(table: Table, at: int) -> Iterator[Chosen]:
    """Reads of several analyses, some of a window that was judged before."""
    names = tuple(column.name for column in table.columns if column.name not in ("attributes", "labels"))
    valid = table in (RELATION, CONFLICT, FAILURE)
    for back, late in ((5, 0), (20, 0), (5, 12), (60, 30)):
        yield Chosen(table, names, (at - late - back) * S, (at - late) * S, valid, "lab")


def said(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_is_held_is_what_the_store_gives(store: Counting, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "BACK_NS", 10 * S)
    monkeypatch.setattr(recent, "ROWS_MAX", 400)  # rows are let go of, and a table is too large for a while
    monkeypatch.setattr(recent, "PIECES_MAX", 3)
    monkeypatch.setattr(recent, "_LITTLE", 50)
    plain, held = StoreRows(store), StoreRows(store, Recent(store))
    rng, some = np.random.default_rng(len(table.name)), 0
    for at in range(100, 150, 6):
        rows = [row_of(table, at, rng) for _ in range(int(rng.integers(5, 60)))]
        made = rows_of(table, rows, Names(cluster=str(rng.choice(["lab", "lab", "other"]))))
        store.append(table, made)
        if rng.random() < 0.2:
            store.append(table, made)  # its sender has not heard that it is stored
        for chosen in reads(table, at):
            wanted = said(plain.chosen(chosen))
            assert said(held.chosen(chosen)) == wanted, (at, chosen.from_ns)
            some += len(wanted)
        assert held.owners(chosen) == plain.owners(chosen)
        assert held.next_ns(table, chosen.from_ns) == plain.next_ns(table, chosen.from_ns)
    assert some > 50


def samples(first: int, count: int) -> pa.Table:
    rows = [{"series": 1, "time_ns": (first + place) * S, "value": 1.0} for place in range(count)]
    return rows_of(SAMPLE, rows, Names(cluster="lab"))


def test_the_store_is_asked_once_and_heard_from_then_on(store: Counting) -> None:
    held, asked = StoreRows(store, Recent(store)), []
    for at in range(0, 100, 10):
        store.append(SAMPLE, samples(at, 10))
        before = store.queries
        assert held.chosen(Chosen(SAMPLE, ("value",), at * S, (at + 10) * S)).num_rows == 10
        asked.append(store.queries - before)
    assert asked == [2] + [0] * 9  # how many there are, and which


def test_only_columns_that_are_read_are_held_and_one_more_is_asked_for_once(store: Counting) -> None:
    memory = Recent(store)
    store.append(SAMPLE, samples(0, 10))
    since = [Condition("time_ns", ">=", 0)]
    assert memory.stored(SAMPLE, ("value",), since) is not None
    (held,) = memory._held.values()
    assert set(held.rows.column_names) == {"value", "time_ns"}
    asked = []
    for at in range(10, 40, 10):
        store.append(SAMPLE, samples(at, 10))
        before = store.queries
        found = memory.stored(SAMPLE, ("value", "series"), since)
        assert found is not None
        assert sorted(found["series"].to_pylist()) == [(1).to_bytes(16, "little")] * (at + 10)
        asked.append(store.queries - before)
    assert asked == [2, 0, 0]


def test_what_perhaps_was_stored_is_asked_for(store: Counting) -> None:
    held = StoreRows(store, Recent(store))
    everything = Chosen(SAMPLE, ("value",), 0, 100 * S)
    store.append(SAMPLE, samples(0, 5))
    assert held.chosen(everything).num_rows == 5
    store.append(SAMPLE, samples(5, 5))
    store.fails = True
    with pytest.raises(StoreError):
        store.append(SAMPLE, samples(10, 5))
    store.fails = False
    before = store.queries
    assert held.chosen(everything).num_rows == 10
    assert store.queries > before


def test_a_table_with_too_many_rows_is_read_from_the_store(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "ROWS_MAX", 50)
    memory = Recent(store)
    store.append(SAMPLE, samples(0, 100))
    since = [Condition("time_ns", ">=", 0)]
    assert memory.stored(SAMPLE, ("value",), since) is None
    before = store.queries
    assert memory.stored(SAMPLE, ("value",), since) is None
    assert store.queries == before, "it is not counted anew for each window"
    late = memory.stored(SAMPLE, ("value",), [Condition("time_ns", ">=", 70 * S)])
    assert late is not None
    assert late.num_rows == 30


def test_rows_that_nobody_reads_are_let_go(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "ROWS_MAX", 50)
    memory = Recent(store)
    assert memory.stored(SAMPLE, ("value",), [Condition("time_ns", ">=", 0)]) is not None
    store.append(SAMPLE, samples(0, 60))
    assert not memory._held
    memory.close()
    assert not store._listeners


def test_keys_are_told_apart_by_their_values_alone() -> None:
    rows = [
        {"entity": name, "time_ns": at, "kind": "xid", "batch": at, "batch_row": 0} for name in "ab" for at in (1, 2)
    ]
    one = rows_of(EVENT, rows, Names(cluster="lab"))
    again = pa.concat_tables([one.slice(2), one.slice(0, 2)]).combine_chunks()
    numbers = hashes(EVENT, one)
    assert len(set(numbers.tolist())) == 4
    assert hashes(EVENT, again).tolist() == [*numbers[2:].tolist(), *numbers[:2].tolist()]
