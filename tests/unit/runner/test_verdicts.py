"""Which revision of a verdict counts, by the runs in a store and without any."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.incidents import Names, rows_of
from tests.judgements import conflict, run, volume

from leadline.model.tables import BY_NAME, Table
from leadline.runner.verdicts import has_windows, latest_rows, latest_sql
from leadline.store import Store

VOLUME, LEDGER, FIT, CONFLICT = (BY_NAME[name] for name in ("flow_volume", "ledger", "clock_fit", "conflict"))


def keep(store: Store, cluster: str, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    made = rows_of(BY_NAME[name], rows, Names(cluster=cluster))
    store.append(BY_NAME[name], made)
    return made


def of(table: Table, cluster: str) -> str:
    return latest_sql(table, f"cluster = '{cluster}'")


def links(store: Store, cluster: str, where: str = "") -> list[tuple[int, str]]:
    condition = f"cluster = '{cluster}'" + where
    found = store.query(f"SELECT end_ns, link FROM ({latest_sql(VOLUME, condition)}) ORDER BY end_ns, link")
    return [(row["end_ns"], row["link"]) for row in found.to_pylist()]


def test_the_revision_that_the_run_names_counts(store: Store) -> None:
    keep(store, "runs", "flow_volume", [volume(10, 0, "a"), volume(10, 0, "b"), volume(10, 1, "a"), volume(20, 0, "c")])
    keep(store, "runs", "analysis_run", [run(10, 1), run(20, 0)])
    assert links(store, "runs") == [(10, "a"), (20, "c")], "b is gone since the second judgement"
    keep(store, "runs", "analysis_run", [run(10, 2)])  # a third, which wrote nothing
    assert links(store, "runs") == [(20, "c")]
    assert links(store, "runs", " AND end_ns > 20") == []


def test_rows_of_a_judgement_that_was_cut_off_do_not_count(store: Store) -> None:
    keep(store, "cut", "flow_volume", [volume(10, 0, "a"), volume(10, 1, "b")])
    keep(store, "cut", "analysis_run", [run(10, 0)])
    assert links(store, "cut") == [(10, "a")]


def test_without_a_run_the_highest_version_and_revision_of_each_window_count(store: Store) -> None:
    rows = [volume(10, 0, "a"), volume(10, 3, "b"), volume(20, 7, "c"), volume(20, 0, "d", version=2)]
    made = keep(store, "none", "flow_volume", rows)
    keep(store, "none", "analysis_run", [run(10, 9, analysis="other"), run(20, 0, state="failed")])
    assert links(store, "none") == [(10, "b"), (20, "d")]
    assert sorted(latest_rows(VOLUME, made)["link"].to_pylist()) == ["b", "d"]


def test_a_new_version_that_judged_a_window_again_counts(store: Store) -> None:
    keep(store, "version", "flow_volume", [volume(10, 5, "a"), volume(10, 0, "b", version=2)])
    keep(store, "version", "analysis_run", [run(10, 5), run(10, 0, version=2)])
    assert links(store, "version") == [(10, "b")]


def test_jobs_of_one_window_have_revisions_of_their_own(store: Store) -> None:
    def seconds(job: str, revision: int, category: str, tenant: str = "acme") -> dict[str, Any]:
        return {
            "job": job, "end_ns": 10, "window_ns": 10, "category": category, "analysis": "ledger", "version": 1,
            "revision": revision, "tenant": tenant,
        }  # fmt: skip

    keep(
        store,
        "jobs",
        "ledger",
        [seconds("j", 0, "x"), seconds("j", 1, "y"), seconds("k", 0, "z"), seconds("j", 0, "w", "other")],
    )
    keep(
        store,
        "jobs",
        "analysis_run",
        [
            run(10, 1, "ledger", part="j"),
            run(10, 0, "ledger", part="k"),
            run(10, 0, "ledger", part="j", tenant="other"),
        ],
    )
    found = store.query(f"SELECT category FROM ({of(LEDGER, 'jobs')}) ORDER BY category")
    assert found["category"].to_pylist() == ["w", "y", "z"]


def test_rows_that_do_not_name_their_window_count_by_their_own_key(store: Store) -> None:
    def conflict(entity: str, start: int, revision: int, text: str) -> dict[str, Any]:
        return {
            "entity": entity, "kind": "loop", "start_ns": start, "text": text, "analysis": "graph", "version": 1,
            "revision": revision,
        }  # fmt: skip

    rows = [
        conflict("a", 1, 0, "old"),
        conflict("a", 1, 1, "new"),
        conflict("a", 5, 0, "later"),
        conflict("b", 1, 0, "b"),
    ]
    made = keep(store, "keys", "conflict", rows)
    found = store.query(f"SELECT text FROM ({of(CONFLICT, 'keys')}) ORDER BY text")
    assert found["text"].to_pylist() == sorted(latest_rows(CONFLICT, made)["text"].to_pylist()) == ["b", "later", "new"]


def conflict_seen(seen: int, revision: int, end: int | None, entity: str = "a") -> dict[str, Any]:
    return conflict(seen, revision, entity, end_ns=end)


def ends(store: Store, cluster: str) -> list[tuple[str, int, int | None]]:
    found = store.query(f"SELECT entity, seen_ns, end_ns FROM ({of(CONFLICT, cluster)}) ORDER BY entity").to_pylist()
    return [(row["entity"], row["seen_ns"], row["end_ns"]) for row in found]


@pytest.mark.parametrize("later_first", [False, True])
def test_of_a_span_that_many_windows_tell_the_newest_counts_in_whatever_order_they_were_judged(
    store: Store, later_first: bool
) -> None:
    cluster = f"spans-{later_first}"
    told = [conflict_seen(10, 0, None), conflict_seen(20, 0, 15), conflict_seen(10, 1, None)]
    for row in reversed(told) if later_first else told:  # the first window is judged again when rows come late
        keep(store, cluster, "conflict", [row])
    assert ends(store, cluster) == [("a", 20, 15)]
    made = latest_rows(CONFLICT, rows_of(CONFLICT, told, Names(cluster=cluster)))
    assert made.select(["seen_ns", "end_ns"]).to_pylist() == [{"seen_ns": 20, "end_ns": 15}]


def test_a_span_that_its_window_no_longer_tells_does_not_count(store: Store) -> None:
    keep(store, "back", "conflict", [conflict_seen(10, 0, None), conflict_seen(20, 0, None, "b")])
    keep(store, "back", "analysis_run", [run(10, 1, "graph"), run(20, 0, "graph")])
    assert ends(store, "back") == [("b", 20, None)], "late rows told that a had moved"


def test_fits_of_clocks_count_by_the_window_they_end(store: Store) -> None:
    def fit(end: int, revision: int, offset: int) -> dict[str, Any]:
        return {
            "host": "h", "clock": "h/1", "end_ns": end, "offset_ns": offset, "state": "fitted", "analysis": "clock",
            "version": 1, "revision": revision,
        }  # fmt: skip

    made = keep(store, "fits", "clock_fit", [fit(10, 0, 1), fit(10, 1, 2), fit(20, 0, 3)])
    found = store.query(f"SELECT offset_ns FROM ({of(FIT, 'fits')}) ORDER BY end_ns")
    assert found["offset_ns"].to_pylist() == latest_rows(FIT, made)["offset_ns"].to_pylist() == [2, 3]


def test_every_table_of_verdicts_can_be_read(store: Store) -> None:
    told = [table for table in BY_NAME.values() if table.identity == "revision"]
    assert {table.name for table in told if has_windows(table)} >= {"flow_path", "path_hop", "flow_volume", "ledger"}
    for table in told:
        assert store.query(latest_sql(table, "cluster = 'nowhere'")).num_rows == 0
        store.query(f"SELECT count() FROM ({latest_sql(table)})")


def test_no_rows_are_no_rows() -> None:
    empty = rows_of(VOLUME, [], Names())
    assert latest_rows(VOLUME, empty).num_rows == 0
