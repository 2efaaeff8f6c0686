"""`GET /api/v1/jobs/{job}/steps`: how long steps took, their phases, loss and throughput over a span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from leadline.analysis.ledger.baseline import baseline_ns
from leadline.model.tables.accounts import BASELINE
from leadline.model.tables.training import STEP
from leadline.model.units import S
from leadline.views.jobs.rows import STEP_S, JobRows, plain
from leadline.views.rows import SCHEMA_VERSION, rows_where

PHASES = ("data", "forward", "backward", "optimizer", "checkpoint")
BASELINE_NS = 24 * 3600 * S  # of the past, by which the ledger tells what is usual
HOW = "does it run with the hook (docs/how-to/watch-a-pytorch-job.md), and is the name right?"


def steps_answer(rows: JobRows, points: int) -> dict[str, Any]:
    """What the end point says: of each bin with steps their median rank, the fastest and the slowest one."""
    bin_ns = max(1, -(-(rows.to_ns - rows.from_ns) // points))
    found = _binned(rows, bin_ns)
    ranks = max((int(row["ranks"]) for row in found), default=0)
    baseline = baseline_step_s(rows)
    return {
        "schema": SCHEMA_VERSION, "job": rows.job, "tenant": rows.tenant, "from_ns": rows.from_ns,
        "to_ns": rows.to_ns, "bin_ns": bin_ns, "ranks": ranks, "baseline_s": baseline,
        "t_ns": [int(row["last_ns"]) for row in found], "step": [int(row["newest"]) for row in found],
        "step_s": {name: _column(found, name) for name in ("p50", "low", "high")},
        "loss": _column(found, "loss"),
        "tokens_per_s": [_rate(row, "tokens", ranks) for row in found],
        "samples_per_s": [_rate(row, "samples", ranks) for row in found],
        "phases": {name: _column(found, name) for name in PHASES},
        "why": "" if found else rows.why_none("step", HOW), "note": rows.note,
    }  # fmt: skip


def _binned(rows: JobRows, bin_ns: int) -> list[dict[str, Any]]:
    phases = ", ".join(f"avg({name}_ns) / 1e9 AS {name}" for name in PHASES)
    return rows.query(
        f"SELECT intDiv(end_ns - {rows.from_ns}, {bin_ns}) AS bin, max(end_ns) AS last_ns, "
        f"argMax(step, end_ns) AS newest, uniqExact(rank) AS ranks, "
        f"quantileExact(0.5)({STEP_S}) AS p50, min({STEP_S}) AS low, max({STEP_S}) AS high, "
        f"avg({STEP_S}) AS took, avgIf(loss, isFinite(loss)) AS loss, avg(tokens) AS tokens, avg(samples) AS samples, "
        f"{phases} FROM leadline.{STEP.name} WHERE {rows.mine('end_ns')} GROUP BY bin ORDER BY bin SETTINGS final = 0"
    )


def _column(found: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    return [plain(row[name]) for row in found]


def _rate(row: Mapping[str, Any], what: str, ranks: int) -> float | None:
    """Of all ranks together, per second of a step."""
    count, took = plain(row[what]), plain(row["took"])
    return plain(count * ranks / took) if count and took and took > 0 else None


def baseline_step_s(rows: JobRows) -> float | None:
    """What a step of the job usually takes, s, as the ledger holds it against: of the last 24 hours."""
    span = rows.to_ns - BASELINE_NS, rows.to_ns
    where = f"{rows.mine()} AND what = 'step' AND end_ns > {span[0]} AND end_ns <= {span[1]}"
    return baseline_s(rows.columns(f"SELECT what, count, low_s, median_s FROM ({rows_where(BASELINE, where)})"))


def baseline_s(baseline: pa.Table) -> float | None:
    """What a step usually takes by rows of `baseline` of one job."""
    found = baseline_ns(baseline, "step") if baseline.num_rows else None
    return None if found is None else found / S
