"""The API under /api/v1, with /health, /ready and /metrics. Reads; what writes is `ingest`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import Match

from leadline import __version__
from leadline.explain.config import ExplainConfig
from leadline.explain.explain import Explainer
from leadline.model.errors import BusyError, LeadlineError, RefusedError, StoreError, UnknownNameError, WorldError
from leadline.server.changes import Changes
from leadline.server.docs import mount_docs
from leadline.server.health import Parts
from leadline.server.metrics.collector import registry_of
from leadline.server.openapi.document import describe
from leadline.server.openapi.page import PATH as API_PAGE
from leadline.server.openapi.page import serve_api_page
from leadline.server.page import mount_page, not_found_page
from leadline.server.routes import routers
from leadline.server.routes.bundles import MEDIA_TYPE
from leadline.server.serving import Serving
from leadline.server.tokens.gate import Gate
from leadline.server.tokens.rights import Guarded, require_all_listed
from leadline.views.graph.view import Graphs
from leadline.views.search.answer import Search

PACKED_BYTES_MIN = 1000  # what is smaller fits a packet or two as it is

HELP = {"link": f'<{API_PAGE}>; rel="help"'}  # RFC 8288: where a program that asked wrongly may read more

HELLO = f"""Leadline {__version__}

  /api/v1/doctor           what is connected, how fresh, what is refused and why
  /api/v1/senders          how far the data of each sender has come, who is late or lost
  /api/v1/tables           every table; /api/v1/tables/TABLE its rows
  /api/v1/series           metric names, streams, label values
  /api/v1/telemetry        every sender and kind of telemetry, and what would not be known without it
  /metrics                 Leadline's own metrics
  /docs/api                everything that can be asked, for people; /openapi.json for programs

The same on the terminal: leadline doctor | show tables | show series | sql 'SELECT ...'
"""


def create_api(
    parts: Parts,
    gate: Gate,
    config_view: Callable[[], list[dict[str, Any]]],
    changes: Changes,
    config_text: str = "",
) -> FastAPI:
    """The API of a running server. Close `changes` before the server stops.

    `config_view` gives the effective settings with their origins, `config_text` is what a bundle keeps of them.
    """
    api = FastAPI(
        title="Leadline",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    api.router.route_class = Guarded
    api.state.serving = _serving(parts, gate, config_view, changes, config_text)
    # A page of 130 kB in 3 ms. Not what is packed already, and not streams of events (which it leaves out by itself).
    packed = (*DEFAULT_EXCLUDED_CONTENT_TYPES, MEDIA_TYPE)
    api.add_middleware(GZipMiddleware, minimum_size=PACKED_BYTES_MIN, compresslevel=4, exclude_content_types=packed)
    _explain_errors(api, gate)
    describe(api)
    serve_api_page(api)
    mount_page(api, HELLO)
    for router in routers():
        # As they are: `include_router` builds all of them anew, in the event loop, when the first request comes.
        api.router.routes.extend(router.routes)
    mount_docs(api)
    require_all_listed(api.routes)
    return api


def _serving(
    parts: Parts, gate: Gate, config_view: Callable[[], list[dict[str, Any]]], changes: Changes, config_text: str
) -> Serving:
    graphs = Graphs(parts.store, parts.now_ns)
    explainer = parts.explainer or Explainer(ExplainConfig(), Path(parts.store.config.path), parts.intake.counts.add)
    search = Search(parts.store)
    return Serving(parts, gate, changes, graphs, search, explainer, registry_of(parts), config_view, config_text)


def _explain_errors(api: FastAPI, gate: Gate) -> None:
    """Every error as `ErrorAnswer`, with the status that HTTP has for it."""

    @api.exception_handler(LeadlineError)
    def ours(_: Request, error: LeadlineError) -> JSONResponse:
        status, reason = _status(error)
        headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, BusyError) else None
        if status == 401 and gate.asks:
            headers = {"www-authenticate": "Bearer"}
        return _problem(status, reason, str(error), headers)

    @api.exception_handler(RequestValidationError)
    def misunderstood(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        # The command line and the page show this to people who never wrote a query: `limit`, not `query.limit`.
        where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
        return _problem(422, "bad_request", f"{where}: {first['msg']}", HELP)

    @api.exception_handler(HTTPException)
    def not_served(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return not_found_page(request) or _problem(
                404, "not_found", f"nothing is served at {request.url.path}; see {API_PAGE} for what is", HELP
            )
        if error.status_code == 405:
            text = f"{request.url.path} does not take {request.method}; see {API_PAGE}"
            return _problem(405, "method", text, {"allow": ", ".join(_allowed(request))})
        return _problem(error.status_code, "bad_request", str(error.detail), error.headers)


def _allowed(request: Request) -> list[str]:
    """The methods that a path takes, of all its routes: the framework names those of the first (RFC 9110, 15.5.6)."""
    matching = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in matching for method in getattr(route, "methods", None) or ()})


def _problem(status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"reason": reason, "message": message}}, status, headers)


def _status(error: LeadlineError) -> tuple[int, str]:
    if isinstance(error, RefusedError):
        return {"unauthorized": 401, "forbidden": 403, "unknown_table": 404, "unknown_incident": 404}.get(
            error.reason, 400
        ), error.reason
    if isinstance(error, UnknownNameError):
        return 404, "unknown_name"
    if isinstance(error, BusyError):
        return 429, "busy"
    if isinstance(error, StoreError):
        return 503, "store"
    if isinstance(error, WorldError):
        return 503, "world"
    return 400, "bad_request"


def openapi_json(api: FastAPI) -> str:
    """The OpenAPI document, as the page's types are generated from it."""
    return json.dumps(api.openapi(), indent=1, sort_keys=True)
