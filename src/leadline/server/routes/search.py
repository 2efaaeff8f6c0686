"""The API's part about searching: `GET /api/v1/search`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.server.asking import Cluster, From, Reading, To, answers
from leadline.server.expectations import expectations_answer
from leadline.server.tokens.rights import guarded_router
from leadline.views.search.answer import LIMIT, LIMIT_MAX, SearchAnswer

router = guarded_router()


@router.get("/api/v1/search", tags=["graph"], **answers(SearchAnswer))
def search(
    reader: Reading,
    q: Annotated[
        str,
        Query(description="words, in any order and case: all of them are in the name or description", max_length=200),
    ],
    since: From = "",
    until: To = "",
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="hits of each kind")] = LIMIT,
    cluster: Cluster = "",
) -> dict[str, Any]:
    """Jobs, ranks, hosts, GPUs, ports, switches, addresses, metrics, incidents, expectations and rules by name, the
    best first. `from` and `to` narrow the incidents."""
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        expected = expectations_answer(reader.parts.store, asked)["expectations"]
        return reader.serving.search.answer(asked, q, from_ns, limit, expected)
