"""Every decoder of bytes from outside, with valid messages of its format. Add one here and all laws hold it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.oracle import remote_write as oracle
from tests.unit.wire.rings import everything, fresh

from leadline.model.tables import BY_NAME
from leadline.wire.body import ENCODINGS, Body
from leadline.wire.exposition.pages import decode_exposition
from leadline.wire.otlp.logs import decode_otlp_logs
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.remote_write.requests import decode_remote_write
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.segments import decode_ring
from leadline.wire.ring.writer import RingWriter
from leadline.wire.rows import decode_arrow, decode_rows
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import Switch, decode_sflow, flow_columns

T = 1_750_000_000 * 10**9
MIB = 1 << 20
PROTOBUF, JSON = "application/x-protobuf", "application/json"
SCRAPE = Path(__file__).parents[1] / "golden" / "dcgm_scrape" / "scrape_1.prom"
SFLOW = Path(__file__).parents[1] / "golden" / "sflow_datagrams"
STEP = BY_NAME["step"]


@dataclass(frozen=True)
class Decoder:
    """One decoder: bytes in, `Samples`, columns, an Arrow table or bytes out. `valid` are messages it takes."""

    name: str
    decode: Callable[[bytes], Any]
    valid: tuple[bytes, ...]


def remote_write_1() -> bytes:
    request = oracle.V1["WriteRequest"]()
    for number in range(3):
        stream = request.timeseries.add()
        for name, value in (("__name__", f"metric_{number}"), ("instance", "n12:9100"), ("job", "é" * number or "x")):
            stream.labels.add(name=name, value=value)
        for at in range(3):
            stream.samples.add(timestamp=T // 10**6 + at, value=0.5 * at)
    request.timeseries[0].exemplars.add(value=1.0, timestamp=T // 10**6)
    request.metadata.add(type=1, metric_family_name="metric_0", help="what it is", unit="seconds")
    return bytes(request.SerializeToString())


def remote_write_2() -> bytes:
    request = oracle.V2["Request"](symbols=["", "__name__", "up", "job", "node", "help", "zone", "é"])
    for refs in ([1, 2, 3, 4], [3, 4, 1, 2, 6, 7]):
        stream = request.timeseries.add(labels_refs=refs)
        stream.samples.add(timestamp=T // 10**6, value=1.5)
        stream.metadata.help_ref = 5
    return bytes(request.SerializeToString())


def otlp_metrics() -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "trainer"
    resource.resource.attributes.add(key="pid").value.int_value = -7
    scope = resource.scope_metrics.add()
    scope.scope.name = "meter"
    scope.metrics.add(name="temp", unit="Cel").gauge.data_points.add(time_unix_nano=T, as_double=41.5)
    scope.metrics.add(name="steps").sum.data_points.add(time_unix_nano=T, as_int=12, flags=0)
    histogram = scope.metrics.add(name="latency", unit="s").histogram.data_points.add(
        time_unix_nano=T, count=3, sum=1.5
    )
    histogram.explicit_bounds.extend([0.1, 1.0])
    histogram.bucket_counts.extend([1, 1, 1])
    quantiles = scope.metrics.add(name="wait").summary.data_points.add(time_unix_nano=T, count=2, sum=0.5)
    quantiles.quantile_values.add(quantile=0.99, value=0.4)
    return request


def otlp_logs() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.add(key="host.name").value.string_value = "n12"
    for number in range(3):
        record = resource.scope_logs.add().log_records.add(time_unix_nano=T + number, severity_number=17)
        record.body.string_value = "NVRM: Xid 79, é"
        record.attributes.add(key="xid").value.int_value = 79
    return request


def in_json(request: Message) -> bytes:
    return MessageToJson(request, indent=None).encode()


def steps() -> list[dict[str, Any]]:
    common = {"job": "bert-7", "end_ns": T + 1, "host": "n12", "clock": "n12/7f3a", "metrics": {"é": "1.5"}}
    return [{**common, "rank": n, "step": 100, "start_ns": T, "loss": 0.25 * n} for n in range(3)]


def ndjson() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in steps())


def arrow(compression: str | None = None) -> bytes:
    rows = pa.table(
        {
            "job": pa.array(["bert-7"] * 3).dictionary_encode(),
            "rank": pa.array([0, 1, 2], pa.int32()),
            "step": [100] * 3,
            "start_ns": [T] * 3,
            "end_ns": [T + 1] * 3,
            "loss": [0.5, None, float("nan")],
            "metrics": pa.array([[("a", "1")], [], [("é", "2")]], pa.map_(pa.string(), pa.string())),
        }
    )
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows)
    return out.getvalue().to_pybytes()


def ring_segment() -> bytes:
    ring = fresh()
    everything(RingWriter(ring))
    return read_segment(ring, 0).segment


TEXT_PAGE = (
    b"# HELP http_requests_total The total.\n# TYPE http_requests_total counter\n"
    b'http_requests_total{method="post",code="200"} 1027 1750000000000\n'
    b'http_requests_total{method="g\\"et"} 3.5e-3\n{"http.size", a="\xc3\xa9"} +Inf\nnan NaN\n'
)
OPENMETRICS_PAGE = (
    b"# TYPE latency histogram\n# UNIT latency seconds\n"
    b'latency_bucket{le="0.1"} 3 1750000000.25 # {trace="x"} 0.05\nlatency_bucket{le="+Inf"} 4\n'
    b"latency_count 4\nlatency_sum 1.5\n# EOF\n"
)

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}


def unpack(encoding: str, packed: bytes) -> bytes:
    body = Body(encoding, MIB, MIB)
    body.feed(packed)
    return body.finish()


SAMPLES = (
    Decoder("remote-write-1.0", lambda body: decode_remote_write(body, 1), (remote_write_1(), b"")),
    Decoder("remote-write-2.0", lambda body: decode_remote_write(body, 2), (remote_write_2(), b"")),
    Decoder(
        "exposition-text",
        lambda body: decode_exposition(body, "text/plain; version=0.0.4", T),
        (TEXT_PAGE, SCRAPE.read_bytes(), b""),
    ),
    Decoder(
        "openmetrics", lambda body: decode_exposition(body, "application/openmetrics-text", T), (OPENMETRICS_PAGE,)
    ),
    Decoder(
        "otlp-metrics-protobuf",
        lambda body: decode_otlp_metrics(body, PROTOBUF),
        (otlp_metrics().SerializeToString(), b""),
    ),
    Decoder(
        "otlp-metrics-json",
        lambda body: decode_otlp_metrics(body, JSON),
        (in_json(otlp_metrics()), b"{}"),
    ),
)
ROWS = (
    Decoder(
        "otlp-logs-protobuf", lambda body: decode_otlp_logs(body, PROTOBUF), (otlp_logs().SerializeToString(), b"")
    ),
    Decoder(
        "otlp-logs-json",
        lambda body: decode_otlp_logs(body, JSON),
        (in_json(otlp_logs()), b"{}"),
    ),
    Decoder("rows-ndjson", lambda body: decode_rows(body, "application/x-ndjson", STEP), (ndjson(), b"")),
    Decoder("rows-json", lambda body: decode_rows(body, JSON, STEP), (json.dumps(steps()).encode(), b"[]")),
    Decoder("rows-arrow", lambda body: decode_arrow(body, STEP), (arrow(), arrow("zstd"), arrow("lz4"))),
)


def sflow(body: bytes) -> dict[str, Any]:
    """Rows and counters of one datagram."""
    batch = decode_sflow(body, [len(body)])
    error = batch.error(0)
    if error is not None:
        raise error
    switch_D, arrived_ns = [Switch("leaf1")], np.array([T])
    columns, count = flow_columns(batch, switch_D, arrived_ns)
    counters = CounterStreams().counters(batch, switch_D, arrived_ns)
    told = [
        (counters.labels(stream), value) for stream, value in zip(counters.sample_series, counters.value, strict=True)
    ]
    return {"count": count, "counters": told, **{name: column.tolist() for name, column in columns.items()}}


DATAGRAMS = (Decoder("sflow", sflow, tuple(path.read_bytes() for path in sorted(SFLOW.glob("*.dat")))),)
BODIES = tuple(
    Decoder(
        f"body-{encoding or 'none'}",
        lambda packed, encoding=encoding: unpack(encoding, packed),
        (PACK[encoding](remote_write_1()), PACK[encoding](b"")),
    )
    for encoding in ENCODINGS
)
RINGS = (
    Decoder(
        "ring",
        lambda body: repr({name: rows.to_pylist() for name, rows in decode_ring(body).tables.items()}),
        (ring_segment(), ring_segment() * 2, b""),
    ),
)
DECODERS = (*SAMPLES, *ROWS, *DATAGRAMS, *RINGS, *BODIES)
