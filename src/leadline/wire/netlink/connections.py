"""TCP connections of this namespace from sock_diag, as bytes: the request for all, and what the kernel answers. Pure.

Source: sock_diag(7); include/uapi/linux/inet_diag.h (struct inet_diag_req_v2, inet_diag_msg), tcp.h (struct tcp_info:
new fields are only ever added at its end, so an older kernel's is shorter). Little-endian, but ports and
addresses are in network order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from leadline.model.errors import DataError
from leadline.wire.netlink.framing import AF_INET, AF_INET6, DUMP, REQUEST, Message, attributes, message, messages

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
_INET_DIAG_INFO = 2
_TCP = 6  # IPPROTO_TCP
# ESTABLISHED, SYN_SENT, FIN_WAIT1, CLOSE_WAIT, LAST_ACK, CLOSING: those that may have something on its way.
_STATES = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11
_REQUEST = struct.Struct("<BBBxI48x")  # family, protocol, extensions, states; of whatever socket
_MESSAGE = struct.Struct("<B3x4s16s16s4x8s20x")  # family, ports, source, destination, cookie
_PORTS = struct.Struct("!HH")
# Places in tcp_info, up to what every kernel since 4.19 has; one count that came later follows.
_FIELDS = struct.Struct("<68xII24xI16xQ20xI4xIQQ24xQ8xI")
_OUT_OF_ORDER_AT, _TIMEOUTS_AT = 224, 240


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
    out_of_order: int = 0  # packets that came so; 0 too where the kernel is older than 5.4


def connections_request(family: int, sequence: int, states: int = _STATES) -> bytes:
    """The request for all TCP connections of a family (AF_INET, AF_INET6) with their tcp_info. `states`: a bit each."""
    body = _REQUEST.pack(family, _TCP, 1 << (_INET_DIAG_INFO - 1), states)
    return message(SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, body, sequence)


def parse_connections(data: bytes) -> list[Connection]:
    """The connections that a datagram tells of; those without tcp_info are passed over. Errors: DataError."""
    return connections_of(messages(data))


def connections_of(answer: Iterable[Message]) -> list[Connection]:
    """The same of messages."""
    found = (_connection(body) for kind, body in answer if kind == SOCK_DIAG_BY_FAMILY)
    return [each for each in found if each is not None]


def _connection(body: memoryview) -> Connection | None:
    if len(body) < _MESSAGE.size:
        raise DataError("sock_diag message", f"{_MESSAGE.size} bytes", f"{len(body)}")
    family, ports, source, target, cookie = _MESSAGE.unpack_from(body)
    info = dict(attributes(body[_MESSAGE.size :])).get(_INET_DIAG_INFO, memoryview(b""))
    if family not in (AF_INET, AF_INET6) or len(info) < _FIELDS.size:
        return None
    src_port, dst_port = _PORTS.unpack(ports)
    size = 4 if family == AF_INET else 16
    rtt, rtt_var, again, acked, rtt_min, packets, rate, busy, sent, needless = _FIELDS.unpack_from(info)
    return Connection(
        cookie, source[:size], target[:size], src_port, dst_port, packets, again, needless,
        int.from_bytes(info[_TIMEOUTS_AT : _TIMEOUTS_AT + 2], "little"), sent, acked, busy, rtt, rtt_var, rtt_min,
        rate, len(info) >= _TIMEOUTS_AT + 2,
        int.from_bytes(info[_OUT_OF_ORDER_AT : _OUT_OF_ORDER_AT + 4], "little"),
    )  # fmt: skip
