"""Room for bodies and turns at the decoders: what one sender may have, and that nothing of it leaks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from leadline.ingest.decode import batch_of_body
from leadline.ingest.limits import Room, Turns, sender_key
from leadline.model.errors import BusyError, RefusedError
from leadline.model.ids import murmur3_128
from leadline.wire.otlp.logs import decode_otlp_logs
from leadline.wire.otlp.metrics import decode_otlp_metrics
from leadline.wire.otlp.text import JSON_BYTES_MAX


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("our socket", "our socket"),
    ],
)
def test_one_sender_is_an_address_or_a_network_of_ipv6(address: str, key: str) -> None:
    assert sender_key(address) == key


def test_all_bodies_together_are_bounded_and_one_alone_is_not() -> None:
    room = Room(1000, 10)
    alone = room.enter("a")
    alone.hold(5000)
    other = room.enter("b")
    with pytest.raises(BusyError) as busy:
        other.hold(1)
    assert busy.value.reason == "queue_full"
    alone.close()
    other.hold(1000)
    other.close()
    assert (room.held_bytes, room.unfinished) == (0, {})


def test_unfinished_bodies_of_one_sender_hold_half_of_the_room() -> None:
    room = Room(1000, 10)
    first, second, honest = room.enter("a"), room.enter("a"), room.enter("b")
    first.hold(300)
    with pytest.raises(BusyError) as busy:
        second.hold(201)
    assert busy.value.reason == "sender_full"
    second.hold(200)
    honest.hold(500)
    first.arrived()
    assert room.unfinished["a"] == (1, 200), "a whole body is no longer held against its sender"
    for place in (first, second, honest):
        place.close()
    assert (room.held_bytes, room.unfinished) == (0, {})


def test_what_was_not_held_is_not_given_back() -> None:
    room = Room(1000, 10)
    place, other = room.enter("a"), room.enter("b")
    other.hold(900)
    with pytest.raises(BusyError):
        place.hold(200)
    place.close()
    place.close()
    assert room.held_bytes == 900


def test_senders_take_turns_however_much_one_of_them_has_waiting() -> None:
    order: list[str] = []

    def said(name: str) -> bool:
        order.append(name)
        return True

    async def run() -> None:
        gate = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            turns = Turns(pool, 1, 100)
            waiting = [asyncio.create_task(turns.run("flood", gate.wait))]
            await asyncio.sleep(0)
            for number in range(20):
                waiting.append(asyncio.create_task(turns.run("flood", partial(said, f"f{number}"))))
            await asyncio.sleep(0)
            for name in ("honest", "other"):
                waiting.append(asyncio.create_task(turns.run(name, partial(said, name))))
            await asyncio.sleep(0)
            gate.set()
            await asyncio.gather(*waiting)
            assert turns.requests == 0

    asyncio.run(run())
    assert order[:3] == ["f0", "honest", "other"]
    assert order[3:] == [f"f{number}" for number in range(1, 20)]


def test_when_all_turns_are_taken_the_one_with_most_gives_way() -> None:
    async def run() -> list[str]:
        gate = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            turns = Turns(pool, 1, 4)
            flood = [asyncio.create_task(turns.run("flood", gate.wait)) for _ in range(6)]
            await asyncio.sleep(0)
            honest = [asyncio.create_task(turns.run("honest", gate.wait)) for _ in range(2)]
            await asyncio.sleep(0)
            gate.set()
            ended = await asyncio.gather(*flood, *honest, return_exceptions=True)
            assert turns.requests == 0
            return [each.reason if isinstance(each, BusyError) else "taken" for each in ended]

    ended = asyncio.run(run())
    # Four have room: the two too many are refused, then one that waited gives way. With one each left nobody does.
    assert ended[4:6] == ["queue_full", "queue_full"]
    assert ended[:4].count("sender_full") == 1
    assert ended[6] == "taken"


def test_who_waits_no_longer_leaves_no_turn_behind() -> None:
    async def run() -> None:
        gate = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            turns = Turns(pool, 1, 10)
            first = asyncio.create_task(turns.run("a", gate.wait))
            await asyncio.sleep(0)
            gone = [asyncio.create_task(turns.run("a", lambda: None)) for _ in range(3)]
            await asyncio.sleep(0)
            gone[1].cancel()
            gate.set()
            await asyncio.gather(first, *gone, return_exceptions=True)
            assert turns.requests == 0
            assert await turns.run("a", lambda: "served") == "served"

    asyncio.run(run())


def test_who_gave_way_and_hangs_up_gives_back_no_turn_that_it_never_had() -> None:
    async def run() -> None:
        gate = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            turns = Turns(pool, 1, 4)
            flood = [asyncio.create_task(turns.run("flood", gate.wait)) for _ in range(4)]
            await asyncio.sleep(0)
            honest = asyncio.create_task(turns.run("honest", gate.wait))
            await asyncio.sleep(0)
            flood[3].cancel()  # told to give way, and has not heard of it yet
            await asyncio.sleep(0.01)
            requests = turns.requests
            gate.set()
            await asyncio.gather(*flood, honest, return_exceptions=True)
            assert requests == 4, "one is decoded, two of the flood and one of the other wait"
            assert turns.requests == 0

    asyncio.run(run())


@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 3])
def test_the_batch_of_a_body_is_what_it_always_was(body: bytes) -> None:
    assert batch_of_body("acme", "event", body) == murmur3_128(b"acme/event/" + body)


def test_the_batch_of_a_large_body_costs_next_to_nothing() -> None:
    """128 MiB took 13 s of a core: most of what 130 kB of packed line feeds cost."""
    batch_of_body("acme", "event", b"")
    began = time.thread_time()
    batch_of_body("acme", "event", bytes(16 << 20))
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize("decode", [decode_otlp_metrics, decode_otlp_logs])
def test_otlp_as_json_is_bounded(decode: Callable[[bytes, str], object]) -> None:
    with pytest.raises(RefusedError, match="OTLP as JSON") as refused:
        decode(b'{"a":[' + b"1," * (JSON_BYTES_MAX // 2) + b"1]}", "application/json")
    assert refused.value.reason == "decompressed_too_large"
