"""Answers that viewers share: who names an age gets one that another asked for, and nobody an older one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from leadline.model.errors import BusyError
from leadline.server import shared
from leadline.server.shared import AGE_S_MAX, SharedAnswers, age_asked


class World:
    """A clock, and an end point that counts how often it is asked."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked = 0
        self.status = 200
        self.go_on = asyncio.Event()
        self.answers = SharedAnswers(lambda: self.now)

    async def end_point(self) -> Response:
        self.asked += 1
        number = self.asked
        await self.go_on.wait()
        return JSONResponse({"number": number}, self.status)

    async def get(self, key: str = "a", age_s: int = 1) -> bytes:
        return bytes((await self.answers.answer(key, age_s, self.end_point)).body)


def with_world(test: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(World()), 10)

    asyncio.run(run())


def test_who_asks_meanwhile_and_soon_after_is_given_the_same() -> None:
    async def test(world: World) -> None:
        both = [asyncio.ensure_future(world.get()) for _ in range(2)]
        await asyncio.sleep(0)
        world.now += 0.25
        world.go_on.set()
        assert await asyncio.gather(*both) == [b'{"number":1}'] * 2
        world.now += 0.5
        again = await world.answers.answer("a", 1, world.end_point)
        assert again.body == b'{"number":1}'
        assert again.headers["age"] == "0"
        assert again.headers["server-timing"] == "age;dur=750, answer;dur=250"
        assert again.headers["content-type"] == "application/json"
        assert await world.get("b") == b'{"number":2}', "another question"
        world.now += 0.5
        assert await world.get() == b'{"number":3}', "older than a second"

    with_world(test)


def test_a_viewer_that_hangs_up_leaves_the_answer_to_the_others() -> None:
    async def test(world: World) -> None:
        first, second = [asyncio.ensure_future(world.get()) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        world.go_on.set()
        assert await second == b'{"number":1}'

    with_world(test)


def test_what_failed_is_told_to_all_who_waited_and_not_kept() -> None:
    async def test(world: World) -> None:
        async def fails() -> Response:
            await world.go_on.wait()
            raise BusyError("later")

        both = [asyncio.ensure_future(world.answers.answer("a", 1, fails)) for _ in range(2)]
        await asyncio.sleep(0)
        world.go_on.set()
        assert [type(each) for each in await asyncio.gather(*both, return_exceptions=True)] == [BusyError] * 2
        world.status = 404
        assert await world.get() == b'{"number":1}'
        world.status = 200
        assert await world.get() == b'{"number":2}'

    with_world(test)


def test_what_somebody_changed_is_seen_at_once() -> None:
    async def test(world: World) -> None:
        under_way = asyncio.ensure_future(world.get())
        await asyncio.sleep(0)
        world.answers.forget()
        world.go_on.set()
        assert await world.get() == b'{"number":2}', "one that began before does not count"
        assert await under_way == b'{"number":1}'
        assert await world.get() == b'{"number":2}'

    with_world(test)


def test_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "COUNT_MAX", 2)

    async def test(world: World) -> None:
        world.go_on.set()
        for key in ("a", "b", "a", "c", "a"):
            await world.get(key)
        assert world.asked == 3
        await world.get("b")
        assert world.asked == 4
        monkeypatch.setattr(shared, "BYTES_MAX", 10)
        await world.get("d")
        await world.get("d")
        assert world.asked == 6, "one that is larger than all may be is not kept"

    with_world(test)


@pytest.mark.parametrize(
    ("said", "age_s"),
    [
        ("", 0), ("no-cache", 0), ("max-age=0", 0), ("max-age=4", 4), ("no-transform, Max-Age=4", 4),
        ("s-max-age=4", 0), ("max-age=4x", 0), ("max-age=-4", 0), ("max-age=99999", AGE_S_MAX),
    ],
)  # fmt: skip
def test_how_old_an_answer_may_be(said: str, age_s: int) -> None:
    assert age_asked(Request({"type": "http", "headers": [(b"cache-control", said.encode())]})) == age_s
