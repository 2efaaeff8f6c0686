"""The store as the views ask it: nothing is asked twice, and nothing is told that is no longer so."""

from __future__ import annotations

from typing import Any

from tests.incidents import Names, rows_of

from leadline.model.tables import BY_NAME
from leadline.store import Store
from leadline.views.answering import Answering
from leadline.views.counting import latest_sql

VOLUME = BY_NAME["flow_volume"]


def keep(store: Store, name: str, row: dict[str, Any]) -> None:
    told = {"end_ns": 10, "window_ns": 10, "analysis": "path", "version": 1, **row}
    store.append(BY_NAME[name], rows_of(BY_NAME[name], [told], Names(cluster="kept")))


def test_an_answer_is_kept_until_a_table_of_it_is_written_to(store: Store) -> None:
    answering = Answering(store)
    sql = "SELECT count() AS n FROM leadline.flow_volume WHERE cluster = {cluster:String}"

    def count(cluster: str) -> int:
        return int(answering.query(sql, {"cluster": cluster})["n"][0].as_py())

    assert (count("kept"), count("kept")) == (0, 0)
    assert answering.query(sql, {"cluster": "kept"}) is answering.query(sql, {"cluster": "kept"})
    keep(store, "flow_volume", {"link": "a", "flow": 1, "revision": 0})
    assert count("kept") == 1
    assert count("kept elsewhere") == 0, "parameters tell answers apart"
    counted = f"SELECT count() AS n FROM ({latest_sql(VOLUME, 'cluster = {cluster:String}')})"
    assert answering.query(counted, {"cluster": "kept"})["n"][0].as_py() == 1
    keep(store, "analysis_run", {"revision": 1, "state": "done"})
    assert answering.query(counted, {"cluster": "kept"})["n"][0].as_py() == 0, "late rows took the row back"
    assert count("kept") == 1


def test_what_is_large_is_not_kept(store: Store) -> None:
    answering = Answering(store)
    sql = "SELECT repeat('x', 1000) AS text FROM numbers(2000) WHERE 1 OR (SELECT count() FROM leadline.flow_path) > 0"
    assert answering.query(sql) is not answering.query(sql)


def test_what_tables_hold_is_told_as_the_store_tells_it(store: Store) -> None:
    answering = Answering(store)
    keep(store, "flow_volume", {"link": "b", "flow": 1, "revision": 0, "end_ns": 50})
    assert answering.facts() == store.facts()
    keep(store, "flow_volume", {"link": "b", "flow": 1, "revision": 0, "end_ns": 90})
    assert answering.facts() == store.facts()
    (fact,) = (each for each in answering.facts() if each.table == "flow_volume")
    assert fact.newest_ns == 90


def test_two_of_one_store_know_the_same(store: Store) -> None:
    sql = "SELECT count() AS n FROM leadline.ledger"
    assert Answering(store).query(sql) is Answering(store).query(sql)


def test_statements_may_have_settings_of_their_own(store: Store) -> None:
    answering = Answering(store)
    keep(store, "flow_path", {"flow": 7, "revision": 0})
    keep(store, "flow_path", {"flow": 7, "revision": 0})
    counted = "SELECT count() AS n FROM leadline.flow_path WHERE cluster = 'kept'"
    nested = f"SELECT n FROM (SELECT * FROM ({counted} SETTINGS max_threads = 1))"
    both = f"{counted} SETTINGS final = 0 UNION ALL {counted} SETTINGS final = 0"
    for sql, rows in ((f"{counted} SETTINGS final = 0", 1), (f"{counted} ", 1), (nested, 1), (both, 2)):
        assert answering.query(sql).equals(store.query(sql)), sql
        assert answering.query(sql).num_rows == rows
