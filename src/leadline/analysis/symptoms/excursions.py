"""When a job became slower: a cumulative sum of how far its blocks lie beyond what they took before.

ratio   1.0 1.0 1.1 1.0 1.4 1.4 1.3      blocks that are no trouble are what the next ones are held against;
sum     0   0   0.4 0   4.5 9 -> told    the first block since the sum left 0 is the onset
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Floats

KNOWN_MIN = 3  # blocks before any can be held against them
FEW = 8  # blocks of which the scatter is not known well
SCATTER_FEW, SCATTER_MIN = 0.08, 0.04  # of the usual: steps of real jobs differ by at least so much
SCATTER_MAX = 0.25  # a job that comes up does not make everything usual
SLACK = 1.5  # scatters beyond usual that are nothing
TOLD = 8.0  # sum of scatters from which it is told
CALM = 2  # blocks as usual in a row after which it is over: what comes then is something else
BEFORE = 8  # blocks before it that an onset is placed against
RATIO_MAX = 3.0  # of blocks, where an onset is placed: a single stall does not draw it to itself
ONCE_MAX = 5.5  # what one block can add: one long pause is no slowdown


@dataclass(frozen=True, slots=True)
class Level:
    """What blocks usually take: seconds a unit, and by how much that differs, as a share of it."""

    unit_s: float
    scatter: float

    def slow_ratio(self, excess: float) -> float:
        """A block beyond it is slow by itself, of trouble that makes blocks longer by `excess` in the mean."""
        return 1 + max(0.1, 2.5 * self.scatter, excess / 2)

    def back_ratio(self, excess: float) -> float:
        """A mean of blocks below it is as usual."""
        return 1 + max(0.05, self.scatter, min(excess, 1.0) / 4)


@dataclass(frozen=True, slots=True)
class Excursion:
    """Blocks from `first` on are slower than `level`."""

    first: int
    level: Level


def level_of(unit_s_B: Floats) -> Level | None:
    """Median and scatter of blocks; None for fewer than `KNOWN_MIN`."""
    if len(unit_s_B) < KNOWN_MIN:
        return None
    median = float(np.median(unit_s_B))
    if not median > 0:
        return None
    ratio = unit_s_B / median
    spread = 1.4826 * float(np.median(np.abs(ratio - 1)))
    high = (float(np.quantile(ratio, 0.9)) - 1) / 1.2816 if len(ratio) >= FEW else 0.0
    least = SCATTER_MIN if len(ratio) >= FEW else SCATTER_FEW
    return Level(median, min(max(spread, high, least), SCATTER_MAX))


def excursion(unit_s_B: Floats) -> Excursion | None:
    """The last time that blocks became slower and stayed so until the sum told it; None: they did not.

    Inputs: seconds a unit of B blocks in order of time, those of known trouble left out.
    Source: Page, Continuous inspection schemes, Biometrika 41 (1954): one-sided cumulative sum, reference value SLACK,
    decision interval TOLD; what one block adds is bounded, against single pauses.
    """
    known: list[float] = list(unit_s_B[:KNOWN_MIN])
    pending: list[float] = []
    total, first, calm = 0.0, -1, 0
    found: tuple[int, Level] | None = None
    level = level_of(np.array(known))
    for place in range(KNOWN_MIN, len(unit_s_B)):
        if level is None:
            return None
        value = float(unit_s_B[place])
        far = (value / level.unit_s - 1) / level.scatter
        calm = calm + 1 if far < SLACK else 0
        total = max(0.0, total + min(far, ONCE_MAX) - SLACK) if calm < CALM else 0.0
        if total == 0.0:
            # One long pause that passed is what this job does, and makes its scatter.
            known, pending, first, found = [*known, *pending, value], [], -1, None
            level = level_of(np.array(known))
            continue
        first = place if first < 0 else first
        pending.append(value)
        if total >= TOLD:
            found, total = (first, level), TOLD
    if found is None:
        return None
    first, level = found
    return Excursion(onset(unit_s_B, first, len(unit_s_B) - 1, level), level)


def onset(unit_s_B: Floats, first: int, last: int, level: Level) -> int:
    """Of the blocks `first` to `last` the one that splits what came before it best from what came after.

    A sum also leaves 0 for a pause some blocks before, and has not come back when the trouble begins.
    """
    low = max(0, first - BEFORE)
    ratio = np.minimum(unit_s_B[low : last + 1] / level.unit_s, RATIO_MAX)
    best, at = -1.0, first
    for place in range(first, last + 1):
        before, after = ratio[: place - low], ratio[place - low :]
        if not len(before):
            continue
        rise = float(after.mean() - before.mean())
        gain = rise * abs(rise) * len(before) * len(after) / len(ratio)
        if gain > best:
            best, at = gain, place
    return at
