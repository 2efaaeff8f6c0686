"""curl sends what it should not: each is answered with a status, a reason and what to do, and the server goes on."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import subprocess
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import cramjam
import psutil
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.senders.running import RunningLeadline, ndjson, wait_for

PROTOBUF = "application/x-protobuf"
BODY_BYTES_MAX = 1 << 20
DECOMPRESSED_BYTES_MAX = 8 << 20


class Answer(NamedTuple):
    status: int
    reason: str
    message: str
    headers: str
    body: bytes


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    environ = {
        "LEADLINE_INGEST__BODY_BYTES_MAX": str(BODY_BYTES_MAX),
        "LEADLINE_INGEST__DECOMPRESSED_BYTES_MAX": str(DECOMPRESSED_BYTES_MAX),
    }
    with RunningLeadline(tmp_path_factory.mktemp("curl"), environ) as server:
        yield server


@pytest.fixture
def good(leadline: RunningLeadline) -> Iterator[None]:
    """After each bad request the same telemetry, well formed, is taken by the same process."""
    pid = leadline.wait_ready()
    yield
    now_ns = time.time_ns()
    answer = curl(leadline, "/v1/metrics", metrics(now_ns), PROTOBUF)
    assert answer.status == 200
    query = f"SELECT count() AS n FROM metric_sample WHERE time_ns = {now_ns}"
    assert leadline.sql(query) == [{"n": 1}]
    assert leadline.wait_ready() == pid


def curl(
    leadline: RunningLeadline, path: str, body: bytes, content_type: str = "", more: Sequence[str] = (), port: int = 0
) -> Answer:
    """One request with curl; POST unless `more` says otherwise."""
    into, out = leadline.directory / "body", leadline.directory / "answer"
    into.write_bytes(body)
    out.unlink(missing_ok=True)
    command = [
        "curl", "--silent", "--show-error", "--max-time", "60", "--dump-header", "-", "--output", str(out),
        "--header", f"content-type: {content_type}" if content_type else "content-type;",
        "--data-binary", f"@{into}", *more, f"http://127.0.0.1:{port or leadline.port}{path}",
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    heads = ran.stdout.decode().strip().split("\r\n\r\n")
    raw = out.read_bytes() if out.exists() else b""
    status = int(heads[-1].split()[1])
    error = json.loads(raw)["error"] if status >= 400 else {}
    return Answer(status, error.get("reason", ""), error.get("message", ""), heads[-1].lower(), raw)


def metrics(time_ns: int, value: float = 1.5) -> bytes:
    """An ExportMetricsServiceRequest with one gauge."""
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="curl.gauge")
    metric.gauge.data_points.add(time_unix_nano=time_ns, as_double=value)
    return bytes(request.SerializeToString())


def gzip_bomb() -> bytes:
    """Unpacks to 1 GB, at the size of 1 MB."""
    packer = zlib.compressobj(9, wbits=31)
    head = packer.compress(b"\n") + packer.flush(zlib.Z_FULL_FLUSH)
    mib = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return (head + mib * 1024)[: BODY_BYTES_MAX - 1]


def snappy_bomb() -> bytes:
    """A header that says 4 GB and a few bytes."""
    return b"\xff\xff\xff\xff\x0f" + b"\x00" * 100


WRITE = "/api/v1/write"
ROWS = "/api/v1/rows/event"
GZIP = ("--header", "content-encoding: gzip")
SNAPPY = ("--header", "content-encoding: snappy")
BROTLI = ("--header", "content-encoding: br")
CHUNKED = ("--header", "transfer-encoding: chunked")
NOW = time.time_ns()
LARGE = bytes(BODY_BYTES_MAX + 1)
ROW = {
    "time_ns": NOW, "entity_kind": "host", "entity": "host:n1", "kind": "test", "severity": "info", "message": "m",
    "attributes": {}, "source": "curl", "host": "n1", "clock": "n1/1",
}  # fmt: skip
BAD_ROW = ndjson([ROW, {**ROW, "tim_ns": 1}])

# path, body, content type, more of curl's options; status, reason, a part of the message
CASES = {
    "write: wrong content type": (WRITE, b"{}", "application/json", SNAPPY, 415, "unsupported_encoding", "snappy"),
    "write: unknown encoding": (WRITE, b"", PROTOBUF, BROTLI, 415, "unsupported_encoding", "br"),
    "write: not snappy": (WRITE, b"\x0a\x05hello, I am text", PROTOBUF, SNAPPY, 400, "malformed", "snappy"),
    "write: snappy of garbage": (
        WRITE, bytes(cramjam.snappy.compress_raw(b"\xff" * 100)), PROTOBUF, SNAPPY, 400, "malformed", "remote-write",
    ),
    "write: truncated": (
        WRITE, bytes(cramjam.snappy.compress_raw(bytes(range(256)) * 9))[:-5], PROTOBUF, SNAPPY, 400, "malformed",
        "snappy",
    ),
    "write: snappy bomb": (
        WRITE, snappy_bomb(), PROTOBUF, SNAPPY, 413, "decompressed_too_large", "ingest.decompressed_bytes_max",
    ),
    "write: empty": (WRITE, b"", PROTOBUF, SNAPPY, 400, "malformed", "snappy"),
    "metrics: no content type": ("/v1/metrics", b"", "", (), 415, "unsupported_encoding", "application/x-protobuf"),
    "metrics: truncated": ("/v1/metrics", metrics(NOW)[:-3], PROTOBUF, (), 400, "malformed", "byte"),
    "metrics: truncated gzip": (
        "/v1/metrics", gzip.compress(metrics(NOW))[:-9], PROTOBUF, GZIP, 400, "malformed", "cut off",
    ),
    "metrics: not gzip": ("/v1/metrics", metrics(NOW), PROTOBUF, GZIP, 400, "malformed", "gzip"),
    "metrics: bad JSON": ("/v1/metrics", b'{"resourceMetrics": [', "application/json", (), 400, "malformed", "JSON"),
    "metrics: gzip bomb": (
        "/v1/metrics", gzip_bomb(), PROTOBUF, GZIP, 413, "decompressed_too_large", "ingest.decompressed_bytes_max",
    ),
    "metrics: too large, said": ("/v1/metrics", LARGE, PROTOBUF, (), 413, "body_too_large", "ingest.body_bytes_max"),
    "metrics: too large, chunked": (
        "/v1/metrics", LARGE, PROTOBUF, CHUNKED, 413, "body_too_large", "ingest.body_bytes_max",
    ),
    "metrics: much too large, chunked": (
        "/v1/metrics", LARGE * 20, PROTOBUF, CHUNKED, 413, "body_too_large", "ingest.body_bytes_max",
    ),
    "logs: truncated": ("/v1/logs", b"\x0a\xff", PROTOBUF, (), 400, "malformed", "ExportLogsServiceRequest"),
    "GET": (WRITE, b"", "", ("--get",), 405, "method", "takes POST"),
    "PUT": ("/v1/metrics", b"", PROTOBUF, ("--request", "PUT"), 405, "method", "takes POST"),
    "rows: unknown table": ("/api/v1/rows/evnt", b"{}", "", (), 404, "unknown_table", "did you mean event"),
    "rows: a table of samples": ("/api/v1/rows/metric_sample", b"{}", "", (), 404, "unknown_table", "metric_sample"),
    "rows: unknown column": (ROWS, BAD_ROW, "application/x-ndjson", (), 400, "bad_row", "tim_ns"),
    "rows: not JSON": (ROWS, b"{]\n", "application/x-ndjson", (), 400, "bad_row", "line 1"),
    "rows: not Arrow": (ROWS, b"ARROW?", "application/vnd.apache.arrow.stream", (), 400, "bad_row", "Arrow"),
    "rows: content type": (ROWS, b"a,b\n", "text/csv", (), 415, "unsupported_encoding", "application/x-ndjson"),
    "rows: batch id": (
        ROWS, b"", "application/x-ndjson", ("-H", "leadline-batch: 12"), 400, "malformed", "32 hex digits",
    ),
    "another site": (WRITE, b"", PROTOBUF, ("-H", "origin: http://example.org"), 401, "unauthorized", "example.org"),
    "another name": (WRITE, b"", PROTOBUF, ("-H", "host: 127.0.0.1.example.org"), 401, "unauthorized", "localhost"),
    "a tenant that is no word": (WRITE, b"", PROTOBUF, ("-H", "leadline-tenant: a/b"), 401, "unauthorized", "a/b"),
    "no such path": ("/v2/metrics", b"", PROTOBUF, (), 404, "not_found", "/v2/metrics"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("good")
def test_refused(leadline: RunningLeadline, name: str) -> None:
    path, body, content_type, more, status, reason, text = CASES[name]
    before = leadline.refused()
    answer = curl(leadline, path, body, content_type, more)
    assert (answer.status, answer.reason) == (status, reason), answer
    assert text in answer.message
    assert len(answer.message) < 1500
    if reason not in ("method", "not_found"):
        after = wait_for("the refusal to be counted", lambda: leadline.refused() != before and leadline.refused())
        assert after["ingest_refused", reason] == before.get(("ingest_refused", reason), 0) + 1
    if reason == "method":
        assert "allow: post" in answer.headers


def test_no_bomb_made_the_process_large(leadline: RunningLeadline) -> None:
    """Last of the refusals: after all of them."""
    assert psutil.Process(leadline.wait_ready()).memory_full_info().uss < 1200e6


def test_4318_knows_its_paths(leadline: RunningLeadline) -> None:
    answer = curl(leadline, "/api/v1/doctor", b"", port=leadline.otlp_http_port, more=("--get",))
    assert (answer.status, answer.reason) == (404, "not_found")
    assert "/v1/metrics" in answer.message


def test_old_and_future_samples_are_refused_in_part(leadline: RunningLeadline) -> None:
    request = ExportMetricsServiceRequest()
    points = request.resource_metrics.add().scope_metrics.add().metrics.add(name="curl.times").gauge.data_points
    now_ns = time.time_ns()
    for time_ns in (now_ns, now_ns - 40 * 86400 * 10**9, now_ns + 3600 * 10**9):
        points.add(time_unix_nano=time_ns, as_double=1.0)
    body = request.SerializeToString()
    answer = curl(leadline, "/v1/metrics", body, PROTOBUF)
    assert answer.status == 200
    assert b"2026" not in answer.body
    assert b"ingest.age_max_s" in answer.body
    assert b"ingest.future_max_s" in answer.body
    assert leadline.sql(
        "SELECT count() AS n FROM metric_sample JOIN series USING (series) WHERE name = 'curl.times'"
    ) == [{"n": 1}]


def test_rows_and_their_retry(leadline: RunningLeadline) -> None:
    rows = [{**ROW, "time_ns": NOW + n} for n in range(3)]
    for batch, encoding in itertools.product(("", "a" * 32), (False, True)):
        body = ndjson(rows)
        more = (("-H", f"leadline-batch: {batch}") if batch else ()) + (GZIP if encoding else ())
        answer = curl(leadline, ROWS, gzip.compress(body) if encoding else body, "application/x-ndjson", more)
        assert (answer.status, answer.body) == (200, b'{"rows": 3}\n'), answer
    # Without a batch id the body's hash is one: gzip or not, the same rows; with another id they are others.
    assert leadline.sql("SELECT count() AS n FROM event WHERE kind = 'test'") == [{"n": 6}]
    assert leadline.doctor()["accepted"]["repeated_batches"] == 2


def test_a_sender_that_hangs_up_half_way(leadline: RunningLeadline, good: None) -> None:
    with socket.create_connection(("127.0.0.1", leadline.port)) as link:
        link.sendall(
            b"POST /v1/metrics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n"
            b"content-length: 100\r\n\r\nhalf"
        )
        time.sleep(0.3)
    finding = wait_for("it to be told", lambda: [f for f in leadline.doctor()["findings"] if "hung up" in f["text"]])
    assert "expected 100 bytes" in finding[0]["text"]


def test_connection_is_of_use_after_a_refusal(leadline: RunningLeadline, tmp_path: Path) -> None:
    """Two requests by one curl over one connection: the first is refused, the second taken."""
    (tmp_path / "a").write_bytes(b"\xff")
    (tmp_path / "b").write_bytes(metrics(time.time_ns()))
    url = f"http://127.0.0.1:{leadline.port}/v1/metrics"
    command = ["curl"]
    for name in ("a", "b"):
        command += ["-sS", "-w", "%{http_code} %{num_connects}\n", "-o", str(tmp_path / "o")]
        command += ["-H", f"content-type: {PROTOBUF}", "--data-binary", f"@{tmp_path / name}", url, "--next"]
    command.pop()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "400 1\n200 0\n"
