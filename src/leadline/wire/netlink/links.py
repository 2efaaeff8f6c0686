"""rtnetlink links and addresses, from bytes: the request for all, and what the kernel answers or tells by itself. Pure.

Source: rtnetlink(7); linux/rtnetlink.h, if_link.h (struct rtnl_link_stats64), if_addr.h.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from leadline.model.errors import DataError
from leadline.wire.netlink.framing import AF_INET, AF_INET6, DUMP, REQUEST, attributes, message, messages

NETLINK_ROUTE = 0
RTMGRP_LINK = 1
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_GETADDR = 20, 22
IFF_UP, IFF_LOWER_UP = 0x1, 0x10000

_LINK = struct.Struct("<BxHiII")  # family, type, index, flags, changed
_ADDRESS = struct.Struct("<BBBBI")  # family, prefix length, flags, scope, index of the link
_NAME, _OPERSTATE, _STATS64, _CARRIER_CHANGES, _CARRIER_UPS, _CARRIER_DOWNS = 3, 16, 23, 35, 47, 48
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_SCOPE_LINK = 253  # this and above: of a link or of this host only
_UNUSABLE = 0x08 | 0x40  # IFA_F_DADFAILED, IFA_F_TENTATIVE: another host has it, or may
OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
# The first 12 of struct rtnl_link_stats64 and those after that we tell, by place.
STATS = struct.Struct("<24Q")
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
    carrier_ups: int | None = None
    carrier_downs: int | None = None

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
    return message(RTM_GETLINK, REQUEST | DUMP, bytes(_LINK.size), sequence)


def addresses_request(sequence: int) -> bytes:
    """The request for all addresses."""
    return message(RTM_GETADDR, REQUEST | DUMP, bytes(_ADDRESS.size), sequence)


def parse_links(data: bytes) -> list[Link]:
    """The links that a datagram tells of; other messages are passed over. Errors: DataError.

    A message of another family speaks of a part of the link only: a port that leaves its bridge is told by an
    RTM_DELLINK of AF_BRIDGE, and is still there.
    """
    kinds = (RTM_NEWLINK, RTM_DELLINK)
    return [link_of(kind, body) for kind, body in messages(data) if kind in kinds and bytes(body[:1]) in (b"", b"\0")]


def parse_addresses(data: bytes) -> list[Address]:
    """The addresses that a datagram tells of: IPv4 and IPv6, none of a link or of this host only. Errors: DataError."""
    found = (_address(body) for kind, body in messages(data) if kind == RTM_NEWADDR)
    return [each for each in found if each is not None]


def link_of(kind: int, body: memoryview) -> Link:
    """The link that one message tells of. Errors: DataError."""
    if len(body) < _LINK.size:
        raise DataError("netlink, link", f"{_LINK.size} bytes", f"{len(body)}")
    _, _, number, flags, _ = _LINK.unpack_from(body)
    told = {kind: bytes(value) for kind, value in attributes(body[_LINK.size :])}
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
        _u32(told.get(_CARRIER_UPS)),
        _u32(told.get(_CARRIER_DOWNS)),
    )


def _address(body: memoryview) -> Address | None:
    if len(body) < _ADDRESS.size:
        raise DataError("netlink, address", f"{_ADDRESS.size} bytes", f"{len(body)}")
    family, _, flags, scope, number = _ADDRESS.unpack_from(body)
    if family not in (AF_INET, AF_INET6) or scope >= _SCOPE_LINK or flags & _UNUSABLE:
        return None
    told = {kind: bytes(value) for kind, value in attributes(body[_ADDRESS.size :])}
    raw = told.get(_IFA_LOCAL, told.get(_IFA_ADDRESS, b""))  # of a point-to-point link ADDRESS is the other end's
    try:
        return Address(number, str(IPv4Address(raw) if family == AF_INET else IPv6Address(raw)))
    except ValueError as error:
        raise DataError("netlink, address", "4 or 16 bytes, as the family says", f"{len(raw)}") from error


def _u32(value: bytes | None) -> int | None:
    return int.from_bytes(value[:4], "little") if value else None
