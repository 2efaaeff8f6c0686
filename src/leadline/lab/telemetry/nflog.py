"""Sampled packets from the kernel's NFLOG: the request that asks for them, and what they look like. Pure.

A rule of a switch's forward chain hands one packet in N to a log group; the kernel gathers some and sends them to
whoever bound the group, with the interfaces in and out, the Ethernet header as it came, and the first bytes of the
packet. That is what a switch's ASIC hands to its sFlow agent.
Source: include/uapi/linux/netfilter/nfnetlink_log.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from leadline.model.errors import DataError
from leadline.wire.netlink import framing as netlink

NETLINK_NETFILTER = 12
_PACKET, _CONFIG = 0x400, 0x401  # sub-system ULOG (4), message 0 and 1
_BIND = 1
_CFG_COMMAND, _CFG_MODE, _CFG_BUFFER, _CFG_TIMEOUT, _CFG_THRESHOLD, _CFG_FLAGS = 1, 2, 3, 4, 5, 6
_COPY_PACKET = 2
_FLAG_SEQUENCE = 1
_IN, _OUT, _PAYLOAD, _PREFIX, _SEQUENCE, _HARDWARE_HEADER = 4, 5, 9, 10, 12, 16
_U16, _U32 = struct.Struct(">H"), struct.Struct(">I")
_NO_ETHERNET = b"\0" * 12


class Packet(NamedTuple):
    """One logged packet: ifIndexes (0: none), the frame's first bytes, its length, the rule's words, its number."""

    in_port: int
    out_port: int
    header: bytes
    frame_bytes: int
    prefix: str
    sequence: int | None


def bind_requests(group: int, header_bytes: int, wait_cs: int, threshold: int, buffer_bytes: int) -> list[bytes]:
    """Requests that bind a log group; each is acknowledged by the kernel.

    `header_bytes` of each packet come, gathered until `threshold` are there or `wait_cs` hundredths of a second went
    by. Packets are numbered by the kernel, so that what it could not send shows as a gap.
    """
    parts = (
        (_CFG_COMMAND, struct.pack("B", _BIND)),
        (_CFG_MODE, struct.pack(">IBx", header_bytes, _COPY_PACKET)),
        (_CFG_BUFFER, _U32.pack(buffer_bytes)),
        (_CFG_TIMEOUT, _U32.pack(wait_cs)),
        (_CFG_THRESHOLD, _U32.pack(threshold)),
        (_CFG_FLAGS, _U16.pack(_FLAG_SEQUENCE)),
    )
    head = struct.pack(">BBH", 0, 0, group)
    flags = netlink.REQUEST | netlink.ACK
    return [netlink.message(_CONFIG, flags, head + netlink.attribute(kind, value)) for kind, value in parts]


def packets(data: bytes | memoryview, header_bytes: int) -> Iterator[Packet]:
    """The packets of one netlink datagram; other messages are passed over. Errors: DataError."""
    for kind, body in netlink.messages(data):
        if kind == _PACKET:
            yield _packet(body, header_bytes)


def _packet(body: memoryview, header_bytes: int) -> Packet:
    if len(body) < 4:
        raise DataError("NFLOG packet", "a header of 4 bytes", f"{len(body)} bytes")
    in_port = out_port = 0
    ethernet = payload = b""
    prefix = ""
    sequence = None
    for kind, value in netlink.attributes(body[4:]):
        if kind == _PAYLOAD:
            payload = bytes(value)
        elif kind == _IN:
            in_port = netlink.number(value, _U32, "NFLOG interface in")
        elif kind == _OUT:
            out_port = netlink.number(value, _U32, "NFLOG interface out")
        elif kind == _HARDWARE_HEADER:
            ethernet = bytes(value)
        elif kind == _SEQUENCE:
            sequence = netlink.number(value, _U32, "NFLOG sequence")
        elif kind == _PREFIX:
            prefix = bytes(value).rstrip(b"\0").decode(errors="replace")
    if len(ethernet) != 14:
        # Made by this host itself, or no Ethernet: the type is known from the packet, the addresses are not.
        ethernet = _NO_ETHERNET + (b"\x86\xdd" if payload[:1] and payload[0] >> 4 == 6 else b"\x08\x00")
    length = packet_bytes(payload)
    return Packet(in_port, out_port, (ethernet + payload)[:header_bytes], 14 + length, prefix, sequence)


def packet_bytes(payload: bytes) -> int:
    """Length of an IPv4 or IPv6 packet as its header says it; never less than what is there.

    Errors: DataError if it is neither.
    """
    version = payload[0] >> 4 if payload else 0
    if version == 4 and len(payload) >= 20:
        said = payload[2] << 8 | payload[3]
    elif version == 6 and len(payload) >= 40:
        said = 40 + (payload[4] << 8 | payload[5])
    else:
        raise DataError("NFLOG payload", "an IPv4 or IPv6 header", payload[:8].hex() or "nothing")
    return max(said, len(payload))
