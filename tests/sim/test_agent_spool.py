"""The agent's spool and delivery against a world that fails: kills at any byte, answers that get lost, a server that
stays away. Nothing that was kept is lost but what is counted, the order holds, and a retry is the same request.

The production spool on a real directory; a kill is what it leaves on disk (cut at any byte of the last write). Time and
chance are the seed's. A failing case names its seed: `pytest tests/sim/test_agent_spool.py -k "[seed-17"`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from leadline.host.delivery import Delivery, Outcome, Verdict, judge
from leadline.host.frames import Item
from leadline.host.spool import Spool
from leadline.testing.clock import FakeClock

BOUND = 16 * 64 * 1024
FILE_BYTES = 64 * 1024


class ServerDouble:
    """A double of the server: stores each batch once, and answers, or does not."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.away = False
        self.stored: dict[bytes, bytes] = {}
        self.order: list[int] = []
        self.poisoned: set[int] = set()

    def post(self, item: Item) -> Outcome:
        kind = self._rng.random()
        if self.away or kind < 0.1:
            return Outcome(0, "refused")
        if kind < 0.2:
            return Outcome(self._rng.choice([429, 503]), "later", self._rng.choice([0.0, 1.0]))
        number = int.from_bytes(item.batch, "big")
        if number % 97 == 13:
            self.poisoned.add(number)
            return Outcome(400, "never")
        if item.batch in self.stored:
            assert self.stored[item.batch] == item.body, "a retry has other bytes"
        else:
            self.stored[item.batch] = item.body
            self.order.append(number)
        return Outcome(0, "the answer got lost") if kind < 0.3 else Outcome(200)


class World:
    """One agent's spool over many lives."""

    def __init__(self, seed: int, directory: Path, in_flight: int = 1) -> None:
        self.rng = random.Random(seed)
        self.in_flight = in_flight
        self.out: list[Item] = []
        self.clock = FakeClock()
        self.directory = directory
        self.server = ServerDouble(self.rng)
        self.lost = 0
        self.kept: list[int] = []
        self.number = 0
        self.state = Delivery()
        self.not_before = 0
        self.born()

    def born(self) -> None:
        self.spool = Spool(self.directory, BOUND, self._count)

    def _count(self, reason: str, rows: int) -> None:
        assert reason == "spool_full"
        self.lost += rows

    def append(self) -> None:
        body = self.rng.randbytes(self.rng.choice([10, 1000, 9000]))
        item = Item(
            "/v1/metrics",
            "x",
            body,
            self.number.to_bytes(16, "big"),
            1,
            (("ring/a", str(self.number)), ("ring/b", f"b{self.number}")),
            self.number,
        )
        assert self.spool.append(item)
        self.kept.append(self.number)
        self.number += 1

    def deliver(self) -> None:
        if len(self.out) < self.in_flight and (found := self.spool.take()) is not None:
            self.out.append(found)
        if not self.out or self.clock() < self.not_before:
            self.clock.advance(0.1)
            return
        item = self.rng.choice(self.out)
        if not self.spool.holds(item):  # the bound has dropped it
            self.out.remove(item)
            return
        self.state, verdict = judge(self.state, self.server.post(item), 5.0, self.rng.random())
        self.not_before = self.clock() + round(self.state.wait_s * 1e9)
        if verdict is not Verdict.AGAIN:
            self.spool.done(item)
            self.out.remove(item)
            self.check_watermark()

    def check_watermark(self) -> None:
        """What is said to be delivered is: it is stored, or was refused, or counted as lost."""
        after = self.spool.after_ns()
        said = self.number if after is None else after
        known = {int.from_bytes(batch, "big") for batch in self.server.stored} | self.server.poisoned
        missing = [number for number in range(said) if number not in known]
        assert len(missing) <= self.lost

    def kill(self) -> None:
        """As `kill -9`: at times in the middle of a write, which then ends anywhere."""
        os.close(self.spool._guard)
        if self.spool._out is not None:
            os.close(self.spool._out)
        files = sorted(self.directory.glob("*.spool"))
        if files and self.rng.random() < 0.5:
            with files[-1].open("ab") as file:
                file.write(self.rng.randbytes(self.rng.randint(1, 40)))  # an append that was not finished
        self.state, self.not_before, self.out = Delivery(), 0, []
        self.born()
        if self.kept:
            marks = self.spool.mark("ring/a"), self.spool.mark("ring/b")
            assert marks == (str(self.kept[-1]), f"b{self.kept[-1]}"), "a record would be read twice, or never"

    def settle(self) -> None:
        self.server.away = False
        while self.spool.first() is not None:
            self.deliver()


@pytest.mark.parametrize("seed", range(12), ids=lambda seed: f"seed-{seed}")
def test_what_is_kept_arrives_once_and_in_order(seed: int, tmp_path: Path) -> None:
    """Every other one with several requests on their way, which may arrive in any order."""
    world = World(seed, tmp_path, in_flight=4 if seed % 2 else 1)
    for _ in range(world.rng.randint(100, 600)):
        kind = world.rng.random()
        if kind < 0.5:
            world.append()
        elif kind < 0.97:
            world.deliver()
        elif kind < 0.985:
            world.kill()
        else:
            world.server.away = not world.server.away
    world.settle()
    arrived = world.server.order
    assert arrived == sorted(arrived) or world.in_flight > 1
    assert len(set(arrived)) == len(arrived)
    missing = set(world.kept) - set(arrived) - world.server.poisoned
    assert len(missing) <= world.lost <= len(missing) + len(arrived)  # what was sent and then dropped counts, too
    on_disk = sum(file.stat().st_size for file in tmp_path.glob("*.spool"))
    assert on_disk <= BOUND + FILE_BYTES
    world.spool.close()


def test_a_server_that_stays_away_costs_the_oldest_and_no_more_than_the_bound(tmp_path: Path) -> None:
    world = World(99, tmp_path)
    world.server.away = True
    for _ in range(700):
        world.append()
        world.deliver()
    assert world.lost > 0
    assert sum(file.stat().st_size for file in tmp_path.glob("*.spool")) <= BOUND + FILE_BYTES
    world.settle()
    assert len(world.server.order) + len(world.server.poisoned) == 700 - world.lost
    assert world.server.order[-1] == 699
    world.spool.close()
