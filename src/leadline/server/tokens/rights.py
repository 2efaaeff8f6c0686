"""What each route of the API needs. A route that is not listed here stops the server from starting, and a test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from leadline import __version__
from leadline.ingest.http import peer_of
from leadline.model.principal import MARK, OPERATE, READ, WRITE, Caller
from leadline.server.page import VIEWS
from leadline.server.serving import serving_of
from leadline.server.shared import age_asked

OPEN = ""  # answers whoever asks: the process's state, the page's files, signing in
Route = tuple[str, str]

_GET_OPEN = (
    "/", "/docs/api", "/health", "/healthz", "/livez", "/-/healthy", "/ready", "/readyz", "/-/ready",
    *(f"/{view}{rest}" for view in VIEWS for rest in ("", "/{rest:path}")),
)  # fmt: skip
_GET_OPERATE = ("/api/v1/config", "/api/v1/alerts")
_GET_READ = (
    "/metrics",
    "/api/v1/analyses",
    "/api/v1/anomalies",
    "/api/v1/bundle",
    "/api/v1/changes",
    "/api/v1/clock",
    "/api/v1/clusters",
    "/api/v1/compare",
    "/api/v1/diagnosis",
    "/api/v1/doctor",
    "/api/v1/entities",
    "/api/v1/entity",
    "/api/v1/expectations",
    "/api/v1/explore",
    "/api/v1/failures",
    "/api/v1/fleet",
    "/api/v1/flows",
    "/api/v1/graph",
    "/api/v1/incidents",
    "/api/v1/incidents/{incident}",
    "/api/v1/incidents/{incident}/explanation",
    "/api/v1/incidents/{incident}/report",
    "/api/v1/incidents/{incident}/similar",
    "/api/v1/jobs",
    "/api/v1/jobs/{job:path}",
    "/api/v1/jobs/{job:path}/calls",
    "/api/v1/jobs/{job:path}/collectives",
    "/api/v1/jobs/{job:path}/hardware",
    "/api/v1/jobs/{job:path}/lateness",
    "/api/v1/jobs/{job:path}/steps",
    "/api/v1/jobs/{job:path}/trace",
    "/api/v1/ledger",
    "/api/v1/marks",
    "/api/v1/mesh",
    "/api/v1/mesh/flows",
    "/api/v1/mesh/host",
    "/api/v1/mesh/hosts",
    "/api/v1/mesh/pair",
    "/api/v1/messages",
    "/api/v1/names",
    "/api/v1/now",
    "/api/v1/overlays",
    "/api/v1/path",
    "/api/v1/replay",
    "/api/v1/rules",
    "/api/v1/samples",
    "/api/v1/search",
    "/api/v1/senders",
    "/api/v1/series",
    "/api/v1/session",
    "/api/v1/sle",
    "/api/v1/sle/minutes",
    "/api/v1/symptoms",
    "/api/v1/tables",
    "/api/v1/tables/{table}",
    "/api/v1/telemetry",
    "/api/v1/whatif",
)
RIGHTS: Mapping[Route, str] = {
    **{("GET", path): OPEN for path in _GET_OPEN},
    **{("GET", path): READ for path in _GET_READ},
    **{("GET", path): OPERATE for path in _GET_OPERATE},
    ("POST", "/api/v1/sql"): READ,
    ("POST", "/api/v1/marks"): MARK,
    ("POST", "/api/v1/mesh/members"): WRITE,
    ("POST", "/api/v1/backfill"): OPERATE,
    ("POST", "/api/v1/freeze"): OPERATE,
    ("POST", "/api/v1/session"): OPEN,
    ("DELETE", "/api/v1/session"): OPEN,
}


VERSION_HEADER = "leadline-version"
"""Of answers: a command line of another version says so."""


class Guarded(APIRoute):
    """A route that passes the server's gate, also if its function forgets to ask who it is; before the body is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of FastAPI behind the gate."""
        inner = super().get_route_handler()
        streams = self.response_class is StreamingResponse

        async def handler(request: Request) -> Response:
            right = RIGHTS[request.method, self.path]
            if right == OPEN:
                return await inner(request)
            serving = serving_of(request)
            principal = serving.gate(caller_of(request, right))
            if (age_s := age_asked(request)) and request.method == "GET" and not streams:
                encoding = request.headers.get("accept-encoding", "")
                question = (principal, request.url.path, request.url.query, encoding)
                answer = await serving.shared.answer(question, age_s, lambda: inner(request))
            else:
                answer = await inner(request)
            if request.method != "GET" and right not in (READ, WRITE):
                serving.shared.forget()
            answer.headers[VERSION_HEADER] = __version__  # whoever may ask may know; a scanner need not
            return answer

        return handler


def guarded_router() -> APIRouter:
    """A router for the end points of one file, all of which pass the gate."""
    return APIRouter(route_class=Guarded)


def routes_of(routes: Iterable[BaseRoute]) -> set[Route]:
    """Every end point of these routes, by method."""
    return {(method, each.path) for each in routes if isinstance(each, APIRoute) for method in each.methods or ()}


def require_all_listed(routes: Collection[BaseRoute]) -> None:
    """Every route says what it needs and passes the gate; else whoever adds one could forget it."""
    missing = routes_of(routes) - RIGHTS.keys()
    assert not missing, f"say in server/tokens/rights.py what these routes need: {sorted(missing)}"
    unguarded = [each.path for each in routes if isinstance(each, APIRoute) and not isinstance(each, Guarded)]
    assert not unguarded, f"make the router of these with guarded_router(): {unguarded}"


def caller_of(request: Request, wants: str, headers: Mapping[str, str] | None = None) -> Caller:
    """What is known of a request. `headers` are its own, if not given."""
    given = {name.lower(): value for name, value in request.headers.items()} if headers is None else headers
    return Caller(given, wants, request.method, request.url.path, peer_of(request.scope))
