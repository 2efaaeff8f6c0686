"""What costs now, ranked, and what was watched to be able to say so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.incidents.incident_rows import FLAP, NOW, QUIET, ROWS, THIN, WORKER, S
from tests.unit.views.paths.path_rows import append, filled

from leadline.ingest.counts import Counts
from leadline.ingest.sources import Sender, Source, Sources
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.ledger.config import LedgerConfig
from leadline.views.now import DAY_NS, late, now_answer
from leadline.views.sources import own_sources

HOUR_NS = 3600 * S
ACME = Principal("acme", "default", Role.TENANT_READ)


def spent(end_ns: int, category: str, gpu_s: float, lost_s: float, **more: Any) -> dict[str, Any]:
    return row(
        "ledger", analysis="ledger", version=1, tenant="acme", job="bert-1", end_ns=end_ns, window_ns=10 * S,
        category=category, seconds=gpu_s / 8, gpu_seconds=gpu_s, lost_seconds=lost_s / 8, lost_gpu_seconds=lost_s,
        **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("now"), ROWS) as store:
        append(store, {
            "ledger": [
                spent(NOW, "compute", 80.0, 0.0), spent(NOW, "straggler", 20.0, 15.0),
                spent(NOW - DAY_NS, "compute", 97.0, 0.0), spent(NOW - DAY_NS, "straggler", 3.0, 3.0),
                spent(NOW - 2 * HOUR_NS, "straggler", 500.0, 500.0),
            ],
            "relation": [
                row("relation", child="gpu:G1", parent="host:h1", kind="in", from_ns=1, source="x", confidence=1.0,
                    tenant="acme"),
                row("relation", child="port:h1/eth0", parent="swport:l1/e1", kind="linked", from_ns=1, source="x",
                    confidence=1.0, tenant="acme"),
                row("relation", child="gpu:G9", parent="host:h9", kind="in", from_ns=1, to_ns=2, source="x",
                    confidence=1.0, tenant="acme"),
            ],
        })  # fmt: skip
        yield store


def senders() -> list[Source]:
    sources = Sources(Counts())
    wall_ns = time.time_ns()  # as `now` takes it for senders
    sources.heard(Sender("acme", "rows", "h1"), wall_ns, rows=1)
    sources.heard(Sender("beta", "rows", "h2"), wall_ns, rows=1)
    return sources.all()


def asked(store: Store, who: Principal | None = None) -> dict[str, Any]:
    who = who or Principal()
    mine = own_sources(senders(), who)
    return now_answer(store, Asked(who, "default", NOW, latest=True), NOW - HOUR_NS, LedgerConfig(), mine)


def test_what_costs_most_is_first_and_what_alerts_nobody_apart(store: Store) -> None:
    found = asked(store)
    assert [each["incident"] for each in found["incidents"]] == [THIN, FLAP, WORKER]
    assert [each["incident"] for each in found["suppressed"]] == [QUIET]
    assert found["incidents"][1]["causes"][0]["todo"]["words"]


def test_lost_and_goodput_are_of_the_span_and_of_the_day_before(store: Store) -> None:
    found = asked(store)
    assert found["lost_gpu_seconds"] - found["estimated_gpu_seconds"] == 15.0
    # Of what its incidents take for lost, this ledger has judged ten seconds: the rest is an estimate, and told as one.
    assert (
        0
        < found["estimated_gpu_seconds"]
        < sum(each["lost_gpu_seconds"] for each in [*found["incidents"], *found["suppressed"]])
    )
    assert found["lost_gpu_seconds"] >= sum(each["lost_within_gpu_seconds"] for each in found["incidents"])
    assert found["goodput"] == {"ratio": 0.8, "ratio_max": 0.8, "day_before": 0.97}


def test_what_was_watched_is_counted_and_what_was_not_is_named(store: Store) -> None:
    found = asked(store)
    assert {name: found["watched"][name] for name in ("hosts", "gpus", "links", "sources", "fresh")} == {
        "hosts": 2, "gpus": 2, "links": 1, "sources": 2, "fresh": 2}  # fmt: skip
    assert "flows: who uses which link" in [each["what"] for each in found["not_watched"]]


def test_sources_that_say_the_same_are_one_line() -> None:
    def state(name: str, error: str = "", heard_s: float = 40.0, state: str = "warning") -> dict[str, Any]:
        return {"state": state, "way": "scrape", "name": name, "last_error": error, "last_heard_s": heard_s}

    refused = [state(f"http://h{n}:9100", f"http://h{n}:9100: connection refused") for n in range(21)]
    quiet = [state("http://a"), state("http://b", heard_s=90.0), state("http://c", state="ok")]
    assert [(each["what"], each["why"]) for each in late([*refused, *quiet])] == [
        ("scrape, 21 times: http://h0:9100, http://h1:9100, http://h2:9100, ...", "it: connection refused"),
        ("scrape, 2 times: http://a, http://b", "silent for 40 to 90 s"),
    ]
    assert [each["what"] for each in late(refused[:1])] == ["scrape http://h0:9100"]


def test_the_line_of_a_job_begins_before_its_incident(store: Store) -> None:
    line = next(each["line"] for each in asked(store)["incidents"] if each["incident"] == FLAP)
    assert line["t_ns"][0] < NOW - 48 * S
    assert set(line["step_s"]) == {2.0}


def test_a_tenant_is_told_of_its_own(store: Store) -> None:
    found = asked(store, ACME)
    assert [each["incident"] for each in found["incidents"]] == [FLAP, WORKER]
    assert found["watched"]["sources"] == 1
