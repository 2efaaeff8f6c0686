"""What of a window's compute is lost: beyond the usual of its steps' own work, and beyond what steps differ by."""

from __future__ import annotations

import pytest
from tests.builders.fabrics import T0, S
from tests.builders.small_job import JOB, RANKS, step, table

from leadline.analysis.ledger.expected import expected
from leadline.analysis.spec import Window

WINDOW = Window(T0, T0 + 10 * S, job=JOB)


def lost_share(forward_ms: int, low_s: float, begin_ns: int = T0) -> float:
    """Of steps whose own work is `forward_ms` and 50 ms of optimiser, where 0.25 s is usual."""
    rows = [
        step(rank, at, begin_ns + at * S, forward=forward_ms, optimizer=50) for at in range(5) for rank in range(RANKS)
    ]
    rows += [step(rank, 90, T0 + 6 * S, forward=200, optimizer=50) for rank in range(RANKS)]
    compute = {"job": JOB, "what": "compute", "end_ns": T0, "window_ns": 60 * S, "count": 50}
    baseline = table("baseline", [{**compute, "low_s": low_s, "median_s": 0.25}])
    return expected(baseline, table("step", rows), WINDOW).compute_lost_share


@pytest.mark.parametrize(
    ("forward_ms", "low_s", "share"),
    [
        (250, 0.25, 1 - 0.25 / 0.30),
        (250, 0.20, 0.0),  # steps of this job differ by as much
        (450, 0.20, 0.5),
        (220, 0.25, 0.0),  # below a tenth
    ],
)
def test_what_own_work_takes_beyond_the_baseline_and_its_scatter_is_lost(
    forward_ms: int, low_s: float, share: float
) -> None:
    assert lost_share(forward_ms, low_s) == pytest.approx(share)


def test_steps_before_the_window_are_not_asked() -> None:
    assert lost_share(450, 0.25, T0 - 20 * S) == 0.0


def checkpoints_lost_share(every: int, seconds: float, baseline: list[dict[str, object]], alone: bool = False) -> float:
    """Of the checkpoints of 20 steps in the window, one in `every`, by all ranks or by the first alone."""
    rows = [
        step(rank, at, T0 + at * S // 2, checkpoint=round(seconds * 1000))
        if at % every == 0 and (rank == 0 or not alone)
        else step(rank, at, T0 + at * S // 2)
        for at in range(20)
        for rank in range(RANKS)
    ]
    told = [{"job": JOB, "end_ns": T0, "window_ns": 60 * S, **each} for each in baseline]
    return expected(table("baseline", told), table("step", rows), WINDOW).checkpoint_lost_share


STEPS = {"what": "step", "count": 400, "low_s": 0.4, "median_s": 0.4}
CHECKPOINTS = {"what": "checkpoint", "count": 20, "low_s": 0.1, "median_s": 0.1}  # one in 20 steps


@pytest.mark.parametrize(
    ("every", "seconds", "baseline", "share"),
    [
        (20, 0.1, [STEPS, CHECKPOINTS], 0.0),  # the one that is due
        (10, 0.1, [STEPS, CHECKPOINTS], 0.0),  # one and the next
        (10, 0.14, [STEPS, CHECKPOINTS], 0.0),  # storage has other users
        (20, 0.3, [STEPS, CHECKPOINTS], 0.5),  # twice as long as it may take
        (1, 0.1, [STEPS, CHECKPOINTS], 1 - 2 * 0.15 / 2),  # in each step: two were due
        (1, 0.1, [STEPS], 1 - 0.15 / 2),  # a job that never wrote any: the first is none too many
        (20, 5.0, [STEPS], 0.0),
        (1, 0.1, [], 0.0),  # nobody knows what is usual
    ],
)
def test_checkpoints_beyond_those_that_were_due_are_lost(
    every: int, seconds: float, baseline: list[dict[str, object]], share: float
) -> None:
    assert checkpoints_lost_share(every, seconds, baseline) == pytest.approx(share)


def test_what_one_rank_writes_alone_is_not_held_against_the_past() -> None:
    assert checkpoints_lost_share(1, 0.1, [STEPS, CHECKPOINTS], alone=True) == 0.0
