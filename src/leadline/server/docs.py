"""The docs: the site that `scripts/build-docs` made of docs/, served at /docs to whoever asks.

It is a mount, so routes at /docs/..., such as that of the API reference, come first if they are added before it.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from leadline.server.page import FRESH, HEADERS

DOCS = "/docs"
BUILT = Path(__file__).parent / "docs"
NOT_BUILT = """The docs are not part of this installation. The same pages are the folder docs/ of the source code.

In a checkout `scripts/build-docs` builds them; then restart Leadline.
"""


def mount_docs(api: FastAPI, built: Path = BUILT) -> None:
    """Serve the docs; where they were not built, say how to get them. After all other routes under /docs."""
    api.mount(DOCS, _Site(directory=built, html=True) if (built / "index.html").is_file() else _not_built, name="docs")


async def _not_built(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(NOT_BUILT, 404, headers=HEADERS)(scope, receive, send)


class _Site(StaticFiles):
    """The built files; a folder is its index.html, an address that is none gets the site's own 404.html."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file. Names carry no hash, so a browser asks each time whether it changed. Errors: HTTPException(404)."""
        response = await super().get_response(path, scope)
        response.headers.update(FRESH)
        return response
