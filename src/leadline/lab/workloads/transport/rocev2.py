"""RoCEv2 packets as they stand in a UDP datagram to port 4791. Pure: bytes to records and back.

    UDP payload   | BTH 12 bytes | AETH 4, only acknowledgements | data, padded to 4 | ICRC 4 |

    BTH    opcode 8 | S 1 M 1 pad 2 version 4 | partition key 16 | F 1 B 1 reserved 6 | destination queue pair 24
           | A 1 reserved 7 | packet sequence number 24
    AETH   syndrome 8 | message sequence number 24

Source: InfiniBand Architecture Specification 1.4, sections 9.2 (BTH), 9.3.5 (AETH), 9.7.5.2 (syndromes), and annex
A17 (RoCEv2). Only what a reliable connection needs to send is here: SEND and ACKNOWLEDGE.

**What our ICRC field holds**: a CRC-32 (the polynomial of the specification) over BTH, AETH and data, with the bits
masked that a router may change. The real one also covers the IP and UDP headers; a program above the kernel does not
know the identification that the kernel will write into them, so a checker that is strict finds ours wrong.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from leadline.model.errors import DataError

UDP_PORT = 4791
MTUS = (256, 512, 1024, 2048, 4096)  # bytes of data in a packet, as the specification allows them
OVERHEAD_BYTES = 20 + 8 + 12 + 4  # IPv4, UDP, BTH, ICRC
PARTITION = 0xFFFF  # the default partition, full member
HEADER_BYTES = 12
ICRC_BYTES = 4

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
ACKNOWLEDGE = 0x11
SENDS = frozenset((SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY))
ENDS = frozenset((SEND_LAST, SEND_ONLY))  # the message is complete with this packet
STARTS = frozenset((SEND_FIRST, SEND_ONLY))

# Syndromes of an AETH. The low five bits of ACK are credits; all ones: not used.
ACK = 0x1F
RNR_NAK = 0x20  # receiver not ready; the low five bits tell the timer
NAK_SEQUENCE = 0x60
RNR_TIMER = 14  # 1.28 ms, table 45

SEQUENCES = 1 << 24  # packet sequence numbers and queue pair numbers have 24 bits
ACK_REQUEST = 1 << 31

_BTH = struct.Struct(">BBHII")
_AETH = struct.Struct(">I")
_ICRC = struct.Struct("<I")  # the one little-endian field: a CRC goes out least significant byte first
_NO_PAYLOAD = memoryview(b"")


class Packet(NamedTuple):
    """One packet, read. `syndrome` and `message` are None unless it is an acknowledgement."""

    opcode: int
    queue_pair: int  # of the destination
    sequence: int
    ack_request: bool
    syndrome: int | None
    message: int | None
    payload: memoryview

    @property
    def ends(self) -> bool:
        """Whether the message is complete with it."""
        return self.opcode in ENDS


def mtu_for(ip_mtu: int) -> int:
    """The largest RoCE MTU that an interface carries: 1024 for Ethernet's 1500, 4096 from 4140 on, at least 256."""
    return max((mtu for mtu in MTUS if mtu + OVERHEAD_BYTES <= ip_mtu), default=MTUS[0])


def packets_of(size_bytes: int, mtu: int) -> int:
    """How many packets a message takes; an empty one takes one."""
    return max(1, -(-size_bytes // mtu))


def opcode_of(position: int, packets: int) -> int:
    """The SEND opcode of packet `position` in a message of `packets`."""
    if packets == 1:
        return SEND_ONLY
    if position == 0:
        return SEND_FIRST
    return SEND_LAST if position == packets - 1 else SEND_MIDDLE


def send_packet(
    queue_pair: int, sequence: int, opcode: int, payload: memoryview, ack_request: bool
) -> list[bytes | memoryview]:
    """The parts of a SEND packet, ready for `sendmsg`: the data is not copied."""
    pad = -len(payload) % 4
    header = _BTH.pack(opcode, pad << 4, PARTITION, queue_pair, sequence | (ACK_REQUEST if ack_request else 0))
    crc = zlib.crc32(payload, zlib.crc32(_masked(header)))
    if not pad:
        return [header, payload, _ICRC.pack(crc)]
    filler = bytes(pad)
    return [header, payload, filler + _ICRC.pack(zlib.crc32(filler, crc))]


def ack_packet(queue_pair: int, sequence: int, syndrome: int, message: int) -> list[bytes | memoryview]:
    """The parts of an acknowledgement, positive or negative."""
    header = _BTH.pack(ACKNOWLEDGE, 0, PARTITION, queue_pair, sequence)
    extended = _AETH.pack(syndrome << 24 | message % SEQUENCES)
    return [header, extended, _ICRC.pack(zlib.crc32(extended, zlib.crc32(_masked(header))))]


def read_packet(datagram: memoryview) -> Packet:
    """Read one datagram. Errors: DataError for what is no packet of a reliable connection that we speak."""
    size = len(datagram)
    if size < HEADER_BYTES + ICRC_BYTES:
        raise DataError("RoCEv2 packet", f"at least {HEADER_BYTES + ICRC_BYTES} bytes", f"{size}")
    opcode, flags, partition, pair, sequence = _BTH.unpack_from(datagram)
    if flags & 0x0F:
        raise DataError("RoCEv2 packet, byte 1", "header version 0", f"{flags & 0x0F}")
    if partition & 0x7FFF != PARTITION & 0x7FFF:
        raise DataError("RoCEv2 packet, byte 2", f"partition {PARTITION:#06x}", f"{partition:#06x}")
    crc = zlib.crc32(datagram[HEADER_BYTES:-ICRC_BYTES], zlib.crc32(_masked(bytes(datagram[:HEADER_BYTES]))))
    if crc != _ICRC.unpack_from(datagram, size - ICRC_BYTES)[0]:
        raise DataError("RoCEv2 packet, ICRC", f"{crc:#010x}", f"{_ICRC.unpack_from(datagram, size - 4)[0]:#010x}")
    body = datagram[HEADER_BYTES : size - ICRC_BYTES]
    number, wants_ack = sequence % SEQUENCES, bool(sequence & ACK_REQUEST)
    if opcode in SENDS:
        pad = flags >> 4 & 3
        if pad > len(body):
            raise DataError("RoCEv2 packet, byte 1", f"at most {len(body)} bytes of padding", f"{pad}")
        return Packet(opcode, pair % SEQUENCES, number, wants_ack, None, None, body[: len(body) - pad])
    if opcode != ACKNOWLEDGE:
        raise DataError("RoCEv2 packet, byte 0", "SEND or ACKNOWLEDGE of a reliable connection", f"{opcode:#04x}")
    if len(body) != _AETH.size:
        raise DataError("RoCEv2 acknowledgement", "4 bytes of AETH", f"{len(body)}")
    (extended,) = _AETH.unpack(body)
    return Packet(
        opcode, pair % SEQUENCES, number, wants_ack, extended >> 24, extended % SEQUENCES, _NO_PAYLOAD
    )  # fmt: skip


def _masked(header: bytes) -> bytes:
    """The BTH as the CRC sees it: the byte with the congestion marks as ones, because a router sets them."""
    return header[:4] + b"\xff" + header[5:]


def udp_source_port(local_queue_pair: int, remote_queue_pair: int) -> int:
    """The UDP source port of a connection: its entropy for ECMP, the same in both directions.

    Source: Linux, include/rdma/ib_verbs.h, rdma_calc_flow_label and rdma_flow_label_to_udp_sport.
    """
    mixed = local_queue_pair * remote_queue_pair
    mixed ^= mixed >> 20
    mixed ^= mixed >> 40
    label = mixed & 0xFFFFF
    return (label & 0x03FFF) ^ (label & 0xFC000) >> 14 | 0xC000
