"""The API's part about marks: `POST /api/v1/marks`, `GET /api/v1/rules`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field

from leadline.model.incidents import Mark
from leadline.server.asking import PROBLEMS, Cluster, Reading, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.incidents.marks import Feedback, marks_answer, save_mark
from leadline.views.incidents.types import MarksAnswer
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.rules import rules_answer

_TEXT = r"^[^\x00-\x1f\x7f]*$"  # one line


class MarkRequest(BaseModel):
    """What a person says of a cause (right, wrong) or of an incident (dismissed, comment, assigned)."""

    incident: str = Field(min_length=1, max_length=500, pattern=_TEXT)
    mark: Mark
    entity: str = Field(
        default="", max_length=500, pattern=_TEXT, description="of the named cause; empty: the only one"
    )
    rule: str = Field(default="", max_length=100, pattern=_TEXT)
    reason: str = Field(
        default="", max_length=2000, pattern=_TEXT,
        description="why; the text of a comment; of `assigned` whose the incident is now, nobody's if empty",
    )  # fmt: skip
    actor: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9._@-]*$", description="who says so")


router = guarded_router()


@router.post("/api/v1/marks", tags=["incidents"], **answers(MarksAnswer))
def mark(reader: Reading, asked: MarkRequest) -> dict[str, Any]:
    """Say that a named cause is right or wrong, dismiss an incident, comment on it, or assign it. For the role
    operator, and for tenants of their own incidents. The newest mark of a person counts."""
    principal = reader.principal
    feedback = Feedback(**asked.model_dump())
    with reader.turn():
        rows = save_mark(reader.parts.store, principal, feedback, reader.parts.now_ns())
    return {"schema": SCHEMA_VERSION, "marks": rows}


@router.get("/api/v1/marks", tags=["incidents"], **answers(MarksAnswer))
def marks(
    reader: Reading,
    incident: Annotated[str, Query(description="id of an incident; all if empty", max_length=500)] = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """What people said of causes and incidents, who and when; the newest first."""
    asked = reader.asked(cluster=cluster)
    with reader.turn():
        return marks_answer(reader.parts.store, asked, incident)


@router.get("/api/v1/rules", tags=["incidents"], responses=PROBLEMS)
def rules(reader: Reading, cluster: Cluster = "") -> dict[str, Any]:
    """Every rule that names causes: how often people found it right and wrong, and for whom it is silent."""
    asked = reader.asked(cluster=cluster)
    with reader.turn():
        return rules_answer(reader.parts.store, reader.one_cluster(asked))
