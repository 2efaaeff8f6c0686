"""What healthy training does now and then, all ranks of a job together: told to them by their control files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from leadline.lab.faults.base import SOME, TRAINING, Harmless, JobFault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class _OfJob(Harmless, JobFault):
    """Something that all ranks of a training job do."""

    layer = "application"
    workloads = TRAINING

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"job:{self.job}",)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        one = JobFault.chosen(self, lab, rng)
        fresh: dict[str, Any] = {"number": rng.randrange(1, 1 << 30)}
        return replace(one, **fresh) if getattr(one, "number", 0) is None else one

    @property
    def _holder(self) -> object:
        """What happens at a moment is told by a number, and the latest rules: the next of its kind takes its place."""
        return self if self.lasts else type(self)

    def settings(self) -> dict[str, Any]:
        """What the ranks are told."""
        return {}

    def start(self, lab: RunningLab) -> None:
        told = self.settings()
        assert None not in told.values(), "chosen() comes first: it draws the number that the ranks act on"
        for one in lab.ranks(self.job):
            lab.hold(lab.control(self.job, one.rank), self._holder, told)

    def stop(self, lab: RunningLab) -> None:
        for one in lab.ranks(self.job):
            lab.release(lab.control(self.job, one.rank), self._holder)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"told": lab.ranks(self.job)[0].control.read_text()}


@dataclass(frozen=True, slots=True)
class Recompilation(_OfJob):
    """A new shape came by and the program is compiled anew: one long step on every rank."""

    name = "recompilation"
    lasts = False

    bounds: ClassVar = {"pause_s": SOME}

    pause_s: float = 3.0
    number: int | None = None  # another one each time: a rank acts when it changes

    def settings(self) -> dict[str, Any]:
        return {"pause_s": self.pause_s, "pause_number": self.number}


@dataclass(frozen=True, slots=True)
class VariableSequences(_OfJob):
    """Every step has sequences of another length, the same on all ranks: step times vary, nobody is late."""

    name = "variable-sequences"

    def settings(self) -> dict[str, Any]:
        return {"vary_sequences": True}


@dataclass(frozen=True, slots=True)
class Reinitialisation(_OfJob):
    """The job makes its communicators anew, as elastic training does when it changes its size."""

    name = "reinitialisation"
    lasts = False

    number: int | None = None

    def settings(self) -> dict[str, Any]:
        return {"reinit_number": self.number}


@dataclass(frozen=True, slots=True)
class ExtraCheckpoint(_OfJob):
    """A checkpoint out of turn, as before a maintenance."""

    name = "extra-checkpoint"
    lasts = False

    number: int | None = None

    def settings(self) -> dict[str, Any]:
        return {"checkpoint_number": self.number}
