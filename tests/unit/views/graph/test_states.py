"""How the parts of a job's graph do at a time, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.incidents.incident_rows import FLAP, NOW, anomaly, cause, incident, step
from tests.unit.views.incidents.incident_rows import ROWS as INCIDENTS
from tests.unit.views.paths.path_rows import END, ROWS, STARTED, S, append, edge, fabric, filled, up

from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.graph.states import HEARD_NS
from leadline.views.graph.types import GraphAnswer
from leadline.views.graph.view import Graphs, graph_answer

OPERATOR, ACME = Principal(), Principal("acme", "default", Role.TENANT_READ)


def series(number: int, entity: str, at_ns: int, tenant: str = "provider") -> tuple[dict[str, Any], dict[str, Any]]:
    """A stream with one sample."""
    owner = {"tenant": tenant, "cluster": "default", "series": number}
    kind = entity.partition(":")[0]
    return (
        {**owner, "name": "node_load1", "entity_kind": kind, "entity": entity, "unit": None, "labels": {},
         "first_ns": at_ns, "last_ns": at_ns, "type": "gauge", "host": None, "source": "agent"},
        {**owner, "time_ns": at_ns, "value": 1.0},
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    streams = [series(1, "host:h1", END - S), series(2, "host:h3", END - HEARD_NS - S),
               series(3, "swport:leaf1/Ethernet1", END - S), series(4, "host:h1", END - S, "acme")]  # fmt: skip
    rows = {
        **ROWS,
        "relation": list(fabric()),
        "incident": INCIDENTS["incident"],
        "cause": [*INCIDENTS["cause"], cause(FLAP, 5, edge(1), "link-down", 0.5, -10, chosen=True)],
        "anomaly": [
            anomaly(NOW - 20 * S, NOW, entity="host:h1", score=30.0),
            anomaly(NOW - 20 * S, NOW, entity="swport:leaf2/Ethernet3", entity_kind="swport", score=12.0,
                    metric="ifOutDiscards"),
            anomaly(NOW - 20 * S, NOW, entity="rank:bert-1/0", entity_kind="rank", score=40.0, metric="step.seconds"),
            anomaly(NOW - 20 * S, NOW, entity="switch:leaf1", entity_kind="switch", score=6.0),
            anomaly(NOW - 20 * S, NOW, entity="switch:spine1", entity_kind="switch", end_ns=NOW - 5 * S, score=50.0),
        ],
        "step": [step("bert-1", 1, 0), step("bert-1", 2, 5)],
        "series": [each for each, _ in streams],
        "metric_sample": [each for _, each in streams],
    }  # fmt: skip
    with filled(tmp_path_factory.mktemp("states"), rows) as store:
        yield store


def ask(store: Store, at_ns: int = END, who: Principal = OPERATOR, of: str = "",
        cluster: str = "default") -> dict[str, Any]:  # fmt: skip
    graphs = Graphs(store, lambda: END)
    answer = graph_answer(graphs, store, Asked(who, cluster, at_ns), "" if of else "bert-1", of, states=True)
    GraphAnswer.model_validate(answer)
    return answer


def states(answer: dict[str, Any]) -> dict[str, str]:
    found = {node["entity"]: node["state"] for node in answer["nodes"]}
    return {**found, **{each["link"]: each["state"] for each in answer["edges"] if each["link"]}}


def test_the_component_that_a_cause_names_is_bad_and_says_since_when(store: Store) -> None:
    found = {node["entity"]: node for node in ask(store)["nodes"]}
    port = found["port:h3/eth0"]
    assert (port["state"], port["since_ns"], port["incident"]) == ("bad", NOW - 48_400_000_000, FLAP)
    assert port["why"] == "link-down: slows bert-1 (p 0.93)"
    assert (found["job:bert-1"]["state"], found["job:bert-1"]["why"]) == ("bad", "slow")
    assert found["host:h3"]["state"] == "unknown", "a cause on a port makes its host no cause"


def test_before_an_incident_began_nothing_is_bad(store: Store) -> None:
    before = states(ask(store, NOW - 49 * S))
    assert "bad" not in before.values()
    between = states(ask(store, NOW - 20 * S))
    assert (between["port:h3/eth0"], between[edge(1)]) == ("bad", "unknown"), "the second cause began later"


def test_links_have_states_too(store: Store) -> None:
    found = states(ask(store))
    assert found[edge(1)] == "bad"
    assert found[edge(3)] == "watch", "a metric of its switch port is far outside"
    assert found[up(1, 1)] == "good", "its flows were sampled"


def test_far_outside_is_watched_while_it_lasts(store: Store) -> None:
    found = {node["entity"]: node for node in ask(store)["nodes"]}
    assert (found["host:h1"]["state"], found["host:h1"]["why"]) == ("watch", "node_load1 9, usually 1 (30 deviations)")
    assert found["switch:leaf1"]["state"] == "good", "six deviations are told, and colour nothing"
    assert found["switch:spine1"]["state"] == "good", "it ended"


def test_what_is_not_heard_of_is_unknown_never_good(store: Store) -> None:
    found = states(ask(store))
    assert (found["rank:bert-1/0"], found["rank:bert-1/1"]) == ("good", "unknown"), "only rank 0 tells steps"
    assert found["host:h3"] == "unknown", "its last sample is older than two minutes"
    late = states(ask(store, END + HEARD_NS + 10 * S))
    assert late["rank:bert-1/0"] == late["host:h1"] == "unknown"


def test_states_are_told_where_asked_for_only(store: Store) -> None:
    graphs = Graphs(store, lambda: END)
    found = graph_answer(graphs, store, Asked(OPERATOR, "default", END), "bert-1", "")
    GraphAnswer.model_validate(found)
    assert {node["state"] for node in found["nodes"]} == {None}
    assert found["moments"] == []


def test_moments_are_incidents_of_the_job_and_what_came_and_went(store: Store) -> None:
    found = ask(store)
    assert found["span"] == {"from_ns": STARTED, "to_ns": None}
    told = [(each["what"], each["text"], each["state"]) for each in found["moments"]]
    assert told == [
        ("came", "2 ranks came", "good"),
        ("incident", "bert-1 slow: slow-gpu at gpu:GPU-6", "bad"),
        ("incident", "bert-1 slow: link-down at port:h3/eth0", "bad"),
    ]


def test_moments_of_a_part_are_incidents_that_it_causes(store: Store) -> None:
    found = ask(store, of="port:h3/eth0")
    assert [each["incident"] for each in found["moments"] if each["what"] == "incident"] == [FLAP]
    assert states(found)["port:h3/eth0"] == "bad"


def test_a_tenant_sees_its_own_incidents_and_nothing_of_others(store: Store) -> None:
    found = ask(store, who=ACME)
    assert states(found)["port:h3/eth0"] == "bad"
    assert "resnet" not in str(found)
    assert {each["what"] for each in found["moments"]} == {"incident"}
    assert [each["others"] for each in found["shared"] if each["entity"] == up(1, 1)] in ([], [1])


def test_an_incident_that_alerts_nobody_is_suppressed(store: Store) -> None:
    second = {"cluster": "second"}
    rows = {
        "relation": [{**row, **second} for row in fabric()],
        "incident": [incident("quiet", "bert-1", -10, suppressed="maintenance", **second)],
        "cause": [cause("quiet", 1, "host:h1", "maintenance", 0.9, -10, **second)],
    }
    append(store, rows)
    found = states(ask(store, cluster="second"))
    assert (found["host:h1"], found["job:bert-1"]) == ("suppressed", "suppressed")
