"""What carries messages between ranks: the seam between collectives and sockets.

An *edge* is (channel, peer): a direction of traffic from one rank to another, with a connection of its own. Messages
on an edge arrive whole and in order. One thread: `turn` does what can be done and waits a moment if nothing can.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Edge = tuple[int, int]  # channel, rank at the other end
SEND, RECV = "send", "recv"


class Transfer:
    """One message on its way, at one end. `end_ns` is the stamp that table message_end wants."""

    __slots__ = ("done", "end_ns")

    def __init__(self) -> None:
        self.end_ns = 0  # send: its last byte was accepted by the kernel; recv: its last byte was here. 0: not yet
        self.done = False  # the buffer may be touched again


class EdgeFlow(NamedTuple):
    """The flow that an edge's messages ride, and the queue pair that takes them where there is one."""

    edge: Edge
    side: str
    flow: str  # 32 hex digits, as in `flow:<hex>`
    queue_pair: str  # "10.1.3.1/4711", empty for TCP


class Transport(Protocol):
    """TCP streams or RoCEv2 queue pairs."""

    name: str

    def offer(self, outgoing: Sequence[Edge], incoming: Sequence[Edge]) -> dict[str, Any]:
        """Open what others will connect to; returns what they must be told (JSON)."""

    def connect(self, offers: Sequence[dict[str, Any]]) -> None:
        """Connect every edge, given what each rank offered, by rank."""

    def send(self, edge: Edge, data: memoryview) -> Transfer:
        """Post a message; its bytes must not change until it is done."""

    def receive(self, edge: Edge, into: memoryview) -> Transfer:
        """Post a receive of exactly so many bytes; one at a time per edge."""

    def turn(self, timeout_s: float, also: Sequence[socket.socket] = ()) -> None:
        """Move what can be moved; wait for something to do (or for `also` to be readable) at most `timeout_s`.

        Errors: WorldError when a connection is dead, DataError when a message has another size than was expected.
        """

    def flows(self) -> list[EdgeFlow]:
        """The flow of every edge, both sides. Known once connected."""

    def report(self) -> dict[str, int]:
        """What the transport counted: retransmits and their like."""

    def close(self) -> None:
        """Close every socket."""
