"""The API's part about analyses: `GET /api/v1/analyses`, `POST /api/v1/backfill`."""

from __future__ import annotations

from pydantic import BaseModel, Field

from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import OPERATE
from leadline.server.analyses import told, told_to_tenants
from leadline.server.asking import PROBLEMS, Reading
from leadline.server.tokens.rights import guarded_router
from leadline.views.rows import SCHEMA_VERSION

INT64_MAX = 2**63 - 1


class StateAnswer(BaseModel):
    """How one analysis does."""

    name: str
    version: int
    doc: str
    state: str = Field(
        description="ok, behind, failed (its last window), idle (nothing analysed yet), clock (the clock was set)"
    )
    judged_to_ns: int | None
    lag_s: float | None
    windows: int
    failures: int
    revisions: int
    late_rows: int
    waiting: int
    past: int = Field(description="of `waiting`, windows of the past: they are judged when there is time")
    last_error: str
    last_took_s: float | None
    rows_in: int
    rows_out: int


class AnalysesAnswer(BaseModel):
    """Every analysis that runs, in the order in which they read each other."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    analyses: list[StateAnswer]


class BackfillRequest(BaseModel):
    """A span whose windows are judged again; all analyses, or those named."""

    from_ns: int = Field(ge=-INT64_MAX, le=INT64_MAX)
    to_ns: int = Field(ge=-INT64_MAX, le=INT64_MAX)
    analyses: list[str] = Field(default_factory=list, max_length=100)


class BackfillAnswer(BaseModel):
    """How many windows are queued to be analysed again; windows without rows are skipped."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    windows: int


router = guarded_router()


@router.get("/api/v1/analyses", tags=["state"], responses=PROBLEMS)
def analyses(reader: Reading) -> AnalysesAnswer:
    """How each analysis does: how far it has come, what failed. Counts are over all tenants and, like errors,
    only for the role operator; others get 0."""
    runner = reader.parts.runner
    states = told(runner) if reader.principal.may(OPERATE) else told_to_tenants(runner)
    return AnalysesAnswer(schema=SCHEMA_VERSION, analyses=[StateAnswer(**each) for each in states])


@router.post("/api/v1/backfill", tags=["state"], responses=PROBLEMS)
def backfill(reader: Reading, asked: BackfillRequest) -> BackfillAnswer:
    """Analyse the windows of a span again, or for the first time. For the role operator."""
    if not reader.principal.may(OPERATE):
        raise RefusedError("unauthorized", "re-analysis needs the role operator")
    runner = reader.parts.runner
    if runner is None:
        raise UsageError("no analysis runs in this server")
    windows = runner.backfill(asked.from_ns, asked.to_ns, asked.analyses)
    return BackfillAnswer(schema=SCHEMA_VERSION, windows=windows)
