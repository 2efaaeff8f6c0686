"""What `evals.onset` tells of jobs, and what it calls right."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from evals import onset

from leadline.model.errors import DataError


@cache
def the_cut() -> tuple[onset.Run, onset.Found]:
    (run,) = onset.runs(onset.SMALL)
    return run, onset.found_in(run)


def test_the_job_that_is_kept_is_named_right(capsys: pytest.CaptureFixture[str]) -> None:
    onset.main(["--json", "--quick"])
    told = {each["figure"]: each["value"] for each in json.loads(capsys.readouterr().out)["figures"]}
    assert (told["straggler_job_1"], told["onset_job_1"], told["named_right_job_1"]) == (6, 1811, 1.0)
    assert told["named_right"] == 1.0


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("one straggler: worker 6 emerges in the middle of training", True),
        ("one straggler: worker 5 emerges in the middle of training", False),
        ("no straggler", False),
        ("several stragglers", False),
        ("possibly several stragglers", None),
        ("", None),
        ("a nice job", None),
    ],
)
def test_words_of_the_publishers_are_held_against_what_is_told(said: str, right: bool | None) -> None:
    run, found = the_cut()
    assert onset.named_right(replace(run, said=said), found)[0] is right


def test_in_the_middle_is_not_at_an_edge() -> None:
    run, found = the_cut()
    told = found.stragglers[0]
    assert onset.is_in_the_middle(run, told)
    assert not onset.is_in_the_middle(run, {**told, "since_step": 1221})
    assert not onset.is_in_the_middle(run, {**told, "since_step": 2391})
    assert not onset.is_in_the_middle(run, {**told, "from_start": True})


def test_a_job_without_a_straggler_has_none_with_the_reason() -> None:
    run, _ = the_cut()
    calm = replace(run, time_N=np.full(len(run.time_N), 5.0))
    figures = {each.figure: each for each in onset.figures_of(calm, onset.found_in(calm))}
    assert figures["straggler_job_1"].value is None
    assert figures["straggler_job_1"].reason == "no worker stands out"


def test_a_rising_variation_is_found_and_a_falling_one_is_not() -> None:
    level = 0.05 * np.exp(0.1 * np.random.default_rng(1).normal(size=200))
    risen = np.where(np.arange(200) < 120, level, 3 * level)
    place = onset.rise(risen)
    assert place is not None
    assert abs(place - 120) <= 1
    assert onset.rise(level) is None
    assert onset.rise(risen[::-1]) is None


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected files job_<n>_norm\.csv"):
        list(onset.runs(tmp_path))
    (tmp_path / "job_1_norm.csv").write_text("worker,time\n1,2\n")
    with pytest.raises(DataError, match="none called batch_time_norm"):
        list(onset.runs(tmp_path))
    (tmp_path / "job_1_norm.csv").write_text("worker,time,batch_time_norm\n1,2,x\n")
    with pytest.raises(DataError, match="line 2: expected numbers"):
        list(onset.runs(tmp_path))
