"""Counters of emulated ports as trees of small files, as a real machine's /sys shows them.

    class/net/<port>/{operstate,carrier,carrier_changes,speed,...}     every port
    class/net/<port>/statistics/{rx_bytes,...}
    class/net/<port>/queue/{backlog,drops,overlimits,...}              ours: /sys has no qdiscs, a switch's has
    class/infiniband/mlx5_<rail>/ports/1/{state,rate,counters/,hw_counters/}     backend NICs of hosts

Every file's content comes from something that the emulation really has; the table in docs/lab/telemetry.md says from
what. What it has not is not there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from leadline.lab.telemetry.rtnetlink import Counters, Queue
from leadline.lab.telemetry.tcp_diag import TcpCounts

STATISTICS = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "multicast",
)  # fmt: skip


def net_files(link: Counters, queue: Queue | None, rate_bps: int) -> dict[str, str]:
    """Files below the tree's root for one interface."""
    base = f"class/net/{link.name}"
    files = {
        f"{base}/ifindex": str(link.index),
        f"{base}/operstate": link.operstate,
        f"{base}/carrier": "1" if link.operstate == "up" else "0",
        f"{base}/carrier_changes": str(link.carrier_changes),
        f"{base}/carrier_up_count": str(link.carrier_ups),
        f"{base}/carrier_down_count": str(link.carrier_downs),
        f"{base}/speed": str(rate_bps // 1_000_000),
    }
    files |= {f"{base}/statistics/{name}": str(getattr(link, name)) for name in STATISTICS}
    if queue is not None:
        files |= {
            f"{base}/queue/packets": str(queue.packets),
            f"{base}/queue/backlog": str(queue.backlog_bytes),
            f"{base}/queue/drops": str(queue.drops),
            f"{base}/queue/overlimits": str(queue.overlimits),
            f"{base}/queue/requeues": str(queue.requeues),
        }
    return files


def infiniband_files(rail: int, link: Counters, queue: Queue | None, rate_bps: int) -> dict[str, str]:
    """Files for one backend NIC as an RDMA device of a host: the quantities that a veth has."""
    device = f"class/infiniband/mlx5_{rail}"
    port = f"{device}/ports/1"
    up = link.operstate == "up"
    counters = {
        "port_xmit_data": link.tx_bytes // 4,  # the field counts words of 4 bytes
        "port_rcv_data": link.rx_bytes // 4,
        "port_xmit_packets": link.tx_packets,
        "port_rcv_packets": link.rx_packets,
        "multicast_rcv_packets": link.multicast,
        "port_xmit_discards": link.tx_dropped + (queue.drops if queue else 0),
        "port_rcv_errors": link.rx_errors,
        "link_downed": link.carrier_downs,
    }
    return {
        f"{device}/node_type": "1: CA",
        f"{device}/device/net/{link.name}/ifindex": str(link.index),
        f"{port}/state": "4: ACTIVE" if up else "1: DOWN",
        f"{port}/phys_state": "5: LinkUp" if up else "3: Disabled",
        f"{port}/link_layer": "Ethernet",
        f"{port}/rate": f"{rate_bps / 1e9:g} Gb/sec",
        f"{port}/gid_attrs/ndevs/0": link.name,
        **{f"{port}/counters/{name}": str(value) for name, value in counters.items()},
    }


def transport_counters(tcp: TcpCounts) -> dict[str, int]:
    """The hw_counters of a RoCE NIC that TCP has in the same meaning."""
    return {
        "out_of_sequence": tcp.out_of_order,
        "local_ack_timeout_err": tcp.timeouts,
        "roce_adp_retrans": tcp.retransmitted,
    }


class SharedCounters:
    """The hw_counters of one NIC, which several programs add to: the `rings` workload what its queue pairs count, we
    what TCP does. Each adds its own growth under a lock on the directory, as `lab.workloads.hw_counters` says.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._added: dict[str, int] = {}

    def bring_to(self, own: Mapping[str, int]) -> None:
        """Add what our share grew since the last call. Errors: OSError."""
        fresh = {name: value - self._added.get(name, 0) for name, value in own.items()}
        if self._added and not any(fresh.values()):
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name, more in fresh.items():
                _add(self._directory / name, more)
        finally:
            os.close(lock)
        self._added = dict(own)


def _add(path: Path, more: int) -> None:
    try:
        before = int(path.read_text())
    except (OSError, ValueError):
        before = 0
    partial = path.with_name(f".{path.name}")
    partial.write_text(f"{before + more}\n")
    partial.replace(path)


class Tree:
    """Files of one tree on disk; only what changed is written, each file whole or not at all."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._written: dict[str, str] = {}
        self._made: set[str] = set()

    def write(self, files: Mapping[str, str]) -> int:
        """Bring the files on disk up to date; returns how many were written. Errors: OSError."""
        changed = [(name, text) for name, text in files.items() if self._written.get(name) != text]
        for name, text in changed:
            self._replace(name, text)
            self._written[name] = text
        return len(changed)

    def _replace(self, name: str, text: str) -> None:
        path = f"{self._root}/{name}"
        directory = path.rpartition("/")[0]
        if directory not in self._made:
            os.makedirs(directory, exist_ok=True)
            self._made.add(directory)
        # Beside the tree's files but never one of them: a reader lists directories at any moment.
        partial = f"{self._root}/.part"
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, text.encode() + b"\n")
        finally:
            os.close(handle)
        os.rename(partial, path)
