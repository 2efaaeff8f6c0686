"""The API's part about jobs: `GET /api/v1/jobs`, `/api/v1/jobs/{job}` and what its plots show, `/api/v1/overlays`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request

from leadline.server.asking import Cluster, From, OneJob, To, Ways
from leadline.views.jobs.collectives import collectives_answer
from leadline.views.jobs.lateness import lateness_answer
from leadline.views.jobs.overlays import overlays_answer
from leadline.views.jobs.rows import JobRows
from leadline.views.jobs.steps import steps_answer
from leadline.views.jobs.types import (
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


def mount_jobs(api: FastAPI, ways: Ways) -> None:
    """Add the end points."""

    def rows(request: Request, job: str, since: str, until: str, cluster: str) -> JobRows:
        """Asks the store: call it within a turn."""
        asked, from_ns = ways.span(request, since, until, cluster)
        return JobRows.of(ways.parts.store, ways.one_cluster(asked), job, from_ns)

    def told(model: type[Any]) -> dict[int | str, Any]:
        return {**ways.problems, 200: {"model": model}}

    @api.get("/api/v1/jobs", tags=["jobs"], response_model=None, responses=told(JobsAnswer))
    def jobs(
        request: Request,
        since: From = "",
        until: To = "",
        match: Annotated[str, Query(description="part of the name", max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=JOBS_MAX)] = JOBS_MAX,
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """Jobs of a span, the last hour if none is asked for: what they lost, how fast they go, whether they run."""
        asked, from_ns = ways.span(request, since, until, cluster)
        with ways.turn():
            return jobs_answer(ways.parts.store, asked, from_ns, match, limit)

    @api.get("/api/v1/jobs/{job:path}/steps", tags=["jobs"], response_model=None, responses=told(StepsAnswer))
    def steps(
        request: Request, job: NamedJob, since: From = "", until: To = "", points: Points = 600, cluster: Cluster = ""
    ) -> dict[str, Any]:
        """Step time, phases, loss and throughput over a span, binned."""
        with ways.turn():
            return steps_answer(rows(request, job, since, until, cluster), points)

    @api.get("/api/v1/jobs/{job:path}/lateness", tags=["jobs"], response_model=None, responses=told(LatenessAnswer))
    def lateness(
        request: Request, job: NamedJob, since: From = "", until: To = "", points: Points = 200, cluster: Cluster = ""
    ) -> dict[str, Any]:
        """How late each rank comes to its collectives, by rank and time."""
        with ways.turn():
            return lateness_answer(rows(request, job, since, until, cluster), points)

    @api.get(
        "/api/v1/jobs/{job:path}/collectives", tags=["jobs"], response_model=None, responses=told(CollectivesAnswer)
    )
    def collectives(
        request: Request, job: NamedJob, since: From = "", until: To = "", cluster: Cluster = ""
    ) -> dict[str, Any]:
        """Each kind of collective: how many, how long, how fast, who comes last."""
        with ways.turn():
            return collectives_answer(rows(request, job, since, until, cluster))

    # After those that name more of a path: names of jobs may have slashes.
    @api.get("/api/v1/jobs/{job:path}", tags=["jobs"], response_model=None, responses=told(JobAnswer))
    def job(request: Request, job: NamedJob, since: From = "", until: To = "", cluster: Cluster = "") -> dict[str, Any]:
        """One job: its line of the list, where its ranks run, its communicators, its runs."""
        with ways.turn():
            return job_answer(rows(request, job, since, until, cluster), ways.parts.now_ns())

    @api.get("/api/v1/overlays", tags=["jobs"], response_model=None, responses=told(OverlaysAnswer))
    def overlays(
        request: Request, job: OneJob, since: From = "", until: To = "", cluster: Cluster = ""
    ) -> dict[str, Any]:
        """What happened to a job and what it stands on: events, checkpoints and incidents, for the time axis."""
        with ways.turn():
            return overlays_answer(rows(request, job, since, until, cluster))
