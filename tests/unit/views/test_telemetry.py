"""What comes in, whose, how fresh, what would be lost without it; and that a tenant is told of its own only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.ingest.counts import Counts
from leadline.ingest.sources import Sender, Sources
from leadline.model.counters import counter, refused
from leadline.model.principal import Principal, Role
from leadline.server.health import counter_of, doctor
from leadline.server.health_answers import DoctorAnswer
from leadline.store import Store
from leadline.store.asking.behind import Behind
from leadline.views.asked import Asked
from leadline.views.mesh.routers import Routers
from leadline.views.same_machine import SameMachines
from leadline.views.sources import own_sources
from leadline.views.telemetry import KINDS, LATE_NS, LOOK_NS, TelemetryAnswer, feeds, telemetry_answer

S = 10**9
NOW = 1_750_000_000 * S
OPERATOR = Principal()
ACME = Principal("acme", "default", Role.TENANT_READ)
H1 = Sender("acme", "rows", "hook on h1")
H2 = Sender("beta", "rows", "hook on secret-h2")
NODE = Sender("acme", "scrape", "node h1:9100")


def series(number: int, kind: str, ago_s: float, tenant: str = "acme", source: str = "scrape") -> dict[str, Any]:
    return row(
        "series", series=number, name=f"m{number % 2}", entity=f"{kind}:x", entity_kind=kind, first_ns=1,
        last_ns=NOW - round(ago_s * S), source=source, tenant=tenant, labels={},
    )  # fmt: skip


def sample(number: int, ago_s: float, tenant: str = "acme") -> dict[str, Any]:
    return row("metric_sample", series=number, time_ns=NOW - round(ago_s * S), value=1.0, tenant=tenant)


def step(host: str, ago_s: float, number: int, tenant: str = "acme") -> dict[str, Any]:
    at = NOW - round(ago_s * S)
    return row("step", job="bert-1", rank=0, step=number, host=host, clock="c", start_ns=at, end_ns=at + S, batch=1,
               batch_row=number, tenant=tenant)  # fmt: skip


ROWS = {
    "series": [series(1, "host", 3600), series(2, "host", 7), series(3, "gpu", 3000), series(4, "host", 1, "beta"),
               series(5, "port", 9000)],
    "metric_sample": [sample(1, 2), sample(1, 12), sample(2, 7), sample(4, 1, "beta")],
    "step": [*(step("h1", 10 * at, at) for at in range(9)), step("h2", 1, 0, "beta")],
    "collective": [row("collective", job="bert-1", comm="c", rank=0, seq=1, host="h1", clock="c", batch=1, state="x",
                       enqueued_ns=NOW - LATE_NS - S, tenant="acme")],
    "event": [row("event", kind="xid", entity="gpu:G1", entity_kind="gpu", host="h1", clock="c", batch=1,
                  time_ns=NOW - 500 * S, source="kernel", tenant="acme")],
    "flow_sample": [row("flow_sample", switch="leaf1", time_ns=NOW - LOOK_NS - S, batch=1, tenant="acme")],
    "relation": [
        row("relation", child="gpu:G1", parent="host:h1", kind="in", from_ns=1, source="agent", confidence=1.0,
            tenant="acme"),
        row("relation", child="gpu:G2", parent="host:h1", kind="in", from_ns=1, to_ns=2, source="gone", confidence=1.0,
            tenant="acme"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("telemetry"), ROWS) as store:
        yield store


@pytest.fixture
def parts(store: Store) -> Any:
    counts = Counts()
    sources = Sources(counts)
    wall_ns = time.time_ns()  # as the view takes it for senders
    for at in range(11):
        sources.heard(H1, wall_ns - (10 - at) * S, rows=20, newest_ns=wall_ns)
        sources.heard(NODE, wall_ns - (200 - at) * S, samples=100)
    sources.tells(H1, wall_ns, {"step", "collective"})
    sources.tells(NODE, wall_ns - 190 * S, {"node_exporter"})
    sources.heard(H2, wall_ns, rows=1)
    sources.tells(H2, wall_ns, {"step"})
    sources.refuse(H1, wall_ns, refused("bad_row"), 3, "step: no column `foo`")
    sources.refuse(NODE, wall_ns - 190 * S, counter("scrape_failed", "unreachable"), 2)
    sources.refuse(H2, wall_ns, refused("too_old"), 5, "secret of beta")
    intake = SimpleNamespace(
        sources=sources, counts=counts, config=SimpleNamespace(series_max=1000), waiting_rows={"step": 1},
        held_s=(0.0, ""), series_known=4, last_store_error="",
    )  # fmt: skip
    live = SimpleNamespace(rows=lambda: {"step": 10})
    return SimpleNamespace(
        store=store, intake=intake, live=live, replay=None, runner=None, alerts=None, disk=None, memory=None,
        background=None, kernels=None, started_ns=0, same_machines=SameMachines(), routers=Routers(),
        facts=Behind("facts"),
    )  # fmt: skip


def ask(parts: Any, who: Principal = OPERATOR) -> dict[str, Any]:
    senders = own_sources(parts.intake.sources.all(), who)
    found = telemetry_answer(parts.store, Asked(who, "", NOW), senders, 1000)
    TelemetryAnswer.model_validate(found)
    return found


def test_a_row_for_every_sender_what_is_wrong_first(parts: Any) -> None:
    node, other, mine = ask(parts)["sources"][0], *ask(parts)["sources"][1:]
    by_name = {each["name"]: each for each in (node, other, mine)}
    node, mine = by_name[NODE.name], by_name[H1.name]
    assert ask(parts)["sources"][-1]["state"] == "warning", "all three: two refused, one silent"
    assert (node["state"], node["do"]) == ("warning", "See whether the sender runs.")
    assert node["refusals"][0]["counter"] == "scrape_failed"
    assert mine["per_s"] == pytest.approx(220 / 10)
    assert mine["refusals"] == [{**mine["refusals"][0], "reason": "bad_row", "amount": 3}]
    assert "column" in mine["last_error"]
    assert mine["do"] == refused("bad_row").do


def test_who_ended_with_the_last_job_is_no_warning(parts: Any) -> None:
    silent = parts.intake.sources.all()
    heard_ns = next(each.last_ns for each in silent if each.sender == NODE)
    found = telemetry_answer(parts.store, Asked(OPERATOR, "", NOW), silent, 1000, ended_ns={NODE.tenant: heard_ns + S})
    by_name = {each["name"]: each["state"] for each in found["sources"]}
    assert by_name[NODE.name] == "ok"
    assert by_name[H1.name] == "warning", "its rows were refused, and it is heard still"


def test_what_would_be_lost_without_a_sender(parts: Any) -> None:
    by_name = {each["name"]: each for each in ask(parts)["sources"]}
    mine, theirs, node = by_name[H1.name], by_name[H2.name], by_name[NODE.name]
    assert "goodput" in mine["without"][0]
    assert mine["alone"] == ["step", "collective"], "of its tenant: nobody else tells acme's steps"
    assert theirs["alone"] == ["step"]
    assert {"ledger", "stalls"} <= set(mine["feeds"])
    assert node["feeds"] == feeds("metric_sample") != []


def test_kinds_say_how_fresh_and_who(parts: Any) -> None:
    kinds = {each["kind"]: each for each in ask(parts, ACME)["kinds"]}
    assert {name: kinds[name]["state"] for name in ("step", "collective", "event", "relation", "flow_sample")} == {
        "step": "fresh", "collective": "late", "event": "quiet", "relation": "quiet", "flow_sample": "missing",
    }  # fmt: skip
    assert (kinds["step"]["per_s"], kinds["step"]["newest_ns"]) == (0.1, NOW)
    assert kinds["relation"]["tellers"] == ["agent"], "of those that hold"
    assert (kinds["metrics of host"]["streams"], kinds["metrics of host"]["per_s"]) == (2, 0.05)
    assert kinds["metrics of host"]["newest_ns"] == NOW - 2 * S
    assert (kinds["metrics of gpu"]["state"], kinds["metrics of gpu"]["streams"]) == ("late", 0)
    assert kinds["metrics of swport"]["state"] == "missing", "nobody ever told any"
    assert kinds["metrics of port"]["state"] == "missing", "not for hours"


def test_a_tenant_sees_its_own_senders_and_rows_only(parts: Any) -> None:
    found = ask(parts, ACME)
    assert {each["name"] for each in found["sources"]} == {H1.name, NODE.name}
    assert (found["refused"], ask(parts)["refused"]) == (5, 10)
    assert {each["kind"]: each["tellers"] for each in found["kinds"]}["step"] == ["h1"]
    assert {each["kind"]: each["tellers"] for each in ask(parts)["kinds"]}["step"] == ["h1", "h2"]
    assert [(each["tenant"], each["streams"], each["limit"]) for each in found["cardinality"]] == [("acme", 4, 1000)]
    assert len(ask(parts)["cardinality"]) == 2
    assert "beta" not in json.dumps(found)
    assert "secret" not in json.dumps(found)


def test_doctor_tells_a_tenant_of_its_own_senders_only(parts: Any) -> None:
    whole, mine = (doctor(parts, time.time_ns(), who) for who in (OPERATOR, ACME))
    for found in (whole, mine):
        DoctorAnswer.model_validate(found)
    assert "secret" in json.dumps(whole)
    assert "secret" not in json.dumps(mine)
    assert {each["name"] for each in mine["sources"]} == {H1.name, NODE.name}
    assert {each["reason"]: each["amount"] for each in mine["refused"]} == {"bad_row": 3, "unreachable": 2}
    assert mine["accepted"] == {"samples": 1100, "rows": 220}
    of_all = ("private_bytes", "series_known", "waiting_rows", "tables")
    assert [mine[name] for name in of_all] == [None, None, {}, []]
    assert all(whole[name] for name in of_all if name != "private_bytes")


def test_words_of_refusals_are_of_the_way_in() -> None:
    assert counter_of("scrape", "malformed").family == "scrape_failed"
    assert counter_of("rows", "malformed").family == "ingest_refused"


def test_every_kind_is_a_table_that_something_reads() -> None:
    """Or will: nothing reads probes until clocks are fitted."""
    assert [each.table for each in KINDS if not feeds(each.table)] == ["probe"]
