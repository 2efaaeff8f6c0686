"""What a job usually takes: the length of its steps, their input and own work, and each kind of collective.

A window says what its steps and collectives took; the ledger takes the median of those windows of the last 24 hours
that were about as fast as the best quarter, so that trouble that lasts does not become the usual.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Ints, ints
from leadline.analysis.ledger.instances import step_rows
from leadline.analysis.ledger.served import served
from leadline.analysis.spec import Part, Read, Verdicts, Window, analysis
from leadline.model.tables.accounts import BASELINE
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.units import S

# Share of all repetitions: windows about as fast as those with the best quarter of them are usual, so that a job in
# trouble for 17 of 24 hours is still held against the other 7. It was a tenth, which told chance as loss (docs/log.md,
# 2026-11-22). Source: recordings (docs/analyses/ledger-evals.md).
BEST_SHARE = 0.25
# Repetitions in a window from which its median is one: it does not rest on a single odd value. Source: definition.
COUNT_MIN = 3
COLLECTIVE_NS_MAX = 3600 * S  # A median beyond it is nonsense: no collective and no step takes an hour. Source: bound.
# windows of `baseline` (a minute each) from which they are all that counts: one may be a start. Source: judgement.
MINUTES_MIN = 3
# Spans of the ledger's windows that are looked at before: three minutes, after which `baseline` has MINUTES_MIN rows.
# Source: definition.
BLOCKS_MAX = 18


def baseline_ns(baseline: pa.Table, what: str) -> int | None:
    """The usual length of what repeats, ns: the median of those windows that were about as fast as the best ones.

    Of the windows with `COUNT_MIN` of it: the median that those with the best `BEST_SHARE` of all repetitions did not
    exceed, and of all windows that exceed it by no more than repetitions in that one differ, the median. The best
    alone would take for usual what was fast by chance, and tell the rest as lost. None: nothing is known.
    """
    found = baseline_and_scatter_ns(baseline, what)
    return None if found is None else found[0]


def baseline_and_scatter_ns(baseline: pa.Table, what: str) -> tuple[int, int] | None:
    """As `baseline_ns`, and by how much repetitions differed in the best windows (median less lower quartile), ns."""
    mine = baseline.filter(pc.equal(baseline["what"].cast(pa.string()), what))
    count_W = np.minimum(ints(mine, "count", 0), 2**40)
    low_W, median_W = (
        np.nan_to_num(mine[name].to_numpy().astype(np.float64), nan=-1.0, posinf=-1.0) for name in ("low_s", "median_s")
    )
    keep_W = (count_W >= COUNT_MIN) & (median_W >= 0) & (median_W < COLLECTIVE_NS_MAX / S)
    if not keep_W.any():
        return None
    order_W = np.argsort(median_W[keep_W], kind="stable")
    count_W, low_W, median_W = (each[keep_W][order_W] for each in (count_W, low_W, median_W))
    until_W = np.cumsum(count_W)
    best = int(np.searchsorted(until_W, BEST_SHARE * until_W[-1]))
    differ_s = median_W[best] - min(max(float(low_W[best]), 0.0), median_W[best])
    alike = int(np.searchsorted(median_W, median_W[best] + differ_s, side="right"))
    middle = int(np.searchsorted(until_W, 0.5 * until_W[alike - 1]))
    return round(float(median_W[middle]) * S), round(differ_s * S)


@dataclass(slots=True)
class _Rows:
    """Rows of `baseline` as they come."""

    what: list[str] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    low_s: list[float] = field(default_factory=list)
    median_s: list[float] = field(default_factory=list)

    def add(self, what: str, length_N: Ints) -> None:
        """What repeats, by the lengths that it took, ns."""
        if len(length_N):
            ordered = np.sort(length_N)
            self.what.append(what)
            self.count.append(len(ordered))
            self.low_s.append(float(ordered[(len(ordered) - 1) // 4]) / S)
            self.median_s.append(float(ordered[(len(ordered) - 1) // 2]) / S)


@analysis(
    name="baseline",
    version=1,
    reads=(
        Read(
            COLLECTIVE,
            columns=(
                "job", "comm", "ranks", "rank", "seq", "op", "bytes", "enqueued_ns", "started_ns", "finished_ns",
                "state",
            ),
        ),
        Read(
            STEP,
            columns=(
                "job", "rank", "step", "start_ns", "end_ns", "data_ns", "forward_ns", "optimizer_ns", "checkpoint_ns",
            ),
        ),
    ),
    writes=(BASELINE,),
    window_s=60,
    grace_s=2,
    part=Part.JOB,
)  # fmt: skip
def baseline(collective: pa.Table, step: pa.Table, *, window: Window) -> Verdicts:
    """How long a job's steps and collectives took in a minute: what is usual, to hold trouble against.

    Steps count without their checkpoints; input, compute (forward pass and optimiser: no wait is in them) and
    checkpoints are those of the median rank, of checkpoints only steps that had one. A collective
    counts from its last arrival, or the end of the one before it in its communicator if that is later, to its last
    end, if all its ranks were seen.
    """
    rows = _told(collective, step)
    size = len(rows.what)
    return {
        "baseline": {
            "job": pa.array([window.job] * size, pa.string()),
            "what": pa.array(rows.what, pa.string()),
            "end_ns": np.full(size, window.to_ns),
            "window_ns": np.full(size, window.window_ns),
            "count": np.array(rows.count, np.uint64),
            "low_s": np.array(rows.low_s, np.float64),
            "median_s": np.array(rows.median_s, np.float64),
        }
    }


def with_first_minutes(baseline: pa.Table, collective: pa.Table, step: pa.Table, window: Window) -> pa.Table:
    """The usual, and for a job with less than `MINUTES_MIN` rows of it also what spans of a window's length took.

    collective, step: with look-back. Spans that end by the begin of the window count. Returns: columns `what`, `count`,
    `median_s`; of a job that is new each of its first windows is held against those before it.
    """
    columns = ["what", "count", "low_s", "median_s"]
    known = baseline.select(columns).cast(_SCHEMA)
    if len(pc.unique(baseline["end_ns"])) >= MINUTES_MIN:
        return known
    asked_N, began_N = ints(collective, "enqueued_ns"), ints(step, "start_ns")
    earliest_ns = min((int(at_N.min()) for at_N in (asked_N, began_N) if len(at_N)), default=window.from_ns)
    parts = [known]
    for back in range(1, BLOCKS_MAX + 1):
        from_ns = window.from_ns - back * window.window_ns
        to_ns = from_ns + window.window_ns
        if to_ns <= earliest_ns:
            break
        rows = _told(
            *(table.filter(pa.array((at_N >= from_ns) & (at_N < to_ns)))
              for table, at_N in ((collective, asked_N), (step, began_N)))
        )  # fmt: skip
        parts.append(pa.table([rows.what, rows.count, rows.low_s, rows.median_s], schema=_SCHEMA))
    return pa.concat_tables(parts)


_SCHEMA = pa.schema(
    [("what", pa.string()), ("count", pa.uint64()), ("low_s", pa.float64()), ("median_s", pa.float64())]
)


def _told(collective: pa.Table, step: pa.Table) -> _Rows:
    rows = _Rows()
    steps = step_rows(step, ())
    rows.add("step", steps.medians(steps.length_N))
    if steps.own_N.any() or steps.data_N.any():
        rows.add("input", steps.medians(steps.data_N))
        rows.add("compute", steps.medians(steps.own_N))
    if steps.checkpoint_N.any():
        checkpoint_I = steps.medians(steps.checkpoint_N)
        rows.add("checkpoint", checkpoint_I[checkpoint_I > 0])
    for what, length_N in served(collective):
        rows.add(what, length_N)
    return rows
