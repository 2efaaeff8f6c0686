"""Rows that are remembered are those that would have been read, whatever was written meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.incidents import Names, rows_of

from leadline.model.tables import BY_NAME, Table
from leadline.runner.load import Chosen, HeldRows
from leadline.runner.remembered import Remembered

S = 10**9
CONFLICT, RELATION, VOLUME, EVENT = (BY_NAME[name] for name in ("conflict", "relation", "flow_volume", "event"))
READS: dict[str, Callable[[int], Chosen]] = {
    "conflict": lambda at: Chosen(CONFLICT, ("entity", "end_ns"), (at - 30) * S, at * S, True, "lab"),
    "relation": lambda at: Chosen(RELATION, ("child", "to_ns"), (at - 2) * S, at * S, True, "lab"),
    "flow_volume": lambda at: Chosen(VOLUME, ("link", "end_ns"), (at - 20) * S, at * S, False, "lab"),
    "event": lambda at: Chosen(EVENT, ("entity", "time_ns"), (at - 20) * S, at * S, False, "lab"),
}


class Counting(HeldRows):
    """Rows in memory that count how often they are asked."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: Counter[str] = Counter()
        self.written: Counter[str] = Counter()

    def chosen(self, chosen: Chosen) -> pa.Table:
        self.asked[chosen.table.name] += 1
        return super().chosen(chosen)

    def owners(self, chosen: Chosen) -> list[tuple[str, str, str]]:
        self.asked[chosen.table.name] += 1
        return super().owners(chosen)

    def next_ns(self, table: Table, from_ns: int) -> int | None:
        self.asked[table.name] += 1
        return super().next_ns(table, from_ns)

    def write(self, name: str, row: dict[str, Any]) -> None:
        self.add(BY_NAME[name], rows_of(BY_NAME[name], [row], Names(cluster="lab")))
        self.written[name] += 1


def row_of(name: str, at: int, rng: np.random.Generator) -> dict[str, Any]:
    """A row that was told at a time; some of what happened before, or lasts."""
    entity, began = str(rng.choice(["a", "b", "c"])), int(at - rng.integers(0, 40))
    end = None if rng.random() < 0.5 else int(began + rng.integers(0, 60)) * S
    by = {"version": 1, "revision": 0}
    if name == "conflict":
        return {"entity": entity, "kind": "loop", "start_ns": began * S, "end_ns": end, "seen_ns": at * S,
                "analysis": "graph", **by}  # fmt: skip
    if name == "relation":
        return {"child": entity, "parent": f"host:{at}", "kind": "in", "from_ns": began * S, "to_ns": end}
    if name == "flow_volume":
        return {
            "link": entity,
            "flow": at,
            "end_ns": began // 10 * 10 * S,
            "window_ns": 10 * S,
            "analysis": "path",
            **by,
        }
    return {"entity": entity, "time_ns": began * S, "kind": "xid", "batch": at, "batch_row": 0}


def said(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


@pytest.mark.parametrize("name", READS)
def test_what_is_remembered_is_what_would_have_been_read(name: str) -> None:
    rng, beneath = np.random.default_rng(7), Counting()
    remembered, asked = Remembered(beneath, beneath.written.__getitem__), 0
    some: set[int] = set()
    for at in range(100, 400, 2):
        for _ in range(int(rng.integers(1, 4)) if rng.random() < 0.15 else 0):
            beneath.write(name, row_of(name, at, rng))
        again = at - 50 if rng.random() < 0.05 else at  # a window that is judged again
        chosen = READS[name](again)
        wanted = HeldRows.chosen(beneath, chosen)
        found = remembered.chosen(chosen)
        assert found.schema == wanted.schema
        assert said(found) == said(wanted), at
        assert remembered.owners(chosen) == HeldRows.owners(beneath, chosen)
        table, since = BY_NAME[name], again * S
        assert remembered.next_ns(table, since) == HeldRows.next_ns(beneath, table, since)
        asked, some = asked + 3, some | {found.num_rows}
    assert len(some) > 2
    assert beneath.asked[name] < asked / 2, "half of the reads were spared"


def test_a_table_that_is_written_all_the_time_is_read_as_it_is_asked_for() -> None:
    beneath, seen = Counting(), []
    rng = np.random.default_rng(1)
    remembered = Remembered(beneath, beneath.written.__getitem__)
    for at in range(100, 120, 2):
        beneath.write("event", row_of("event", at, rng))
        chosen = READS["event"](at)
        assert said(remembered.chosen(chosen)) == said(HeldRows.chosen(beneath, chosen))
        seen.append(beneath.asked["event"])
    assert seen == list(range(1, 11))


def test_more_rows_than_may_be_kept_are_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.runner.remembered.ROWS_MAX", 3)
    beneath, rng = Counting(), np.random.default_rng(1)
    for at in range(100, 110):
        beneath.write("event", row_of("event", at, rng))
    remembered = Remembered(beneath, beneath.written.__getitem__)
    for at in (100, 102, 104):
        chosen = READS["event"](at)
        assert said(remembered.chosen(chosen)) == said(HeldRows.chosen(beneath, chosen))
    assert beneath.asked["event"] == 3
