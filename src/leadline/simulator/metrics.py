"""Metric streams of a fleet and their values: the names and labels of the lab's exporters and agents.

A catalogue (M metrics, each over all entities of its class) gives S streams; a chunk of time gives values (S, T).
Counters go on from one chunk to the next. Values follow from what runs where and from what is befallen, by arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.model.metric_units import unit_of
from leadline.simulator.effects import EFFECTS
from leadline.simulator.fleet import Fleet, Ints, joined, text
from leadline.simulator.targets import Befallen
from leadline.wire.series_id import series_slices

Floats = NDArray[np.float64]
Of = Literal["gpu", "host", "port", "swport"]
IDLE_W, FULL_W, IDLE_MHZ, FULL_MHZ = 70.0, 700.0, 345.0, 1980.0  # as in lab.telemetry.gpu_model
FRAME_BYTES = 4178.0
PCI = ("1B", "3D", "4E", "5F", "9B", "BD", "CE", "DF") * 2


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric over all entities of a class; `wide`: only where everything is told."""

    name: str
    of: Of
    kind: Literal["counter", "gauge"]
    wide: bool = False

    @property
    def source(self) -> str:
        """Way in, as in the lab."""
        return "scrape" if self.exported else {"swport": "sflow"}.get(self.of, "otlp-http")

    @property
    def exported(self) -> bool:
        """Told by an exporter of the host, not by the agent."""
        return self.of == "gpu" or self.name.startswith("node_ethtool")

    @property
    def unit(self) -> str | None:
        """As the lab tells it: agents say of counts that they are counts."""
        return unit_of(self.name) or ("1" if self.source == "otlp-http" and self.kind == "counter" else None)

    @property
    def whole(self) -> bool:
        """Whether it counts things, not seconds."""
        return self.kind == "counter" and not self.name.endswith("seconds_total")


_GPU = [
    ("DCGM_FI_DEV_SM_CLOCK", "gauge"), ("DCGM_FI_DEV_GPU_TEMP", "gauge"), ("DCGM_FI_DEV_POWER_USAGE", "gauge"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter"), ("DCGM_FI_DEV_GPU_UTIL", "gauge"),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge"), ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter"),
    ("DCGM_FI_DEV_FB_USED", "gauge"), ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter"),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter"),
]  # fmt: skip
_PORT = [
    "node_network_transmit_bytes_total", "node_network_receive_bytes_total", "node_network_transmit_packets_total",
    "node_network_receive_packets_total", "node_network_carrier_changes_total",
]  # fmt: skip
_RDMA = [
    "node_infiniband_out_of_sequence_total", "node_infiniband_local_ack_timeout_err_total",
    "node_infiniband_symbol_error_total", "node_ethtool_rx_prio3_pause",
    "node_ethtool_outbound_pci_stalled_wr_events",
]  # fmt: skip
_HOST = [
    ("node_load1", "gauge"), ("node_memory_MemAvailable_bytes", "gauge"),
    ("node_pressure_memory_stalled_seconds_total", "counter"), ("container_cpu_cfs_throttled_seconds_total", "counter"),
    ("container_oom_events_total", "counter"),
]  # fmt: skip
_SWPORT = ["ifInOctets", "ifOutOctets", "ifInErrors", "ifOutDiscards"]

CATALOGUE: tuple[Metric, ...] = (
    *(Metric(name, "gpu", kind) for name, kind in _GPU),  # type: ignore[arg-type]
    *(Metric(name, "port", "counter") for name in (*_PORT, *_RDMA)),
    *(Metric(name, "host", kind) for name, kind in _HOST),  # type: ignore[arg-type]
    *(Metric(name, "swport", "counter", wide=True) for name in _SWPORT),
)


@dataclass(frozen=True, slots=True)
class Load:
    """What the fleet does at T moments: of hosts (H, T) and of the directions of links (L, T), bytes a second."""

    busy_HT: Floats
    sent_HT: Floats  # of each NIC of the host
    across_HT: Floats  # share of it that leaves the leaf


class Streams:
    """All metric streams of a fleet, in the order of their ids."""

    def __init__(self, fleet: Fleet, wide: bool, start_ns: int, seed: int) -> None:
        self.fleet, self.start_ns = fleet, start_ns
        self.metrics = [each for each in CATALOGUE if wide or not each.wide]
        self.counts: dict[Of, int] = {
            "gpu": fleet.gpu_count, "port": fleet.host_links, "host": fleet.hosts,
            "swport": len(fleet.swports.link) if wide else 0,
        }  # fmt: skip
        self.places = {}
        at = 0
        for metric in self.metrics:
            self.places[metric.name] = slice(at, at + self.counts[metric.of])
            at += self.counts[metric.of]
        self.count = at
        self.rng = np.random.default_rng([seed, 20])
        self.state_S = np.zeros(at)  # counters so far
        self._labels = {of: _labels(fleet, of) for of in ("gpu", "host", "port", "swport") if self.counts[of]}
        ids = np.concatenate([self._ids(metric) for metric in self.metrics])
        # A bundle's order is that of the bytes of an id: low half first, each byte for byte.
        swapped = ids.byteswap()
        self.order_S = np.lexsort((swapped[:, 1], swapped[:, 0]))
        self.ids_S = ids[self.order_S]
        self._told_ids = ids  # in the order of the catalogue, until they are told
        self.phase_S = self.rng.random(at)
        self.host_S = np.concatenate([self._host_of(metric.of) for metric in self.metrics])  # -1: of a switch
        self.agent_S = np.concatenate(
            [np.full(self.counts[each.of], each.source == "otlp-http") for each in self.metrics]
        )

    def _host_of(self, of: Of) -> Ints:
        per = {"gpu": self.fleet.gpus_per_host, "port": self.fleet.rails, "host": 1, "swport": 0}[of]
        return np.arange(self.counts[of]) // per if per else np.full(self.counts[of], -1)

    # -- identity ---------------------------------------------------------------------------------------------

    def _label_columns(self, metric: Metric) -> list[tuple[str, str | pa.Array]]:
        labels = dict(self._labels[metric.of])
        if metric.name.startswith("node_infiniband"):
            port = np.arange(self.counts["port"]) % self.fleet.rails
            labels |= {"device": text("mlx5_", port), "port": "1"}
        if metric.name.startswith("node_ethtool"):
            host = labels.pop("host.name")
            labels |= {"instance": joined(host, ":9417"), "job": "ethtool-exporter", "nodename": host}
        if metric.name == "DCGM_FI_DEV_XID_ERRORS":
            labels |= {"err_code": "0", "err_msg": "No Error"}
        if metric.name.startswith("container_"):
            labels["id"] = "/job"
        return sorted(labels.items())

    def _ids(self, metric: Metric) -> NDArray[np.uint64]:
        """Ids of the streams of a metric, (N, 2), see `model.ids`."""
        count = self.counts[metric.of]
        pieces: list[object] = []
        for name, value in sorted([("__name__", metric.name), *self._label_columns(metric)]):
            values = _binary(value, count)
            length_N = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
            inner_N = 2 + len(name) + 1 + _varint_size(length_N) + length_N
            head = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12"
            pieces += [b"\x0a", _varints(inner_N), head, _varints(length_N), values]
        whole = pc.binary_join_element_wise(*pieces, b"")
        offsets = np.frombuffer(whole.buffers()[1], np.int32, count + 1, whole.offset * 4).astype(np.int64)
        ids = np.empty((count, 2), np.uint64)
        series_slices(np.frombuffer(whole.buffers()[2], np.uint8), offsets[:-1].copy(), offsets[1:].copy(), ids)
        return ids

    def entities(self, metric: Metric) -> tuple[str, pa.StringArray, pa.Array | None]:
        """Kind, entity ids and hosts of the streams of a metric."""
        fleet = self.fleet
        hosts = fleet.host_names.take(pa.array(self._host_of(metric.of))) if metric.of != "swport" else None
        if metric.name.startswith("node_infiniband"):
            link = np.arange(fleet.host_links)
            return "port", text("port:h", link // fleet.rails + 1, "/mlx5_", link % fleet.rails), hosts
        names = {
            "gpu": fleet.gpu_names, "host": fleet.host_names, "port": fleet.port_names, "swport": fleet.swport_names,
        }[metric.of] if metric.of != "swport" or self.counts["swport"] else None  # fmt: skip
        return metric.of, joined(f"{metric.of}:", names), hosts

    def series(self, end_ns: int) -> list[dict[str, object]]:
        """Columns of `series`, a metric at a time; tenant and cluster are added by who writes."""
        out = []
        for metric in self.metrics:
            count = self.counts[metric.of]
            kind, entities, hosts = self.entities(metric)
            labels = self._label_columns(metric)
            out.append(
                {
                    "series": self._told_ids[self.places[metric.name]],
                    "name": [metric.name, count], "entity_kind": [kind, count],
                    "entity": entities, "unit": [metric.unit, count], "labels": _maps(labels, count),
                    "first_ns": np.full(count, self.start_ns), "last_ns": np.full(count, end_ns - 1),
                    "type": [metric.kind, count], "host": hosts if hosts is not None else [None, count],
                    "source": [metric.source, count],
                }
            )  # fmt: skip
        return out

    # -- values -----------------------------------------------------------------------------------------------

    def values(self, load: Load, at_s_T: Floats, period_s: float, faults: list[Befallen]) -> Floats:
        """Values at T moments, (S, T), streams in the order of the catalogue."""
        out = np.empty((self.count, len(at_s_T)))
        per = self.fleet.gpus_per_host
        busy_GT = np.repeat(load.busy_HT, per, axis=0)
        busy_GT = np.clip(busy_GT + (busy_GT > 0) * self.rng.normal(0, 0.01, busy_GT.shape), 0, 1)
        clock_GT = np.where(busy_GT > 0.02, FULL_MHZ, IDLE_MHZ)
        for fault in faults:
            left = fault.effect.clock_mhz[fault.level]
            if left != 1.0 and fault.gpus:
                clock_GT[np.ix_(np.array(fault.gpus), np.flatnonzero(_while(fault, at_s_T)))] *= left
        power_GT: Floats = np.round(IDLE_W + (FULL_W - IDLE_W) * busy_GT * (clock_GT / FULL_MHZ) ** 2, 3)
        rates: dict[str, Floats] = {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": power_GT * 1e3}
        gauges: dict[str, Floats] = {
            "DCGM_FI_DEV_SM_CLOCK": np.rint(clock_GT).astype(np.float64), "DCGM_FI_DEV_POWER_USAGE": power_GT,
            "DCGM_FI_DEV_GPU_TEMP": np.round(28 + 0.07 * power_GT), "DCGM_FI_DEV_GPU_UTIL": np.round(busy_GT * 100),
            "DCGM_FI_DEV_FB_USED": np.where(busy_GT > 0, 62_000.0, 4.0),
            "node_load1": np.round(load.busy_HT * 2 * per, 2),
            "node_memory_MemAvailable_bytes": np.where(load.busy_HT > 0, 1.2e12, 1.9e12),
        }  # fmt: skip
        sent_PT = np.repeat(load.sent_HT, self.fleet.rails, axis=0)
        for way in ("transmit", "receive"):
            rates[f"node_network_{way}_bytes_total"] = sent_PT
            rates[f"node_network_{way}_packets_total"] = sent_PT / FRAME_BYTES
        if self.counts["swport"]:
            up_LT = self._links(load, sent_PT)
            carried_WT = up_LT[self.fleet.swports.link]
            rates["ifInOctets"] = rates["ifOutOctets"] = carried_WT
        for metric in self.metrics:
            place = self.places[metric.name]
            if metric.name in gauges:
                out[place] = gauges[metric.name]
            elif metric.kind == "gauge":
                out[place] = 0.0
            else:
                self._count(out, metric, rates.get(metric.name), period_s)
        self._grow(out, at_s_T, period_s, faults)
        self._errors(out, at_s_T, faults)
        return out

    def _count(self, out: Floats, metric: Metric, rate_NT: Floats | None, period_s: float) -> None:
        place = self.places[metric.name]
        before_N = self.state_S[place]
        if rate_NT is None:
            out[place] = (np.floor(before_N) if metric.whole else before_N)[:, None]
        else:
            out[place] = np.floor(before_N[:, None] + np.cumsum(rate_NT * period_s, axis=1))
            self.state_S[place] = before_N + rate_NT.sum(axis=1) * period_s

    def _links(self, load: Load, sent_PT: Floats) -> Floats:
        """Bytes a second of every link in one direction; rings send as much the other way."""
        fleet = self.fleet
        out = np.zeros((fleet.links, sent_PT.shape[1]))
        out[: fleet.host_links] = sent_PT
        above_PT = sent_PT * np.repeat(load.across_HT, fleet.rails, axis=0)
        leaf_FT = np.zeros((fleet.leaves, sent_PT.shape[1]))
        np.add.at(leaf_FT, fleet.leaf_of_link_L, above_PT)
        # Hashes do not divide evenly: each uplink has its own share, the same for the whole time.
        share = np.random.default_rng(5).gamma(20.0, 1 / 20.0, (fleet.leaves, fleet.uplinks))
        share /= share.sum(axis=1, keepdims=True)
        climbs = (leaf_FT[:, None, :] * share[:, :, None]).reshape(fleet.leaf_links, -1)
        out[fleet.host_links : fleet.host_links + fleet.leaf_links] = climbs
        if fleet.three_tiers:
            spine_PT = climbs.reshape(fleet.pods, fleet.rails, fleet.uplinks, -1).sum(axis=1).reshape(fleet.spines, -1)
            out[fleet.host_links + fleet.leaf_links :] = np.repeat(spine_PT / fleet.supers_of_spine,
                                                                   fleet.supers_of_spine, axis=0)  # fmt: skip
        return out

    def _grow(self, out: Floats, at_s_T: Floats, period_s: float, faults: list[Befallen]) -> None:
        for fault in faults:
            for grows in fault.effect.counters:
                metric = next((each for each in self.metrics if each.name == grows.metric), None)
                if metric is None:
                    continue
                lasted_T = np.clip(np.minimum(at_s_T, fault.end_s) - np.maximum(at_s_T - period_s, fault.at_s), 0, None)
                began_T = (at_s_T >= fault.at_s) & (at_s_T - period_s < fault.at_s)
                more_T = np.cumsum((began_T if grows.once else lasted_T) * grows.per_s[fault.level])
                for entity in self._beside(metric, fault) if grows.beside else self._befallen(metric, fault):
                    row = self.places[metric.name].start + entity
                    much = sum(gpu // self.fleet.gpus_per_host == entity for gpu in fault.gpus) if (
                        grows.once and metric.of == "host") else 1  # fmt: skip
                    out[row] += more_T * much
                    if metric.whole:
                        out[row] = np.floor(out[row])
                    self.state_S[row] += more_T[-1] * much

    def _beside(self, metric: Metric, fault: Befallen) -> list[int]:
        """Hosts that the fault comes from, or their ports."""
        per = self.fleet.rails if metric.of == "port" else 1
        return [host * per + each for host in fault.beside for each in range(per)]

    def _befallen(self, metric: Metric, fault: Befallen) -> list[int]:
        if metric.of == "gpu":
            return list(fault.gpus)
        if metric.of == "host":
            return list(fault.hosts)
        if metric.of == "port":
            return [each for each in fault.links if each < self.fleet.host_links]
        ports = self.fleet.swports
        hit = np.isin(ports.link, fault.links) & ~ports.lower
        return [int(each) for each in np.flatnonzero(hit)]

    def _errors(self, out: Floats, at_s_T: Floats, faults: list[Befallen]) -> None:
        place = self.places["DCGM_FI_DEV_XID_ERRORS"]
        for fault in faults:
            for event in fault.effect.events:
                if event.kind == "xid":
                    for gpu in fault.gpus:
                        out[place.start + gpu, at_s_T >= fault.at_s] = float(event.code)


def _while(fault: Befallen, at_s_T: Floats) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (at_s_T >= fault.at_s) & (at_s_T < fault.end_s)
    return found


def _labels(fleet: Fleet, of: Of) -> dict[str, str | pa.Array]:
    """Labels of all entities of a class, as the lab's way in of that class tells them."""
    if of == "swport":
        ports = fleet.swports
        return {"port": text("Ethernet", ports.number), "switch": fleet.switch_names.take(pa.array(ports.switch))}
    per = {"gpu": fleet.gpus_per_host, "port": fleet.rails, "host": 1}[of]
    place = np.arange(fleet.hosts * per)
    host = text("h", place // per + 1)
    if of == "host":
        return {"host.name": host}
    if of == "port":
        return {"device": text("eth", place % per), "host.name": host}
    pci = pa.array([f"00000000:{PCI[each]}:00.0" for each in range(per)]).take(pa.array(place % per))
    return {
        "DCGM_FI_DRIVER_VERSION": "0.0-leadline-lab", "Hostname": host, "UUID": fleet.gpu_names,
        "device": text("nvidia", place % per), "gpu": text("", place % per), "instance": joined(host, ":9400"),
        "job": "dcgm-exporter", "modelName": "Leadline emulated GPU 80GB", "nodename": host, "pci_bus_id": pci,
    }  # fmt: skip


def _binary(value: str | pa.Array, count: int) -> pa.Array:
    if isinstance(value, str):
        return pa.repeat(pa.scalar(value.encode(), pa.binary()), count)
    return value.cast(pa.binary())


def _varint_size(value_N: Ints) -> Ints:
    return np.where(value_N < 128, 1, 2)


_VARINTS = pa.array([bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(1024)], pa.binary())


def _varints(value_N: Ints) -> pa.Array:
    return _VARINTS.take(pa.array(value_N))


def _maps(labels: list[tuple[str, str | pa.Array]], count: int) -> pa.MapArray:
    """Maps with the same names in every row."""
    width = len(labels)
    names = pa.array([name for name, _ in labels])
    keys = names.take(pa.array(np.tile(np.arange(width), count)))
    columns = [pa.repeat(value, count) if isinstance(value, str) else value for _, value in labels]
    # Column after column, then taken row by row.
    order = (np.arange(count)[:, None] + np.arange(width) * count).ravel()
    items = pa.concat_arrays(columns).take(pa.array(order))
    offsets = pa.array(np.arange(count + 1) * width, pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, items)


KNOWN = {metric.name for metric in CATALOGUE}
assert all(grows.metric in KNOWN for effect in EFFECTS.values() for grows in effect.counters)
