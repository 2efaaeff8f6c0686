"""How long collectives, input, compute and checkpoints of a job take without trouble, from table `baseline`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Floats, ints
from leadline.analysis.ledger.baseline import baseline_and_scatter_ns, baseline_ns
from leadline.analysis.ledger.instances import step_rows
from leadline.analysis.spec import Window
from leadline.model.units import S

# kinds of collectives that are looked up for one window; a job has tens, so more are nonsense. Source: bound.
KINDS_MAX = 256
# Share beyond usual that is no loss, of steps and of collectives: healthy steps of the lab vary by 5 to 8 %. Source:
# recordings (docs/analyses/ledger-evals.md).
NOISE_RATIO = 0.1
# Times its usual length that a checkpoint may take, because storage has other users too. Source: judgement.
CHECKPOINT_RATIO = 1.5
# Times what steps differ by (median less lower quartile, 0.67 standard deviations of normal ones): two standard
# deviations of one step. It took false loss from 94 to 88 GPU-seconds in a GPU-hour. Source: recordings
# (docs/analyses/ledger-evals.md).
SCATTER_RATIO = 3.0


@dataclass(frozen=True, slots=True)
class Expected:
    """What is usual; NaN and 0 where nobody knows."""

    baseline: pa.Table
    step_ns: float  # length of a step; NaN: unknown
    input_ns: float  # of a step; NaN: unknown
    compute_lost_share: float  # of the time that ranks compute now, what they usually do not
    checkpoint_lost_share: float = 0.0  # of the time that all ranks write checkpoints now

    def collectives_ns(self, what: Sequence[str]) -> Floats:
        """Usual length of each kind of collective, ns; NaN where it is not known."""
        asked = sorted(set(what))[:KINDS_MAX]
        if not self.baseline.num_rows or not asked:
            return np.full(len(what), np.nan)
        mine = self.baseline.filter(pc.is_in(self.baseline["what"].cast(pa.string()), pa.array(asked)))
        known = {each: baseline_ns(mine, each) for each in asked} if mine.num_rows else {}
        found = (known.get(each) for each in what)
        return np.array([np.nan if each is None else float(each) for each in found])


def expected(baseline: pa.Table, step: pa.Table, window: Window) -> Expected:
    """What `baseline` says, and how own work (forward pass and optimiser: nobody waits in them) of the window compares.

    step: with look-back, which is not asked: what was slow before the window is no loss of it.
    """
    if not baseline.num_rows:
        return Expected(baseline, np.nan, np.nan, 0.0)
    known = {what: baseline_ns(baseline, what) for what in ("step", "input")}
    step_ns, input_ns = (np.nan if known[what] is None else float(known[what] or 0) for what in ("step", "input"))
    step = step.filter(pc.and_(pc.greater(step["end_ns"], window.from_ns), pc.less(step["start_ns"], window.to_ns)))
    compute = _lost_share(step, baseline_and_scatter_ns(baseline, "compute"))
    return Expected(baseline, step_ns, input_ns, compute, _checkpoints_lost_share(step, baseline))


def _checkpoints_lost_share(step: pa.Table, baseline: pa.Table) -> float:
    """Of what checkpoints of all ranks took, the share that is beyond those that were due, each of its usual length.

    Due is one, because they come in their turn, and as many more as the job usually writes in so many steps. What a
    single rank writes while the others wait is its own, and not held against the past. 0: nobody knows what is usual.
    """
    steps_known, _ = _counted(baseline, "step")
    if not steps_known or not ints(step, "checkpoint_ns", 0).any():
        return 0.0
    steps = step_rows(step, ())
    took_I = steps.medians(steps.checkpoint_N)
    took_C = took_I[took_I > 0]  # C = checkpoints
    count, baseline_s = _counted(baseline, "checkpoint")
    due = min(1 + count / steps_known * len(took_I), len(took_C))
    each_ns = baseline_s * S if count else float(np.median(took_C)) if len(took_C) else 0.0
    total_ns = float(took_C.sum())
    return max(0.0, 1 - due * CHECKPOINT_RATIO * each_ns / total_ns) if total_ns else 0.0


def _counted(baseline: pa.Table, what: str) -> tuple[int, float]:
    """How often something was told, and the median of what it took, s."""
    mine = baseline.filter(pc.equal(baseline["what"].cast(pa.string()), what))
    count_W = np.clip(ints(mine, "count", 0), 0, 2**40)
    median_W = np.nan_to_num(mine["median_s"].to_numpy().astype(np.float64), nan=0.0, posinf=0.0)
    if not count_W.sum():
        return 0, 0.0
    order_W = np.argsort(median_W, kind="stable")
    until_W = np.cumsum(count_W[order_W])
    return int(until_W[-1]), float(median_W[order_W][int(np.searchsorted(until_W, 0.5 * until_W[-1]))])


def _lost_share(step: pa.Table, baseline_compute: tuple[int, int] | None) -> float:
    if baseline_compute is None:
        return 0.0
    forward_S, optimizer_S = ints(step, "forward_ns"), ints(step, "optimizer_ns", null=0)
    told_S = forward_S >= 0
    if not told_S.any():
        return 0.0
    now_ns = float(np.median((forward_S + optimizer_S)[told_S]))
    known_ns, differ_ns = baseline_compute
    dead_ns = max(NOISE_RATIO * max(known_ns, 1), SCATTER_RATIO * differ_ns)
    return 1 - known_ns / now_ns if now_ns > known_ns + dead_ns else 0.0
