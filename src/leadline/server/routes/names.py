"""The API's part about names: `GET /api/v1/names`, `/api/v1/entities`, `/api/v1/clusters`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field

from leadline.server.asking import PROBLEMS, Cluster, Reading, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.entities import MOST, ClustersAnswer, EntitiesAnswer, clusters_answer, entities_answer
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


@router.get("/api/v1/clusters", tags=["graph"], responses=PROBLEMS)
def clusters(reader: Reading) -> ClustersAnswer:
    """The clusters that telemetry tells of; other end points take one of these as `cluster`."""
    with reader.turn():
        return clusters_answer(reader.parts.store, reader.asked())


@router.get("/api/v1/entities", tags=["graph"], responses=PROBLEMS)
def entities(
    reader: Reading,
    match: Annotated[str, Query(description="part of an id, any case", max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
    cluster: Cluster = "",
) -> EntitiesAnswer:
    """Ids of jobs, ranks, GPUs, hosts, ports, switches, links: whatever relations tell of."""
    with reader.turn():
        return entities_answer(reader.parts.store, reader.asked(cluster=cluster), match, limit)
