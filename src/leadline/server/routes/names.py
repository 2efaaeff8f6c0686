"""The API's part about names: `GET /api/v1/names`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field

from leadline.server.asking import Cluster, Reading, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.names import Kind, names_answer


class NamesAnswer(BaseModel):
    """Whether the name is known, and what may be said where it is not: `text`, with `near` or else `newest` in it."""

    schema_version: int = Field(alias="schema")
    name: str
    kind: Kind
    known: bool
    near: list[str]
    newest: list[str]
    text: str


router = guarded_router()


@router.get("/api/v1/names", tags=["graph"], **answers(NamesAnswer))
def names(
    reader: Reading,
    name: Annotated[str, Query(description="as somebody wrote it", min_length=1, max_length=1000)],
    kind: Annotated[Kind, Query(description="what it is of")] = Kind.ANY,
    cluster: Cluster = "",
) -> dict[str, Any]:
    """Whether anything is known by a name; if not, which names are near to it, or else the newest."""
    with reader.turn():
        return names_answer(reader.parts.store, reader.asked(cluster=cluster), name, kind)
