"""The tables that papers print of failures, over the store's history: classes, times to resolve, first failure, MTTF.

Rows of `failure` were concluded by the analysis `failures`; hours of jobs come from the ledger. What counts for MTTF
is a failure that stopped a job and that nobody asked for. Definitions: docs/analyses/goodput.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from leadline.model.accounts import FailureClass
from leadline.model.tables.accounts import FAILURE, LEDGER
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.ledger.reliability import GAPS_MIN, first_failure_h, mttf, weibull_shape
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

HOUR_NS = 3600 * S
DAY_NS = 24 * HOUR_NS
HISTORY_NS = 400 * DAY_NS  # what the store keeps
ROWS_MAX = 200  # failures told one by one, the newest
RESOLVED: tuple[tuple[str, int], ...] = (("1 h", HOUR_NS), ("1 d", DAY_NS), ("3 d", 3 * DAY_NS), ("7 d", 7 * DAY_NS))
LONGER, NEVER = "longer", "never"
FLEETS = (8, 64, 512, 1024, 4096, 16384, 131072)  # GPUs
SIZES = (8, 64, 512, 4096, 32768)  # upper ends of the classes of jobs by GPUs
GPUS_MAX = 1 << 62
SHAPE_WARNING = (
    "the projection 1 / (N r) holds for a constant hazard. The headline hides the shape: where young parts fail more "
    "(k < 1) a new fleet fails much sooner, where old ones do (k > 1) much later"
)


def failures_answer(store: Store, asked: Asked, from_ns: int | None = None) -> dict[str, Any]:
    """What `/api/v1/failures` says of the time from `from_ns` (if not told, of all that is kept) to `asked.at_ns`."""
    to_ns = asked.at_ns
    from_ns = to_ns - HISTORY_NS if from_ns is None else from_ns
    rows = _failures(store, asked, from_ns)
    jobs = _jobs(store, asked, from_ns)
    stopping = [row for row in rows if row["job"] and row["class"] != FailureClass.OPERATOR]
    gpu_hours = sum(job["gpu_seconds"] for job in jobs) / 3600
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": to_ns, "failures_total": len(rows),
        "stopping": len(stopping), "gpu_hours": gpu_hours, "classes": classes(rows, to_ns),
        "resolve": resolve(rows, to_ns), "fleet": fleet(stopping, gpu_hours),
        "sizes": sizes(stopping, jobs), "failures": rows[::-1][:ROWS_MAX], "why": _why(rows, jobs),
    }  # fmt: skip


def _conditions(asked: Asked) -> str:
    return "".join(f" AND {each}" for each in asked.conditions())


def _failures(store: Store, asked: Asked, from_ns: int) -> list[dict[str, Any]]:
    """Failures that began in the span, the oldest first; an end after it had not come."""
    where = "start_ns >= {from_ns:Int64} AND start_ns < {at_ns:Int64}" + _conditions(asked)
    sql = (
        "SELECT toString(entity) AS entity, toString(entity_kind) AS entity_kind, toString(kind) AS kind, "
        "toString(`class`) AS `class`, if(isNull(job), NULL, toString(job)) AS job, gpus, start_ns, "
        "if(end_ns > {at_ns:Int64}, NULL, end_ns) AS end_ns, evidence "
        f"FROM ({rows_where(FAILURE, where)}) ORDER BY start_ns, entity, kind"
    )
    return json_rows(store.query(sql, {**asked.parameters(sql), "from_ns": from_ns}))


def _jobs(store: Store, asked: Asked, from_ns: int) -> list[dict[str, Any]]:
    """Each job with what it held in the span: seconds, GPU-seconds, first and last window; by the ledger."""
    where = "end_ns > {from_ns:Int64} AND end_ns <= {at_ns:Int64}" + _conditions(asked)
    sql = (
        "SELECT toString(tenant) AS tenant, toString(job) AS job, sum(seconds) AS whole, sum(gpu_seconds) AS held, "
        f"min(end_ns - window_ns) AS first_ns, max(end_ns) AS last_ns FROM ({rows_where(LEDGER, where)}) "
        "GROUP BY tenant, job ORDER BY tenant, job"
    )
    found = json_rows(store.query(sql, {**asked.parameters(sql), "from_ns": from_ns}))
    return [{**row, "seconds": float(row["whole"]), "gpu_seconds": float(row["held"])} for row in found]


def lost_gpu_s(row: Mapping[str, Any], to_ns: int) -> float:
    """GPU-seconds that a failure took: the GPUs of the job it stopped, until it was back or until `to_ns`."""
    if not row["job"] or not row["gpus"]:
        return 0.0
    end_ns = to_ns if row["end_ns"] is None else row["end_ns"]
    return float(row["gpus"] * max(0, end_ns - row["start_ns"]) / S)


def classes(rows: Sequence[Mapping[str, Any]], to_ns: int) -> list[dict[str, Any]]:
    """Failures and lost GPU time by class, with shares, as Acme and Llama 3 print them; times to repair.

    `repair_mean_s` and `repair_median_s` are of those that are back.
    """
    whole = sum(lost_gpu_s(row, to_ns) for row in rows)
    found = []
    for name in (each.value for each in FailureClass):
        some = [row for row in rows if row["class"] == name]
        if not some:
            continue
        lost = sum(lost_gpu_s(row, to_ns) for row in some)
        repairs = [(row["end_ns"] - row["start_ns"]) / S for row in some if row["end_ns"] is not None]
        found.append(
            {
                "class": name, "failures": len(some), "share": len(some) / len(rows),
                "stopped_jobs": sum(1 for row in some if row["job"]), "lost_gpu_seconds": lost,
                "lost_share": lost / whole if whole else None,
                "repair_mean_s": statistics.fmean(repairs) if repairs else None,
                "repair_median_s": statistics.median(repairs) if repairs else None,
            }
        )  # fmt: skip
    return sorted(found, key=lambda one: (-one["failures"], one["class"]))


def resolve(rows: Sequence[Mapping[str, Any]], to_ns: int) -> list[dict[str, Any]]:
    """Failures by class and by how long they took to be back; each counts once. `never`: not yet by the end."""
    found = []
    for name in (each.value for each in FailureClass):
        some = [row for row in rows if row["class"] == name]
        if some:
            counts = dict.fromkeys([*(within for within, _ in RESOLVED), LONGER, NEVER], 0)
            for row in some:
                counts[_within(row)] += 1
            found.append({"class": name, "failures": len(some), "within": counts,
                          "open_s_max": _open_s(some, to_ns)})  # fmt: skip
    return sorted(found, key=lambda one: (-one["failures"], one["class"]))


def _within(row: Mapping[str, Any]) -> str:
    if row["end_ns"] is None:
        return NEVER
    took_ns = row["end_ns"] - row["start_ns"]
    return next((within for within, most_ns in RESOLVED if took_ns <= most_ns), LONGER)


def _open_s(rows: Sequence[Mapping[str, Any]], to_ns: int) -> float | None:
    """For how long the oldest that is not back has been out."""
    return max(((to_ns - row["start_ns"]) / S for row in rows if row["end_ns"] is None), default=None)


def fleet(stopping: Sequence[Mapping[str, Any]], gpu_hours: float) -> dict[str, Any]:
    """First failure by size of fleet: projected from the rate of all jobs; and the shape of the gaps between failures.

    `weibull_h` is what the same mean gives if lives of parts had the shape of the gaps: how much hangs on the shape.
    """
    found = mttf(len(stopping), gpu_hours)
    starts = sorted(row["start_ns"] for row in stopping)
    gaps_s = [(after - before) / S for before, after in pairwise(starts)]
    shape = weibull_shape(gaps_s)
    if shape is None:
        told = f"the shape is not fitted: {len(gaps_s)} gaps between failures, {GAPS_MIN} are needed"
    else:
        told = f"shape k = {shape:.2f} of {len(gaps_s)} gaps between failures"
    rows = []
    for gpus in FLEETS if found.mean_h else ():
        assert found.mean_h is not None
        rows.append(
            {
                "gpus": gpus, "first_h": first_failure_h(found.mean_h, gpus),
                "low_h": first_failure_h(found.low_h, gpus) if found.low_h else None,
                "high_h": first_failure_h(found.high_h, gpus) if found.high_h else None,
                "weibull_h": first_failure_h(found.mean_h, gpus, shape) if shape else None,
            }
        )  # fmt: skip
    return {"failures": found.failures, "gpu_hours": gpu_hours, "mttf_gpu_h": found.mean_h, "low_gpu_h": found.low_h,
            "high_gpu_h": found.high_h, "projected": rows, "shape": shape, "gaps": len(gaps_s), "shape_words": told,
            "warning": SHAPE_WARNING}  # fmt: skip


def sizes(stopping: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """MTTF of jobs by size, and the first failure that was observed: hours until it, over the jobs that had one.

    Jobs that ended without one count with their hours and not as a failure (censored).
    """
    found = []
    for low, high in pairwise((0, *SIZES, GPUS_MAX)):
        some = [job for job in jobs if low < _gpus(job) <= high]
        if not some:
            continue
        hours = sum(job["seconds"] for job in some) / 3600
        count, firsts, until_h = 0, 0, 0.0
        for job in some:
            starts = [row["start_ns"] for row in stopping if row["job"] == job["job"]
                      and job["first_ns"] <= row["start_ns"] <= job["last_ns"]]  # fmt: skip
            count += len(starts)
            firsts += bool(starts)
            until_h += (min(starts, default=job["last_ns"]) - job["first_ns"]) / HOUR_NS
        told, first = mttf(count, hours), mttf(firsts, until_h)
        found.append(
            {
                "gpus": f"{low + 1}-{high}" if high < GPUS_MAX else f"over {low}", "jobs": len(some), "hours": hours,
                "failures": count, "mttf_h": told.mean_h, "low_h": told.low_h, "high_h": told.high_h,
                "failed_jobs": firsts, "first_h": first.mean_h,
            }
        )  # fmt: skip
    return found


def _gpus(job: Mapping[str, Any]) -> int:
    return max(1, round(job["gpu_seconds"] / job["seconds"])) if job["seconds"] else 1


def _why(rows: Sequence[object], jobs: Sequence[object]) -> str:
    """What cannot be told, and why."""
    if not rows and not jobs:
        return (
            "nothing is known of this span: are events and steps stored (`leadline show tables`), and do the analyses "
            "`failures` and `ledger` run (`leadline doctor`)?"
        )
    if not jobs:
        return "no hours of jobs are in the ledger, so there is no rate: does the analysis `ledger` run?"
    return "" if rows else "no failure in this span"
