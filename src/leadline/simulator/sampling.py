"""What switches sample of flows: one packet in N at each switch that it passes, each switch by itself. Pure numpy.

    flows (path, bytes, time) --packets--> Poisson thinning per flow and hop --> samples: flow, ports, time, frame

A port is told as a number: `2 l` is the lower end of link `l` (nearer to the hosts), `2 l + 1` the upper one. Flow and
port are numbers too, so that names are made late, for millions of rows at once (`columns`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.simulator.fabric import Floats, Ints
from leadline.wire.murmur import murmur3_slices

UDP, TCP = 17, 6
ROCE_PORT = 4791
ACK_FRAME_BYTES = 66
CE = 3  # ECN: congestion experienced
CAPABLE = 2  # ECN: ECT(0)
RATE_MAX = 10_000_000

Hash = NDArray[np.uint64]
# Paths (N, X) of the flows with these numbers (N,), each chosen by its own hash (N,).
Spray = Callable[[Ints, Hash], Ints]


@dataclass(frozen=True)
class Flows:
    """Flows of a span of time, arrays over F. What they carry is spread evenly over their time."""

    path_FX: Ints  # directions, see `fabric`; -1 for none
    links: int  # of the fabric: a direction from this number on goes down
    bytes_F: Floats  # payload
    begin_ns_F: Ints
    end_ns_F: Ints
    src_ip_F: NDArray[np.uint32]
    dst_ip_F: NDArray[np.uint32]
    src_port_F: Ints
    dst_port_F: Ints
    protocol_F: Ints
    dst_qp_F: Ints  # -1: none
    dscp_F: Ints
    ce_share_F: Floats  # of the packets that come marked from the first congested port on
    segment_bytes: int = 4096  # payload of a full frame
    header_bytes: int = 82

    def __len__(self) -> int:
        return len(self.bytes_F)


@dataclass(frozen=True)
class Samples:
    """Sampled packets, arrays over N, in order of time."""

    flow_N: Ints
    in_port_N: Ints
    out_port_N: Ints
    time_ns_N: Ints
    frame_bytes_N: Ints
    ecn_N: Ints
    rate: int


def frames_of(bytes_F: Floats, segment_bytes: int) -> Floats:
    """Packets of flows: full ones and a last one."""
    found: Floats = np.ceil(bytes_F / segment_bytes)
    return found


def expected_samples(flows: Flows, rate: int) -> float:
    """How many samples to expect, for an estimate before they are made."""
    packets_F = frames_of(flows.bytes_F, flows.segment_bytes)
    switches_F = np.maximum((flows.path_FX >= 0).sum(axis=1) - 1, 0)
    return float((packets_F * switches_F).sum() / rate)


def flow_samples(flows: Flows, rate: int, spray: Spray | None, rng: np.random.Generator) -> Samples:
    """Samples of one packet in `rate` of all flows, at every switch on their path.

    `spray`: None where a flow keeps its path (`flows.path_FX`); else each packet takes its own, drawn anew. Each
    switch chooses packets by itself, so the number of samples of a flow at a switch is Poisson, and two switches hardly
    ever see the same packet. Errors: ValueError for a rate below 1.
    """
    if not 1 <= rate <= RATE_MAX:
        raise ValueError(f"a sampling rate is one packet in 1 to {RATE_MAX}, got {rate}")
    packets_F = frames_of(flows.bytes_F, flows.segment_bytes)
    hops_F = (flows.path_FX >= 0).sum(axis=1)
    # A switch stands between two hops of a path.
    switches_F = np.maximum(hops_F - 1, 0)
    count_F = rng.poisson(packets_F * switches_F / rate)
    flow_N = np.repeat(np.arange(len(flows)), count_F)
    # With spraying all paths of a flow are equally long, so its switches are as many on each.
    place_N = (rng.random(len(flow_N)) * switches_F[flow_N]).astype(np.int64)
    if spray is None:
        order_FX = _compact(flows.path_FX)
        before_N, after_N = order_FX[flow_N, place_N], order_FX[flow_N, place_N + 1]
    else:
        path_NX = spray(flow_N, rng.integers(0, 2**63, len(flow_N), dtype=np.int64).astype(np.uint64))
        before_N, after_N = _hop(path_NX, place_N), _hop(path_NX, place_N + 1)
    time_N = flows.begin_ns_F[flow_N] + (rng.random(len(flow_N)) * (flows.end_ns_F - flows.begin_ns_F)[flow_N]).astype(
        np.int64
    )
    samples = Samples(
        flow_N,
        receiving_port(before_N, flows.links),
        sending_port(after_N, flows.links),
        time_N,
        _frame_bytes(flows, flow_N, packets_F, rng),
        np.where(rng.random(len(flow_N)) < flows.ce_share_F[flow_N], CE, _capable(flows)[flow_N]),
        rate,
    )
    return ordered(samples)


def ordered(samples: Samples) -> Samples:
    """The same in order of time."""
    order = np.argsort(samples.time_ns_N, kind="stable")
    named = {name: getattr(samples, name)[order] for name in Samples.__dataclass_fields__ if name != "rate"}
    return replace(samples, **named)


def receiving_port(direction_N: Ints, links: int) -> Ints:
    """The port that takes what crosses a link in a direction: upwards the upper end."""
    found: Ints = np.where(direction_N < links, 2 * direction_N + 1, 2 * (direction_N - links))
    return found


def sending_port(direction_N: Ints, links: int) -> Ints:
    """The port that sends in a direction: upwards the lower end."""
    found: Ints = np.where(direction_N < links, 2 * direction_N, 2 * (direction_N - links) + 1)
    return found


def _compact(path_NX: Ints) -> Ints:
    """Hops that there are to the front, in their order."""
    order = np.argsort(path_NX < 0, axis=1, kind="stable")
    found: Ints = np.take_along_axis(path_NX, order, axis=1)
    return found


def _hop(path_NX: Ints, place_N: Ints) -> Ints:
    """The hop of each path that has so many before it."""
    there = path_NX >= 0
    at_N = np.argmax(there & (np.cumsum(there, axis=1, dtype=np.int8) == place_N[:, None] + 1), axis=1)
    found: Ints = path_NX[np.arange(len(path_NX)), at_N]
    return found


def _frame_bytes(flows: Flows, flow_N: Ints, packets_F: Floats, rng: np.random.Generator) -> Ints:
    """Length of each sampled frame: full, or the flow's last one as often as there is one."""
    last_F = flows.bytes_F - (packets_F - 1) * flows.segment_bytes
    is_last_N = rng.random(len(flow_N)) * packets_F[flow_N] < 1.0
    payload_N = np.where(is_last_N, last_F[flow_N], flows.segment_bytes)
    found: Ints = np.rint(payload_N).astype(np.int64) + flows.header_bytes
    return found


def _capable(flows: Flows) -> Ints:
    found: Ints = np.where(flows.protocol_F == UDP, CAPABLE, 0)
    return found


def flow_ids(flows: Flows) -> NDArray[np.uint64]:
    """Ids of the flows, (F, 2): low and high 64 bits, as `wire.sflow` gives them. Once per flow, not per sample."""
    packed = np.zeros(len(flows), _PACKED)
    packed["protocol"], packed["src_port"], packed["dst_port"] = flows.protocol_F, flows.src_port_F, flows.dst_port_F
    packed["dst_qp"] = np.maximum(flows.dst_qp_F, 0)
    for end, ip_F in (("src", flows.src_ip_F), ("dst", flows.dst_ip_F)):
        packed[f"{end}_mapped"], packed[f"{end}_ip"] = 0xFFFF, ip_F
    begin = np.arange(len(flows), dtype=np.int64) * _PACKED.itemsize
    found = np.empty((len(flows), 2), np.uint64)
    murmur3_slices(packed.view(np.uint8), begin, begin + _PACKED.itemsize, found)
    return found


# What `model.ids.flow_id` hashes: IPv4 addresses in their IPv4-mapped IPv6 form.
_PACKED = np.dtype(
    [
        ("protocol", "u1"), ("src_zero", "V10"), ("src_mapped", ">u2"), ("src_ip", ">u4"), ("dst_zero", "V10"),
        ("dst_mapped", ">u2"), ("dst_ip", ">u4"), ("src_port", ">u2"), ("dst_port", ">u2"), ("dst_qp", ">u4"),
    ]
)  # fmt: skip


def addresses(ip_N: NDArray[np.uint32]) -> list[str]:
    """IPv4 addresses as text."""
    return [".".join(map(str, each)) for each in ip_N.astype(">u4").view(np.uint8).reshape(-1, 4).tolist()]


def columns(
    samples: Samples, flows: Flows, ids_F2: NDArray[np.uint64], switch_of_port: pa.Array, name_of_port: pa.Array
) -> dict[str, object]:
    """Rows of `flow_sample` (its own columns). Names are dictionary-encoded, so that a row costs a number.

    Inputs: ids of the flows (`flow_ids`); for each port number, the name of its switch and of the port (`Ethernet3`).
    """
    flow_N = samples.flow_N
    qp_N = flows.dst_qp_F[flow_N]
    return {
        "switch": _named(switch_of_port, samples.in_port_N),
        "in_port": _named(name_of_port, samples.in_port_N),
        "out_port": _named(name_of_port, samples.out_port_N),
        "time_ns": samples.time_ns_N,
        "rate": np.full(len(flow_N), samples.rate, np.uint64),
        "frame_bytes": samples.frame_bytes_N.astype(np.uint64),
        "protocol": flows.protocol_F[flow_N],
        "src_ip": _named(pa.array(addresses(flows.src_ip_F), pa.string()), flow_N),
        "dst_ip": _named(pa.array(addresses(flows.dst_ip_F), pa.string()), flow_N),
        "src_port": flows.src_port_F[flow_N],
        "dst_port": flows.dst_port_F[flow_N],
        "dst_qp": pa.array(qp_N, mask=qp_N < 0),
        "dscp": flows.dscp_F[flow_N],
        "ecn": samples.ecn_N,
        "dropped": pa.nulls(len(flow_N), pa.string()),
        "flow": ids_F2[flow_N],
    }


def _named(names: pa.Array, code_N: Ints) -> pa.DictionaryArray:
    """Texts by number. Only those that occur are in the dictionary, each once."""
    occurs = np.zeros(len(names), bool)
    occurs[code_N] = True
    distinct = np.flatnonzero(occurs)
    place = np.zeros(len(names), np.int32)
    encoded = pa.array(names).take(pa.array(distinct)).dictionary_encode()
    place[distinct] = encoded.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(place[code_N]), encoded.dictionary)
