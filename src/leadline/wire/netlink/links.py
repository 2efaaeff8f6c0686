"""rtnetlink links and addresses, from bytes: the request for all, and what the kernel answers or tells by itself. Pure.

Raw rather than pyroute2, whose import alone takes 34 MB and 0.2 s of each agent.
Source: rtnetlink(7); linux/rtnetlink.h, if_link.h (struct rtnl_link_stats64), if_addr.h. Byte order is the kernel's.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from leadline.model.errors import DataError

NETLINK_ROUTE = 0
RTMGRP_LINK = 1
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_GETADDR = 20, 22
NLMSG_ERROR, NLMSG_DONE = 2, 3
IFF_UP, IFF_LOWER_UP = 0x1, 0x10000

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # family, type, index, flags, changed
_ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index of the link
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_REQUEST_DUMP = 0x301
_NAME, _MTU, _OPERSTATE, _STATS64, _CARRIER_CHANGES = 3, 4, 16, 23, 35
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_SCOPE_LINK = 253  # this and above: of a link or of this host only
_UNUSABLE = 0x08 | 0x40  # IFA_F_DADFAILED, IFA_F_TENTATIVE: another host has it, or may
OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
# The first 12 of struct rtnl_link_stats64 and those after that we tell, by place.
STATS = struct.Struct("=24Q")
STATS_BYTES_MIN = 23 * 8  # rx_nohandler came later


class Link(NamedTuple):
    """One network interface as a message tells it. `stats`: rtnl_link_stats64 in order, empty if not told."""

    removed: bool
    number: int
    name: str
    flags: int
    operstate: str
    carrier_changes: int | None
    stats: tuple[int, ...]

    @property
    def running(self) -> bool:
        """The interface is up and the physical layer is, too."""
        return not self.removed and bool(self.flags & IFF_UP) and bool(self.flags & IFF_LOWER_UP)


class Address(NamedTuple):
    """An IP address of this host that others can send to, and the number of the interface that has it."""

    number: int
    address: str


def links_request(sequence: int) -> bytes:
    """The request for all links."""
    return _HEADER.pack(_HEADER.size + _LINK.size, RTM_GETLINK, _REQUEST_DUMP, sequence, 0) + bytes(_LINK.size)


def addresses_request(sequence: int) -> bytes:
    """The request for all addresses."""
    return _HEADER.pack(_HEADER.size + _ADDRESS.size, RTM_GETADDR, _REQUEST_DUMP, sequence, 0) + bytes(_ADDRESS.size)


def is_last(data: bytes) -> bool:
    """Whether these messages end the answer to a request for all."""
    return any(kind in (NLMSG_DONE, NLMSG_ERROR) for kind, _ in messages(data))


def parse_links(data: bytes) -> list[Link]:
    """The links that a datagram tells of; other messages are passed over. Errors: DataError.

    A message of another family speaks of a part of the link only: a port that leaves its bridge is told by an
    RTM_DELLINK of AF_BRIDGE, and is still there.
    """
    kinds = (RTM_NEWLINK, RTM_DELLINK)
    return [_link(kind, body) for kind, body in messages(data) if kind in kinds and body[:1] in (b"", b"\0")]


def parse_addresses(data: bytes) -> list[Address]:
    """The addresses that a datagram tells of: IPv4 and IPv6, none of a link or of this host only. Errors: DataError."""
    found = (_address(body) for kind, body in messages(data) if kind == RTM_NEWADDR)
    return [each for each in found if each is not None]


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and body of each message of a datagram. Errors: DataError."""
    at = 0
    while at + _HEADER.size <= len(data):
        size, kind, *_ = _HEADER.unpack_from(data, at)
        if size < _HEADER.size or at + size > len(data):
            raise DataError(f"netlink, byte {at}", f"a message within {len(data)} bytes", f"a length of {size}")
        yield kind, data[at + _HEADER.size : at + size]
        at += (size + 3) & ~3


def _link(kind: int, body: bytes) -> Link:
    if len(body) < _LINK.size:
        raise DataError("netlink, link", f"{_LINK.size} bytes", f"{len(body)}")
    _, _, number, flags, _ = _LINK.unpack_from(body)
    told = dict(attributes(body))
    stats = told.get(_STATS64, b"")
    state = told.get(_OPERSTATE, b"\0")[:1] or b"\0"
    return Link(
        kind == RTM_DELLINK,
        number,
        told.get(_NAME, b"").rstrip(b"\0").decode("utf-8", "replace"),
        flags,
        OPERSTATES[state[0]] if state[0] < len(OPERSTATES) else "unknown",
        _u32(told.get(_CARRIER_CHANGES)),
        STATS.unpack(stats[: STATS.size].ljust(STATS.size, b"\0")) if len(stats) >= STATS_BYTES_MIN else (),
    )


def _address(body: bytes) -> Address | None:
    if len(body) < _ADDRESS.size:
        raise DataError("netlink, address", f"{_ADDRESS.size} bytes", f"{len(body)}")
    family, _, flags, scope, number = _ADDRESS.unpack_from(body)
    if family not in (socket.AF_INET, socket.AF_INET6) or scope >= _SCOPE_LINK or flags & _UNUSABLE:
        return None
    told = dict(attributes(body, _ADDRESS.size))
    raw = told.get(_IFA_LOCAL, told.get(_IFA_ADDRESS, b""))  # of a point-to-point link ADDRESS is the other end's
    try:
        return Address(number, socket.inet_ntop(family, raw))
    except ValueError as error:
        raise DataError("netlink, address", "4 or 16 bytes, as the family says", f"{len(raw)}") from error


def attributes(body: bytes, at: int = _LINK.size) -> Iterator[tuple[int, bytes]]:
    """Kind and value of each attribute from byte `at` on. Errors: DataError."""
    while at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if size < _ATTRIBUTE.size or at + size > len(body):
            raise DataError(f"netlink, attribute at {at}", f"at most {len(body) - at} bytes", f"a length of {size}")
        yield kind & 0x3FFF, body[at + _ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3


def _u32(value: bytes | None) -> int | None:
    return int.from_bytes(value[:4], "little" if struct.pack("=H", 1) == b"\x01\0" else "big") if value else None
