"""Which rows of verdicts are effective: in memory, and by plain SQL over a store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.builders.incident import Names, rows_of
from tests.builders.verdicts import conflict, volume

from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.runner.verdicts import effective_rows, has_windows, of_last_judgements
from leadline.store import Store

VOLUME, LEDGER, CONFLICT = (BY_NAME[name] for name in ("flow_volume", "ledger", "conflict"))


def append(store: Store, cluster: str, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    made = rows_of(BY_NAME[name], rows, Names(cluster=cluster))
    store.append(BY_NAME[name], made)
    return made


def links(store: Store, cluster: str) -> list[tuple[int, str, int]]:
    sql = f"SELECT end_ns, link, revision FROM flow_volume WHERE cluster = '{cluster}' ORDER BY end_ns, link"
    found = store.query_as(Principal("acme", cluster, Role.TENANT_READ), sql)
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_highest_revision_of_a_row_is_read_in_whatever_order_they_were_stored(
    store: Store, order: tuple[int, ...]
) -> None:
    cluster = f"order-{order}"
    rows = [volume(10, 0, "a"), volume(10, 1, "a"), volume(10, 0, "a", version=2)]
    made = [append(store, cluster, "flow_volume", [rows[place]]) for place in order]
    assert links(store, cluster) == [(10, "a", 0)], "of version 2"
    assert effective_rows(VOLUME, pa.concat_tables(made))["version"].to_pylist() == [2]


@pytest.mark.parametrize("taken_back_first", [False, True])
def test_a_row_that_was_taken_back_is_not_read(store: Store, taken_back_first: bool) -> None:
    cluster = f"back-{taken_back_first}"
    rows = [volume(10, 0, "a"), volume(10, -2, "a")]  # by revision 1
    made = [append(store, cluster, "flow_volume", [row]) for row in (reversed(rows) if taken_back_first else rows)]
    assert links(store, cluster) == []
    assert effective_rows(VOLUME, pa.concat_tables(made)).num_rows == 0
    append(store, cluster, "flow_volume", [volume(10, 2, "a")])
    assert links(store, cluster) == [(10, "a", 2)], "revision 2 has it again"


@pytest.mark.parametrize("later_first", [False, True])
def test_of_a_span_that_many_windows_report_the_newest_is_read(store: Store, later_first: bool) -> None:
    cluster = f"spans-{later_first}"
    told = [conflict(10, 0, "a"), conflict(20, 0, "a", end_ns=15), conflict(10, 1, "a")]
    for row in reversed(told) if later_first else told:  # the first window is judged again when rows come late
        append(store, cluster, "conflict", [row])
    found = store.query(f"SELECT seen_ns, end_ns FROM leadline.conflict WHERE cluster = '{cluster}'").to_pylist()
    assert found == [{"seen_ns": 20, "end_ns": 15}]
    made = effective_rows(CONFLICT, rows_of(CONFLICT, told, Names(cluster=cluster)))
    assert made.select(["seen_ns", "end_ns"]).to_pylist() == found


def test_sums_of_users_count_a_window_once(store: Store) -> None:
    def seconds(revision: int, category: str, lost: float) -> dict[str, Any]:
        return {"job": "j", "end_ns": 10, "window_ns": 10, "category": category, "lost_gpu_seconds": lost,
                "analysis": "ledger", "version": 1, "revision": revision}  # fmt: skip

    append(store, "sums", "ledger", [seconds(0, "compute", 5.0), seconds(0, "idle", 3.0)])
    append(store, "sums", "ledger", [seconds(1, "compute", 7.0), seconds(-2, "idle", 3.0)])
    who = Principal("acme", "sums", Role.TENANT_READ)
    found = store.query_as(who, "SELECT sum(lost_gpu_seconds) AS lost FROM ledger WHERE cluster = 'sums'")
    assert found["lost"].to_pylist() == [7.0]


def test_recordings_with_every_revision_are_cut_to_the_last_judgement_of_each_window_and_job() -> None:
    def seconds(job: str, revision: int, category: str) -> dict[str, Any]:
        return {"job": job, "end_ns": 10, "window_ns": 10, "category": category, "analysis": "ledger", "version": 1,
                "revision": revision}  # fmt: skip

    rows = rows_of(LEDGER, [seconds("j", 0, "x"), seconds("j", 1, "y"), seconds("k", 0, "z")], Names())
    assert of_last_judgements(LEDGER, rows)["category"].to_pylist() == ["y", "z"]


def test_every_table_of_verdicts_can_be_read(store: Store) -> None:
    told = [table for table in BY_NAME.values() if table.identity == "revision"]
    assert {table.name for table in told if has_windows(table)} >= {"flow_path", "path_hop", "flow_volume", "ledger"}
    for table in told:
        assert store.query(f"SELECT * FROM leadline.{table.name} WHERE cluster = 'nowhere'").num_rows == 0
        columns = store.query(f"SELECT * FROM leadline.{table.name} LIMIT 0").column_names
        assert columns == [column.name for column in table.columns], "what decides between rows is not shown"


def test_no_rows_are_no_rows() -> None:
    empty = rows_of(VOLUME, [], Names())
    assert effective_rows(VOLUME, empty).num_rows == 0
    assert of_last_judgements(VOLUME, empty).num_rows == 0
