"""The flows of a job, from hand-made verdicts in a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.unit.views.paths.path_rows import (
    BERT,
    END,
    GROUP,
    HEX,
    OTHER,
    ROWS,
    RUN,
    THERE,
    WINDOW,
    append,
    edge,
    filled,
    flow,
    over,
    up,
)

from leadline.model.principal import Principal, Role
from leadline.model.tables.paths import FLOW_PATH
from leadline.store import Store
from leadline.store.bundle_rows import slice_sql
from leadline.views.asked import Asked
from leadline.views.graph.types import FlowsAnswer
from leadline.views.paths.flows import NOBODY, flows_answer, nodes_of
from leadline.views.paths.path import path_answer
from leadline.views.rows import PageQuery, page_sql

OPERATOR = Principal()
ACME = Principal("acme", "default", Role.TENANT_READ)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("flows")) as store:
        yield store


def asked(principal: Principal = OPERATOR, at_ns: int = END, cluster: str = "default") -> Asked:
    return Asked(principal, cluster, at_ns)


def test_flows_of_the_latest_window_come_largest_first_with_their_links(store: Store) -> None:
    found = flows_answer(store, asked(), "bert-1")
    assert (found["end_ns"], found["window_ns"], found["flows_total"]) == (END, WINDOW, 2)
    assert [flow["bytes"] for flow in found["flows"]] == [2e9, 1e8]
    first = found["flows"][0]
    assert first["flow"] == HEX[THERE]
    assert first["links"] == over(1, 1, 3)
    assert {"tenant", "revision"} & first.keys() == set()
    assert found["why"] == ""


def test_an_earlier_time_shows_the_window_before(store: Store) -> None:
    run = {**ROWS["analysis_run"][0], "end_ns": END - WINDOW}
    append(store, {"analysis_run": [run]})
    found = flows_answer(store, asked(at_ns=END - 1), "job:bert-1")
    assert [flow["bytes"] for flow in found["flows"]] == [7e9]
    assert found["end_ns"] == END - WINDOW


def test_links_tell_who_shares_them_busiest_first(store: Store) -> None:
    links = flows_answer(store, asked(), "bert-1")["links"]
    assert links[0]["link"] == up(1, 1)
    by_link = {link["link"]: link for link in links}
    shared = by_link[up(1, 1)]
    assert shared["jobs"] == {"bert-1": 2e9, "resnet-2": 1e9}
    assert (shared["bytes"], shared["flows"], shared["others"]) == (3e9, 2, 0)
    assert by_link[edge(1)]["jobs"] == {"bert-1": 2.1e9, NOBODY: 5e6}
    assert edge(2) not in by_link


def test_errors_of_flows_on_one_link_add_as_squares(store: Store) -> None:
    links = {link["link"]: link for link in flows_answer(store, asked(), "bert-1")["links"]}
    spread = (2e8**2 + 1e8**2) ** 0.5
    assert links[up(1, 1)]["low"] == pytest.approx(3e9 - spread)
    assert links[up(1, 1)]["high"] == pytest.approx(3e9 + spread)


def test_groups_of_the_jobs_links_are_told(store: Store) -> None:
    groups = flows_answer(store, asked(), "bert-1")["groups"]
    assert [group["switch"] for group in groups] == ["leaf1"]
    assert groups[0]["colliding"] == GROUP["colliding"]


def test_a_group_tells_what_its_switch_sent_by_each_link_and_of_whom(store: Store) -> None:
    found = flows_answer(store, asked(), "bert-1")
    FlowsAnswer.model_validate(found)
    assert found["groups"][0]["sent"] == [
        {"link": up(1, 1), "bytes": 3e9, "jobs": {"bert-1": 2e9, "resnet-2": 1e9}},
        {"link": up(1, 2), "bytes": 0, "jobs": {}},  # what comes down by it was sent by the spine
    ]
    assert sum(each["bytes"] for each in found["groups"][0]["sent"]) == GROUP["bytes"]


def test_links_join_two_nodes() -> None:
    assert nodes_of(up(1, 2)) == {"leaf1", "spine2"}
    assert nodes_of("") == {""}


def test_flows_that_nobody_owns_stay_visible(store: Store) -> None:
    unowned = flows_answer(store, asked(), "bert-1")["unowned"]
    assert (unowned["flows"], unowned["bytes"]) == (1, 5e6)
    assert unowned["top"][0]["dst"] == "port:h4/eth0"


def test_another_tenants_job_is_counted_and_never_named(store: Store) -> None:
    found = flows_answer(store, asked(ACME), "bert-1")
    shared = {link["link"]: link for link in found["links"]}[up(1, 1)]
    assert (shared["jobs"], shared["others"], shared["bytes"]) == ({"bert-1": 2e9}, 1, 2e9)
    assert "resnet" not in str(found)
    assert HEX[OTHER] not in str(found)
    assert flows_answer(store, asked(ACME), "resnet-2")["flows"] == []


def test_a_job_without_flows_is_told_why(store: Store) -> None:
    assert "no flow of gone-9 was ever sampled" in flows_answer(store, asked(), "gone-9")["why"]
    assert "no window was analysed" in flows_answer(store, asked(at_ns=5), "bert-1")["why"]
    assert "no window was analysed" in flows_answer(store, asked(cluster="other"), "bert-1")["why"]


def test_the_revision_that_counts_is_read(store: Store) -> None:
    there = {"cluster": "second"}
    rows = [
        flow(THERE, 1, 3, "bert-1", BERT, 1.0, **there),
        flow(THERE, 1, 3, "bert-1", BERT, 2.0, revision=1, **there),
    ]
    append(store, {"analysis_run": [{**ROWS["analysis_run"][0], "revision": 1, **there}], "flow_path": rows})
    found = flows_answer(store, asked(cluster="second"), "bert-1")
    assert [each["bytes"] for each in found["flows"]] == [2.0]


def test_what_samples_contradict_in_this_window_is_told_to_those_whose_it_is(store: Store) -> None:
    told = flows_answer(store, asked(), "bert-1")["conflicts"]
    assert [(each["entity"], each["kind"], each["count"]) for each in told] == [
        ("swport:spine1/Ethernet1", "wrong-port", 40)
    ]
    assert flows_answer(store, asked(ACME), "bert-1")["conflicts"] == []


def test_without_a_time_a_job_is_told_in_the_newest_window_that_has_it(store: Store) -> None:
    there = {"cluster": "third"}
    newest = {**ROWS["analysis_run"][0], "end_ns": END + WINDOW, **there}
    append(store, {"analysis_run": [{**ROWS["analysis_run"][0], **there}, newest],
                   "flow_path": [flow(THERE, 1, 3, "bert-1", BERT, 3.0, **there)]})  # fmt: skip
    late = Asked(OPERATOR, "third", END + 20 * WINDOW, latest=True)
    found = flows_answer(store, late, "bert-1")
    assert ([each["bytes"] for each in found["flows"]], found["end_ns"]) == ([3.0], END)
    assert "no flow of bert-1 was sampled in the newest window" in found["note"]
    asked_for = flows_answer(store, replace(late, latest=False), "bert-1")
    assert (asked_for["flows"], asked_for["note"], asked_for["end_ns"]) == ([], "", END + WINDOW)
    ranks = path_answer(store, late, "bert-1/0", "bert-1/1")
    assert (len(ranks["flows"]), ranks["end_ns"]) == (1, END)
    assert "no flow of bert-1/0 and bert-1/1" in ranks["note"]


def test_jobs_of_one_name_of_two_tenants_are_not_told_as_one_in_silence(store: Store) -> None:
    there = {"cluster": "fourth"}
    append(store, {"analysis_run": [{**ROWS["analysis_run"][0], **there}],
                   "flow_path": [flow(THERE, 1, 3, "bert-1", BERT, 3.0, **there),
                                 flow(OTHER, 3, 1, "bert-1", (BERT[1], BERT[0]), 3.0, "beta", **there)]})  # fmt: skip
    assert "2 tenants' jobs of one name (acme, beta)" in flows_answer(store, asked(cluster="fourth"), "bert-1")["why"]
    ranks = path_answer(store, asked(cluster="fourth"), "bert-1/0", "bert-1/1")
    assert ranks["asymmetric"] is None
    assert "2 tenants" in ranks["why"]
    assert flows_answer(store, replace(asked(ACME), cluster="fourth"), "bert-1")["why"] == ""


def test_what_a_link_carried_of_everybody_is_told_to_operators_only(store: Store) -> None:
    """In every way in which a flow can be read: its view, that of a path, rows of the table, SQL, a bundle's rows."""
    loaded = [flow(THERE, 1, 3, "bert-1", BERT, 2e9, busiest=up(1, 1), busiest_bytes=3e9, revision=5)]
    append(store, {"flow_path": loaded, "analysis_run": [{**RUN, "revision": 5}]})
    page = PageQuery(columns=("flow", "busiest", "busiest_bytes"), limit=100)
    for principal, known in ((OPERATOR, {3e9}), (ACME, set())):
        sql, parameters = page_sql(FLOW_PATH, page, principal)
        told = [
            flows_answer(store, asked(principal), "bert-1")["flows"],
            path_answer(store, asked(principal), "bert-1/0", "bert-1/1")["flows"],
            store.query(sql, parameters).to_pylist(),
            store.query_as(principal, "SELECT * FROM flow_path").to_pylist(),
            store.query_as(principal, "SELECT max(busiest_bytes) AS busiest_bytes FROM flow_path AS f").to_pylist(),
            store.query(slice_sql(FLOW_PATH, "1", (None, None), of_one_tenant=principal is ACME)).to_pylist(),
        ]
        for way in told:
            assert way
            assert {row["busiest_bytes"] for row in way} - {None} == known
        links = {row["busiest"] for row in told[0]} - {None}
        assert links == {up(1, 1)}, "which link it is they may know: it is on their way"


@pytest.mark.parametrize(
    "condition", ["busiest_bytes > 1", "f.busiest_bytes = 3e9", "busiest_bytes BETWEEN 1 AND 1e12"]
)
def test_no_condition_finds_out_what_is_hidden(store: Store, condition: str) -> None:
    append(store, {"flow_path": [flow(THERE, 1, 3, "bert-1", BERT, 2e9, busiest_bytes=3e9, revision=5)]})
    for what in (
        f"count() AS n FROM flow_path AS f WHERE {condition}",
        f"countIf({condition}) AS n FROM flow_path AS f",
    ):
        sql = f"SELECT {what}"
        assert store.query_as(OPERATOR, sql).to_pylist() == [{"n": 1}]
        assert store.query_as(ACME, sql).to_pylist() == [{"n": 0}]
