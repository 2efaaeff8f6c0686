"""Spans that no window tells any more are closed where they were seen last; a later judgement is the newer word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders.stores import opened_store
from tests.unit.runner.toy_rows import BEGIN_NS, S
from tests.unit.runner.toy_world import World
from tests.unit.views.incidents import incident_rows as made
from tests.unit.views.incidents.incident_rows import anomaly

from leadline.model.incidents import is_unwatched
from leadline.model.tables import BY_NAME
from leadline.model.tables.verdicts import ANOMALY, INCIDENT, SYMPTOM
from leadline.runner.run import CLOSE_EVERY_NS, UNTOLD_NS
from leadline.runner.unwatched import SPANS, close_unwatched
from leadline.store import Store
from leadline.store.schema import arrow_table
from leadline.views.rows import rows_where

NOW = made.NOW


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened_store(tmp_path / "store") as found:
        yield found


def keep(store: Store, name: str, *rows: dict[str, Any]) -> None:
    table = BY_NAME[name]
    store.append(table, arrow_table(table, {c.name: [row[c.name] for row in rows] for c in table.columns}))


def told(store: Store, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]]
    rows = store.query(f"SELECT * FROM ({rows_where(BY_NAME[name])}) ORDER BY start_ns").to_pylist()
    return rows


def spans(store: Store, seen_s: float) -> None:
    """One open span of each table, last told `seen_s` after NOW."""
    seen_ns = NOW + round(seen_s * S)
    keep(store, "incident", made.incident(made.FLAP, "bert-1", -48, seen_ns=seen_ns))
    keep(store, "symptom", made.symptom("bert-1", -48, seen_ns=seen_ns))
    keep(store, "anomaly", anomaly(NOW - 48 * S, seen_ns))


def test_spans_are_those_of_the_three_tables_and_of_conflicts() -> None:
    assert {table.name for table in SPANS} >= {ANOMALY.name, SYMPTOM.name, INCIDENT.name}
    assert "failure" not in {table.name for table in SPANS}, "an open one is told once and holds"


def test_what_nobody_tells_is_over_since_it_was_seen_last(store: Store) -> None:
    spans(store, 0)
    assert close_unwatched(store, lambda _: NOW, 0) == 0, "seen at the limit is not before it"
    assert close_unwatched(store, lambda _: NOW + 1, 0) == 3
    for name in ("incident", "symptom", "anomaly"):
        (row,) = told(store, name)
        assert row["end_ns"] == NOW, name
        assert is_unwatched(row["end_ns"], row["seen_ns"]), name
    (incident,) = told(store, "incident")
    assert incident["state"] == "over"
    assert close_unwatched(store, lambda _: NOW + 10**15, 0) == 0, "closed once"


def test_of_the_symptoms_of_an_incident_those_that_lasted_end_with_it(store: Store) -> None:
    symptoms = [{"entity": "job:a", "end_ns": None}, {"entity": "job:b", "end_ns": 5}, "no symptom"]
    keep(store, "incident", made.incident(made.FLAP, "bert-1", -48, symptoms=json.dumps(symptoms)),
         made.incident(made.WORKER, "bert-1", -40, symptoms="no list"))  # fmt: skip
    assert close_unwatched(store, lambda _: NOW + 1, 0) == 2
    first, second = told(store, "incident")
    assert json.loads(first["symptoms"]) == [{"entity": "job:a", "end_ns": NOW}, symptoms[1], "no symptom"]
    assert second["symptoms"] == "no list"


def test_a_span_seen_before_it_begins_has_no_negative_length(store: Store) -> None:
    keep(store, "anomaly", anomaly(NOW + 5 * S, NOW))
    close_unwatched(store, lambda _: NOW + 60 * S, 0)
    (row,) = told(store, "anomaly")
    assert row["end_ns"] == row["start_ns"] == NOW + 5 * S


def test_a_window_judged_later_that_sees_it_still_is_the_newer_word(store: Store) -> None:
    spans(store, 0)
    close_unwatched(store, lambda _: NOW + 1, 0)
    keep(store, "incident", made.incident(made.FLAP, "bert-1", -48, seen_ns=NOW + 2 * S))
    (row,) = told(store, "incident")
    assert (row["state"], row["end_ns"]) == ("open", None)
    assert close_unwatched(store, lambda _: NOW + 3 * S, NOW) == 1, "and is closed again where nobody goes on"


def test_what_was_looked_at_is_not_looked_at_again(store: Store) -> None:
    spans(store, 0)
    assert close_unwatched(store, lambda _: NOW + 1, NOW + 1) == 0


class TestRunner:
    def open_span(self, store: Store) -> None:
        keep(store, "anomaly", anomaly(BEGIN_NS - 60 * S, BEGIN_NS, analysis="toy-volumes"))
        keep(store, "symptom", made.symptom("bert-1", 0, start_ns=BEGIN_NS - 60 * S, seen_ns=BEGIN_NS))

    def test_after_an_outage_and_not_before_everybody_had_time(self, store: Store) -> None:
        self.open_span(store)
        world = World(store, at_s=UNTOLD_NS / S - 60)
        world.go(0)
        assert world.runner.close_unwatched() == 0, "late rows may still tell more"
        world.go(CLOSE_EVERY_NS / S + 120)
        assert world.runner.close_unwatched() == 2
        assert world.counted["unwatched"] == 2

    def test_it_looks_every_few_minutes(self, store: Store) -> None:
        world = World(store, at_s=3600)
        world.go(0)
        assert world.runner.close_unwatched() == 0
        self.open_span(store)
        world.go(CLOSE_EVERY_NS / S / 2)
        assert world.runner.close_unwatched() == 0, "it looked just now"
        world.go(CLOSE_EVERY_NS / S)
        assert world.runner.close_unwatched() == 0, "of a time looked at already: for the next start"
