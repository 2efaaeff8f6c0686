"""The round of all evals: what it calls, what it keeps, what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import evals.all as program
import pytest
from evals.all import figures_in, main, rows_of
from evals.all_jobs import JOBS, Job, chosen, command
from evals.all_journal import EVALS, Journal, Taken, key_of

FIGURES = [{"figure": "top1", "value": 0.5, "unit": "ratio", "target": 0.9, "better": "higher", "met": False}]


def taken(job: str = "lab", key: str = "k", state: Any = "done") -> Taken:
    return Taken(job, key, state, 1.0, FIGURES)


def test_every_program_is_in_the_list() -> None:
    programs = {path.stem for path in EVALS.glob("*.py") if "__main__" in path.read_text()} - {"all"}
    programs |= {path.parent.name for path in EVALS.glob("*/__main__.py")}
    # What signs tell, which constants decide, what weights are learned: they score nothing.
    programs -= {"weights", "sensitivity", "learned"}
    assert programs <= {job.module for job in JOBS}
    # Real jobs take real minutes, and tests/jobs has the small ones; so do ten times the load and a store that hangs.
    # A simulated fleet takes a minute to judge; tests/unit/evals/test_simulated.py has a small one. No test installs a
    # language model.
    programs -= {"healthy", "stranger", "overload", "simulated", "explain"}
    assert programs <= {job.module for job in chosen("", quick=True)}
    assert len({job.name for job in JOBS}) == len(JOBS)


def test_a_call_takes_the_folder_of_its_data_or_is_left_out(tmp_path: Path) -> None:
    job = Job("rootcause-petshop", "rootcause", ("--suite", "petshop"), "petshop", needs_folder=True)
    assert command(job, False, tmp_path, None, tmp_path) == "needs petshop/ in a directory given by --data"
    (tmp_path / "petshop").mkdir()
    assert command(job, False, tmp_path, None, tmp_path)[-2:] == ["--data", str(tmp_path / "petshop")]
    assert "--data" not in command(job, True, tmp_path, None, tmp_path)


def test_runs_go_to_those_that_judge_runs(tmp_path: Path) -> None:
    (lab,) = chosen("lab", quick=False)
    assert list(command(lab, False, None, tmp_path, Path("kept"))) == [
        "-m", "evals.lab", "--json", "--incidents", str(tmp_path), "--cache", "kept",
    ]  # fmt: skip


def test_a_journal_remembers_what_ended_well_under_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).write(taken())
    Journal(path).write(taken("quiet", state="failed"))
    again = Journal(path)
    assert again.done("lab", "k") == taken()
    assert again.done("lab", "other") is None
    assert again.done("quiet", "k") is None


def test_a_line_that_was_cut_off_is_called_again_and_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps({"job": "lab"})[:-3])
    Journal(path).write(taken())
    assert Journal(path).done("lab", "k") is not None


def test_the_key_follows_arguments_and_data(tmp_path: Path) -> None:
    words = ["-m", "evals.lab", "--incidents", str(tmp_path)]
    before = key_of(words)
    assert key_of(words) == before
    assert key_of([*words, "--quick"]) != before
    (tmp_path / "run.leadline").write_bytes(b"12")
    assert key_of(words) != before


def test_figures_of_every_object_are_found_among_other_lines() -> None:
    output = "\n".join(
        ["judging", json.dumps({"figures": FIGURES}), "{not json", json.dumps({"figures": FIGURES}), "{}"]
    )
    assert figures_in(output) == [*FIGURES, *FIGURES]


def test_baselines_stand_beside_their_figure() -> None:
    figures = [
        {"figure": "latency_top1", "value": 0.7, "anchor": {"of": "PetShop", "value": 0.571}},
        {"figure": "latency_top1_baro", "value": 0.4}, {"figure": "alone_baro", "value": 0.1},
    ]  # fmt: skip
    rows = rows_of("rootcause", figures)
    assert [row["figure"] for row in rows] == ["latency_top1", "alone_baro"]
    assert rows[0]["baselines"] == {"baro": 0.4, "PetShop": 0.571}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the programs that were called; each ends well but `paths`, and `whatif` is interrupted once."""
    names: list[str] = []

    def call(job: Job, words: object, key: str) -> Taken:
        names.append(job.name)
        if job.name == "whatif" and names.count("whatif") == 1:
            raise KeyboardInterrupt
        return Taken(job.name, key, "failed" if job.name == "paths" else "done", 1.0, FIGURES, "why")

    monkeypatch.setattr(program, "_call", call)
    return names


def test_an_interrupted_round_goes_on_with_what_is_left(
    tmp_path: Path, called: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--journal", str(tmp_path / "journal.jsonl")]
    assert main(words) == 130
    assert called == ["onset", "whatif"]
    assert main(words) == 1  # paths failed
    whole = ["whatif", "paths", "ledger", "lab", "simulated", "explain", "quiet", "tenants", "faults-on-disk",
             "overload", "healthy", "stranger"]  # fmt: skip
    assert called[2:] == whole
    assert main(words) == 1
    assert called[2 + len(whole) :] == ["paths"]
    told = capsys.readouterr().out
    assert "FAILED: why" in told
    assert "left out: needs petshop/" in told
    assert "NOT MET" in told


def test_a_quick_round_takes_all_anew(tmp_path: Path, called: list[str]) -> None:
    words = ["--journal", str(tmp_path / "journal.jsonl"), "--quick", "--only", "lab"]
    assert (main(words), main(words)) == (0, 0)
    assert called == ["lab", "lab"]
    assert not (tmp_path / "journal.jsonl").exists()


def test_a_program_that_fails_or_says_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = program._call(Job("x", "x"), ["-c", "print('what is wrong'); raise SystemExit(2)"], "k")
    assert (fails.state, fails.why) == ("failed", "exit code 2: what is wrong")
    silent = program._call(Job("x", "x"), ["-c", "print('nothing')"], "k")
    assert silent.state == "failed"
    good = program._call(Job("x", "x"), ["-c", f"print('''{json.dumps({'figures': FIGURES})}''')"], "k")
    assert (good.state, good.figures) == ("done", FIGURES)
