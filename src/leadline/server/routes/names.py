"""The API's part about names: `GET /api/v1/names`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, Field

from leadline.server.asking import Cluster, Ways
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


def mount_names(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    @api.get("/api/v1/names", tags=["graph"], **ways.answers(NamesAnswer))
    def names(
        request: Request,
        name: Annotated[str, Query(description="as somebody wrote it", min_length=1, max_length=1000)],
        kind: Annotated[Kind, Query(description="what it is of")] = Kind.ANY,
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """Whether anything is known by a name; if not, which names are near to it, or else the newest."""
        with ways.turn():
            return names_answer(ways.parts.store, ways.asked(request, cluster=cluster), name, kind)
