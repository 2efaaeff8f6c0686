"""TCP connections of this namespace from sock_diag, as bytes: the request for all, and what the kernel answers. Pure.

Source: sock_diag(7); include/uapi/linux/inet_diag.h (struct inet_diag_req_v2, inet_diag_msg), tcp.h (struct tcp_info:
new fields are only ever added at its end, so an older kernel's is shorter). Byte order is the kernel's, ports and
addresses are in network order.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import NamedTuple

from leadline.host.netlink import attributes, messages
from leadline.model.errors import DataError

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
_INET_DIAG_INFO = 2
_REQUEST_DUMP = 0x301
# ESTABLISHED, SYN_SENT, FIN_WAIT1, CLOSE_WAIT, LAST_ACK, CLOSING: those that may have something on its way.
_STATES = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")  # family, protocol, extensions, states; of whatever socket
_MESSAGE = struct.Struct("=B3x4s16s16s4x8s20x")  # family, ports, source, destination, cookie
_PORTS = struct.Struct("!HH")
# Places in tcp_info, up to what every kernel since 4.19 has; one count that came later follows.
_FIELDS = struct.Struct("=68xII24xI16xQ20xI4xIQQ24xQ8xI")
_TIMEOUTS_AT = 240


class Connection(NamedTuple):
    """One connection and what its sender counted since it was opened. Times in microseconds, 0: not measured."""

    cookie: bytes  # 8 bytes, its own while the machine is up
    source: bytes  # packed address, 4 or 16 bytes
    target: bytes
    src_port: int
    dst_port: int
    packets: int  # segments with data, those sent again too
    again: int
    needless: int  # what the receiver said it had twice (DSACK)
    timeouts: int
    sent_bytes: int
    acked_bytes: int
    busy_us: int
    rtt_us: int
    rtt_var_us: int
    rtt_min_us: int
    delivery_bytes_per_s: int
    knows_timeouts: bool  # Linux 6.7


def connections_request(family: int, sequence: int) -> bytes:
    """The request for all TCP connections of a family (AF_INET, AF_INET6) with their tcp_info."""
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _STATES)
    return _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, sequence, 0) + body


def parse_connections(data: bytes) -> list[Connection]:
    """The connections that a datagram tells of; those without tcp_info are passed over. Errors: DataError."""
    found = (_connection(body) for kind, body in messages(data) if kind == SOCK_DIAG_BY_FAMILY)
    return [each for each in found if each is not None]


def _connection(body: bytes) -> Connection | None:
    if len(body) < _MESSAGE.size:
        raise DataError("sock_diag message", f"{_MESSAGE.size} bytes", f"{len(body)}")
    family, ports, source, target, cookie = _MESSAGE.unpack_from(body)
    info = next((value for kind, value in attributes(body, _MESSAGE.size) if kind == _INET_DIAG_INFO), b"")
    if family not in (socket.AF_INET, socket.AF_INET6) or len(info) < _FIELDS.size:
        return None
    src_port, dst_port = _PORTS.unpack(ports)
    size = 4 if family == socket.AF_INET else 16
    rtt, rtt_var, again, acked, rtt_min, packets, rate, busy, sent, needless = _FIELDS.unpack_from(info)
    return Connection(
        cookie, source[:size], target[:size], src_port, dst_port, packets, again, needless,
        int.from_bytes(info[_TIMEOUTS_AT : _TIMEOUTS_AT + 2], sys.byteorder), sent, acked, busy, rtt, rtt_var, rtt_min,
        rate, len(info) >= _TIMEOUTS_AT + 2,
    )  # fmt: skip
