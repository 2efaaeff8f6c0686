"""The encoder of sFlow version 5, field by field against the specification, and read back by our decoder."""

from __future__ import annotations

import struct

import numpy as np
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from leadline.wire.sflow import encode
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import Switch, decode_sflow, flow_columns

FRAME = bytes(
    Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    / IP(src="10.1.1.1", dst="10.2.2.1", tos=0x8A)
    / TCP(sport=4000, dport=5000)
)
COUNTERS = encode.InterfaceCounters(
    if_index=7, if_type=6, speed_bps=250_000_000, direction=1, status=3, in_octets=2**40 + 5, in_unicast=2**32 + 9,
    in_multicast=2, in_broadcast=0xFFFFFFFF, in_discards=4, in_errors=5, in_unknown_protocols=0xFFFFFFFF,
    out_octets=2**41, out_unicast=11, out_multicast=12, out_broadcast=13, out_discards=14, out_errors=15, promiscuous=0,
)  # fmt: skip


def words(data: bytes, count: int, at: int = 0) -> tuple[int, ...]:
    return struct.unpack_from(f">{count}I", data, at)


def flow(sequence: int = 1) -> bytes:
    records = (encode.raw_header(FRAME, 1514), encode.extended_router("10.200.1.1", 16, 31))
    return encode.flow_sample(sequence, 7, 100, 100 * sequence, 3, 7, 9, records)


def one_datagram(*samples: bytes) -> bytes:
    agent = encode.Agent("127.77.0.1", sub_agent=2, bytes_max=60_000)
    for sample in samples:
        assert agent.add(sample, 5000) is None
    made = agent.flush(5000)
    assert made is not None
    return made


def test_a_raw_header_is_padded_and_says_both_lengths() -> None:
    record = encode.raw_header(b"\xaa" * 13, 1514, 4)
    assert words(record, 6) == (1, 16 + 16, 1, 1514, 4, 13)
    assert record[24:] == b"\xaa" * 13 + b"\0" * 3


def test_extended_records() -> None:
    assert words(encode.extended_switch(10, 1, 20, 2), 6) == (1001, 16, 10, 1, 20, 2)
    assert words(encode.extended_router("10.0.0.1", 16, 31), 6) == (1002, 16, 1, 0x0A000001, 16, 31)
    wide = encode.extended_router("2001:db8::1", 48, 64)
    assert words(wide, 3) == (1002, 28, 2)
    assert wide[12:28] == bytes.fromhex("20010db8000000000000000000000001")
    assert words(wide, 2, 28) == (48, 64)


def test_a_flow_sample_is_laid_out_as_specified() -> None:
    sample = flow()
    assert words(sample, 10) == (1, len(sample) - 8, 1, 7, 100, 100, 3, 7, 9, 2)
    assert len(sample) % 4 == 0


def test_numbers_wrap_as_they_do_in_a_switch() -> None:
    sample = encode.flow_sample(2**32 + 5, 7, 100, 2**32 + 6, 2**32 + 7, 1, 2, ())
    assert words(sample, 10) == (1, 32, 5, 7, 100, 6, 7, 1, 2, 0)


def test_interface_counters_are_88_bytes_in_the_order_of_if_mib() -> None:
    record = encode.interface_counters(COUNTERS)
    assert words(record, 2) == (1, 88)
    assert len(record) == 96
    body = struct.unpack(">IIQIIQ6IQ6I", record[8:])
    assert body == (7, 6, 250_000_000, 1, 3, 2**40 + 5, 9, 2, 2**32 - 1, 4, 5, 2**32 - 1, 2**41, 11, 12, 13, 14, 15, 0)


def test_a_discarded_packet_uses_the_wide_data_source() -> None:
    sample = encode.discarded_packet(4, 7, 0, 7, 9, 258, (encode.raw_header(FRAME, 60),))
    assert words(sample, 10) == (5, len(sample) - 8, 4, 0, 7, 0, 7, 9, 258, 1)


def test_an_agent_fills_datagrams_and_numbers_them() -> None:
    agent = encode.Agent("127.77.0.1", bytes_max=1400)
    made = [done for number in range(40) if (done := agent.add(flow(number), number)) is not None]
    last = agent.flush(99)
    assert last is not None
    assert agent.flush(100) is None
    datagrams = [*made, last]
    assert all(len(each) <= 1400 for each in datagrams)
    assert [words(each, 6)[4] for each in datagrams] == list(range(len(datagrams)))
    assert sum(words(each, 7)[6] for each in datagrams) == 40
    assert words(datagrams[0], 4) == (5, 1, 0x7F4D0001, 0)


def test_an_ipv6_agent_has_a_longer_head() -> None:
    agent = encode.Agent("2001:db8::7")
    agent.add(flow(), 1)
    made = agent.flush(1)
    assert made is not None
    assert words(made, 2) == (5, 2)
    assert made[8:24] == bytes.fromhex("20010db8000000000000000000000007")


def test_our_decoder_reads_what_was_written() -> None:
    discarded = encode.discarded_packet(1, 7, 0, 7, 9, 258, (encode.raw_header(FRAME, 60),))
    data = one_datagram(flow(), discarded)
    batch = decode_sflow(data, [len(data)])
    assert batch.error(0) is None
    assert batch.agent(0) == "127.77.0.1"
    assert (batch.skipped_samples, batch.skipped_records) == (0, 0)
    columns, count = flow_columns(batch, [Switch("leaf1", {7: "Ethernet7", 9: "Ethernet9"})], np.array([5]))
    assert count == 2
    assert columns["frame_bytes"].tolist() == [1514, 60]
    assert columns["rate"].tolist()[0] == 100
    assert columns["in_port"].to_pylist() == ["Ethernet7", "Ethernet7"]
    assert columns["out_port"].to_pylist() == ["Ethernet9", "Ethernet9"]
    assert columns["src_ip"].to_pylist() == ["10.1.1.1"] * 2
    assert columns["dst_ip"].to_pylist() == ["10.2.2.1"] * 2
    assert (columns["src_port"].tolist(), columns["dst_port"].tolist()) == ([4000] * 2, [5000] * 2)
    assert (columns["dscp"].tolist(), columns["ecn"].tolist()) == ([0x22] * 2, [2] * 2)
    assert columns["dropped"].to_pylist() == [None, "acl"]


def test_our_decoder_reads_the_counters() -> None:
    data = one_datagram(encode.counter_sample(1, 7, (encode.interface_counters(COUNTERS),)))
    batch = decode_sflow(data, [len(data)])
    assert batch.error(0) is None
    told = CounterStreams().counters(batch, [Switch("leaf1", {7: "Ethernet7"})], np.array([5]))
    assert {250_000_000, 2**40 + 5, 9, 2, 4, 5, 2**41, 11, 12, 13, 14, 15} <= set(told.value.tolist())
    assert told.dropped == {"blank_value": 2}
