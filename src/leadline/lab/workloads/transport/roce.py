"""Messages over RoCEv2 framing: a queue pair per edge, UDP port 4791, go-back-N in this process instead of a NIC.

One socket per address takes everything that comes to port 4791; each queue pair sends from a socket of its own, bound
to the UDP source port that a NIC would choose for it, so that switches spread queue pairs as in a real fabric.
"""

from __future__ import annotations

import select
import socket
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leadline.lab.workloads.transport.base import RECV, SEND, Edge, EdgeFlow, Transfer
from leadline.lab.workloads.transport.hw_counters import HwCounters
from leadline.lab.workloads.transport.queue_pair import QueuePair
from leadline.lab.workloads.transport.rocev2 import UDP_PORT, mtu_for, read_packet, udp_source_port
from leadline.model.errors import DataError, WorldError
from leadline.model.ids import flow_id

TOS = 26 << 2  # DSCP 26 (AF31), the usual class of RoCE. ECN bits 0: nothing here would react to a mark
# The windows of all queue pairs that send to us must fit while we do not run: 24 KiB each, twice that in the kernel.
RECEIVE_BUFFER_BYTES = 4 << 20
PACKETS_AT_ONCE = 32  # taken from the socket before sending again, so acknowledgements do not wait
COUNTERS_EVERY_NS = 500_000_000
_SO_RCVBUFFORCE = 33
_FIRST_NUMBER = 0x1000
_DATAGRAM_BYTES = 8192
_IP_MTU = 14  # include/uapi/linux/in.h: the MTU of a connected socket's path


class _Nic:
    """One address: its receiving socket and its counters."""

    def __init__(self, address: str, counters: Path | None) -> None:
        self.address = address
        self.hardware = HwCounters(counters)
        self.socket = _receiving(address)

    @property
    def counts(self) -> Counter[str]:
        return self.hardware.counts


class _Pair:
    """A queue pair with its sending socket and what is posted on it."""

    def __init__(self, edge: Edge, side: str, nic: _Nic, number: int) -> None:
        self.edge, self.side, self.nic, self.number = edge, side, nic, number
        self.machine: QueuePair | None = None
        self.socket: socket.socket | None = None
        self.peer_address = ""
        self.flow = 0
        self.sending: list[tuple[int, Transfer]] = []  # mark of the machine, transfer
        self.receiving: tuple[memoryview, Transfer] | None = None


class RoceTransport:
    """RoCEv2 between ranks. `addresses` and `counters` as in TcpTransport: number c modulo how many there are."""

    name = "rocev2"

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str],
        counters: Sequence[Path] = (),
        name: str = "",
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._rank, self._clock = rank, clock
        folders = [counters[at] if at < len(counters) else None for at in range(len(addresses))]
        self._nics = [_Nic(address, folder) for address, folder in zip(addresses, folders, strict=True)]
        # Numbers differ from job to job, as they do on a NIC that counts on; 24 bits.
        self._first = _FIRST_NUMBER + zlib.crc32(f"{name}/{rank}".encode()) % 0xF000 * 0x100
        self._pairs: list[_Pair] = []
        self._by_number: dict[int, _Pair] = {}
        self._out: dict[Edge, _Pair] = {}
        self._in: dict[Edge, _Pair] = {}
        self._buffer = memoryview(bytearray(_DATAGRAM_BYTES))
        self._unknown = 0
        self._refused = 0
        self._counters_due_ns = 0

    def offer(self, outgoing: Sequence[Edge], incoming: Sequence[Edge]) -> dict[str, Any]:
        """Make a queue pair for each edge; tell their numbers."""
        for side, edges, table in ((SEND, outgoing, self._out), (RECV, incoming, self._in)):
            for edge in edges:
                nic = self._nics[edge[0] % len(self._nics)]
                pair = _Pair(edge, side, nic, self._first + len(self._pairs))
                self._pairs.append(pair)
                table[edge] = self._by_number[pair.number] = pair
        return {
            "addresses": [nic.address for nic in self._nics],
            SEND: [[*edge, pair.number] for edge, pair in self._out.items()],
            RECV: [[*edge, pair.number] for edge, pair in self._in.items()],
        }

    def connect(self, offers: Sequence[dict[str, Any]]) -> None:
        """Join each queue pair with its other end, which the peer made for the other side of the same edge."""
        numbers = {
            (side, rank, channel, peer): number
            for rank, offer in enumerate(offers)
            for side in (SEND, RECV)
            for channel, peer, number in offer[side]
        }
        for pair in self._pairs:
            channel, peer = pair.edge
            other = numbers[RECV if pair.side == SEND else SEND, peer, channel, self._rank]
            addresses = offers[peer]["addresses"]
            pair.peer_address = addresses[channel % len(addresses)]
            port = udp_source_port(pair.number, other)
            pair.socket = _sending(pair.nic.address, port, pair.peer_address)
            ip_mtu = pair.socket.getsockopt(socket.IPPROTO_IP, _IP_MTU)
            pair.machine = QueuePair(pair.number, other, mtu_for(ip_mtu), pair.nic.counts)
            # A flow has the direction of its data: the receiver tells the sender's.
            ends = (pair.nic.address, pair.peer_address, other)
            source, target, queue_pair = ends if pair.side == SEND else (ends[1], ends[0], pair.number)
            pair.flow = flow_id(socket.IPPROTO_UDP, source, target, port, UDP_PORT, queue_pair)

    # -- messages ---------------------------------------------------------------------------------------------

    def send(self, edge: Edge, data: memoryview) -> Transfer:
        """Post a message. It ends when its last packet has gone out once, and is done when acknowledged."""
        pair, transfer = self._out[edge], Transfer()
        assert pair.machine is not None, "connect() comes first"
        pair.sending.append((pair.machine.send(data.cast("B")), transfer))
        self._flush(pair)
        return transfer

    def receive(self, edge: Edge, into: memoryview) -> Transfer:
        """Post a receive; a message that came before is taken at once."""
        pair, transfer = self._in[edge], Transfer()
        assert pair.receiving is None, "one receive at a time per edge"
        pair.receiving = (into.cast("B"), transfer)
        self._deliver(pair)
        return transfer

    def turn(self, timeout_s: float, also: Sequence[socket.socket] = ()) -> None:
        """Take what came, send what may go; wait for a packet or a timer if there was nothing."""
        took = sum(self._take(nic) for nic in self._nics)
        now_ns = self._clock()
        for pair in self._pairs:
            assert pair.machine is not None, "connect() comes first"
            pair.machine.expire(now_ns)
            if pair.machine.failed:
                raise WorldError(
                    f"rank {self._rank}, queue pair {pair.number} to rank {pair.edge[1]} at {pair.peer_address}: "
                    "transport retries exceeded"
                )
            self._flush(pair)
        if now_ns >= self._counters_due_ns:
            self._write_counters(now_ns)
        if not took:
            wakes = [each.machine.wakes_ns() for each in self._pairs if each.machine]
            soonest_s = min((max(0, wake - now_ns) / 1e9 for wake in wakes if wake is not None), default=timeout_s)
            select.select([nic.socket for nic in self._nics] + list(also), [], [], min(timeout_s, soonest_s))

    def _take(self, nic: _Nic) -> int:
        """Read what lies in the socket, at most a batch; returns how many packets."""
        for taken in range(PACKETS_AT_ONCE):
            try:
                size = nic.socket.recv_into(self._buffer)
            except BlockingIOError:
                return taken
            nic.counts["rdma_rx_packets"] += 1
            nic.counts["rdma_rx_bytes"] += size
            try:
                packet = read_packet(self._buffer[:size])
            except DataError:
                nic.counts["rx_icrc_encapsulated"] += 1  # not read or damaged: a NIC drops it and counts it here
                continue
            pair = self._by_number.get(packet.queue_pair)
            if pair is None or pair.machine is None:
                self._unknown += 1
                continue
            pair.machine.receive(packet, self._clock())
            self._deliver(pair)
            self._settle(pair)
        return PACKETS_AT_ONCE

    def _flush(self, pair: _Pair) -> None:
        machine, out = pair.machine, pair.socket
        assert machine is not None, "connect() comes first"
        assert out is not None, "connect() comes first"
        packets = octets = 0
        for parts in machine.packets(self._clock()):
            packets += 1
            octets += sum(len(part) for part in parts)
            try:
                out.sendmsg(parts)
            except OSError:
                self._refused += 1  # no route, port down: to a NIC this is a packet lost on the way
        if packets:
            pair.nic.counts["rdma_tx_packets"] += packets
            pair.nic.counts["rdma_tx_bytes"] += octets
        self._settle(pair)

    def _settle(self, pair: _Pair) -> None:
        machine = pair.machine
        assert machine is not None, "connect() comes first"
        for mark, transfer in pair.sending:
            if not transfer.end_ns and machine.sent(mark):
                transfer.end_ns = self._clock()
            transfer.done = machine.completed(mark)
        while pair.sending and pair.sending[0][1].done:
            pair.sending.pop(0)

    def _deliver(self, pair: _Pair) -> None:
        machine = pair.machine
        if machine is None or not machine.messages or pair.receiving is None:
            return
        message, (into, transfer) = machine.messages.popleft(), pair.receiving
        if len(message) != len(into):
            raise DataError(
                f"rank {self._rank}, channel {pair.edge[0]}, from rank {pair.edge[1]}",
                f"a message of {len(into)} bytes", f"{len(message)}: the ranks do not run the same collective",
            )  # fmt: skip
        into[:] = message
        transfer.end_ns, transfer.done, pair.receiving = self._clock(), True, None

    # -- what is told about it --------------------------------------------------------------------------------

    def flows(self) -> list[EdgeFlow]:
        """The flow of every edge, and the queue pair that its data goes to."""
        told = []
        for pair in self._pairs:
            machine = pair.machine
            assert machine is not None, "connect() comes first"
            target = (pair.peer_address, machine.peer_number) if pair.side == SEND else (pair.nic.address, pair.number)
            told.append(EdgeFlow(pair.edge, pair.side, f"{pair.flow:032x}", f"{target[0]}/{target[1]}"))
        return told

    def queue_pairs(self) -> list[str]:
        """Our own queue pairs, `address/number`."""
        return [f"{pair.nic.address}/{pair.number}" for pair in self._pairs]

    def report(self) -> dict[str, int]:
        """The counters of the NICs, of this process; and what went to nobody."""
        total: Counter[str] = Counter()
        for nic in self._nics:
            total.update(nic.counts)
        return {**total, "unknown_queue_pair": self._unknown, "sends_refused": self._refused}

    def close(self) -> None:
        """Write the counters a last time, close all."""
        self._write_counters(self._clock())
        for nic in self._nics:
            nic.socket.close()
        for pair in self._pairs:
            if pair.socket is not None:
                pair.socket.close()

    def _write_counters(self, now_ns: int) -> None:
        self._counters_due_ns = now_ns + COUNTERS_EVERY_NS
        for nic in self._nics:
            nic.hardware.write()


def _receiving(address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        try:
            made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        except PermissionError:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        made.bind((address, UDP_PORT))
    except OSError as error:
        made.close()
        raise WorldError(
            f"cannot receive on {address}:{UDP_PORT}/udp: {error.strerror}; one job with RoCEv2 framing per address"
        ) from error
    made.setblocking(False)
    return made


def _sending(address: str, port: int, peer: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # two queue pairs may hash to one port
        made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, TOS)
        made.bind((address, port))
        made.connect((peer, UDP_PORT))
    except OSError as error:
        made.close()
        raise WorldError(f"cannot send from {address}:{port}/udp to {peer}: {error.strerror}") from error
    return made
