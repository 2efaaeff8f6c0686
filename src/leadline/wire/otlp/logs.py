"""Decodes OTLP log requests into columns of the `event` table.

Logs come at a fraction of the rate of metrics, so upb (the protobuf runtime) decodes them and Python walks the
records. Source: opentelemetry-proto 1.x, logs/v1/logs.proto and collector/logs/v1.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from leadline.model.errors import DataError, RefusedError
from leadline.model.tables.verdicts import EVENT
from leadline.wire.otlp.text import attribute_texts, media_type_of, request_from_json, value_text

# Highest severity number of each of our words: 1-4 TRACE and 5-8 DEBUG, 9-12 INFO, 13-16 WARN, 17-20 ERROR,
# 21-24 FATAL (logs data model, "Severity Fields"). 0 is not told.
_SEVERITIES = ((0, ""), (8, "debug"), (12, "info"), (16, "warning"), (20, "error"), (24, "fatal"))

_BOOT_ID = "host.boot.id"  # not in the conventions; our agent and some collectors send it
_ID_SIZE = 8  # characters of a host's or boot's id that tell clocks apart
_TIME_MAX = 2**63 - 1

# Attributes of a resource are repeated in each of its rows, so a small body can ask for much.
ATTRIBUTE_BYTES_MAX = 1 << 28


def decode_otlp_logs(body: bytes, content_type: str) -> dict[str, list[Any]]:
    """Columns of `EVENT.given` from one ExportLogsServiceRequest, one row per record, in the order they came.

    Inputs: the unpacked body; `application/x-protobuf` or `application/json`.
    `time_ns` is the record's own time, else the time it was observed. `kind` is the event's name, else `log`.
    `attributes` are those of the resource, the scope and the record together (the record's win), with
    `severity_text`, `trace_id` and `span_id` where given. `entity_kind`, `entity` are left empty: the way in maps them.
    Errors: DataError for a body that is no such request, and for a record without any time.
    RefusedError for another content type, or if the attributes written out take more than ATTRIBUTE_BYTES_MAX.
    """
    if media_type_of(content_type) == "application/json":
        request = request_from_json(body, ExportLogsServiceRequest)
    else:
        request = ExportLogsServiceRequest()
        try:
            request.ParseFromString(bytes(body))
        except DecodeError as error:
            raise DataError("the OTLP body", "an ExportLogsServiceRequest", str(error)) from None
    columns: dict[str, list[Any]] = {column.name: [] for column in EVENT.given}
    size = 0
    for resource_logs in request.resource_logs:
        resource = attribute_texts(resource_logs.resource.attributes)
        for scope_logs in resource_logs.scope_logs:
            scope = scope_logs.scope.name
            common = {**resource, **attribute_texts(scope_logs.scope.attributes)}
            if scope:
                common["otel.scope.name"] = scope
            source = resource.get("service.name") or scope or "otlp"
            host, clock = _host_and_clock(resource)
            size += len(scope_logs.log_records) * sum(len(key) + len(text) for key, text in common.items())
            if size > ATTRIBUTE_BYTES_MAX:
                raise RefusedError(
                    "decompressed_too_large",
                    f"the attributes of these log records take more than {ATTRIBUTE_BYTES_MAX} bytes written out; "
                    "send fewer records at once, or fewer and shorter resource attributes",
                )
            for record in scope_logs.log_records:
                _append(columns, record, common, source, host, clock)
    return columns


def _append(
    columns: dict[str, list[Any]], record: LogRecord, common: dict[str, str], source: str, host: str, clock: str
) -> None:
    attributes = {**common, **attribute_texts(record.attributes)}
    kind = record.event_name or attributes.get("event.name") or "log"
    if record.severity_text:
        attributes["severity_text"] = record.severity_text
    if record.trace_id:
        attributes["trace_id"] = record.trace_id.hex()
    if record.span_id:
        attributes["span_id"] = record.span_id.hex()
    row = {
        "time_ns": _time(record, len(columns["time_ns"])),
        "entity_kind": "",
        "entity": "",
        "kind": kind,
        "severity": _severity(record.severity_number),
        "code": attributes.get("event.code") or attributes.get("error.code") or None,
        "message": value_text(record.body),
        "attributes": attributes,
        "source": source,
        "host": host,
        "clock": clock,
    }
    for name, column in columns.items():
        column.append(row[name])


def _time(record: LogRecord, row: int) -> int:
    time_ns = record.time_unix_nano or record.observed_time_unix_nano
    if not 0 < time_ns <= _TIME_MAX:
        expected = "time_unix_nano or observed_time_unix_nano within the years 1970 to 2262"
        raise DataError(f"log record {row + 1}", expected, str(time_ns))
    return int(time_ns)


def _severity(number: int) -> str:
    for highest, word in _SEVERITIES:
        if number <= highest:
            return word
    return ""


def _host_and_clock(resource: dict[str, str]) -> tuple[str, str]:
    """The host and its clock (`n12/7f3a02bd`); an unknown host has neither."""
    host = resource.get("host.name", "")
    boot = resource.get(_BOOT_ID) or resource.get("host.id") or ""
    return host, f"{host}/{boot[:_ID_SIZE]}" if host and boot else host
