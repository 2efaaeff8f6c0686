"""The metrics of a simulated fleet: the names of the lab's exporters and agents, and what they say of a sound machine.

    FEW    29 names in which most faults show (25 without switch ports): what a fleet of any size tells
    REST   what the same exporters and agents tell beside those, where everything is told

Usual values are those of a steady lab recording (`leadline lab run steady`), scaled to a machine of eight GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from leadline.model.metric_units import unit_of

Kind = Literal["counter", "gauge"]
# What has one stream of a metric each. `pcie`, `optic`: the slot and the transceiver of each NIC.
Of = Literal["gpu", "host", "port", "swport", "pcie", "optic"]
_PACKETS = re.compile(r"node_network_(receive|transmit)_(errs|drop|carrier)_total")
_COUNTED = re.compile(r"node_network_(carrier|up)|node_procs_\w+|node_netstat_Tcp_CurrEstab|if(Oper|Admin)Status")
PORT_BYTES_S, FABRIC_BYTES_S = 50e9, 100e9  # 400 and 800 Gbit/s


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric over all entities of a class; `wide`: only where everything is told."""

    name: str
    of: Of
    kind: Kind
    wide: bool = False
    usual: float = 0.0  # of a sound machine: a gauge's value, a counter's growth a second
    busy: float = 0.0  # so much more where its host computes all the time
    labels: tuple[tuple[str, str], ...] = ()  # beside those of its entity

    @property
    def key(self) -> str:
        """What it is known by here: `swport ifInErrors`."""
        return " ".join((self.of, self.name, *(value for _, value in self.labels)))

    @property
    def exported(self) -> bool:
        """Told by an exporter, not by the agent and not by sFlow."""
        if self.of == "swport":
            return self.name.startswith("node_")
        return self.of in ("gpu", "pcie", "optic") or self.name.startswith("node_ethtool")

    @property
    def source(self) -> str:
        """Way in, as in the lab."""
        return "scrape" if self.exported else {"swport": "sflow"}.get(self.of, "otlp-http")

    @property
    def unit(self) -> str | None:
        """As the lab tells it: agents say of counts that they are counts, and of which things."""
        told = unit_of(self.name)
        if told or self.source == "scrape":
            return told
        if _PACKETS.fullmatch(self.name):
            return "packets"
        is_count = self.kind == "counter" or _COUNTED.fullmatch(self.name)
        return "1" if is_count and (self.source == "otlp-http" or self.kind == "gauge") else None

    @property
    def whole(self) -> bool:
        """Whether it counts things, not seconds."""
        return self.kind == "counter" and not self.name.endswith("seconds_total")


def _all(of: Of, kind: Kind, *names: str, wide: bool = False) -> tuple[Metric, ...]:
    return tuple(Metric(name, of, kind, wide) for name in names)


def _rest(of: Of, kind: Kind, **usual: float | tuple[float, float]) -> tuple[Metric, ...]:
    """Names with what is usual, or (usual, more where its host is busy)."""
    pairs = {name: given if isinstance(given, tuple) else (given, 0.0) for name, given in usual.items()}
    return tuple(Metric(name, of, kind, True, *pair) for name, pair in pairs.items())


def _cpu(**modes: tuple[float, float]) -> tuple[Metric, ...]:
    return tuple(
        Metric("node_cpu_seconds_total", "host", "counter", True, *pair, (("mode", mode),))
        for mode, pair in modes.items()
    )


FEW: tuple[Metric, ...] = (
    *_all(
        "gpu", "gauge", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"),
    *_all("gpu", "counter", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
    *_all("gpu", "gauge", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_XID_ERRORS"),
    *_all("gpu", "counter", "DCGM_FI_DEV_THERMAL_VIOLATION"),
    *_all("gpu", "gauge", "DCGM_FI_DEV_FB_USED"),
    *_all(
        "gpu", "counter", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    *_all(
        "port", "counter", "node_network_transmit_bytes_total", "node_network_receive_bytes_total",
        "node_network_transmit_packets_total", "node_network_receive_packets_total",
        "node_network_carrier_changes_total", "node_infiniband_out_of_sequence_total",
        "node_infiniband_local_ack_timeout_err_total", "node_infiniband_symbol_error_total",
        "node_ethtool_rx_prio3_pause", "node_ethtool_outbound_pci_stalled_wr_events",
    ),
    *_all("host", "gauge", "node_load1", "node_memory_MemAvailable_bytes"),
    *_all(
        "host", "counter", "node_pressure_memory_stalled_seconds_total", "container_cpu_cfs_throttled_seconds_total",
        "container_oom_events_total",
    ),
    *_all("swport", "counter", "ifInOctets", "ifOutOctets", "ifInErrors", "ifOutDiscards", wide=True),
)  # fmt: skip

REST: tuple[Metric, ...] = (
    *_rest(
        "gpu", "gauge", DCGM_FI_DEV_MEM_CLOCK=2619.0, DCGM_FI_DEV_CLOCKS_EVENT_REASONS=0.0, DCGM_FI_DEV_FB_FREE=0.0,
        DCGM_FI_DEV_ROW_REMAP_PENDING=0.0, DCGM_FI_DEV_ROW_REMAP_FAILURE=0.0, DCGM_FI_PROF_GR_ENGINE_ACTIVE=0.0,
    ),
    *_rest(
        "gpu", "counter", DCGM_FI_DEV_POWER_VIOLATION=0.0, DCGM_FI_DEV_ECC_SBE_VOL_TOTAL=0.0,
        DCGM_FI_DEV_ECC_DBE_VOL_TOTAL=0.0, DCGM_FI_DEV_PCIE_REPLAY_COUNTER=0.0,
        DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS=0.0, DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL=0.0,
        DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL=0.0, DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL=0.0,
    ),
    *_rest("port", "gauge", node_network_carrier=1.0, node_network_up=1.0, node_network_speed_bytes=PORT_BYTES_S),
    *_rest(
        "port", "counter", node_network_receive_errs_total=0.0, node_network_transmit_errs_total=0.0,
        node_network_receive_drop_total=0.0, node_network_transmit_drop_total=0.0,
        node_network_transmit_carrier_total=0.0, node_infiniband_link_downed_total=0.0,
        node_infiniband_link_error_recovery_total=0.0, node_infiniband_packet_seq_err_total=0.0,
        node_infiniband_port_rcv_errors_total=0.0, node_infiniband_port_xmit_discards_total=0.0,
        node_infiniband_req_transport_retries_exceeded_total=0.0,
        node_infiniband_roce_adp_retrans_total=(0.0, 0.5), node_infiniband_roce_adp_retrans_to_total=0.0,
        node_infiniband_np_cnp_sent_total=(0.0, 20.0), node_infiniband_rp_cnp_handled_total=(0.0, 20.0),
        node_infiniband_port_rcv_data_total=0.0, node_infiniband_port_xmit_data_total=0.0,
        node_infiniband_port_rcv_packets_total=0.0, node_infiniband_port_xmit_packets_total=0.0,
        node_ethtool_rx_corrected_bits_phy=3e3, node_ethtool_rx_discards_phy=0.0,
        node_ethtool_rx_pcs_symbol_err_phy=0.0, node_ethtool_rx_symbol_err_phy=0.0, node_ethtool_rx_prio0_discards=0.0,
        node_ethtool_rx_prio3_pause_duration=0.0, node_ethtool_tx_discards_phy=0.0, node_ethtool_tx_prio3_pause=0.0,
        node_ethtool_tx_prio3_pause_duration=0.0, node_ethtool_tx_pause_storm_warning_events=0.0,
    ),
    *_rest("pcie", "gauge", node_pcidevice_current_link_width=16.0, node_pcidevice_max_link_width=16.0),
    *_rest("optic", "gauge", transceiver_laser_rx_power_dbm=-2.5),
    *_cpu(user=(0.3, 12.0), system=(0.2, 3.0), iowait=(0.02, 0.05), idle=(127.4, -15.05), steal=(0.0, 0.02)),
    *_rest(
        "host", "gauge", node_load5=(0.5, 16.0), node_load15=(0.5, 16.0), node_procs_running=(1.0, 16.0),
        node_procs_blocked=0.0, node_memory_MemTotal_bytes=2.0e12, node_memory_MemFree_bytes=(1.7e12, -7e11),
        node_memory_Cached_bytes=(1.5e11, 5e10), node_memory_Buffers_bytes=4e9, node_memory_Dirty_bytes=(3e7, 2e7),
        node_memory_Slab_bytes=(1.5e10, 1e9), node_netstat_Tcp_CurrEstab=(30.0, 60.0),
        container_memory_usage_bytes=(0.0, 6e11),
    ),
    *_rest(
        "host", "counter", node_context_switches_total=(6e3, 9e4), node_pressure_cpu_waiting_seconds_total=(1e-3, 5e-3),
        node_pressure_cpu_stalled_seconds_total=0.0, node_pressure_io_waiting_seconds_total=(1e-4, 5e-3),
        node_pressure_io_stalled_seconds_total=(1e-5, 5e-4), node_pressure_memory_waiting_seconds_total=0.0,
        container_cpu_cfs_periods_total=0.0, container_cpu_cfs_throttled_periods_total=0.0,
        node_disk_read_bytes_total=(3e4, 1e6), node_disk_written_bytes_total=(1e6, 1e6),
        node_disk_io_time_seconds_total=(0.01, 0.02), node_disk_reads_completed_total=(6.0, 20.0),
        node_disk_writes_completed_total=(20.0, 20.0), node_netstat_Tcp_RetransSegs=(0.05, 0.5),
        node_netstat_Tcp_InSegs=(800.0, 900.0), node_netstat_Tcp_OutSegs=(800.0, 900.0),
        node_netstat_Tcp_ActiveOpens=0.18, node_netstat_Tcp_PassiveOpens=0.16,
        node_netstat_TcpExt_TCPLossProbes=(0.1, 0.8), node_netstat_TcpExt_TCPTimeouts=0.0,
        node_netstat_TcpExt_TCPLostRetransmit=0.0, node_netstat_TcpExt_TCPFastRetrans=0.0,
        node_netstat_Udp_InDatagrams=500.0, node_netstat_Udp_OutDatagrams=500.0,
    ),
    *_rest("swport", "gauge", ifOperStatus=1.0, ifAdminStatus=1.0, ifSpeed=0.0),
    *_rest(
        "swport", "counter", ifInDiscards=0.0, ifOutErrors=0.0, ifInUcastPkts=0.0, ifOutUcastPkts=0.0,
        dot3StatsFCSErrors=0.0, dot3StatsSymbolErrors=0.0, dot3StatsFrameTooLongs=0.0,
    ),
    *_rest(
        "swport", "gauge", node_network_up=1.0, node_network_speed_bytes=0.0, node_qdisc_backlog=0.0,
        node_qdisc_current_queue_length=0.0,
    ),
    *_rest(
        "swport", "counter", node_qdisc_drops_total=0.0, node_qdisc_overlimits_total=0.0,
        node_network_carrier_changes_total=0.0, node_network_carrier_down_changes_total=0.0,
        node_network_carrier_up_changes_total=0.0, node_network_receive_bytes_total=0.0,
        node_network_transmit_bytes_total=0.0, node_network_receive_drop_total=0.0,
        node_network_transmit_drop_total=0.0, node_network_receive_errs_total=0.0,
        node_network_transmit_errs_total=0.0, node_ethtool_rx_corrected_bits_phy=3e3,
        node_ethtool_rx_discards_phy=0.0, node_ethtool_rx_prio0_discards=0.0, node_ethtool_rx_prio3_pause=0.0,
        node_ethtool_rx_prio3_pause_duration=0.0, node_ethtool_rx_symbol_err_phy=0.0,
        node_ethtool_rx_pcs_symbol_err_phy=0.0, node_ethtool_tx_discards_phy=0.0, node_ethtool_tx_prio3_pause=0.0,
        node_ethtool_tx_prio3_pause_duration=0.0,
    ),
)  # fmt: skip

BY_KEY = {each.key: each for each in (*FEW, *REST)}
assert len(BY_KEY) == len(FEW) + len(REST), "a metric is told once of an entity"


def metric_of(name: str, of: str) -> Metric:
    """The metric of that name, of the class `of`, or of the first that has it. Errors: KeyError."""
    found = [each for each in BY_KEY.values() if each.name == name and of in ("", each.of)]
    if not found:
        raise KeyError(f"{of} {name}".strip())
    return found[0]


def chosen(everything: bool, rest: bool) -> tuple[Metric, ...]:
    """The metrics that a fleet tells: of switch ports only if everything is told, and then `rest` with them."""
    names = (*FEW, *REST) if everything and rest else FEW
    return tuple(each for each in names if everything or not each.wide)
