"""Counters of hardware that namespaces do not have, played into what a node of the lab tells.

Faults marked *replay* say how fast a counter of an entity grows, or what a gauge shows meanwhile; the lab writes that
to `<state>/{hosts,switches}/<node>/overlay.json`, and whoever tells something of that node adds it to what it really
reads: trees of files, sFlow counter samples, exporter pages.

    {"counters": {"port:h3/eth0": {"tx_prio3_pause": {"base": 120.0, "per_s": 3000.0, "since_ns": 81...}}},
     "gauges":   {"port:h3/eth0": {"transceiver_laser_rx_power_dbm": {"to": -11.0, "over_s": 20.0, "since_ns": 81...}}}}

A value is arithmetic over the file and the time, with CLOCK_MONOTONIC, which all processes share: so every page shows
the same number at the same moment, nobody keeps a state, and a process that starts anew goes on where it was. Counters
never go back: when a fault ends, its share stays in `base`. Pure but for `OverlayFile`, `replan` and `bump`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leadline.lab.telemetry.rtnetlink import Counters
from leadline.model.errors import DataError, UsageError
from leadline.model.ids import kind_of

FILE = "overlay.json"

# Added to what the kernel counts of an interface, so wherever that is told: trees, pages, sFlow.
LINK = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
# Driver statistics of a port, `node_ethtool_<name>` on a page (mlx5: .../mellanox/mlx5/counters.rst); a NIC has more.
ETHTOOL = (
    "rx_prio3_pause", "tx_prio3_pause", "rx_prio3_pause_duration", "tx_prio3_pause_duration", "rx_prio0_discards",
    "rx_discards_phy", "tx_discards_phy", "rx_corrected_bits_phy", "rx_pcs_symbol_err_phy", "rx_symbol_err_phy",
)  # fmt: skip
ETHTOOL_NIC = (*ETHTOOL, "tx_pause_storm_warning_events", "outbound_pci_stalled_wr_events")
# Files of an RDMA port, `counters/` and `hw_counters/` of a host's backend NIC.
RDMA = ("symbol_error", "link_error_recovery")
RDMA_HW = (
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "roce_adp_retrans", "roce_adp_retrans_to",
    "req_transport_retries_exceeded", "np_cnp_sent", "rp_cnp_handled",
)  # fmt: skip
# Of the Ethernet record of an sFlow counter sample, for ports of switches.
ETHERNET = ("dot3StatsFCSErrors", "dot3StatsInternalMacReceiveErrors", "dot3StatsSymbolErrors")
# Fields of a GPU's page; names, types and help as in dcgm-exporter's list and DCGM's field identifiers.
DCGM = (
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
)  # fmt: skip
COUNTERS = frozenset((*LINK, *ETHTOOL_NIC, *RDMA, *RDMA_HW, *ETHERNET, *DCGM))
# Gauges, and what they show while nothing is wrong.
RX_POWER, PCI_WIDTH, PCI_SPEED = "transceiver_laser_rx_power_dbm", "current_link_width", "current_link_gts"
REMAP_FAILURE, REMAP_PENDING = "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_PENDING"
HEALTHY: Mapping[str, float] = {
    RX_POWER: -1.5,  # dBm, within what 100GBASE-LR4 and FR4 modules receive
    PCI_WIDTH: 16.0,  # lanes
    PCI_SPEED: 16.0,  # GT/s, PCIe 4.0
    REMAP_FAILURE: 0.0,
    REMAP_PENDING: 0.0,
}


@dataclass(frozen=True, slots=True)
class Growth:
    """A counter's share: `base` at `since_ns`, then `per_s` more each second."""

    base: float
    per_s: float
    since_ns: int

    def at(self, now_ns: int) -> float:
        """Its share at that time; time before `since_ns` adds nothing."""
        return self.base + self.per_s * max(0, now_ns - self.since_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Slope:
    """A gauge that goes from its healthy value to `to` within `over_s`, and stays there."""

    to: float
    over_s: float
    since_ns: int

    def at(self, healthy: float, now_ns: int) -> float:
        """Its value at that time."""
        passed_s = max(0, now_ns - self.since_ns) / 1e9
        share = 1.0 if passed_s >= self.over_s else passed_s / self.over_s
        return healthy + (self.to - healthy) * share


@dataclass(frozen=True, slots=True)
class Claim:
    """What one fault wants of one node: growth per second of counters and slopes of gauges, by entity and name."""

    per_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    gauges: Mapping[str, Mapping[str, Slope]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Errors: UsageError for a name that nothing would show, or a counter that goes back."""
        for name, per_s in _pairs(self.per_s):
            if name not in COUNTERS or per_s < 0:
                raise UsageError(
                    f"a played counter is one of {', '.join(sorted(COUNTERS))} and grows, got {name} {per_s}"
                )
        for name, _ in _pairs(self.gauges):
            if name not in HEALTHY:
                raise UsageError(f"a played gauge is one of {', '.join(HEALTHY)}, got {name}")


def together(claims: Sequence[Claim]) -> Claim:
    """Several claims at once: counters grow by all of them, a gauge shows what is farthest from healthy."""
    per_s: dict[str, dict[str, float]] = {}
    gauges: dict[str, dict[str, Slope]] = {}
    for claim in claims:
        for entity, values in claim.per_s.items():
            sums = per_s.setdefault(entity, {})
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + value
        for entity, slopes in claim.gauges.items():
            worst = gauges.setdefault(entity, {})
            for name, slope in slopes.items():
                if name not in worst or abs(slope.to - HEALTHY[name]) > abs(worst[name].to - HEALTHY[name]):
                    worst[name] = slope
    return Claim(per_s, gauges)


@dataclass(frozen=True, slots=True)
class Overlay:
    """What is played on one node, by entity and name."""

    counters: Mapping[str, Mapping[str, Growth]] = field(default_factory=dict)
    gauges: Mapping[str, Mapping[str, Slope]] = field(default_factory=dict)

    def counter(self, entity: str, name: str, now_ns: int) -> int:
        """What is to be added to a counter at that time; 0 for one that nothing was played into."""
        growth = self.counters.get(entity, {}).get(name)
        return int(growth.at(now_ns)) if growth else 0

    def some(self, entity: str, names: Iterable[str], now_ns: int) -> dict[str, int]:
        """Several counters of an entity."""
        return {name: self.counter(entity, name, now_ns) for name in names}

    def gauge(self, entity: str, name: str, now_ns: int) -> float:
        """A gauge at that time; its healthy value if nothing is played."""
        slope = self.gauges.get(entity, {}).get(name)
        return slope.at(HEALTHY[name], now_ns) if slope else HEALTHY[name]

    def link(self, entity: str, link: Counters, now_ns: int) -> Counters:
        """An interface's counters with what is played."""
        if entity not in self.counters:
            return link
        return replace(link, **{name: getattr(link, name) + self.counter(entity, name, now_ns) for name in LINK})

    def claimed(self, claim: Claim | None, now_ns: int) -> Overlay:
        """The overlay from now on: counters keep what they have and grow as claimed, gauges are the claimed ones."""
        claim = claim or Claim()
        counters: dict[str, dict[str, Growth]] = {}
        for entity in {**self.counters, **claim.per_s}:
            before, wanted = self.counters.get(entity, {}), claim.per_s.get(entity, {})
            counters[entity] = {
                name: Growth(before[name].at(now_ns) if name in before else 0.0, wanted.get(name, 0.0), now_ns)
                for name in {**before, **wanted}
            }
        return Overlay(counters, claim.gauges)

    def bumped(self, entity: str, name: str, amount: float, now_ns: int) -> Overlay:
        """With a counter that jumped by `amount`."""
        before = self.counters.get(entity, {}).get(name, Growth(0.0, 0.0, now_ns))
        after = replace(before, base=before.at(now_ns) + amount, since_ns=now_ns)
        return replace(self, counters={**self.counters, entity: {**self.counters.get(entity, {}), name: after}})

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {
            "counters": {
                entity: {n: {"base": g.base, "per_s": g.per_s, "since_ns": g.since_ns} for n, g in values.items()}
                for entity, values in self.counters.items()
            },
            "gauges": {
                entity: {n: {"to": s.to, "over_s": s.over_s, "since_ns": s.since_ns} for n, s in values.items()}
                for entity, values in self.gauges.items()
            },
        }


def overlay_from(found: object, where: str) -> Overlay:
    """The overlay of a parsed file. Errors: DataError."""
    try:
        if not isinstance(found, Mapping):
            raise TypeError(type(found).__name__)
        counters = {
            str(entity): {
                str(name): Growth(float(v["base"]), float(v["per_s"]), int(v["since_ns"])) for name, v in of.items()
            }
            for entity, of in found["counters"].items()
        }
        gauges = {
            str(entity): {
                str(name): Slope(float(v["to"]), float(v["over_s"]), int(v["since_ns"])) for name, v in of.items()
            }
            for entity, of in found["gauges"].items()
        }
        Claim({e: {n: g.per_s for n, g in of.items()} for e, of in counters.items()}, gauges)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, UsageError) as error:
        raise DataError(where, "an overlay: counters and gauges by entity and name", repr(error)) from error
    return Overlay(counters, gauges)


def port_metrics(overlay: Overlay, entity: str, now_ns: int) -> dict[str, float]:
    """What a page shows of a port that only a replay has: driver statistics, optical power."""
    names = ETHTOOL_NIC if kind_of(entity) == "port" else ETHTOOL
    shown: dict[str, float] = {f"node_ethtool_{name}": n for name, n in overlay.some(entity, names, now_ns).items()}
    return {**shown, RX_POWER: round(overlay.gauge(entity, RX_POWER, now_ns), 2)}


def card_metrics(overlay: Overlay, entity: str, now_ns: int) -> dict[str, float]:
    """What a host's page shows of the card that a port is on: its PCIe link."""
    return {
        "node_pcidevice_current_link_width": round(overlay.gauge(entity, PCI_WIDTH, now_ns)),
        "node_pcidevice_max_link_width": HEALTHY[PCI_WIDTH],
        "node_pcidevice_current_link_transfers_per_second": overlay.gauge(entity, PCI_SPEED, now_ns) * 1e9,
    }


def gpu_metrics(overlay: Overlay, entity: str, now_ns: int) -> dict[str, float]:
    """What a host's GPU page shows of a GPU that only a replay has."""
    gauges = {name: round(overlay.gauge(entity, name, now_ns)) for name in (REMAP_FAILURE, REMAP_PENDING)}
    return {**overlay.some(entity, DCGM, now_ns), **gauges}


class OverlayFile:
    """The overlay of one node as its file says now. What cannot be understood is told once, and the last one holds."""

    def __init__(self, directory: Path) -> None:
        """`directory`: of the node, in the lab's state."""
        self.path = directory / FILE
        self._seen = (0, 0)
        self._overlay = Overlay()

    def read(self) -> Overlay:
        """Costs one `stat` while the file stays the same."""
        try:
            status = os.stat(self.path)
            if (status.st_mtime_ns, status.st_ino) != self._seen:
                self._seen = (status.st_mtime_ns, status.st_ino)
                self._overlay = overlay_from(json.loads(self.path.read_text()), str(self.path))
        except FileNotFoundError:
            self._overlay = Overlay()
        except (OSError, ValueError, DataError) as error:
            print(f"{self.path}: not used: {error}", file=sys.stderr, flush=True)
        return self._overlay


_writing = threading.Lock()  # a fault's own thread may let a counter jump while another one starts


def replan(directory: Path, claim: Claim | None, now_ns: int | None = None) -> None:
    """Let a node's counters and gauges follow `claim` from now on. Errors: OSError, DataError."""
    with _writing:
        at_ns = time.monotonic_ns() if now_ns is None else now_ns
        _write(directory, OverlayFile(directory).read().claimed(claim, at_ns))


def bump(directory: Path, entity: str, name: str, amount: float = 1.0) -> None:
    """Let a counter jump. Errors: OSError, UsageError for an unknown name."""
    Claim({entity: {name: amount}})
    with _writing:
        _write(directory, OverlayFile(directory).read().bumped(entity, name, amount, time.monotonic_ns()))


def _write(directory: Path, overlay: Overlay) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f".{FILE}.part"
    partial.write_text(json.dumps(overlay.as_json()))
    partial.replace(directory / FILE)


def _pairs(by_entity: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Any]]:
    return [pair for values in by_entity.values() for pair in values.items()]
