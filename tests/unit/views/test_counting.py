"""Rows of verdicts that count, spelled shorter: always the same rows as the long text gives."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.incidents import Names, rows_of
from tests.judgements import conflict, run, volume

from leadline.model.tables import BY_NAME, Table
from leadline.runner import verdicts
from leadline.store import Store
from leadline.views import counting
from leadline.views.counting import UNCOUNTED_MAX, Judgements, latest_sql, shortened

VOLUME, LEDGER, CONFLICT, FIT = (BY_NAME[name] for name in ("flow_volume", "ledger", "conflict", "clock_fit"))
HOUR_NS = counting.HOUR_NS
START_NS = 1_795_000_000 * 10**9


class Heard:
    """A store whose statements are kept, with what is known of its rows by what was appended."""

    def __init__(self, store: Store, cluster: str) -> None:
        self.store, self.cluster, self.asked = store, cluster, list[str]()
        self.judgements = Judgements()

    def keep(self, name: str, *rows: dict[str, Any]) -> None:
        made = rows_of(BY_NAME[name], list(rows), Names(cluster=self.cluster))
        self.store.append(BY_NAME[name], made)
        self.judgements.appended(BY_NAME[name], made)

    def _query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        self.asked.append(sql)
        return self.store.query(sql, parameters)

    def rows(self, table: Table, more: str = "", span: tuple[int, int] | None = None) -> list[dict[str, Any]]:
        """By the long text; the short ones, with and without knowledge, must give the same."""
        where = "cluster = {cluster:String}" + more
        by = ", ".join(f"`{name}`" for name in table.key)
        told = {"cluster": self.cluster}
        found = self.store.query(f"SELECT * FROM ({verdicts.latest_sql(table, where, span)}) ORDER BY {by}", told)
        sql = f"SELECT * FROM ({latest_sql(table, where, span)}) ORDER BY {by}"
        assert self.store.query(sql, told).equals(found), "marks are comments"
        for judgements in (None, self.judgements):
            short = shortened(sql, told, self._query, judgements)
            assert self.store.query(short, told).select(found.column_names).equals(found), short
        told_rows: list[dict[str, Any]] = found.to_pylist()
        return told_rows

    def short(self, table: Table) -> str:
        told = {"cluster": self.cluster}
        return shortened(latest_sql(table, "cluster = {cluster:String}"), told, self._query, self.judgements)


def test_rows_that_all_count_are_read_as_they_are(store: Store) -> None:
    heard = Heard(store, "plain")
    heard.keep("flow_volume", volume(10, 0, "a"), volume(20, 0, "b"))
    heard.keep("analysis_run", run(10, 0), run(20, 0))
    assert [row["link"] for row in heard.rows(VOLUME)] == ["a", "b"]
    assert "analysis_run" not in heard.short(VOLUME)
    assert "NOT IN" not in heard.short(VOLUME)


def test_what_a_later_judgement_took_back_is_left_out(store: Store) -> None:
    heard = Heard(store, "revised")
    heard.keep("flow_volume", volume(10, 0, "a"), volume(10, 0, "b"), volume(20, 0, "c"))
    heard.keep("analysis_run", run(10, 0), run(20, 0))
    assert len(heard.rows(VOLUME)) == 3
    heard.keep("flow_volume", volume(10, 1, "a"))
    assert len(heard.rows(VOLUME)) == 3, "not before its run is there"
    heard.keep("analysis_run", run(10, 1))
    assert [(row["link"], row["revision"]) for row in heard.rows(VOLUME)] == [("a", 1), ("c", 0)]
    assert "NOT IN" in heard.short(VOLUME)
    assert "analysis_run" not in heard.short(VOLUME)


def test_a_judgement_that_wrote_nothing_takes_everything_back(store: Store) -> None:
    heard = Heard(store, "emptied")
    heard.keep("flow_volume", volume(10, 0, "a"))
    heard.keep("analysis_run", run(10, 0))
    assert heard.rows(VOLUME)
    heard.keep("analysis_run", run(10, 1))
    assert heard.rows(VOLUME) == []


def test_a_new_version_that_judged_a_window_again_counts(store: Store) -> None:
    heard = Heard(store, "version")
    heard.keep("flow_volume", volume(10, 0, "a"))
    heard.keep("analysis_run", run(10, 0))
    assert [row["link"] for row in heard.rows(VOLUME)] == ["a"]
    heard.keep("flow_volume", volume(10, 0, "b", version=2))
    heard.keep("analysis_run", run(10, 0, version=2))
    assert [row["link"] for row in heard.rows(VOLUME)] == ["b"]


def test_rows_of_windows_that_nobody_judged_here_count_by_their_highest_revision(store: Store) -> None:
    heard = Heard(store, "imported")
    heard.keep("flow_volume", volume(10, 0, "a"), volume(10, 3, "b"), volume(20, 0, "c"))
    heard.keep("analysis_run", run(20, 0), run(10, 9, analysis="other"))
    assert [row["link"] for row in heard.rows(VOLUME)] == ["b", "c"]
    assert "analysis_run" in heard.short(VOLUME), "that takes the long text"


def test_of_many_windows_that_were_judged_again_the_long_text_tells(store: Store) -> None:
    heard = Heard(store, "many")
    ends = range(10, 10 * (UNCOUNTED_MAX + 2), 10)
    heard.keep("flow_volume", *(volume(end, 0, "a") for end in ends), *(volume(end, 1, "b") for end in ends))
    heard.keep("analysis_run", *(run(end, 1) for end in ends))
    assert {row["link"] for row in heard.rows(VOLUME)} == {"b"}
    assert "analysis_run" in heard.short(VOLUME)


def test_spans_that_many_windows_tell_count_by_the_newest(store: Store) -> None:
    heard = Heard(store, "spans")
    heard.keep("conflict", conflict(10, 0, "a"), conflict(20, 0, "b"))
    heard.keep("analysis_run", run(10, 0, "graph"), run(20, 0, "graph"))
    assert [row["entity"] for row in heard.rows(CONFLICT)] == ["a", "b"]
    heard.keep("conflict", conflict(30, 0, "b", end_ns=25))
    heard.keep("analysis_run", run(30, 0, "graph"))
    assert [row["end_ns"] for row in heard.rows(CONFLICT)] == [None, 25]
    heard.keep("analysis_run", run(10, 1, "graph"))
    assert [row["entity"] for row in heard.rows(CONFLICT)] == ["b"], "late rows told that a had moved"
    assert "analysis_run" not in heard.short(CONFLICT)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_judged_again_and_in_whatever_order_the_rows_are_the_same(store: Store, seed: int) -> None:
    heard, rng = Heard(store, f"random-{seed}"), random.Random(seed)
    done: dict[tuple[str, str, int], tuple[int, int]] = {}
    for step in range(12):
        tenant, job = rng.choice([("acme", "j"), ("acme", "k"), ("other", "j")])
        end_ns = START_NS + (step if rng.random() < 0.6 else rng.randrange(step + 1)) * 5 * 10**9
        version, revision = done.get((tenant, job, end_ns), (1, -1))
        version, revision = (2, 0) if rng.random() < 0.05 else (version, revision + 1)
        told = {"end_ns": end_ns, "window_ns": 10, "version": version, "revision": revision, "analysis": "ledger"}
        rows = [{"job": job, "tenant": tenant, "category": rng.choice("xyz"), "depth": str(at), **told} for at in
                range(rng.randrange(3))]  # fmt: skip
        if rows:
            heard.keep("ledger", *rows)
        if rng.random() < 0.9:  # else the process died between the two
            heard.keep("analysis_run", {**told, "part": job, "tenant": tenant, "state": "done"})
            done[tenant, job, end_ns] = version, revision
        if any(one[2] == end_ns and (tenant, job) != one[:2] for one in done) and (tenant, job, end_ns) not in done:
            continue  # rows before their run, beside another job that has one: see the module
        begin_ns = START_NS + rng.randrange(10) * 10**9
        span = (begin_ns, START_NS + HOUR_NS)
        heard.rows(LEDGER, f" AND end_ns > {span[0]} AND end_ns <= {span[1]}", span)
        heard.rows(LEDGER, f" AND job = 'j' AND end_ns > {begin_ns}")


def test_what_does_not_count_is_looked_for_once_while_new_windows_come(store: Store) -> None:
    heard = Heard(store, "quiet")

    def asked(at: int) -> int:
        before = len(heard.asked)
        now_ns = START_NS + at * 10 * 10**9
        sql = latest_sql(VOLUME, f"cluster = {{cluster:String}} AND end_ns > {now_ns - HOUR_NS} AND end_ns <= {now_ns}")
        shortened(sql, {"cluster": "quiet"}, heard._query, heard.judgements)
        return len(heard.asked) - before

    def judge(at: int, revision: int = 0) -> None:
        heard.keep("flow_volume", volume(START_NS + at * 10 * 10**9, revision, "a"))
        heard.keep("analysis_run", run(START_NS + at * 10 * 10**9, revision))

    judge(1)
    assert asked(2) == 1
    for at in range(2, 6):
        judge(at)
        assert asked(at + 1) == 0
    judge(3, revision=1)
    assert asked(7) > 0, "a window was judged again"
    heard.judgements.appended(VOLUME, None)
    assert asked(7) > 0, "nobody knows what was appended"
    judge(8)
    assert asked(9) == 0


def test_tables_without_windows_and_without_marks_stay_as_they_are(store: Store) -> None:
    assert latest_sql(FIT, "cluster = 'c'") == verdicts.latest_sql(FIT, "cluster = 'c'")
    assert shortened("SELECT 1 /*counted*/", {}, store.query) == "SELECT 1 /*counted*/"
