"""The API's part about jobs: `GET /api/v1/jobs`, `/api/v1/jobs/{job}` and what its plots show, `/api/v1/overlays`."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import Response

from leadline.server.asking import PROBLEMS, Cluster, From, OneJob, Reading, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.entity.of_job import hardware_answer
from leadline.views.entity.types import HardwareAnswer
from leadline.views.jobs.calls import calls_answer
from leadline.views.jobs.collectives import collectives_answer
from leadline.views.jobs.lateness import lateness_answer
from leadline.views.jobs.overlays import overlays_answer
from leadline.views.jobs.rows import JobRows
from leadline.views.jobs.steps import steps_answer
from leadline.views.jobs.trace import trace_answer
from leadline.views.jobs.types import (
    CallsAnswer,
    CollectivesAnswer,
    JobAnswer,
    JobsAnswer,
    LatenessAnswer,
    OverlaysAnswer,
    StepsAnswer,
)
from leadline.views.jobs.view import JOBS_MAX, job_answer, jobs_answer

POINTS_MAX = 2000
NamedJob = Annotated[str, Path(description="bert-1 or job:bert-1", min_length=1, max_length=1000)]
Points = Annotated[int, Query(ge=1, le=POINTS_MAX, description="at most, over the span")]

router = guarded_router()


def _rows(reader: Reading, job: str, since: str, until: str, cluster: str) -> JobRows:
    """Asks the store: call it within a turn."""
    asked, from_ns = reader.span(since, until, cluster)
    return JobRows.of(reader.parts.store, reader.one_cluster(asked), job, from_ns)


@router.get("/api/v1/jobs", tags=["jobs"], **answers(JobsAnswer))
def jobs(
    reader: Reading,
    since: From = "",
    until: To = "",
    match: Annotated[str, Query(description="part of the name", max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=JOBS_MAX, description="jobs at most")] = JOBS_MAX,
    cluster: Cluster = "",
) -> dict[str, Any]:
    """Jobs of a span, the last hour if none is asked for: what they lost, how fast they go, whether they run."""
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        return jobs_answer(reader.parts.store, asked, from_ns, match, limit)


@router.get("/api/v1/jobs/{job:path}/steps", tags=["jobs"], **answers(StepsAnswer))
def steps(
    reader: Reading, job: NamedJob, since: From = "", until: To = "", points: Points = 600, cluster: Cluster = ""
) -> dict[str, Any]:
    """Step time, phases, loss and throughput over a span, binned."""
    with reader.turn():
        return steps_answer(_rows(reader, job, since, until, cluster), points)


@router.get("/api/v1/jobs/{job:path}/lateness", tags=["jobs"], **answers(LatenessAnswer))
def lateness(
    reader: Reading, job: NamedJob, since: From = "", until: To = "", points: Points = 200, cluster: Cluster = ""
) -> dict[str, Any]:
    """How late each rank comes to its collectives, by rank and time."""
    with reader.turn():
        return lateness_answer(_rows(reader, job, since, until, cluster), points)


@router.get("/api/v1/jobs/{job:path}/collectives", tags=["jobs"], **answers(CollectivesAnswer))
def collectives(
    reader: Reading, job: NamedJob, since: From = "", until: To = "", cluster: Cluster = ""
) -> dict[str, Any]:
    """Each kind of collective: how many, how long, how fast, who comes last."""
    with reader.turn():
        return collectives_answer(_rows(reader, job, since, until, cluster))


@router.get("/api/v1/jobs/{job:path}/hardware", tags=["jobs"], **answers(HardwareAnswer))
def hardware(
    reader: Reading, job: NamedJob, since: From = "", until: To = "", points: Points = 200, cluster: Cluster = ""
) -> dict[str, Any]:
    """What the job's GPUs, ports and hosts measured: a band over all of them, and those far from the rest by name."""
    with reader.turn():
        return hardware_answer(_rows(reader, job, since, until, cluster), reader.graphs, points)


@router.get("/api/v1/jobs/{job:path}/calls", tags=["jobs"], **answers(CallsAnswer))
def calls(
    reader: Reading,
    job: NamedJob,
    rank: Annotated[int, Query(ge=0, le=2**31 - 1, description="whose collectives")],
    since: From = "",
    until: To = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """Single collectives of a rank in a short span, with the arrival of each rank."""
    with reader.turn():
        return calls_answer(_rows(reader, job, since, until, cluster), rank)


@router.get("/api/v1/jobs/{job:path}/trace", tags=["jobs"], responses=PROBLEMS)
def trace(reader: Reading, job: NamedJob, since: From = "", until: To = "", cluster: Cluster = "") -> Response:
    """A trace in Chrome's JSON format for ui.perfetto.dev: ranks as processes, steps, phases and collectives as slices,
    events as instants."""
    with reader.turn():
        rows = _rows(reader, job, since, until, cluster)
        body = json.dumps(trace_answer(rows), separators=(",", ":"), allow_nan=False)
    name = re.sub(r"[^\w.-]+", "-", rows.job)
    headers = {"content-disposition": f'attachment; filename="{name}.trace.json"'}
    return Response(body, media_type="application/json", headers=headers)


# After those that name more of a path: names of jobs may have slashes.
@router.get("/api/v1/jobs/{job:path}", tags=["jobs"], **answers(JobAnswer))
def job(reader: Reading, job: NamedJob, since: From = "", until: To = "", cluster: Cluster = "") -> dict[str, Any]:
    """One job: its line of the list, where its ranks run, its communicators, its runs."""
    with reader.turn():
        return job_answer(_rows(reader, job, since, until, cluster), reader.parts.now_ns())


@router.get("/api/v1/overlays", tags=["jobs"], **answers(OverlaysAnswer))
def overlays(reader: Reading, job: OneJob, since: From = "", until: To = "", cluster: Cluster = "") -> dict[str, Any]:
    """What happened to a job and what it stands on: events, checkpoints and incidents, for the time axis."""
    with reader.turn():
        return overlays_answer(_rows(reader, job, since, until, cluster))
