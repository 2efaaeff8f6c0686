"""Reads the first bytes of a sampled packet: Ethernet, VLAN tags, IPv4, IPv6, TCP, UDP, RoCEv2.

    dst 6 | src 6 | [8100 | 88a8 tag 4]* | type 2 | IPv4 20.. or IPv6 40 + extension headers | ports 4 .. | BTH 12

A switch samples the first 64 to 256 bytes, so a header may end anywhere. That is no error: what came is told, the rest
of the row stays as it was (0, or -1 where 0 could be a value). Every read is compared with `end` before it is made.

Sources: IEEE 802.1Q; RFC 791, 8200, 9293, 768; InfiniBand Architecture Specification 1.5, 9.2 (base transport header)
and annex A17 (RoCEv2: UDP port 4791).
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.words import byte_at

Bytes = NDArray[np.uint8]
Row = NDArray[np.int64]

# Columns of one flow sample, int64; docs/formats/sflow.md says which of them become columns of `flow_sample`.
# SAMPLE is the row of the sample it came in. IN and OUT are a format (0 ifIndex, 1 discarded, 2 several) and a value.
# REASON, DST_QP, OPCODE, PSN, VLAN, PRIORITY and the extended records' columns are -1 where not told.
# IP is 4 or 6, or 0 without an IP header; ADDRESSED is 1 where both addresses are known.
(
    DATAGRAM, SAMPLE, RATE, IN_FORMAT, IN_VALUE, OUT_FORMAT, OUT_VALUE, REASON, FRAME_BYTES, HEADERS, IP, ADDRESSED,
    PROTOCOL, SRC_PORT, DST_PORT, DST_QP, OPCODE, PSN, DSCP, ECN, TCP_FLAGS, VLAN, PRIORITY,
    IN_VLAN, IN_PRIORITY, OUT_VLAN, OUT_PRIORITY, NEXT_HOP, SRC_MASK, DST_MASK, FLOW_COLUMNS,
) = range(31)  # fmt: skip
NOT_TOLD = (
    REASON, DST_QP, OPCODE, PSN, VLAN, PRIORITY, IN_VLAN, IN_PRIORITY, OUT_VLAN, OUT_PRIORITY, SRC_MASK, DST_MASK,
)  # fmt: skip

# Places in a row of addresses, 16 bytes each, IPv4 in its mapped form.
SRC, DST, HOP, ADDRESS_BYTES = 0, 16, 32, 48

ROCE_PORT = 4791
_IPV4, _IPV6 = 0x0800, 0x86DD
_TCP, _UDP, _DCCP, _SCTP, _UDP_LITE = 6, 17, 33, 132, 136
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_MOBILITY, _HIP, _SHIM6 = 135, 139, 140


@kernel
def be16(data: Bytes, at: int) -> int:
    """Two bytes as they lie on the wire. The caller checked that they are there; so for `be32`."""
    return (byte_at(data, at) << 8) | byte_at(data, at + 1)


@kernel
def be32(data: Bytes, at: int) -> int:
    """Four bytes as they lie on the wire."""
    return (be16(data, at) << 16) | be16(data, at + 2)


@kernel
def put_address(data: Bytes, at: int, size: int, out: Bytes, to: int) -> None:
    """Copy an address of 4 (to its mapped form) or 16 bytes to `out[to : to + 16]`."""
    pad = 16 - size
    for i in range(pad):
        out[to + i] = 0xFF if i >= 10 else 0
    for i in range(size):
        out[to + pad + i] = byte_at(data, at + i)


@kernel
def ethernet(data: Bytes, at: int, end: int, row: Row, addresses: Bytes) -> None:
    """A frame from its destination address on. The outermost VLAN tag is the one that is told."""
    at += 12
    while at + 2 <= end:
        kind = be16(data, at)
        at += 2
        if kind == 0x8100 or kind == 0x88A8 or kind == 0x9100:
            if at + 2 > end:
                return
            if row[VLAN] < 0:
                row[PRIORITY] = byte_at(data, at) >> 5
                row[VLAN] = be16(data, at) & 0x0FFF
            at += 2
            continue
        if kind == _IPV4:
            ipv4(data, at, end, row, addresses)
        elif kind == _IPV6:
            ipv6(data, at, end, row, addresses)
        return


@kernel
def ipv4(data: Bytes, at: int, end: int, row: Row, addresses: Bytes) -> None:
    """A packet from its version nibble on. Only the first fragment has ports."""
    if at >= end or byte_at(data, at) >> 4 != 4:
        return
    size = (byte_at(data, at) & 15) * 4
    _forget(row)
    row[IP] = 4
    if at + 2 <= end:
        row[DSCP] = byte_at(data, at + 1) >> 2
        row[ECN] = byte_at(data, at + 1) & 3
    if at + 10 <= end:
        row[PROTOCOL] = byte_at(data, at + 9)
    if at + 20 > end:
        return
    put_address(data, at + 12, 4, addresses, SRC)
    put_address(data, at + 16, 4, addresses, DST)
    row[ADDRESSED] = 1
    if size >= 20 and be16(data, at + 6) & 0x1FFF == 0:
        _transport(data, at + size, end, row)


@kernel
def ipv6(data: Bytes, at: int, end: int, row: Row, addresses: Bytes) -> None:
    """A packet from its version nibble on, through its extension headers."""
    if at >= end or byte_at(data, at) >> 4 != 6:
        return
    _forget(row)
    row[IP] = 6
    if at + 2 <= end:
        traffic_class = (be16(data, at) >> 4) & 0xFF
        row[DSCP] = traffic_class >> 2
        row[ECN] = traffic_class & 3
    if at + 7 <= end:
        row[PROTOCOL] = byte_at(data, at + 6)
    if at + 40 > end:
        return
    put_address(data, at + 8, 16, addresses, SRC)
    put_address(data, at + 24, 16, addresses, DST)
    row[ADDRESSED] = 1
    at += 40
    while at + 8 <= end:
        kind = row[PROTOCOL]
        if kind == _AUTHENTICATION:
            size = (byte_at(data, at + 1) + 2) * 4
        elif kind in (_HOP_BY_HOP, _ROUTING, _DESTINATION, _MOBILITY, _HIP, _SHIM6):
            size = (byte_at(data, at + 1) + 1) * 8
        elif kind == _FRAGMENT:
            size = 8
        else:
            break
        row[PROTOCOL] = byte_at(data, at)
        if kind == _FRAGMENT and be16(data, at + 2) >> 3 != 0:
            return
        at += size
    _transport(data, at, end, row)


@kernel
def _forget(row: Row) -> None:
    """A sampled header is believed before a record that describes it: what that said is taken back."""
    row[PROTOCOL] = row[DSCP] = row[ECN] = row[SRC_PORT] = row[DST_PORT] = row[TCP_FLAGS] = row[ADDRESSED] = 0


@kernel
def _transport(data: Bytes, at: int, end: int, row: Row) -> None:
    protocol = row[PROTOCOL]
    if at + 4 > end or protocol not in (_TCP, _UDP, _DCCP, _SCTP, _UDP_LITE):
        return
    row[SRC_PORT] = be16(data, at)
    row[DST_PORT] = be16(data, at + 2)
    if protocol == _TCP and at + 14 <= end:
        row[TCP_FLAGS] = byte_at(data, at + 13)
    if protocol == _UDP and row[DST_PORT] == ROCE_PORT:
        _base_transport(data, at + 8, end, row)


@kernel
def _base_transport(data: Bytes, at: int, end: int, row: Row) -> None:
    """opcode 8 | flags 8 | partition 16 | reserved 8 | destination QP 24 | acknowledge, reserved 8 | PSN 24."""
    if at < end:
        row[OPCODE] = byte_at(data, at)
    if at + 8 <= end:
        row[DST_QP] = be32(data, at + 4) & 0xFFFFFF
    if at + 12 <= end:
        row[PSN] = be32(data, at + 8) & 0xFFFFFF
