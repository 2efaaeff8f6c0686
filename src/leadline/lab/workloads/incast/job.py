"""The `incast` workload: one host asks all others at once, and their answers meet at its port.

    incast = Incast(hosts=["h1", "h2", "h3", "h4"], burst_bytes=1 << 18, period_s=0.5)    # h1 asks
    incast.start(cluster)
    incast.report()     # {"bursts": 12, "received_bytes": 9437184, "burst_s_median": 0.031, "burst_s_max": 0.24}

As storage and aggregation do it: a burst is over when the slowest answer is there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leadline.lab.workloads.base import Lab, RankJob
from leadline.model.errors import UsageError

BURST_BYTES_MAX = 1 << 30


@dataclass(kw_only=True)
class Incast(RankJob):
    """Bursts from all hosts but the first into the first. No GPU is used."""

    name: str = "incast-1"
    hosts: Sequence[str] = ()  # the first one asks; (): every host
    burst_bytes: int = 1 << 18  # of each answering host
    period_s: float = 0.5  # between the beginnings of two bursts; the next waits for the one before
    seconds: float = 600.0
    congestion: str = "cubic"
    program: str = field(default="leadline.lab.workloads.incast.rank", init=False)
    working_word: ClassVar[str] = '"bursts"'

    def __post_init__(self) -> None:
        if not 0 < self.burst_bytes <= BURST_BYTES_MAX or self.period_s <= 0 or self.seconds <= 0:
            raise UsageError(
                f"workload {self.name} needs burst_bytes of 1 to {BURST_BYTES_MAX} and period_s, seconds > 0, got "
                f"{self.burst_bytes}, {self.period_s} and {self.seconds}"
            )

    def plan(self, lab: Lab) -> None:
        """One asks, the others answer, each on a host of its own. Errors: UsageError if there is nobody to answer."""
        if len(self.members(lab)) < 2 or self.gpus_per_host != 1:
            raise UsageError(
                f"workload {self.name} needs two hosts at least, with one rank on each; got {len(self.members(lab))} "
                f"ranks, {self.gpus_per_host} on each"
            )

    def arguments(self, lab: Lab, rank: int) -> list[str]:
        """The options of `incast.rank`."""
        words = ["--bytes", str(self.burst_bytes), "--period", str(self.period_s), "--seconds", str(self.seconds)]
        return [*words, "--congestion", self.congestion]

    def report(self) -> dict[str, Any]:
        """What the asking host has counted, at most a second old; {} before the first burst."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            found: dict[str, Any] = json.loads(self.ranks[0].log.read_text().splitlines()[-1])
            return found
        return {}

    def bursts(self) -> int:
        """Bursts that are over."""
        return int(self.report().get("bursts", 0))
