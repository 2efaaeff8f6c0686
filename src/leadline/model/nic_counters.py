"""Counters of network ports by the names their drivers give them, with the unit each counts.

Names are data, not columns: other drivers have other names, and what is not listed here is kept all the same.
`name` is a regular expression for the whole name; queues, lanes and priorities differ by number only.

Sources: Linux, Documentation/ABI/stable/sysfs-class-infiniband (counters/); drivers/infiniband/hw/mlx5/counters.c
(hw_counters/); Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst (ethtool -S).
"""

from __future__ import annotations

from typing import NamedTuple


class NicCounter(NamedTuple):
    """One counter, or a few that differ by a number: name pattern, unit, what it counts."""

    name: str
    unit: str
    doc: str


# /sys/class/infiniband/<device>/ports/<port>/counters/
SYSFS_COUNTERS: tuple[NicCounter, ...] = (
    NicCounter("port_(xmit|rcv)_data", "4 bytes", "data sent, received, in words of 4 bytes"),
    NicCounter("port_(xmit|rcv)_packets", "packets", "packets sent, received"),
    NicCounter("(unicast|multicast)_(xmit|rcv)_packets", "packets", "packets by kind of destination"),
    NicCounter("port_xmit_wait", "ticks", "data to send but no credit: congestion (InfiniBand)"),
    NicCounter("port_xmit_discards", "packets", "not sent: port down or congested"),
    NicCounter("port_(xmit|rcv)_constraint_errors", "packets", "discarded by partition or raw filters"),
    NicCounter("port_rcv_(errors|remote_physical_errors|switch_relay_errors)", "packets", "received with errors"),
    NicCounter("symbol_error", "1", "symbols received wrong"),
    NicCounter("link_error_recovery", "1", "link retrained and came back"),
    NicCounter("link_downed", "1", "link retrained and did not come back"),
    NicCounter("local_link_integrity_errors", "1", "local physical errors over the threshold"),
    NicCounter("excessive_buffer_overrun_errors", "1", "buffer overruns over the threshold"),
    NicCounter("VL15_dropped", "packets", "management packets dropped"),
)  # fmt: skip

# /sys/class/infiniband/<device>/ports/<port>/hw_counters/, mlx5 and the optional ones of `rdma statistic`
HW_COUNTERS: tuple[NicCounter, ...] = (
    NicCounter("out_of_sequence", "packets", "came out of order: loss or adaptive routing"),
    NicCounter("packet_seq_err", "1", "NAK got: the far side missed packets"),
    NicCounter("local_ack_timeout_err", "1", "acknowledgement timer ran out: loss or a dead path"),
    NicCounter("implied_nak_seq_err", "1", "read response skipped: implied loss"),
    NicCounter("rnr_nak_retry_err", "1", "receiver-not-ready NAKs got"),
    NicCounter("duplicate_request", "packets", "requests received twice"),
    NicCounter("out_of_buffer", "packets", "dropped: no receive work request"),
    NicCounter("roce_adp_retrans(_to)?", "1", "adaptive retransmissions, and their timeouts"),
    NicCounter("roce_slow_restart(_cnps|_trans)?", "1", "slow restarts, their notifications and transitions"),
    NicCounter("np_ecn_marked_roce_packets", "packets", "received with the congestion mark (DCQCN)"),
    NicCounter("np_cnp_sent", "packets", "congestion notifications sent"),
    NicCounter("rp_cnp_(handled|ignored)", "packets", "congestion notifications acted on, ignored"),
    NicCounter("req_(transport|rnr)_retries_exceeded", "1", "queue pair went to error after its retries"),
    NicCounter("(req|resp)_(cqe_error|cqe_flush_error|remote_access_errors|remote_invalid_request)", "1", "completions with an error"),
    NicCounter("resp_local_length_error", "1", "message longer than the receive buffer"),
    NicCounter("rx_(write|read|atomic)_requests", "1", "requests received"),
    NicCounter("rx_icrc_encapsulated", "packets", "RoCE packets with a bad checksum"),
    NicCounter("rx_dct_connect|lifespan", "1", "dynamic connections; refresh time of the counters in ms"),
    NicCounter("cc_(rx_ce|rx_cnp|tx_cnp)_pkts", "packets", "optional: congestion marks and notifications"),
    NicCounter("rdma_(tx|rx)_packets", "packets", "optional: RDMA packets"),
    NicCounter("rdma_(tx|rx)_bytes", "bytes", "optional: RDMA bytes"),
)  # fmt: skip

# ethtool -S <interface>, mlx5
ETHTOOL_COUNTERS: tuple[NicCounter, ...] = (
    NicCounter("(rx|tx)_prio[0-7]_bytes", "bytes", "bytes by priority"),
    NicCounter("(rx|tx)_prio[0-7]_packets", "packets", "packets by priority"),
    NicCounter("(rx|tx)_prio[0-7]_pause", "packets", "PFC: received, the network pushes back; sent, this host does"),
    NicCounter("(rx|tx)_prio[0-7]_pause_duration", "us", "time paused"),
    NicCounter("(rx|tx)_prio[0-7]_pause_transition", "1", "changes from running to paused"),
    NicCounter("rx_prio[0-7]_(discards|buf_discard|cong_discard|marked)", "packets", "dropped or marked by priority"),
    NicCounter("(rx|tx)_global_pause", "packets", "pause frames without priorities"),
    NicCounter("(rx|tx)_global_pause_duration", "us", "time paused"),
    NicCounter("(rx|tx)_global_pause_transition", "1", "changes from running to paused"),
    NicCounter("tx_pause_storm_(warning|error)_events", "1", "this host paused the network for too long"),
    NicCounter("(rx|tx)_discards_phy", "packets", "dropped at the port: no buffer"),
    NicCounter("rx_(crc_errors|symbol_err|pcs_symbol_err)_phy", "1", "received wrong, after error correction"),
    NicCounter("rx_corrected_bits_phy", "bits", "corrected by FEC: how close the link is to failing"),
    NicCounter("rx_err_lane_[0-9]+_phy", "bits", "errors of one lane before correction"),
    NicCounter("link_down_events_phy", "1", "times the link went down"),
    NicCounter("rx_out_of_buffer", "packets", "dropped: no receive buffer posted"),
    NicCounter("rx_buffer_passed_thres_phy", "1", "times the port's buffer was over 85 %"),
    NicCounter("rx[0-9]*_ecn_mark", "packets", "TCP/IP packets with the congestion mark"),
    NicCounter("outbound_pci_stalled_(rd|wr)", "%", "share of the last second stalled on PCIe"),
    NicCounter("outbound_pci_stalled_(rd|wr)_events", "s", "seconds with more than 30 % stalled"),
    NicCounter("outbound_pci_buffer_overflow", "packets", "dropped: PCIe did not take them"),
    NicCounter("(rx|tx)_vport_rdma_(unicast|multicast)_bytes", "bytes", "RDMA bytes, which no interface counter shows"),
    NicCounter("(rx|tx)_vport_rdma_(unicast|multicast)_packets", "packets", "RDMA packets"),
    NicCounter("(rx|tx)_(bytes|vport_(unicast|multicast|broadcast)_bytes)(_phy)?", "bytes", "bytes"),
    NicCounter("(rx|tx)_(packets|vport_(unicast|multicast|broadcast)_packets)(_phy)?", "packets", "packets"),
    NicCounter("module_(high_temp|bus_stuck|bad_shorted|unplug)", "1", "events of the transceiver"),
)  # fmt: skip

NIC_COUNTERS = SYSFS_COUNTERS + HW_COUNTERS + ETHTOOL_COUNTERS
