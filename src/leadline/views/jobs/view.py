"""`GET /api/v1/jobs`: the jobs of a span, what they lose and how fast they go; `GET /api/v1/jobs/{job}`: one of them.

step ──> ranks, hosts, step, step time, a line      usual ──> what a step usually takes
ledger ──> goodput, lost GPU time                   incident ──> open ones, with or without a known cause
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.ids import kind_of
from leadline.model.incidents import Verdict
from leadline.model.tables.accounts import BASELINE, LEDGER
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import INCIDENT
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.compare.sides import BUCKET_NS, PAUSE_NS, runs_of
from leadline.views.jobs.about import NOTHING, about_of
from leadline.views.jobs.lives import Key, Life, lives_of
from leadline.views.jobs.rows import RANKS_MAX, STEP_S, JobRows, from_or_hour, plain
from leadline.views.jobs.steps import BASELINE_NS, HOW, baseline_s
from leadline.views.ledger.view import PRODUCTIVE, goodput
from leadline.views.lost import losses_of
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

JOBS_MAX = 500  # told, those that lost most; `jobs_total` counts all
POINTS = 60  # of a line
NEWEST = 64  # steps of ranks, of which the newest step time is the median
COMMS_MAX = 200
RUNS_MAX = 20
RUNNING, ENDED, SILENT = "running", "ended", "silent"  # silent: no step for a minute, and nobody saw it end
NO_LEDGER = (
    "no window of it was analysed in this time span (`leadline doctor` shows whether the analysis `ledger` runs)"
)


def jobs_answer(
    store: Store, asked: Asked, from_ns: int | None = None, match: str = "", limit: int = JOBS_MAX
) -> dict[str, Any]:
    """What `/api/v1/jobs` says of [from_ns, asked.at_ns): jobs that told a step or were judged, most lost first."""
    since_ns = from_or_hour(from_ns, asked.at_ns)
    found = _Jobs(store, asked, since_ns, match).all()
    return {
        "schema": SCHEMA_VERSION, "from_ns": since_ns, "to_ns": asked.at_ns, "jobs_total": len(found),
        "running": sum(1 for one in found if one["running"]),
        "lost_gpu_seconds": sum(one["lost_gpu_seconds"] or 0.0 for one in found) if found else None,
        "jobs": found[:limit],
    }  # fmt: skip


def job_answer(rows: JobRows, now_ns: int | None = None) -> dict[str, Any]:
    """What `/api/v1/jobs/{job}` says: the line of the list, its ranks, communicators and runs.

    `now_ns`: the present, by which a run is still there or not, whichever span is looked at; its end if not told.
    """
    found = [
        one
        for one in _Jobs(rows.store, rows.asked, rows.from_ns, rows.job).all()
        if (one["tenant"], one["job"]) == (rows.tenant, rows.job)
    ]
    runs = _runs(rows)
    run = _shown_run(rows, runs, rows.to_ns if now_ns is None else now_ns)
    return {
        "schema": SCHEMA_VERSION, "job": rows.job, "tenant": rows.tenant, "from_ns": rows.from_ns,
        "to_ns": rows.to_ns, "now": found[0] if found else None, "ranks": _ranks(rows),
        "communicators": _communicators(rows), "run": run, "runs": runs[-RUNS_MAX:], "runs_total": len(runs),
        "why": "" if found else rows.why_none("step", HOW), "note": rows.note,
    }  # fmt: skip


# --- the list ---


class _Jobs:
    """Jobs of a span, as somebody may see them."""

    def __init__(self, store: Store, asked: Asked, from_ns: int, match: str) -> None:
        self._store, self._asked, self._from_ns, self._match = store, asked, from_ns, match

    def _columns(self, sql: str) -> pa.Table:
        parameters = self._asked.parameters(sql)
        if "{match:" in sql:
            parameters["match"] = self._match
        return self._store.query(sql, parameters)

    def _rows(self, sql: str) -> dict[Key, list[dict[str, Any]]]:
        found: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        for row in json_rows(self._columns(sql)):
            found[row["whose"], row["place"], row["name"]].append(row)
        return found

    def _where(self, time: str, from_ns: int | None = None) -> str:
        span = f"{time} > {self._from_ns if from_ns is None else from_ns} AND {time} <= {self._asked.at_ns}"
        match = ["positionCaseInsensitive(toString(job), {match:String}) > 0"] if self._match else []
        return " AND ".join([*self._asked.conditions(), span, *match])

    def all(self) -> list[dict[str, Any]]:
        """Every job, that which lost most first; of equal ones those that run."""
        steps, lines, ledger = self._steps(), self._lines(), self._ledger()
        baseline, incidents = self._baseline(), self._incidents()
        estimated = losses_of(self._store, self._asked, (self._from_ns, self._asked.at_ns)).jobs
        lives = lives_of(self._store, self._asked, self._from_ns)
        found = [
            self._one(
                key,
                steps.get(key, []),
                lines.get(key, []),
                ledger.get(key, []),
                baseline.get(key),
                incidents.get(key, []),
            )
            for key in sorted(steps.keys() | ledger.keys())
        ]
        about = about_of(self._store, self._asked, [one["job"] for one in found])
        for one in found:
            key = one["tenant"], one["cluster"], one["job"]
            said = about.get(key, NOTHING)
            one |= {"user": said.user, "project": said.project, "about": said.facts()}
            one["estimated_gpu_seconds"] = estimated.get(key, 0.0)
            if one["estimated_gpu_seconds"]:
                one["lost_gpu_seconds"] = (one["lost_gpu_seconds"] or 0.0) + one["estimated_gpu_seconds"]
            self._with_life(one, lives.get(key, Life()))
        return sorted(found, key=lambda one: (-(one["lost_gpu_seconds"] or 0.0), not one["running"]))

    def _with_life(self, one: dict[str, Any], life: Life) -> None:
        """Since when it is there, whatever the span begins with; and whether it ended, by those who saw that."""
        if life.began_ns is not None:
            one["since_ns"] = min(one["since_ns"], life.began_ns)
        one["ended_ns"] = life.ended_ns
        one["state"] = ENDED if life.ended_ns is not None else RUNNING if one["running"] else SILENT
        one["running"] = one["state"] == RUNNING

    def _one(
        self, key: Key, told: Sequence[Mapping[str, Any]], line: Sequence[Mapping[str, Any]],
        ledger: Sequence[Mapping[str, Any]], baseline: float | None, incidents: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:  # fmt: skip
        step: Mapping[str, Any] = told[0] if told else {}
        share = goodput(ledger) if ledger else {}
        until = max([int(row["until_ns"]) for row in (*told, *ledger)])
        since = min([int(row["since_ns"]) for row in (*told, *ledger)])
        took = plain(step.get("newest_s"))
        gpus = max((row["gpus"] for row in ledger), default=None)
        return {
            "tenant": key[0], "cluster": key[1], "job": key[2], "ranks": int(step["ranks"]) if step else None,
            "hosts": int(step["hosts"]) if step else None, "gpus": plain(gpus), "since_ns": since, "until_ns": until,
            "running": _runs_still(self._asked.at_ns - until, took) or any(not row["over"] for row in incidents),
            "step": int(step["newest"]) if step else None, "step_s": took, "baseline_s": baseline,
            "goodput": plain(share.get("ratio")), "goodput_max": plain(share.get("ratio_max")),
            "lost_gpu_seconds": sum(row["lost_gpu_seconds"] for row in ledger) if ledger else None,
            "held_gpu_seconds": share.get("held_gpu_seconds"), "spent": _spent(ledger),
            "why": "" if ledger else NO_LEDGER,
            "incidents": len(incidents), "incidents_open": sum(1 for row in incidents if not row["over"]),
            "incidents_known": sum(1 for row in incidents if not row["over"] and row["known"]),
            "incidents_explained": sum(1 for row in incidents if row["known"]),
            "suppressed": sum(1 for row in incidents if not row["over"] and row["quiet"]),
            "line": {"t_ns": [int(row["last_ns"]) for row in line], "step_s": [plain(row["took"]) for row in line]},
        }  # fmt: skip

    def _steps(self) -> dict[Key, list[dict[str, Any]]]:
        return self._rows(
            f"SELECT {_KEY}, uniqExact(rank) AS ranks, uniqExact(host) AS hosts, argMax(step, end_ns) AS newest, "
            "min(start_ns) AS since_ns, max(end_ns) AS until_ns, "
            f"arrayReduce('median', arrayMap(x -> x.2, groupArraySorted({NEWEST})((-end_ns, {STEP_S})))) AS newest_s "
            f"FROM leadline.{STEP.name} WHERE {self._where('end_ns')} GROUP BY whose, place, name SETTINGS final = 0"
        )

    def _lines(self) -> dict[Key, list[dict[str, Any]]]:
        """Step time of each job over the time that it was there."""
        mine = f"leadline.{STEP.name} WHERE {self._where('end_ns')}"
        there = (
            "SELECT tenant, cluster, job, min(end_ns) AS first_ns, "
            f"intDiv(max(end_ns) - min(end_ns), {POINTS}) + 1 AS bin_ns FROM {mine} GROUP BY tenant, cluster, job"
        )
        return self._rows(
            f"SELECT {_KEY}, intDiv(end_ns - first_ns, bin_ns) AS bin, max(end_ns) AS last_ns, avg({STEP_S}) AS took "
            f"FROM (SELECT tenant, cluster, job, start_ns, end_ns, checkpoint_ns FROM {mine}) AS steps "
            f"INNER JOIN ({there}) AS there USING (tenant, cluster, job) "
            "GROUP BY whose, place, name, bin ORDER BY bin SETTINGS final = 0"
        )

    def _ledger(self) -> dict[Key, list[dict[str, Any]]]:
        found = self._rows(
            f"SELECT {_KEY}, toString(category) AS kind, sum(gpu_seconds) AS held, "
            "sum(lost_gpu_seconds) AS lost, min(end_ns - window_ns) AS since_ns, max(end_ns) AS until_ns, "
            "max(if(seconds > 0, gpu_seconds / seconds, 0)) AS gpus "
            f"FROM ({rows_where(LEDGER, self._where('end_ns'))}) GROUP BY whose, place, name, kind "
            "ORDER BY kind"
        )
        names = {"kind": "category", "held": "gpu_seconds", "lost": "lost_gpu_seconds"}
        return {
            key: [{names.get(name, name): row[name] for name in row} for row in rows] for key, rows in found.items()
        }

    def _baseline(self) -> dict[Key, float | None]:
        span = self._asked.at_ns - BASELINE_NS, self._asked.at_ns
        where = f"{self._where('end_ns', span[0])} AND what = 'step'"
        found = self._columns(f"SELECT {_KEY}, what, count, low_s, median_s FROM ({rows_where(BASELINE, where)})")
        keys = pc.binary_join_element_wise(*(pc.cast(found[name], pa.string()) for name in _NAMES), "\0")
        found = found.append_column("key", keys)
        baseline: dict[Key, float | None] = {}
        for key in pc.unique(keys).to_pylist():
            whose, place, name = key.split("\0")
            baseline[whose, place, name] = baseline_s(found.filter(pc.equal(found["key"], key)))
        return baseline

    def _incidents(self) -> dict[Key, list[dict[str, Any]]]:
        """Incidents with symptoms within the span, by each job affected."""
        where = " AND ".join([*self._asked.conditions(), f"start_ns < {self._asked.at_ns}"])
        return self._rows(
            "SELECT toString(tenant) AS whose, toString(cluster) AS place, "
            "toString(arrayJoin(if(empty(jobs) AND isNotNull(job), [assumeNotNull(job)], jobs))) AS name, "
            f"state = 'over' AS over, verdict = '{Verdict.KNOWN}' AS known, isNotNull(suppressed) AS quiet "
            f"FROM ({rows_where(INCIDENT, where)}) WHERE state != 'over' OR ifNull(end_ns, seen_ns) > {self._from_ns}"
        )


_NAMES = ("whose", "place", "name")
_KEY = "toString(tenant) AS whose, toString(cluster) AS place, toString(job) AS name"


def _spent(ledger: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where held time went that was neither productive nor lost, most first: a job may lose nothing and yet have a
    goodput below 1, while it starts, waits to be scheduled, or nobody knows what it did."""
    held = sum(row["gpu_seconds"] for row in ledger)
    rest = [
        {"category": row["category"], "share": plain((row["gpu_seconds"] - row["lost_gpu_seconds"]) / held)}
        for row in ledger
        if held and row["category"] not in PRODUCTIVE and row["gpu_seconds"] > row["lost_gpu_seconds"]
    ]
    return sorted(rest, key=lambda each: -(each["share"] or 0.0))


def _runs_still(silent_ns: int, step_s: float | None) -> bool:
    """Whether a job that has been silent for so long may still run: it pauses for a minute, or five of its steps."""
    return silent_ns <= max(PAUSE_NS, 5 * (step_s or 0.0) * S)


# --- one job ---


def _ranks(rows: JobRows) -> list[dict[str, Any]]:
    """Where each rank ran last in the span."""
    hosts = rows.places()
    placed = rows.query(
        f"SELECT toString(child) AS rank, toString(parent) AS part, from_ns FROM leadline.{RELATION.name} "
        f"WHERE tenant = {{owner:String}}{rows.in_cluster()} AND kind = 'runs-on' "
        f"AND startsWith(child, {{ranks:String}}) AND from_ns < {rows.to_ns} "
        f"AND (to_ns IS NULL OR to_ns > {rows.from_ns}) ORDER BY from_ns LIMIT {4 * RANKS_MAX}",
        ranks=f"rank:{rows.job}/",
    )
    gpus: dict[int, str] = {}
    for row in placed:
        rank = row["rank"].rpartition("/")[2]
        if rank.isdecimal() and kind_of(row["part"]) == "gpu":
            gpus[int(rank)] = row["part"]
        elif rank.isdecimal() and kind_of(row["part"]) == "host":
            hosts.setdefault(int(rank), row["part"].removeprefix("host:"))
    return [
        {"rank": rank, "host": hosts.get(rank) or None, "gpu": gpus.get(rank)}
        for rank in sorted(hosts.keys() | gpus.keys())
    ]


def _communicators(rows: JobRows) -> list[dict[str, Any]]:
    """Communicators that were used in the span, the largest first."""
    found = rows.query(
        "SELECT toString(comm) AS comm, max(ranks) AS size, uniqExact(rank) AS told, uniqExact(seq) AS collectives "
        f"FROM leadline.{COLLECTIVE.name} WHERE {rows.mine('enqueued_ns')} GROUP BY comm "
        f"ORDER BY size DESC, collectives DESC, comm LIMIT {COMMS_MAX} SETTINGS final = 0"
    )
    return [{name: row[name] if name == "comm" else int(row[name]) for name in row} for row in found]


def _shown_run(rows: JobRows, runs: Sequence[Mapping[str, int]], now_ns: int) -> dict[str, Any] | None:
    """The newest run that began before the end of the span: since when, until when it told steps, how it is now."""
    begun = [run for run in runs if run["from_ns"] < rows.to_ns]
    if not begun:
        return None
    run = begun[-1]
    if run is not runs[-1]:
        return {**run, "state": ENDED}
    present = replace(rows.asked, at_ns=max(now_ns, rows.to_ns))
    found = lives_of(rows.store, present, run["from_ns"], [rows.job])
    ended = [life.ended_ns for key, life in found.items() if key[0] == rows.tenant and life.ended_ns is not None]
    if ended:
        return {**run, "to_ns": max(ended), "state": ENDED}
    return {**run, "state": RUNNING if _runs_still(present.at_ns - run["to_ns"], None) else SILENT}


def _runs(rows: JobRows) -> list[dict[str, Any]]:
    """Spans in which the job ran, by its steps, over all that is kept."""
    activity = rows.query(
        "SELECT min(start_ns) AS begin_ns, max(end_ns) AS end_ns, min(step) AS low, max(step) AS high "
        f"FROM leadline.{STEP.name} WHERE {rows.mine()} "
        f"GROUP BY intDiv(start_ns, {BUCKET_NS}) ORDER BY begin_ns, end_ns SETTINGS final = 0"
    )
    return [{"from_ns": from_ns, "to_ns": to_ns} for from_ns, to_ns in runs_of(activity)]
