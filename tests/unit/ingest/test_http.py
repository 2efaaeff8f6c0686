"""The HTTP ways in, called in this process as an ASGI server would: statuses, headers, bounds."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import cramjam
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from tests.oracle import remote_write as oracle

from leadline.ingest import http
from leadline.ingest.http import IngestApp
from leadline.model.errors import RefusedError
from leadline.model.principal import Caller as Asking
from leadline.model.principal import Principal, Role
from leadline.testing.clock import START_NS as T

from .conftest import Bench

MS = 10**6
WRITE = "/api/v1/write"
EVENTS = "/api/v1/rows/event"
V1 = {"content-encoding": "snappy", "content-type": "application/x-protobuf"}
V2 = {**V1, "content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
OTLP = {"content-type": "application/x-protobuf"}
NDJSON = {"content-type": "application/x-ndjson"}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, str]:
        return dict(json.loads(self.body)["error"])


@pytest.fixture
def decoders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def anyone(_: Asking) -> Principal:
    return Principal()


class Caller:
    """Posts to one application; `bench` is what is behind it."""

    def __init__(self, bench: Bench, decoders: ThreadPoolExecutor, authorize: Any = anyone) -> None:
        self.bench = bench
        self.app = IngestApp(bench.intake, decoders, authorize)

    async def call(
        self, path: str, chunks: list[bytes], headers: Mapping[str, str], method: str = "POST", hang_up: bool = False
    ) -> Answer:
        left = list(chunks)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not left and hang_up:
                return {"type": "http.disconnect"}
            chunk = left.pop(0) if left else b""
            return {"type": "http.request", "body": chunk, "more_body": bool(left) or hang_up}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "headers": raw, "client": ("10.0.0.7", 5061)}
        await self.app(scope, receive, send)
        assert [message["type"] for message in sent[:2]] == ["http.response.start", "http.response.body"]
        # Whoever is not read to the end is listened to until the answer is read, and only then cut off.
        ends = [message.get("more_body", False) for message in sent[1:]]
        assert ends == ([True, False] if sent[0]["status"] == 413 else [False])
        assert not any(message["body"] for message in sent[2:])
        if sent[0]["status"] == 413 and not hang_up:
            assert not left, "the answer ended before the body did"
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        assert int(found["content-length"]) == len(sent[1]["body"])
        return Answer(sent[0]["status"], found, sent[1]["body"])

    def post(self, path: str, body: bytes, headers: Mapping[str, str], **more: Any) -> Answer:
        return asyncio.run(self.call(path, [body], headers, **more))


@pytest.fixture
def caller(bench: Bench, decoders: ThreadPoolExecutor) -> Caller:
    return Caller(bench, decoders)


def v1_body(*streams: tuple[dict[str, str], list[int]]) -> bytes:
    request = oracle.V1["WriteRequest"]()
    for labels, times_ns in streams:
        stream = request.timeseries.add()
        for name, value in labels.items():
            stream.labels.add(name=name, value=value)
        for time_ns in times_ns:
            stream.samples.add(timestamp=time_ns // MS, value=1.5)
    return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))


def v2_body() -> bytes:
    request = oracle.V2["Request"](symbols=["", "__name__", "up", "job", "x"])
    stream = request.timeseries.add(labels_refs=[1, 2, 3, 4])
    stream.samples.add(timestamp=T // MS, value=2.5)
    return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))


UP = {"__name__": "up", "job": "x"}
GOOD = v1_body((UP, [T]))


def metrics_body(times_ns: list[int]) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="temp", unit="Cel")
    for time_ns in times_ns:
        metric.gauge.data_points.add(time_unix_nano=time_ns, as_double=1.0)
    return request


def logs_body() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=T, severity_number=9)
    record.body.string_value = "hello"
    return request


def event(message: str, **more: Any) -> bytes:
    row = {
        "time_ns": T, "entity_kind": "host", "entity": "host:n1", "kind": "log", "severity": "info",
        "message": message, "attributes": {}, "source": "test", **more,
    }  # fmt: skip
    return json.dumps(row).encode() + b"\n"


# --- taken ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "headers"), [(GOOD, V1), (v2_body(), V2), (GOOD, {})], ids=["1.0", "2.0", "bare"])
def test_remote_write_is_stored_and_answered_204(caller: Caller, body: bytes, headers: dict[str, str]) -> None:
    answer = caller.post(WRITE, body, headers)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"
    assert answer.headers["x-prometheus-remote-write-histograms-written"] == "0"
    assert [(name, time_ns) for name, time_ns, _ in caller.bench.stored()] == [("up{job=x}", T)]


def test_a_partial_write_is_400_so_that_nobody_sends_it_again(caller: Caller) -> None:
    answer = caller.post(WRITE, v1_body((UP, [T, T - 40 * 86400 * 10**9]), ({"job": "nameless"}, [T])), V1)
    assert (answer.status, answer.error["reason"]) == (400, "partial")
    assert "1 samples stored" in answer.error["message"]
    assert "1 too_old" in answer.error["message"]
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"
    assert len(caller.bench.stored()) == 1


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_otlp_metrics_are_answered_in_protobuf(caller: Caller, encoding: str) -> None:
    body = metrics_body([T]).SerializeToString()
    packed = gzip.compress(body) if encoding else body
    answer = caller.post("/v1/metrics", packed, {**OTLP, "content-encoding": encoding} if encoding else OTLP)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert not ExportMetricsServiceResponse.FromString(answer.body).HasField("partial_success")
    assert caller.bench.stored() == [("temp{}", T, 1.0)]


def test_otlp_tells_a_partial_success(caller: Caller) -> None:
    times_ns = [T, T + 3600 * 10**9, 0]
    body = metrics_body(times_ns)
    told = ExportMetricsServiceResponse.FromString(caller.post("/v1/metrics", body.SerializeToString(), OTLP).body)
    assert told.partial_success.rejected_data_points == 2
    assert "ahead of our clock" in told.partial_success.error_message
    point = {"timeUnixNano": str(T + 3600 * 10**9), "asDouble": 1.0}
    scope = {"scopeMetrics": [{"metrics": [{"name": "temp", "gauge": {"dataPoints": [point]}}]}]}
    in_json = json.dumps({"resourceMetrics": [scope]}).encode()
    answer = caller.post("/v1/metrics", in_json, {"content-type": "application/json"})
    assert answer.status == 200
    assert json.loads(answer.body)["partialSuccess"]["rejectedDataPoints"] == "1"


def test_otlp_logs_are_events_and_the_same_body_is_the_same_events(caller: Caller) -> None:
    body = logs_body().SerializeToString()
    for _ in range(2):
        assert caller.post("/v1/logs", body, OTLP).status == 200
    assert [row["message"] for row in caller.bench.store.rows("event")] == ["hello"]
    assert caller.bench.accepted("repeated_batches") == 1


def test_rows_are_stored_and_counted_in_the_answer(caller: Caller) -> None:
    answer = caller.post(EVENTS, event("a") + event("b"), NDJSON)
    assert (answer.status, json.loads(answer.body)) == (200, {"rows": 2})
    assert sorted(row["message"] for row in caller.bench.store.rows("event")) == ["a", "b"]


def test_a_batch_id_makes_another_body_the_same_batch(caller: Caller) -> None:
    batch = {"leadline-batch": "00112233445566778899aabbccddeeff", **NDJSON}
    caller.post(EVENTS, event("first"), batch)
    caller.post(EVENTS, event("spelled otherwise"), {**batch, "leadline-batch": batch["leadline-batch"].upper()})
    caller.post(EVENTS, event("first"), NDJSON)
    rows = caller.bench.store.rows("event")
    assert sorted(row["message"] for row in rows) == ["first", "first"], "without the header its hash is the batch"
    ids = {int.from_bytes(row["batch"], "little") for row in rows}
    assert 0x00112233445566778899AABBCCDDEEFF in ids
    assert len(ids) == 2


# --- refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["", "12", "g" * 32, "0x" + "1" * 30, "1_" * 16, " " + "1" * 31, "+" + "1" * 31, "١" * 32, "1" * 33]
)
def test_a_batch_id_is_32_hex_digits(caller: Caller, given: str) -> None:
    answer = caller.post(EVENTS, event("a"), {**NDJSON, "leadline-batch": given})
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert "32 hex digits" in answer.error["message"]
    assert caller.bench.store.appends == []


BOMB = gzip.compress(bytes(10**6))
REFUSALS = [
    ("malformed", 400, WRITE, b"\x02\x04\xff\xff", V1),
    ("malformed", 400, WRITE, b"", V1),
    ("malformed", 400, "/v1/metrics", b"\xff\xff", OTLP),
    ("malformed", 400, "/v1/logs", b"\xff\xff", OTLP),
    ("malformed", 400, EVENTS, b"not gzip", {**NDJSON, "content-encoding": "gzip"}),
    ("bad_row", 400, EVENTS, b'{"time_ns": 1}\n', NDJSON),
    ("bad_row", 400, EVENTS, b"nonsense", {"content-type": "application/vnd.apache.arrow.stream"}),
    ("too_old", 400, EVENTS, event("a", time_ns=1), NDJSON),
    ("unsupported_encoding", 415, WRITE, b"x", {**V1, "content-encoding": "br"}),
    ("unsupported_encoding", 415, WRITE, GOOD, {**V1, "content-type": "text/plain"}),
    ("unsupported_encoding", 415, "/v1/metrics", b"", {"content-type": "text/plain"}),
    ("unsupported_encoding", 415, "/v1/logs", b"", {}),
    ("unsupported_encoding", 415, EVENTS, b"", {"content-type": "text/csv"}),
    ("body_too_large", 413, EVENTS, bytes(70_000), NDJSON),
    ("body_too_large", 413, EVENTS, b"", {**NDJSON, "content-length": "70000"}),
    ("decompressed_too_large", 413, EVENTS, BOMB, {**NDJSON, "content-encoding": "gzip"}),
    ("decompressed_too_large", 413, WRITE, b"\xff\xff\xff\xff\x0f", V1),
    ("unknown_table", 404, "/api/v1/rows/evnt", b"", NDJSON),
    ("unknown_table", 404, "/api/v1/rows/metric_sample", b"", NDJSON),
    ("unknown_table", 404, "/api/v1/rows/", b"", NDJSON),
]


@pytest.mark.parametrize(("reason", "status", "path", "body", "headers"), REFUSALS)
def test_every_refusal_has_its_status_is_counted_and_stores_nothing(
    make: Callable[..., Bench],
    decoders: ThreadPoolExecutor,
    reason: str,
    status: int,
    path: str,
    body: bytes,
    headers: dict[str, str],
) -> None:
    bench = make(body_bytes_max=65536, decompressed_bytes_max=262144)
    answer = Caller(bench, decoders).post(path, body, headers)
    assert (answer.status, answer.error["reason"]) == (status, reason)
    assert answer.error["message"]
    assert bench.refused() == {reason: 1}
    assert bench.store.appends == []
    assert ("connection" in answer.headers) == (status == 413), "the rest of a body too large is not read"
    source = bench.sources.all()[0]
    assert source.refused == {reason: 1}
    assert source.last_error == answer.error["message"][:500]


def test_a_table_misspelled_is_told_the_right_name(caller: Caller) -> None:
    assert "did you mean event" in caller.post("/api/v1/rows/evnt", b"", NDJSON).error["message"]


def test_other_methods_and_paths_are_told(caller: Caller) -> None:
    answer = asyncio.run(caller.call(WRITE, [], {}, method="GET"))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert caller.post("/api/v1/other", b"", {}).status == 404
    assert caller.bench.refused() == {}


def test_a_sender_that_hangs_up_is_counted(caller: Caller) -> None:
    answer = asyncio.run(caller.call(WRITE, [GOOD[:5]], {**V1, "content-length": str(len(GOOD))}, hang_up=True))
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert caller.bench.intake.room.held_bytes == 0, "what it held is given back"


@pytest.mark.parametrize(
    ("path", "limit", "status"),
    [(WRITE, "BODY_IDLE_S_MAX", 503), (EVENTS, "BODY_IDLE_S_MAX", 408), (EVENTS, "BODY_S_MAX", 408)],
)
def test_a_sender_that_stalls_gives_up_its_room(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, path: str, limit: str, status: int
) -> None:
    """A body whose pieces keep coming is bounded too: a byte every 50 s held it for ever."""
    monkeypatch.setattr(http, limit, 0.05)

    async def stall() -> Answer:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if sent:
                return {"type": "http.disconnect"}
            await asyncio.sleep(5 if limit == "BODY_IDLE_S_MAX" else 0.01)
            return {"type": "http.request", "body": b" ", "more_body": True}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await caller.app({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, sent[1]["body"])

    answer = asyncio.run(asyncio.wait_for(stall(), 4))
    assert (answer.status, answer.headers["connection"]) == (status, "close"), (
        "Prometheus gives up what is answered 408"
    )
    assert answer.error["reason"] == "body_slow"
    assert caller.bench.refused() == {"body_slow": 1}
    assert caller.bench.intake.room.held_bytes == 0


class Unfinished:
    """Bodies that have begun and do not end before `end` is set; each is a request of its own."""

    def __init__(self, app: IngestApp) -> None:
        self._app = app
        self.end = asyncio.Event()

    def begin(self, body: bytes, headers: Mapping[str, str], address: str = "10.0.0.66") -> asyncio.Task[None]:
        chunks = [body]

        async def receive() -> dict[str, Any]:
            if chunks:
                return {"type": "http.request", "body": chunks.pop(), "more_body": True}
            await self.end.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            pass

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": EVENTS, "headers": raw, "client": (address, 1)}
        return asyncio.create_task(self._app(scope, receive, send))


def test_unfinished_bombs_hold_what_was_sent_of_them(make: Callable[..., Bench], decoders: ThreadPoolExecutor) -> None:
    """40 bodies of 32 kB that stand for 32 MB each, without their last bytes: 1.3 MB, not 1.3 GB."""
    caller = Caller(make(decompressed_bytes_max=64 << 20), decoders)
    bomb = gzip.compress(bytes(32 << 20))[:-8]

    async def run() -> tuple[int, Answer]:
        bodies = Unfinished(caller.app)
        tasks = [bodies.begin(bomb, {**NDJSON, "content-encoding": "gzip"}) for _ in range(40)]
        await asyncio.sleep(0.05)
        held = caller.bench.intake.room.held_bytes
        honest = await caller.call(EVENTS, [event("a")], NDJSON)
        bodies.end.set()
        await asyncio.gather(*tasks)
        return held, honest

    held, honest = asyncio.run(run())
    assert held == 40 * len(bomb) < 2_000_000
    assert honest.status == 200
    assert caller.bench.intake.room.held_bytes == 0


def test_what_bodies_unpack_to_counts_like_what_they_hold(
    make: Callable[..., Bench], decoders: ThreadPoolExecutor
) -> None:
    caller = Caller(make(decode_bytes_max=8 << 20, decompressed_bytes_max=64 << 20), decoders)
    bomb = gzip.compress(bytes(32 << 20))

    async def run() -> Answer:
        bodies = Unfinished(caller.app)
        task = bodies.begin(b" ", NDJSON)
        await asyncio.sleep(0)
        answer = await caller.call(EVENTS, [bomb], {**NDJSON, "content-encoding": "gzip"})
        bodies.end.set()
        await task
        return answer

    assert asyncio.run(run()).error["reason"] == "queue_full"
    assert caller.bench.intake.room.held_bytes == 0


def test_large_bodies_leave_a_decoder_to_the_others(
    make: Callable[..., Bench], decoders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that take long, and a small one that is answered before they are done."""
    monkeypatch.setattr(http, "SMALL_BYTES", 80_000)
    caller = Caller(make(), decoders)
    gate, real = threading.Event(), IngestApp._take

    def take(app: IngestApp, request: Any) -> Any:
        if request.small_bytes is None:
            assert gate.wait(10)
        return real(app, request)

    monkeypatch.setattr(IngestApp, "_take", take)

    async def run() -> list[int]:
        large = [asyncio.create_task(caller.call(EVENTS, [event(name * 100_000)], NDJSON)) for name in "ab"]
        while caller.app._large_turns.requests < 2:
            await asyncio.sleep(0.001)
        small = await asyncio.wait_for(caller.call(EVENTS, [event("c")], NDJSON), 5)
        gate.set()
        return [small.status, *[each.status for each in await asyncio.gather(*large)]]

    assert asyncio.run(run()) == [200, 200, 200]
    assert len(caller.bench.store.rows("event")) == 3


def test_one_sender_has_so_many_unfinished_bodies(make: Callable[..., Bench], decoders: ThreadPoolExecutor) -> None:
    caller = Caller(make(bodies_per_sender_max=3), decoders)

    async def run() -> tuple[int, Answer]:
        bodies = Unfinished(caller.app)
        tasks = [bodies.begin(b" ", NDJSON) for _ in range(5)]
        await asyncio.sleep(0)
        unfinished = caller.bench.intake.room.unfinished["10.0.0.66"][0]
        honest = await caller.call(EVENTS, [event("a")], NDJSON)
        bodies.end.set()
        await asyncio.gather(*tasks)
        return unfinished, honest

    unfinished, honest = asyncio.run(run())
    assert (unfinished, honest.status) == (3, 200), "others are not kept out"
    assert caller.bench.refused() == {"sender_full": 2, "malformed": 3}
    assert caller.bench.intake.room.unfinished == {}


def test_a_decoder_that_breaks_is_a_body_refused(
    bench: Bench, decoders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise SystemError("error return without exception set")

    monkeypatch.setitem(http.ROUTES, "/v1/metrics", broken)
    answer = Caller(bench, decoders).post("/v1/metrics", b"", OTLP)
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert bench.refused() == {"malformed": 1}


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/logs"])
def test_half_a_surrogate_as_a_name_is_bad_json(caller: Caller, path: str) -> None:
    """It made protobuf raise a SystemError, which was answered 500 and not counted."""
    answer = caller.post(path, b'{"\\ud800":1}', {"content-type": "application/json"})
    assert (answer.status, answer.error["reason"]) == (400, "malformed")
    assert caller.bench.refused() == {"malformed": 1}


def test_a_stream_without_a_name_is_refused_in_words(caller: Caller) -> None:
    request = oracle.V2["Request"](symbols=["", "job", "x"])
    request.timeseries.add(labels_refs=[1, 2]).samples.add(timestamp=T // MS, value=2.5)
    body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
    for answer in (caller.post(WRITE, body, V2), caller.post(WRITE, v1_body(({"job": "x"}, [T])), V1)):
        assert answer.status == 400
        assert "without a name" in answer.error["message"]


@pytest.mark.parametrize("role", [Role.TENANT_READ, None])
def test_who_may_not_write_is_told_before_the_body_is_read(
    bench: Bench, decoders: ThreadPoolExecutor, role: Role | None
) -> None:
    def authorize(caller: Asking) -> Principal:
        if role is None:
            raise RefusedError("unauthorized", "no token")
        return Principal("acme", role=role)

    caller = Caller(bench, decoders, authorize)
    answer = asyncio.run(caller.call(WRITE, [GOOD], V1))
    assert (answer.status, answer.error["reason"]) == (401, "unauthorized")
    assert bench.refused() == {"unauthorized": 1}
    assert bench.store.appends == []


# --- back-pressure -------------------------------------------------------------------------------------------


def held_open(caller: Caller, *later: Callable[[], Coroutine[Any, Any, Answer]]) -> tuple[Answer, list[Answer]]:
    """One request that waits for a store that stands still, `later` requests meanwhile, then all go on."""

    async def run() -> tuple[Answer, list[Answer]]:
        caller.bench.faults.open.clear()
        many = v1_body((UP, [T + n * MS for n in range(999)]))
        first = asyncio.create_task(caller.call(WRITE, [many], V1))
        while not caller.bench.faults.waiting.is_set():
            await asyncio.sleep(0.001)
        answers = [await call() for call in later]
        caller.bench.faults.open.set()
        return await first, answers

    return asyncio.run(run())


def test_metrics_are_to_come_again_while_the_scanners_are_compiled_and_rows_are_taken(
    make: Callable[..., Bench], decoders: ThreadPoolExecutor
) -> None:
    caller = Caller(make(), decoders)
    caller.bench.intake.scanners_missing = True
    body, otlp = v1_body((UP, [T])), metrics_body([T]).SerializeToString()
    write, metrics = caller.post(WRITE, body, V1), caller.post("/v1/metrics", otlp, OTLP)
    assert (write.status, write.error["reason"]) == (503, "compiling")
    assert (metrics.status, metrics.error["reason"]) == (429, "compiling")
    assert write.headers["retry-after"] == metrics.headers["retry-after"] == "5"
    assert caller.bench.refused() == {"compiling": 2}
    caller.bench.intake.scanners_missing = False
    assert caller.post(WRITE, body, V1).status == 204


def test_a_full_lane_answers_try_again_and_takes_nothing(
    make: Callable[..., Bench], decoders: ThreadPoolExecutor
) -> None:
    caller = Caller(make(queue_rows_max=1000), decoders)
    body = v1_body((UP, [T + 2000 * MS, T + 2001 * MS]))
    otlp = metrics_body([T, T + MS]).SerializeToString()
    first, (write, metrics) = held_open(
        caller, lambda: caller.call(WRITE, [body], V1), lambda: caller.call("/v1/metrics", [otlp], OTLP)
    )
    assert first.status == 204
    assert (write.status, write.error["reason"]) == (503, "queue_full"), "Prometheus drops what is answered 429"
    assert (metrics.status, metrics.error["reason"]) == (429, "queue_full")
    assert int(write.headers["retry-after"]) >= 1
    assert int(metrics.headers["retry-after"]) >= 1
    assert caller.bench.refused() == {"queue_full": 2}
    assert len(caller.bench.stored()) == 999
    assert caller.post(WRITE, body, V1).status == 204
    assert len(caller.bench.stored()) == 1001


def test_more_requests_than_are_decoded_at_once_are_told_to_wait(
    make: Callable[..., Bench], decoders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller(make(requests_max=1), decoders)
    answers: list[Answer] = []
    real = IngestApp._take

    def take(app: IngestApp, request: Any) -> Any:
        if not answers:
            answers.append(asyncio.run_coroutine_threadsafe(caller.call(EVENTS, [event("b")], NDJSON), loop).result(5))
        return real(app, request)

    monkeypatch.setattr(IngestApp, "_take", take)

    async def run() -> Answer:
        nonlocal loop
        loop = asyncio.get_running_loop()
        return await caller.call(EVENTS, [event("a")], NDJSON)

    loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]
    assert asyncio.run(run()).status == 200
    assert answers[0].status == 429
    assert [row["message"] for row in caller.bench.store.rows("event")] == ["a"]
    assert caller.app._turns.requests == caller.bench.intake.room.held_bytes == 0


def test_bodies_held_together_are_bounded(make: Callable[..., Bench], decoders: ThreadPoolExecutor) -> None:
    caller = Caller(make(decode_bytes_max=1000), decoders)
    assert caller.post(EVENTS, event("a" * 2000), NDJSON).status == 200, "one alone is taken, however large"

    async def run() -> tuple[Answer, Answer]:
        go_on = asyncio.Event()
        sent: list[dict[str, Any]] = []
        chunks = [event("slow")[:50], event("slow")[50:]]

        async def receive() -> dict[str, Any]:
            if len(chunks) == 1:
                await go_on.wait()
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/x-ndjson")]
        scope = {"type": "http", "method": "POST", "path": EVENTS, "headers": headers}
        slow = asyncio.create_task(caller.app(scope, receive, send))
        while len(chunks) == 2:
            await asyncio.sleep(0)
        busy = await caller.call(EVENTS, [event("b" * 2000)], NDJSON)
        go_on.set()
        await slow
        return busy, Answer(sent[0]["status"], {}, b"")

    busy, slow = asyncio.run(run())
    assert (busy.status, slow.status) == (429, 200)
    assert caller.bench.intake.room.held_bytes == 0


def test_while_memory_is_full_senders_are_told_to_try_again_and_then_taken(caller: Caller) -> None:
    caller.bench.intake.room.shut("the server holds all the memory that it may")
    for path, body, headers, status in ((WRITE, GOOD, V1, 503), (EVENTS, event("a"), NDJSON, 429)):
        answer = caller.post(path, body, headers)
        assert (answer.status, answer.error["reason"]) == (status, "memory_full")
        assert int(answer.headers["retry-after"]) >= 1
    assert caller.bench.refused() == {"memory_full": 2}
    assert caller.bench.stored() == []
    caller.bench.intake.room.shut("")
    assert [caller.post(WRITE, GOOD, V1).status, caller.post(EVENTS, event("a"), NDJSON).status] == [204, 200]
    assert caller.bench.intake.room.held_bytes == 0


def test_a_store_that_fails_answers_503_and_the_retry_succeeds(caller: Caller) -> None:
    caller.bench.faults.broken = "disk is full"
    for path, body, headers in ((WRITE, GOOD, V1), (EVENTS, event("a"), NDJSON)):
        answer = caller.post(path, body, headers)
        assert (answer.status, answer.error["reason"]) == (503, "store_unavailable")
        assert "disk is full" in answer.error["message"]
        assert int(answer.headers["retry-after"]) >= 1
    caller.bench.faults.broken = ""
    assert caller.post(WRITE, GOOD, V1).status == 204
    assert caller.post(EVENTS, event("a"), NDJSON).status == 200
    assert len(caller.bench.stored()) == len(caller.bench.store.rows("event")) == 1


def test_a_request_cut_off_while_it_waits_does_not_stop_the_lane(caller: Caller) -> None:
    async def run() -> None:
        caller.bench.faults.open.clear()
        task = asyncio.create_task(caller.call(WRITE, [GOOD], V1))
        while not caller.bench.faults.waiting.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        caller.bench.faults.open.set()

    asyncio.run(run())
    assert caller.post(WRITE, v1_body((UP, [T + MS])), V1).status == 204
    assert [time_ns for _, time_ns, _ in caller.bench.stored()] == [T, T + MS], "what was taken is stored all the same"


def test_a_body_is_taken_in_any_chunks(caller: Caller) -> None:
    answer = asyncio.run(caller.call(WRITE, [bytes([byte]) for byte in GOOD], V1))
    assert answer.status == 204
    assert len(caller.bench.stored()) == 1


def test_a_sender_is_named_by_its_agent_and_address(caller: Caller) -> None:
    caller.post(WRITE, GOOD, {**V1, "user-agent": "Prometheus/2.42.0 (linux)"})
    source = caller.bench.sources.all()[0]
    assert source.sender.name == "Prometheus/2.42.0 at 10.0.0.7"
    assert (source.sender.way, source.sender.tenant, source.requests, source.samples) == (
        "remote-write",
        "default",
        1,
        1,
    )
