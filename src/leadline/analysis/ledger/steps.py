"""The ledger told from steps alone: what the ranks say of their phases, held against each other and the usual.

    step of the job  |-input-|-input of the late-|- compute -|- late rank -|- unknown -|-checkpoint-|
                      median   one rank's more     the rest    one rank's    beyond      the longest
                                                               own work      the usual

An all-reduce makes all steps equally long, so a step's length blames nobody. What a rank says of its own input and
forward pass does: those are done before anybody is waited for. The backward pass hides the wait; a rank whose own
work is k times the median is taken to be as slow in it. What is longer than usual and has no such rank is `unknown`:
network or ranks, steps alone do not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints
from leadline.analysis.ledger.baseline import baseline_ns
from leadline.analysis.ledger.expected import NOISE_RATIO
from leadline.analysis.ledger.instances import StepRows, lower_median
from leadline.analysis.ledger.layers import Spans
from leadline.analysis.ledger.segments import PLACE_OF, Segments
from leadline.model.accounts import Category, Depth
from leadline.model.units import S

# Share of the median by which own work of the last rank must exceed it, because healthy ranks differ, too. Source:
# judgement.
LATE_RATIO_MIN = 0.2
# Share of the step below which nobody's lateness is told, because ranks of one step differ by as much. Source:
# judgement.
LATE_SHARE_MIN = 0.03
# Steps, in most of which a rank is late before it is told so within a step of usual length: a single late step is
# chance. It was 5 until healthy jobs were told. Source: recordings (6a2cb7ac; docs/analyses/ledger-evals.md).
LASTING = 10
# A longer pause between two steps is no part of the loop: an evaluation, a checkpoint or an outage. Source: judgement.
BETWEEN_NS_MAX = 10 * S
# Probability told with time between steps: only that no step covers it speaks for compute. Source: judgement.
SURE_BETWEEN = 0.3
NO_COLLECTIVES = "collectives: steps alone do not say who made them long"

# Probabilities that are told with rows that only steps vouch for, so that a reader can weigh them: lower than with
# collectives, 0 of what is unknown. Source: judgement.
_SURE = {
    Category.COMPUTE: 0.5, Category.INPUT: 0.7, Category.STRAGGLER: 0.6, Category.CHECKPOINT: 0.8,
    Category.UNKNOWN: 0.0,
}  # fmt: skip


@dataclass(slots=True)
class Written:
    """Spans written one after the other, as they come; `segments` makes columns of them."""

    depth: Depth
    rows: list[tuple[int, int, Category, str, float, float]] = field(default_factory=list)

    def add(
        self, begin: int, end: int, category: Category, owner: str = "", lost_ns: float = 0.0, sure: float | None = None
    ) -> int:
        """One span, ns; an empty one is left out. Returns: its end."""
        if end > begin:
            sure = _SURE.get(category, 0.5) if sure is None else sure
            self.rows.append((begin, end, category, owner, min(max(lost_ns, 0.0), end - begin), sure))
        return max(begin, end)

    def segments(self) -> Segments:
        """In order of time."""
        if not self.rows:
            return Segments.none(self.depth)
        rows = sorted(self.rows)
        owners = sorted({row[3] for row in rows if row[3]})
        place = {owner: number for number, owner in enumerate(owners)}
        return Segments(
            self.depth,
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.int64),
            np.array([PLACE_OF[row[2]] for row in rows], np.int64),
            np.array([place.get(row[3], -1) for row in rows], np.int64),
            np.array([row[4] for row in rows], np.float64),
            np.array([row[5] for row in rows], np.float64),
            owners,
        )


def from_steps(
    steps: StepRows, baseline: pa.Table, covered: Spans = (), *, job: str, from_ns: int, to_ns: int
) -> Segments:
    """What steps tell of [from, to), begin and end of a step cut where those beside it overlap it.

    covered: spans that better depths tell whole: steps that lie in one are left out, nobody would hear of them.
    """
    written = Written(Depth.STEPS)
    baseline_step_ns, baseline_input_ns = baseline_ns(baseline, "step"), baseline_ns(baseline, "input")
    if baseline_step_ns is None and len(steps.begin_I) >= LASTING:  # its first minute
        baseline_step_ns = int(np.median(steps.medians(steps.length_N)))
    until = np.maximum.accumulate(steps.end_I) if len(steps.end_I) else steps.end_I
    begin = np.append(steps.begin_I[:1], np.maximum(steps.begin_I[1:], until[:-1]))
    for place in np.flatnonzero((until > from_ns) & (begin < to_ns) & (steps.end_I > begin)).tolist():
        span = int(begin[place]), int(steps.end_I[place])
        before = int(until[place - 1]) if place else span[0]
        if 0 < span[0] - before <= BETWEEN_NS_MAX:
            written.add(before, span[0], Category.COMPUTE, "between steps", sure=SURE_BETWEEN)
        if steps.again_I[place] or any(first <= span[0] and span[1] <= last for first, last in covered):
            continue
        _one_step(written, steps, place, span, baseline_step_ns, baseline_input_ns, job)
    return written.segments()


def _one_step(
    written: Written,
    steps: StepRows,
    place: int,
    span: tuple[int, int],
    baseline_step_ns: int | None,
    baseline_input_ns: int | None,
    job: str,
) -> None:
    mine = steps.rows_of(place)
    begin, end = span
    data_N, own_N, rank_N = steps.data_N[mine], steps.own_N[mine], steps.rank_N[mine]
    checkpoint = min(int(steps.checkpoint_N[mine].max()), end - begin)
    work_end = end - checkpoint
    excess = max(0, work_end - begin - baseline_step_ns) if baseline_step_ns is not None else None
    input_ns, late_input_ns, late_ns = int(np.median(data_N)), 0, 0
    slowest = int(np.argmax(data_N + own_N))
    owner = f"rank:{job}/{int(rank_N[slowest])}"
    more_input = int(data_N[slowest]) - input_ns
    if more_input > LATE_SHARE_MIN * (end - begin):
        late_input_ns = more_input
    late_ns = _late(own_N, slowest, baseline_step_ns, end - begin)
    if late_ns:
        more = int(own_N[slowest] - np.median(own_N)) if lasts(steps, place, int(rank_N[slowest])) else 0
        is_long = excess is not None and baseline_step_ns is not None and excess > NOISE_RATIO * baseline_step_ns
        late_ns = min(late_ns, max(excess - late_input_ns if excess is not None and is_long else 0, more))
    lost_input = max(0, input_ns - baseline_input_ns) if baseline_input_ns is not None else 0
    unknown_ns = _beyond(excess, baseline_step_ns, late_input_ns + late_ns + lost_input)
    at = written.add(begin, min(begin + input_ns, work_end), Category.INPUT, lost_ns=lost_input)
    late_input_end = min(at + late_input_ns, work_end)
    at = written.add(at, late_input_end, Category.INPUT, owner, late_input_ns)
    late_begin = max(at, work_end - late_ns - unknown_ns)
    at = written.add(at, late_begin, Category.COMPUTE)
    at = written.add(at, min(at + late_ns, work_end), Category.STRAGGLER, owner, late_ns)
    at = written.add(at, work_end, Category.UNKNOWN, NO_COLLECTIVES, unknown_ns)
    written.add(at, end, Category.CHECKPOINT)


def lasts(steps: StepRows, place: int, rank: int) -> bool:
    """Whether a rank was slower than the median rank in most of its last steps, too: once is chance, or a pause."""
    told = late = 0
    for each in range(max(place - LASTING + 1, 0), place + 1):
        rows = steps.rows_of(each)
        own_M, mine_M = steps.own_N[rows], steps.rank_N[rows] == rank
        if mine_M.any():
            told += 1
            late += bool(own_M[mine_M].max() > (1 + LATE_RATIO_MIN) * lower_median(own_M))
    return told >= LASTING and 2 * late > told


def _late(own_N: Ints, slowest: int, baseline_step_ns: int | None, length_ns: int) -> int:
    """How much longer the step took because the slowest rank's own work did: its forward pass seen, backward alike."""
    median = float(np.median(own_N))
    more = float(own_N[slowest]) - median
    if len(own_N) < 2 or median <= 0 or more < LATE_RATIO_MIN * median:
        return 0
    ratio = more / median
    whole = baseline_step_ns if baseline_step_ns is not None else length_ns / (1 + ratio)
    late = max(more, ratio * whole)
    return int(late) if more > LATE_SHARE_MIN * length_ns else 0


def _beyond(excess: int | None, baseline_step_ns: int | None, explained_ns: int) -> int:
    if excess is None or baseline_step_ns is None or excess <= NOISE_RATIO * baseline_step_ns:
        return 0
    return max(0, excess - explained_ns)
