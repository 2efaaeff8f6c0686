"""The API's part that compares: `GET /api/v1/compare`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.server.asking import At, Cluster, Reading, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.compare.types import CompareAnswer
from leadline.views.compare.view import compare_answer

router = guarded_router()


@router.get("/api/v1/compare", tags=["compare"], **answers(CompareAnswer))
def compare(
    reader: Reading,
    a: Annotated[str, Query(description="bert-7, bert-7@-2h, host:h3, gpu:GPU-5c1e", min_length=1, max_length=1000)],
    b: Annotated[str, Query(description="the same; if empty the peers of a", max_length=1000)] = "",
    at: At = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """What differs between two runs, hosts or GPUs: versions and settings beside times. No claim of a cause."""
    question = reader.asked(at, cluster)
    with reader.turn():
        return compare_answer(reader.parts.store, question, a, b)
