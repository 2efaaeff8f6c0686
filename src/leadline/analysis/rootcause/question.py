"""What is asked: the time that is judged, the time that counts as normal, and where the symptom is, if it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.rootcause.readings import Readings
from leadline.analysis.rootcause.roles import Role

Flags = NDArray[np.bool_]

QUIET = 0.95  # of the normal windows: what happens in as many of them happens by chance
WINDOWS_MIN = 20  # normal windows, so that a twentieth (1 - QUIET) is at least one of them


@dataclass(frozen=True, slots=True)
class Span:
    """From `from_ns`, included, to `to_ns`, not included; ns since 1970."""

    from_ns: int
    to_ns: int

    def holds_T(self, of: Readings) -> Flags:
        """In which intervals all readings are in the span: one across its edge is half of something else."""
        return (of.first_T >= self.from_ns) & (of.last_T < self.to_ns)


@dataclass(frozen=True, slots=True)
class Question:
    """What is the cause of what happened in `judged`?"""

    judged: Span
    normal: tuple[Span, ...] = ()  # what is learned from; none: all that was read before `judged`
    symptom: str = ""  # entity; empty: not known
    metric: str = ""  # of the symptom; empty: failures if they rose, else latency
    roles: Mapping[str, Role] = field(default_factory=dict)  # of metrics whose names do not say it

    def judged_T(self, of: Readings) -> Flags:
        """Which intervals are judged: those with all their readings in the span."""
        return self.judged.holds_T(of)

    def normal_T(self, of: Readings) -> Flags:
        """Which intervals are normal: those with all their readings in one of the spans, and not judged."""
        spans = self.normal or (Span(int(of.first_T[0]), self.judged.from_ns),)
        inside_T = np.zeros(len(of.first_T), dtype=bool)
        for span in spans:
            inside_T |= span.holds_T(of)
        return inside_T & ~self.judged_T(of)


def window_length(judged: int, normal: int) -> int:
    """How many intervals a normal window has, to hold `judged` intervals against: as many, or fewer.

    Fewer where `normal` intervals would give less than `WINDOWS_MIN` windows. The mean over a short window varies more,
    so that the bound is then too high rather than too low: a cause may stay unknown, none is named by chance.
    """
    return max(1, min(judged, normal // WINDOWS_MIN))
