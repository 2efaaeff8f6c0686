"""The API's part about incident bundles: `GET /api/v1/bundle` records one, `GET /api/v1/replay` tells how one plays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from leadline.model.errors import BusyError
from leadline.model.principal import OPERATE
from leadline.server.asking import PROBLEMS, Reading
from leadline.server.health import Parts
from leadline.server.tokens.rights import guarded_router
from leadline.store.bundle import Draft, draft_bundle
from leadline.store.bundle_rows import Span
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.times import SHORT_FORMS, parse_time

MEDIA_TYPE = "application/x-tar"
USUAL_SPAN = "-10m"
_NO_CONFIG = "# The configuration is for the role operator.\n"
_BUNDLE: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}

router = guarded_router()


class ReplayAnswer(BaseModel):
    """How far a replay is.

    `state`: off (live telemetry is taken), waiting, running, judging (all was played, verdicts are not complete yet),
    done, stopped, failed. `compiling`: steps done and all steps, while analyses are compiled (once on a machine).
    """

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    state: str
    bundle: str = ""
    from_ns: int = 0
    to_ns: int = 0
    at_ns: int = 0
    speed: float = 0.0
    rows: int = 0
    rows_total: int = 0
    error: str = ""
    compiling: list[int] | None = None


@router.get("/api/v1/bundle", tags=["bundles"], responses=PROBLEMS | _BUNDLE, response_class=StreamingResponse)
def bundle(
    reader: Reading,
    since: Annotated[str, Query(alias="from", description=f"{SHORT_FORMS}; included")] = "",
    until: Annotated[str, Query(alias="to", description="the same; not included; now if empty")] = "",
    tenant: Annotated[str, Query(description="only rows of this tenant", max_length=64)] = "",
    cluster: Annotated[str, Query(description="only rows of this cluster", max_length=64)] = "",
) -> StreamingResponse:
    """Record an incident bundle: all tables of a span, as docs/formats/bundle.md says. 10 minutes by default."""
    parts, principal = reader.parts, reader.principal
    operator = principal.may(OPERATE)
    # Who acts as a tenant reads its rows, whatever it asks for.
    span = _span(parts, since, until)
    mine = (tenant or span.tenant) if operator else principal.tenant
    span = dataclasses.replace(span, tenant=mine, cluster=cluster or span.cluster)
    recording = reader.serving.recording
    if not recording.acquire(blocking=False):
        raise BusyError("another bundle is being recorded; ask again when it is done", 5)
    try:
        draft = _draft(parts, span, reader.serving.config_text, operator)
    finally:
        recording.release()
    return StreamingResponse(
        _sent(draft),
        media_type=MEDIA_TYPE,
        headers={"content-length": str(draft.size), "cache-control": "no-store"},
    )


@router.get("/api/v1/replay", tags=["bundles"], responses=PROBLEMS)
def replay(reader: Reading) -> ReplayAnswer:
    """How far the replay is, where this server plays a bundle."""
    parts = reader.parts
    if parts.replay is None:
        return ReplayAnswer(schema=SCHEMA_VERSION, state="off")
    progress = parts.replay.progress
    if progress.state == "done" and parts.runner is not None and parts.runner.waiting():
        progress = dataclasses.replace(progress, state="judging")
    compiling = parts.kernels.progress if parts.kernels else None
    return ReplayAnswer(schema=SCHEMA_VERSION, compiling=compiling, **dataclasses.asdict(progress))


def _span(parts: Parts, since: str, until: str) -> Span:
    """The span asked for; without one the last minutes, or of a replay the whole recording."""
    now_ns = parts.now_ns()
    if parts.replay is not None:
        whole = parts.replay.manifest
        if not since and not until:
            return Span(whole.from_ns, whole.to_ns, whole.tenant, whole.cluster)
    return Span(parse_time(since or USUAL_SPAN, now_ns), parse_time(until, now_ns, end=True) if until else now_ns)


def _draft(parts: Parts, span: Span, config_text: str, operator: bool) -> Draft:
    """The bundle of a span; who is no operator reads no configuration, also not the one of a recording."""
    if parts.replay is None:
        # How far each stream reaches is written once an hour otherwise.
        parts.intake.save_streams(by_ns=0)
        redacted, configured = False, config_text
    else:
        # What was recorded is about that Leadline, not about the one that plays it.
        redacted, configured = parts.replay.manifest.redacted, parts.replay.bundle.config_text
    config = parts.store.config
    return draft_bundle(
        parts.store,
        span,
        configured if operator else _NO_CONFIG,
        redacted=redacted,
        # Not beside the store: a draft that fills its disk would spoil what is merged there. Where it is the same disk
        # all the same, the draft ends before appends would be refused.
        free_bytes_min=config.free_bytes_min,
    )


def _sent(draft: Draft) -> Iterator[bytes]:
    with draft:
        yield from draft.chunks()
