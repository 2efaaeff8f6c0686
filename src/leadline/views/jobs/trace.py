"""`GET /api/v1/jobs/{job}/trace`: a job as a trace in Chrome's JSON format, for ui.perfetto.dev and chrome://tracing.

    rank ──> a process        step, its phases ──> slices, one thread each
    collective ──> slices; those that overlap on as many threads as it takes        event, incident ──> instants

Source: "Trace Event Format" (Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): `ph` M
(metadata), X (a slice: ts, dur), i (an instant with its scope). Times are us from the begin of the span; slices of one
thread must nest. Phases of a step are told as durations: they stand in the order of a training step, from its begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from leadline.model.ids import EntityId
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.views.jobs.overlays import Mark, marks_of
from leadline.views.jobs.rows import JobRows

STEPS_MAX = 20_000  # rows of ranks; with their phases some 100,000 slices, 15 MB
CALLS_MAX = 100_000  # rows of ranks; of more, one collective in several
PHASES = ("data", "forward", "backward", "optimizer", "checkpoint")
STEP_THREAD, PHASE_THREAD, FIRST_CALL_THREAD = 1, 2, 10
Event = dict[str, Any]


def trace_answer(rows: JobRows) -> dict[str, Any]:
    """The trace as it is written to a file."""
    places = rows.places()
    steps, every_step = _sampled(rows, STEP.name, "end_ns", "step", STEPS_MAX, _STEP)
    calls, every_call = _sampled(rows, COLLECTIVE.name, "enqueued_ns", "seq", CALLS_MAX, _CALL)
    ranks = sorted({int(row["rank"]) for row in (*steps, *calls)} | set(places))
    events = [
        *(event for rank in ranks for event in _process(rank, places.get(rank, ""))),
        *(event for row in steps for event in _step(row, rows.from_ns)),
        *_calls(calls, rows.from_ns, rows.to_ns),
        *_instants(rows, marks_of(rows), ranks),
    ]
    return {
        "traceEvents": events, "displayTimeUnit": "ms",
        "otherData": {
            "job": rows.job, "from_ns": rows.from_ns, "to_ns": rows.to_ns, "one_in_steps": every_step,
            "one_in_collectives": every_call, "program": "leadline",
        },
    }  # fmt: skip


_STEP = "rank, step, start_ns, end_ns, " + ", ".join(f"{phase}_ns" for phase in PHASES)
_CALL = (
    "rank, toString(comm) AS comm, seq, toString(op) AS op, bytes, toString(state) AS state, "
    "min(enqueued_ns) AS came_ns, max(finished_ns) AS left_ns"
)


def _sampled(
    rows: JobRows, table: str, time: str, number: str, most: int, columns: str
) -> tuple[list[dict[str, Any]], int]:
    """Rows of a table, of too many those of one step or collective in so many."""
    where = rows.mine(time)
    count = int(rows.query(f"SELECT count() AS n FROM leadline.{table} WHERE {where} SETTINGS final = 0")[0]["n"])
    every = max(1, -(-count // most))
    grouped = " GROUP BY rank, comm, seq, op, bytes, state" if table == COLLECTIVE.name else ""
    order = "came_ns" if grouped else time
    which = f"leadline.{table} WHERE {where} AND {number} % {every} = 0"
    return rows.query(f"SELECT {columns} FROM {which}{grouped} ORDER BY {order}, rank"), every


def _us(ns: int, from_ns: int) -> float:
    return (ns - from_ns) / 1000


def _process(rank: int, host: str) -> Iterator[Event]:
    name = f"rank {rank}{f' on {host}' if host else ''}"
    yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "ts": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "ts": 0, "args": {"sort_index": rank}}
    for thread, words in ((STEP_THREAD, "steps"), (PHASE_THREAD, "phases")):
        yield _thread(rank, thread, words)


def _thread(rank: int, thread: int, words: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": rank, "tid": thread, "ts": 0, "args": {"name": words}}


def _slice(rank: int, thread: int, name: str, kind: str, span: tuple[float, float], args: Mapping[str, Any]) -> Event:
    begin_us, end_us = span
    return {
        "ph": "X", "name": name, "cat": kind, "pid": rank, "tid": thread, "ts": begin_us,
        "dur": max(0.0, end_us - begin_us), "args": dict(args),
    }  # fmt: skip


def _step(row: Mapping[str, Any], from_ns: int) -> Iterator[Event]:
    rank, begin_us, end_us = int(row["rank"]), _us(row["start_ns"], from_ns), _us(row["end_ns"], from_ns)
    yield _slice(rank, STEP_THREAD, f"step {row['step']}", "step", (begin_us, end_us), {"step": row["step"]})
    at_us = begin_us
    for phase in PHASES:
        took_ns = row[f"{phase}_ns"]
        if took_ns:
            until_us = min(end_us, at_us + took_ns / 1000)
            yield _slice(rank, PHASE_THREAD, phase, "phase", (at_us, until_us), {"step": row["step"]})
            at_us = until_us


def _calls(calls: Iterable[Mapping[str, Any]], from_ns: int, to_ns: int) -> Iterator[Event]:
    """Collectives by rank on threads: the first one that is free. One that nobody left lasts until the span ends."""
    ends: dict[int, list[float]] = {}  # of each rank when its threads are free
    for row in calls:
        rank, begin_us = int(row["rank"]), _us(row["came_ns"], from_ns)
        open_ = row["left_ns"] is None
        end_us = _us(to_ns if open_ else max(row["left_ns"], row["came_ns"]), from_ns)
        lanes = ends.setdefault(rank, [])
        lane = next((place for place, free_us in enumerate(lanes) if free_us <= begin_us), len(lanes))
        if lane == len(lanes):
            lanes.append(end_us)
            yield _thread(rank, FIRST_CALL_THREAD + lane, "collectives" if not lane else f"collectives {lane + 1}")
        lanes[lane] = end_us
        args = {"comm": row["comm"], "seq": row["seq"], "bytes": row["bytes"], "state": row["state"]}
        yield _slice(rank, FIRST_CALL_THREAD + lane, row["op"], "collective", (begin_us, end_us), args)


def _instants(rows: JobRows, marks: Iterable[Mark], ranks: Sequence[int]) -> Iterator[Event]:
    """Events of ranks on their process; others on a process of the job, over the whole height."""
    job = max(ranks, default=-1) + 1
    told = False
    for mark in marks:
        one = EntityId.of(mark.entity)
        mine = one.kind == "rank" and one.part.isdecimal()
        if not mine and not told:
            told = True
            args = {"name": f"job {rows.job}: events and incidents"}
            yield {"ph": "M", "name": "process_name", "pid": job, "tid": 0, "ts": 0, "args": args}
        yield {
            "ph": "i", "s": "p" if mine else "g", "name": mark.text, "cat": "incident" if mark.incident else "event",
            "pid": int(one.part) if mine else job, "tid": STEP_THREAD, "ts": _us(mark.time_ns, rows.from_ns),
            "args": {"entity": mark.entity, "severity": mark.severity, "count": mark.count,
                     **({"until_us": _us(mark.end_ns, rows.from_ns)} if mark.end_ns is not None else {})},
        }  # fmt: skip
