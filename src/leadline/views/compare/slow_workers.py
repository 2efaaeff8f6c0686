"""Which ranks of a job are slower than the others by their own doing, and since which step.

    tables step, collective ──> each rank's own time of each step ──> analysis/ledger/onset ──> slow since step N

A rank's own time is its step without what it spent in collectives: after a barrier all steps are equally long, and who
waits is not slow. Where no collective is stored, it is the whole step; the answer says which of both it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leadline.analysis.ledger.onset.onset import Straggler, stragglers
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.units import S
from leadline.views.compare.sides import Reader

ROWS_MAX = 400_000  # steps of ranks, the newest: 1,000 steps of 400 ranks take a second of one core
WORKERS_SHOWN = 32
OWN, WHOLE = "step less its collectives", "whole step"


def slow_workers(reader: Reader, job: str, from_ns: int, to_ns: int) -> dict[str, Any]:
    """The slow ranks of a job's steps in a span: those that became slow first, then by what they lost.

    Returns: `workers`, each with `rank`, `since_step`, `until_step` (None: to the end), `since_ns`, `slowdown` (0.38:
    38 % slower than expected), `from_start` (slow when the span began, so that `since_step` is no onset), `lost_s`;
    `measure`: what was compared; `missing`: why nobody can be named. Accuracy: docs/analyses/onset.md.
    Errors: StoreError.
    """
    rows = _steps(reader, job, from_ns, to_ns)
    in_collectives = _in_collectives(reader, job, rows) if rows else {}
    own = [
        max(row["took_ns"] - in_collectives.get((row["rank"], row["step"]), 0), 1) if in_collectives else row["took_ns"]
        for row in rows
    ]
    rank_N, step_N = (np.array([row[name] for row in rows], np.int64) for name in ("rank", "step"))
    found = stragglers(rank_N, step_N, np.array(own, np.float64))
    begins: dict[int, int] = {}
    for row in rows:
        begins[row["step"]] = min(row["begin_ns"], begins.get(row["step"], row["begin_ns"]))
    return {
        "measure": OWN if in_collectives else WHOLE,
        "missing": found.missing,
        "workers": [_told(each, begins) for each in found.stragglers[:WORKERS_SHOWN]],
    }


def _told(each: Straggler, begins: dict[int, int]) -> dict[str, Any]:
    return {
        "rank": each.worker, "since_step": each.since, "until_step": each.until, "since_ns": begins[each.since],
        "slowdown": each.slowdown, "from_start": each.from_start, "lost_s": each.lost / S,
    }  # fmt: skip


_IN_SPAN = "job = {job:String} AND start_ns >= {from_ns:Int64} AND start_ns < {to_ns:Int64}"


def _steps(reader: Reader, job: str, from_ns: int, to_ns: int) -> list[dict[str, Any]]:
    return reader.rows(
        f"leadline.{STEP.name}",
        "rank, step, min(start_ns) AS begin_ns, max(end_ns) - min(start_ns) AS took_ns",
        f"{_IN_SPAN} AND end_ns > start_ns",
        f"GROUP BY rank, step ORDER BY step DESC, rank LIMIT {ROWS_MAX}",
        job=job, from_ns=from_ns, to_ns=to_ns,
    )  # fmt: skip


def _in_collectives(reader: Reader, job: str, steps: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """Time in collectives, ns, by rank and step; overlapping ones count once. Empty where none is stored."""
    from_ns, to_ns = min(row["begin_ns"] for row in steps), max(row["begin_ns"] + row["took_ns"] for row in steps)
    conditions = " AND ".join([*reader.asked.conditions(), "job = {job:String}"])
    collectives = (
        f"SELECT rank, enqueued_ns, finished_ns FROM leadline.{COLLECTIVE.name} WHERE {conditions} AND enqueued_ns >= "
        "{from_ns:Int64} AND enqueued_ns < {to_ns:Int64} AND finished_ns > enqueued_ns"
    )
    of_steps = (
        f"SELECT rank, step, min(start_ns) AS begin_ns, max(end_ns) AS end_ns FROM leadline.{STEP.name} WHERE "
        f"{conditions} AND start_ns >= {{from_ns:Int64}} AND start_ns < {{to_ns:Int64}} GROUP BY rank, step"
    )
    rows = reader.query(
        "SELECT s.rank AS rank, s.step AS step, "
        "toInt64(intervalLengthSum(c.enqueued_ns, least(assumeNotNull(c.finished_ns), s.end_ns))) AS in_ns "
        f"FROM ({collectives}) AS c ASOF JOIN ({of_steps}) AS s ON c.rank = s.rank AND c.enqueued_ns >= s.begin_ns "
        "WHERE c.enqueued_ns < s.end_ns GROUP BY rank, step",
        job=job, from_ns=from_ns, to_ns=to_ns,
    )  # fmt: skip
    return {(row["rank"], row["step"]): row["in_ns"] for row in rows}
