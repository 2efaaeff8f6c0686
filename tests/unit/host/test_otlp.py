"""The metrics request, read by protobuf's own classes and by our way in."""

from __future__ import annotations

import os

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from leadline.host.found import Event, Sample, Stream
from leadline.host.otlp import CONTENT_TYPE, metrics_request
from leadline.host.rows import Relation, event_rows, relation_rows
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.verdicts import EVENT
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.rows import decode_rows

T = 1_750_000_000 * 10**9
HOST = (("host.name", "h3"),)
OWN = (*HOST, ("service.name", "leadline-agent"))
SAMPLES = [
    Sample(Stream("node_network_receive_bytes_total", (("device", "eth0"),), True, "bytes"), T, 2**53),
    Sample(Stream("node_load1"), T + 1, 0.25),
    Sample(Stream("x" * 300, (("ü", "é" * 200), ("b", "2")), unit="1"), T + 2, -1),
    Sample(Stream("leadline_agent_info", own=True), T + 3, 1),
]


def test_as_protobuf_reads_it() -> None:
    request = ExportMetricsServiceRequest.FromString(metrics_request(SAMPLES, HOST, OWN))
    host, own = request.resource_metrics
    assert [(a.key, a.value.string_value) for a in host.resource.attributes] == list(HOST)
    assert [(a.key, a.value.string_value) for a in own.resource.attributes] == list(OWN)
    counter, load, long = host.scope_metrics[0].metrics
    assert (counter.name, counter.unit, counter.sum.is_monotonic, counter.sum.aggregation_temporality) == (
        "node_network_receive_bytes_total", "bytes", True, 2,
    )  # fmt: skip
    (point,) = counter.sum.data_points
    assert (point.time_unix_nano, point.as_double) == (T, 2.0**53)
    assert [(a.key, a.value.string_value) for a in point.attributes] == [("device", "eth0")]
    assert [(p.time_unix_nano, p.as_double) for p in load.gauge.data_points] == [(T + 1, 0.25)]
    assert long.gauge.data_points[0].attributes[0].value.string_value == "é" * 200
    assert own.scope_metrics[0].metrics[0].name == "leadline_agent_info"


def test_as_our_way_in_reads_it() -> None:
    samples = decode_otlp_metrics(metrics_request(SAMPLES, HOST, OWN), CONTENT_TYPE)
    assert len(samples.time_ns) == 4
    assert sorted(samples.value.tolist()) == [-1, 0.25, 1, 2**53]


def test_the_parts_that_are_kept_do_not_mix_streams_up() -> None:
    first = metrics_request(SAMPLES, HOST, OWN)
    again = [sample._replace(time_ns=sample.time_ns + 1, value=7) for sample in SAMPLES]
    assert metrics_request(again, HOST, OWN) != first
    assert metrics_request(SAMPLES, HOST, OWN) == first
    assert metrics_request([], HOST, OWN) == b""


def test_rows_are_rows_of_their_tables() -> None:
    event = Event(T, "port:h3/eth0", "link-down", "error", "down \udcff ü", {"a": "1"}, "agent/link")
    nobodys = event._replace(entity="", code="79")
    found = decode_rows(event_rows([event, nobodys], "h3", "h3/7f3a"), "application/x-ndjson", EVENT)
    assert found["entity_kind"] == ["port", ""]
    assert found["message"] == ["down ? ü"] * 2
    assert found["code"] == [None, "79"]
    assert found["clock"] == ["h3/7f3a"] * 2
    edges = [
        Relation("port:h3/eth0", "host:h3", "in", T, None, "agent/graph"),
        Relation("a:b", "c:d", "in", T, T + 1, "x"),
    ]
    found = decode_rows(relation_rows(edges), "application/x-ndjson", RELATION)
    assert found["to_ns"] == [None, T + 1]
    assert found["confidence"] == [1.0, 1.0]


def test_a_name_that_is_no_utf8_is_told_with_question_marks() -> None:
    body = metrics_request([Sample(Stream("node_network_up", (("device", os.fsdecode(b"eth\xff")),)), T, 1)], HOST, OWN)
    (metric,) = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].scope_metrics[0].metrics
    assert metric.gauge.data_points[0].attributes[0].value.string_value == "eth?"
