"""The OpenAPI document: what FastAPI derives from the routes, with what it cannot know: groups, summaries, ways in."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI

from leadline.server.openapi import ingest

# Every group of operations, in the order of the page: what people ask first, first.
TAGS: dict[str, str] = {
    "incidents": "What is wrong, why, and what to do: incidents with ranked causes and evidence, feedback on them.",
    "jobs": "Jobs over time: steps, lateness of ranks, collectives, overlays of events.",
    "ledger": "Where the GPU time of a job went, what it cost, what failed, what would save most.",
    "expectations": "Service level expectations: how well they are met, error budgets, burn rates.",
    "fleet": "All hosts and GPUs at one time.",
    "graph": "What runs on what and is linked to what; paths and flows through the fabric.",
    "time": "Clocks of hosts, and one-way delays between them.",
    "compare": "Two jobs, spans or groups of hosts against each other.",
    "tables": "Everything that is stored, as rows: tables, metric streams, SQL.",
    "ingest": "Sending telemetry: remote-write, OTLP, rows, event rings.",
    "bundles": "Recordings: taking one, and how far a replay is.",
    "state": "How Leadline itself is: what is connected, what was refused, analyses, settings.",
    "session": "Signing in to the page with a token.",
    "process": "Liveness, readiness, metrics.",
}
DESCRIPTION = """Leadline finds what slows or breaks a distributed training job.

Times are integers of ns since 1970; where one is asked for, ISO 8601 and -15m do too. Every answer carries `schema`,
which grows when a field changes its meaning or goes away. Errors have one shape, ErrorAnswer: a reason for programs and
a message for people.

Without tokens the server answers this machine alone; with them, send the header `Authorization: Bearer TOKEN`."""


def describe(api: FastAPI) -> None:
    """Have an API describe itself so; its routes are complete by then."""
    derive = api.openapi

    def described() -> dict[str, Any]:
        if api.openapi_schema is None:
            api.openapi_schema = _completed(derive())
        return api.openapi_schema

    api.openapi = described  # type: ignore[method-assign]  # FastAPI's documented way


def _completed(found: dict[str, Any]) -> dict[str, Any]:
    found["info"]["description"] = DESCRIPTION
    for item in found["paths"].values():
        for operation in item.values():
            operation["summary"] = _first_sentence(operation.get("description", operation["summary"]))
    found["paths"].update(ingest.paths())
    found["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    return found


def _first_sentence(text: str) -> str:
    """The first sentence of a docstring, without its full stop: what a list of operations shows."""
    whole = " ".join(text.split())
    return re.split(r"(?<=[a-z0-9`)])[.:;] (?=[A-Z`])|\.$", whole)[0]
