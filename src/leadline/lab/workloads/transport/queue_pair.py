"""A queue pair without sockets: messages in, packets out; packets in, messages out. Reliable by go-back-N.

    pair.send(memoryview(data))            a message; `sent` and `completed` say how far it is
    for parts in pair.packets(now_ns):     what must go out now, ready for sendmsg
    pair.receive(packet, now_ns)           what came for this number
    pair.messages.popleft()                whole messages, in order

The owner brings the time, moves the bytes, and calls `expire` when `wakes_ns` has come.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from leadline.lab.workloads.transport.go_back_n import (
    RUN_BYTES,
    WINDOW_BYTES,
    WINDOW_LEAST,
    Reply,
    Requester,
    Responder,
)
from leadline.lab.workloads.transport.rocev2 import (
    ACKNOWLEDGE,
    SEQUENCES,
    STARTS,
    Packet,
    ack_packet,
    opcode_of,
    packets_of,
    send_packet,
)

RECEIVES_POSTED = 16  # messages that may lie here unread before the sender is told to wait: two broadcasts of 8 pieces


class _Outgoing(NamedTuple):
    first: int
    packets: int
    data: memoryview


class QueuePair:
    """One end of a reliable connection. `number` is ours, `peer_number` the other end's, `mtu` that of what we send."""

    def __init__(self, number: int, peer_number: int, mtu: int, counts: Counter[str] | None = None) -> None:
        self.number, self.peer_number = number, peer_number
        self.counts: Counter[str] = counts if counts is not None else Counter()
        self._mtu = mtu
        self.requester = Requester(self.counts, max(WINDOW_LEAST, WINDOW_BYTES // mtu), max(1, RUN_BYTES // mtu))
        self.responder = Responder(self.counts)
        self.messages: deque[bytearray] = deque()
        self._outgoing: deque[_Outgoing] = deque()
        self._replies: deque[Reply] = deque()
        self._incoming: bytearray | None = None
        self._taken = 0  # whole messages received, for the acknowledgement

    # -- sending ----------------------------------------------------------------------------------------------

    def send(self, data: memoryview) -> int:
        """Post a message; it must not change before it is completed. Returns its mark for `sent`, `completed`."""
        packets = packets_of(len(data), self._mtu)
        end = self.requester.post(packets)
        self._outgoing.append(_Outgoing(end - packets, packets, data))
        return end

    def sent(self, mark: int) -> bool:
        """Whether every packet of the message went out at least once."""
        return self.requester.handed >= mark

    def completed(self, mark: int) -> bool:
        """Whether the other end has acknowledged the whole message."""
        return self.requester.acknowledged >= mark

    def packets(self, now_ns: int, most: int = 1 << 30) -> Iterator[list[bytes | memoryview]]:
        """The packets to send now, at most `most`: acknowledgements first. Taken one by one, sent one by one."""
        while self._replies and most > 0:
            reply = self._replies.popleft()
            most -= 1
            yield ack_packet(self.peer_number, reply.about % SEQUENCES, reply.syndrome, self._taken)
        while most > 0 and (taken := self.requester.take(now_ns)) is not None:
            most -= 1
            yield self._data_packet(*taken)

    def _data_packet(self, count: int, asks: bool) -> list[bytes | memoryview]:
        message = next(each for each in self._outgoing if count < each.first + each.packets)
        position = count - message.first
        opcode = opcode_of(position, message.packets)
        payload = message.data[position * self._mtu : (position + 1) * self._mtu]
        last = position == message.packets - 1
        return send_packet(self.peer_number, count % SEQUENCES, opcode, payload, asks or last)

    # -- receiving --------------------------------------------------------------------------------------------

    def receive(self, packet: Packet, now_ns: int) -> None:
        """A packet for this queue pair came."""
        if packet.opcode == ACKNOWLEDGE:
            assert packet.syndrome is not None, "an acknowledgement has a syndrome"
            self.requester.acknowledge(packet.syndrome, packet.sequence, now_ns)
            while self._outgoing and self.completed(self._outgoing[0].first + self._outgoing[0].packets):
                self._outgoing.popleft()
            return
        ready = packet.opcode not in STARTS or len(self.messages) < RECEIVES_POSTED
        taken, reply = self.responder.receive(packet.sequence, packet.ack_request, ready)
        if taken:
            self._assemble(packet)
        if reply is not None:
            self._replies.append(reply)

    def _assemble(self, packet: Packet) -> None:
        if packet.opcode in STARTS or self._incoming is None:
            self._incoming = bytearray()
        self._incoming += packet.payload
        if packet.ends:
            self.messages.append(self._incoming)
            self._incoming = None
            self._taken += 1

    # -- time -------------------------------------------------------------------------------------------------

    def wakes_ns(self) -> int | None:
        """When `expire` is to be called although nothing came; None: no timer runs."""
        return self.requester.wakes_ns()

    def expire(self, now_ns: int) -> None:
        """The time has come."""
        self.requester.expire(now_ns)

    @property
    def failed(self) -> bool:
        """Retries exceeded: nothing more will get through."""
        return self.requester.failed
