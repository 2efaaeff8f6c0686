"""Symptoms, causes and what to do: the answer behind `leadline diagnose`; or how it is known that there are none.

    incidents (incidents_view) + what was watched ──> state, in the manner of Nagios, and why

`ok` needs a reason: steps that come, and a judgement of them. A job without data, or without a judgement, is
`unknown`, never fine.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from leadline.model.ids import kind_of
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, time_text
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.view import Incidents
from leadline.views.jobs.lives import lives_of
from leadline.views.ledger.config import LedgerConfig
from leadline.views.names import is_entity, unknown_text
from leadline.views.rows import SCHEMA_VERSION, json_rows

OK, WARNING, CRITICAL, UNKNOWN = "ok", "warning", "critical", "unknown"
LOOK_NS = 3600 * S  # jobs that told a step within it are there
OVER_NS = 24 * 3600 * S  # incidents that ended within it are told too
QUIET_NS = 60 * S  # without a step a job is silent after this, or after five of its own steps
QUIET_STEPS = 5
WAIT_S = 600.0  # what waiting costs is told of ten minutes, as `cause.waiting_cost`
JUDGED_LAG_NS = 60 * S  # how far the judgement may be behind the newest step
SYMPTOM_ANALYSES = ("stalls", "slowdowns")  # what must have looked before it can be said that there is no problem
INCIDENTS_SHOWN = 50
JOBS_NAMED = 8
# Tables whose newest row is told: (table, column with its time).
SOURCES = (("step", "end_ns"), ("collective", "enqueued_ns"), ("metric_sample", "time_ns"), ("event", "time_ns"),
           ("flow_sample", "time_ns"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """A job that tells steps, and until when it did."""

    job: str
    ranks: int
    step: int  # the newest
    since_ns: int
    until_ns: int
    step_s: float | None  # mean from one to the next
    ended_ns: int | None = None  # since when all its ranks are gone; None: not told, whether it runs or not


@dataclass(frozen=True, slots=True)
class Watched:
    """What was there to conclude from."""

    jobs: tuple[WatchedJob, ...] = ()
    until_ns: Mapping[str, int] = field(default_factory=dict)  # newest row by table, of SOURCES
    judged_ns: Mapping[str, int] = field(default_factory=dict)  # end of the newest window by analysis


class About(StrEnum):
    """What was asked for."""

    ALL = "all"
    JOB = "job"
    INCIDENT = "incident"
    ENTITY = "entity"
    UNKNOWN = "unknown"  # no job, no incident, no entity of that name


def diagnosis(
    about: str, incidents: Sequence[Incident], watched: Watched, at_ns: int, config: LedgerConfig, *, recorded: bool,
    kind: About | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What `/api/v1/diagnosis` says. `incidents` in their order of urgency, all about what was asked for.

    `recorded`: of a whole recording that ended at `at_ns`, in which what is over counts as much as what lasts.
    `kind`: what `about` names; a job, or everything where it is empty, if that is not told.
    """
    kind = kind or (About.JOB if about else About.ALL)
    state, why = state_of(about, incidents, watched, at_ns, recorded=recorded, kind=kind)
    ranks = {each.job: each.ranks for each in watched.jobs}
    incidents = [one.with_job_ends({each.job: each.ended_ns for each in watched.jobs}) for one in incidents]
    told = [
        {
            **incident_json(one),
            "gpus": sum(ranks.get(job, 0) for job in one.jobs) or None,
            "waiting_cost": waiting_cost(one),
        }
        for one in incidents[:INCIDENTS_SHOWN]
    ]
    return {
        "schema": SCHEMA_VERSION, "state": state, "about": about, "about_kind": kind, "at_ns": at_ns,
        "recorded": recorded, "why": why,
        "watched": asdict(watched), "price": config.gpu_hour_price, "currency": config.currency,
        "slow_workers": [], "incidents_total": len(incidents), "incidents": told,
    }  # fmt: skip


def waiting_cost(one: Incident) -> float:
    """GPU-seconds that ten minutes more cost: by the causes; where none is named, at the rate so far."""
    if not one.open or one.ended_with_ns is not None:
        return 0.0
    if one.chosen:
        return sum(cause.waiting_cost for cause in one.chosen)
    return one.lost_gpu_seconds / max(1.0, (one.seen_ns - one.start_ns) / S) * WAIT_S


def state_of(
    about: str, incidents: Sequence[Incident], watched: Watched, at_ns: int, *, recorded: bool, kind: About = About.JOB
) -> tuple[str, str]:
    """The state, and why it is not `ok` where no incident says so.

    critical: an incident is open and its cause known; warning: open, and its cause unknown or the incident
    suppressed; unknown: nothing to conclude from. An incident that was asked for by its id is itself the answer: once
    it is over the state is ok, whatever is known of the job now.
    """
    counting = [one for one in incidents if one.open or recorded]
    if any(one.known and not one.suppressed for one in counting):
        return CRITICAL, ""
    if counting:
        return WARNING, ""
    if kind is About.INCIDENT and incidents:
        return OK, _over(incidents)
    if kind is About.UNKNOWN or (kind is About.JOB and about and not any(each.job == about for each in watched.jobs)):
        return UNKNOWN, _nobody(about, watched)
    if not watched.jobs:
        return UNKNOWN, "no job reported a step: is one running, and does it send data (`leadline doctor`)?"
    there = [each for each in watched.jobs if each.ended_ns is None]
    if not recorded and there and all(_silent(each, at_ns) for each in there):
        last = max(there, key=lambda each: each.until_ns)
        quiet_s = (at_ns - last.until_ns) / S
        return UNKNOWN, (
            f"no step of {last.job} for {quiet_s:.0f} s, since {time_text(last.until_ns)}, and its end was not seen: "
            "its telemetry may have stopped (`leadline doctor`)"
        )
    if not recorded and not there:
        last = max(watched.jobs, key=lambda each: each.until_ns)
        state, why = _judged(watched, recorded=recorded)
        return state, why or f"{last.job} ended at {time_text(last.ended_ns or last.until_ns)}"
    return _judged(watched, recorded=recorded)


def _silent(job: WatchedJob, at_ns: int) -> bool:
    return at_ns - job.until_ns > max(QUIET_NS, QUIET_STEPS * (job.step_s or 0.0) * S)


def _over(incidents: Sequence[Incident]) -> str:
    """Since when all of these are over."""
    last = max(incidents, key=lambda one: one.end_ns or one.seen_ns)
    how = "it was not watched since" if last.unwatched else "it is over since"
    return f"{how} {time_text(last.end_ns or last.seen_ns)}"


def _nobody(about: str, watched: Watched) -> str:
    names = sorted(each.job for each in watched.jobs)
    near = difflib.get_close_matches(about, names, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if not names:
        return f"no data for a job or incident {about!r}, and no job is known (`leadline doctor`)"
    more = f" and {len(names) - JOBS_NAMED} more" if len(names) > JOBS_NAMED else ""
    there = f"; there {'is' if len(names) == 1 else 'are'} {', '.join(names[:JOBS_NAMED])}{more}"
    return f"no data for a job or incident {about!r}{hint or there}"


def _judged(watched: Watched, *, recorded: bool) -> tuple[str, str]:
    """Ok, where the newest steps were judged; else unknown."""
    newest_ns = max(each.until_ns for each in watched.jobs)
    for name in SYMPTOM_ANALYSES:
        judged_ns = watched.judged_ns.get(name)
        if judged_ns is None:
            return UNKNOWN, f"the analysis `{name}` has analysed nothing (`leadline show analyses`)"
        if not recorded and newest_ns - judged_ns > JUDGED_LAG_NS:
            behind_s = (newest_ns - judged_ns) / S
            return UNKNOWN, f"the analysis `{name}` is {behind_s:.0f} s behind the newest step (`leadline doctor`)"
    return OK, ""


# --- from a store -------------------------------------------------------------------------------------------------


def diagnosis_answer(
    store: Store, asked: Asked, about: str = "", config: LedgerConfig | None = None, over_ns: int = OVER_NS
) -> dict[str, Any]:
    """The diagnosis of a job, of an incident by its id, of what names an entity, or (empty) of everything.

    `over_ns`: incidents of a job, and of everything, count that ended within it. Errors: StoreError. A name that
    nobody told is an answer too: `unknown`, with what may have been meant.
    """
    kind, name, incidents = _named(Incidents(store, asked), about, asked, over_ns)
    watching = _Watching(store, asked)
    jobs = [each for one in incidents for each in one.jobs] if kind is About.INCIDENT else []
    watched = watching.watched([name] if kind is About.JOB else jobs)
    unknown = ""
    if not incidents and (kind is About.ENTITY or (kind is About.JOB and not watched.jobs)):
        unknown = unknown_text(store, asked, about)
        watched = watching.watched([])  # to say which jobs there are
        kind = About.UNKNOWN if unknown else kind
    answer = diagnosis(name, incidents, watched, asked.at_ns, config or LedgerConfig(), recorded=False, kind=kind)
    if unknown:
        return answer | {"why": unknown}
    if kind in (About.JOB, About.INCIDENT):
        answer["slow_workers"] = _slow_workers(store, asked, watched)
    return answer


def _slow_workers(store: Store, asked: Asked, watched: Watched) -> list[dict[str, Any]]:
    """Which ranks of the jobs that were asked for are slow, and since which step of the last hour of each."""
    # Here: it loads all analyses, and the words of this module are needed by the command line.
    from leadline.views.compare.sides import Reader
    from leadline.views.compare.slow_workers import slow_workers

    reader = Reader(store, asked)
    found = []
    for each in watched.jobs[:JOBS_NAMED]:
        from_ns = max(each.since_ns, each.until_ns - LOOK_NS)
        found.append({"job": each.job, **slow_workers(reader, each.job, from_ns, each.until_ns)})
    return found


def _named(found: Incidents, about: str, asked: Asked, over_ns: int) -> tuple[About, str, list[Incident]]:
    """What a name is of, as it is told, and the incidents about it.

    An incident that is named by its id, or by a part that it names, is told whenever it was; those of a job, and of
    all, if they were open within the last `over_ns`.
    """
    if not about:
        return About.ALL, "", found.between(asked.at_ns - over_ns)
    if incidents := found.named(about):
        return About.INCIDENT, about, incidents
    if is_entity(about) and kind_of(about) != "job":
        return About.ENTITY, about, [one for one in found.between() if one.names(about)]
    job = about.removeprefix("job:")
    return About.JOB, job, found.between(asked.at_ns - over_ns, job)


class _Watching:
    """What a store has of jobs and of their judgement, up to a time."""

    def __init__(self, store: Store, asked: Asked) -> None:
        self._store, self._asked = store, asked

    def _rows(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        given = {name: value for name, value in parameters.items() if f"{{{name}:" in sql}
        return json_rows(self._store.query(sql, {**self._asked.parameters(sql), **given}))

    def watched(self, jobs: Sequence[str]) -> Watched:
        """Of these jobs, or of all that told a step within the last hour; of named ones whenever it was."""
        rows = self._jobs(jobs, self._asked.at_ns - LOOK_NS)
        if jobs and not rows:
            last_ns = max((each.until_ns for each in self._jobs(jobs, None)), default=None)
            rows = [] if last_ns is None else self._jobs(jobs, last_ns - LOOK_NS)
        since_ns = min((each.since_ns for each in rows), default=self._asked.at_ns)
        ended = {
            key[2]: life.ended_ns
            for key, life in lives_of(self._store, self._asked, since_ns, [each.job for each in rows]).items()
        }
        rows = [replace(each, ended_ns=ended.get(each.job)) for each in rows]
        return Watched(tuple(rows), self._until(jobs), self._judged(jobs))

    def _where(self, jobs: Sequence[str], *more: str) -> str:
        names = ["job IN {jobs:Array(String)}"] if jobs else []
        return " AND ".join([*self._asked.conditions(), *names, *more])

    def _jobs(self, jobs: Sequence[str], from_ns: int | None) -> list[WatchedJob]:
        since = [] if from_ns is None else [f"end_ns > {from_ns}"]
        where = self._where(jobs, "end_ns <= {at_ns:Int64}", *since)
        rows = self._rows(
            "SELECT toString(job) AS name, uniqExact(rank) AS ranks, max(step) AS newest, max(step) - min(step) AS "
            "steps, min(start_ns) AS since, max(end_ns) AS until "
            f"FROM leadline.{STEP.name} WHERE {where} GROUP BY name ORDER BY name SETTINGS final = 0",
            jobs=list(jobs),
        )
        return [
            WatchedJob(
                row["name"], int(row["ranks"]), int(row["newest"]), int(row["since"]), int(row["until"]),
                (row["until"] - row["since"]) / S / row["steps"] if row["steps"] else None,
            )
            for row in rows
        ]  # fmt: skip

    def _until(self, jobs: Sequence[str]) -> dict[str, int]:
        """Newest row of each source within the last hour."""
        found = {}
        for table, column in SOURCES:
            of_jobs = jobs if table in (STEP.name, COLLECTIVE.name) else ()
            where = self._where(of_jobs, f"{column} <= {{at_ns:Int64}}", f"{column} > {self._asked.at_ns - LOOK_NS}")
            row = self._rows(
                f"SELECT max({column}) AS newest, count() AS n FROM leadline.{table} WHERE {where} SETTINGS final = 0",
                jobs=list(of_jobs),
            )[0]
            if row["n"]:
                found[table] = int(row["newest"])
        return found

    def _judged(self, jobs: Sequence[str]) -> dict[str, int]:
        """End of the newest window of each analysis, of these jobs (of all, the one that is least far)."""
        cluster = " AND cluster = {cluster:String}" if self._asked.cluster else ""
        part = "part IN {parts:Array(String)}" if jobs else "1"
        rows = self._rows(
            "SELECT toString(analysis) AS name, max(end_ns) AS newest "
            f"FROM leadline.{ANALYSIS_RUN.name} WHERE state = 'done' AND {part} AND end_ns > "
            f"{self._asked.at_ns - OVER_NS}{cluster} GROUP BY name ORDER BY name SETTINGS final = 0",
            parts=["", *jobs],
        )
        return {row["name"]: int(row["newest"]) for row in rows}
