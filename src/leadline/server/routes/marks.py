"""The API's part about marks: `POST /api/v1/marks`, `GET /api/v1/rules`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, Field

from leadline.model.incidents import Mark
from leadline.server.asking import Cluster, Ways
from leadline.views.incidents.marks import Said, marks_answer, save_mark
from leadline.views.incidents.types import MarksAnswer
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.rules import rules_answer

_TEXT = r"^[^\x00-\x1f\x7f]*$"  # one line


class MarkRequest(BaseModel):
    """What a person says of a cause (right, wrong) or of an incident (dismissed)."""

    incident: str = Field(min_length=1, max_length=500, pattern=_TEXT)
    mark: Mark
    entity: str = Field(
        default="", max_length=500, pattern=_TEXT, description="of the named cause; empty: the only one"
    )
    rule: str = Field(default="", max_length=100, pattern=_TEXT)
    reason: str = Field(default="", max_length=2000, pattern=_TEXT)
    actor: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9._@-]*$", description="who says so")


def mount_marks(api: FastAPI, ways: Ways) -> None:
    """Add the end points."""

    @api.post("/api/v1/marks", tags=["incidents"], **ways.answers(MarksAnswer))
    def mark(request: Request, asked: MarkRequest) -> dict[str, Any]:
        """Say that a named cause is right or wrong, or dismiss an incident. For the role operator, and for tenants of
        their own incidents. The newest mark of a person counts."""
        principal = ways.who(request)
        said = Said(**asked.model_dump())
        with ways.turn():
            rows = save_mark(ways.parts.store, principal, said, ways.parts.now_ns())
        return {"schema": SCHEMA_VERSION, "marks": rows}

    @api.get("/api/v1/marks", tags=["incidents"], **ways.answers(MarksAnswer))
    def marks(
        request: Request,
        incident: Annotated[str, Query(description="id of an incident; all if empty", max_length=500)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What people said of causes and incidents, who and when; the newest first."""
        asked = ways.asked(request, cluster=cluster)
        with ways.turn():
            return marks_answer(ways.parts.store, asked, incident)

    @api.get("/api/v1/rules", tags=["incidents"], responses=ways.problems)
    def rules(request: Request, cluster: Cluster = "") -> dict[str, Any]:
        """Every rule that names causes: how often people found it right and wrong, and for whom it is silent."""
        asked = ways.asked(request, cluster=cluster)
        with ways.turn():
            return rules_answer(ways.parts.store, ways.one_cluster(asked))
