"""Quiet fleets: the same one always says the same, and what is told of them is counted."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import evals.runs.quiet_fleet as module
import pyarrow as pa
import pytest
from evals.quiet import DEEP, THIN, WIDE, figures, fleets, healthy_runs
from evals.runs.quiet_fleet import Fleet, Quiet, is_kept, quiet, quiet_kept

from leadline.analysis import ANALYSES
from leadline.lab.incidents import HERE

SMALL = Fleet("small", 8, "jobs", minutes=3.0, gpus_per_host=1)


@pytest.fixture
def few_analyses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANALYSES", [each for each in ANALYSES if each.name in ("baseline", "failures")])


@pytest.mark.usefixtures("few_analyses")
def test_a_fleet_is_judged_to_its_end_and_says_the_same_again() -> None:
    first, again = quiet(SMALL), quiet(SMALL)
    assert first.judged_s == 180.0
    assert first.node_days == pytest.approx(8 * 3 / 1440) == SMALL.node_days
    assert first.rows["step"] > 0
    assert first.windows > 0
    assert (first.rows, first.told, first.windows, first.jobs) == (again.rows, again.told, again.windows, again.jobs)


@pytest.mark.usefixtures("few_analyses")
def test_what_was_judged_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_kept(SMALL, tmp_path)
    assert not is_kept(SMALL, None)
    first = quiet_kept(SMALL, tmp_path)
    monkeypatch.setattr(module, "quiet", lambda _: pytest.fail("judged again"))
    assert is_kept(SMALL, tmp_path)
    assert quiet_kept(SMALL, tmp_path) == first


def test_incidents_count_unless_they_are_suppressed() -> None:
    found = Quiet("small", "jobs", 1, 8)
    row = {
        "incident": "i", "entity": "job:j", "symptom": "slow", "verdict": "known", "suppressed": None,
        "lost_gpu_seconds": 3.0,
    }  # fmt: skip
    cause = {"incident": "i", "position": 1, "chosen": True, "entity": "host:h1", "rule": "slow-host"}
    symptom = {
        "entity": "job:j", "symptom": "slow", "start_ns": 90 * 10**9, "lost_gpu_seconds": 3.0, "blamed": "[]",
    }  # fmt: skip
    told = {
        "symptom": pa.Table.from_pylist([symptom]),
        "incident": pa.Table.from_pylist([row, {**row, "incident": "k", "suppressed": "maintenance"}]),
        "cause": pa.Table.from_pylist([{**cause, "position": 2, "entity": "host:h2"}, cause]),
    }
    module._count(found, told, 0)
    assert found.suppressed == 1
    assert found.symptoms == ["job:j slow at 90 s, 3.0 GPU-s, blames []"]
    assert [(each["incident"], each["cause"]) for each in found.incidents] == [("i", "host:h1 slow-host")]


def test_figures_are_per_thousand_node_days() -> None:
    day = Quiet("thin", "hosts", 1, 500, 86_400.0, incidents=[{"incident": "i"}])
    values = {each.figure: each.value for each in figures([day], [])}
    assert values["incidents_per_1000_node_days"] == pytest.approx(2.0)
    assert values["node_days"] == values["node_days_thin"] == 500.0
    assert values["incidents_healthy_per_hour"] is None


def test_fleets_never_repeat() -> None:
    first = list(islice(fleets(), 30))
    assert len(set(first)) == 30
    assert {each.name for each in first} == {THIN.name, WIDE.name, DEEP.name}
    assert Counter(each.name for each in first)[THIN.name] > 15


def test_a_run_is_healthy_if_only_harmless_things_happened(tmp_path: Path) -> None:
    for name in ("healthy", "demo"):
        (tmp_path / f"{name}.leadline").touch()
        (tmp_path / f"{name}.truth.json").write_text((HERE / f"{name}.truth.json").read_text())
    harmless = json.loads((HERE / "demo.truth.json").read_text())
    for each in harmless["faults"]:
        each["decoy"] = True
    (tmp_path / "decoys.leadline").touch()
    (tmp_path / "decoys.truth.json").write_text(json.dumps(harmless))
    assert [run.name for run in healthy_runs(tmp_path)] == ["decoys", "healthy"]
