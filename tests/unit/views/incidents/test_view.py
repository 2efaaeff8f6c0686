"""Incidents and diagnoses: over a store, and from rows by themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.incidents.incident_rows import FLAP, NOW, QUIET, ROWS, THIN, WORKER, S, cause, incident, newest
from tests.unit.views.paths.path_rows import filled

from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.diagnosis import Watched, WatchedJob, diagnosis_answer, state_of
from leadline.views.incidents.view import Incidents, host_of, incidents_answer, incidents_of, order_of
from leadline.views.ledger.config import LedgerConfig

ASKED = Asked(Principal(), "default", NOW, latest=True)
BETA = Principal("beta", "default", Role.TENANT_READ)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("incidents"), ROWS) as store:
        yield store


def names(found: dict[str, Any]) -> list[str]:
    return [each["incident"] for each in found["incidents"]]


def test_open_ones_come_first_and_of_these_what_lost_most(store: Store) -> None:
    found = incidents_answer(store, ASKED)
    assert names(found) == [THIN, FLAP, QUIET, WORKER]
    assert found["incidents_total"] == 4


def test_of_an_incident_the_row_and_the_causes_of_the_newest_window_count(store: Store) -> None:
    (one,) = Incidents(store, ASKED).named(FLAP)
    assert one.lost_gpu_seconds == 105.0
    assert [(each.position, each.entity) for each in one.causes] == [
        (1, "port:h3/eth0"), (2, "host:h6"), (3, "job:bert-1")]  # fmt: skip
    assert [each.entity for each in one.chosen] == ["port:h3/eth0"]
    assert one.known
    assert one.symptoms[0].lost_share == 0.5
    assert one.symptoms[0].blamed[0]["owner"] == "port:h3/eth0"


def test_what_is_unknown_now_has_no_causes_of_earlier_windows(store: Store) -> None:
    (one,) = Incidents(store, ASKED).named(THIN)
    assert (one.known, one.causes, one.missing) == (False, (), "collectives of resnet-2")


def test_evidence_is_held_against_the_first_lost_second(store: Store) -> None:
    (one,) = Incidents(store, ASKED).named(FLAP)
    pieces = one.chosen[0].evidence
    assert [each.order for each in pieces] == ["before", "after", "unknown"]
    assert [each.after_s for each in pieces] == pytest.approx([-0.4, 3.0, -0.3])


@pytest.mark.parametrize(
    ("after_ns", "bound_ns", "start_bound_ns", "order"),
    [(-10, 4, 5, "before"), (-9, 4, 5, "together"), (9, 4, 5, "together"), (10, 4, 5, "after"), (0, 0, 0, "together"),
     (-10, None, 5, "unknown"), (-10, 4, None, "unknown"), (None, 4, 5, "unknown")],
)  # fmt: skip
def test_an_order_needs_both_bounds(
    after_ns: int | None, bound_ns: int | None, start_bound_ns: int | None, order: str
) -> None:
    assert order_of(after_ns, bound_ns, start_bound_ns) == order


def test_a_component_that_does_not_say_its_host_is_looked_up(store: Store) -> None:
    (one,) = Incidents(store, ASKED).named(WORKER)
    assert one.chosen[0].host == "host:h6"
    assert host_of("port:h3/eth0", {}) == "host:h3"
    assert host_of("gpu:GPU-1", {}) is None
    ends = {"port:h3/eth0": "host:h3"}
    assert host_of("link:h3/eth0~leaf1/E3", ends) == host_of("link:a/E3~h3/eth0", ends) == "host:h3"


def test_columns_that_hold_no_json_are_empty(store: Store) -> None:
    (one,) = Incidents(store, ASKED).named(WORKER)
    assert (one.chosen[0].evidence, one.chosen[0].score) == ((), {})
    odd = {"symptoms": '[1, {"entity": 3}]'}
    (told,) = incidents_of(
        [incident("x", "j", 0, **odd)], [cause("x", 1, "host:h1", "r", 0.5, 0, evidence='["a"]')], []
    )
    assert (told.symptoms[0].entity, told.chosen[0].evidence[0].text) == ("3", "a")


def test_span_job_and_state_choose(store: Store) -> None:
    assert names(incidents_answer(store, ASKED, NOW - 90 * S)) == [THIN, FLAP, QUIET]
    assert names(incidents_answer(store, ASKED, job="job:bert-1")) == [FLAP, WORKER]
    assert names(incidents_answer(store, ASKED, job="bert-1", state="over")) == [WORKER]
    assert names(incidents_answer(store, replace(ASKED, at_ns=NOW - 50 * S, latest=False))) == [QUIET, WORKER]


def test_a_tenant_sees_its_own(store: Store) -> None:
    asked = replace(ASKED, principal=BETA)
    assert names(incidents_answer(store, asked)) == [THIN]
    assert Incidents(store, asked).named(FLAP) == []


def test_a_diagnosis_names_the_costliest_and_how_many_gpus_it_holds(store: Store) -> None:
    found = diagnosis_answer(store, ASKED, "bert-1", LedgerConfig(2.5, "EUR"))
    assert (found["state"], names(found), found["price"]) == ("critical", [FLAP, WORKER], 2.5)
    assert found["incidents"][0]["gpus"] == 8
    assert found["incidents"][0]["causes"][0]["class"] == "transient"
    assert [each["entity"] for each in found["incidents"][0]["considered"]] == ["host:h6", "job:bert-1"]
    assert diagnosis_answer(store, ASKED, FLAP)["incidents"] == found["incidents"][:1]


@pytest.mark.parametrize(
    ("about", "state", "why"),
    [("resnet-2", "warning", ""), ("moe-3", "warning", ""), ("calm-4", "ok", ""), ("", "critical", ""),
     ("gone-5", "unknown", "no step of gone-5 for 2994 s"), ("calm-5", "unknown", "did you mean calm-4?"),
     ("zzz", "unknown", "the newest are "),
     ("host:h77", "unknown", "no job, incident or entity 'host:h77' is known"), (WORKER, "ok", "it is over since"),
     ("host:h6", "ok", ""), ("port:h3/eth0", "critical", ""), ("job:calm-4", "ok", "")],
)  # fmt: skip
def test_states_and_why(store: Store, about: str, state: str, why: str) -> None:
    found = diagnosis_answer(store, ASKED, about)
    assert found["state"] == state
    assert why in found["why"]
    assert bool(found["why"]) == bool(why)


def watched(judged_s: float | None) -> Watched:
    judged = {} if judged_s is None else {"stalls": NOW, "slowdowns": NOW + round(judged_s * S)}
    return Watched((WatchedJob("a", 2, 9, NOW - 90 * S, NOW, 10.0),), {"step": NOW}, judged)


@pytest.mark.parametrize(
    ("judged_s", "at_s", "recorded", "state", "why"),
    [(-30, 5, False, "ok", ""), (-90, 5, False, "unknown", "`slowdowns` is 90 s behind"), (-90, 5, True, "ok", ""),
     (None, 5, False, "unknown", "`stalls` has analysed nothing"), (0, 59, False, "ok", ""),
     (0, 61, False, "unknown", "no step of a for 61 s"), (0, 61, True, "ok", "")],
)  # fmt: skip
def test_nothing_is_fine_without_a_reason(
    judged_s: float | None, at_s: float, recorded: bool, state: str, why: str
) -> None:
    found = state_of("a", [], watched(judged_s), NOW + round(at_s * S), recorded=recorded)
    assert found[0] == state
    assert why in found[1]
    slow = Watched((WatchedJob("a", 2, 9, NOW - 900 * S, NOW, 100.0),), {}, {"stalls": NOW, "slowdowns": NOW})
    assert state_of("a", [], slow, NOW + 400 * S, recorded=False) == ("ok", "")  # its steps are that long


def test_in_a_recording_what_is_over_counts() -> None:
    over = incidents_of(
        [incident("x", "a", -30, state="over", end_ns=NOW)], [cause("x", 1, "host:h1", "r", 0.9, -30)], []
    )
    assert state_of("a", over, watched(0), NOW, recorded=True)[0] == "critical"
    assert state_of("a", over, watched(0), NOW, recorded=False)[0] == "ok"


def test_every_column_of_an_incident_is_told(store: Store) -> None:
    hidden = {"analysis", "version", "revision"}
    of_incident = {"tenant", "cluster", "incident", "seen_ns"}
    (one,) = Incidents(store, ASKED).named(FLAP)
    told = incident_json(one)
    assert {column.name for column in BY_NAME["incident"].columns} - hidden <= told.keys()
    assert {column.name for column in BY_NAME["cause"].columns} - hidden - of_incident <= told["causes"][0].keys()


def test_a_gpu_is_called_as_people_call_it_with_its_id_behind() -> None:
    worker = {**next(row for row in ROWS["cause"] if row["entity"] == "gpu:GPU-6"), "text": "gpu:GPU-6 on h6 runs hot"}
    told = [each for each in newest("incident") if each["incident"] == WORKER]
    (one,) = incidents_of(told, [worker], ROWS["symptom"], {"gpu:GPU-6": "host:h6"}, {"gpu:GPU-6": "4"})
    assert (one.causes[0].name, one.causes[0].called) == ("h6 GPU 4", "h6 GPU 4 (GPU-6)")
    assert one.causes[0].text == "h6 GPU 4 (GPU-6) runs hot"
    (plain,) = incidents_of(told, [worker], ROWS["symptom"], {"gpu:GPU-6": "host:h6"})
    assert (plain.causes[0].name, plain.causes[0].called) == ("", "gpu:GPU-6"), "nobody tells its number"


def test_one_that_is_open_for_a_dead_part_says_since_when_nobody_suffers() -> None:
    told = next(each for each in newest("incident") if each["incident"] == FLAP)
    (hurt, *_) = json.loads(told["symptoms"])
    over = {**hurt, "end_ns": hurt["start_ns"] + 5 * S}
    (held,) = incidents_of([{**told, "symptoms": json.dumps([over])}], (), ())
    assert (held.open, held.held, held.over_ns) == (True, True, over["end_ns"])
    (lasts,) = incidents_of([{**told, "symptoms": json.dumps([over, {**hurt, "end_ns": None}])}], (), ())
    assert (lasts.held, lasts.over_ns) == (False, None)
    assert incident_json(held)["held"]
