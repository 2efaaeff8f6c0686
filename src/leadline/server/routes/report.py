"""`GET /api/v1/incidents/{incident}/report`: an incident as one HTML file."""

from __future__ import annotations

from fastapi.responses import HTMLResponse, Response

from leadline.server.asking import PROBLEMS, Cluster, Reading, SomeIncident
from leadline.server.tokens.rights import guarded_router
from leadline.views.incidents.report import HEADERS, report

router = guarded_router()


# Not of the class HTMLResponse: problems, which are JSON, would be described as HTML too.
@router.get(
    "/api/v1/incidents/{incident}/report", tags=["incidents"], response_class=Response,
    responses=PROBLEMS | {200: {"description": "the report", "content": {"text/html": {}}}},
)  # fmt: skip
def incident_report(reader: Reading, incident: SomeIncident, cluster: Cluster = "") -> Response:
    """An incident as one HTML file: causes, evidence with its plots, explanation, what to do, what was said."""
    asked = reader.asked(cluster=cluster)
    with reader.turn():
        text = report(reader.parts.store, asked, incident)
    return HTMLResponse(text, headers=HEADERS)
