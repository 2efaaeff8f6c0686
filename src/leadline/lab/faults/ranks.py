"""What a fault can befall of a job: several ranks of it, or all."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from leadline.lab.faults.base import JobFault, RankFault
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class RanksFault(RankFault):
    """A fault of `ranks` ranks of a job: `rank` and the next ones, at most as many as leave `spared` unharmed."""

    spared: ClassVar[int] = 0

    ranks: int = 1

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        fault = RankFault.chosen(self, lab, rng)
        most = max(1, len(lab.ranks(fault.job)) - self.spared)
        return replace(fault, ranks=min(self.ranks, most))

    def check(self, topology: Topology) -> None:
        RankFault.check(self, topology)
        if self.ranks < 1:
            raise UsageError(f"{self.name}: ranks must be at least 1, got {self.ranks}")

    def befallen(self, lab: RunningLab) -> list[RankProcess]:
        """The ranks, `rank` first. Errors: UsageError if its job does not run."""
        size = len(lab.ranks(self.job))
        return [lab.rank(self.job, ((self.rank or 0) + turn) % size) for turn in range(min(self.ranks, size))]

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return tuple(f"rank:{self.job}/{one.rank}" for one in self.befallen(lab))


def tell(fault: JobFault, lab: RunningLab, ranks: list[RankProcess], settings: Mapping[str, Any]) -> None:
    """Claim settings of the control files of these ranks."""
    for one in ranks:
        lab.hold(lab.control(fault.job, one.rank), fault, dict(settings))


def tell_no_more(fault: JobFault, lab: RunningLab, ranks: list[RankProcess]) -> None:
    """Let go of what `tell` claimed."""
    for one in ranks:
        lab.release(lab.control(fault.job, one.rank), fault)
