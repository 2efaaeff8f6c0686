"""What the kernel says by netlink, and the switch agent that makes sFlow of it. Messages are built as the kernel's."""

from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6

from leadline.lab.telemetry import nflog, rtnetlink, tcp_diag
from leadline.lab.telemetry.nflog import Packet
from leadline.lab.telemetry.switch_sampler import SwitchAgent, SwitchPort, nft_rules, port_counters, reason_of
from leadline.lab.telemetry.tcp_diag import Connection, TcpCounts, TcpSums
from leadline.model.errors import DataError
from leadline.wire.netlink import framing as netlink
from leadline.wire.sflow import kernels as sflow_kernels
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import SflowBatch, Switch, decode_sflow, flow_columns

MAC = bytes.fromhex("0200000000020200000000010800")
PORTS = [SwitchPort(2, "Ethernet1", 250_000_000, "10.1.1.1"), SwitchPort(3, "Ethernet2", 250_000_000, "10.201.1.0")]
ROUTES = [(0x0A010100, 31), (0x0A020000, 16), (0, 0)]


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def logged(payload: bytes, sequence: int | None = 0, prefix: str = "", ethernet: bytes = MAC) -> bytes:
    """A message of the NFLOG group, attributes in the kernel's order."""
    parts = [(1, bytes.fromhex("08000200"))]
    if prefix:
        parts.append((10, prefix.encode() + b"\0"))
    parts += [(4, u32(2)), (5, u32(3)), (16, ethernet), (9, payload)]
    if sequence is not None:
        parts.append((12, u32(sequence)))
    body = struct.pack(">BBH", 2, 0, 7701) + b"".join(netlink.attribute(kind, value) for kind, value in parts)
    return netlink.message(0x400, 0, body)


def payload(size: int = 1500) -> bytes:
    return bytes(IP(src="10.1.1.1", dst="10.2.3.1", len=size) / TCP(sport=4000, dport=5000))


# -- netlink ------------------------------------------------------------------------------------------------------


def test_messages_and_attributes_come_back() -> None:
    body = netlink.attribute(3, b"abc") + netlink.attribute(0x8004, b"")
    data = netlink.message(7, 1, body) + netlink.message(9, 0, b"")
    found = list(netlink.messages(data))
    assert [each.kind for each in found] == [7, 9]
    assert [(kind, bytes(value)) for kind, value in netlink.attributes(found[0].body)] == [(3, b"abc"), (4, b"")]


@pytest.mark.parametrize(
    "data", [b"\x10", struct.pack("<IHHII", 17, 1, 0, 0, 0), struct.pack("<IHHII", 15, 1, 0, 0, 0)]
)
def test_a_length_that_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        list(netlink.messages(data))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (
        lambda: list(nflog.packets(data, 128)),
        lambda: rtnetlink.links(netlink.messages(data)),
        lambda: rtnetlink.queues(netlink.messages(data)),
        lambda: rtnetlink.prefixes(netlink.messages(data)),
        lambda: tcp_diag.connections(netlink.messages(data)),
    ):
        with contextlib.suppress(DataError):
            read()


@given(st.sampled_from([0x400, 16, 24, 36, 20]), st.binary(max_size=200))
def test_any_body_of_a_known_message_is_read_or_refused(kind: int, body: bytes) -> None:
    test_any_bytes_are_read_or_refused.hypothesis.inner_test(netlink.message(kind, 0, body))  # type: ignore[attr-defined]


# -- NFLOG --------------------------------------------------------------------------------------------------------


def test_a_packet_has_its_ports_header_and_whole_length() -> None:
    (packet,) = nflog.packets(logged(payload()[:114]), 128)
    assert (packet.in_port, packet.out_port, packet.frame_bytes, packet.sequence) == (2, 3, 1514, 0)
    assert packet.header == MAC + payload()[:114]


def test_ipv6_and_packets_without_ethernet_header() -> None:
    body = bytes(IPv6(src="2001:db8::1", dst="2001:db8::2", plen=1000))
    (packet,) = nflog.packets(logged(body, None, ethernet=b""), 128)
    assert packet.frame_bytes == 14 + 40 + 1000
    assert packet.header[:14] == b"\0" * 12 + b"\x86\xdd"
    assert packet.sequence is None


def test_what_is_no_ip_packet_is_refused() -> None:
    with pytest.raises(DataError):
        list(nflog.packets(logged(b"\x00" * 40), 128))


def test_requests_name_the_group() -> None:
    for request in nflog.bind_requests(7701, 114, 25, 64, 32768):
        (found,) = netlink.messages(request)
        assert found.kind == 0x401
        assert bytes(found.body[:4]) == struct.pack(">BBH", 0, 0, 7701)


# -- rtnetlink ----------------------------------------------------------------------------------------------------


def test_a_link_is_read() -> None:
    attributes = [
        (3, b"Ethernet1\0"), (16, b"\x06"), (35, struct.pack("<I", 4)), (47, struct.pack("<I", 2)),
        (48, struct.pack("<I", 2)), (23, struct.pack("<25Q", *range(10, 35))),
    ]  # fmt: skip
    body = struct.pack("<BxHiII", 0, 1, 2, 0x1, 0) + b"".join(netlink.attribute(*each) for each in attributes)
    (link,) = rtnetlink.links(netlink.messages(netlink.message(16, 0, body))).values()
    assert (link.name, link.index, link.operstate, link.wanted_up) == ("Ethernet1", 2, "up", True)
    assert (link.carrier_changes, link.carrier_ups, link.carrier_downs) == (4, 2, 2)
    assert (link.rx_packets, link.tx_packets, link.rx_bytes, link.tx_bytes, link.multicast) == (10, 11, 12, 13, 18)


def qdisc(index: int, parent: int, kind: bytes, counts: tuple[int, ...]) -> bytes:
    stats = netlink.attribute(7, netlink.attribute(3, struct.pack("<5I", *counts)))
    body = struct.pack("<BxxxiIII", 0, index, 0x10000, parent, 0) + netlink.attribute(1, kind + b"\0") + stats
    return netlink.message(36, 0, body)


def test_only_root_queues_that_hold_something_are_read() -> None:
    data = (
        qdisc(2, 0xFFFFFFFF, b"htb", (1, 1514, 7, 0, 9))
        + qdisc(2, 0x10010, b"bfifo", (1, 1514, 7, 0, 0))
        + qdisc(1, 0xFFFFFFFF, b"noqueue", (0, 0, 0, 0, 0))
    )
    found = rtnetlink.queues(netlink.messages(data))
    assert found == {2: rtnetlink.Queue(2, "htb", 1, 1514, 7, 0, 9)}


def test_the_longest_prefix_wins() -> None:
    def route(network: str | None, length: int, table: int = 254) -> bytes:
        to = b"" if network is None else netlink.attribute(1, bytes(map(int, network.split("."))))
        return netlink.message(24, 0, struct.pack("<8BI", 2, length, 0, 0, table, 0, 0, 1, 0) + to)

    data = route(None, 0) + route("10.2.0.0", 16) + route("10.2.3.0", 31) + route("127.0.0.0", 8, 255)
    routes = rtnetlink.prefixes(netlink.messages(data))
    assert routes == [(0x0A020300, 31), (0x0A020000, 16), (0, 0)]
    assert [rtnetlink.prefix_length(routes, each) for each in (0x0A020301, 0x0A020302, 0x0B000000)] == [31, 16, 0]
    assert rtnetlink.prefix_length([], 1) == 0


# -- TCP ----------------------------------------------------------------------------------------------------------


def connection(cookie: int, retransmitted: int, out_of_order: int, timeouts: int) -> bytes:
    info = bytearray(248)
    struct.pack_into("<I", info, 100, retransmitted)
    struct.pack_into("<I", info, 224, out_of_order)
    struct.pack_into("<H", info, 240, timeouts)
    identity = struct.pack(">HH", 4000, 5000) + bytes([10, 1, 1, 1]) + b"\0" * 32 + struct.pack("<Q", cookie)
    head = b"\x02\x01\0\0" + identity.ljust(48, b"\0")
    return netlink.message(20, 0, head.ljust(72, b"\0") + netlink.attribute(2, bytes(info)))


def test_a_connection_is_read() -> None:
    (found,) = tcp_diag.connections(netlink.messages(connection(5, 3, 2, 1)))
    assert (found.address, found.counts) == ("10.1.1.1", TcpCounts(3, 2, 1))
    old_kernel = netlink.message(20, 0, b"\0" * 72 + netlink.attribute(2, b"\0" * 104))
    assert tcp_diag.connections(netlink.messages(old_kernel)) == [], "a kernel before 4.19 counts too little"


@given(st.lists(st.dictionaries(st.integers(0, 4), st.integers(0, 1000), max_size=5), max_size=20))
def test_sums_only_grow_and_keep_what_closed_connections_counted(readings: list[dict[int, int]]) -> None:
    sums, seen, told = TcpSums(), 0, dict[int, int]()
    for reading in readings:
        live = {each: told.get(each, 0) + more for each, more in reading.items()}
        seen += sum(reading.values())
        sums.take(Connection(bytes([each]) * 8, "10.1.1.1", TcpCounts(value, 0, 0)) for each, value in live.items())
        told = live
        assert sums.by_address.get("10.1.1.1", TcpCounts()).retransmitted == seen


# -- the agent of a switch ----------------------------------------------------------------------------------------


def switch_agent() -> SwitchAgent:
    return SwitchAgent("127.77.0.1", PORTS, 100, ROUTES, 1000)


def read(datagrams: list[bytes]) -> SflowBatch:
    batch = decode_sflow(b"".join(datagrams), np.cumsum([len(each) for each in datagrams]))
    assert [batch.error(number) for number in range(len(datagrams))] == [None] * len(datagrams)
    return batch


def test_samples_become_rows() -> None:
    agent = switch_agent()
    sampled = [Packet(2, 3, MAC + payload()[:114], 1514, "", number) for number in range(30)]
    datagrams = [*agent.take(sampled, 2000), *agent.flush(2000)]
    batch = read(datagrams)
    switch = Switch("leaf1", {2: "Ethernet1", 3: "Ethernet2"})
    columns, count = flow_columns(batch, [switch] * len(datagrams), np.zeros(len(datagrams), np.int64))
    assert (count, agent.samples, agent.lost) == (30, 30, 0)
    assert set(columns["in_port"].to_pylist()) == {"Ethernet1"}
    assert set(columns["out_port"].to_pylist()) == {"Ethernet2"}
    assert columns["frame_bytes"].sum() == 30 * 1514
    assert set(columns["rate"].tolist()) == {100}


def test_the_route_taken_is_told_with_its_prefixes() -> None:
    agent = switch_agent()
    agent.take([Packet(2, 3, MAC + payload()[:114], 1514, "", 0)], 2000)
    (made,) = agent.flush(2000)
    assert struct.pack(">6I", 1002, 16, 1, 0x0AC90100, 31, 16) in made


def test_a_gap_in_the_numbers_is_told_as_drops() -> None:
    agent = switch_agent()
    frame = MAC + payload()[:114]
    agent.take([Packet(2, 3, frame, 1514, "", 5), Packet(2, 3, frame, 1514, "", 9)], 2000)
    (made,) = agent.flush(2000)
    assert agent.lost == 3
    batch = read([made])
    assert batch.samples[:, [sflow_kernels.POOL, sflow_kernels.DROPS]].tolist() == [[100, 0], [500, 3]]


def test_a_group_bound_anew_is_no_loss() -> None:
    agent = switch_agent()
    frame = MAC + payload()[:114]
    agent.take([Packet(2, 3, frame, 1514, "", 900), Packet(2, 3, frame, 1514, "", 0)], 2000)
    assert agent.lost == 0


def test_discarded_packets_carry_the_reason_of_their_rule() -> None:
    agent = switch_agent()
    frame = MAC + payload()[:114]
    agent.discarded([Packet(2, 3, frame, 1514, "leadline-acl", None), Packet(2, 0, frame, 60, "what?", None)], 2000)
    batch = read(agent.flush(2000))
    columns, count = flow_columns(batch, [Switch("leaf1")], np.zeros(1, np.int64))
    assert count == 2
    assert columns["dropped"].to_pylist() == ["acl", "unknown"]
    assert reason_of("no_buffer_space:") == 259


def test_counters_are_told_for_every_port_that_is_there() -> None:
    link = rtnetlink.Counters(2, "Ethernet1", True, "down", 3, 1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 4)
    queue = rtnetlink.Queue(2, "htb", 0, 0, 7, 0, 0)
    counters = port_counters(PORTS[0], link, queue)
    assert (counters.status, counters.in_unicast, counters.in_multicast, counters.out_discards) == (1, 6, 4, 24)
    agent = switch_agent()
    batch = read(agent.counters({"Ethernet1": link}, {2: queue}, 2000))
    told = CounterStreams().counters(batch, [Switch("leaf1", {2: "Ethernet1"})], np.zeros(1, np.int64))
    assert {12, 13, 6, 4, 24} <= set(told.value.tolist())
    assert told.dropped == {"blank_value": 5}  # what Linux does not count is told as not counted


def test_nft_rules_sample_before_rules_that_discard() -> None:
    text = nft_rules(["Ethernet1", "Ethernet2"], 100, 7701, 128, 64)
    assert 'iifname { "Ethernet1", "Ethernet2" } numgen random mod 100 0 log group 7701 snaplen 114' in text
    assert "priority -10" in text
    assert "numgen" not in nft_rules(["Ethernet1"], 1, 7701, 128, 64)
