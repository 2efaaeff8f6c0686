"""Counter records of sFlow as metric samples, under the names of the MIBs that the records quote.

    record    ifInOctets 8 | ifInUcastPkts 4 | ...        ──>  ifInOctets{switch="leaf1", port="Ethernet3"}

A field that is all ones is one that the switch cannot tell: no sample, counted as `blank_value`. Widths are the
wire's: packet counters have 32 bits and wrap.

Sources: sFlow.org, "sFlow Version 5", counter structures; RFC 2863 (IF-MIB), RFC 3635 (EtherLike-MIB).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadline.model.units import BPS, BYTES, COUNT, PACKETS
from leadline.wire.samples import Floats, Int64s, Metadata, Samples, UInt64s, samples_from
from leadline.wire.sflow import kernels
from leadline.wire.sflow.datagrams import SflowBatch, Switch

STREAMS_MAX = 50_000  # labels kept ready, one entry for each record of each port; some 2 kB each


class Field(NamedTuple):
    """One field of a record: metric name, place and width in bytes, type, unit; `bit` picks one of a bit field."""

    name: str
    at: int
    width: int
    type: str
    unit: str
    bit: int = -1


def _counters(first: int, unit: str, *names: str) -> tuple[Field, ...]:
    """Counters of 4 bytes, one behind the other."""
    return tuple(Field(name, first + 4 * n, 4, "counter", unit) for n, name in enumerate(names))


INTERFACE = (
    Field("ifSpeed", 8, 8, "gauge", BPS),
    Field("ifDirection", 16, 4, "gauge", COUNT),
    Field("ifAdminStatus", 20, 4, "gauge", COUNT, 0),
    Field("ifOperStatus", 20, 4, "gauge", COUNT, 1),
    Field("ifInOctets", 24, 8, "counter", BYTES),
    *_counters(
        32, PACKETS, "ifInUcastPkts", "ifInMulticastPkts", "ifInBroadcastPkts", "ifInDiscards", "ifInErrors",
        "ifInUnknownProtos",
    ),
    Field("ifOutOctets", 56, 8, "counter", BYTES),
    *_counters(
        64, PACKETS, "ifOutUcastPkts", "ifOutMulticastPkts", "ifOutBroadcastPkts", "ifOutDiscards", "ifOutErrors",
    ),
    Field("ifPromiscuousMode", 84, 4, "gauge", COUNT),
)  # fmt: skip

ETHERNET = _counters(
    0, COUNT, "dot3StatsAlignmentErrors", "dot3StatsFCSErrors", "dot3StatsSingleCollisionFrames",
    "dot3StatsMultipleCollisionFrames", "dot3StatsSQETestErrors", "dot3StatsDeferredTransmissions",
    "dot3StatsLateCollisions", "dot3StatsExcessiveCollisions", "dot3StatsInternalMacTransmitErrors",
    "dot3StatsCarrierSenseErrors", "dot3StatsFrameTooLongs", "dot3StatsInternalMacReceiveErrors",
    "dot3StatsSymbolErrors",
)  # fmt: skip

VLAN = (
    Field("sflow_vlan_octets", 4, 8, "counter", BYTES),
    *_counters(
        12, PACKETS, "sflow_vlan_ucast_pkts", "sflow_vlan_multicast_pkts", "sflow_vlan_broadcast_pkts",
        "sflow_vlan_discards",
    ),
)  # fmt: skip

# Shares of the processor come in hundredths of a per cent, and stay so: nothing is rescaled on the way in.
PROCESSOR = (
    *(
        Field(f"sflow_processor_cpu_{window}", 4 * n, 4, "gauge", "0.01 %")
        for n, window in enumerate(("5s", "1m", "5m"))
    ),
    Field("sflow_processor_memory_total_bytes", 12, 8, "gauge", BYTES),
    Field("sflow_processor_memory_free_bytes", 20, 8, "gauge", BYTES),
)

# Structure, its fields, its size.
STRUCTURES: tuple[tuple[int, tuple[Field, ...], int], ...] = (
    (kernels.INTERFACE, INTERFACE, kernels.INTERFACE_BYTES),
    (kernels.ETHERNET, ETHERNET, kernels.ETHERNET_BYTES),
    (kernels.VLAN_COUNTERS, VLAN, kernels.VLAN_BYTES),
    (kernels.PROCESSOR, PROCESSOR, kernels.PROCESSOR_BYTES),
)

# What a sampler says about itself, with every flow sample.
SAMPLER = (
    Field("sflow_sample_pool_packets_total", 0, 4, "counter", PACKETS),
    Field("sflow_sample_drops_total", 0, 4, "counter", COUNT),
)

_BOTH = np.ones(len(SAMPLER), np.bool_)

METADATA = {
    each.name: Metadata(each.type, each.unit) for _, fields, _ in (*STRUCTURES, (0, SAMPLER, 0)) for each in fields
}

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams of one record of one port: their labels, one behind the other, where each ends, and their ids."""

    labels: bytes
    ends: Int64s
    ids: UInt64s


class CounterStreams:
    """Makes metric samples of counters; keeps the labels of streams it made before. Not for several threads at once."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, Labels], _Streams] = {}

    def counters(self, batch: SflowBatch, switch_D: Sequence[Switch | None], arrived_ns: Int64s) -> Samples:
        """All counter records of a batch. Inputs as of `sflow.flow_columns`."""
        parts: list[tuple[_Streams, NDArray[np.bool_], Floats, int]] = []
        blank = 0
        for structure, fields, size in STRUCTURES:
            records = batch.records[batch.records[:, kernels.FORMAT] == structure]
            if not len(records):
                continue
            raw = batch.data[records[:, kernels.BEGIN, None] + np.arange(size)]
            value_RF, told_RF = _values(raw, fields)
            for row, sample in enumerate(batch.samples[records[:, kernels.R_SAMPLE]].tolist()):
                datagram = sample[kernels.S_DATAGRAM]
                switch = switch_D[datagram]
                if switch is None:
                    continue
                labels = _labels(structure, switch, sample, raw[row])
                streams = self._of(fields, labels)
                told = told_RF[row]
                blank += len(fields) - int(np.count_nonzero(told))
                parts.append((streams, told, value_RF[row], int(arrived_ns[datagram])))
        return _joined(parts, {"blank_value": blank} if blank else {})

    def samplers(self, told: Iterable[tuple[Switch, int, int, int, int]]) -> Samples:
        """Samples of (switch, ifIndex, pool, drops, time in ns)."""
        return _joined(
            [
                (
                    self._of(SAMPLER, (("port", switch.port(index)), ("switch", switch.name))),
                    _BOTH,
                    np.array((pool, drops), np.float64),
                    at_ns,
                )
                for switch, index, pool, drops, at_ns in told
            ],
            {},
        )

    def _of(self, fields: tuple[Field, ...], labels: Labels) -> _Streams:
        key = (fields[0].name, labels)
        streams = self._streams.get(key)
        if streams is None:
            if len(self._streams) >= STREAMS_MAX:
                self._streams.clear()
            made = samples_from([{"__name__": each.name, **dict(labels)} for each in fields], [], [], [])
            streams = self._streams[key] = _Streams(made.label_bytes.tobytes(), made.label_end, made.ids)
        return streams


def _labels(structure: int, switch: Switch, sample: list[int], record: NDArray[np.uint8]) -> Labels:
    """What names the streams of a record, beside the metric's name."""
    said = int.from_bytes(record[:4].tobytes(), "big")
    if structure == kernels.VLAN_COUNTERS:
        return (("switch", switch.name), ("vlan", str(said)))
    source = sample[kernels.SOURCE_INDEX]
    if structure == kernels.PROCESSOR:
        return (("processor", str(source)), ("switch", switch.name))
    return (("port", switch.port(said if structure == kernels.INTERFACE else source)), ("switch", switch.name))


def _values(raw: NDArray[np.uint8], fields: tuple[Field, ...]) -> tuple[Floats, NDArray[np.bool_]]:
    """Values of R records (R, F), and which of them the switch could tell."""
    value_RF = np.empty((len(raw), len(fields)), np.float64)
    told_RF = np.empty((len(raw), len(fields)), np.bool_)
    for n, each in enumerate(fields):
        place = np.ascontiguousarray(raw[:, each.at : each.at + each.width])
        word_R = place.view(">u8" if each.width == 8 else ">u4").ravel()
        told_RF[:, n] = word_R != (1 << 8 * each.width) - 1
        # IF-MIB's status is 1 for up, 2 for down; sFlow packs both into bits that are 1 for up.
        value_RF[:, n] = word_R if each.bit < 0 else 2 - ((word_R >> each.bit) & 1)
    return value_RF, told_RF


def _joined(parts: Sequence[tuple[_Streams, NDArray[np.bool_], Floats, int]], dropped: dict[str, int]) -> Samples:
    """One `Samples` of all records; every stream once for each record."""
    if not parts:
        return samples_from([], [], [], [], dropped=dropped)
    told_N = np.concatenate([told for _, told, _, _ in parts])
    ends, before = [], 0
    for streams, *_ in parts:
        ends.append(streams.ends + before)
        before += len(streams.labels)
    label_end = np.concatenate(ends)
    sizes = [len(streams.ends) for streams, *_ in parts]
    time_ns = np.repeat(np.array([at_ns for *_, at_ns in parts], np.int64), sizes)
    return Samples(
        label_bytes=np.frombuffer(b"".join(streams.labels for streams, *_ in parts), np.uint8),
        label_start=np.concatenate((np.zeros(1, np.int64), label_end[:-1])),
        label_end=label_end,
        ids=np.concatenate([streams.ids for streams, *_ in parts]),
        sample_series=np.flatnonzero(told_N),
        time_ns=time_ns[told_N],
        value=np.concatenate([value for _, _, value, _ in parts])[told_N],
        metadata=METADATA,
        dropped=dropped,
    )
