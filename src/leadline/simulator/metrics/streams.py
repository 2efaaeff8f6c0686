"""Metric streams of a fleet and their values: the names and labels of the lab's exporters and agents.

A catalogue (M metrics, each over all entities of its class) gives S streams; a chunk of time gives values (S, T).
Counters go on from one chunk to the next. Values follow from what runs where and from what is befallen, by arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.simulator.effects import EFFECTS, Grows
from leadline.simulator.fabric import Bools
from leadline.simulator.fleet import Fleet, Ints, joined, text
from leadline.simulator.metrics.catalogue import FABRIC_BYTES_S, PORT_BYTES_S, Metric, Of, metric_of
from leadline.simulator.targets import Befallen, links_of
from leadline.wire.series_id import series_slices

Floats = NDArray[np.float64]
IDLE_W, FULL_W, IDLE_MHZ, FULL_MHZ = 70.0, 700.0, 345.0, 1980.0  # as in lab.telemetry.gpu_model
FB_MIB = 81_559.0
FRAME_BYTES = 4178.0
QUEUE_BYTES = 250_000.0  # of a port, as `network.LinkState`
OVER_LIMIT_S = 1000.0  # frames a second that a full queue holds back
NOISE = 0.1  # standard deviation of what is usual of a busy machine, share of it
PCI = ("1B", "3D", "4E", "5F", "9B", "BD", "CE", "DF") * 2


@dataclass(frozen=True, slots=True)
class Load:
    """What the fleet does at T moments: of hosts (H, T) and of the directions of links (L, T), bytes a second."""

    busy_HT: Floats
    sent_HT: Floats  # of each NIC of the host
    across_HT: Floats  # share of it that leaves the leaf


class Streams:
    """All metric streams of a fleet, in the order of their ids."""

    def __init__(self, fleet: Fleet, metrics: Sequence[Metric], start_ns: int, seed: int) -> None:
        self.fleet, self.start_ns, self.metrics = fleet, start_ns, metrics
        wide = any(each.of == "swport" for each in metrics)
        links = fleet.host_links
        self.counts: dict[Of, int] = {
            "gpu": fleet.gpu_count, "port": links, "pcie": links, "optic": links, "host": fleet.hosts,
            "swport": len(fleet.swports.link) if wide else 0,
        }  # fmt: skip
        self.places = {}
        at = 0
        for metric in self.metrics:
            self.places[metric.key] = slice(at, at + self.counts[metric.of])
            at += self.counts[metric.of]
        self.count = at
        self.rng = np.random.default_rng([seed, 20])
        self._rng = np.random.default_rng([seed, 21])  # of what was added later, so that the others keep theirs
        self.state_S = np.zeros(at)  # counters so far
        self._labels = {of: _labels(fleet, of) for of in self.counts if self.counts[of]}
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
        per = _per_host(self.fleet, of)
        return np.arange(self.counts[of]) // per if per else np.full(self.counts[of], -1)

    # -- identity ---------------------------------------------------------------------------------------------

    def _label_columns(self, metric: Metric) -> list[tuple[str, str | pa.Array]]:
        labels = {**self._labels[metric.of], **dict(metric.labels)}
        if metric.of == "swport" and metric.exported:
            labels["device"] = labels.pop("port")
            labels |= {"instance": joined(labels["switch"], ":9100"), "job": "switch"}
            if metric.name.startswith("node_qdisc"):
                labels["kind"] = "htb"
        if metric.name.startswith("node_infiniband"):
            port = np.arange(self.counts["port"]) % self.fleet.rails
            labels |= {"device": text("mlx5_", port), "port": "1"}
        if metric.of == "port" and metric.name.startswith("node_ethtool"):
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
        if metric.of == "pcie":
            return "host", joined("host:", hosts), hosts
        names = {
            "gpu": fleet.gpu_names, "host": fleet.host_names, "port": fleet.port_names, "optic": fleet.port_names,
            "swport": fleet.swport_names,
        }[metric.of] if metric.of != "swport" or self.counts["swport"] else None  # fmt: skip
        kind = "xcvr" if metric.of == "optic" else metric.of
        return kind, joined(f"{kind}:", names), hosts

    def series(self, end_ns: int) -> list[dict[str, object]]:
        """Columns of `series`, a metric at a time; tenant and cluster are added by who writes."""
        out = []
        for metric in self.metrics:
            count = self.counts[metric.of]
            kind, entities, hosts = self.entities(metric)
            labels = self._label_columns(metric)
            out.append(
                {
                    "series": self._told_ids[self.places[metric.key]],
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
        rates: dict[str, Floats] = {"gpu DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": power_GT * 1e3}
        used_GT = np.where(busy_GT > 0, 62_000.0, 4.0)
        gauges: dict[str, Floats] = {
            "gpu DCGM_FI_DEV_SM_CLOCK": np.rint(clock_GT).astype(np.float64),
            "gpu DCGM_FI_DEV_POWER_USAGE": power_GT, "gpu DCGM_FI_DEV_GPU_TEMP": np.round(28 + 0.07 * power_GT),
            "gpu DCGM_FI_DEV_GPU_UTIL": np.round(busy_GT * 100), "gpu DCGM_FI_DEV_FB_USED": used_GT,
            "gpu DCGM_FI_DEV_FB_FREE": FB_MIB - used_GT, "gpu DCGM_FI_PROF_GR_ENGINE_ACTIVE": np.round(busy_GT, 3),
            "gpu DCGM_FI_DEV_CLOCKS_EVENT_REASONS": np.where(busy_GT > 0.02, 0.0, 1.0),
            "host node_load1": np.round(load.busy_HT * 2 * per, 2),
            "host node_memory_MemAvailable_bytes": np.where(load.busy_HT > 0, 1.2e12, 1.9e12),
        }  # fmt: skip
        sent_PT = np.repeat(load.sent_HT, self.fleet.rails, axis=0)
        for way, short in (("transmit", "xmit"), ("receive", "rcv")):
            rates[f"port node_network_{way}_bytes_total"] = sent_PT
            rates[f"port node_network_{way}_packets_total"] = sent_PT / FRAME_BYTES
            rates[f"port node_infiniband_port_{short}_data_total"] = sent_PT / 4  # in words of four bytes
            rates[f"port node_infiniband_port_{short}_packets_total"] = sent_PT / FRAME_BYTES
        if self.counts["swport"]:
            carried_LT = self._links(load, sent_PT) + self._of_others(at_s_T, faults)
            carried_WT = carried_LT[self.fleet.swports.link]
            for octets, frames, way in (("ifIn", "ifInUcastPkts", "receive"), ("ifOut", "ifOutUcastPkts", "transmit")):
                rates[f"swport {octets}Octets"] = carried_WT
                rates[f"swport {frames}"] = carried_WT / FRAME_BYTES
                rates[f"swport node_network_{way}_bytes_total"] = carried_WT
            bytes_s_W = np.where(self.fleet.swports.link < self.fleet.host_links, PORT_BYTES_S, FABRIC_BYTES_S)
            speed_WT = np.repeat(bytes_s_W[:, None], len(at_s_T), axis=1)
            gauges |= {"swport node_network_speed_bytes": speed_WT, "swport ifSpeed": speed_WT * 8}
        for metric in self.metrics:
            place = self.places[metric.key]
            if metric.key in gauges:
                out[place] = gauges[metric.key]
            elif metric.kind == "gauge":
                out[place] = self._usual(metric, load, len(at_s_T))
            else:
                rate_NT = rates.get(metric.key)
                if rate_NT is None and (metric.usual or metric.busy):
                    rate_NT = self._usual(metric, load, len(at_s_T))
                self._count(out, metric, rate_NT, period_s)
        self._grow(out, at_s_T, period_s, faults)
        self._hold(out, at_s_T, faults)
        if self.counts["swport"]:
            self._queue(out, carried_LT, at_s_T, period_s, faults)
        self._errors(out, at_s_T, faults)
        return out

    def _usual(self, metric: Metric, load: Load, count: int) -> Floats:
        """What a sound machine says, (N, T): constant where its load does not matter."""
        shape = (self.counts[metric.of], count)
        if not metric.busy:
            return np.full(shape, metric.usual)
        busy_NT = load.busy_HT[self._host_of(metric.of)]
        noise_NT = np.maximum(0.0, 1.0 + NOISE * self._rng.standard_normal(shape))
        found: Floats = np.maximum(0.0, metric.usual + metric.busy * busy_NT) * noise_NT
        return np.round(found) if metric.kind == "gauge" and metric.name.startswith("node_procs") else found

    def _of_others(self, at_s_T: Floats, faults: list[Befallen]) -> Floats:
        """Bytes a second that others send over links, (L, T): they take what the befallen jobs do not get."""
        out = np.zeros((self.fleet.links, len(at_s_T)))
        for fault in faults:
            if fault.effect.queues == "others":
                share = 1.0 - fault.effect.capacity[fault.level]
                hit = links_of(self.fleet, fault)
                out[hit] += share * self.fleet.capacity_bps_L[hit][:, None] / 8 * _while(fault, at_s_T)
        return out

    def _queue(self, out: Floats, carried_LT: Floats, at_s_T: Floats, period_s: float, faults: list[Befallen]) -> None:
        """Ports that send more than their link takes: the queue stands, and is full when it is looked at as often as
        the link is busy. What is over the limit waits, and some of it is dropped."""
        ports, rest = self.fleet.swports, "swport node_qdisc_backlog" in self.places
        for fault in faults:
            effect = fault.effect
            if not effect.queues or not rest:
                continue
            hit = links_of(self.fleet, fault)
            left = effect.capacity[fault.level]
            during_T = _while(fault, at_s_T)
            for port in np.flatnonzero(np.isin(ports.link, hit)).tolist():
                link = ports.link[port]
                busy_T = np.ones(len(at_s_T))  # others fill it, whatever a job does
                if effect.queues == "own":
                    busy_T = np.minimum(1.0, carried_LT[link] * 8 / (left * self.fleet.capacity_bps_L[link]))
                full_T = (self._rng.random(len(at_s_T)) < busy_T) & during_T
                queue_T = np.rint(QUEUE_BYTES * self._rng.uniform(0.5, 1.0, len(at_s_T))) * full_T
                out[self.places["swport node_qdisc_backlog"].start + port] += queue_T
                frames_T = np.rint(queue_T / FRAME_BYTES)
                out[self.places["swport node_qdisc_current_queue_length"].start + port] += frames_T
                busy_s_T = busy_T * during_T * period_s
                self._more(out, "swport node_qdisc_overlimits_total", port, np.cumsum(OVER_LIMIT_S * busy_s_T))
                for name in ("node_qdisc_drops_total", "ifOutDiscards"):
                    self._more(out, f"swport {name}", port, np.cumsum(effect.drops_s[fault.level] * busy_s_T))

    def _more(self, out: Floats, key: str, entity: int, more_T: Floats) -> None:
        """Let a count of one entity be higher by that much; it stays so afterwards."""
        row = self.places[key].start + entity
        out[row] = np.floor(out[row] + more_T)
        self.state_S[row] += more_T[-1]

    def _hold(self, out: Floats, at_s_T: Floats, faults: list[Befallen]) -> None:
        """Gauges that stand at a value while a fault lasts, and those that say that a link is down."""
        for fault in faults:
            for held in fault.effect.holds:
                metric = metric_of(held.metric, held.of)
                if metric.key not in self.places:
                    continue
                self._set(out, metric, fault, _while(fault, at_s_T), held.to[fault.level])
            for metric in _STATES:
                if metric.key in self.places:
                    self._set(out, metric, fault, fault.down(at_s_T), 0.0)

    def _set(self, out: Floats, metric: Metric, fault: Befallen, when_T: Bools, value: float) -> None:
        rows = self.places[metric.key].start + np.array(self._befallen(metric, fault), np.int64)
        out[np.ix_(rows, np.flatnonzero(when_T))] = value

    def _count(self, out: Floats, metric: Metric, rate_NT: Floats | None, period_s: float) -> None:
        place = self.places[metric.key]
        before_N = self.state_S[place]
        if rate_NT is None:
            out[place] = (np.floor(before_N) if metric.whole else before_N)[:, None]
        else:
            found_NT = before_N[:, None] + np.cumsum(rate_NT * period_s, axis=1)
            out[place] = np.floor(found_NT) if metric.whole else found_NT
            self.state_S[place] = found_NT[:, -1]

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
                metric = metric_of(grows.metric, grows.of)
                if metric.key not in self.places:
                    continue
                lasted_T = np.clip(np.minimum(at_s_T, fault.end_s) - np.maximum(at_s_T - period_s, fault.at_s), 0, None)
                began_T = (at_s_T >= fault.at_s) & (at_s_T - period_s < fault.at_s)
                more_T = np.cumsum((began_T if grows.once else lasted_T) * grows.per_s[fault.level])
                for entity in self._growing(metric, grows, fault):
                    row = self.places[metric.key].start + entity
                    much = sum(gpu // self.fleet.gpus_per_host == entity for gpu in fault.gpus) if (
                        grows.once and metric.of == "host") else 1  # fmt: skip
                    out[row] += more_T * much
                    if metric.whole:
                        out[row] = np.floor(out[row])
                    self.state_S[row] += more_T[-1] * much

    def _growing(self, metric: Metric, grows: Grows, fault: Befallen) -> list[int]:
        if grows.beside:
            return self._beside(metric, fault)
        return self._behind(fault) if grows.behind else self._befallen(metric, fault)

    def _beside(self, metric: Metric, fault: Befallen) -> list[int]:
        """Hosts that the fault comes from, or their ports."""
        per = self.fleet.rails if metric.of == "port" else 1
        return [host * per + each for host in fault.beside for each in range(per)]

    def _behind(self, fault: Befallen) -> list[int]:
        """NICs on the leaf whose uplink is befallen: any of their flows may cross it."""
        leaves = {(link - self.fleet.host_links) // self.fleet.uplinks for link in fault.links}
        return [int(each) for each in np.flatnonzero(np.isin(self.fleet.leaf_of_link_L, list(leaves)))]

    def _befallen(self, metric: Metric, fault: Befallen) -> list[int]:
        if metric.of == "gpu":
            return list(fault.gpus)
        if metric.of == "host":
            return list(fault.hosts)
        links = links_of(self.fleet, fault)
        if metric.of != "swport":
            return [int(each) for each in links if each < self.fleet.host_links]
        return [int(each) for each in np.flatnonzero(np.isin(self.fleet.swports.link, links))]

    def _errors(self, out: Floats, at_s_T: Floats, faults: list[Befallen]) -> None:
        place = self.places["gpu DCGM_FI_DEV_XID_ERRORS"]
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
    per = _per_host(fleet, of)
    place = np.arange(fleet.hosts * per)
    host = text("h", place // per + 1)
    exporter: dict[str, str | pa.Array] = {
        "instance": joined(host, ":9417"), "job": "ethtool-exporter", "nodename": host,
    }  # fmt: skip
    if of == "pcie":
        bus = pa.array([each.lower() for each in PCI[:per]]).take(pa.array(place % per))
        return {**exporter, "bus": bus, "device": "00", "function": "0", "segment": "0000"}
    if of == "optic":
        return {**exporter, "device": text("eth", place % per)}
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


def _per_host(fleet: Fleet, of: Of) -> int:
    """Entities of a class on each host; 0: they are not on hosts."""
    return {"gpu": fleet.gpus_per_host, "host": 1, "swport": 0}.get(of, fleet.rails)


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


# What says that a link has no carrier.
_STATES = tuple(
    metric_of(name, of)
    for of, name in (
        ("port", "node_network_carrier"), ("port", "node_network_up"), ("swport", "node_network_up"),
        ("swport", "ifOperStatus"),
    )
)  # fmt: skip
assert all(metric_of(each.metric, each.of).kind == "counter" for effect in EFFECTS.values() for each in effect.counters)
assert all(metric_of(each.metric, each.of).kind == "gauge" for effect in EFFECTS.values() for each in effect.holds)
