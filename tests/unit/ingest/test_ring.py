"""POST /api/v1/ring: several tables from one body, all or none acknowledged, nothing twice, what is missing counted."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.unit.wire.rings import everything, fresh

from leadline.ingest.decode import RING
from leadline.ingest.http import IngestApp
from leadline.ingest.intake import _noted
from leadline.ingest.lanes import all_done
from leadline.model.errors import StoreError
from leadline.model.principal import Principal
from leadline.model.tables import Table
from leadline.testing.clock import START_NS as T
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.writer import RingWriter

from .conftest import Bench

TABLES = {"collective": 4, "message_end": 2, "step": 1, "event": 1, "relation": 2}
DAY_NS = 86_400 * 10**9


@pytest.fixture
def decoders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def anyone(_: Mapping[str, str]) -> Principal:
    return Principal()


@pytest.fixture
def post(bench: Bench, decoders: ThreadPoolExecutor) -> Callable[..., tuple[int, dict[str, Any]]]:
    app = IngestApp(bench.intake, decoders, anyone)

    def send(body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
        return asyncio.run(answer(app, body, headers))

    return send


async def answer(app: IngestApp, body: bytes, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "method": "POST", "path": RING, "headers": raw, "client": None}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def recent(shift_ns: int = 0) -> bytes:
    """A segment with a row of every table, at the time of the bench."""
    ring = fresh(128)
    writer = RingWriter(ring)
    at = T + shift_ns
    writer.collective_begin("c", 1, "all_reduce", "float32", 4, 8, at)
    writer.message_end("c", 0, 1, 0, "send", 1, 4, at, at + 1)
    writer.step(1, at, at + 1)
    writer.event("checkpoint", at)
    writer.relation("rank:bert-7/3", "runs-on", "gpu:GPU-1", at)
    return read_segment(ring, 0).segment


Post = Callable[..., tuple[int, dict[str, Any]]]


def test_one_body_becomes_rows_of_every_table(bench: Bench, post: Post) -> None:
    status, told = post(recent())
    assert (status, told["rows"], told["refused"]) == (200, 5, {})
    assert told["tables"] == dict.fromkeys(TABLES, 1)
    for name in TABLES:
        (row,) = bench.store.rows(name)
        assert row["tenant"] == "default"
    assert bench.store.rows("collective")[0]["comm"] == "c"
    assert bench.accepted("rows") == 5
    (source,) = bench.sources.all()
    assert (source.sender.way, source.sender.name) == ("ring", "unknown at our socket")
    assert source.tells == set(TABLES)


def test_gzip_is_taken(bench: Bench, post: Post) -> None:
    assert post(gzip.compress(recent()), content_encoding="gzip")[0] == 200
    assert len(bench.store.rows("step")) == 1


def test_an_answer_waits_until_its_batch_is_known_as_stored() -> None:
    stored, called, go_on = Future[None](), threading.Event(), threading.Event()
    stored.add_done_callback(lambda _: (called.set(), go_on.wait(60)))
    done = _noted(stored)
    lane = threading.Thread(target=stored.set_result, args=(None,))
    lane.start()
    assert called.wait(60)
    assert stored.done()
    assert not done.done()
    go_on.set()
    done.result(60)
    lane.join()


def test_a_retry_changes_nothing(bench: Bench, post: Post) -> None:
    for _ in range(3):
        assert post(recent())[0] == 200
    assert all(len(bench.store.rows(name)) == 1 for name in TABLES)
    assert bench.accepted("repeated_batches") == 8, "relations are known by their key"


def test_it_is_acknowledged_when_every_table_is_stored(bench: Bench, post: Post) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def events_wait(table: Table, rows: Any) -> None:
        if table.name == "event":
            reached.set()
            assert go_on.wait(10)

    bench.store.fault = events_wait
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(post, recent())
        assert reached.wait(10)
        with pytest.raises(TimeoutError):
            answered.result(0.1)
        go_on.set()
        assert answered.result(10)[0] == 200
    assert all(len(bench.store.rows(name)) == 1 for name in TABLES)


def test_what_fails_once_is_tried_again_and_stored_once(bench: Bench, post: Post) -> None:
    failed: list[str] = []

    def each_fails_once(table: Table, rows: Any) -> None:
        if table.name not in failed:
            failed.append(table.name)
            raise StoreError("disk full")

    bench.store.fault = each_fails_once
    while post(recent())[0] != 200:
        pass  # 503: the agent sends the same body again
    assert sorted(failed) == sorted(TABLES)
    assert all(len(bench.store.rows(name)) == 1 for name in TABLES)


def test_what_the_agent_lost_is_counted_once(bench: Bench, post: Post) -> None:
    ring = fresh(64)
    writer = RingWriter(ring)
    for number in range(100):
        writer.collective_begin("c", number, "all_reduce", "float32", 4, 8, T)
    segment = read_segment(ring, 0).segment
    assert post(segment)[1] == {"rows": 64, "tables": {"collective": 64}, "refused": {"ring_lost": 36}}
    assert post(segment)[1]["refused"] == {}
    assert bench.refused() == {"ring_lost": 36}


def test_rows_out_of_time_are_left_out_and_counted(bench: Bench, post: Post) -> None:
    status, told = post(recent(-3 * DAY_NS) + recent(DAY_NS) + recent())
    assert status == 200
    kept = {"collective": 2, "message_end": 1, "step": 2, "event": 2, "relation": 2}
    assert told["tables"] == kept, "message ends are kept for 2 days; nothing may be a day ahead"
    assert bench.refused() == {"too_old": 1, "in_future": 5}
    (source,) = bench.sources.all()
    assert "older than the table is kept" in source.last_error


def test_a_row_keeps_its_number_when_others_are_out_of_time(bench: Bench, post: Post) -> None:
    assert post(recent(DAY_NS) + recent())[0] == 200
    assert [row["batch_row"] for row in bench.store.rows("collective")] == [1]
    assert post(recent() + recent(DAY_NS))[0] == 200
    assert [row["batch_row"] for row in bench.store.rows("collective")] == [1, 0]


def test_what_is_no_segment_is_refused_and_none_of_it_stored(bench: Bench, post: Post) -> None:
    status, told = post(recent() + b"garbage")
    assert (status, told["error"]["reason"]) == (400, "malformed")
    assert "segment 2" in told["error"]["message"]
    assert not any(bench.store.rows(name) for name in TABLES)


def test_an_empty_body_is_nothing(post: Post) -> None:
    assert post(b"") == (200, {"rows": 0, "tables": {}, "refused": {}})


def test_a_full_ring_of_old_times_is_taken_without_them(bench: Bench, post: Post) -> None:
    ring = fresh(128)
    everything(RingWriter(ring))  # in June 2025
    status, told = post(read_segment(ring, 0).segment)
    assert status == 200
    assert sum(told["tables"].values()) + sum(bench.refused().values()) == sum(TABLES.values())


def test_parts_end_together() -> None:
    parts = [Future[None]() for _ in range(3)]
    whole = all_done(parts)
    parts[1].set_exception(ValueError("the second"))
    parts[0].set_result(None)
    assert not whole.done()
    parts[2].set_result(None)
    with pytest.raises(ValueError, match="the second"):
        whole.result(1)
    assert all_done([]).result(1) is None
