"""The watch: what it refuses when memory is full, what it lets go, what it tells.

With a reading that is given, and once with memory that is really held.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.ingest.limits import Room
from leadline.model.counters import Counter
from leadline.model.errors import BusyError, ConfigError, WorldError
from leadline.server.health import require_well
from leadline.server.memory.limit import held_bytes
from leadline.server.memory.pressure import Pressure
from leadline.server.memory.watch import RECENT_S, RELEASE_EVERY_S, MemoryWatch, findings

MIB = 1 << 20


class World:
    """A watch over a reading and a clock that the test sets; `released` says what was let go."""

    def __init__(self, fails: str = "") -> None:
        self.held = self.clock_s = 0.0
        self.counted: Tally[str] = Tally()
        self.released: list[str] = []
        self.room = Room(1000 * MIB, 10)
        self.watch = MemoryWatch(
            1000 * MIB,
            self.room,
            [(name, self._let_go(name, name == fails)) for name in ("answers", "caches")],
            self._count,
            lambda: int(self.held * MIB),
            clock_s=lambda: self.clock_s,
        )

    def _let_go(self, name: str, fails: bool) -> Callable[[], None]:
        def let_go() -> None:
            if fails:
                raise RuntimeError(name)
            self.released.append(name)

        return let_go

    def _count(self, counted: Counter, amount: int) -> None:
        self.counted[f"{counted.family} {counted.reason}"] += amount

    def look(self, held: float, after_s: float = 1.0) -> bool:
        """Look with so many MiB held; whether something is to be let go now."""
        self.held, self.clock_s = held, self.clock_s + after_s
        self.watch._wanted.clear()
        self.watch.look()
        return self.watch._wanted.is_set()

    def states(self) -> list[str]:
        return [each["state"] for each in findings(self.watch)]


def test_full_refuses_bodies_and_queries_until_it_is_less() -> None:
    world = World()
    begun = world.room.enter("a")
    begun.hold(10)
    world.look(999)
    world.room.enter("a").close()
    world.look(1000)
    with pytest.raises(BusyError, match=r"1000 of 1000 MiB \(server.memory_bytes_max\)") as busy:
        world.room.enter("a")
    assert (busy.value.reason, busy.value.retry_after_s) == ("memory_full", 5)
    with pytest.raises(BusyError):
        begun.hold(1)
    begun.close()
    assert world.room.held_bytes == 0, "what is held can be let go of"
    with pytest.raises(BusyError):
        world.watch.require_room()
    with pytest.raises(WorldError):
        world.watch.require_ready()
    world.look(960)
    with pytest.raises(BusyError):
        world.room.enter("a")
    world.look(940)
    world.room.enter("a").close()
    world.watch.require_room()
    world.watch.require_ready()
    assert world.counted == {"memory tight": 1, "memory full": 1, "query_refused memory_full": 1}


def test_what_is_held_for_speed_goes_first_and_not_all_the_time() -> None:
    world = World()
    assert not world.look(800)
    assert world.look(900), "at once"
    assert not world.look(900)
    assert world.look(900, RELEASE_EVERY_S)
    assert world.look(1000), "it got worse"
    assert world.look(1000, 2.0), "full: again soon"
    assert not world.look(900)
    assert not world.look(700, 2 * RELEASE_EVERY_S), "easy"
    world.watch.release()
    assert world.released == ["answers", "caches"]


def test_what_cannot_be_let_go_does_not_keep_the_rest() -> None:
    world = World(fails="answers")
    world.watch.release()
    assert world.released == ["caches"]
    assert world.counted == {"background_failed memory": 1}


def test_the_doctor_tells_of_it_and_for_a_while_after() -> None:
    world = World()
    world.look(500)
    assert world.states() == []
    world.look(900)
    assert world.states() == ["warning"]
    world.look(1100)
    assert world.states() == ["critical"]
    world.look(500, 60)
    assert world.states() == ["warning"]
    world.look(500, RECENT_S)
    assert world.states() == []


def test_a_budget_that_is_held_from_the_beginning_is_refused() -> None:
    world = World()
    world.held = 1000
    with pytest.raises(ConfigError, match=r"server.memory_bytes_max must be more than the 1000 MiB"):
        world.watch.start()


def test_the_server_is_not_ready_while_it_takes_nothing() -> None:
    world = World()
    parts: Any = SimpleNamespace(memory=world.watch, runner=None, store=SimpleNamespace(unreadable={}))
    require_well(parts)
    world.look(1000)
    with pytest.raises(WorldError, match="holds all the memory that it may"):
        require_well(parts)


@pytest.fixture
def real() -> Iterator[tuple[MemoryWatch, Room, threading.Event]]:
    """Running threads over this process, which holds 7 tenths of what it may; the event: something was let go."""
    room, released = Room(1000 * MIB, 10), threading.Event()
    watch = MemoryWatch(held_bytes() * 10 // 7, room, [("all", released.set)], lambda *_: None)
    watch.start()
    yield watch, room, released
    watch.stop()


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_memory_that_is_really_held_is_refused_more_and_taken_again_when_it_is_free(
    real: tuple[MemoryWatch, Room, threading.Event],
) -> None:
    watch, room, released = real
    room.enter("a").close()
    held = bytearray(b"x") * (watch.bytes_max - held_bytes() + 64 * MIB)
    until(lambda: watch.pressure is Pressure.FULL)
    with pytest.raises(BusyError):
        room.enter("a")
    assert released.wait(10)
    held.clear()
    until(lambda: watch.pressure is Pressure.EASY)
    room.enter("a").close()


def test_stopped_it_refuses_nothing(real: tuple[MemoryWatch, Room, threading.Event]) -> None:
    watch, room, _ = real
    room.shut("why")
    watch.stop()
    room.enter("a").close()
