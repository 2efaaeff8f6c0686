"""RoCEv2 packets: held against scapy, which reads the same headers; and bytes that are none."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.workloads.transport import rocev2
from leadline.lab.workloads.transport.rocev2 import ack_packet, mtu_for, opcode_of, packets_of, read_packet, send_packet
from leadline.model.errors import DataError


def joined(parts: list[bytes | memoryview]) -> bytes:
    return b"".join(parts)


def test_scapy_reads_a_send() -> None:
    from scapy.contrib.roce import BTH

    data = memoryview(bytes(range(10)))
    packet = BTH(joined(send_packet(0x123456, 0xABCDEF, rocev2.SEND_LAST, data, True)))
    assert packet.opcode == 0x02
    assert packet.dqpn == 0x123456
    assert packet.psn == 0xABCDEF
    assert packet.pkey == 0xFFFF
    assert packet.ackreq == 1
    assert packet.padcount == 2
    assert packet.version == 0


def test_scapy_reads_an_acknowledgement() -> None:
    from scapy.contrib.roce import AETH, BTH

    packet = BTH(joined(ack_packet(7, 41, rocev2.NAK_SEQUENCE, 3)))
    assert packet.opcode == 0x11
    assert packet.dqpn == 7
    assert packet.psn == 41
    assert packet[AETH].syndrome == 0x60
    assert packet[AETH].msn == 3


def test_we_read_what_scapy_writes() -> None:
    """Scapy's ICRC is the real one, over the IP header too, so ours is put in its place."""
    from scapy.contrib.roce import BTH

    theirs = bytes(BTH(opcode=0x00, dqpn=99, psn=5, ackreq=1, pkey=0xFFFF, icrc=0))[:12]
    ours = joined(send_packet(99, 5, rocev2.SEND_FIRST, memoryview(b""), True))
    assert theirs == ours[:12]


@given(
    pair=st.integers(0, 2**24 - 1),
    sequence=st.integers(0, 2**24 - 1),
    data=st.binary(max_size=1024),
    asks=st.booleans(),
)
def test_what_is_sent_is_read(pair: int, sequence: int, data: bytes, asks: bool) -> None:
    packet = read_packet(memoryview(joined(send_packet(pair, sequence, rocev2.SEND_ONLY, memoryview(data), asks))))
    assert packet == (rocev2.SEND_ONLY, pair, sequence, asks, None, None, data)
    assert packet.ends


@given(data=st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(DataError):
        packet = read_packet(memoryview(data))
        assert len(packet.payload) <= len(data) - 16


@given(data=st.binary(max_size=64), place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_damaged_packet_is_refused(data: bytes, place: int, bit: int) -> None:
    packet = bytearray(joined(send_packet(5, 6, rocev2.SEND_ONLY, memoryview(data), False)))
    place %= len(packet)
    packet[place] ^= 1 << bit
    if place == 4:
        assert read_packet(memoryview(packet)).payload == data  # congestion marks: routers may set them
    else:
        with pytest.raises(DataError):
            read_packet(memoryview(packet))


def test_packets_of_a_message() -> None:
    assert [packets_of(size, 1024) for size in (0, 1, 1024, 1025, 3072)] == [1, 1, 1, 2, 3]
    assert [opcode_of(position, 3) for position in range(3)] == [0x00, 0x01, 0x02]
    assert opcode_of(0, 1) == 0x04


@pytest.mark.parametrize(("ip_mtu", "mtu"), [(1500, 1024), (4140, 4096), (4139, 2048), (65536, 4096), (100, 256)])
def test_the_mtu_follows_the_interface(ip_mtu: int, mtu: int) -> None:
    assert mtu_for(ip_mtu) == mtu
    size = len(joined(send_packet(1, 2, rocev2.SEND_FIRST, memoryview(bytes(mtu)), False)))
    assert size + 20 + 8 == mtu + rocev2.OVERHEAD_BYTES


def test_the_source_port_is_that_of_linux() -> None:
    """Worked out by hand from rdma_calc_flow_label: 0x11 * 0x22 = 0x242, nothing to fold; 0xc000 | 0x242."""
    assert rocev2.udp_source_port(0x11, 0x22) == 0xC242
    assert rocev2.udp_source_port(0x123456, 0x654321) == rocev2.udp_source_port(0x654321, 0x123456)
    # 0x100000 * 0x1 = 2**20: folded down to bit 0.
    assert rocev2.udp_source_port(0x100000, 1) == 0xC001


@given(ours=st.integers(0, 2**24 - 1), theirs=st.integers(0, 2**24 - 1))
def test_source_ports_are_in_the_range_of_roce(ours: int, theirs: int) -> None:
    assert 0xC000 <= rocev2.udp_source_port(ours, theirs) <= 0xFFFF
