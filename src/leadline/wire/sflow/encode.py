"""sFlow version 5, from samples to datagrams: what a switch sends.

    datagram   agent, sequence, uptime, samples
    sample     flow: one packet in N with both interfaces | counters of one port | a packet that was discarded, and why
    record     what a sample holds: the raw header, VLANs, the route taken, interface counters

Everything is big-endian and padded to 4 bytes; a sample and a record say their own length, so that a reader can skip
what it does not know. Pure: bytes come out, the caller sends them. The lab's switches use this; the reader of
datagrams is `wire.sflow`.

Sources: sFlow.org, sflow_version_5.txt (2004); sflow_drops.txt (2020) for discarded packets.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

DATAGRAM_BYTES_MAX = 1400  # what one Ethernet frame carries; a fragment lost is a datagram lost
LOCAL = 0x3FFFFFFF  # output of a packet that ends in the switch itself

_VERSION = 5
_IPV4, _IPV6 = 1, 2
_FLOW_SAMPLE, _COUNTER_SAMPLE, _DISCARDED = 1, 2, 5
_RAW_HEADER, _EXTENDED_SWITCH, _EXTENDED_ROUTER = 1, 1001, 1002
_GENERIC_INTERFACE, _ETHERNET_INTERFACE = 1, 2
_ETHERNET = 1  # header protocol
_U32 = 0xFFFFFFFF

_TAGGED = struct.Struct(">II")
_FLOW = struct.Struct(">10I")  # format, length and the eight fixed fields of a flow sample
_RAW = struct.Struct(">6I")
_COUNTERS = struct.Struct(">4IQ2IQ6IQ6I")
_ETHERNET_RECORD = struct.Struct(">15I")  # format, length and the counters

# Of the Ethernet record, in its order (EtherLike-MIB).
ETHERNET_COUNTERS = (
    "dot3StatsAlignmentErrors", "dot3StatsFCSErrors", "dot3StatsSingleCollisionFrames",
    "dot3StatsMultipleCollisionFrames", "dot3StatsSQETestErrors", "dot3StatsDeferredTransmissions",
    "dot3StatsLateCollisions", "dot3StatsExcessiveCollisions", "dot3StatsInternalMacTransmitErrors",
    "dot3StatsCarrierSenseErrors", "dot3StatsFrameTooLongs", "dot3StatsInternalMacReceiveErrors",
    "dot3StatsSymbolErrors",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InterfaceCounters:
    """Generic interface counters of one port (IF-MIB), in the order of the record.

    Packet and error counters are 32 bits wide on the wire and wrap; larger values are cut here.
    """

    if_index: int
    if_type: int  # IANAifType: 6 is Ethernet
    speed_bps: int
    direction: int  # 0 unknown, 1 full duplex, 2 half duplex, 3 in, 4 out
    status: int  # bit 0: wanted up (ifAdminStatus), bit 1: is up (ifOperStatus)
    in_octets: int
    in_unicast: int
    in_multicast: int
    in_broadcast: int
    in_discards: int
    in_errors: int
    in_unknown_protocols: int
    out_octets: int
    out_unicast: int
    out_multicast: int
    out_broadcast: int
    out_discards: int
    out_errors: int
    promiscuous: int


_WIDE = tuple(name in ("speed_bps", "in_octets", "out_octets") for name in InterfaceCounters.__slots__)


def raw_header(header: bytes, frame_bytes: int, stripped_bytes: int = 0) -> bytes:
    """Record: the first bytes of an Ethernet frame.

    `frame_bytes` is the length on the wire before sampling; `stripped_bytes` how many octets of it (a check sum, say)
    were taken off before the header was read.
    """
    size = len(header)
    padding = -size % 4
    head = _RAW.pack(_RAW_HEADER, 16 + size + padding, _ETHERNET, frame_bytes, stripped_bytes, size)
    return head + header + b"\0" * padding


def extended_switch(src_vlan: int, src_priority: int, dst_vlan: int, dst_priority: int) -> bytes:
    """Record: 802.1Q VLAN and 802.1p priority of the frame as it came and as it went."""
    return struct.pack(">6I", _EXTENDED_SWITCH, 16, src_vlan, src_priority, dst_vlan, dst_priority)


def extended_router(next_hop: str, src_prefix_len: int, dst_prefix_len: int) -> bytes:
    """Record: the next router, and how long the matching prefixes of source and destination are.

    Errors: ValueError for something that is no address.
    """
    address = _address(next_hop)
    body = address + struct.pack(">II", src_prefix_len, dst_prefix_len)
    return _TAGGED.pack(_EXTENDED_ROUTER, len(body)) + body


def interface_counters(counters: InterfaceCounters) -> bytes:
    """Record: generic interface counters."""
    values = [
        value if wide else value & _U32 for value, wide in zip(astuple(counters), _WIDE, strict=True)
    ]  # 32-bit counters wrap, as they do in a switch
    return _COUNTERS.pack(_GENERIC_INTERFACE, _COUNTERS.size - 8, *values)


def ethernet_counters(values: Mapping[str, int]) -> bytes:
    """Record: Ethernet counters of one port, by their names in EtherLike-MIB; those that are not given are 0.

    Errors: ValueError for a name that the record has not.
    """
    unknown = set(values) - set(ETHERNET_COUNTERS)
    if unknown:
        raise ValueError(f"expected counters of {', '.join(ETHERNET_COUNTERS)}, got {', '.join(sorted(unknown))}")
    numbers = (values.get(name, 0) & _U32 for name in ETHERNET_COUNTERS)
    return _ETHERNET_RECORD.pack(_ETHERNET_INTERFACE, _ETHERNET_RECORD.size - 8, *numbers)


def flow_sample(
    sequence: int,
    source: int,
    rate: int,
    pool: int,
    drops: int,
    in_port: int,
    out_port: int,
    records: Sequence[bytes],
) -> bytes:
    """One packet out of `rate`, sampled at data source `source` (an ifIndex below 2**24).

    `pool` counts the packets that could have been sampled there, `drops` the samples that were lost for want of
    resources; both wrap. Ports are ifIndexes below 2**30, 0 if unknown.
    """
    body = b"".join(records)
    return (
        _FLOW.pack(
            _FLOW_SAMPLE,
            32 + len(body),
            sequence & _U32,
            source,
            rate,
            pool & _U32,
            drops & _U32,
            in_port,
            out_port,
            len(records),
        )
        + body
    )


def counter_sample(sequence: int, source: int, records: Sequence[bytes]) -> bytes:
    """Counters of one data source."""
    body = b"".join(records)
    return struct.pack(">5I", _COUNTER_SAMPLE, 12 + len(body), sequence & _U32, source, len(records)) + body


def discarded_packet(
    sequence: int, source: int, drops: int, in_port: int, out_port: int, reason: int, records: Sequence[bytes]
) -> bytes:
    """A packet that the switch threw away; `reason` is a code of `sflow_reasons`.

    `drops` counts notifications that were not sent for want of resources.
    """
    body = b"".join(records)
    return (
        struct.pack(
            ">10I",
            _DISCARDED,
            32 + len(body),
            sequence & _U32,
            0,  # class of the data source: an interface (this sample always uses the wide form)
            source,
            drops & _U32,
            in_port,
            out_port,
            reason,
            len(records),
        )
        + body
    )


class Agent:
    """One switch's sFlow agent: gathers samples into datagrams and numbers them.

    `add` returns a datagram when the next sample would not fit into one, `flush` what is waiting. The caller sends.
    """

    def __init__(self, address: str, sub_agent: int = 0, bytes_max: int = DATAGRAM_BYTES_MAX) -> None:
        """Errors: ValueError for something that is no address."""
        self._head = struct.pack(">I", _VERSION) + _address(address) + struct.pack(">I", sub_agent)
        self._room = bytes_max - len(self._head) - 12
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.sequence = 0  # datagrams made so far

    def add(self, sample: bytes, uptime_ms: int) -> bytes | None:
        """Take one sample; a datagram is returned if those before it filled one."""
        full = None
        if self._waiting_bytes + len(sample) > self._room:
            full = self.flush(uptime_ms)
        self._waiting.append(sample)
        self._waiting_bytes += len(sample)
        return full

    def flush(self, uptime_ms: int) -> bytes | None:
        """The datagram of all samples that wait, or None if none does."""
        if not self._waiting:
            return None
        made = datagram(self._head, self.sequence, uptime_ms, self._waiting)
        self.sequence += 1
        self._waiting.clear()
        self._waiting_bytes = 0
        return made


def datagram(head: bytes, sequence: int, uptime_ms: int, samples: Iterable[bytes]) -> bytes:
    """A datagram: `head` (version, agent address, sub-agent), its number, the agent's uptime, the samples."""
    parts = list(samples)
    return b"".join((head, struct.pack(">III", sequence & _U32, uptime_ms & _U32, len(parts)), *parts))


def _address(text: str) -> bytes:
    address = ipaddress.ip_address(text)
    return struct.pack(">I", _IPV4 if address.version == 4 else _IPV6) + address.packed
