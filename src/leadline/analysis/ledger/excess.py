"""What a window can have lost against the usual at most: what its steps took longer than usual steps do.

    step of the window  |-------- own --------|==== collective ====|
    usual               |------ own -------|== collective ==|   <-> all that can be lost, of whatever kind

Parts of a step are each held against their own usual, and a job that takes long for one of them takes less for another:
what waits for a slow link computes with the caches and the power of those that wait. Steps say what came of it. What a
single rank is late by is not held against the past, so it stands, and counts first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Floats
from leadline.analysis.ledger.instances import step_rows
from leadline.analysis.ledger.layers import merged
from leadline.analysis.ledger.pieces import RANK, Pieces
from leadline.analysis.ledger.segments import PLACE_OF
from leadline.analysis.spec import Window
from leadline.model.accounts import Category

# The one that is measured best counts first: compute is judged by forward passes alone.
# Checkpoints are no part of steps here: they have a measure of their own (`expected`).
HELD_AGAINST_BASELINE = (Category.COMMUNICATION, Category.INPUT, Category.COMPUTE)


def excess_ns(step: pa.Table, baseline_step_ns: float, window: Window) -> float:
    """What the window's steps took longer than usual, ns; time that no step covers may all be lost. inf: unknown.

    step: rows of the job. What was shorter counts against what was longer; of a step that reaches beyond the window,
    its share in it.
    """
    if not baseline_step_ns > 0:
        return np.inf
    near = step.filter(pc.and_(pc.greater(step["end_ns"], window.from_ns), pc.less(step["start_ns"], window.to_ns)))
    steps = step_rows(near, ())
    if not len(steps.begin_I):
        return np.inf
    begin_I, end_I = np.maximum(steps.begin_I, window.from_ns), np.minimum(steps.end_I, window.to_ns)
    length_I = np.maximum(steps.medians(steps.length_N), 1)
    inside_I = np.minimum((end_I - begin_I) / (steps.end_I - steps.begin_I), 1.0)
    spans = zip(begin_I.tolist(), end_I.tolist(), strict=True)
    covered_ns = sum(end - begin for begin, end in merged(list(spans), window.from_ns, window.to_ns))
    return max(float((inside_I * (length_I - baseline_step_ns)).sum()), 0.0) + window.window_ns - covered_ns


def within(pieces: Pieces, most_ns: float, window: Window) -> Pieces:
    """The same with no more lost in the window, of what is held against the usual, than `most_ns` less lateness."""
    length_K = np.maximum(pieces.end_K - pieces.begin_K, 1)
    inside_K = np.minimum(pieces.end_K, window.to_ns) - np.maximum(pieces.begin_K, window.from_ns)
    lost_K = pieces.lost_K * np.maximum(inside_K, 0) / length_K
    ranks_K: Bools = pieces.whose_K == RANK
    left_ns, share_K = max(most_ns - float(lost_K[ranks_K].sum()), 0.0), np.ones(len(pieces))
    for category in HELD_AGAINST_BASELINE:
        mine_K = ~ranks_K & (pieces.category_K == PLACE_OF[category])
        reported_ns = float(lost_K[mine_K].sum())
        share_K[mine_K] = min(left_ns / reported_ns, 1.0) if reported_ns > 0 else 1.0
        left_ns -= min(left_ns, reported_ns)
    lost: Floats = pieces.lost_K * share_K
    return replace(pieces, lost_K=lost)
