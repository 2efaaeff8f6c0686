"""Laws of the collectives: the right result for any ranks, channels, sizes and order; every message at both ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.workloads.rings.algorithm import OPS, Op, ring_of, usable_count
from leadline.lab.workloads.rings.collectives import Collective, Stamps, edges_of
from leadline.lab.workloads.rings.data import pattern, prepare, wrong
from leadline.lab.workloads.transport.base import RECV, SEND, Edge, EdgeFlow, Transfer
from leadline.testing.clock import FakeClock


class FakeWires:
    """Stands for the network: queues in memory; messages are delivered one by one, in an order of chance."""

    def __init__(self, rng: random.Random, clock: FakeClock) -> None:
        self._rng, self._clock = rng, clock
        self.sent: dict[tuple[int, int, int], list[tuple[memoryview, Transfer]]] = {}
        self.wanted: dict[tuple[int, int, int], tuple[memoryview, Transfer]] = {}

    def end(self, rank: int) -> FakeEnd:
        return FakeEnd(self, rank)

    def deliver_one(self) -> bool:
        """Move one message; False if none can move."""
        ready = [key for key in self.wanted if self.sent.get(key)]
        if not ready:
            return False
        key = self._rng.choice(sorted(ready))
        (data, sending), (into, receiving) = self.sent[key].pop(0), self.wanted.pop(key)
        into[:] = data
        for transfer in (sending, receiving):
            transfer.end_ns, transfer.done = self._clock.advance(1e-6), True
        return True


class FakeEnd:
    """One rank's transport on `FakeWires`."""

    name = "fake"

    def __init__(self, wires: FakeWires, rank: int) -> None:
        self._wires, self._rank = wires, rank

    def send(self, edge: Edge, data: memoryview) -> Transfer:
        transfer = Transfer()
        self._wires.sent.setdefault((edge[0], self._rank, edge[1]), []).append((data, transfer))
        return transfer

    def receive(self, edge: Edge, into: memoryview) -> Transfer:
        transfer = Transfer()
        assert (edge[0], edge[1], self._rank) not in self._wires.wanted, "one receive at a time per edge"
        self._wires.wanted[edge[0], edge[1], self._rank] = (into, transfer)
        return transfer

    def turn(self, timeout_s: float, also: Sequence[Any] = ()) -> None: ...
    def flows(self) -> list[EdgeFlow]:
        return []

    def offer(self, outgoing: Sequence[Edge], incoming: Sequence[Edge]) -> dict[str, Any]:
        return {}

    def connect(self, offers: Sequence[dict[str, Any]]) -> None: ...
    def report(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


class RecordedStamps(Stamps):
    """Keeps the ends of messages instead of writing them to a ring."""

    def __init__(self, rank: int, into: list[tuple[Any, ...]]) -> None:
        super().__init__(None, "", {})
        self._rank, self._into = rank, into

    def end(self, channel: int, seq: int, side: str, part: Any, size: int, begin_ns: int, end_ns: int) -> None:
        ends = (self._rank, part.peer) if side == SEND else (part.peer, self._rank)
        self._into.append((side, (channel, seq, part.step, *ends, size)))
        assert begin_ns <= end_ns


def carry_out(
    op: Op, ranks: int, channels: int, count: int, root: int, rng: random.Random
) -> tuple[list[int], list[tuple[Any, ...]]]:
    """Run one collective on all ranks. Returns (wrong elements by rank, message ends)."""
    clock = FakeClock()
    wires = FakeWires(rng, clock)
    ends: list[tuple[Any, ...]] = []
    works, running = [], []
    for rank in range(ranks):
        given = pattern(rank, count, "int64")
        work = np.full(count, -1, "int64")
        prepare(op, given, work, rank, ranks)
        rings = [ring_of(ranks, rank, channel, channels) for channel in range(channels)]
        works.append(work)
        running.append(Collective(op, work, given, rings, wires.end(rank), 7, RecordedStamps(rank, ends), root, clock))
    over = [False] * ranks
    while not all(over):
        order = rng.sample(range(ranks), ranks)
        over_before = list(over)
        for rank in order:
            over[rank] = running[rank].advance()
        moved = wires.deliver_one()
        assert moved or over != over_before or all(over), f"stuck: {[one.waiting() for one in running]}"
    return [wrong(op, work, rank, ranks, root) for rank, work in enumerate(works)], ends


@settings(max_examples=120, deadline=None)
@given(
    op=st.sampled_from(OPS),
    ranks=st.integers(1, 9),
    channels=st.integers(1, 5),
    elements=st.integers(0, 400),
    root=st.integers(0, 8),
    seed=st.integers(0, 2**32),
)
def test_every_collective_gives_the_right_result(
    op: Op, ranks: int, channels: int, elements: int, root: int, seed: int
) -> None:
    count = usable_count(op, elements * 8, 8, ranks)
    bad, ends = carry_out(op, ranks, channels, count, root % ranks, random.Random(seed))
    assert bad == [0] * ranks
    sides = Counter(side for side, _ in ends)
    assert sides[SEND] == sides[RECV]
    assert Counter(what for side, what in ends if side == SEND) == Counter(what for side, what in ends if side == RECV)
    assert len({what for _, what in ends}) == sides[SEND], "a message is named by channel, step and both ranks"


@settings(max_examples=60, deadline=None)
@given(op=st.sampled_from(OPS), ranks=st.integers(2, 8), channels=st.integers(1, 4), root=st.integers(0, 7))
def test_each_rank_sends_what_the_bus_factor_says(op: Op, ranks: int, channels: int, root: int) -> None:
    """Bytes that a rank sends are at most bus factor x size: these schedules are the best there are."""
    count = ranks * channels * 40
    _, ends = carry_out(op, ranks, channels, count, root % ranks, random.Random(1))
    sent = Counter[int]()
    for side, (_, _, _, source, _, size) in ends:
        sent[source] += size if side == SEND else 0
    assert max(sent.values()) == round(op.bus_factor(ranks) * count * 8)


@settings(max_examples=40, deadline=None)
@given(ops=st.lists(st.sampled_from(OPS), min_size=1, max_size=3), ranks=st.integers(2, 8), channels=st.integers(1, 4))
def test_both_ends_know_of_every_connection(ops: list[Op], ranks: int, channels: int) -> None:
    edges = [edges_of(ops, rank, ranks, channels) for rank in range(ranks)]
    out = {(channel, rank, peer) for rank, (outgoing, _) in enumerate(edges) for channel, peer in outgoing}
    back = {(channel, peer, rank) for rank, (_, incoming) in enumerate(edges) for channel, peer in incoming}
    assert out == back


def test_a_wrong_element_is_seen() -> None:
    for op in OPS:
        work = np.full(64, -1, "int64")
        assert wrong(op, work, 1, 4) > 0
