"""The ledger: every second of a job that it was there, in one window, with a category and an owner.

step, collective, operation, event, relation, edge, flow_path, usual
    │
    ├─ presence.py      when it was there, with how many GPUs, when it failed
    ├─ events.py        outages, steps done again          ─┐
    ├─ operations.py    the critical path of a trace        │
    ├─ collectives.py   who arrived last, and then          ├─> layers.py: the first that covers an instant
    ├─ steps.py         phases of the ranks                 │   rules; the rest is unknown, by the name of
    └─ events.py        checkpoints, evaluation, stops     ─┘   what is missing; sums are exact
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, ints, read_only
from leadline.analysis.ledger.baseline import with_first_minutes
from leadline.analysis.ledger.collectives.arrival_kernels import in_parts
from leadline.analysis.ledger.collectives.arrivals import ended
from leadline.analysis.ledger.collectives.blame import placed
from leadline.analysis.ledger.collectives.collectives import from_collectives
from leadline.analysis.ledger.events import done_again, from_events, outages
from leadline.analysis.ledger.instances import STEP_NS_MAX, StepRows, step_rows
from leadline.analysis.ledger.layers import Account, accounts, covered, merged
from leadline.analysis.ledger.operations.bound import newest_steps
from leadline.analysis.ledger.operations.operations import from_operations
from leadline.analysis.ledger.presence import Presence, claimed_size, distinct, distinct_of, ends_of, presence
from leadline.analysis.ledger.presence_kernels import by_second
from leadline.analysis.ledger.steps import from_steps
from leadline.analysis.spec import Part, Read, Verdicts, Window, analysis
from leadline.model.accounts import TICK_S
from leadline.model.tables.accounts import BASELINE, LEDGER
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.paths import FLOW_PATH
from leadline.model.tables.training import COLLECTIVE, EDGE, OPERATION, STEP
from leadline.model.tables.verdicts import EVENT
from leadline.model.units import S

# How far back steps and calls are read, so that a step of minutes is whole, and 18 spans of 10 s of a new job are
# there. Source: bound.
LOOK_BACK_NS = 300 * S
# How far back `baseline` is read: a day, so that a job's own daily rhythm is in it, and trouble of three quarters of a
# day is not taken for usual. Source: judgement.
BASELINE_NS = 24 * 3600 * S
NAMED_MAX = 4  # ranks that a missing input names, so that the text stays readable. Source: bound.


@analysis(
    name="ledger",
    version=1,
    reads=(
        Read(
            STEP,
            columns=(
                "job", "rank", "step", "start_ns", "end_ns", "data_ns", "forward_ns", "backward_ns", "optimizer_ns",
                "checkpoint_ns",
            ),
            look_back_ns=LOOK_BACK_NS,
        ),
        Read(
            COLLECTIVE,
            columns=(
                "job", "comm", "ranks", "rank", "seq", "op", "bytes", "enqueued_ns", "started_ns", "finished_ns",
                "state", "source",
            ),
            look_back_ns=LOOK_BACK_NS,
        ),
        Read(
            OPERATION,
            columns=(
                "job", "rank", "stage", "dp_rank", "step", "kind", "start_ns", "duration_ns", "micro_batch", "chunk",
            ),
            look_back_ns=LOOK_BACK_NS,
        ),
        Read(
            EVENT,
            columns=("time_ns", "entity_kind", "entity", "kind", "severity", "code", "message", "attributes"),
            look_back_ns=LOOK_BACK_NS,
        ),
        Read(RELATION, columns=("child", "parent", "kind", "from_ns", "to_ns"), valid=True, look_back_ns=LOOK_BACK_NS),
        Read(EDGE),
        Read(FLOW_PATH, columns=("job", "src_rank", "dst_rank", "dst", "bytes", "busiest", "busiest_bytes")),
        Read(BASELINE, columns=("job", "what", "end_ns", "count", "low_s", "median_s"), look_back_ns=BASELINE_NS),
    ),
    writes=(LEDGER,),
    window_s=10,
    grace_s=2,
    part=Part.JOB,
)  # fmt: skip
def ledger(
    step: pa.Table,
    collective: pa.Table,
    operation: pa.Table,
    event: pa.Table,
    relation: pa.Table,
    edge: pa.Table,
    flow_path: pa.Table,
    baseline: pa.Table,
    *,
    window: Window,
) -> Verdicts:
    """Where every second of a job went, and to whom; what nobody can tell is unknown, by the missing input.

    At each instant the whole job has one owner: what its critical path was held by. Seconds are multiples of 2**-20;
    the rows of a window add up to the job's presence in it exactly.
    """
    ends = ends_of(event, window.job)
    steps = step_rows(step, ends)
    talked = talked_spans(steps, collective, operation, window)
    seen = {rank for table in (step, collective, operation) for rank in distinct(table, "rank")}
    there = presence(
        relation, ends, talked, seen, claimed_size(collective),
        job=window.job, from_ns=window.from_ns, to_ns=window.to_ns,
    )  # fmt: skip
    baseline = with_first_minutes(baseline, collective, step, window)
    told, lacking = from_collectives(collective, step, edge, baseline, window=window)
    span = {"from_ns": window.from_ns, "to_ns": window.to_ns}
    traced, beyond = newest_steps(operation, window)
    better = [from_operations(traced, window), placed(told, collective, event, relation, flow_path, window)]
    layers = [
        outages(there, work_begins(steps, collective), **span),
        done_again(steps, **span),
        *better,
        from_steps(steps, baseline, [each for one in better for each in covered(one)], job=window.job, **span),
        from_events(event, there, job=window.job, **span),
    ]
    missing = missing_input(steps, there, talked, {**lacking, **beyond}, window)
    return {"ledger": _columns(accounts(there.spans, layers, missing), there.gpus, window)}


def talked_spans(steps: StepRows, collective: pa.Table, operation: pa.Table, window: Window) -> list[tuple[int, int]]:
    """Disjoint spans in which rows of the job tell of something that went on, until the window's end.

    What began in the same second is one span: millions of rows need not be sorted, and a job does not go and come
    back within a second.
    """
    origin_ns = window.from_ns - LOOK_BACK_NS
    seconds = (window.to_ns - origin_ns) // S + 1
    launched_N = ints(operation, "start_ns")
    took_N = np.clip(ints(operation, "duration_ns"), 0, STEP_NS_MAX)
    every_row = np.zeros(0, np.uint8)
    parts = [
        part
        for begin_N, end_N, has_end, first_bit in (
            (steps.begin_I, steps.end_I, every_row, 0),
            (ints(collective, "enqueued_ns"), *ended(collective)),
            (launched_N, launched_N + took_N, every_row, 0),
        )
        for part in in_parts(
            by_second, len(begin_N), *map(read_only, (begin_N, end_N, has_end)), first_bit, origin_ns, STEP_NS_MAX,
            seconds,
        )
    ]  # fmt: skip
    first_B, last_B = (of(each, axis=0) for of, each in zip((np.min, np.max), zip(*parts, strict=True), strict=True))
    told_B = first_B < 2**62  # B = seconds of look-back and window
    spans = zip(first_B[told_B].tolist(), last_B[told_B].tolist(), strict=True)
    return merged(list(spans), origin_ns, window.to_ns)


def work_begins(steps: StepRows, collective: pa.Table) -> Ints:
    """Begins of the job's steps, or of its collectives where it tells no steps, ns."""
    return steps.begin_I if len(steps.begin_I) else ints(collective, "enqueued_ns")


def missing_input(
    steps: StepRows, there: Presence, talked: Sequence[tuple[int, int]], lacking: Mapping[str, int], window: Window
) -> str:
    """Which input is missing where no depth tells anything, in words. lacking: by name, ns, what collectives lacked."""
    if not any(end > window.from_ns for _, end in talked):
        return "no telemetry"
    if lacking:
        return max(sorted(lacking), key=lambda name: lacking[name])
    silent = sorted(there.ranks - set(distinct_of(steps.rank_N)))
    if len(steps.begin_I) and silent:
        named = ", ".join(f"rank:{window.job}/{rank}" for rank in silent[:NAMED_MAX])
        return f"no steps heard from {named}" + (f" and {len(silent) - NAMED_MAX} more" if silent[NAMED_MAX:] else "")
    return "no steps heard" if not len(steps.begin_I) else "no step that covers it: trace cut, or not over yet"


def _columns(rows: Sequence[Account], gpus: int, window: Window) -> Mapping[str, object]:
    size = len(rows)
    seconds_N = np.array([row.ticks for row in rows], np.float64) * TICK_S
    lost_N = np.array([row.lost_ticks for row in rows], np.float64) * TICK_S
    return {
        "job": pa.array([window.job] * size, pa.string()),
        "end_ns": np.full(size, window.to_ns),
        "window_ns": np.full(size, window.window_ns),
        "category": pa.array([str(row.category) for row in rows], pa.string()),
        "owner": pa.array([row.owner for row in rows], pa.string()),
        "seconds": seconds_N,
        "gpu_seconds": seconds_N * gpus,
        "lost_seconds": lost_N,
        "lost_gpu_seconds": lost_N * gpus,
        "confidence": np.array([row.confidence for row in rows], np.float64),
        "depth": pa.array([str(row.depth) for row in rows], pa.string()),
    }
