"""What the TCP connections of each NIC went through, from sock_diag. Pure: requests and answers as bytes.

The kernel's own counters (/proc/net/netstat) are kept per namespace and say nothing about which NIC; a connection
knows its address, and so its NIC. Sums only grow: what a closed connection had counted stays in.
Source: include/uapi/linux/inet_diag.h, sock_diag.h, tcp.h (struct tcp_info; new fields are only ever added at its end).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from leadline.lab.telemetry import netlink
from leadline.model.errors import DataError

NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_INFO = 2
_REQUEST = struct.Struct("<BBBxI48x")
_MESSAGE_BYTES = 72
_COUNTED_STATES = 0xFFF & ~(1 << 10 | 1 << 7 | 1 << 6)  # not LISTEN, CLOSE, TIME_WAIT: they have no counters
_U32, _U16 = struct.Struct("<I"), struct.Struct("<H")
_TOTAL_RETRANS, _OUT_OF_ORDER, _TOTAL_RTO = 100, 224, 240  # offsets within tcp_info


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
    body = _REQUEST.pack(2, 6, 1 << (_INFO - 1), _COUNTED_STATES)
    return netlink.message(_BY_FAMILY, netlink.REQUEST | netlink.DUMP, body)


def connections(answer: Iterable[netlink.Message]) -> list[Connection]:
    """The connections of an answer. Errors: DataError."""
    return [_connection(body) for kind, body in answer if kind == _BY_FAMILY]


def _connection(body: memoryview) -> Connection:
    if len(body) < _MESSAGE_BYTES:
        raise DataError("sock_diag message", f"{_MESSAGE_BYTES} bytes", f"{len(body)} bytes")
    address = ".".join(map(str, body[8:12]))
    counts = TcpCounts()
    for kind, value in netlink.attributes(body[_MESSAGE_BYTES:]):
        if kind == _INFO:
            counts = TcpCounts(
                _at(value, _TOTAL_RETRANS, _U32), _at(value, _OUT_OF_ORDER, _U32), _at(value, _TOTAL_RTO, _U16)
            )
    return Connection(bytes(body[44:52]), address, counts)


def _at(info: memoryview, offset: int, form: struct.Struct) -> int:
    """A field of tcp_info; 0 where the kernel is older than the field."""
    return int(form.unpack_from(info, offset)[0]) if len(info) >= offset + form.size else 0


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
