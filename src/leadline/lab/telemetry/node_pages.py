"""The page of a node's ports as node_exporter gives it; switches that run Linux (SONiC, Cumulus) have such pages too.

Ports by its netclass, netdev and qdisc collectors, TCP by netstat, RDMA ports by infiniband. Pure.
Source: prometheus/node_exporter, collector/*.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from leadline.lab.telemetry.exposition import Labels, Row, families, page
from leadline.lab.telemetry.overlay import ETHTOOL_NIC, RX_POWER
from leadline.lab.telemetry.rtnetlink import Counters, Queue

_ROWS: tuple[Row, ...] = (
    ("node_network_up", "gauge", "Value is 1 if operstate is 'up', 0 otherwise."),
    ("node_network_carrier_changes_total", "counter", "Network device property: carrier_changes_total"),
    ("node_network_carrier_up_changes_total", "counter", "Network device property: carrier_up_changes_total"),
    ("node_network_carrier_down_changes_total", "counter", "Network device property: carrier_down_changes_total"),
    ("node_network_iface_id", "gauge", "Network device property: iface_id"),
    ("node_network_speed_bytes", "gauge", "Network device property: speed_bytes"),
    ("node_network_receive_bytes_total", "counter", "Network device statistic receive_bytes."),
    ("node_network_receive_packets_total", "counter", "Network device statistic receive_packets."),
    ("node_network_receive_errs_total", "counter", "Network device statistic receive_errs."),
    ("node_network_receive_drop_total", "counter", "Network device statistic receive_drop."),
    ("node_network_receive_multicast_total", "counter", "Network device statistic receive_multicast."),
    ("node_network_transmit_bytes_total", "counter", "Network device statistic transmit_bytes."),
    ("node_network_transmit_packets_total", "counter", "Network device statistic transmit_packets."),
    ("node_network_transmit_errs_total", "counter", "Network device statistic transmit_errs."),
    ("node_network_transmit_drop_total", "counter", "Network device statistic transmit_drop."),
    ("node_qdisc_backlog", "gauge", "Number of bytes currently in queue to be sent."),
    ("node_qdisc_current_queue_length", "gauge", "Number of packets currently in queue to be sent."),
    ("node_qdisc_drops_total", "counter", "Number of packets dropped."),
    ("node_qdisc_overlimits_total", "counter", "Number of overlimit packets."),
    ("node_qdisc_requeues_total", "counter", "Number of packets dequeued, not transmitted, and requeued."),
)
# Only replayed, see `overlay`. Driver statistics under the names that Leadline's own agent gives them; node_exporter
# would write `received` for `rx`.
_REPLAYED_ROWS: tuple[Row, ...] = (
    *((f"node_ethtool_{name}", "counter", f"Network interface {name}") for name in ETHTOOL_NIC),
    (RX_POWER, "gauge", "Laser receive power in dBm, of the weakest lane."),
    ("node_pcidevice_current_link_width", "gauge", "Value of current link's width (number of lanes)"),
    ("node_pcidevice_max_link_width", "gauge", "Value of maximum link's width (number of lanes)"),
    (
        "node_pcidevice_current_link_transfers_per_second",
        "gauge",
        "Value of current link's transfers per second (T/s)",
    ),
)
_NOTHING: Mapping[str, float] = MappingProxyType({})


class ShownPort(NamedTuple):
    """One port's counters, its queue if it has one, its rate; by metric, what is only replayed of it and its card."""

    link: Counters
    queue: Queue | None
    rate_bps: int
    replayed: Mapping[str, float] = _NOTHING
    card: Mapping[str, float] = _NOTHING
    pci: str = ""  # address of the card, `0000:21:00.0`


def nic_page(ports: Iterable[ShownPort]) -> bytes:
    """The exposition page of what only NICs' drivers, modules and slots tell: a host has it beside its node's."""
    return page(families(_REPLAYED_ROWS, _replayed_values(ports)))


def node_page(ports: Sequence[ShownPort], netstat: Mapping[str, int] | None = None) -> bytes:
    """The exposition page of a node's ports, and of its TCP where `netstat` has its counters."""
    values: dict[str, list[tuple[Labels, float]]] = {}
    for port in ports:
        device: Labels = (("device", port.link.name),)
        for name, value in _link_values(port).items():
            values.setdefault(name, []).append((device, value))
        if port.queue is not None:
            labels = (*device, ("kind", port.queue.kind))
            for name, value in _queue_values(port.queue).items():
                values.setdefault(name, []).append((labels, value))
    found = [*families(_ROWS, values), *families(_REPLAYED_ROWS, _replayed_values(ports))]
    if netstat:
        rows: list[Row] = [(f"node_netstat_{name}", "untyped", f"Statistic {name}.") for name in netstat]
        found += families(rows, {f"node_netstat_{name}": [((), value)] for name, value in netstat.items()})
    return page(found)


def _replayed_values(ports: Iterable[ShownPort]) -> dict[str, list[tuple[Labels, float]]]:
    values: dict[str, list[tuple[Labels, float]]] = {}
    for port in ports:
        for name, value in port.replayed.items():
            values.setdefault(name, []).append(((("device", port.link.name),), value))
        for name, value in port.card.items():
            values.setdefault(name, []).append((_slot(port.pci), value))
    return values


def _slot(pci: str) -> Labels:
    """The labels of node_exporter's pcidevice collector for an address."""
    segment, bus, rest = pci.split(":")
    device, _, function = rest.partition(".")
    return (("segment", segment), ("bus", bus), ("device", device), ("function", function))


def _link_values(port: ShownPort) -> dict[str, float]:
    link = port.link
    return {
        "node_network_up": 1 if link.operstate == "up" else 0,
        "node_network_carrier_changes_total": link.carrier_changes,
        "node_network_carrier_up_changes_total": link.carrier_ups,
        "node_network_carrier_down_changes_total": link.carrier_downs,
        "node_network_iface_id": link.index,
        "node_network_speed_bytes": port.rate_bps / 8,
        "node_network_receive_bytes_total": link.rx_bytes,
        "node_network_receive_packets_total": link.rx_packets,
        "node_network_receive_errs_total": link.rx_errors,
        "node_network_receive_drop_total": link.rx_dropped,
        "node_network_receive_multicast_total": link.multicast,
        "node_network_transmit_bytes_total": link.tx_bytes,
        "node_network_transmit_packets_total": link.tx_packets,
        "node_network_transmit_errs_total": link.tx_errors,
        "node_network_transmit_drop_total": link.tx_dropped,
    }


def _queue_values(queue: Queue) -> dict[str, float]:
    return {
        "node_qdisc_backlog": queue.backlog_bytes,
        "node_qdisc_current_queue_length": queue.packets,
        "node_qdisc_drops_total": queue.drops,
        "node_qdisc_overlimits_total": queue.overlimits,
        "node_qdisc_requeues_total": queue.requeues,
    }


# What node_exporter's netstat collector tells by default of TCP, as far as it speaks of loss and order.
NETSTAT = (
    "Tcp_InSegs", "Tcp_OutSegs", "Tcp_RetransSegs", "Tcp_InErrs", "Tcp_CurrEstab", "TcpExt_TCPTimeouts",
    "TcpExt_TCPOFOQueue", "TcpExt_TCPSynRetrans", "TcpExt_TCPRcvQDrop",
)  # fmt: skip


def netstat_values(*texts: str) -> dict[str, int]:
    """The counters of NETSTAT from the texts of /proc/net/netstat and /proc/net/snmp."""
    found: dict[str, int] = {}
    for text in texts:
        lines = text.splitlines()
        for names, numbers in zip(lines[::2], lines[1::2], strict=False):
            prefix, _, rest = names.partition(":")
            other, _, values = numbers.partition(":")
            if prefix != other:
                continue
            for name, value in zip(rest.split(), values.split(), strict=False):
                if value.lstrip("-").isdigit():
                    found[f"{prefix}_{name}"] = int(value)
    return {name: found[name] for name in NETSTAT if name in found}
