"""What a search finds and in which order: by words alone, and over the names of a store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.incidents.incident_rows import FLAP, NOW, ROWS, WORKER, S
from tests.unit.views.paths.path_rows import append, fabric, filled, relation

from leadline.model.errors import StoreError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME, Type
from leadline.store import Store
from leadline.store.config import StoreConfig
from leadline.views.asked import Asked
from leadline.views.search.answer import Search, link_of
from leadline.views.search.known import Known
from leadline.views.search.match import Fit, Item, found, words_of

ASKED = Asked(Principal(), "", NOW, latest=True)
BETA = replace(ASKED, principal=Principal("beta", "default", Role.TENANT_READ))
THROTTLED = "container_cpu_cfs_throttled_seconds_total"
PROMISES = [{"expectation": "nic-link", "layer": "nic", "of": "port", "bounds": [{"classifier": "carrier"}]}]


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "fit"),
    [
        ("h3/eth0", Fit.WHOLE), ("PORT:H3/eth0", Fit.WHOLE), ("h3", Fit.BEGINS), ("port", Fit.BEGINS),
        ("eth", Fit.PART), ("th0", Fit.WITHIN), ("carrier", Fit.IN_TEXT), ("eth0 h3", Fit.PART), ("h3 mlx", None),
    ],
)  # fmt: skip
def test_how_words_fit_a_name(query: str, fit: Fit | None) -> None:
    item = Item("port", "h3/eth0", "h3/eth0", text="lost its carrier")
    fits = found(item, words_of(query))
    assert (fits.least if fits else None) == fit


def test_why_is_told_by_the_word_that_fits_least() -> None:
    fits = found(Item("rule", "gpu-throttled", "is throttled by heat"), words_of("gpu heat"))
    assert fits is not None
    assert fits.why == "its title has heat"


def test_nothing_fits_no_word() -> None:
    assert words_of("  ") == ()
    assert found(Item("job", "bert-1", "bert-1"), ()) is None


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("job", "team/bert 1", "/jobs/team%2Fbert%201"),
        ("rank", "team/bert/13", "/jobs/team%2Fbert?rank=13"),
        ("metric", "a&b", "/explore?name=a%26b"),
        ("host", "h3", "/entity?of=host%3Ah3"),
        ("comm", "bert/0x9b", "/graph?at=comm%3Abert%2F0x9b"),
    ],
)
def test_where_a_hit_leads(kind: str, name: str, path: str) -> None:
    assert link_of(kind, name) == path


def test_an_address_leads_to_what_has_it() -> None:
    assert link_of("address", "10.1.6.1") == "/fleet?find=10.1.6.1"
    assert link_of("address", "10.1.6.1", "port:h6/eth1") == "/entity?of=port%3Ah6%2Feth1"


# --- a store ----------------------------------------------------------------------------------------------------------


def stream(number: int, name: str, entity: str, **labels: str) -> dict[str, Any]:
    return {
        "tenant": "provider", "cluster": "default", "series": number.to_bytes(16, "little"), "name": name,
        "entity_kind": entity.partition(":")[0], "entity": entity, "unit": None, "labels": labels, "first_ns": NOW,
        "last_ns": NOW, "type": "counter", "host": None, "source": "scrape",
    }  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    relations = [
        *fabric(),
        relation("address:10.1.6.1", "in", "port:h3/eth0"),
        relation("flow:00ab", "owns", "host:h1"),
        relation("qp:10.9.9.9/300", "owns", "rank:bert-1/0"),
        relation("swport:leaf77/e1", "linked", "port:h3/eth0"),
    ]
    series = [
        stream(1, THROTTLED, "host:h3"),
        stream(2, "node_network_info", "port:h3/eth0", address="02:AB:cd:00:00:03"),
    ]
    with filled(tmp_path_factory.mktemp("search"), {**ROWS, "relation": relations, "series": series}) as store:
        yield store


@pytest.fixture(scope="module")
def search(store: Store) -> Search:
    return Search(store)


def hits(search: Search, query: str, asked: Asked = ASKED, limit: int = 5) -> Sequence[tuple[str, str]]:
    answer = search.answer(asked, query, None, limit, PROMISES)
    return [(hit["kind"], hit["id"]) for hit in answer["hits"]]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("thrott", ("metric", THROTTLED)),
        ("bert-1", ("job", "bert-1")),
        ("LEAF1", ("switch", "leaf1")),
        ("leaf77", ("switch", "leaf77")),  # only a port of it is told
        ("10.9.9", ("address", "10.9.9.9")),  # of a queue pair
        ("h3", ("host", "h3")),
        ("eth0 h3", ("port", "h3/eth0")),
        ("rank:bert-1/1", ("rank", "bert-1/1")),
        ("10.1.6", ("address", "10.1.6.1")),
        ("nic-link", ("expectation", "nic-link")),
        ("slow-gpu", ("rule", "slow-gpu")),
        (FLAP, ("incident", FLAP)),
        ("02:ab:CD", ("port", "h3/eth0")),
        ("02-ab-cd-00-00-03", ("port", "h3/eth0")),
    ],
)
def test_the_best_hit_of_what_people_type(search: Search, query: str, best: tuple[str, str]) -> None:
    assert hits(search, query)[0] == best


def test_an_incident_is_found_by_words_of_its_cause(search: Search) -> None:
    assert ("incident", WORKER) in hits(search, "gpu-6 bert-1 slow")


def test_what_nothing_has_is_not_found(search: Search) -> None:
    assert hits(search, "no such thing") == []
    assert hits(search, "00ab") == []  # flows are not offered
    assert hits(search, "") == []


def test_a_limit_is_of_each_kind_and_totals_count_all(search: Search) -> None:
    answer = search.answer(ASKED, "h", None, 1, ())
    kinds = [hit["kind"] for hit in answer["hits"]]
    assert len(kinds) == len(set(kinds))
    assert answer["totals"]["host"] == 4


def test_an_address_tells_what_it_is_in(search: Search) -> None:
    (hit,) = search.answer(ASKED, "10.1.6.1", None, 5, ())["hits"]
    assert (hit["detail"], hit["link"]) == ("in port:h3/eth0", "/entity?of=port%3Ah3%2Feth0")
    assert hit["why"] == "this is its name"


def test_an_address_that_only_a_switch_saw_is_found(store: Store, search: Search) -> None:
    table = BY_NAME["flow_sample"]
    blank = {Type.SYM: "", Type.STR: "", Type.U128: bytes(16)}
    row = {each.name: None if each.nullable else blank.get(each.type, 0) for each in table.columns}
    append(store, {"flow_sample": [{**row, "tenant": "provider", "src_ip": "10.7.7.7", "dst_ip": "10.7.8.8"}]})
    assert hits(search, "10.7") == [("address", "10.7.7.7"), ("address", "10.7.8.8")]
    assert hits(search, "10.7", BETA) == []


def test_a_tenant_finds_nothing_of_another(search: Search) -> None:
    assert ("job", "resnet-2") in hits(search, "resnet-2", BETA)
    assert hits(search, "bert-1", BETA) == []
    assert hits(search, "container_cpu", BETA) == []
    assert not [kind for kind, _ in hits(search, FLAP, BETA) if kind == "incident"]


def test_a_cluster_has_its_own_names(search: Search) -> None:
    assert hits(search, "leaf1", replace(ASKED, cluster="elsewhere")) == []


def test_a_span_narrows_incidents(search: Search) -> None:
    found_then = search.answer(ASKED, WORKER, NOW - 5 * S, 5, ())["hits"]
    assert not [hit for hit in found_then if hit["kind"] == "incident"]


def test_an_incident_told_later_is_found_at_once(store: Store, search: Search) -> None:
    assert hits(search, "brandnew") == []
    (row, *_) = ROWS["incident"]
    append(store, {"incident": [{**row, "incident": "brandnew-slow-1"}]})
    assert hits(search, "brandnew") == [("incident", "brandnew-slow-1")]


def test_names_are_read_again_behind_the_answer_when_rows_came(store: Store) -> None:
    clock = [100.0]
    known = Known(store, lambda: clock[0])
    before = known.entities()
    append(store, {"relation": [relation("host:new-1", "in", "cluster:default")]})
    assert known.entities() is before  # too early
    clock[0] += 60.0
    assert known.entities() is before  # nobody waits
    for thread in threading.enumerate():
        if thread.name == "search":
            thread.join()
    assert "host:new-1" in known.entities().id_E.to_pylist()


def test_who_searches_first_is_told_that_the_store_cannot_be_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    closed = Store(StoreConfig(path=str(tmp_path_factory.mktemp("closed"))))
    with pytest.raises(StoreError, match="is not open"):
        Known(closed).entities()
