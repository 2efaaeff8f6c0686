"""`GET /api/v1/incidents/{incident}/report`: an incident as one HTML file."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from leadline.server.asking import Cluster, Ways
from leadline.views.incidents.report import HEADERS, report


def mount_report(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    # Not of the class HTMLResponse: problems, which are JSON, would be described as HTML too.
    @api.get(
        "/api/v1/incidents/{incident}/report", tags=["incidents"], response_class=Response,
        responses=ways.problems | {200: {"description": "the report", "content": {"text/html": {}}}},
    )  # fmt: skip
    def incident_report(request: Request, incident: str, cluster: Cluster = "") -> Response:
        """An incident as one HTML file: causes, evidence with its plots, explanation, what to do, what was said."""
        asked = ways.asked(request, cluster=cluster)
        with ways.turn():
            text = report(ways.parts.store, asked, incident)
        return HTMLResponse(text, headers=HEADERS)
