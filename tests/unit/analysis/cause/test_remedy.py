"""Which action, at what price."""

from __future__ import annotations

import pytest

from leadline.analysis.cause.remedy import AHEAD_S, REDONE_S, RESTART_S, WAIT_S, Loss, remedy
from leadline.model.incidents import ActionKind, FaultClass, Symptom

SLOW = Loss(gpus=8, lost_gpu_s_per_s=4.0, lasts=True)


def test_a_stop_costs_the_start_and_the_work_since_the_checkpoint() -> None:
    told = remedy(ActionKind.REPLACE_NODE, FaultClass.PERSISTENT, Symptom.SLOW, SLOW)
    assert (told.action, told.cost) == (ActionKind.REPLACE_NODE, 8 * (RESTART_S + REDONE_S))
    assert (told.saves, told.waiting) == (4.0 * AHEAD_S, 4.0 * WAIT_S)
    seen = Loss(8, 4.0, True, restart_s=60.0, redone_s=30.0)
    assert remedy(ActionKind.DRAIN, FaultClass.PERSISTENT, Symptom.SLOW, seen).cost == 8 * 90.0


def test_a_job_that_is_down_has_lost_its_work_already() -> None:
    down = Loss(8, 8.0, True)
    assert remedy(ActionKind.RESTART_APP, FaultClass.UNKNOWN, Symptom.CRASH, down).cost == 8 * RESTART_S
    assert remedy(ActionKind.REBOOT_NODE, FaultClass.UNKNOWN, Symptom.STALL, down).cost == 8 * RESTART_S


def test_what_needs_no_stop_costs_nothing() -> None:
    assert remedy(ActionKind.CHECK_CABLE, FaultClass.UNKNOWN, Symptom.SLOW, SLOW).cost == 0


@pytest.mark.parametrize("proposed", [ActionKind.DRAIN, ActionKind.REPLACE_NODE, ActionKind.QUARANTINE])
def test_a_gray_node_is_avoided(proposed: ActionKind) -> None:
    told = remedy(proposed, FaultClass.GRAY, Symptom.SLOW, SLOW)
    assert (told.action, told.cost) == (ActionKind.AVOID, 0)


def test_what_is_over_keeps_its_action_for_the_next_time_and_costs_nothing_now() -> None:
    over = Loss(8, 4.0, lasts=False)
    told = remedy(ActionKind.REPLACE_NODE, FaultClass.TRANSIENT, Symptom.SLOW, over)
    assert (told.action, told.cost, told.saves, told.waiting) == (ActionKind.REPLACE_NODE, 0, 0, 0)
    assert remedy(ActionKind.DRAIN, FaultClass.TRANSIENT, Symptom.CRASH, over).action is ActionKind.RESTART_APP


def test_a_job_is_not_started_again_on_what_is_dead_nor_is_that_only_avoided() -> None:
    over = Loss(8, 4.0, lasts=False)
    for of in FaultClass:
        told = remedy(ActionKind.DRAIN, of, Symptom.CRASH, over, dead=True)
        assert (told.action, told.cost) == (ActionKind.DRAIN, 8 * RESTART_S)
    little = Loss(gpus=1000, lost_gpu_s_per_s=10.0, lasts=True)
    assert remedy(ActionKind.DRAIN, FaultClass.UNKNOWN, Symptom.SLOW, little, dead=True).action is ActionKind.DRAIN


def test_no_stop_for_what_may_pass_and_costs_less_than_the_stop() -> None:
    little = Loss(gpus=1000, lost_gpu_s_per_s=10.0, lasts=True)
    told = remedy(ActionKind.REPLACE_NODE, FaultClass.UNKNOWN, Symptom.SLOW, little)
    assert (told.action, told.cost, told.saves) == (ActionKind.NONE, 0, 0)
    assert told.waiting == 10.0 * WAIT_S
    sure = remedy(ActionKind.RESET_GPU, FaultClass.PERSISTENT, Symptom.SLOW, little)
    assert sure.action is ActionKind.RESET_GPU
    assert sure.cost > sure.saves


def test_savings_are_no_more_than_the_gpus_there_are() -> None:
    assert remedy(ActionKind.PACE, FaultClass.GRAY, Symptom.SLOW, Loss(2, 50.0, True)).saves == 2 * AHEAD_S
