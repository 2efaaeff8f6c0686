"""A constant is moved with all that follows from it, and what its move changes is told."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.house_parts.constants import ROOT
from bench.house_parts.verdicts import recordings
from evals.sensitivity import sweep as sweeping
from evals.sensitivity.__main__ import chosen, lines_of, main
from evals.sensitivity.moving import CannotMoveError, importers_of, movables, moved, number_at, with_moved
from evals.sensitivity.page import page_of
from evals.sensitivity.sweep import FACTORS, NOT_RUN, Results, change, sweep

from leadline.model.errors import DataError

(NAMED_MIN,) = movables(("choose.NAMED_MIN",))
RECORDING = recordings()[0]
BEFORE = {"rows": {"cause": {"a": 1, "b": 1}}, "named": ["slow of job:x"]}


@pytest.mark.parametrize(
    ("value", "factor", "is_now"),
    [
        (4, 2.0, 8),
        (3, 0.5, 1),
        (0.2, 2.0, 0.4),
        (0.6, 2.0, 0.8),
        (8.0, 0.5, 4.0),
        ((1.0, 3.0), 2.0, (2.0, 6.0)),
        ({"a": 10}, 0.5, {"a": 5}),
        (-4.0, 2.0, -8.0),
    ],
)
def test_numbers_and_those_in_tuples_and_dictionaries_are_scaled(value: Any, factor: float, is_now: Any) -> None:
    assert moved(value, factor) == is_now


def test_what_cannot_be_halved_is_said() -> None:
    with pytest.raises(CannotMoveError, match=r"1 times 0\.5 is no other number"):
        moved(1, 0.5)


def test_what_is_derived_follows() -> None:
    tree = with_moved(ast.parse("S = 10\nA, LONG = 1, 3 * S\nTWICE = (0, 2 * LONG)\n"), "LONG", 2.0)
    names: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), "written", "exec"), names)
    assert (names["A"], names["LONG"], names["TWICE"]) == (1, 60, (0, 120))


def test_a_number_of_a_rule_is_scaled_where_it_stands() -> None:
    tree = with_moved(ast.parse("RULES = (Rule('a', strength=1.5), Rule('b', strength=2.0))"), "1.5 of a rule", 2.0)
    assert ast.unparse(tree) == "RULES = (Rule('a', strength=3.0), Rule('b', strength=2.0))"


def test_every_constant_is_found_in_its_module() -> None:
    for each in movables(bounds=True):
        with_moved(ast.parse(each.constant.path.read_text()), each.name, 1.0)
        assert number_at(each.constant.path, each.name)


def test_those_that_import_it_are_compiled_anew_as_well() -> None:
    importers = importers_of("leadline.analysis.symptoms.excursion_kernels")
    assert {"leadline.analysis.symptoms.excursions", "leadline.analysis"} <= set(importers)
    assert "leadline.analysis.symptoms.call_kernels" not in importers


def test_a_kernel_takes_the_number_that_was_moved() -> None:
    asked = {
        "module": "leadline.analysis.symptoms.excursion_kernels", "name": "KNOWN_MIN", "factor": 100.0,
        "importers": importers_of("leadline.analysis.symptoms.excursion_kernels"),
    }  # fmt: skip
    code = (
        "import json, sys; from evals.sensitivity.moving import move; asked = json.load(sys.stdin); move(**asked)\n"
        "import numpy as np; from leadline.analysis.symptoms.excursion_kernels import risen\n"
        "print(risen(np.array([1.0] * 9 + [3.0] * 9))[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(asked), text=True, capture_output=True, cwd=ROOT, check=True
    )
    assert int(done.stdout) == -1, "of 18 blocks 300 are asked for, so none can be held against them"


def test_differences_are_rows_and_names() -> None:
    now = {"rows": {"cause": {"a": 1, "c": 1}, "symptom": {"d": 2}}, "named": ["straggler on rank:x/1"]}
    found = change(BEFORE, now)
    assert found.rows == {"cause": 1, "symptom": 2}
    assert (found.gone, found.new) == (("slow of job:x",), ("straggler on rank:x/1",))
    assert change(BEFORE, {"cannot": "it failed"}).cannot == "it failed"


def judged(monkeypatch: pytest.MonkeyPatch, answers: dict[float, dict[str, Any]]) -> list[float]:
    """Have processes answer by the factor that they are asked for; the factors asked for are returned."""
    asked_for: list[float] = []

    def run(asked: dict[str, Any]) -> dict[str, Any]:
        asked_for.append(asked["factor"])
        return answers[asked["factor"]]

    monkeypatch.setattr(sweeping, "_run", run)
    return asked_for


def test_a_run_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changed = {"rows": {"cause": {"a": 1, "c": 1}}, "named": ["slow of job:x"]}
    asked_for = judged(monkeypatch, {1.0: BEFORE, 0.5: BEFORE, 2.0: changed})
    path = tmp_path / "deep" / "results.jsonl"
    sweep([NAMED_MIN], [RECORDING], Results(path), lambda what: None)
    assert asked_for == [1.0, *FACTORS]
    with path.open("a") as file:
        file.write('[["cut off')
    sweep([NAMED_MIN], [RECORDING], results := Results(path), lambda what: None)
    assert asked_for == [1.0, *FACTORS], "nothing is judged twice"
    (outcome,) = results.outcomes([NAMED_MIN], [RECORDING])
    assert outcome.words == f"changes rows of cause in {RECORDING.stem} (x2)"
    assert outcome.as_json()["outcome"] == "rows"
    assert "| `cause.choose.NAMED_MIN` | `0.6` | judgement | x2: cause 1 |" in page_of([outcome], [RECORDING])


def test_other_code_starts_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged(monkeypatch, {1.0: BEFORE, 0.5: BEFORE, 2.0: BEFORE})
    sweep([NAMED_MIN], [RECORDING], Results(tmp_path / "r"), lambda what: None)
    monkeypatch.setattr(sweeping, "code_hash", lambda: "other")
    assert Results(tmp_path / "r").outcomes([NAMED_MIN], [RECORDING])[0].words == "not judged"


def test_a_limit_of_time_is_kept_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged(monkeypatch, {1.0: BEFORE, 0.5: BEFORE, 2.0: BEFORE})
    told: list[str] = []
    sweep([NAMED_MIN], [RECORDING], Results(tmp_path / "r"), told.append, seconds=1e-9)
    assert told == [f"stopped after 0 s at {RECORDING.stem}, 2 left of it"]


def test_what_no_recording_runs_is_said(tmp_path: Path) -> None:
    which = replace(NAMED_MIN, module="leadline.analysis.nobodys")
    results = Results(tmp_path / "r")
    results.add(("", 1.0, sweeping.name_of(RECORDING)), BEFORE)
    sweep([which], [RECORDING], results, lambda what: None)
    (outcome,) = results.outcomes([which], [RECORDING])
    assert lines_of([outcome])[0].endswith(NOT_RUN)
    assert f"- {NOT_RUN}: `nobodys.NAMED_MIN`" in page_of([outcome], [RECORDING])


def test_recordings_are_chosen_by_parts_of_their_names(tmp_path: Path) -> None:
    assert [path.stem for path in chosen(["oom", "two"], None)] == ["oom-kill", "two_jobs"]
    assert len(chosen([], None)) == len(recordings())
    with pytest.raises(DataError, match="unheard-of"):
        chosen(["unheard-of"], None)
    with pytest.raises(DataError, match=r"\*\.leadline"):
        chosen([], tmp_path)


def test_a_name_that_no_constant_has_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "UNHEARD_OF"]) == 2
    assert "'UNHEARD_OF'" in capsys.readouterr().err
