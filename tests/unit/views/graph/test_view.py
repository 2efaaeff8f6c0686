"""What a job stands on, from relations in a store and those stored since."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.views.paths.path_rows import BOOT, END, ROWS, STARTED, S, append, edge, fabric, filled, relation, up

from leadline.model.errors import StoreError, UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import Table
from leadline.model.tables.fabric import COLOCATION, RELATION
from leadline.model.tables.verdicts import EVENT
from leadline.store import Store
from leadline.store.client import Appended
from leadline.store.schema import arrow_table
from leadline.views.asked import Asked, only_cluster
from leadline.views.graph.heard import Heard
from leadline.views.graph.view import Graphs, graph_answer, hidden_names
from leadline.views.paths.path import path_answer

OPERATOR = Principal()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("graph"), {**ROWS, "relation": list(fabric())}) as store:
        yield store


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def graphs(store: Any, clock: Clock | None = None, rows_max: int = 1000) -> Graphs:
    return Graphs(store, lambda: END, clock or Clock(), Heard(store, rows_max))


def ask(store: Store, job: str = "bert-1", of: str = "", who: Principal = OPERATOR, at_ns: int = END,
        held: Graphs | None = None, latest: bool = False) -> dict[str, Any]:  # fmt: skip
    return graph_answer(held or graphs(store), store, Asked(who, "default", at_ns, latest), job, of)


def entities(answer: dict[str, Any]) -> set[str]:
    return {node["entity"] for node in answer["nodes"]}


def rows_of(rows: list[dict[str, Any]]) -> pa.Table:
    return arrow_table(RELATION, {c.name: [row[c.name] for row in rows] for c in RELATION.columns})


def test_a_job_stands_on_its_hosts_leaves_and_the_spines_its_flows_cross(store: Store) -> None:
    found = ask(store)
    assert (found["schema"], found["job"], found["as_of_ns"]) == (1, "job:bert-1", END)
    wanted = {"job:bert-1", "host:h1", "host:h3", "switch:leaf1", "switch:leaf2", "switch:spine1", "switch:spine2"}
    assert wanted <= entities(found)
    assert not {"host:h2", "host:h4"} & entities(found)


def test_links_carry_the_bytes_of_the_window(store: Store) -> None:
    carried = {each["link"]: each["bytes"] for each in ask(store)["edges"] if each["link"]}
    assert carried[up(1, 1)] == pytest.approx(3e9)
    assert carried[edge(1)] == pytest.approx(2.105e9)


def test_paths_of_an_old_window_are_not_those_of_now(store: Store) -> None:
    late = ask(store, at_ns=END + 121 * S)
    assert not {"switch:spine1", "switch:spine2"} & entities(late)
    assert {each["bytes"] for each in late["edges"]} == {None}
    assert any("no path is traced" in text for text in late["missing"])


def test_what_is_shared_names_the_other_job(store: Store) -> None:
    shared = {each["entity"]: each["jobs"] for each in ask(store)["shared"]}
    assert shared["switch:leaf1"] == ["job:bert-1", "job:resnet-2"]
    assert shared[up(1, 1)] == ["job:bert-1", "job:resnet-2"]
    assert edge(1) not in shared


def test_an_earlier_time_has_what_held_then(store: Store) -> None:
    assert "rank:old-1/0" in entities(ask(store, "old-1", at_ns=BOOT + 5))
    gone = ask(store, "old-1")
    assert "rank:old-1/0" not in entities(gone)
    assert any("was there from" in text for text in gone["missing"])
    early = ask(store, "bert-1", at_ns=BOOT)
    assert any("first seen" in text for text in early["missing"])


def test_a_job_that_is_over_is_shown_as_it_was_where_no_time_is_asked_for(store: Store) -> None:
    found = ask(store, "old-1", latest=True)
    assert {"rank:old-1/0", "host:h1"} <= entities(found)
    assert found["at_ns"] == BOOT + S - 1
    assert found["note"].startswith("job:old-1 ended at ")
    assert not any("was there" in text for text in found["missing"])
    running = ask(store, latest=True)
    assert (running["at_ns"], running["note"]) == (END, "")


def test_what_nobody_told_is_answered_with_near_names_that_the_caller_may_hear(store: Store) -> None:
    assert ask(store, "resnet-3")["missing"] == ["no data about job:resnet-3; did you mean job:resnet-2?"]
    with pytest.raises(UsageError, match="there is switch:leaf1"):
        ask(store, "", "leaf1")
    acme = Principal("acme", "default", Role.TENANT_READ)
    assert ask(store, "resnet-3", who=acme)["missing"] == ["no data about job:resnet-3"]


def test_a_tenant_does_not_hear_when_a_job_of_another_was_there(store: Store) -> None:
    beta = Principal("beta", "default", Role.TENANT_READ)
    for latest in (False, True):
        found = ask(store, "old-1", who=beta, latest=latest)
        assert (found["missing"], found["note"]) == (["no data about job:old-1"], "")


def test_what_stands_on_a_switch_is_asked_by_of(store: Store) -> None:
    found = ask(store, "", "switch:leaf1")
    assert (found["job"], found["of"]) == (None, "switch:leaf1")
    assert {"job:bert-1", "job:resnet-2"} <= entities(found)


@pytest.mark.parametrize(("job", "of"), [("", ""), ("bert-1", "host:h1"), ("", "nonsense"), ("", "host:")])
def test_a_question_that_names_nothing_or_two_things_is_refused(store: Store, job: str, of: str) -> None:
    with pytest.raises(UsageError):
        ask(store, job, of)


def test_a_tenant_sees_its_own_rows_and_a_number_of_others(store: Store) -> None:
    found = ask(store, who=Principal("acme", "default", Role.TENANT_READ))
    assert "resnet" not in str(found)
    assert {"rank:bert-1/0", "switch:leaf1"} <= entities(found)
    shared = {each["entity"]: (each["jobs"], each["others"]) for each in found["shared"]}
    assert shared["switch:leaf1"] == (["job:bert-1"], 1)
    theirs = ask(store, "resnet-2", who=Principal("acme", "default", Role.TENANT_READ))
    assert entities(theirs) <= {"job:resnet-2"}
    nobodys = ask(store, "resnet-9", who=Principal("acme", "default", Role.TENANT_READ))
    assert str(theirs).replace("resnet-2", "resnet-9") == str(nobodys), "a job of another tenant is as one that is not"


def test_hidden_names_leave_out_what_the_tenant_does_not_know() -> None:
    answer = {"job": "job:a", "nodes": [{"entity": "switch:x", "jobs": ["job:a"]}], "edges": []}
    everybody = [
        {"entity": "switch:x", "kind": "switch", "jobs": ["job:a", "job:b", "job:c"]},
        {"entity": "switch:y", "kind": "switch", "jobs": ["job:a", "job:b"]},
    ]
    assert hidden_names(answer, everybody) == [{"entity": "switch:x", "kind": "switch", "jobs": ["job:a"], "others": 2}]


def test_what_comes_in_is_seen_by_the_next_request(store: Store) -> None:
    counted = CountedStore(list(fabric()))
    held = graphs(counted)
    assert "host:h9" not in entities(ask(store, held=held))
    new: dict[str, Any] = {"tenant": "acme", "from_ns": STARTED, "source": "torch-hook"}
    counted.append([relation("rank:bert-1/2", "in", "job:bert-1", **new)])
    counted.append([relation("rank:bert-1/2", "runs-on", "host:h9", **new)])
    assert {"host:h9", "rank:bert-1/2"} <= entities(ask(store, held=held))
    counted.append([relation("rank:bert-1/2", "runs-on", "host:h9", to_ns=END - S, **new)])
    assert "host:h9" not in entities(ask(store, held=held))
    assert counted.read == 1


class CountedStore:
    """A store that counts how often relations are read; a test may hold or break the reading."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.read, self.error = rows, 0, ""
        self.open = threading.Event()
        self.open.set()
        self.listeners: list[Appended] = []

    def listen(self, listener: Appended) -> None:
        self.listeners.append(listener)

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Store rows, and tell."""
        self.rows += rows
        self.tell(RELATION, rows_of(rows))

    def tell(self, table: Table, rows: pa.Table | None) -> None:
        for each in self.listeners:
            each(table, rows)

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> pa.Table:
        if COLOCATION.name in sql:
            return shared_rows([])
        assert "FROM leadline.relation" in sql
        self.read += 1
        assert self.open.wait(10)
        if self.error:
            raise StoreError(self.error)
        return rows_of(self.rows)


def test_the_store_is_read_once_and_again_only_after_a_while() -> None:
    counted, clock = CountedStore(list(fabric())), Clock()
    held = graphs(counted, clock=clock)
    for _ in range(3):
        held.of("default")
    assert counted.read == 1
    clock.seconds = 301.0
    held.of("default")
    assert counted.read == 2


def test_many_first_requests_read_once() -> None:
    counted = CountedStore(list(fabric()))
    counted.open.clear()
    held = graphs(counted)
    threads = [threading.Thread(target=held.of, args=("default",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    counted.open.set()
    for thread in threads:
        thread.join(10)
    assert counted.read == 1


def test_appends_that_went_before_they_were_seen_make_it_read_again() -> None:
    counted = CountedStore(list(fabric()))
    held = graphs(counted, rows_max=1)
    counted.append([relation("host:a", "in", "cluster:x")])
    held.of("default")
    counted.append([relation("host:b", "in", "cluster:x")])
    assert held.of("default").graph.number("host:b") >= 0
    assert counted.read == 1
    counted.append([relation("host:c", "in", "cluster:x")])
    counted.append([relation("host:d", "in", "cluster:x")])  # the one before is let go of unseen
    assert held.of("default").graph.number("host:c") >= 0
    assert counted.read == 2


def shared_rows(rows: list[dict[str, Any]]) -> pa.Table:
    blank = {"tenant": "provider", "cluster": "default", "analysis": "colocation", "version": 1, "revision": 0,
             "kind": "shares-machine", "probability": 0.97, "start_ns": STARTED, "end_ns": None, "evidence": "[]",
             "seen_ns": END}  # fmt: skip
    return arrow_table(COLOCATION, {c.name: [{**blank, **row}[c.name] for row in rows] for c in COLOCATION.columns})


def test_hosts_that_share_a_machine_are_beside_each_other(store: Store) -> None:
    append(store, {"colocation": shared_rows([{"entity": "host:h1", "others": ["host:h2"]}]).to_pylist()})
    found = ask(store, "", "host:h1")
    (beside,) = [each for each in found["edges"] if each["kind"] == "shares-machine"]
    assert {beside["child"], beside["parent"]} == {"host:h1", "host:h2"}
    assert (beside["confidence"], beside["sources"]) == (0.97, ["analysis/colocation"])


def test_hosts_found_to_share_a_machine_since_are_followed() -> None:
    counted = CountedStore(list(fabric()))
    held = graphs(counted)
    held.of("default")
    counted.tell(COLOCATION, shared_rows([
        {"entity": "host:h1", "others": ["host:h9"]}, {"entity": "host:h3", "others": ["host:h8"], "kind": "unknown"},
        {"entity": "host:h3", "others": ["host:h7"], "cluster": "far"},
    ]))  # fmt: skip
    found = held.of("default").graph
    assert found.number("host:h9") >= 0
    assert max(found.number(host) for host in ("host:h7", "host:h8")) < 0
    counted.tell(COLOCATION, shared_rows([{"entity": "host:h1", "others": ["host:h6"], "revision": -1}]))
    assert held.of("default").graph.number("host:h6") < 0, "it takes a row back"
    assert counted.read == 1


def test_rows_that_are_perhaps_stored_make_it_read_again() -> None:
    counted = CountedStore(list(fabric()))
    held = graphs(counted)
    held.of("default")
    counted.rows.append(relation("host:perhaps", "in", "cluster:x"))
    counted.tell(RELATION, None)
    assert held.of("default").graph.number("host:perhaps") >= 0
    assert counted.read == 2


def test_rows_of_other_tables_and_clusters_are_passed_over() -> None:
    counted = CountedStore(list(fabric()))
    held = graphs(counted)
    before = held.of("default")
    counted.tell(EVENT, None)
    counted.append([relation("host:far", "in", "cluster:x") | {"cluster": "far"}])
    after = held.of("default")
    assert after.graph is before.graph
    assert (after.seen, counted.read) == (before.seen + 1, 1)


def test_a_request_takes_the_old_graph_where_reading_again_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.views.graph.view.WAIT_S", 0.01)
    counted, clock = CountedStore(list(fabric())), Clock()
    held = graphs(counted, clock=clock)
    first = held.of("default")
    clock.seconds = 301.0
    counted.open.clear()
    try:
        assert held.of("default").graph is first.graph
    finally:
        counted.open.set()


def test_a_reading_that_was_overtaken_by_new_rows_still_counts() -> None:
    counted, clock = CountedStore(list(fabric())), Clock()
    held = graphs(counted, clock)
    counted.append([relation("host:first", "in", "cluster:x")])
    held.of("default")
    clock.seconds = 301.0
    counted.open.clear()
    for number in range(5):  # rows come and are followed while the store is read
        counted.append([relation(f"host:new{number}", "in", "cluster:x")])
        assert held.of("default").graph.number(f"host:new{number}") >= 0
    counted.open.set()
    for thread in threading.enumerate():
        if thread.name == "graph":
            thread.join(10)
    assert held.of("default").read_s == clock.seconds
    assert held.of("default").graph.number("host:new4") >= 0
    held.of("default")
    assert counted.read == 2


def test_a_store_that_cannot_be_read_is_told_and_asked_again() -> None:
    counted = CountedStore(list(fabric()))
    counted.error = "the disk is gone"
    held = graphs(counted)
    with pytest.raises(StoreError, match="the disk is gone"):
        held.of("default")
    counted.error = ""
    assert len(held.of("default").graph)


def test_several_clusters_have_to_be_told_apart(store: Store) -> None:
    assert only_cluster(store, OPERATOR) == "default"
    append(store, {"relation": [{**relation("host:a", "in", "cluster:x"), "cluster": "west"}]})
    with pytest.raises(UsageError, match="several clusters, default, west"):
        only_cluster(store, OPERATOR)


def test_the_topology_allows_paths_where_nothing_was_sampled(store: Store) -> None:
    found = path_answer(store, Asked(OPERATOR, "default", BOOT + 700 * S), "bert-1/0", "bert-1/1")
    assert (found["flows"], found["possible"]["paths"]) == ([], 0)
    assert found["possible"]["missing"] == [
        "no data on the host of rank bert-1/0 at that time",
        "no data on the host of rank bert-1/1 at that time",
    ]
    later = path_answer(store, Asked(OPERATOR, "default", END), "bert-1/0", "resnet-2/1")
    possible = later["possible"]
    assert (possible["a"], possible["b"], possible["hops"], possible["paths"]) == ("host:h1", "host:h4", 4, 2)
    assert {link["to"] for link in possible["links"] if link["hop"] == 1} == {"switch:spine1", "switch:spine2"}
    assert "ports of the same name are assumed" in possible["missing"][0]


def test_the_possible_paths_of_a_sampled_flow_are_those_of_its_ports(store: Store) -> None:
    possible = path_answer(store, Asked(OPERATOR, "default", END), "bert-1/0", "bert-1/1")["possible"]
    assert possible["ports"] == [["port:h1/eth0", "port:h3/eth0"]]
    assert (possible["paths"], possible["missing"]) == (2, [])
