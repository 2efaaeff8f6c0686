"""What the TCP connections of each NIC went through, from sock_diag. Pure: requests and answers as bytes.

The kernel's own counters (/proc/net/netstat) are kept per namespace and say nothing about which NIC; a connection
knows its address, and so its NIC. Sums only grow: what a closed connection had counted stays in.
The bytes are read by `wire.netlink.connections`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import NamedTuple

from leadline.wire.netlink.connections import connections_of, connections_request
from leadline.wire.netlink.framing import Message

_COUNTED_STATES = 0xFFF & ~(1 << 10 | 1 << 7 | 1 << 6)  # not LISTEN, CLOSE, TIME_WAIT: they have no counters


class TcpCounts(NamedTuple):
    """Segments sent again, packets that came out of order, retransmission timeouts."""

    retransmitted: int = 0
    out_of_order: int = 0
    timeouts: int = 0


class Connection(NamedTuple):
    """One connection: its cookie (unique while the machine is up), its own IPv4 address, what it counted."""

    cookie: bytes
    address: str
    counts: TcpCounts


def request() -> bytes:
    """Ask for all IPv4 TCP connections with their tcp_info."""
    return connections_request(socket.AF_INET, 1, _COUNTED_STATES)


def connections(answer: Iterable[Message]) -> list[Connection]:
    """The connections of an answer that have counters. Errors: DataError."""
    return [
        Connection(each.cookie, socket.inet_ntoa(each.source), TcpCounts(each.again, each.out_of_order, each.timeouts))
        for each in connections_of(answer)
        if len(each.source) == 4
    ]


class TcpSums:
    """Counts by address that only grow, from readings of the connections that are there."""

    def __init__(self) -> None:
        self.by_address: dict[str, TcpCounts] = {}
        self._last: dict[bytes, TcpCounts] = {}

    def take(self, found: Iterable[Connection]) -> None:
        """One reading. A connection that opened and closed between two readings is not seen."""
        now: dict[bytes, TcpCounts] = {}
        for connection in found:
            counts = now[connection.cookie] = connection.counts
            before = self._last.get(connection.cookie, TcpCounts())
            sums = self.by_address.get(connection.address, TcpCounts())
            self.by_address[connection.address] = TcpCounts(
                sums.retransmitted + max(0, counts.retransmitted - before.retransmitted),
                sums.out_of_order + max(0, counts.out_of_order - before.out_of_order),
                sums.timeouts + max(0, counts.timeouts - before.timeouts),
            )
        self._last = now
