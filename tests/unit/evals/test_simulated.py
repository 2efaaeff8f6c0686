"""Simulated single faults: what is drawn, and one that is simulated and judged as the program does it."""

from __future__ import annotations

import json
from itertools import islice, pairwise
from pathlib import Path

import evals.runs.judged as judging
import evals.simulated as module
import pytest
from evals.simulated import CASES, FAULTS, ROUNDS_MAX, SPLITS, cases, main, seed_of

from leadline.analysis import ANALYSES
from leadline.lab.truth import MAGNITUDES
from leadline.model.errors import LeadlineError


def test_a_round_has_each_fault_at_each_magnitude_once() -> None:
    drawn = list(islice(cases("train"), CASES))
    assert {(each.fault, each.magnitude) for each in drawn} == {(f, m) for f in FAULTS for m in MAGNITUDES}
    layouts = {(each.gpus // each.gpus_per_host, each.gpus_per_host) for each in drawn}
    assert {per_host for _, per_host in layouts} == {1, 2, 8}, "as users have them"
    assert {each.placement for each in drawn} == {"packed", "random"}


def test_cases_are_the_same_from_wherever_one_begins() -> None:
    assert list(islice(cases("test", CASES + 5), 20)) == list(islice(cases("test"), CASES + 5, CASES + 25))


def test_no_two_cases_of_any_split_share_a_seed() -> None:
    ends = [(seed_of(split, 0), seed_of(split, ROUNDS_MAX * CASES - 1)) for split in SPLITS]
    assert all(last < first for (_, last), (first, _) in pairwise(ends))
    assert [each.fault for each in islice(cases("train"), CASES)] != [
        each.fault for each in islice(cases("test"), CASES)
    ]
    with pytest.raises(LeadlineError, match="--first: a split has"):
        seed_of("train", ROUNDS_MAX * CASES)


def test_a_case_is_simulated_judged_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(judging, "ANALYSES", [each for each in ANALYSES if each.name in ("baseline", "failures")])
    monkeypatch.setattr(module, "MINUTES", 0.5)
    monkeypatch.setattr(module, "LAYOUTS", ((8, 4),))
    first = next(number for number, each in enumerate(cases("train")) if each.fault == "gpu-throttle")
    case = next(cases("train", first))
    scored = module.judged_case(case, tmp_path, None)
    assert (tmp_path / f"{case.name}.leadline").exists()
    [fault] = scored.truth.troubles[0].faults
    assert (fault.name, fault.magnitude) == ("gpu-throttle", case.magnitude)
    assert module.judged_case(case, tmp_path, None).truth == scored.truth, "what is kept is judged again"
    assert main(["--count", "0"]) == 2
    assert "--count: expected a number of cases, got 0" in capsys.readouterr().err
    assert main(["--count", "2", "--only", "nothing-of-the-kind"]) == 2
    assert "none of 2 cases has 'nothing-of-the-kind' in its name" in capsys.readouterr().err


def test_one_json_object_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(chosen: object, *_: object) -> module.Scores:
        found = module.Scores()
        found.seconds.append(1.0)
        return found

    monkeypatch.setattr(module, "all_judged", nothing)
    assert main(["--count", "3", "--json", "--split", "validation"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["conditions"]["split"], told["conditions"]["seen"]) == ("validation", "simulated")
    assert {each["figure"] for each in told["figures"]} >= {
        "top1",
        "wrong_share",
        "verdict_s_p95",
        "stall_worker_right",
    }
