# ruff: noqa: E501 (a flat table reads better with one row per line)
"""What every fault and every harmless thing of the lab does to a fleet: to steps, links and telemetry, as data.

The names are those of `lab.faults` and `lab.harmless`; layer and class are theirs. A triple is (small, medium, large).
What the lab really breaks in a kernel is here a factor, a rate or a row: `seen_in` says "simulated".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leadline.lab.truth import MAGNITUDES, FaultClass, Layer, Magnitude

Triple = tuple[float, float, float]
# What the fault befalls; how it is chosen, see `targets`.
Scope = Literal["rank", "stage", "link", "uplink", "spine", "leaf", "job", "storage", "exporter", "machine", "none"]
# How it shows in telemetry that something is told wrongly or not at all.
Telemetry = Literal["", "silent", "no-labels", "frozen", "duplicate", "no-flows", "restart", "version"]


@dataclass(frozen=True, slots=True)
class Told:
    """An event while the fault lasts: at its onset, its end, or every so many seconds."""

    kind: str
    severity: str
    entity: Literal["host", "gpu", "port", "spare", "rank", "its-rank", "job"]
    message: str
    source: str = "kernel-log"
    code: str = ""
    when: Literal["onset", "end", "every"] = "onset"
    every_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Grows:
    """A counter that grows by so much a second at what is befallen, and stays where it was when the fault ends."""

    metric: str
    per_s: Triple
    once: bool = False  # for each GPU or port that is befallen, at the onset; not by the second
    beside: bool = False  # not at what is befallen, but at the neighbour that befalls it
    of: str = ""  # the class of entities, where several have a metric of that name; empty: the first
    behind: bool = False  # not at an uplink, but at the NICs whose packets cross it


@dataclass(frozen=True, slots=True)
class Holds:
    """A gauge that stands at a value while the fault lasts."""

    metric: str
    to: Triple
    of: str = ""  # as of `Grows`


@dataclass(frozen=True, slots=True)
class Effect:
    """One fault. Neutral values do nothing."""

    name: str
    layer: Layer
    fault_class: FaultClass
    scope: Scope
    parts: tuple[int, int, int] = (1, 1, 1)
    compute: Triple = (1.0, 1.0, 1.0)  # the befallen ranks compute so much longer
    data_s: Triple = (0.0, 0.0, 0.0)  # and wait so much longer for input
    capacity: Triple = (1.0, 1.0, 1.0)  # share of the rate that is left to the befallen links
    loss: Triple = (0.0, 0.0, 0.0)  # share of packets lost there
    down_s: Triple = (0.0, 0.0, 0.0)  # of every period the link is down so long; < 0: for good
    period_s: float = 5.0
    stall_ms: Triple = (0.0, 0.0, 0.0)  # programs of the befallen hosts wait so long for a processor now and then
    pause_s: Triple = (0.0, 0.0, 0.0)  # one stall of the whole job at the onset
    write_s: Triple = (0.0, 0.0, 0.0)  # every step waits so long for storage
    dies: str = ""  # how the job's befallen ranks end: signal/SIGKILL, exit/1
    hangs: bool = False  # the befallen ranks arrive no more, the job waits until the fault ends
    repair_s: float = 0.0  # the host is out for so long after the job has died of it
    beside: bool = False  # by another host of the machine: that one takes, all others of it are befallen
    lasts_s: float = 60.0  # where nothing else is said
    clock_step_ns: Triple = (0.0, 0.0, 0.0)
    clock_ppb: Triple = (0.0, 0.0, 0.0)
    telemetry: Telemetry = ""
    stands_still: bool = False  # the loss
    clock_mhz: Triple = (1.0, 1.0, 1.0)  # share of the SM clock that is left
    events: tuple[Told, ...] = ()
    counters: tuple[Grows, ...] = ()
    harmless: bool = False
    holds: tuple[Holds, ...] = ()
    # Whose traffic queues at the ports of the links: what the jobs send themselves, or what others send.
    queues: Literal["", "own", "others"] = ""
    drops_s: Triple = (0.0, 0.0, 0.0)  # frames a second that such a port drops while it is busy
    tokens: Triple = (1.0, 1.0, 1.0)  # the befallen ranks tell so many times the tokens
    diverges: bool = False  # the befallen ranks enter another collective than the others

    def slows(self, level: int) -> bool:
        """Whether steps of who uses what is befallen take longer."""
        factors, waits = (
            (self.compute, self.capacity),
            (self.data_s, self.loss, self.down_s, self.pause_s, self.write_s),
        )
        return self.hangs or any(each[level] != 1 for each in factors) or any(each[level] != 0 for each in waits)


def level(magnitude: Magnitude) -> int:
    """Place in the triples."""
    return MAGNITUDES.index(magnitude)


def effect_of(name: str) -> Effect:
    """Errors: KeyError for a name that is not in `EFFECTS`."""
    return EFFECTS[name]


_DOWN = Told("link-down", "error", "port", "{device} is down (carrier changes: {count})", "agent/link")
_UP = Told("link-up", "info", "port", "{device} is up (carrier changes: {count})", "agent/link", when="end")
_CARRIER = "node_network_carrier_changes_total"


def _port_down(per_s: float = 0.0) -> tuple[Grows, ...]:
    """What the ends at switches count of a link that goes down so often a second; 0: once."""
    changes, downs = (2 * per_s or 1.0, per_s or 1.0)
    return (
        Grows(_CARRIER, (changes,) * 3, once=not per_s, of="swport"),
        Grows("node_network_carrier_down_changes_total", (downs,) * 3, once=not per_s),
    )


def _retried(small: float, medium: float, large: float) -> tuple[Grows, ...]:
    """What the NICs of a link count whose packets are lost: the sender goes back, and learns to (adaptive)."""
    return (
        Grows("node_infiniband_packet_seq_err_total", (small, medium, large)),
        Grows("node_infiniband_roce_adp_retrans_total", (small / 5, medium / 5, large / 5)),
    )


_PCIE_ERROR = "mlx5_core {pci}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"


def _xid(code: int, words: str, when: Literal["onset", "every"] = "onset") -> Told:
    return Told("xid", "error", "gpu", f"NVRM: Xid (PCI:{{pci}}): {code}, pid={{pid}}, name=python, {words}",
                code=str(code), when=when, every_s=20.0)  # fmt: skip


_FAULTS: tuple[Effect, ...] = (
    # -- application and host -------------------------------------------------------------------------------------
    Effect("slow-worker", "host", "gray", "rank", compute=(1.15, 1.6, 3.0), counters=(
        Grows("container_cpu_cfs_throttled_seconds_total", (0.1, 0.4, 0.7)),
        Grows("container_cpu_cfs_periods_total", (10.0, 10.0, 10.0)), Grows("container_cpu_cfs_throttled_periods_total", (2.0, 6.0, 9.0)))),
    Effect("slow-loader", "application", "gray", "rank", data_s=(0.3, 1.0, 3.0)),
    Effect("oom-kill", "host", "transient", "rank", parts=(1, 1, 2), dies="signal/SIGKILL", events=(
        Told("oom-kill", "error", "host", "Memory cgroup out of memory: Killed process {pid} (python) total-vm:98000000kB, anon-rss:64000000kB"),
    ), counters=(Grows("container_oom_events_total", (1.0, 1.0, 1.0), once=True),)),
    Effect("sigstop", "application", "transient", "rank", parts=(1, 1, 3), hangs=True, events=(
        Told("process-stopped", "error", "its-rank", "{rank} is stopped", "agent/ranks"),
        Told("process-continued", "info", "its-rank", "{rank} is running again", "agent/ranks", when="end"))),
    Effect("sigsegv", "application", "transient", "rank", parts=(1, 2, 4), dies="signal/SIGSEGV"),
    Effect("divergence", "application", "persistent", "rank", parts=(1, 1, 2), hangs=True, diverges=True),
    Effect("memory-pressure", "host", "gray", "rank", compute=(1.05, 1.2, 1.7), stall_ms=(0, 5, 20), counters=(
        Grows("node_pressure_memory_stalled_seconds_total", (0.05, 0.2, 0.5)),
        Grows("node_pressure_memory_waiting_seconds_total", (0.1, 0.3, 0.6)), Grows("node_disk_read_bytes_total", (1e7, 5e7, 2e8)))),
    Effect("imbalanced-stage", "application", "gray", "stage", compute=(1.15, 1.4, 2.0)),
    Effect("imbalanced-sequences", "application", "gray", "rank", parts=(1, 2, 4), compute=(1.2, 1.5, 2.0), tokens=(1.2, 1.5, 2.0)),
    Effect("loop-bug", "application", "persistent", "job", stands_still=True),
    Effect("slow-operator", "application", "persistent", "job", compute=(1.05, 1.15, 1.4), events=(
        Told("software-version", "info", "rank", "layer-norm 2.1.0", "torch-hook"),)),
    Effect("colocated-neighbour", "host", "gray", "machine", compute=(1.05, 1.2, 1.6), capacity=(0.9, 0.6, 0.4),
           stall_ms=(2, 10, 40), beside=True, queues="others", counters=(
               *(Grows(f"node_network_{way}_bytes_total", (2e9, 8e9, 12e9), beside=True) for way in ("transmit", "receive")),
               Grows("node_cpu_seconds_total", (20.0, 60.0, 120.0), beside=True),
               Grows("node_pressure_cpu_waiting_seconds_total", (0.05, 0.2, 0.5)))),
    Effect("slow-storage", "storage", "gray", "storage", data_s=(0.1, 0.5, 2.0)),
    Effect("checkpoint-storm", "storage", "gray", "job", write_s=(0.2, 1.0, 4.0)),
    # -- GPU ------------------------------------------------------------------------------------------------------
    Effect("gpu-throttle", "gpu", "gray", "rank", compute=(1.2, 1.7, 2.8), clock_mhz=(0.8, 0.55, 0.3), counters=(
        Grows("DCGM_FI_DEV_THERMAL_VIOLATION", (2e8, 5e8, 8e8)),), holds=(
        Holds("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", (0x20, 0x20, 0x60)),)),
    Effect("xid", "gpu", "persistent", "rank", parts=(1, 1, 2), dies="signal/SIGABRT", repair_s=1800, events=(
        _xid(79, "GPU has fallen off the bus."),)),
    Effect("gpu-lost", "gpu", "persistent", "rank", parts=(1, 1, 2), dies="signal/SIGABRT", repair_s=7200, telemetry="silent", events=(
        _xid(79, "GPU has fallen off the bus."),
        Told("gpu-lost", "fatal", "gpu", "NVRM: GPU {pci}.0: GPU has fallen off the bus."))),
    Effect("row-remaps", "gpu", "gray", "rank", events=(
        _xid(63, "Row Remapper: New row (0x0000000000000b4a) marked for remapping, reset gpu to activate."),),
        counters=(Grows("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", (0.02, 0.1, 0.5)), Grows("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", (1.0, 3.0, 10.0))),
        holds=(Holds("DCGM_FI_DEV_ROW_REMAP_PENDING", (1.0, 1.0, 1.0)),)),
    Effect("nvlink-errors", "gpu", "gray", "rank", compute=(1.0, 1.1, 1.3), events=(
        _xid(74, "NVLink: fatal error detected on link 3(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", "every"),),
        counters=(Grows("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", (1.0, 50.0, 2000.0)),
                  Grows("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", (0.1, 8.0, 300.0)),
                  Grows("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", (0.8, 45.0, 1500.0)),
                  Grows("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", (0.05, 0.05, 0.05)))),
    Effect("pcie-width", "host", "gray", "link", capacity=(0.5, 0.25, 0.06), queues="own", drops_s=(0.0, 0.0, 1.0), events=(
        Told("pcie-aer", "warning", "host", _PCIE_ERROR, code="corrected"),
        Told("pcie-aer", "warning", "host", _PCIE_ERROR, code="corrected", when="every", every_s=20.0),
        Told("pcie-width", "warning", "host", "mlx5_core {pci}: available PCIe bandwidth, limited by a narrower link")),
        counters=(Grows("node_ethtool_outbound_pci_stalled_wr_events", (0.5, 0.8, 0.95)),),
        holds=(Holds("node_pcidevice_current_link_width", (8.0, 4.0, 1.0)),)),
    # -- network --------------------------------------------------------------------------------------------------
    Effect("lossy-link", "network", "gray", "link", loss=(0.01, 0.05, 0.2), counters=(
        Grows("node_infiniband_out_of_sequence_total", (50.0, 300.0, 2000.0)), *_retried(50.0, 300.0, 2000.0))),
    Effect("slow-link", "network", "gray", "link", capacity=(0.5, 0.2, 0.05), queues="own", drops_s=(0.5, 2.5, 20.0)),
    Effect("flapping-link", "network", "transient", "link", down_s=(0.5, 1.0, 3.0), events=(
        Told("link-down", "error", "port", "{device} is down (carrier changes: {count})", "agent/link", when="every", every_s=5.0),
        Told("link-up", "info", "port", "{device} is up (carrier changes: {count})", "agent/link", when="every", every_s=5.0)),
        counters=(Grows(_CARRIER, (0.4, 0.4, 0.4)), Grows("node_infiniband_link_downed_total", (0.2, 0.2, 0.2)), *_port_down(0.2))),
    Effect("dead-nic", "network", "persistent", "link", parts=(1, 1, 2), dies="exit/1", repair_s=3600, events=(_DOWN, _UP),
           counters=(Grows(_CARRIER, (1.0, 1.0, 1.0), once=True), Grows("node_infiniband_link_downed_total", (1.0, 1.0, 1.0), once=True),
                     *_port_down())),
    Effect("blackhole", "network", "persistent", "uplink", loss=(0.02, 0.1, 0.3), counters=(
        Grows("node_infiniband_packet_seq_err_total", (5.0, 20.0, 50.0), behind=True),
        Grows("node_infiniband_roce_adp_retrans_total", (1.0, 4.0, 10.0), behind=True),
        Grows("node_infiniband_local_ack_timeout_err_total", (0.1, 0.5, 2.0), behind=True))),
    Effect("ecmp-collision", "network", "transient", "uplink", capacity=(0.6, 0.35, 0.15), queues="others", drops_s=(0.5, 2.5, 20.0)),
    Effect("neighbour-congestion", "network", "transient", "link", capacity=(0.7, 0.4, 0.15), queues="others", drops_s=(0.5, 2.5, 20.0)),
    Effect("dead-spine", "network", "persistent", "spine", parts=(1, 1, 2), down_s=(-1, -1, -1), pause_s=(1, 3, 5), counters=(
        *_port_down(),)),
    Effect("incast", "network", "transient", "link", capacity=(0.6, 0.3, 0.1), queues="others", drops_s=(20.0, 200.0, 2000.0)),
    Effect("wrong-mtu", "network", "gray", "link", capacity=(0.7, 0.5, 0.02), counters=(
        Grows("node_network_receive_drop_total", (0.0, 20.0, 200.0), of="swport"), Grows("dot3StatsFrameTooLongs", (0.0, 20.0, 200.0)),
        Grows("node_network_receive_drop_total", (0.0, 0.0, 200.0), of="port"))),
    Effect("pfc-storm", "network", "gray", "link", capacity=(0.5, 0.2, 0.02), counters=(
        Grows("node_ethtool_tx_prio3_pause", (1500.0, 2400.0, 2980.0), of="port"), Grows("node_ethtool_tx_prio3_pause_duration", (5e5, 8e5, 1e6), of="port"),
        Grows("node_ethtool_tx_pause_storm_warning_events", (0.0, 0.2, 0.2)), Grows("node_ethtool_rx_discards_phy", (5.0, 20.0, 40.0), of="port"),
        Grows("node_ethtool_rx_prio3_pause", (1500.0, 2400.0, 2980.0), of="swport"), Grows("node_ethtool_rx_prio3_pause_duration", (5e5, 8e5, 1e6), of="swport"),
        Grows("node_ethtool_tx_discards_phy", (15.0, 60.0, 120.0), of="swport"), Grows("node_network_transmit_drop_total", (15.0, 60.0, 120.0), of="swport"))),
    Effect("marginal-optic", "network", "gray", "link", loss=(0.0, 1e-4, 3e-3), counters=(
        Grows("node_ethtool_rx_corrected_bits_phy", (3e4, 1e6, 1e7), of="port"), Grows("node_ethtool_rx_corrected_bits_phy", (3e4, 1e6, 1e7), of="swport"),
        Grows("node_infiniband_symbol_error_total", (0.0, 1.0, 25.0)), Grows("node_ethtool_rx_symbol_err_phy", (0.0, 1.0, 25.0), of="port"),
        Grows("node_ethtool_rx_pcs_symbol_err_phy", (0.0, 1.6, 40.0), of="port"), Grows("node_network_receive_errs_total", (0.0, 0.5, 12.0), of="port"),
        Grows("node_infiniband_link_error_recovery_total", (0.0, 0.0, 0.1)),
        Grows("dot3StatsSymbolErrors", (0.0, 1.0, 25.0)), Grows("dot3StatsFCSErrors", (0.0, 0.5, 12.0)), Grows("ifInErrors", (0.0, 0.5, 12.0)),
        *_retried(0.0, 1.0, 30.0)), holds=(Holds("transceiver_laser_rx_power_dbm", (-7.0, -11.0, -14.0)),)),
    Effect("wrong-gid", "network", "persistent", "link", loss=(0.01, 0.05, 0.2), counters=(
        Grows("node_infiniband_local_ack_timeout_err_total", (0.4, 4.0, 20.0)), Grows("node_infiniband_roce_adp_retrans_total", (0.4, 4.0, 20.0)),
        Grows("node_infiniband_roce_adp_retrans_to_total", (0.2, 2.0, 10.0)),
        Grows("node_infiniband_req_transport_retries_exceeded_total", (0.05, 0.5, 2.5)))),
    Effect("wrong-dscp", "network", "gray", "link", capacity=(0.9, 0.7, 0.4), counters=(
        Grows("node_infiniband_out_of_sequence_total", (1.0, 20.0, 200.0)), *_retried(1.0, 20.0, 200.0),
        Grows("node_ethtool_rx_prio0_discards", (1.5, 15.0, 150.0), of="swport"), Grows("node_ethtool_rx_discards_phy", (1.5, 15.0, 150.0), of="swport"))),
    # -- clocks and telemetry -------------------------------------------------------------------------------------
    Effect("clock-step", "host", "persistent", "machine", clock_step_ns=(5e6, 1e8, 5e9)),
    Effect("clock-drift", "host", "gray", "machine", clock_ppb=(2e4, 2e5, 2e6)),
    Effect("exporter-hangs", "telemetry", "transient", "exporter", parts=(1, 1, 4), telemetry="silent"),
    Effect("duplicate-uuid", "telemetry", "persistent", "exporter", parts=(1, 1, 2), telemetry="duplicate"),
    Effect("switch-stops-sampling", "telemetry", "persistent", "leaf", parts=(1, 1, 4), telemetry="no-flows"),
    Effect("labels-missing", "telemetry", "persistent", "exporter", parts=(1, 2, 8), telemetry="no-labels"),
    Effect("stale-source", "telemetry", "gray", "exporter", parts=(1, 1, 4), telemetry="frozen"),
)  # fmt: skip


def _harmless(name: str, layer: Layer, scope: Scope, **more: object) -> Effect:
    return Effect(name, layer, "transient", scope, harmless=True, **more)  # type: ignore[arg-type]


_HARMLESS: tuple[Effect, ...] = (
    _harmless("recompilation", "application", "job", pause_s=(2, 8, 30), lasts_s=30, events=(
        Told("recompilation", "info", "rank", "graph break: a new shape", "torch-hook"),)),
    _harmless("variable-sequences", "application", "job", compute=(1.05, 1.1, 1.2), lasts_s=120),
    _harmless("reinitialisation", "application", "job", pause_s=(1, 4, 15), lasts_s=15, events=(
        Told("communicator-init", "info", "rank", "process group made anew", "torch-hook"),)),
    _harmless("preemption", "application", "job", dies="signal/SIGTERM", lasts_s=60),
    _harmless("maintenance", "host", "machine", lasts_s=300, telemetry="silent", events=(
        Told("maintenance", "info", "host", "drained for maintenance", "scheduler"),)),
    _harmless("rolling-upgrade", "telemetry", "exporter", parts=(4, 16, 64), lasts_s=60, telemetry="restart", events=(
        Told("agent-start", "info", "host", "leadline agent 0.1.1", "agent"),)),
    _harmless("log-noise", "host", "exporter", lasts_s=30, events=(
        Told("log", "error", "host", "ACPI Error: No handler for Region [SYSI] (20210730/evregion-130)", when="every"),)),
    _harmless("cron-job", "host", "exporter", lasts_s=60, counters=(
        Grows("node_pressure_memory_stalled_seconds_total", (0.001, 0.005, 0.02)),)),
    _harmless("unused-nic-flaps", "network", "exporter", lasts_s=60, events=(
        Told("link-down", "error", "spare", "eth15 is down (carrier changes: {count})", "agent/link", when="every"),
        Told("link-up", "info", "spare", "eth15 is up (carrier changes: {count})", "agent/link", when="every"))),
    _harmless("extra-checkpoint", "application", "job", pause_s=(2, 6, 20), lasts_s=20, events=(
        Told("checkpoint", "info", "rank", "asked for by a person", "torch-hook"),)),
    _harmless("exporter-restarts", "telemetry", "exporter", parts=(1, 2, 8), lasts_s=45, telemetry="restart"),
)  # fmt: skip

EFFECTS: dict[str, Effect] = {each.name: each for each in (*_FAULTS, *_HARMLESS)}
