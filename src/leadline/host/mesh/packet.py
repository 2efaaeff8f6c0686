"""The probe packet in Python: the same bytes as native/prober/wire.c, whose head describes them. Pure."""

from __future__ import annotations

import enum
import hmac
import struct
from collections.abc import Sequence
from typing import NamedTuple

PACKET_BYTES = 83
VERSION = 1
STAMPS = 4
BACK_MAX = 15
LABELS = 16
KEY_BYTES = 16
_MAGIC = 0x4C50
_HEAD = struct.Struct(">HBBQIQBBBq")
_TIMES = struct.Struct(">2s4i")
_COUNTS = struct.Struct(">HH")
_TAG = struct.Struct(">Q")
_AFTER = struct.Struct(">QI")  # hashed after the packet, and not sent: the receiver, and its boot
_AT_TAG = PACKET_BYTES - _TAG.size
_INT32 = 1 << 31
_BASE_MAX = 1 << 62
_SEQ_MAX = ((1 << 63) - 1) // 2
_MASK = (1 << 64) - 1


class Stamp(enum.IntEnum):
    """Where stamps were taken."""

    USER = 0
    KERNEL = 1
    HARDWARE = 2


class Refusal(enum.Enum):
    """Why a packet does not count; the counters of a prober bear these names."""

    TRUNCATED = "truncated"
    MAGIC = "magic"
    VERSION = "version"
    LENGTH = "length"
    REFLECTED = "reflected"
    TAG = "tag"
    FIELD = "field"
    STRANGER = "stranger"
    REPLAYED = "replayed"
    BOOT = "boot"


class Told(NamedTuple):
    """When another packet was sent or received; `back`: how far its number lies back (1 to 15)."""

    back: int
    ns: int


class Packet(NamedTuple):
    """One probe. `sent` counts back from the first packet of this pair, `received` from the one after `newest`.

    `newest`, `arrived`: number of the newest packet that came to the sender, and how many did; the low 16 bits of both.
    """

    sender: int
    boot: int
    seq: int
    position: int
    traffic_class: int
    label: int
    tx_kind: Stamp
    rx_kind: Stamp
    base_ns: int
    newest: int
    arrived: int
    sent: tuple[Told, ...] = ()
    received: tuple[Told, ...] = ()
    is_hello: bool = False


def encode(packet: Packet, key: bytes, receiver: int, receiver_boot: int) -> bytes:
    """Its bytes. Times more than 2 s from the base, and those more than 15 packets back, are left out."""
    bits = packet.position | packet.tx_kind << 1 | packet.rx_kind << 3
    head = _HEAD.pack(
        _MAGIC, VERSION, PACKET_BYTES, packet.sender, packet.boot, packet.seq, bits, packet.traffic_class, packet.label,
        packet.base_ns,
    )  # fmt: skip
    counts = _COUNTS.pack(packet.newest & 0xFFFF, packet.arrived & 0xFFFF)
    data = head + _times(packet.sent, packet.base_ns) + counts + _times(packet.received, packet.base_ns)
    return data + _TAG.pack(_tag(data, key, receiver, receiver_boot))


def decode(data: bytes, key: bytes, own: int, own_boot: int) -> Packet | Refusal:
    """Any bytes: a packet, or why it is none. Does not look at who is a peer, nor at what came before."""
    if len(data) < 4:
        return Refusal.TRUNCATED
    if data[:2] != _MAGIC.to_bytes(2):
        return Refusal.MAGIC
    if data[2] != VERSION:
        return Refusal.VERSION
    if len(data) < PACKET_BYTES:
        return Refusal.TRUNCATED
    if len(data) > PACKET_BYTES or data[3] != PACKET_BYTES:
        return Refusal.LENGTH
    _, _, _, sender, boot, seq, bits, traffic_class, label, base_ns = _HEAD.unpack_from(data)
    if sender == own:
        return Refusal.REFLECTED
    covered, tag = data[:_AT_TAG], data[_AT_TAG:]
    is_ours = hmac.compare_digest(tag, _TAG.pack(_tag(covered, key, own, own_boot)))
    is_hello = not is_ours and hmac.compare_digest(tag, _TAG.pack(_tag(covered, key, own, 0)))
    if not is_ours and not is_hello:
        return Refusal.TAG
    tx_kind, rx_kind = bits >> 1 & 3, bits >> 3 & 3
    if bits >> 5 or max(tx_kind, rx_kind) > 2 or traffic_class > 63 or label >= LABELS or not boot or seq > _SEQ_MAX:
        return Refusal.FIELD
    if not 0 <= base_ns <= _BASE_MAX:
        return Refusal.FIELD
    at = _HEAD.size
    newest, count = _COUNTS.unpack_from(data, at + _TIMES.size)
    received_at = at + _TIMES.size + _COUNTS.size
    return Packet(
        sender, boot, seq, bits & 1, traffic_class, label, Stamp(tx_kind), Stamp(rx_kind), base_ns, newest, count,
        _told(data, at, base_ns), _told(data, received_at, base_ns), is_hello,
    )  # fmt: skip


def _times(told: Sequence[Told], base_ns: int) -> bytes:
    nibbles, less = [0] * STAMPS, [0] * STAMPS
    for index, each in enumerate(told[:STAMPS]):
        if 0 < each.back <= BACK_MAX and -_INT32 <= each.ns - base_ns < _INT32:
            nibbles[index], less[index] = each.back, each.ns - base_ns
    return _TIMES.pack(bytes((nibbles[0] << 4 | nibbles[1], nibbles[2] << 4 | nibbles[3])), *less)


def _told(data: bytes, at: int, base_ns: int) -> tuple[Told, ...]:
    backs, *less = _TIMES.unpack_from(data, at)
    nibbles = (backs[0] >> 4, backs[0] & 15, backs[1] >> 4, backs[1] & 15)
    return tuple(Told(back, base_ns + ns) for back, ns in zip(nibbles, less, strict=True) if back)


def _tag(data: bytes, key: bytes, receiver: int, receiver_boot: int) -> int:
    return siphash24(key, data + _AFTER.pack(receiver, receiver_boot))


def siphash24(key: bytes, data: bytes) -> int:
    """SipHash-2-4 (Aumasson and Bernstein, 2012): 30 us for a packet, against 0.1 us in C."""
    k0, k1 = struct.unpack("<QQ", key)
    v0, v1, v2, v3 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    whole = len(data) & ~7
    last = (len(data) & 255) << 56 | int.from_bytes(data[whole:], "little")
    words = (*struct.unpack(f"<{whole // 8}Q", data[:whole]), last, None)
    for word in words:
        if word is None:
            v2 ^= 0xFF
        else:
            v3 ^= word
        for _ in range(4 if word is None else 2):
            v0 = v0 + v1 & _MASK
            v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
            v0 = v0 << 32 & _MASK | v0 >> 32
            v2 = v2 + v3 & _MASK
            v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
            v0 = v0 + v3 & _MASK
            v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
            v2 = v2 + v1 & _MASK
            v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
            v2 = v2 << 32 & _MASK | v2 >> 32
        if word is not None:
            v0 ^= word
    return int(v0 ^ v1 ^ v2 ^ v3)
