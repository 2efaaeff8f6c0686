"""`wire.otlp_logs`: records become rows of `event`."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from leadline.model.errors import DataError, RefusedError
from leadline.model.tables.verdicts import EVENT
from leadline.wire.otlp import logs as otlp_logs
from leadline.wire.otlp.logs import decode_otlp_logs

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def request(record: dict[str, Any], resource: dict[str, str] | None = None, scope: str = "") -> bytes:
    made = ExportLogsServiceRequest()
    resource_logs = made.resource_logs.add()
    for key, value in (resource or {}).items():
        resource_logs.resource.attributes.add(key=key).value.string_value = value
    resource_logs.scope_logs.add(scope={"name": scope}, log_records=[{"time_unix_nano": 5, **record}])
    return bytes(made.SerializeToString())


def row(record: dict[str, Any], resource: dict[str, str] | None = None, scope: str = "") -> dict[str, Any]:
    columns = decode_otlp_logs(request(record, resource, scope), PROTOBUF)
    assert list(columns) == [column.name for column in EVENT.given]
    return {name: values[0] for name, values in columns.items()}


def test_a_full_record() -> None:
    resource = {"service.name": "train", "host.name": "n12", "host.id": "7f3a02bd-11", "zone": "a"}
    record = {
        "event_name": "xid",
        "severity_number": 17,
        "severity_text": "ERR",
        "body": {"string_value": "NVRM: Xid 79"},
        "attributes": [{"key": "zone", "value": {"string_value": "b"}}, {"key": "xid", "value": {"int_value": 79}}],
        "trace_id": b"\x01" * 16,
    }
    got = row(record, resource, "agent")
    attributes = got.pop("attributes")
    assert got == {
        "host": "n12", "clock": "n12/7f3a02bd", "time_ns": 5, "entity_kind": "", "entity": "", "kind": "xid",
        "severity": "error", "code": None, "message": "NVRM: Xid 79", "source": "train",
    }  # fmt: skip
    assert attributes == {
        **resource, "otel.scope.name": "agent", "zone": "b", "xid": "79", "severity_text": "ERR", "trace_id": "01" * 16,
    }  # fmt: skip


def test_what_is_not_told_is_empty() -> None:
    got = row({})
    assert got == {
        "host": "", "clock": "", "time_ns": 5, "entity_kind": "", "entity": "", "kind": "log", "severity": "",
        "code": None, "message": "", "attributes": {}, "source": "otlp",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (0, ""),
        (1, "debug"),
        (8, "debug"),
        (9, "info"),
        (13, "warning"),
        (17, "error"),
        (21, "fatal"),
        (24, "fatal"),
        (25, ""),
    ],
)
def test_severities(number: int, word: str) -> None:
    assert row({"severity_number": number})["severity"] == word


def test_source_kind_and_clock_fall_back() -> None:
    event = {"attributes": [{"key": "event.name", "value": {"string_value": "link-down"}}]}
    assert row(event, scope="agent")["kind"] == "link-down"
    assert row(event, scope="agent")["source"] == "agent"
    assert row({}, {"host.name": "n1"})["clock"] == "n1"
    assert row({}, {"host.name": "n1", "host.boot.id": "abcdef0123", "host.id": "x"})["clock"] == "n1/abcdef01"


def test_a_body_that_is_a_map() -> None:
    body = {"kvlist_value": {"values": [{"key": "a", "value": {"array_value": {"values": [{"int_value": 1}]}}}]}}
    assert row({"body": body})["message"] == '{"a":[1]}'


def test_the_observed_time_stands_in() -> None:
    assert row({"time_unix_nano": 0, "observed_time_unix_nano": 7})["time_ns"] == 7
    with pytest.raises(DataError, match="log record 1: expected time_unix_nano or observed_time_unix_nano"):
        row({"time_unix_nano": 0})
    with pytest.raises(DataError):
        row({"time_unix_nano": 2**63})


def test_json() -> None:
    record = {
        "timeUnixNano": "5", "severityNumber": 9, "body": {"stringValue": "hi"},
        "traceId": "AB" * 16, "spanId": "0c" * 8,
        "attributes": [{"key": "n", "value": {"intValue": "7"}}, {"key": "raw", "value": {"bytesValue": "AQI="}}],
        "aNewField": {"x": 1},
    }  # fmt: skip
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
    columns = decode_otlp_logs(body, "application/json; charset=utf-8")
    assert columns["message"] == ["hi"]
    assert columns["severity"] == ["info"]
    assert columns["attributes"] == [{"n": "7", "raw": "AQI=", "trace_id": "ab" * 16, "span_id": "0c" * 8}]


def test_other_bodies_are_refused() -> None:
    for body, content_type in ((b"\xff", PROTOBUF), (b"{", JSON), (b"[]", JSON), (b'{"resourceLogs": 1}', JSON)):
        with pytest.raises(DataError):
            decode_otlp_logs(body, content_type)
    with pytest.raises(DataError):
        decode_otlp_logs(b'{"resourceLogs":' + b"[" * 50_000, JSON)
    with pytest.raises(RefusedError):
        decode_otlp_logs(b"", "text/plain")


def test_attributes_written_out_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_logs, "ATTRIBUTE_BYTES_MAX", 1000)
    row({}, {"big": "x" * 900})
    with pytest.raises(RefusedError, match="attributes of these log records"):
        row({}, {"big": "x" * 1100})


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_decode_or_raise_data_error(damage: bytes) -> None:
    whole = request({"body": {"string_value": "hello"}}, {"host.name": "n"})
    for body in (damage, whole[: len(damage)] + damage + whole[len(damage) + 1 :]):
        for content_type in (PROTOBUF, JSON):
            with contextlib.suppress(DataError):
                decode_otlp_logs(body, content_type)
