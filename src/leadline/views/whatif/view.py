"""The what-if of a job: its stored operations, replayed without what slowed them.

table `operation` ──> analysis/ledger/operations (trace, whatif, cause) ──> what each worker, stage and cause costs
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from leadline.analysis.ledger.operations.cause import Finding, finding
from leadline.analysis.ledger.operations.trace import Left, read_trace
from leadline.analysis.ledger.operations.whatif import WhatIf, what_if
from leadline.model.tables.training import OPERATION
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, plain_job
from leadline.views.near import near_jobs
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.whatif.gpu_time import gpu_time

ROWS_MAX = 5_000_000  # operations that are replayed, of the newest steps: 200 MB, and half a minute of one core
WORKERS_MAX = 100  # told, those that cost most; `workers_total` counts all
COLUMNS = ("rank", "stage", "dp_rank", "step", "start_ns", "duration_ns", "micro_batch", "chunk")
NEVER = (
    "no operation of {job} is stored: `leadline import trace FILE --job {job}` reads what-if CSV, and traces of the "
    "PyTorch profiler and of Chakra"
)
NO_STEP = (
    "a what-if needs whole training steps with the operations of a pipeline schedule (forward-compute, "
    "backward-compute, ...) of its workers; what is missing: {missing}"
)


def what_if_answer(store: Store, asked: Asked, job: str, from_ns: int | None = None) -> dict[str, Any]:
    """What `/api/v1/whatif` says of a job's operations up to the time asked for. Errors: UsageError, StoreError."""
    name = plain_job(job)
    rows = _operations(store, asked, name, from_ns)
    answer = _empty(name, rows)
    if not rows.num_rows:
        return answer | {"why": NEVER.format(job=name) + near_jobs(store, asked, name, OPERATION)}
    trace, left = read_trace(rows)
    answer["left_out"] = asdict(left) | {"unknown_kinds": dict(left.unknown_kinds)}
    if trace is None:
        answer["gpu_time"] = gpu_time(rows)
        return answer | {"why": NO_STEP.format(missing=", ".join(_missing(left)))}
    answers = what_if(trace)
    return answer | _told(answers, finding(answers))


def _operations(store: Store, asked: Asked, job: str, from_ns: int | None) -> pa.Table:
    """The operations of the newest steps, `ROWS_MAX` at most."""
    since = [] if from_ns is None else [f"start_ns >= {from_ns}"]
    where = " AND ".join([*asked.conditions(), "job = {job:String}", "start_ns <= {at_ns:Int64}", *since])
    counted = f"SELECT step, count() AS n FROM leadline.{OPERATION.name} WHERE {where} GROUP BY step ORDER BY step DESC"
    first = f"SELECT step FROM (SELECT step, sum(n) OVER (ORDER BY step DESC) AS total FROM ({counted}))"
    sql = (
        f"SELECT {', '.join(COLUMNS)}, toString(kind) AS kind FROM leadline.{OPERATION.name} WHERE {where} AND step IN "
        f"({first} WHERE total <= {ROWS_MAX})"
    )
    return store.query(sql, {**asked.parameters(sql), "job": job})


def _empty(job: str, rows: pa.Table) -> dict[str, Any]:
    starts = rows.column("start_ns").to_numpy() if rows.num_rows else None
    ends = starts + rows.column("duration_ns").to_numpy() if starts is not None else None
    return {
        "schema": SCHEMA_VERSION, "job": job, "why": "", "operations": rows.num_rows,
        "from_ns": None if starts is None else int(starts.min()), "to_ns": None if ends is None else int(ends.max()),
        "steps": 0, "replicas": 0, "stages": 0, "observed_s": None, "step_s": None, "ideal_s": None, "slowdown": None,
        "cause": None, "confidence": None, "place": None, "causes": [], "workers": [], "workers_total": 0,
        "by_stage": [], "by_replica": [], "by_kind": [], "workers_share": None, "last_stage_share": None,
        "correlation": None, "gpu_time": [], "left_out": asdict(Left()) | {"unknown_kinds": {}},
    }  # fmt: skip


def _missing(left: Left) -> list[str]:
    found = list(left.missing)
    if left.unknown_kinds:
        kinds = ", ".join(f"{count} {kind or 'without a kind'}" for kind, count in left.unknown_kinds.most_common(5))
        found.append(f"known kinds of operations (there are {kinds})")
    return found


def _told(answers: WhatIf, found: Finding) -> dict[str, Any]:
    trace, lost_s = answers.trace, (answers.real_ns - answers.ideal_ns) / S
    observed_T = answers.replay.lengths_T(answers.replay.everything_DO, delays=True)
    causes = [{"cause": each, "share": share, "saves_s": share * lost_s} for each, share in found.share.items()]
    return {
        "steps": len(trace.step_T), "replicas": len(trace.dp_rank_D), "stages": len(answers.by_stage),
        "observed_s": float(observed_T.mean()) / S, "step_s": answers.real_ns / S, "ideal_s": answers.ideal_ns / S,
        "slowdown": answers.slowdown, "cause": found.cause, "confidence": found.confidence,
        "place": {"rank": found.rank, "dp_rank": found.dp_rank, "stage": found.stage,
                  "link": None if found.link is None else list(found.link)},
        "causes": sorted(causes, key=lambda each: -float(each["share"])),
        "workers": _workers(answers), "workers_total": len(answers.slowest),
        "by_stage": _parts(answers, {f"stage {name}": value for name, value in answers.by_stage.items()}),
        "by_replica": _parts(answers, {f"replica {name}": value for name, value in answers.by_dp_rank.items()}),
        "by_kind": _parts(answers, answers.by_kind),
        "workers_share": answers.mended_by_workers, "last_stage_share": answers.mended_by_last_stage,
        "correlation": found.together,
    }  # fmt: skip


def _workers(answers: WhatIf) -> list[dict[str, Any]]:
    """The worker on top first: where all of a stage are told its own slowdown, the slowest replica's is the one."""
    order = [answers.top_worker, *(each for each in answers.slowest if each != answers.top_worker)][:WORKERS_MAX]
    return [
        {"rank": answers.rank(worker), "dp_rank": worker[0], "stage": worker[1],
         "slowdown": answers.by_worker[worker], "costs_s": _costs(answers, answers.by_worker[worker])}
        for worker in order
    ]  # fmt: skip


def _parts(answers: WhatIf, slowdowns: dict[str, float]) -> list[dict[str, Any]]:
    parts = [{"name": name, "slowdown": value, "costs_s": _costs(answers, value)} for name, value in slowdowns.items()]
    return sorted(parts, key=lambda each: -float(str(each["slowdown"])))


def _costs(answers: WhatIf, slowdown: float) -> float:
    """Seconds a step that a part costs by itself."""
    return (slowdown - 1.0) * answers.ideal_ns / S
