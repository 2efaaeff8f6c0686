"""The ways in, as OpenAPI describes them: they are no routes of the framework, so it cannot do so by itself."""

from __future__ import annotations

from typing import Any

from leadline.ingest.decode import RING, ROWS
from leadline.ingest.http import WRITE_PATH

TAG = "ingest"
_PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}
_REFUSALS = {
    "400": "The body cannot be decoded, or a row is not valid; sending it again will not help",
    "401": "No good token",
    "403": "The token may not write, or the table is written by analyses",
    "408": "The body was not whole within 120 s",
    "413": "The body is too large: ingest.body_bytes_max, ingest.decompressed_bytes_max",
    "415": "A content encoding or type that this route does not take",
    "429": "A queue is full; try again after Retry-After (remote-write is answered 503 instead)",
    "503": "The store does not take it now; try again after Retry-After",
}  # fmt: skip
PROTOBUF, JSON, OCTETS = "application/x-protobuf", "application/json", "application/octet-stream"
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_COUNTED = {
    "type": "object", "required": ["rows"],
    "properties": {"rows": {"type": "integer", "description": "rows stored"}},
}  # fmt: skip
_OF_RING = {
    "type": "object", "required": ["rows", "tables", "refused"],
    "properties": {
        "rows": {"type": "integer", "description": "rows stored"},
        "tables": {"type": "object", "additionalProperties": {"type": "integer"}, "description": "by table"},
        "refused": {"type": "object", "additionalProperties": {"type": "integer"}, "description": "by reason"},
    },
}  # fmt: skip


def paths() -> dict[str, Any]:
    """The path items of all ways in over HTTP."""
    otlp = "Also at port 4318, where OpenTelemetry's exporters send by default; OTLP/gRPC is at port 4317."
    return {
        WRITE_PATH: _post(
            "write", "Prometheus remote-write 1.0 and 2.0",
            "Snappy in its block format, with or without the header that says so. Stored before it is answered.",
            {PROTOBUF: _BYTES}, {"204": {"description": "Stored"}},
        ),
        f"{ROWS}{{table}}": _post(
            "rows", "Rows of a table",
            "NDJSON, a JSON array or an Arrow IPC stream; docs/formats/rows.md has the types. One invalid row refuses "
            "the whole body, and the answer names it.",
            {"application/x-ndjson": {"schema": {"type": "string"}},
             JSON: {"schema": {"type": "array", "items": {"type": "object"}}},
             "application/vnd.apache.arrow.stream": _BYTES},
            {"200": {"description": "Stored", "content": {JSON: {"schema": _COUNTED}}},
             "404": {"description": "No table of that name takes rows", "content": _PROBLEM}},
            [{"name": "table", "in": "path", "required": True, "schema": {"type": "string"},
              "description": "name of a table, as `/api/v1/tables` lists them"}],
        ),
        RING: _post(
            "ring", "Segments of event rings", "What agents read from the rings of jobs: docs/formats/ring.md.",
            {OCTETS: _BYTES}, {"200": {"description": "Stored", "content": {JSON: {"schema": _OF_RING}}}},
        ),
        "/v1/metrics": _post(
            "otlp_metrics", "OTLP metrics", f"Protobuf or JSON, gzip or none. {otlp}",
            {PROTOBUF: _BYTES, JSON: {"schema": {"type": "object"}}}, _otlp(),
        ),
        "/v1/logs": _post(
            "otlp_logs", "OTLP logs", f"Protobuf or JSON, gzip or none; a record becomes a row of `event`. {otlp}",
            {PROTOBUF: _BYTES, JSON: {"schema": {"type": "object"}}}, _otlp(),
        ),
    }  # fmt: skip


def _otlp() -> dict[str, Any]:
    what = "Stored; partial_success says how much was refused, and why"
    return {"200": {"description": what, "content": {PROTOBUF: _BYTES, JSON: {"schema": {"type": "object"}}}}}


def _post(
    name: str, summary: str, text: str, body: dict[str, Any], done: dict[str, Any],
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    problems = {status: {"description": what, "content": _PROBLEM} for status, what in _REFUSALS.items()}
    operation = {
        "tags": [TAG], "summary": summary, "description": text, "operationId": f"ingest_{name}",
        "requestBody": {"required": True, "content": body}, "responses": {**done, **problems},
    }  # fmt: skip
    return {"post": operation | ({"parameters": parameters} if parameters else {})}
