"""Carries out collectives: takes the moves of `rings.algorithm`, gives them to a transport, adds up what arrives.

Each channel is at its own move; a move is over when what it sent may be touched again and what it wanted is here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.lab.workloads.rings.algorithm import Move, Op, Part, Ring, ring_of
from leadline.lab.workloads.transport.base import RECV, SEND, Edge, Transfer, Transport
from leadline.model.errors import WorldError

if TYPE_CHECKING:
    from leadline.wire.ring.writer import RingWriter

    Array = np.ndarray[Any, np.dtype[Any]]

TURN_S = 0.2  # how long a turn of the transport may wait: how late the deadline is noticed
ALGORITHMS = {"all_to_all": "pairwise"}  # the others go around rings


def edges_of(ops: Iterable[Op], rank: int, ranks: int, channels: int) -> tuple[list[Edge], list[Edge]]:
    """(edges to send on, edges to receive on) that these collectives need, each once."""
    outgoing: dict[Edge, None] = {}
    incoming: dict[Edge, None] = {}
    for op in ops:
        for channel in range(channels):
            # So many elements that no part is empty; every root, because a broadcast has other edges for each.
            for root in range(ranks if op.name == "broadcast" else 1):
                for move in op.moves(ring_of(ranks, rank, channel, channels), ranks * channels * 64, root=root):
                    if move.send:
                        outgoing[channel, move.send.peer] = None
                    if move.receive:
                        incoming[channel, move.receive.peer] = None
    return sorted(outgoing), sorted(incoming)


class Stamps:
    """Writes collectives and message ends of one communicator to the event ring; without a ring it does nothing."""

    def __init__(self, ring: RingWriter | None, comm: str, flows: dict[tuple[Edge, str], str]) -> None:
        self.ring, self.comm, self._flows = ring, comm, flows

    def begin(self, channel: int, seq: int, side: str, part: Part, size: int, begin_ns: int) -> None:
        """A message was posted."""
        if self.ring is not None:
            flow = self._flows.get(((channel, part.peer), side), "")
            self.ring.message_begin(self.comm, channel, seq, part.step, side, part.peer, size, begin_ns, flow)

    def end(self, channel: int, seq: int, side: str, part: Part, size: int, begin_ns: int, end_ns: int) -> None:
        """A message was accepted by the network, or is complete."""
        if self.ring is not None:
            flow = self._flows.get(((channel, part.peer), side), "")
            self.ring.message_end(self.comm, channel, seq, part.step, side, part.peer, size, begin_ns, end_ns, flow)


class _Half:
    """The sending or the receiving half of a move."""

    __slots__ = ("begin_ns", "part", "side", "size", "stamped", "transfer")

    def __init__(self, side: str, part: Part, size: int, begin_ns: int, transfer: Transfer) -> None:
        self.side, self.part, self.size, self.begin_ns, self.transfer = side, part, size, begin_ns, transfer
        self.stamped = False


class _Channel:
    """Where one channel is in its moves."""

    def __init__(self, number: int, moves: Iterator[Move]) -> None:
        self.number, self.moves = number, moves
        self.move: Move | None = None
        self.halves: list[_Half] = []
        self.scratch: Array | None = None
        self.over = False


class Collective:
    """One collective of one rank under way. Call `advance` after every turn of the transport until it says True."""

    def __init__(
        self, op: Op, work: Array, given: Array, rings: Sequence[Ring], transport: Transport, seq: int, stamps: Stamps,
        root: int = 0, clock: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        """`work`: flat array that is worked on and holds the result; `given`: the input, read by all-to-all."""
        self._work, self._given, self._transport = work, given, transport
        self._seq, self._stamps, self._clock = seq, stamps, clock
        self._channels = [_Channel(ring.channel, op.moves(ring, len(work), root=root)) for ring in rings]

    def advance(self) -> bool:
        """Go on where a move is over. Returns whether all channels are through."""
        for channel in self._channels:
            while not channel.over and self._settled(channel):
                self._next(channel)
        return all(channel.over for channel in self._channels)

    def waiting(self) -> list[str]:
        """What is not done yet, for the message of a timeout."""
        return [
            f"channel {channel.number} step {half.part.step} {half.side} rank {half.part.peer}"
            for channel in self._channels
            for half in channel.halves
            if not half.transfer.done
        ]

    def _settled(self, channel: _Channel) -> bool:
        """Stamp what ended; take in what came; whether the move is over."""
        for half in channel.halves:
            if half.transfer.end_ns and not half.stamped:
                half.stamped = True
                self._stamps.end(
                    channel.number, self._seq, half.side, half.part, half.size, half.begin_ns, half.transfer.end_ns
                )
        if not all(half.transfer.done for half in channel.halves):
            return False
        if channel.scratch is not None and channel.move is not None and channel.move.receive is not None:
            span = channel.move.receive.span
            self._work[span.start : span.stop] += channel.scratch
        channel.scratch, channel.halves = None, []
        return True

    def _next(self, channel: _Channel) -> None:
        channel.move = move = next(channel.moves, None)
        if move is None:
            channel.over = True
            return
        if move.receive:  # first, so that what comes has a place
            span = move.receive.span
            into = self._work[span.start : span.stop]
            if move.reduce:
                into = channel.scratch = np.empty_like(into)
            self._post(channel, RECV, move.receive, into)
        if move.send:
            source = self._given if move.from_input else self._work
            self._post(channel, SEND, move.send, source[move.send.span.start : move.send.span.stop])

    def _post(self, channel: _Channel, side: str, part: Part, data: Array) -> None:
        octets = data.data.cast("B")
        begin_ns = self._clock()
        self._stamps.begin(channel.number, self._seq, side, part, len(octets), begin_ns)
        edge = (channel.number, part.peer)
        transfer = self._transport.send(edge, octets) if side == SEND else self._transport.receive(edge, octets)
        channel.halves.append(_Half(side, part, len(octets), begin_ns, transfer))


class Communicator:
    """A group of ranks over a connected transport. One collective at a time, numbered from 0."""

    def __init__(
        self, name: str, rank: int, ranks: int, channels: int, transport: Transport, ring: RingWriter | None = None,
        timeout_s: float = 60.0, clock: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self.name, self.rank, self.ranks, self.channels = name, rank, ranks, channels
        self.seq = 0
        self._transport, self._ring, self._timeout_s, self._clock = transport, ring, timeout_s, clock
        self._rings = [ring_of(ranks, rank, channel, channels) for channel in range(channels)]
        self._stamps = Stamps(ring, name, {(each.edge, each.side): each.flow for each in transport.flows()})

    def run(self, op: Op, work: Array, given: Array, root: int = 0) -> tuple[int, int]:
        """Carry out one collective on `work`. Returns (begin, end), ns.

        Errors: WorldError when it is not over after the timeout, or when the transport gives up.
        """
        seq, self.seq = self.seq, self.seq + 1
        begin_ns = self._clock()
        told = (
            self.name, seq, op.name, str(work.dtype), work.nbytes, self.ranks, begin_ns,
        )  # fmt: skip
        algo = ALGORITHMS.get(op.name, "ring")
        if self._ring is not None:
            self._ring.collective_begin(*told, algo)
        failed = True
        try:
            collective = Collective(
                op, work, given, self._rings, self._transport, seq, self._stamps, root, self._clock
            )  # fmt: skip
            self._until_over(collective, f"{op.name} number {seq}")
            failed = False
        finally:
            end_ns = self._clock()
            if self._ring is not None:
                self._ring.collective_end(*told, end_ns, algo=algo, failed=failed)
        return begin_ns, end_ns

    def _until_over(self, collective: Collective, label: str) -> None:
        deadline = time.monotonic() + self._timeout_s
        while not collective.advance():
            self._transport.turn(TURN_S)
            if time.monotonic() > deadline:
                raise WorldError(
                    f"rank {self.rank}: {label} not over after {self._timeout_s:g} s; waiting for "
                    + "; ".join(collective.waiting())
                )
