"""Reference for sFlow: datagrams written field by field from the specification, and headers read by scapy.

Shares no code with `wire.sflow` nor with `wire.sflow_encode`.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.layers.sctp import SCTP
from scapy.packet import Packet

U32 = 0xFFFFFFFF


def words(*values: int) -> bytes:
    return b"".join(struct.pack(">I", value & U32) for value in values)


def opaque(data: bytes) -> bytes:
    """XDR opaque<>: length, bytes, zeros to a multiple of 4."""
    return words(len(data)) + data + b"\0" * (-len(data) % 4)


def tagged(number: int, body: bytes, enterprise: int = 0) -> bytes:
    """A sample or a record: its format, its length, itself."""
    return words(enterprise << 12 | number) + opaque(body)


def address(text: str) -> bytes:
    if not text:
        return words(0)
    parsed = ipaddress.ip_address(text)
    return words(1 if parsed.version == 4 else 2) + parsed.packed


# --- records of flow samples


def raw_header(header: bytes, frame_bytes: int, stripped: int = 4, protocol: int = 1) -> bytes:
    return tagged(1, words(protocol, frame_bytes, stripped) + opaque(header))


def ethernet_frame(length: int) -> bytes:
    return tagged(2, words(length) + b"\1\2\3\4\5\6\0\0" + b"\6\5\4\3\2\1\0\0" + words(0x0800))


def sampled_ip(
    length: int, protocol: int, src: str, dst: str, src_port: int, dst_port: int, tcp_flags: int, tos: int
) -> bytes:
    packed = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    body = words(length, protocol) + packed + words(src_port, dst_port, tcp_flags, tos)
    return tagged(3 if len(packed) == 8 else 4, body)


def switch(in_vlan: int, in_priority: int, out_vlan: int, out_priority: int) -> bytes:
    return tagged(1001, words(in_vlan, in_priority, out_vlan, out_priority))


def router(hop: str, src_mask: int, dst_mask: int) -> bytes:
    return tagged(1002, address(hop) + words(src_mask, dst_mask))


# --- samples


def flow_sample(
    sequence: int,
    source: int,
    rate: int,
    pool: int,
    drops: int,
    came: tuple[int, int],
    left: tuple[int, int],
    records: Sequence[bytes],
    expanded: bool = False,
) -> bytes:
    """`came` and `left` are (format, value): 0 an ifIndex, 1 discarded, 2 several."""
    counted = words(rate, pool, drops)
    if expanded:
        body = words(sequence, 0, source) + counted + words(*came, *left)
        return tagged(3, body + words(len(records)) + b"".join(records))
    compact = words(came[0] << 30 | came[1], left[0] << 30 | left[1])
    return tagged(1, words(sequence, source) + counted + compact + words(len(records)) + b"".join(records))


def discarded(
    sequence: int, source: int, drops: int, came: int, left: int, reason: int, records: Sequence[bytes]
) -> bytes:
    return tagged(5, words(sequence, 0, source, drops, came, left, reason, len(records)) + b"".join(records))


def counter_sample(sequence: int, source: int, records: Sequence[bytes], expanded: bool = False) -> bytes:
    start = words(sequence, 0, source) if expanded else words(sequence, source)
    return tagged(4 if expanded else 2, start + words(len(records)) + b"".join(records))


# --- counter records


def interface(index: int, speed: int, status: int, octets: tuple[int, int], packets: Sequence[int]) -> bytes:
    """`packets` are the eleven counters of 4 bytes: six in, five out."""
    came, left = packets[:6], packets[6:]
    body = words(index, 6) + struct.pack(">Q", speed) + words(1, status) + struct.pack(">Q", octets[0])
    return tagged(1, body + words(*came) + struct.pack(">Q", octets[1]) + words(*left, 0))


def ethernet(counters: Sequence[int]) -> bytes:
    return tagged(2, words(*counters))


def vlan(number: int, octets: int, counters: Sequence[int]) -> bytes:
    return tagged(5, words(number) + struct.pack(">Q", octets) + words(*counters))


def processor(shares: Sequence[int], total: int, free: int) -> bytes:
    return tagged(1001, words(*shares) + struct.pack(">QQ", total, free))


def datagram(
    agent: str, samples: Sequence[bytes], sequence: int = 1, sub_agent: int = 0, uptime_ms: int = 1000
) -> bytes:
    return words(5) + address(agent) + words(sub_agent, sequence, uptime_ms, len(samples)) + b"".join(samples)


# --- headers


@dataclass(frozen=True)
class Seen:
    """What scapy sees in a frame. -1 is 'not told'."""

    src: str = ""
    dst: str = ""
    protocol: int = 0
    src_port: int = 0
    dst_port: int = 0
    dst_qp: int = -1
    opcode: int = -1
    psn: int = -1
    dscp: int = 0
    ecn: int = 0
    tcp_flags: int = 0
    vlan: int = -1
    priority: int = -1
    layers: tuple[str, ...] = field(default=(), compare=False)


def seen(frame: bytes) -> Seen:
    """A whole Ethernet frame, read by scapy."""
    packet: Packet = Ether(frame)
    told: dict[str, object] = {"layers": tuple(layer.__name__ for layer in packet.layers())}
    outermost = packet.payload  # the layer behind the two addresses
    if isinstance(outermost, Dot1Q | Dot1AD):
        told["vlan"], told["priority"] = outermost.vlan, outermost.prio
    if IP in packet:
        ip = packet[IP]
        told |= {"src": ip.src, "dst": ip.dst, "protocol": ip.proto, "dscp": ip.tos >> 2, "ecn": ip.tos & 3}
    elif IPv6 in packet:
        ip = packet[IPv6]
        told |= {"protocol": _last_header(ip), "dscp": ip.tc >> 2, "ecn": ip.tc & 3}
        # In one spelling: scapy writes the last 32 bits of some addresses with dots.
        told |= {"src": str(ipaddress.ip_address(ip.src)), "dst": str(ipaddress.ip_address(ip.dst))}
    for layer in (TCP, UDP, SCTP):
        if layer in packet:
            told |= {"src_port": packet[layer].sport, "dst_port": packet[layer].dport}
    if TCP in packet:
        told["tcp_flags"] = int(packet[TCP].flags) & 0xFF
    if BTH in packet:
        told |= {"dst_qp": packet[BTH].dqpn, "opcode": packet[BTH].opcode, "psn": packet[BTH].psn}
    return Seen(**told)  # type: ignore[arg-type]


def _last_header(ip: Packet) -> int:
    """The protocol behind the extension headers."""
    layer, number = ip, ip.nh
    while hasattr(layer.payload, "nh"):
        layer = layer.payload
        number = layer.nh
    return int(number)
