"""Runs of the lab that are judged, kept, and judged with telemetry missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import evals.runs.judged as module
import numpy as np
import pyarrow as pa
import pytest
from evals.lab import main
from evals.runs.judged import Listening, Missing, Run, dropped, judged, runs_in

from leadline.analysis import ANALYSES
from leadline.lab.incidents import HERE, incident
from leadline.model.errors import LeadlineError

S = 10**9


def rows(ranks: int = 200) -> pa.Table:
    rank = pa.array(np.repeat(np.arange(ranks), 3))
    return pa.table({"job": pa.array(["j"] * len(rank)).dictionary_encode(), "rank": rank})


def test_a_share_of_the_senders_is_silent_and_the_others_are_whole() -> None:
    left = dropped("step", rows(), Missing(0.3))
    counts = np.bincount(left["rank"].to_numpy(), minlength=200)
    assert set(counts.tolist()) == {0, 3}
    assert 0.2 < np.mean(counts == 0) < 0.4


def test_who_is_silent_follows_the_seed_and_not_the_order_of_rows() -> None:
    given = rows()
    again = dropped("step", given.take(pa.array(np.arange(len(given))[::-1].copy())), Missing(0.3))
    first = dropped("step", given, Missing(0.3))
    assert set(again["rank"].to_pylist()) == set(first["rank"].to_pylist())
    assert set(dropped("step", given, Missing(0.3, seed=2))["rank"].to_pylist()) != set(first["rank"].to_pylist())


def test_what_is_no_telemetry_stays() -> None:
    assert dropped("relation", rows(), Missing(0.9)) is not None
    assert len(dropped("relation", rows(), Missing(0.9))) == len(rows())
    assert dropped("step", rows(), Missing(0.0)).equals(rows())


def test_series_are_silent_by_their_id() -> None:
    ids = [bytes([at]) * 16 for at in range(100)]
    left = dropped("metric_sample", pa.table({"series": pa.array(ids * 2, pa.binary(16))}), Missing(0.3))
    assert 2 * len(set(left["series"].to_pylist())) == len(left)
    assert 50 < len(set(left["series"].to_pylist())) < 90


@pytest.fixture
def quiet_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A healthy run, judged by nothing that takes long."""
    monkeypatch.setattr(module, "ANALYSES", [each for each in ANALYSES if each.name == "failures"])
    return Run("healthy", incident("healthy"), HERE / "healthy.truth.json")


def test_verdicts_are_kept_by_what_was_judged(tmp_path: Path, quiet_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first = judged(quiet_run, tmp_path)
    monkeypatch.setattr(module, "_judge", lambda *_: pytest.fail("judged again"))
    assert judged(quiet_run, tmp_path).seconds == first.seconds
    for kept in tmp_path.glob("*.json"):
        kept.write_text(kept.read_text()[:-10])
    with pytest.raises(pytest.fail.Exception, match="judged again"):
        judged(quiet_run, tmp_path)


def test_another_share_missing_is_another_verdict(tmp_path: Path, quiet_run: Run) -> None:
    judged(quiet_run, tmp_path)
    judged(quiet_run, tmp_path, Missing(0.3))
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_the_program_judges_a_directory(tmp_path: Path, quiet_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (quiet_run.bundle, quiet_run.truth):
        (tmp_path / path.name).symlink_to(path)
    words = ["--incidents", str(tmp_path), "--missing", "0.3", "--processes", "1", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    values = {each["figure"]: each["value"] for each in told["figures"]}
    assert values["false_incidents"] == values["false_incidents_missing30"] == 0
    assert values["top1"] is None
    assert values["faults"] == 0


@pytest.mark.parametrize("words", [["--incidents", "/nowhere"], ["--only", "no such run"], ["--missing", "1.5"]])
def test_what_cannot_be_judged_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "expected" in (said := capsys.readouterr().err) or "record some" in said


def test_a_bundle_without_truth_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.leadline").touch()
    with pytest.raises(LeadlineError, match=r"no NAME\.leadline with NAME\.truth\.json"):
        runs_in(tmp_path)


def test_what_each_window_told_is_remembered_with_the_time_at_which_it_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*_: Any) -> Any:
        cause = [{"incident": "i", "position": at, "chosen": at == 1, "entity": f"host:h{at}"} for at in (1, 2)]
        return module.Outcome("done", {"incident": pa.table({"incident": ["i"]}), "cause": pa.Table.from_pylist(cause)})

    monkeypatch.setattr("leadline.runner.execute.judged", told)
    monkeypatch.setattr(module, "grace_ns", lambda _: 2 * S)
    listening = Listening()
    for end_s in (20, 10):
        window = type("Window", (), {"to_ns": end_s * S})()
        listening.submit(module.Task(ANALYSES[0], window, []))
    assert listening.told() == [
        {"incident": "i", "reported_ns": 12 * S, "first": "host:h1"},
        {"incident": "i", "reported_ns": 22 * S, "first": "host:h1"},
    ]
