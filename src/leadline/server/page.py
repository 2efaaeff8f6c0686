"""The page: files that `web/` was built into, served at every address that is a view. No view needs another site.

/, /jobs/bert-7, ...  index.html        /page/*  built files, whose names change with what is in them
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

BUILT = Path(__file__).parent / "page"
# First parts of the page's addresses; a test holds them against web/src/routes.ts.
VIEWS = (
    "fleet", "jobs", "graph", "paths", "expectations", "incidents", "clock", "telemetry", "compare", "entity",
    "explore",
)  # fmt: skip
# Everything from here, nothing from elsewhere, in nobody's frame. Styles: uPlot and Cytoscape set them on elements.
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; worker-src 'self' blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
FRESH = {**HEADERS, "cache-control": "no-cache", "vary": "accept"}
DAY_S = 86_400


def mount_page(api: FastAPI, hello: str, built: Path = BUILT) -> None:
    """Serve the page; where it was not built, and to who asks for no HTML, say `hello`."""
    index = built / "index.html"
    there = index.is_file()

    def page(request: Request) -> Response:
        if not there or not _wants_page(request):
            return PlainTextResponse(hello if there else hello + NOT_BUILT, headers={"vary": "accept"})
        return FileResponse(index, headers=FRESH)

    @api.get("/", tags=["process"], response_class=PlainTextResponse)
    def root(request: Request) -> Response:
        """The page to a browser; to others what answers here."""
        return page(request)

    for view in VIEWS:
        for path in (f"/{view}", f"/{view}/{{rest:path}}"):
            api.add_api_route(path, page, methods=["GET"], include_in_schema=False)
    if there:
        api.mount("/page", _Built(directory=built / "page"), name="page")


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def not_found_page(request: Request, built: Path = BUILT) -> Response | None:
    """The page, which says that there is no such view, to a browser that was led to one; None for all who ask else."""
    path, index = request.url.path, built / "index.html"
    ours = path.startswith(("/api/", "/page/"))
    if ours or request.method != "GET" or not _wants_page(request) or not index.is_file():
        return None
    return FileResponse(index, 404, headers=FRESH)


NOT_BUILT = """
The page was not built: `make up` builds it (web/, Node 20).
"""


class _Built(StaticFiles):
    """Built files: their names carry a hash of what is in them, so they are kept for a year."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file. Errors: HTTPException(404)."""
        response = await super().get_response(path, scope)
        if response.status_code == 404:
            raise HTTPException(404)
        hashed = path.count("-") > 0
        kept = f"public, max-age={365 * DAY_S}, immutable" if hashed else f"public, max-age={DAY_S}"
        response.headers["cache-control"] = kept
        for name, value in HEADERS.items():
            response.headers[name] = value
        return response
