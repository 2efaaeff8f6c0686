"""What to do about a cause, from the fixed list of actions, with what it costs and saves in GPU-seconds."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.model.incidents import ActionKind, FaultClass, Symptom

# What costs of waiting and acting are computed with: estimates for a reader, and no verdict depends on them. Source:
# judgement.
WAIT_S = 600.0  # seconds of waiting whose cost is told: ten minutes are easy to picture
AHEAD_S = 3600.0  # seconds: savings are told of the next hour
RESTART_S = 180.0  # seconds of a start from a checkpoint that was never seen: scheduling, loading, communicators
REDONE_S = 900.0  # seconds of work since the last checkpoint, where its interval is unknown: half of half an hour

A = ActionKind
STOPS_JOB = frozenset({A.RESTART_APP, A.RESET_GPU, A.REBOOT_NODE, A.REPLACE_NODE, A.QUARANTINE, A.DRAIN, A.RESIZE})
"""Actions after which the jobs on the component start again from their checkpoint."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a cause does to the jobs that suffer of it."""

    gpus: int  # that these jobs hold
    lost_gpu_s_per_s: float  # GPU-seconds lost per second while it lasts
    lasts: bool
    restart_s: float | None = None  # of these jobs, where it was seen
    redone_s: float | None = None  # work that a stop throws away, where checkpoints were seen


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do and what that means, GPU-seconds."""

    action: ActionKind
    cost: float  # by defaults where the job's own restart and checkpoints were not seen
    saves: float  # in the next hour, the cost not taken off
    waiting: float  # ten minutes of waiting


def remedy(
    proposed: ActionKind, fault_class: FaultClass, symptom: Symptom, loss: Loss, *, dead: bool = False
) -> Remedy:
    """The action for a cause, from what its rule, or the catalogue of its code, proposes.

    - what is dead until it is reset (`dead`) keeps its action: nothing can be started on it, whatever its history
    - a gray fault of a node that its jobs survive is avoided for these jobs (AVOID) instead of taking the node out
    - what is over keeps its action, for the next time, but nothing is paid or saved now; unless its job is down, and
      what made it so is not dead (`dead`): then the job is started again
    - a stop is proposed only where it pays: where it costs more than it saves in an hour, the job goes on as it is
      (NONE) until the class is known to be gray or persistent
    """
    passed = fault_class in (FaultClass.TRANSIENT, FaultClass.UNKNOWN) and not loss.lasts
    action = proposed if dead else _for_class(proposed, fault_class)
    if passed and symptom is Symptom.CRASH and not dead:
        action = A.RESTART_APP
    saves = min(loss.lost_gpu_s_per_s, float(loss.gpus)) * AHEAD_S if loss.lasts else 0.0
    cost = 0.0 if passed and symptom is not Symptom.CRASH else _cost(action, symptom, loss)
    if fault_class is FaultClass.UNKNOWN and symptom is Symptom.SLOW and cost > saves and loss.lasts and not dead:
        action, cost = A.NONE, 0.0
    waiting = loss.lost_gpu_s_per_s * WAIT_S if loss.lasts else 0.0
    return Remedy(action, cost, 0.0 if action is A.NONE else saves, waiting)


def _for_class(action: ActionKind, fault_class: FaultClass) -> ActionKind:
    takes_out = action in (A.DRAIN, A.REPLACE_NODE, A.QUARANTINE)
    return A.AVOID if fault_class is FaultClass.GRAY and takes_out else action


def _cost(action: ActionKind, symptom: Symptom, loss: Loss) -> float:
    """GPU-seconds that the action takes from the jobs. One that is down has lost its work already."""
    if action not in STOPS_JOB:
        return 0.0
    restart_s = RESTART_S if loss.restart_s is None else loss.restart_s
    redone_s = REDONE_S if loss.redone_s is None else loss.redone_s
    return loss.gpus * (restart_s + (0.0 if symptom in (Symptom.CRASH, Symptom.STALL) else redone_s))
