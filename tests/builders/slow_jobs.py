"""Slow, stalled and crashed jobs, as rows of their senders; times in ns from `tests.builders.fabrics.T0`.

The job of `tests.builders.small_job`: four ranks, a step each second, two all-reduces in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import T0, S
from tests.builders.small_job import JOB, MS, RANKS, collective, event, relations, step, table
from tests.common.analysis_laws import given as asked

from leadline.analysis.spec import Analysis, Window

Row = dict[str, Any]


def window(end_s: float, seconds: float) -> Window:
    """The window of the job that ends so long after T0."""
    end_ns = T0 + round(end_s * S)
    return Window(end_ns - round(seconds * S), end_ns, tenant="default", cluster="default", job=JOB)


def working(from_s: float, to_s: float, length_s: float = 1.0, number: int = 0, late: Mapping[int, float] | None = None,
            seq: int = 0) -> tuple[list[Row], list[Row]]:  # fmt: skip
    """Steps and all-reduces from one time to another; `late`: seconds by which ranks come later to the first of each.

    Steps are longer by the longest lateness. Returns: rows of `step`, rows of `collective`.
    """
    steps, calls = [], []
    late = late or {}
    length_ns = round((length_s + max(late.values(), default=0.0)) * S)
    at_ns, end_ns = T0 + round(from_s * S), T0 + round(to_s * S)
    while at_ns + length_ns <= end_ns:
        for rank in range(RANKS):
            own_ms = 200 + round(late.get(rank, 0.0) * 1000)
            steps.append(step(rank, number, at_ns, length_ns, forward=own_ms))
            first_ns = at_ns + (own_ms + 10 + rank) * MS
            done_ns = at_ns + length_ns - 500 * MS
            calls += both(rank, seq, first_ns, done_ns)
            calls += both(rank, seq + 1, done_ns + (50 + rank) * MS, at_ns + length_ns - 50 * MS, bytes=8192)
        at_ns, number, seq = at_ns + length_ns, number + 1, seq + 2
    return steps, calls


def both(rank: int, seq: int, entered_ns: int, ended_ns: int | None, **more: Any) -> list[Row]:
    """A call as the hook tells it: when it is made, and when it is over (None: it is not)."""
    rows = [{**collective(rank, seq, entered_ns, entered_ns, **more), "finished_ns": None, "state": "enqueued"}]
    if ended_ns is not None:
        rows.append(collective(rank, seq, entered_ns, ended_ns, **more))
    return rows


def tables(
    steps: Iterable[Row] = (),
    calls: Iterable[Row] = (),
    events: Iterable[Row] = (),
    places: Sequence[Row] | None = None,
    **more: Sequence[Mapping[str, Any]],
) -> dict[str, pa.Table]:
    """All that the analyses of symptoms read."""
    given = {"step": list(steps), "collective": list(calls), "event": list(events)}
    given["relation"] = list(relations(T0 - 600 * S) if places is None else places)
    names = ("symptom", "ledger", "baseline", "sle", "sle_loss")
    return {name: table(name, rows) for name, rows in {**{name: [] for name in names}, **given, **more}.items()}


def stuck_job(absent: Sequence[int] = (2,), since_s: float = 0.0, events: Sequence[Row] = ()) -> dict[str, pa.Table]:
    """Twenty steps, then a collective that some ranks do not come to: the others wait."""
    steps, calls = working(since_s - 20, since_s)
    at_ns = T0 + round(since_s * S)
    for rank in range(RANKS):
        if rank not in absent:
            calls += both(rank, 40, at_ns + (210 + rank) * MS, None)
    return tables(steps, calls, events)


def crashed_job() -> dict[str, pa.Table]:
    """Rank 2 dies of a signal; the others' collective fails, and they give up."""
    steps, calls = working(-20, 0)
    died_ns = T0 + 500 * MS
    events = [event(died_ns, 2, "process-exit", "error", "signal/SIGSEGV", signal="SIGSEGV")]
    for rank in (0, 1, 3):
        at_ns = T0 + (210 + rank) * MS
        calls += [
            *both(rank, 40, at_ns, None), collective(rank, 40, at_ns, died_ns + (5 - rank) * MS, state="failed"),
        ]  # fmt: skip
        events.append(event(died_ns + (300 - rank) * MS, rank, "process-exit", "error", "exit/1"))
    return tables(steps, calls, events)


def stalled_and_crashed() -> dict[str, pa.Table]:
    """One case for both: a crash in which a stall that was known ends."""
    given = crashed_job()
    return {**given, "symptom": table("symptom", [symptom(-6.0, "stall")])}


def symptom(start_s: float, of: str, end_s: float | None = None, **more: Any) -> Row:
    """A row of `symptom` that an earlier window told."""
    start_ns = T0 + round(start_s * S)
    told = {"entity": f"job:{JOB}", "job": JOB, "symptom": of, "start_ns": start_ns, "reported_ns": start_ns + 2 * S}
    told |= {"end_ns": None if end_s is None else T0 + round(end_s * S), "bound_ns": None, "lost_gpu_seconds": 1.0}
    told |= {"lost_share": 1.0, "blamed": "[]", "missing": None, "evidence": "[]", "seen_ns": start_ns + 4 * S}
    return {**told, "analysis": "stalls", **more}


def slow_job(late: Mapping[int, float] | None = None) -> dict[str, pa.Table]:
    """Thirty steps as usual, then rank 1 comes 0.8 s later to each."""
    before, calls = working(-30, 0)
    after, more = working(0, 12, number=30, seq=60, late={1: 0.8} if late is None else late)
    return tables(before + after, calls + more)


def burning_host(bad_s: Mapping[int, float] | None = None) -> dict[str, pa.Table]:
    """A host whose memory is short in each of the last minutes, of which no job is known to suffer."""
    told = dict.fromkeys(range(12), 40.0) if bad_s is None else bad_s
    common = {
        "expectation": "host-memory",
        "layer": "host",
        "entity": "host:h7",
        "window_ns": 60 * S,
        "tenant": "default",
    }
    minutes = [
        {**common, "end_ns": T0 + 60 * S - back * 60 * S, "good_s": 60.0 - bad, "bad_s": bad, "missing_s": 0.0,
         "objective": 0.999, "lost_gpu_seconds": 0.0, "why_missing": None, "analysis": "sle"}
        for back, bad in told.items()
    ]  # fmt: skip
    losses = [
        {**common, "end_ns": each["end_ns"], "classifier": "memory pressure above 0.1", "metric": "node_pressure",
         "culprit": "host:h7", "bound": "absolute", "seconds": each["bad_s"], "analysis": "sle"}
        for each in minutes if each["bad_s"]
    ]  # fmt: skip
    return tables(sle=minutes, sle_loss=losses, places=[])


MINUTE = Window(T0, T0 + 60 * S)


def lost_senders(lost: Mapping[str, float], fine: Sequence[str] = ("h9",)) -> dict[str, pa.Table]:
    """What the server says of the agents of some hosts at `T0 - 1 s`: `lost` ones were heard last so many seconds
    before `T0`, each with two ranks of a job."""
    heard = {**dict.fromkeys(fine, 1.0), **lost}
    rows: list[Row] = [
        {
            "host": host, "clock": "monitor/server", "reported_ns": T0 - S, "to_ns": T0 - round(ago_s * S),
            "sender": "agent", "job": JOB, "ranks": 2, "state": "lost" if host in lost else "open",
            "heard_ns": T0 - round(ago_s * S),
        }
        for host, ago_s in heard.items()
    ]  # fmt: skip
    return {"watermark": table("watermark", rows), "symptom": table("symptom", [])}


def told(item: Analysis, given: Mapping[str, pa.Table], of: Window) -> list[Row]:
    """The rows of `symptom` that an analysis tells in a window, with their JSON read."""
    columns = item(*(asked(read, given, of) for read in item.reads), window=of)["symptom"]
    if not columns["entity"]:
        return []
    rows: list[Row] = pa.table({name: pa.array(values) for name, values in columns.items()}).to_pylist()
    for row in rows:
        row["blamed"], row["evidence"] = json.loads(row["blamed"]), json.loads(row["evidence"])
    return rows


def blamed(row: Row) -> list[tuple[str, str, str]]:
    """Owner, category and how of each that a row blames."""
    return [(each["owner"], each["category"], each["how"]) for each in row["blamed"]]
