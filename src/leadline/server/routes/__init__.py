"""The end points of the API, a file for each subject: who asks for what, and the view that answers."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from fastapi import APIRouter

MODULES = (
    "leadline.server.routes.alerts",
    "leadline.server.routes.analyses",
    "leadline.server.routes.anomalies",
    "leadline.server.routes.bundles",
    "leadline.server.routes.changes",
    "leadline.server.routes.compare",
    "leadline.server.routes.entities.explore",
    "leadline.server.routes.entities.known",
    "leadline.server.routes.entities.page",
    "leadline.server.routes.entities.samples",
    "leadline.server.routes.explanation",
    "leadline.server.routes.fleet",
    "leadline.server.routes.freeze",
    "leadline.server.routes.graph",
    "leadline.server.routes.incidents",
    "leadline.server.routes.jobs",
    "leadline.server.routes.ledger",
    "leadline.server.routes.marks",
    "leadline.server.routes.mesh",
    "leadline.server.routes.mesh_members",
    "leadline.server.routes.messages",
    "leadline.server.routes.names",
    "leadline.server.routes.now",
    "leadline.server.routes.process",
    "leadline.server.routes.report",
    "leadline.server.routes.search",
    "leadline.server.routes.session",
    "leadline.server.routes.sle",
    "leadline.server.routes.state",
    "leadline.server.routes.symptoms",
    "leadline.server.routes.tables",
    "leadline.server.routes.telemetry",
    "leadline.server.routes.whatif",
)
"""Every module of end points: each has a `router`. A new subject is its file and a line here."""


@cache
def routers() -> tuple[APIRouter, ...]:
    """The routers of all of them, in this order. Loaded when asked: types of answers stand in some of them."""
    return tuple(_router(name) for name in MODULES)


def _router(module: str) -> APIRouter:
    found: APIRouter = import_module(module).router
    return found
