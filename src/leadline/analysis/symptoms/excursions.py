"""When a job became slower: a cumulative sum of how far its blocks lie beyond what they took before.

ratio   1.0 1.0 1.1 1.0 1.4 1.4 1.3      blocks that are no trouble are what the next ones are held against;
sum     0   0   0.4 0   4.5 9 -> told    the first block since the sum left 0 is the onset
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Floats
from leadline.analysis.symptoms.excursion_kernels import KNOWN_MIN, baseline_level, peaks, risen

# blocks before it that an onset is placed against: as many as have a known scatter (FEW). Source: definition.
BEFORE = 8
# Seconds of blocks from which on they tell how much a job loses by chance: below it, a threshold by chance would rest
# on a few bursts. Source: recordings (docs/analyses/slowdowns.md).
KNOWN_S = 30.0
# The same in blocks: the variance of fewer than 20 is off by a third and more (standard error sqrt(2 / 19)). Source:
# definition.
BLOCKS_MIN = 20
# Seconds in which chance alone should lose so much once: a false slow-down of a job in a month is what people bear.
# Source: judgement.
CALM_S = 30 * 86_400.0
# Times as much as the most that was lost and came back, because noise comes in bursts, too, which the formula does not
# know. Source: recordings (docs/analyses/slowdowns.md).
TIMES_SEEN = 2.0
# So many blocks in a row, none of them further from their median than this ratio, are even: a job that is slow and
# steady. Made for one live run of two faults in one slow-down. Source: recordings (docs/log.md, 2026-11-23).
EVEN_BLOCKS, EVEN_RATIO = 6, 1.4
# Times as long as those even blocks, for so many blocks at least, is a second slow-down: one block is a pause. Source:
# recordings (the same run; docs/log.md, 2026-11-23).
JUMP_RATIO, JUMP_BLOCKS = 1.5, 2
# Ratio to the usual at which blocks are cut down where an onset is placed, so that a single stall does not draw it to
# itself. Source: judgement.
RATIO_MAX = 3.0
# How far beyond the usual a block is slow by itself: a share of the usual, as the ledger's NOISE_RATIO, so many
# scatters, and a share of the trouble's own excess, whichever is most, so that a bad block of a good spell does not
# hold a symptom open. Source: recordings (docs/analyses/slowdowns.md).
SLOW_MIN, SLOW_SCATTERS, SLOW_SHARE = 0.1, 2.5, 0.5
# How far beyond the usual the mean of blocks may lie that are as usual again: a share of it, and a share of the
# trouble's own excess, because a job seldom comes back to where it was exactly. Source: recordings
# (docs/analyses/slowdowns.md).
BACK_MIN, BACK_SHARE = 0.05, 0.25


@dataclass(frozen=True, slots=True)
class Level:
    """What blocks usually take: seconds a unit, and by how much that differs, as a share of it."""

    unit_s: float
    scatter: float

    def slow_ratio(self, excess: float) -> float:
        """A block beyond it is slow by itself, of trouble that makes blocks longer by `excess` in the mean."""
        return 1 + max(SLOW_MIN, SLOW_SCATTERS * self.scatter, SLOW_SHARE * excess)

    def back_ratio(self, excess: float) -> float:
        """A mean of blocks below it is as usual."""
        return 1 + max(BACK_MIN, self.scatter, BACK_SHARE * min(excess, 1.0))


@dataclass(frozen=True, slots=True)
class Excursion:
    """Blocks from `first` on are slower than `level`."""

    first: int
    level: Level


def level_of(unit_s_B: Floats) -> Level | None:
    """Median and scatter of blocks; None for fewer than `KNOWN_MIN`."""
    if len(unit_s_B) < KNOWN_MIN:
        return None
    median, scatter = baseline_level(np.sort(unit_s_B))
    return Level(median, scatter) if median > 0 else None


def excursion(unit_s_B: Floats) -> Excursion | None:
    """The last time that blocks became slower and stayed so until the sum told it; None: they did not.

    Inputs: seconds a unit of B blocks in order of time, those of known trouble left out.
    Source: Page, Continuous inspection schemes, Biometrika 41 (1954): one-sided cumulative sum, reference value SLACK,
    decision interval TOLD; what one block adds is bounded, against single pauses.
    """
    first, *baseline = risen(np.ascontiguousarray(unit_s_B, np.float64))
    if first < 0:
        return None
    level = Level(*baseline)
    return Excursion(onset(unit_s_B, first, len(unit_s_B) - 1, level), level)


@dataclass(frozen=True, slots=True)
class Jump:
    """Blocks from `first` on are slower than `level`, which they kept from `even` on."""

    even: int
    first: int
    level: Level


def jump(unit_s_B: Floats) -> Jump | None:
    """Where blocks became much slower for good, after blocks in a row that took about the same; None: nowhere.

    For what is in trouble already: a cumulative sum takes all trouble before for the scatter of what is usual.
    """
    found = None
    for first in range(len(unit_s_B) - JUMP_BLOCKS, EVEN_BLOCKS - 1, -1):
        baseline_s = float(np.median(unit_s_B[first - EVEN_BLOCKS : first]))
        if unit_s_B[first] < JUMP_RATIO * baseline_s:
            break
        found = first if unit_s_B[first:].min() >= JUMP_RATIO * baseline_s else found
    if found is None:
        return None
    even = even_from(unit_s_B[:found])
    level = level_of(unit_s_B[even:found]) if found - even >= EVEN_BLOCKS else None
    return Jump(even, found, level) if level is not None else None


def even_from(unit_s_B: Floats) -> int:
    """The first of the last blocks in a row that took about the same."""
    baseline_s = float(np.median(unit_s_B[-EVEN_BLOCKS:])) if len(unit_s_B) else 0.0
    uneven = np.flatnonzero((unit_s_B > EVEN_RATIO * baseline_s) | (unit_s_B * EVEN_RATIO < baseline_s))
    return int(uneven[-1]) + 1 if len(uneven) else 0


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


def chance_s(length_s_B: Floats, baseline_s_B: Floats, share: float) -> float | None:
    """What this job loses by chance, s, once in `CALM_S` at most; None where its past is too short to tell.

    Inputs: what B blocks of its past took and what is usual for them; the share of its time from which it is slow.
    A sum of independent blocks with a negative mean rises from 0 to beyond x with a chance of exp(-x / scale), scale =
    variance / (2 |mean|) (exact for normal ones). Noise that comes in bursts rises higher: twice the highest seen.
    Source: Siegmund, Sequential Analysis (1985), chapter 3 and section 10.2.
    """
    whole_s = float(length_s_B.sum())
    gain_B = np.ascontiguousarray(length_s_B * (1 - share) - baseline_s_B)
    if whole_s < KNOWN_S or len(gain_B) < BLOCKS_MIN or not gain_B.mean() < 0:
        return None
    scale_s = float(gain_B.var()) / (2 * -float(gain_B.mean()))
    blocks = len(gain_B) * CALM_S / whole_s
    highest_s = float(peaks(gain_B).max(initial=0.0))
    return max(scale_s * float(np.log(blocks)), TIMES_SEEN * highest_s)
