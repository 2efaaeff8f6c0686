"""Datagrams of sFlow version 5 as the switches of a cluster send them, made once and sent to every collector alike.

    roce      switches of a RoCEv2 fabric: queue pairs, some TCP, VLANs, IPv6, expanded samples, counters of ports
    golden    datagrams of real switches (tests/golden/sflow_datagrams), which carry one flow sample each

A mix is one cycle of datagrams that may be sent as often as one likes: each time the numbers in it (of datagrams, of
samples, pools, uptimes) go on where they stopped, as a collector expects of switches that nothing was lost of.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leadline.wire.sflow import encode

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "sflow_datagrams"
# Real switches tell their counters every 20 to 30 s, so beside busy ports they are few.
GOLDEN_FLOWS_A_COUNTER = 50  # each of the two datagrams with a flow sample, for one with twelve counter samples
ROCE_FLOWS_A_COUNTER = 100

SWITCHES, PORTS, FLOWS, HOSTS = 16, 64, 4096, 256
HEADER_BYTES = 128  # what switches send of a frame by default
RATE = 2048
TCP_SHARE, IPV6_SHARE = 0.1, 0.25
TAGGED_SWITCHES, EXPANDED_SWITCHES, IPV6_AGENTS = (0, 4, 8, 12), (1, 5, 9, 13), (3, 11)
# Of reliable connections: WRITE FIRST, MIDDLE, LAST, ONLY, READ RESPONSE MIDDLE, ACKNOWLEDGE, SEND ONLY; and CNP.
OPCODES = (6, 7, 7, 7, 7, 8, 10, 14, 17, 4, 0x81)
ROCE_PORT = 4791
SOURCE_FIRST = ipaddress.IPv4Address("127.77.0.1")  # where the switches send from: each its own loopback address

_FLOW, _COUNTERS, _FLOW_EXPANDED, _COUNTERS_EXPANDED = 1, 2, 3, 4
_MS_A_CYCLE = 1000  # of uptime


@dataclass(frozen=True, slots=True)
class Mix:
    """One cycle of D datagrams, and what in it goes on from cycle to cycle."""

    name: str
    data: NDArray[np.uint8]  # the datagrams, one behind the other
    ends: NDArray[np.int64]  # (D,)
    switch_D: NDArray[np.int64]  # who sends each
    counting: NDArray[np.int64]  # (W,): where the 32-bit words lie that count on
    steps: NDArray[np.int64]  # (W,): by how much in a cycle
    flow_samples: int
    frame_bytes: int  # sum over the flow samples
    packets: int  # sum of their sampling rates
    packet_bytes: int  # sum of sampling rate times frame bytes
    counter_samples: int

    @property
    def switches(self) -> int:
        """How many switches send."""
        return int(self.switch_D.max()) + 1

    def cycle(self, number: int) -> tuple[bytes, list[int]]:
        """The datagrams of the cycle `number` (from 0), one behind the other, and where each ends."""
        words = np.ascontiguousarray(self.data[self.counting[:, None] + np.arange(4)]).view(">u4").ravel()
        told = ((words.astype(np.int64) + number * self.steps) & 0xFFFFFFFF).astype(">u4")
        made = self.data.copy()
        made[self.counting[:, None] + np.arange(4)] = told.view(np.uint8).reshape(-1, 4)
        return made.tobytes(), self.ends.tolist()


def source(switch: int) -> str:
    """The address that a switch sends from."""
    return str(SOURCE_FIRST + switch)


def roce(seed: int, datagrams: int) -> Mix:
    """About `datagrams` datagrams of a RoCEv2 fabric, full ones, of 1,400 bytes: six or seven flow samples each."""
    rng = np.random.default_rng(seed)
    flows = [_flow(rng) for _ in range(FLOWS)]
    agents = [encode.Agent(_agent(switch)) for switch in range(SWITCHES)]
    made: list[tuple[int, bytes]] = []
    sent = [0] * SWITCHES
    while len(made) < datagrams:
        switch = int(rng.integers(SWITCHES))
        flow = int(rng.integers(FLOWS))
        sample = _sample(rng, switch, flow, flows[flow])
        sent[switch] += 1
        samples = [sample]
        if sent[switch] % ROCE_FLOWS_A_COUNTER == 0:
            samples.append(_counters(rng, 1 + sent[switch] // ROCE_FLOWS_A_COUNTER % PORTS))
        full = [agents[switch].add(each, 0) for each in samples]
        made += [(switch, datagram) for datagram in full if datagram]
    rests = [(switch, agent.flush(0)) for switch, agent in enumerate(agents)]
    return _mix("roce", [*made, *((switch, rest) for switch, rest in rests if rest)])


def golden(datagrams: int) -> Mix:
    """About `datagrams` datagrams of three real switches."""
    flow, tagged, counters = (
        (GOLDEN / f"sflow_{name}.dat").read_bytes()
        for name in ("flow_sample", "flow_sample_eth_vlan", "counters_sample")
    )
    some = [(0, flow), (1, tagged)] * GOLDEN_FLOWS_A_COUNTER + [(2, counters)]
    return _mix("golden", some * max(1, datagrams // len(some)))


# --- what switches say --------------------------------------------------------------------------------------------


def _agent(switch: int) -> str:
    return f"2001:db8:77::{switch + 1:x}" if switch in IPV6_AGENTS else f"10.77.0.{switch + 1}"


def _flow(rng: np.random.Generator) -> tuple[bytes, bool]:
    """A flow's header from the IP header on, with its opcode and packet number left open, and whether it is IPv6."""
    src, dst = (int(host) for host in rng.choice(HOSTS, 2, replace=False))
    wide, tcp = rng.random() < IPV6_SHARE, rng.random() < TCP_SHARE
    src_port = int(rng.integers(49152, 65536))
    if tcp:
        transport = struct.pack(">HHIIBBHHH", src_port, 443, 0, 0, 0x50, 0x10, 512, 0, 0)
    else:
        transport = struct.pack(">HHHHBBHIBBH", src_port, ROCE_PORT, 1056, 0, 0, 0x40, 0xFFFF,
                                int(rng.integers(2, 1 << 24)), 0, 0, 0)  # fmt: skip
    protocol, traffic_class = (6, 0) if tcp else (17, 26 << 2 | 2)
    if wide:
        ip = struct.pack(">IHBB", 6 << 28 | traffic_class << 20, len(transport) + 1024, protocol, 64)
        ip += (
            ipaddress.IPv6Address(f"2001:db8:1::{src:x}").packed + ipaddress.IPv6Address(f"2001:db8:1::{dst:x}").packed
        )
    else:
        ip = struct.pack(">BBHHHBBH", 0x45, traffic_class, len(transport) + 1044, 0, 0x4000, 64, protocol, 0)
        ip += ipaddress.IPv4Address(f"10.1.{src >> 6}.{src & 63}").packed
        ip += ipaddress.IPv4Address(f"10.1.{dst >> 6}.{dst & 63}").packed
    return ip + transport, wide


def _sample(rng: np.random.Generator, switch: int, flow: int, told: tuple[bytes, bool]) -> bytes:
    packet, wide = told
    header = bytearray(packet)
    transport = 40 if wide else 20
    if header[6 if wide else 9] == 17:
        header[transport + 8] = OPCODES[int(rng.integers(len(OPCODES)))]
        header[transport + 16 : transport + 20] = struct.pack(">I", int(rng.integers(1 << 24)))
    tag = b"\x81\x00\x60\x64" if switch in TAGGED_SWITCHES else b""
    frame = bytes.fromhex("0a00000000020a0000000001") + tag + (b"\x86\xdd" if wide else b"\x08\x00") + bytes(header)
    records = [encode.raw_header(frame.ljust(HEADER_BYTES, b"\0"), int(rng.choice((90, 1086, 4174))), 4)]
    if tag:
        records.append(encode.extended_switch(100, 3, 100, 3))
    into, out = 1 + (flow * 7 + switch) % PORTS, 1 + (flow * 11 + switch) % PORTS
    if switch not in EXPANDED_SWITCHES:
        return encode.flow_sample(0, into, RATE, 0, 0, into, out, records)
    body = struct.pack(">11I", 0, 0, into, RATE, 0, 0, 0, into, 0, out, len(records)) + b"".join(records)
    return struct.pack(">II", _FLOW_EXPANDED, len(body)) + body


def _counters(rng: np.random.Generator, port: int) -> bytes:
    octets = [int(value) for value in rng.integers(0, 1 << 48, 2)]
    packets = [int(value) for value in rng.integers(0, 1 << 32, 11)]
    values = [port, 6, 400 * 10**9, 1, 3, octets[0], *packets[:6], octets[1], *packets[6:], 0]
    told = encode.InterfaceCounters(*values)
    return encode.counter_sample(0, port, [encode.interface_counters(told), encode.ethernet_counters({})])


# --- what counts on -----------------------------------------------------------------------------------------------


def _mix(name: str, made: Sequence[tuple[int, bytes]]) -> Mix:
    """A cycle of (switch, datagram), with all numbers in it set anew: each counts from 0 in the order they stand."""
    data = bytearray(b"".join(datagram for _, datagram in made))
    ends = np.cumsum([len(datagram) for _, datagram in made])
    totals: Tally[object] = Tally()
    counting: list[tuple[int, object]] = []
    flow_samples = frame_bytes = packets = packet_bytes = counter_samples = 0

    def count(at: int, what: object, step: int = 1) -> None:
        struct.pack_into(">I", data, at, totals[what] & 0xFFFFFFFF)
        totals[what] += step
        counting.append((at, what))

    for (switch, datagram), end in zip(made, ends.tolist(), strict=True):
        at = end - len(datagram) + (12 if datagram[7] == 1 else 24)  # behind the agent's address
        count(at + 4, ("datagrams", switch))
        struct.pack_into(">I", data, at + 8, 0)
        counting.append((at + 8, "uptime"))
        for begin, kind, source_at in _samples(data, at + 16, end):
            (index,) = struct.unpack_from(">I", data, source_at)
            count(begin + 8, (switch, kind, index))
            if kind in (_COUNTERS, _COUNTERS_EXPANDED):
                counter_samples += 1
                continue
            (rate,) = struct.unpack_from(">I", data, source_at + 4)
            count(source_at + 8, ("pool", switch, kind, index), rate)
            size = _frame_bytes(data, source_at + (24 if kind == _FLOW else 32))
            flow_samples, frame_bytes = flow_samples + 1, frame_bytes + size
            packets, packet_bytes = packets + rate, packet_bytes + rate * size
    totals["uptime"] = _MS_A_CYCLE
    return Mix(
        name, np.frombuffer(bytes(data), np.uint8), ends.astype(np.int64),
        np.array([switch for switch, _ in made]), np.array([at for at, _ in counting]),
        np.array([totals[what] for _, what in counting]), flow_samples, frame_bytes, packets, packet_bytes,
        counter_samples,
    )  # fmt: skip


def _samples(data: bytearray, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Where each sample of a datagram begins, its kind, and where the index of its source lies."""
    while at < end:
        kind, size = struct.unpack_from(">II", data, at)
        yield at, kind, at + (12 if kind in (_FLOW, _COUNTERS) else 16)
        at += 8 + size


def _frame_bytes(data: bytearray, at: int) -> int:
    """Length of the sampled frame; `at` is where the number of records of its sample lies."""
    (records,) = struct.unpack_from(">I", data, at)
    at += 4
    for _ in range(records):
        kind, size = struct.unpack_from(">II", data, at)
        if kind == 1:
            (frame_bytes,) = struct.unpack_from(">I", data, at + 12)
            return int(frame_bytes)
        at += 8 + size
    raise AssertionError("every flow sample of a mix has a raw header")
