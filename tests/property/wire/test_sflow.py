"""Laws of sFlow: what was written is read, headers are seen as scapy sees them, and no bytes lead astray."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.sctp import SCTP
from tests.oracle import sflow as oracle
from tests.oracle.agreement import sflow_datagrams_agree

from leadline.model.ids import flow_id
from leadline.wire.sflow import encode, kernels
from leadline.wire.sflow import headers as header
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import SflowBatch, Switch, address_text, decode_sflow, flow_columns

logging.getLogger("scapy").setLevel(logging.CRITICAL)  # it looks for a route to the addresses that we make up

LAW = settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))
T = 1_750_000_000 * 10**9
LEAF = Switch("leaf1")
RED = 260

u8, u16, u32 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32))
u64 = st.integers(0, 2**64 - 2)
ip4 = st.ip_addresses(v=4).map(str)
ip6 = st.ip_addresses(v=6).map(str)


def read(*datagrams: bytes) -> SflowBatch:
    return decode_sflow(b"".join(datagrams), np.cumsum([len(one) for one in datagrams], dtype=np.int64))


# --- headers, against scapy ---------------------------------------------------------------------------------------

MAC = {"dst": "0a:00:00:00:00:02", "src": "0a:00:00:00:00:01"}


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """An Ethernet frame of any combination that a fabric carries."""
    packet: Any = Ether(**MAC)
    for tag in draw(st.lists(st.sampled_from([Dot1Q, Dot1AD]), max_size=3)):
        packet /= tag(vlan=draw(st.integers(0, 4095)), prio=draw(st.integers(0, 7)))
    kind = draw(st.sampled_from(["ip", "ip", "ip6", "ip6", "arp"]))
    if kind == "arp":
        return bytes(packet / ARP())
    if kind == "ip":
        options = [IPOption_NOP()] * draw(st.integers(0, 10))
        packet /= IP(src=draw(ip4), dst=draw(ip4), tos=draw(u8), options=options)
    else:
        packet /= IPv6(src=draw(ip6), dst=draw(ip6), tc=draw(u8), fl=draw(st.integers(0, 2**20 - 1)))
        for extension in draw(st.permutations([IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, IPv6ExtHdrDestOpt]))[
            : draw(st.integers(0, 3))
        ]:
            packet /= extension()
        if draw(st.booleans()):
            packet /= IPv6ExtHdrFragment(offset=0, m=1, id=draw(u32))
    transport = draw(st.sampled_from(["tcp", "udp", "roce", "sctp", "icmp"]))
    ports = {"sport": draw(u16), "dport": draw(u16)}
    if transport == "tcp":
        packet /= TCP(**ports, flags=draw(u8), seq=draw(u32))
    elif transport == "udp":
        packet /= UDP(**{**ports, "dport": 20_000 + ports["dport"] // 2})  # no port that scapy knows more about
    elif transport == "roce":
        qp, psn = (draw(st.integers(0, 2**24 - 1)) for _ in range(2))
        packet /= UDP(sport=ports["sport"], dport=4791) / BTH(opcode=draw(u8), dqpn=qp, psn=psn)
    elif transport == "sctp":
        packet /= SCTP(**ports)
    elif kind == "ip":
        packet /= ICMP()
    return bytes(packet) + draw(st.binary(max_size=40))


def header_of(frame: bytes, protocol: int = 1) -> tuple[oracle.Seen, tuple[int, int]]:
    """What our scanner sees in a header, and the id of its flow."""
    sample = oracle.flow_sample(1, 7, 100, 0, 0, (0, 7), (0, 9), [oracle.raw_header(frame, 1500, 0, protocol)])
    batch = read(oracle.datagram("10.0.0.1", [sample]))
    assert batch.error(0) is None
    row, packed = batch.flows[0].tolist(), batch.addresses[0].tobytes()
    known = row[header.ADDRESSED]
    seen = oracle.Seen(
        src=address_text(packed[:16], row[header.IP]) if known else "",
        dst=address_text(packed[16:32], row[header.IP]) if known else "",
        protocol=row[header.PROTOCOL],
        src_port=row[header.SRC_PORT],
        dst_port=row[header.DST_PORT],
        dst_qp=row[header.DST_QP],
        opcode=row[header.OPCODE],
        psn=row[header.PSN],
        dscp=row[header.DSCP],
        ecn=row[header.ECN],
        tcp_flags=row[header.TCP_FLAGS],
        vlan=row[header.VLAN],
        priority=row[header.PRIORITY],
    )
    return seen, tuple(batch.ids[0].tolist())


@LAW
@given(frame=frames())
def test_headers_are_seen_as_scapy_sees_them(frame: bytes) -> None:
    seen, flow = header_of(frame)
    assert seen == oracle.seen(frame)
    if seen.src:
        qp = max(seen.dst_qp, 0)
        expected = flow_id(seen.protocol, seen.src, seen.dst, seen.src_port, seen.dst_port, qp)
        assert flow[0] | flow[1] << 64 == expected


@LAW
@given(frame=frames(), data=st.data())
def test_a_header_cut_anywhere_tells_nothing_else(frame: bytes, data: st.DataObject) -> None:
    whole, _ = header_of(frame)
    cut, _ = header_of(frame[: data.draw(st.integers(0, len(frame)))])
    absent = oracle.Seen()
    for name in ("src", "dst", "src_port", "dst_port", "dst_qp", "opcode", "psn", "dscp", "ecn", "tcp_flags", "vlan"):
        assert getattr(cut, name) in (getattr(whole, name), getattr(absent, name)), name


@LAW
@given(noise=st.binary(max_size=128), protocol=st.sampled_from([0, 1, 11, 12, 13]))
def test_any_header_is_read(noise: bytes, protocol: int) -> None:
    seen, flow = header_of(noise, protocol)
    assert bool(seen.src) == (flow != (0, 0))


# --- what was written is read -------------------------------------------------------------------------------------

FRAME = bytes(Ether(**MAC) / IP(src="10.1.1.0", dst="10.2.3.1") / TCP(sport=50000, dport=80))
interfaces = st.tuples(st.integers(0, 2), st.integers(0, 2**30 - 1))

flow_samples = st.fixed_dictionaries(
    {
        "sequence": u32, "source": st.integers(0, 2**24 - 1), "rate": u32, "pool": u32, "drops": u32,
        "came": interfaces, "left": interfaces, "expanded": st.booleans(),
    }
)  # fmt: skip
extras = st.lists(
    st.sampled_from([oracle.ethernet_frame(99), oracle.switch(1, 2, 3, 4), oracle.router("10.0.0.9", 8, 9),
                     oracle.tagged(1036, b"12345"), oracle.tagged(1, b"abc", 4413)]),
    max_size=3,
)  # fmt: skip


@LAW
@given(
    agents=st.lists(st.tuples(st.one_of(ip4, ip6), u32, u32, u32), min_size=1, max_size=4),
    samples=st.lists(st.tuples(flow_samples, extras, extras), max_size=4),
)
def test_flow_samples_are_read_as_they_were_written(agents: Any, samples: Any) -> None:
    written = [
        oracle.flow_sample(records=[*before, oracle.raw_header(FRAME, 1500), *after], **fields)
        for fields, before, after in samples
    ]
    batch = read(*(oracle.datagram(agent, written, *numbers) for agent, *numbers in agents))
    for d, (agent, sequence, sub_agent, uptime_ms) in enumerate(agents):
        assert batch.error(d) is None
        assert batch.agent(d) == agent
        told = [kernels.SEQUENCE, kernels.SUB_AGENT, kernels.UPTIME_MS, kernels.FLOW_COUNT]
        assert batch.datagrams[d, told].tolist() == [sequence, sub_agent, uptime_ms, len(samples)]
    fields = [fields for fields, _, _ in samples] * len(agents)
    told = [kernels.S_SEQUENCE, kernels.SOURCE_INDEX, kernels.POOL, kernels.DROPS]
    assert batch.samples[:, told].tolist() == [[f["sequence"], f["source"], f["pool"], f["drops"]] for f in fields]
    sides = [header.RATE, header.IN_FORMAT, header.IN_VALUE, header.OUT_FORMAT, header.OUT_VALUE]
    assert batch.flows[:, sides].tolist() == [[f["rate"], *f["came"], *f["left"]] for f in fields]
    columns, count = flow_columns(batch, [LEAF] * len(agents), np.full(len(agents), T))
    assert count == len(fields) == len(columns["flow"])
    for f, port, dropped in zip(fields, columns["out_port"].to_pylist(), columns["dropped"].to_pylist(), strict=True):
        kind, value = f["left"]
        assert (port is not None) == (kind == 0 and value not in (0, 0x3FFFFFFF))
        assert (dropped is not None) == (kind == 1)


@LAW
@given(index=st.integers(1, 2**24 - 1), octets=st.tuples(u64, u64), packets=st.lists(u32, min_size=11, max_size=11),
       expanded=st.booleans())  # fmt: skip
def test_counters_are_read_as_they_were_written(index: int, octets: Any, packets: Any, expanded: bool) -> None:
    record = oracle.interface(index, 10**9, 3, octets, packets)
    batch = read(oracle.datagram("10.0.0.1", [oracle.counter_sample(1, index, [record], expanded)]))
    samples = CounterStreams().counters(batch, [LEAF], np.array([T]))
    found = {}
    for stream, value in zip(samples.sample_series.tolist(), samples.value.tolist(), strict=True):
        labels = samples.labels(stream)
        assert (labels["switch"], labels["port"]) == ("leaf1", f"ifIndex{index}")
        found[labels["__name__"]] = value
    assert (found["ifInOctets"], found["ifOutOctets"]) == tuple(map(float, octets))
    names = ("ifInUcastPkts", "ifInMulticastPkts", "ifInBroadcastPkts", "ifInDiscards", "ifInErrors",
             "ifInUnknownProtos", "ifOutUcastPkts", "ifOutMulticastPkts", "ifOutBroadcastPkts", "ifOutDiscards",
             "ifOutErrors")  # fmt: skip
    told = {name: value for name, value in zip(names, packets, strict=True) if value != 2**32 - 1}
    assert told == {name: found[name] for name in names if name in found}


# --- our own encoder ----------------------------------------------------------------------------------------------


@LAW
@given(
    agent=st.one_of(ip4, ip6), sequence=u32, pool=u32, drops=u32, rate=st.integers(1, 2**32 - 1),
    ports=st.tuples(*[st.integers(1, 2**24 - 1)] * 2), frame=frames(), kind=st.sampled_from(["flow", "discarded"]),
)  # fmt: skip
def test_what_the_lab_sends_is_read(
    agent: str, sequence: int, pool: int, drops: int, rate: int, ports: tuple[int, int], frame: bytes, kind: str
) -> None:
    records = [
        encode.raw_header(frame[:128], 1500),
        encode.extended_switch(1, 2, 3, 4),
        encode.extended_router("10.0.0.7", 24, 31),
    ]
    if kind == "flow":
        sample = encode.flow_sample(sequence, ports[0], rate, pool, drops, *ports, records)
    else:
        sample = encode.discarded_packet(sequence, ports[0], drops, *ports, RED, records)
    sender = encode.Agent(agent)
    counters = encode.InterfaceCounters(*range(ports[0], ports[0] + 19))
    for each in (sample, encode.counter_sample(sequence, ports[0], [encode.interface_counters(counters)])):
        assert sender.add(each, 5000) is None
    made = sender.flush(6000)
    assert made is not None
    batch = read(made)
    assert batch.error(0) is None
    assert (batch.agent(0), batch.skipped_samples, batch.skipped_records) == (agent, 0, 0)
    assert batch.datagrams[0, kernels.UPTIME_MS] == 6000
    row = batch.flows[0]
    reason = RED if kind == "discarded" else -1
    told = [header.RATE, header.IN_VALUE, header.OUT_VALUE, header.REASON, header.FRAME_BYTES, header.OUT_VLAN,
            header.DST_MASK]  # fmt: skip
    assert row[told].tolist() == [1 if kind == "discarded" else rate, *ports, reason, 1500, 3, 31]
    assert header_of(frame[:128])[0].src in ("", *flow_columns(batch, [LEAF], np.array([T]))[0]["src_ip"].to_pylist())
    samples = CounterStreams().counters(batch, [LEAF], np.array([T]))
    values = {samples.labels(s)["__name__"]: v for s, v in zip(samples.sample_series, samples.value, strict=True)}
    assert (values["ifInOctets"], values["ifOutErrors"]) == (ports[0] + 5, ports[0] + 17)


# --- any bytes ----------------------------------------------------------------------------------------------------

VALID = oracle.datagram(
    "10.0.0.1",
    [
        oracle.flow_sample(
            1, 7, 100, 0, 0, (0, 7), (0, 9), [oracle.raw_header(FRAME, 1500), oracle.switch(1, 2, 3, 4)]
        ),
        oracle.counter_sample(1, 9, [oracle.interface(9, 10**9, 3, (1, 2), range(11)), oracle.ethernet(range(13))]),
        oracle.discarded(1, 7, 0, 7, 9, 259, [oracle.router("2001:db8::1", 1, 2)]),
        oracle.flow_sample(2, 7, 100, 0, 0, (0, 7), (1, 3), [oracle.sampled_ip(1, 6, "::1", "::2", 1, 2, 3, 4)], True),
    ],
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A datagram with a few of its words changed, cut or repeated; or noise."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=200))
    message = bytearray(VALID)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(message) // 4)) * 4
        kind = draw(st.sampled_from(["set", "remove", "repeat", "cut", "byte"]))
        if kind == "set":
            message[at : at + 4] = draw(st.sampled_from([b"\0\0\0\0", b"\xff" * 4, b"\0\0\0\1", b"\x7f\xff\xff\xff"]))
        elif kind == "remove":
            del message[at : at + 4 * draw(st.integers(1, 4))]
        elif kind == "repeat":
            message[at:at] = message[at : at + 4 * draw(st.integers(1, 10))]
        elif kind == "cut":
            del message[draw(st.integers(0, len(message))) :]
        elif message:
            message[draw(st.integers(0, len(message) - 1))] = draw(u8)
    return bytes(message)


@settings(LAW, max_examples=400)
@given(datagrams=st.lists(damaged(), max_size=5))
def test_any_datagrams_decode_or_say_why_and_do_not_disturb_each_other(datagrams: list[bytes]) -> None:
    sflow_datagrams_agree(datagrams)


def test_the_valid_datagram_is_valid() -> None:
    assert read(VALID).error(0) is None
    for end in range(len(VALID)):
        assert read(VALID[:end]).error(0) is not None


@pytest.mark.parametrize("count", [2**32 - 1, 2**20])
def test_a_count_that_lies_costs_nothing(count: int) -> None:
    """However many samples or records a datagram claims to have, it is read for as long as it is."""
    assert read(VALID[:24] + count.to_bytes(4, "big") + VALID[28:]).error(0) is not None
