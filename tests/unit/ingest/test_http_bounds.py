"""The HTTP ways in where there is too much: slow, large and many bodies, full lanes; others go on beside them."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from leadline.ingest import http
from leadline.ingest.http import IngestApp
from leadline.testing.clock import START_NS as T

from .callers import EVENTS, GOOD, MS, NDJSON, OTLP, UP, V1, WRITE, Answer, Caller, event, metrics_body, v1_body
from .conftest import Bench


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
