"""Small bodies that come at the same time: taken as one, and each answered as if it had come alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.unit.wire.rings import fresh

from leadline.ingest import together
from leadline.ingest.decode import RING
from leadline.ingest.http import IngestApp
from leadline.model.principal import Caller, Principal
from leadline.testing.clock import START_NS as T
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.writer import RingWriter

from .conftest import Bench

ROWS = "/api/v1/rows/watermark"
EVENTS = "/api/v1/rows/event"
NDJSON = {"content-type": "application/x-ndjson"}


def ring(seq: int, at_ns: int = T) -> bytes:
    memory = fresh(128)
    writer = RingWriter(memory)
    for number in range(seq, seq + 2):
        writer.collective_begin("c", number, "all_reduce", "float32", 4, 8, at_ns)
    if seq % 2:
        writer.step(seq, at_ns, at_ns + 1)
    return read_segment(memory, 0).segment


def mark(host: str, **more: object) -> bytes:
    row = {"host": host, "clock": f"{host}/1", "sender": "agent", "job": "", "state": "open", "ranks": 1,
           "reported_ns": T, "to_ns": T, **more}  # fmt: skip
    return json.dumps(row).encode() + b"\n"


def event_of(host: str) -> bytes:
    row = {"time_ns": T, "entity_kind": "host", "entity": f"host:{host}", "kind": "test", "severity": "info",
           "code": None, "message": "", "attributes": {}, "source": "test", "host": host, "clock": "x/1"}  # fmt: skip
    return json.dumps(row).encode() + b"\n"


class World:
    """The ways in of one bench, and how often it decoded for several."""

    def __init__(self, bench: Bench, decoders: ThreadPoolExecutor) -> None:
        self.bench = bench
        self.app = IngestApp(bench.intake, decoders, self._whose)
        self.groups: list[int] = []

    def _whose(self, caller: Caller) -> Principal:
        return Principal(caller.headers.get("tenant", "default"))

    async def _one(self, path: str, body: bytes, headers: Mapping[str, str], peer: str) -> tuple[int, dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": path, "headers": raw, "client": (peer, 1)}
        await self.app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    def send(self, path: str, *bodies: bytes, **headers: str) -> list[tuple[int, dict[str, Any]]]:
        """All at once, each from an address of its own."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def run() -> list[tuple[int, dict[str, Any]]]:
            sending = (self._one(path, body, named, f"10.0.0.{n}") for n, body in enumerate(bodies))
            return await asyncio.gather(*sending)

        return asyncio.run(run())

    def rows(self, table: str, *names: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row[name] for name in names) for row in self.bench.store.rows(table))


@pytest.fixture
def world(bench: Bench, decoders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> World:
    made, real = World(bench, decoders), together.take_together

    def noted(intake: Any, take: Any, requests: Any) -> Any:
        made.groups.append(len(requests))
        return real(intake, take, requests)

    monkeypatch.setattr("leadline.ingest.http.take_together", noted)
    return made


def test_rings_are_decoded_as_one_and_stored_as_if_each_had_come_alone(
    world: World, make: Callable[..., Bench], decoders: ThreadPoolExecutor
) -> None:
    bodies = [ring(seq) for seq in (1, 10, 21)]
    answers = world.send(RING, *bodies)
    assert world.groups == [3]
    alone = World(make(), decoders)
    assert answers == [alone.send(RING, body)[0] for body in bodies]
    assert answers[1] == (200, {"rows": 2, "tables": {"collective": 2}, "refused": {}})
    for table, names in {"collective": ("seq", "batch", "batch_row"), "step": ("step", "batch", "batch_row")}.items():
        assert world.rows(table, *names) == alone.rows(table, *names)
    assert world.bench.accepted("rows") == alone.bench.accepted("rows") == 8
    assert ("collective", 6) in world.bench.store.appends
    heard = {each.sender.name: each.rows for each in world.bench.sources.all()}
    assert sorted(heard.values()) == [2, 3, 3]


def test_what_was_sent_before_is_not_stored_again(world: World) -> None:
    bodies = [ring(seq) for seq in (1, 10, 21)]
    world.send(RING, *bodies[:2])
    answers = world.send(RING, *bodies)
    assert [status for status, _ in answers] == [200] * 3
    assert world.rows("collective", "seq") == [(1,), (2,), (10,), (11,), (21,), (22,)]
    assert world.bench.accepted("repeated_batches") == 3


def test_one_that_is_spoilt_costs_the_others_nothing(world: World) -> None:
    answers = world.send(RING, ring(1), b"no ring at all, but long enough to be looked at" * 9, ring(10))
    assert [status for status, _ in answers] == [200, 400, 200]
    assert world.rows("collective", "seq") == [(1,), (2,), (10,), (11,)]
    assert world.bench.refused() == {"malformed": 1}


def test_a_header_that_is_wrong_refuses_its_own_body_only(world: World) -> None:
    """Agents throw away what is answered 400: all who sent at that moment would have."""

    async def run() -> list[tuple[int, dict[str, Any]]]:
        headers: list[dict[str, str]] = [NDJSON, {**NDJSON, "leadline-batch": "no batch"}, NDJSON]
        sending = (world._one(EVENTS, event_of(f"h{n}"), each, f"10.0.0.{n}") for n, each in enumerate(headers))
        return await asyncio.gather(*sending)

    answers = asyncio.run(run())
    assert world.groups == [3]
    assert [status for status, _ in answers] == [200, 400, 200]
    assert "Leadline-Batch" in answers[1][1]["error"]["message"]
    assert world.rows("event", "host") == [("h0",), ("h2",)]


def test_who_floods_waits_for_its_own_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "OF_A_SENDER_MAX", 2)

    async def run() -> list[tuple[int, dict[str, Any]]]:
        peers = ["10.0.0.66"] * 6 + ["10.0.0.1"]
        return await asyncio.gather(*(world._one(RING, ring(10 * n), {}, peer) for n, peer in enumerate(peers)))

    assert [status for status, _ in asyncio.run(run())] == [200] * 7
    assert world.groups == [3], "two of the flood, and the other one"
    assert len(world.rows("collective", "seq")) == 14


def test_one_out_of_time_is_refused_by_itself(world: World) -> None:
    answers = world.send(RING, ring(1), ring(10, at_ns=T + 10**15))
    assert [answer["rows"] for _, answer in answers] == [3, 0]
    assert world.bench.refused() == {"in_future": 2}


def test_words_on_how_far_data_has_come_are_taken_together_and_heard_at_once(world: World) -> None:
    answers = world.send(ROWS, mark("h1"), mark("h2") + mark("h3"), mark("h4", ranks="two"), b"", **NDJSON)
    assert [status for status, _ in answers] == [200, 200, 400, 200]
    assert [answer.get("rows") for _, answer in answers] == [1, 2, None, 0]
    assert "ranks" in answers[2][1]["error"]["message"]
    assert world.groups == [4]
    assert world.rows("watermark", "host") == [("h1",), ("h2",), ("h3",)]
    assert world.bench.refused() == {"bad_row": 1}


def test_tenants_are_kept_apart(world: World) -> None:
    async def run() -> None:
        sending = [
            world._one(RING, ring(10 * n), {"tenant": tenant}, "10.0.0.1") for n, tenant in enumerate(("a", "b", "a"))
        ]
        await asyncio.gather(*sending)

    asyncio.run(run())
    assert sorted(world.groups) == [1, 2]
    assert world.rows("collective", "tenant", "seq")[:4] == [("a", 0), ("a", 1), ("a", 20), ("a", 21)]


def test_what_is_packed_large_or_of_another_kind_is_taken_by_itself(world: World) -> None:
    world.send(RING, ring(1), ring(2), content_encoding="gzip")
    world.send(ROWS, mark("h1"), mark("h2"), content_type="application/json")
    world.send(ROWS, mark("h1") * 1000, mark("h2") * 1000, **NDJSON)
    assert world.groups == []


def test_a_bug_in_decoding_together_is_no_senders_fault(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("segment")

    monkeypatch.setattr(together, "take_rings", broken)
    answers = world.send(RING, ring(1), ring(10))
    assert [status for status, _ in answers] == [200, 200]
    assert len(world.rows("collective", "seq")) == 4


def test_a_store_that_fails_is_told_to_all(world: World) -> None:
    world.bench.faults.broken = "the disk is full"
    answers = world.send(RING, ring(1), ring(10))
    assert {status for status, _ in answers} == {503}


def test_who_hangs_up_does_not_keep_the_others(world: World) -> None:
    async def run() -> list[Any]:
        first = asyncio.ensure_future(world._one(RING, ring(1), {}, "10.0.0.1"))
        second = asyncio.ensure_future(world._one(RING, ring(10), {}, "10.0.0.2"))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.gather(first, second, return_exceptions=True)

    gone, stayed = asyncio.run(run())
    assert isinstance(gone, asyncio.CancelledError)
    assert stayed[0] == 200
