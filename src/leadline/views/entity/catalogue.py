"""Which plots a kind of entity has: one table a kind, read top to bottom. A plot names its lines, a line its metrics.

    Plot("Power", "W", (Line("drawn", "DCGM_FI_DEV_POWER_USAGE"), Line("limit", "DCGM_FI_DEV_POWER_MGMT_LIMIT")), DCGM)

Metrics are regular expressions for whole names, dots as underscores (as in `model/names.py`); of several, the first one
that the entity has streams of is taken, and all its streams that fit `where` are one line. What no plot names is drawn
by its own name for the kinds that have no table here, and listed with a link for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MIB = 2.0**20
NS = 1e-9


class Source(StrEnum):
    """What would tell a plot that has nothing; the page says how to add it."""

    DCGM = "dcgm-exporter"
    NODE = "node_exporter or leadline agent"
    RDMA = "leadline agent or node_exporter's infiniband and ethtool collectors"
    SWITCH = "sFlow or an exporter on the switch"
    QUEUE = "node_exporter's qdisc collector on the switch"
    OPTICS = "an exporter of transceivers"
    NFS = "node_exporter's mountstats collector"
    ANY = "an exporter that names it"


HOW: dict[Source, tuple[str, str]] = {
    Source.DCGM: ("docs/how-to/connect-dcgm-exporter.md", "dcgm-exporter -a :9400"),
    Source.NODE: ("docs/how-to/run-the-agent.md", "leadline agent"),
    Source.RDMA: ("docs/how-to/run-the-agent.md", "leadline agent"),
    Source.SWITCH: ("docs/how-to/send-sflow.md", ""),
    Source.QUEUE: ("docs/how-to/connect-prometheus.md", "node_exporter --collector.qdisc"),
    Source.OPTICS: ("docs/how-to/connect-prometheus.md", ""),
    Source.NFS: ("docs/how-to/connect-prometheus.md", "node_exporter --collector.mountstats"),
    Source.ANY: ("docs/how-to/add-a-source.md", ""),
}  # fmt: skip
"""Where it is written how to add a source, and what to start; empty where no one command does it."""


class As(StrEnum):
    """What is drawn of a stream."""

    VALUE = "value"
    RATE = "rate"  # increase per second
    STATE = "state"  # codes or sets of bits: spans with words


class Sum(StrEnum):
    """How several streams of one line become one."""

    ADD = "add"
    LARGEST = "largest"
    LEAST = "least"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: the streams of the first of `metrics` that there are any of, times `scale`.

    `where`: labels, and an expression that the value fits; a stream without the label fits too. `bound`: drawn dashed,
    as a limit, and without peers.
    """

    label: str
    metrics: tuple[str, ...]
    scale: float = 1.0
    where: tuple[tuple[str, str], ...] = ()
    sum: Sum = Sum.ADD
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot. `unit`: as the page formats it: UCUM, `ratio` (0 to 1), `B/s` for bytes (not bits) a second."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    source: Source
    how: As = As.VALUE
    about: str = ""  # what it is, for who meets it for the first time


# Directions of OpenTelemetry's metrics, which have one name for both; streams of node_exporter have no such label.
SENT = (("network_io_direction", "transmit"), ("direction", "transmit"))
RECEIVED = (("network_io_direction", "receive"), ("direction", "receive"))
WRITTEN = (("disk_io_direction", "write"), ("direction", "write"))
BUSY = "(?!idle|iowait|wait|guest).*"  # guest time is in user time, too
READ = (("disk_io_direction", "read"), ("direction", "read"))


def _line(label: str, *metrics: str, **more: object) -> Line:
    return Line(label, metrics, **more)  # type: ignore[arg-type]


GPU = (
    Plot("GPU busy", "%", (
        _line("busy", "DCGM_FI_DEV_GPU_UTIL"),
        _line("busy", "hw_gpu_utilization", scale=100, sum=Sum.LARGEST),
        _line("engines", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", scale=100),
        _line("tensor cores", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", scale=100),
    ), Source.DCGM, about="share of time in which a kernel ran; a kernel that waits for another rank counts as busy"),
    Plot("SM clock", "MHz", (
        _line("clock", "DCGM_FI_DEV_SM_CLOCK"),
        _line("limit", "DCGM_FI_DEV_(?:MAX_SM_CLOCK|APP_SM_CLOCK)", sum=Sum.LEAST, bound=True),
    ), Source.DCGM),
    Plot("Clocks held down by", "state", (
        _line("reasons", "DCGM_FI_DEV_CLOCKS?_(?:EVENT|THROTTLE)_REASONS"),
    ), Source.DCGM, As.STATE),
    Plot("Power", "W", (
        _line("drawn", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT", "hw_power"),
        _line("limit", "DCGM_FI_DEV_(?:ENFORCED_POWER_LIMIT|POWER_MGMT_LIMIT)", sum=Sum.LEAST, bound=True),
    ), Source.DCGM),
    Plot("Temperature", "Cel", (
        _line("GPU", "DCGM_FI_DEV_GPU_TEMP", "hw_temperature", sum=Sum.LARGEST),
        _line("memory", "DCGM_FI_DEV_MEMORY_TEMP", sum=Sum.LARGEST),
        _line("slows down at", "DCGM_FI_DEV_SLOWDOWN_TEMP", bound=True),
    ), Source.DCGM),
    Plot("Slowed down", "ratio", (
        _line("by heat", "DCGM_FI_DEV_THERMAL_VIOLATION", scale=NS),
        _line("by its power limit", "DCGM_FI_DEV_POWER_VIOLATION", scale=NS),
        _line("by its board", "DCGM_FI_DEV_(?:BOARD_LIMIT|RELIABILITY)_VIOLATION", scale=NS),
    ), Source.DCGM, As.RATE, "share of time in which a limit held the clocks down"),
    Plot("Memory used", "By", (
        _line("used", "DCGM_FI_DEV_FB_USED", scale=MIB),
        _line("used", "hw_gpu_memory_usage"),
        _line("total", "DCGM_FI_DEV_FB_TOTAL", scale=MIB, bound=True),
    ), Source.DCGM),
    Plot("Memory clock", "MHz", (_line("clock", "DCGM_FI_DEV_MEM_CLOCK"),), Source.DCGM),
    Plot("Last XID", "state", (_line("XID", "DCGM_FI_DEV_XID_ERRORS"),), Source.DCGM, As.STATE,
         "the driver's number of the last error; it stays until the next"),
    Plot("Memory errors", "/s", (
        _line("uncorrectable", "DCGM_FI_DEV_ECC_DBE_(?:VOL|AGG)_TOTAL"),
        _line("corrected", "DCGM_FI_DEV_ECC_SBE_(?:VOL|AGG)_TOTAL"),
        _line("remapped rows", "DCGM_FI_DEV_(?:UN)?CORRECTABLE_REMAPPED_ROWS"),
    ), Source.DCGM, As.RATE),
    Plot("NVLink", "By/s", (
        _line("sent", "DCGM_FI_PROF_NVLINK_TX_BYTES"), _line("received", "DCGM_FI_PROF_NVLINK_RX_BYTES"),
        _line("both", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"),
    ), Source.DCGM),
    Plot("NVLink and PCIe errors", "/s", (
        _line("NVLink CRC", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
        _line("NVLink replays", "DCGM_FI_DEV_NVLINK_(?:REPLAY|RECOVERY)_ERROR_COUNT_TOTAL"),
        _line("PCIe replays", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    ), Source.DCGM, As.RATE),
    Plot("PCIe", "B/s", (
        _line("sent", "DCGM_FI_PROF_PCIE_TX_BYTES"), _line("received", "DCGM_FI_PROF_PCIE_RX_BYTES"),
    ), Source.DCGM),
    Plot("Energy", "W", (_line("mean", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", scale=1e-3),), Source.DCGM, As.RATE,
         "power by the energy counter, which misses no peak between two readings"),
)  # fmt: skip

PORT = (
    Plot("Traffic", "By/s", (
        _line("sent", "node_network_transmit_bytes_total", "node_infiniband_port_data_transmitted_bytes_total",
              "node_infiniband_port_xmit_data_total", "(?:hw|system)_network_io", where=SENT),
        _line("received", "node_network_receive_bytes_total", "node_infiniband_port_data_received_bytes_total",
              "node_infiniband_port_rcv_data_total", "(?:hw|system)_network_io", where=RECEIVED),
    ), Source.NODE, As.RATE),
    Plot("Packets", "/s", (
        _line("sent", "node_network_transmit_packets_total", "node_infiniband_port_xmit_packets_total",
              "node_infiniband_port_packets_transmitted_total"),
        _line("received", "node_network_receive_packets_total", "node_infiniband_port_rcv_packets_total",
              "node_infiniband_port_packets_received_total"),
    ), Source.NODE, As.RATE),
    Plot("Errors", "/s", (
        _line("received", "node_network_receive_errs_total",
              "node_infiniband_port_(?:receive|rcv)_errors_total"),
        _line("sent", "node_network_transmit_errs_total"),
        _line("symbols", "node_infiniband_symbol_error_total"),
        _line("CRC, frames", "node_network_receive_frame_total"),
        _line("sent and received", "system_network_errors"),
    ), Source.NODE, As.RATE, "damaged frames: cable, transceiver or the port itself"),
    Plot("Discards", "/s", (
        _line("received", "node_network_receive_drop_total"),
        _line("sent", "node_network_transmit_drop_total",
              "node_infiniband_port_(?:xmit|transmit)_discards_total"),
        _line("no buffer", "node_infiniband_(?:rx_|)out_of_buffer_total|node_network_receive_fifo_total"),
    ), Source.NODE, As.RATE, "frames in order that there was no room for"),
    Plot("Sent again", "/s", (
        _line("out of sequence", "node_infiniband_(?:out_of_sequence|packet_seq_err)_total"),
        _line("time-outs", "node_infiniband_local_ack_timeout_err_total"),
        _line("retransmitted", "node_infiniband_roce_(?:adp_retrans|slow_restart)_total"),
    ), Source.RDMA, As.RATE, "what RDMA had to send once more"),
    Plot("Pause", "/s", (
        _line("received", "node_(?:network|ethtool)_(?:ethtool_)?rx_(?:prio\\d_)?pause(?:_ctrl)?(?:_phy)?(?:_total)?"),
        _line("sent", "node_(?:network|ethtool)_(?:ethtool_)?tx_(?:prio\\d_)?pause(?:_ctrl)?(?:_phy)?(?:_total)?"),
    ), Source.RDMA, As.RATE, "PFC and pause frames: received ones stop this port, sent ones stop the other end"),
    Plot("Congestion", "/s", (
        _line("marked (ECN)", "node_infiniband_np_ecn_marked_roce_packets_total"),
        _line("notified (CNP)", "node_infiniband_(?:np_cnp_sent|rp_cnp_handled)_total"),
    ), Source.RDMA, As.RATE),
    Plot("Waits for PCIe", "/s", (
        _line("stalled writes", "node_ethtool_outbound_pci_stalled_wr(?:_events)?(?:_total)?"),
        _line("buffer full", "node_ethtool_outbound_pci_buffer_overflow(?:_total)?"),
    ), Source.RDMA, As.RATE),
    Plot("Carrier", "state", (
        _line("carrier", "node_network_carrier", "node_network_up", "node_infiniband_state_id"),
    ), Source.NODE, As.STATE),
    Plot("Carrier changes", "/min", (
        _line("changes", "node_network_carrier_changes_total", "node_infiniband_link_downed_total", scale=60),
    ), Source.NODE, As.RATE),
    Plot("Speed", "By/s", (
        _line("speed", "node_network_speed_bytes", "node_infiniband_rate_bytes_per_second"),
    ), Source.NODE),
    Plot("Multicast", "/s", (
        _line("received", "node_network_receive_multicast_total", "node_infiniband_multicast_rcv_packets_total"),
    ), Source.NODE, As.RATE),
)  # fmt: skip

SWITCH_PORT = (
    Plot("Traffic", "By/s", (
        _line("out", "ifOutOctets", "node_network_transmit_bytes_total"),
        _line("in", "ifInOctets", "node_network_receive_bytes_total"),
    ), Source.SWITCH, As.RATE),
    Plot("Packets", "/s", (
        _line("out", "ifOutUcastPkts", "node_network_transmit_packets_total"),
        _line("in", "ifInUcastPkts", "node_network_receive_packets_total"),
    ), Source.SWITCH, As.RATE),
    Plot("Errors", "/s", (
        _line("in", "ifInErrors", "node_network_receive_errs_total"),
        _line("out", "ifOutErrors", "node_network_transmit_errs_total"),
        _line("damaged frames", "dot3Stats(?:FCSErrors|AlignmentErrors|SymbolErrors)"),
    ), Source.SWITCH, As.RATE, "damaged frames: cable, transceiver or the port itself"),
    Plot("Discards", "/s", (
        _line("out", "ifOutDiscards", "node_qdisc_drops_total", "node_network_transmit_drop_total"),
        _line("in", "ifInDiscards", "node_network_receive_drop_total"),
    ), Source.SWITCH, As.RATE, "whole frames that there was no room for"),
    Plot("Queue", "By", (_line("waiting", "node_qdisc_backlog"),), Source.QUEUE),
    Plot("Pause", "/s", (
        _line("received", "node_(?:network|ethtool)_(?:ethtool_)?rx_(?:prio\\d_)?pause(?:_ctrl)?(?:_phy)?(?:_total)?"),
        _line("sent", "node_(?:network|ethtool)_(?:ethtool_)?tx_(?:prio\\d_)?pause(?:_ctrl)?(?:_phy)?(?:_total)?"),
    ), Source.SWITCH, As.RATE, "PFC and pause frames: received ones stop this port, sent ones stop the other end"),
    Plot("Port is", "state", (_line("state", "ifOperStatus", "node_network_up"),), Source.SWITCH, As.STATE),
    Plot("Carrier changes", "/min", (
        _line("changes", "node_network_carrier_changes_total", scale=60),
    ), Source.SWITCH, As.RATE),
    Plot("Speed", "By/s", (
        _line("speed", "ifSpeed", scale=1 / 8), _line("speed", "node_network_speed_bytes"),
    ), Source.SWITCH),
    Plot("Multicast", "/s", (
        _line("in", "ifInMulticastPkts", "node_network_receive_multicast_total"), _line("out", "ifOutMulticastPkts"),
    ), Source.SWITCH, As.RATE),
)  # fmt: skip

HOST = (
    Plot("CPUs busy", "CPUs", (
        _line("busy", "node_cpu_seconds_total", "system_cpu_time",
              where=(("mode", BUSY), ("state", BUSY), ("cpu_mode", BUSY))),
    ), Source.NODE, As.RATE, "seconds of work a second, all CPUs together"),
    Plot("Tasks wait for a CPU", "ratio", (
        _line("some wait", "node_pressure_cpu_waiting_seconds_total"),
    ), Source.NODE, As.RATE, "share of time in which at least one task that could run had no CPU"),
    Plot("Held back by its CPU quota", "ratio", (
        _line("throttled", "container_cpu_cfs_throttled_seconds_total"),
    ), Source.NODE, As.RATE, "seconds a second that containers waited for their quota; of several containers, the sum"),
    Plot("Load", "tasks", (
        _line("1 min", "node_load1", "system_cpu_load_average_1m"), _line("runnable", "node_procs_running"),
        _line("blocked", "node_procs_blocked"),
    ), Source.NODE),
    Plot("Memory available", "By", (
        _line("available", "node_memory_MemAvailable_bytes", "system_linux_memory_available"),
        _line("total", "node_memory_MemTotal_bytes", bound=True),
    ), Source.NODE),
    Plot("Tasks wait for memory", "ratio", (
        _line("some wait", "node_pressure_memory_waiting_seconds_total"),
        _line("all wait", "node_pressure_memory_stalled_seconds_total"),
    ), Source.NODE, As.RATE),
    Plot("Memory of containers", "By", (_line("used", "container_memory_(?:usage|working_set)_bytes"),), Source.NODE),
    Plot("Killed for memory", "/min", (
        _line("OOM kills", "container_oom_events_total", "node_vmstat_oom_kill", scale=60),
    ), Source.NODE, As.RATE),
    Plot("Disk traffic", "B/s", (
        _line("written", "node_disk_written_bytes_total", "system_disk_io", where=WRITTEN),
        _line("read", "node_disk_read_bytes_total", "system_disk_io", where=READ),
    ), Source.NODE, As.RATE),
    Plot("Disk busy", "ratio", (
        _line("busiest disk", "node_disk_io_time_seconds_total", "system_disk_io_time", sum=Sum.LARGEST),
    ), Source.NODE, As.RATE),
    Plot("Tasks wait for disks", "ratio", (
        _line("some wait", "node_pressure_io_waiting_seconds_total"),
        _line("all wait", "node_pressure_io_stalled_seconds_total"),
    ), Source.NODE, As.RATE),
    Plot("TCP segments sent again", "/s", (
        _line("sent again", "node_netstat_Tcp_RetransSegs"),
        _line("after a time-out", "node_netstat_TcpExt_TCPTimeouts"),
    ), Source.NODE, As.RATE),
    Plot("Least space left on a file system", "By", (
        _line("left", "node_filesystem_avail_bytes", where=(("fstype", "(?!tmpfs|overlay|squashfs).*"),),
              sum=Sum.LEAST),
    ), Source.NODE),
    Plot("Clock offset", "s", (
        _line("offset", "node_timex_offset_seconds"),
    ), Source.NODE, about="of the host's clock against its time server, as the kernel has it"),
)  # fmt: skip

STORAGE = (
    Plot("Traffic", "B/s", (
        _line("written", "node_mountstats_nfs_total_write_bytes_total"),
        _line("read", "node_mountstats_nfs_total_read_bytes_total"),
    ), Source.NFS, As.RATE, "all hosts that mount it together"),
    Plot("Time for requests", "ratio", (
        _line("waiting and under way", "node_mountstats_nfs_operations_request_time_seconds_total"),
        _line("on the server", "node_mountstats_nfs_operations_response_time_seconds_total"),
    ), Source.NFS, As.RATE, "seconds a second, all hosts together: requests under way at once"),
    Plot("Requests", "/s", (_line("requests", "node_mountstats_nfs_operations_requests_total"),), Source.NFS, As.RATE),
    Plot("Errors", "/s", (
        _line("time-outs", "node_mountstats_nfs_operations_major_timeouts_total"),
        _line("sent again", "node_nfs_rpc_retransmissions_total"),
        _line("errors", "node_mountstats_nfs_operations_errors_total"),
    ), Source.NFS, As.RATE),
)  # fmt: skip

OPTICS = (
    Plot("Power received", "dBm", (_line("least lane", "transceiver_.*(?:rx|receive).*power.*dbm", sum=Sum.LEAST),),
         Source.OPTICS),
    Plot("Power sent", "dBm", (_line("least lane", "transceiver_.*(?:tx|transmit).*power.*dbm", sum=Sum.LEAST),),
         Source.OPTICS),
    Plot("Temperature", "Cel", (_line("module", "transceiver_.*temperature.*"),), Source.OPTICS),
)  # fmt: skip

PLOTS: dict[str, tuple[Plot, ...]] = {
    "gpu": GPU, "host": HOST, "port": PORT, "swport": SWITCH_PORT, "switch": SWITCH_PORT, "storage": STORAGE,
    "xcvr": OPTICS,
}  # fmt: skip
"""Plots by kind. A switch has those of its ports, and a link those of both its ends (`LINK`)."""

OWN_METRICS_MAX = 12  # plots of a kind that has no table: as many as fit a screen


LINK = ("Traffic", "Packets", "Errors", "Discards", "Sent again", "Pause", "Queue", "Carrier changes")
"""Plots of a link, by title: each has the lines of both its ends, which may be of two kinds. States are of each end."""


def states_of(kind: str) -> tuple[Plot, ...]:
    """The plots of a kind whose values are codes."""
    return tuple(each for each in PLOTS[kind] if each.how is As.STATE)
