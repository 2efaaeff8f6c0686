"""Verdicts as metrics: what they say, that counters never fall, whose they are, how many there may be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.metrics.standing_rows import (
    NOW,
    ROWS,
    S,
    one,
    read_verdicts,
    samples_of,
    text_of,
    window,
)
from tests.unit.views.incidents import incident_rows as made
from tests.unit.views.paths.path_rows import append

from leadline.model.errors import StoreError
from leadline.model.principal import Principal, Role
from leadline.server.metrics import verdicts as metrics
from leadline.server.metrics.catalogue import METRICS


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The page as the operator gets it, and as tenant beta does. The store is closed: a process has one at a time."""
    with read_verdicts(tmp_path_factory.mktemp("standing")) as (parts, _):
        return text_of(parts), text_of(parts, Principal(tenant="beta", role=Role.TENANT_READ))


def test_open_incidents_by_rule_and_severity(pages: tuple[str, str]) -> None:
    found = samples_of(pages[0])
    told = {
        (labels["job_name"], labels["rule"], labels["severity"], labels["suppressed"]): value
        for (name, own), value in found.items()
        if name == "leadline_incidents_open" and (labels := dict(own))
    }
    assert told == {
        ("bert-1", "link-down", "warning", ""): 1,  # as the newest window says, not the one before
        ("resnet-2", "unknown", "critical", ""): 1,  # stalls; a cause that was named before is not now
        ("moe-3", "maintenance", "warning", "maintenance"): 1,
    }


def test_gpu_time_and_goodput_of_jobs(pages: tuple[str, str]) -> None:
    found = samples_of(pages[0])
    assert one(found, "leadline_job_goodput_ratio", job_name="bert-1", tenant="acme") == pytest.approx(60 / 80)
    assert one(found, "leadline_job_gpu_seconds_total", job_name="bert-1") == 80
    assert one(found, "leadline_job_lost_gpu_seconds_total", job_name="bert-1", category="straggler") == 15
    assert one(found, "leadline_job_lost_gpu_seconds_total", job_name="bert-1", category="compute") == 0
    assert one(found, "leadline_job_goodput_ratio", job_name="resnet-2", tenant="beta") == 1


def test_budgets_and_burn_rates(pages: tuple[str, str]) -> None:
    found = samples_of(pages[0])
    bad = {"entity": "gpu:GPU-6", "expectation": "gpu-temperature", "layer": "gpu"}
    assert one(found, "leadline_sle_good_ratio", **bad) == 0.5
    assert one(found, "leadline_sle_budget_left_ratio", **bad) == pytest.approx(1 - 30 / (0.01 * 30 * 86_400))
    assert one(found, "leadline_sle_burn_rate", window="5m", **bad) == pytest.approx(30 / (300 * 0.01))
    assert one(found, "leadline_sle_burn_rate", window="5m", entity="gpu:GPU-7") == 0


def test_sources_say_how_far_behind_they_are(pages: tuple[str, str]) -> None:
    found = samples_of(pages[0])
    assert one(found, "leadline_source_lag_seconds", source="agent at 10.0.0.7", way="rows") == 45
    assert one(found, "leadline_source_silent_seconds", source="agent at 10.0.0.7") == 40


def test_every_metric_is_described_by_a_person(pages: tuple[str, str]) -> None:
    helps = dict(re.findall(r"^# HELP (leadline_\S+) (.*)$", pages[0], re.MULTILINE))
    known = {each.exposed: each.doc for each in METRICS.values()}
    assert helps.keys() <= known.keys()
    assert helps.keys() > {
        name for name, each in METRICS.items() if each.about == "Verdicts" and each.kind != "counter"
    }
    assert all(text == known[name] for name, text in helps.items())
    for name, each in METRICS.items():
        assert each.doc[0].isupper() or each.doc.startswith("sFlow"), name
        assert each.doc.endswith("."), name
        assert re.fullmatch(r"leadline_[a-z0-9_]*[a-z0-9]", name)
        assert not name.endswith(("_total", "_count", "_sum", "_bucket")), "prometheus_client adds these"


def test_a_tenant_gets_its_own_verdicts_and_nothing_of_the_process(pages: tuple[str, str]) -> None:
    found = samples_of(pages[1])
    names = {name for name, _ in found}
    assert {dict(own).get("tenant", "beta") for _, own in found} == {"beta"}
    assert one(found, "leadline_job_goodput_ratio", job_name="resnet-2") == 1
    assert not any(
        name.startswith(("leadline_source", "leadline_ingest", "leadline_http", "process_")) for name in names
    )


def test_what_was_read_long_ago_is_not_told_as_if_it_were_now(tmp_path: Path) -> None:
    with read_verdicts(tmp_path) as (parts, clock):
        clock.ns += round((metrics.STALE_S + 1) * S)
        found = samples_of(text_of(parts))
        assert one(found, "leadline_verdicts_age_seconds") == metrics.STALE_S + 1
        assert not any(name.startswith(("leadline_job", "leadline_incidents", "leadline_sle")) for name, _ in found)


def test_counters_never_fall_and_settle(tmp_path: Path) -> None:
    def lost() -> float:
        assert parts.verdicts is not None
        parts.verdicts.refresh()
        return one(
            samples_of(text_of(parts)), "leadline_job_lost_gpu_seconds_total", job_name="bert-1", category="straggler"
        )

    with read_verdicts(tmp_path) as (parts, clock):
        assert lost() == 15
        append(parts.store, {"ledger": [window("bert-1", -1800, "straggler", 20.0, 5.0, revision=1)]})
        assert lost() == 15, "a verdict that is revised downwards is no restart"
        append(parts.store, {"ledger": [window("bert-1", -1800, "straggler", 40.0, 25.0, revision=2)]})
        assert lost() == 25
        clock.ns = NOW + 3000 * S  # that window settles
        append(parts.store, {"ledger": [window("bert-1", 2990, "straggler", 40.0, 4.0)]})
        assert lost() == 29
        append(parts.store, {"ledger": [window("bert-1", -1800, "straggler", 40.0, 90.0, revision=3)]})
        assert lost() == 29, "revised after it had settled"
        clock.ns += 10 * S
        assert lost() == 29, "no window counts twice"


def test_windows_before_the_start_do_not_count(tmp_path: Path) -> None:
    rows = {"ledger": [window("bert-1", -4000, "straggler", 20.0, 15.0), window("bert-1", -10, "compute", 8.0, 1.0)]}
    with read_verdicts(tmp_path, rows) as (parts, _):
        assert one(samples_of(text_of(parts)), "leadline_job_gpu_seconds_total", job_name="bert-1") == 8


def test_a_job_that_is_gone_is_not_told_and_its_sum_goes_on(tmp_path: Path) -> None:
    with read_verdicts(tmp_path) as (parts, clock):
        assert parts.verdicts is not None
        clock.ns = NOW + 7200 * S
        parts.verdicts.refresh()
        assert "resnet-2" not in {
            dict(own).get("job_name") for (name, own) in samples_of(text_of(parts)) if "_job_" in name
        }
        append(parts.store, {"ledger": [window("resnet-2", 7190, "compute", 8.0, 0.0, tenant="beta")]})
        parts.verdicts.refresh()
        assert one(samples_of(text_of(parts)), "leadline_job_gpu_seconds_total", job_name="resnet-2") == 16


def test_series_are_bounded_and_what_is_left_out_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "JOBS_MAX", 1)
    monkeypatch.setattr(metrics, "INCIDENTS_MAX", 2)
    monkeypatch.setattr(metrics, "BUDGETS_MAX", 1)
    with read_verdicts(tmp_path) as (parts, _):
        found = samples_of(text_of(parts))
    assert one(found, "leadline_job_goodput_ratio", job_name="bert-1") == 0.75, "the one with most GPU time"
    assert one(found, "leadline_sle_good_ratio", entity="gpu:GPU-6") == 0.5, "the worst"
    assert sum(name == "leadline_incidents_open" for name, _ in found) == 2
    left = {dict(own)["kind"]: value for (name, own), value in found.items() if name == "leadline_metrics_left_out"}
    assert left == {"jobs": 1, "incidents": 1, "expectations": 1, "sources": 0, "senders": 0}


def test_incidents_are_read_again_only_when_something_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    asked = metrics.open_incidents
    monkeypatch.setattr(metrics, "open_incidents", lambda store: reads.append(1) or asked(store))
    with read_verdicts(tmp_path) as (parts, _):
        assert parts.verdicts is not None
        reads.clear()
        parts.verdicts.refresh()
        assert not reads
        append(parts.store, {"incident": [made.incident("x-1", "bert-9", -5)]})
        parts.verdicts.refresh()
        assert reads
        assert one(samples_of(text_of(parts)), "leadline_incidents_open", job_name="bert-9", rule="unknown") == 1


def test_a_store_that_fails_leaves_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise StoreError("gone")

    with read_verdicts(tmp_path, {"ledger": ROWS["ledger"]}) as (parts, clock):
        assert parts.verdicts is not None
        monkeypatch.setattr(parts.store, "query", fails)
        clock.ns += 100 * S
        with pytest.raises(StoreError):
            parts.verdicts.refresh()
        assert one(samples_of(text_of(parts)), "leadline_job_goodput_ratio", job_name="bert-1") == 0.75
