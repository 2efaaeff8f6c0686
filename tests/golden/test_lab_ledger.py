"""Recorded lab runs with a slow worker and a congested link: the ledger tells what was lost, and whose it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from evals.ledger import GOLDEN, Run, judged, read_truth, runs
from evals.ledger_scores import Healthy, Score


def score_of(name: str) -> Score:
    """The score of the one trouble of a run."""
    run = Run(name, GOLDEN / f"{name}.leadline", read_truth(GOLDEN / f"{name}.truth.json"))
    (score,) = judged(run, Healthy())
    return score


# Measured: 1.00 and 0.96, 0.95 and 0.99, 0.84 and 1.00. Into rank 1 lead two edges, both over the full port.
@pytest.mark.parametrize(
    ("name", "owner", "owned_min", "right_min"),
    [
        ("bert-slow", ("straggler", "rank:bert-1/1"), 0.95, 0.9),
        ("rings-congested", ("communication", ">rank:rings-1/1"), 0.9, 0.95),
        ("rings-both", ("communication", ">rank:rings-1/1"), 0.8, 0.95),
        ("rings-slow", ("straggler", "rank:rings-1/1"), 0.65, 0.95),
    ],
)
def test_what_a_fault_cost_has_the_right_owner(
    name: str, owner: tuple[str, str], owned_min: float, right_min: float
) -> None:
    score = score_of(name)
    assert score.covered >= owned_min * score.trouble.lost
    assert score.right >= right_min * score.owned
    category, most = max(score.owners, key=lambda each: score.owners[each])
    assert category == owner[0]
    assert most.endswith(owner[1])


def test_every_recording_has_its_truth_beside_it() -> None:
    assert {path.stem for path in GOLDEN.glob("*.leadline")} <= {run.name for run in runs(None, False, "")}
    assert sum(path.stat().st_size for path in Path(GOLDEN).iterdir()) < 2_000_000
