"""Decodes sFlow version 5: batches of datagrams into columns.

    bytes of D datagrams ──> SflowBatch: tables of integers ──> flow_columns: rows of `flow_sample`
                                                         └───> sflow_counters: metric samples

A datagram is taken whole or refused with the byte of its first mistake; its neighbours in the batch do not notice.
Who an agent is (which switch, what its ports are called) is not on the wire: the caller says so with a `Switch`.

Source: sFlow.org, "sFlow Version 5" (July 2004); "sFlow Dropped Packet Notification Structures" (2020).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.model.errors import DataError
from leadline.wire.samples import Int64s, UInt64s
from leadline.wire.sflow import headers as header
from leadline.wire.sflow import kernels
from leadline.wire.sflow.reasons import DROP_REASONS

# What stands in an error, by the codes of `sflow_kernels`.
EXPECTED = (
    "",
    "sFlow version 5",
    "an agent address of type 1 (IPv4) or 2 (IPv6)",
    "more bytes of the datagram",
    "a sample that ends within the datagram",
    "a record that ends within its sample",
    "all fields of the sample within its length",
    "all fields of the record within its length",
    "a packet header that ends within its record",
    "a next hop of type 0, 1 (IPv4) or 2 (IPv6)",
    "the end of the datagram behind its last sample",
)

INTERNAL = 0x3FFFFFFF  # an interface that is the switch itself: the packet began or ended there
DATAGRAM_BYTES_MAX = 65_535
ADDRESSES_MAX = 1 << 16  # texts of addresses kept ready, some 200 bytes each: those of a large fabric


@dataclass(frozen=True, slots=True)
class Switch:
    """Who sent a datagram: the switch, and the names of its ports by ifIndex."""

    name: str
    ports: Mapping[int, str] = field(default_factory=dict)

    def port(self, index: int) -> str:
        """The port's name; `ifIndex<N>` where nobody named it."""
        return self.ports.get(index) or f"ifIndex{index}"


@dataclass(frozen=True, slots=True)
class SflowBatch:
    """D datagrams, read. Columns of the tables are named in `sflow_kernels` and `sflow_headers`.

    Rows of a datagram stand together and in the order of the datagrams; a datagram with an error has none.
    """

    data: NDArray[np.uint8]  # all datagrams, one behind the other
    start: Int64s  # (D,)
    datagrams: NDArray[np.int64]  # (D, DATAGRAM_COLUMNS)
    agents: NDArray[np.uint8]  # (D, 16): the agent's address, IPv4 in its mapped form
    samples: NDArray[np.int64]  # (S, SAMPLE_COLUMNS)
    flows: NDArray[np.int64]  # (N, FLOW_COLUMNS)
    addresses: NDArray[np.uint8]  # (N, ADDRESS_BYTES)
    ids: UInt64s  # (N, 2): flow id, low and high; 0 without an IP header
    records: NDArray[np.int64]  # (R, RECORD_COLUMNS): counter records
    skipped_samples: int  # of enterprises and formats that we do not read
    skipped_records: int

    def agent(self, datagram: int) -> str:
        """The address that the agent gives itself; empty if the datagram does not come so far."""
        version = int(self.datagrams[datagram, kernels.AGENT_IP])
        return address_text(self.agents[datagram].tobytes(), version) if version else ""

    def agents_told(self) -> tuple[list[tuple[str, int]], Int64s]:
        """The agents of the batch, each once: address as `agent` gives it, and sub-agent; and which is whose, (D,)."""
        keyed = np.empty((len(self.start), 32), np.uint8)
        keyed[:, :16] = self.agents
        keyed.view(np.int64)[:, 2:] = self.datagrams[:, [kernels.AGENT_IP, kernels.SUB_AGENT]]
        keys = pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(keyed), [None, pa.py_buffer(keyed)])
        found = keys.dictionary_encode()
        told = []
        for key in found.dictionary.to_pylist():
            version, sub_agent = np.frombuffer(key, np.int64)[2:].tolist()
            told.append((address_text(key[:16], version) if version else "", sub_agent))
        return told, found.indices.to_numpy().astype(np.int64)

    def error(self, datagram: int, sender: str = "") -> DataError | None:
        """Why a datagram was refused, or None. `sender` says who it came from."""
        code, at = self.datagrams[datagram, [kernels.ERROR, kernels.ERROR_AT]].tolist()
        if code == kernels.OK:
            return None
        who = sender or self.agent(datagram) or "an unknown sender"
        return DataError(f"sFlow datagram {datagram} from {who}, byte {at}", EXPECTED[code], self._found(datagram, at))

    def _found(self, datagram: int, at: int) -> str:
        start = int(self.start[datagram])
        end = int(self.start[datagram + 1]) if datagram + 1 < len(self.start) else len(self.data)
        word = self.data[start + at : min(start + at + 4, end)].tobytes()
        if not word:
            return "its end"
        return f"{int.from_bytes(word, 'big')}" if len(word) == 4 else f"the bytes {word.hex()}"


def decode_sflow(data: bytes, ends: Sequence[int] | Int64s) -> SflowBatch:
    """Read datagrams that lie one behind the other in `data`; `ends` (D,) is where each ends, rising.

    Never raises for what the bytes say: `SflowBatch.error` tells of each datagram. Errors: ValueError if `ends` does
    not divide `data`.
    """
    end_D = np.asarray(ends, np.int64)
    count = len(end_D)
    start_D = np.concatenate((np.zeros(min(count, 1), np.int64), end_D[:-1]))
    if np.any(end_D < start_D) or (int(end_D[-1]) if count else 0) != len(data):
        raise ValueError(f"ends of datagrams must rise to {len(data)}, got {end_D[:5].tolist()}...")
    raw = np.frombuffer(data, np.uint8)
    # By columns, as they are read; fewer than two rows would be a table by rows too, and the kernel compiled for it.
    room = max(2, kernels.samples_at_most(raw, start_D, end_D))
    batch = SflowBatch(
        data=raw,
        start=start_D,
        datagrams=np.zeros((count, kernels.DATAGRAM_COLUMNS), np.int64),
        agents=np.zeros((count, 16), np.uint8),
        samples=np.empty((room, kernels.SAMPLE_COLUMNS), np.int64, order="F"),
        flows=np.empty((room, header.FLOW_COLUMNS), np.int64, order="F"),
        addresses=np.empty((room, header.ADDRESS_BYTES), np.uint8),
        ids=np.empty((room, 2), np.uint64),
        records=np.empty((len(raw) // kernels.RECORD_BYTES_MIN, kernels.RECORD_COLUMNS), np.int64),
        skipped_samples=0,
        skipped_records=0,
    )
    state = np.zeros(kernels.STATE_SIZE, np.int64)
    key = np.empty(kernels.KEY_BYTES, np.uint8)
    kernels.scan(
        raw, start_D, end_D, batch.datagrams, batch.agents, batch.samples, batch.flows, batch.addresses, batch.ids,
        batch.records, state, key,
    )  # fmt: skip
    samples, flows, records = state[[kernels.SAMPLES, kernels.FLOWS, kernels.RECORDS]].tolist()
    return SflowBatch(
        raw, start_D, batch.datagrams, batch.agents, batch.samples[:samples], batch.flows[:flows],
        batch.addresses[:flows], batch.ids[:flows], batch.records[:records],
        int(state[kernels.SKIPPED_SAMPLES]), int(state[kernels.SKIPPED_RECORDS]),
    )  # fmt: skip


def flow_columns(
    batch: SflowBatch, switch_D: Sequence[Switch | None], arrived_ns: Int64s
) -> tuple[dict[str, Any], int]:
    """Rows of `flow_sample` (its `given` columns) and how many they are.

    Inputs: the switch of each datagram, None for one whose rows are not wanted; when each arrived, ns (D,).
    A sampled packet without an IP header has empty addresses, zeros, and flow id 0. A packet that began or ended in
    the switch itself, or left by several ports, has no port on that side.
    """
    known, code_D = _distinct(switch_D)
    flows, addresses, ids = batch.flows, batch.addresses, batch.ids
    code_N = code_D[flows[:, header.DATAGRAM]]
    if len(code_N) and int(code_N.min()) < 0:
        wanted = np.flatnonzero(code_N >= 0)
        flows, addresses, ids, code_N = flows[wanted], addresses[wanted], ids[wanted], code_N[wanted]
    ip_N = np.where(flows[:, header.ADDRESSED] == 1, flows[:, header.IP], 0)
    columns = {
        "switch": _named(pa.array(code_N), [switch.name for switch in known]),
        "in_port": _port_names(known, code_N, flows[:, header.IN_FORMAT], flows[:, header.IN_VALUE]),
        "out_port": _port_names(known, code_N, flows[:, header.OUT_FORMAT], flows[:, header.OUT_VALUE]),
        "time_ns": arrived_ns[flows[:, header.DATAGRAM]],
        "rate": flows[:, header.RATE].astype(np.uint64),
        "frame_bytes": flows[:, header.FRAME_BYTES].astype(np.uint64),
        "protocol": flows[:, header.PROTOCOL],
        "src_ip": _address_texts(ip_N, addresses[:, header.SRC : header.SRC + 16]),
        "dst_ip": _address_texts(ip_N, addresses[:, header.DST : header.DST + 16]),
        "src_port": flows[:, header.SRC_PORT],
        "dst_port": flows[:, header.DST_PORT],
        "dst_qp": pa.array(flows[:, header.DST_QP], mask=flows[:, header.DST_QP] < 0),
        "dscp": flows[:, header.DSCP],
        "ecn": flows[:, header.ECN],
        "dropped": _reason_names(flows[:, header.REASON]),
        "flow": ids,
    }
    return columns, len(flows)


def _distinct(switch_D: Sequence[Switch | None]) -> tuple[list[Switch], Int64s]:
    """The switches, each once, and the place of each datagram's among them; -1 for None."""
    known: list[Switch] = []
    place: dict[int, int] = {id(None): -1}
    for switch in switch_D:
        if switch is not None and id(switch) not in place:
            place[id(switch)] = len(known)
            known.append(switch)
    return known, np.array([place[id(switch)] for switch in switch_D], np.int64)


@lru_cache(ADDRESSES_MAX)
def address_text(packed: bytes, version: int) -> str:
    """An address of 16 bytes as text; version 4 is written so, from its mapped form."""
    return ".".join(map(str, packed[12:])) if version == 4 else str(ipaddress.IPv6Address(packed))


def reason_name(code: int) -> str:
    """Why a packet was dropped, as the specification calls it; `reason_<N>` for a number it does not list."""
    return DROP_REASONS.get(code) or f"reason_{code}"


def _port_names(switches: Sequence[Switch], code_N: Int64s, format_N: Int64s, value_N: Int64s) -> pa.DictionaryArray:
    """Names of interfaces; null for 0 (not known), the switch itself, and what is no single interface."""
    is_port = (format_N == 0) & (value_N != 0) & (value_N != INTERNAL) & (value_N != 0xFFFFFFFF)
    found = pa.array((code_N << 32) | value_N, mask=~is_port).dictionary_encode()
    keys = found.dictionary.to_pylist()
    return _named(found.indices, [switches[key >> 32].port(key & 0xFFFFFFFF) for key in keys])


def _reason_names(reason_N: Int64s) -> pa.DictionaryArray:
    found = pa.array(reason_N, mask=reason_N < 0).dictionary_encode()
    return _named(found.indices, [reason_name(code) for code in found.dictionary.to_pylist()])


def _named(place_N: pa.Array, names: Sequence[str]) -> pa.DictionaryArray:
    """The names at these places, as the store takes symbols: in its dictionary each stands once."""
    distinct = {name: number for number, name in enumerate(dict.fromkeys(names))}
    number = pa.array([distinct[name] for name in names], pa.int32())
    return pa.DictionaryArray.from_arrays(number.take(place_N), pa.array(list(distinct), pa.string()))


def _address_texts(ip_N: Int64s, address_N: NDArray[np.uint8]) -> pa.StringArray:
    """Texts of addresses (N, 16), made once for each distinct one; empty where `ip_N` is 0."""
    keyed = np.empty((len(ip_N), 17), np.uint8)
    keyed[:, 0] = ip_N
    keyed[:, 1:] = address_N
    keyed[ip_N == 0] = 0
    keys = pa.FixedSizeBinaryArray.from_buffers(pa.binary(17), len(keyed), [None, pa.py_buffer(keyed)])
    found = keys.dictionary_encode()
    texts = [address_text(key[1:], key[0]) if key[0] else "" for key in found.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(found.indices)
