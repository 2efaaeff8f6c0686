"""Counters of emulated ports as trees of small files, as a real machine's /sys shows them.

    class/net/<port>/{operstate,carrier,carrier_changes,speed,...}     every port
    class/net/<port>/statistics/{rx_bytes,...}
    class/net/<port>/queue/{backlog,drops,overlimits,...}              ours: /sys has no qdiscs, a switch's has
    class/infiniband/mlx5_<rail>/ports/1/{state,rate,counters/,hw_counters/}     backend NICs of hosts
    class/infiniband/mlx5_<rail>/device/{current,max}_link_{width,speed}         only replayed, see `overlay`

Every file's content comes from something that the emulation really has; the table in docs/lab/telemetry.md says from
what. What only a replay has (docs/lab/replayed-faults.md) shows a healthy value until one plays.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from leadline.lab.telemetry.overlay import HEALTHY, PCI_SPEED, PCI_WIDTH, RDMA, Overlay
from leadline.lab.telemetry.rtnetlink import Counters, Queue
from leadline.lab.telemetry.tcp_diag import TcpCounts

STATISTICS = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "multicast",
)  # fmt: skip
_WIDTH = 20  # digits of 2**64


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


def replayed_files(rail: int, overlay: Overlay, entity: str, now_ns: int) -> dict[str, str]:
    """Files for one backend NIC whose quantities only a replay has: error counters, the PCIe link."""
    device = f"class/infiniband/mlx5_{rail}"
    speed = f"{overlay.gauge(entity, PCI_SPEED, now_ns):.1f} GT/s PCIe"
    return {
        **{f"{device}/ports/1/counters/{name}": str(n) for name, n in overlay.some(entity, RDMA, now_ns).items()},
        f"{device}/device/current_link_width": str(round(overlay.gauge(entity, PCI_WIDTH, now_ns))),
        f"{device}/device/max_link_width": str(round(HEALTHY[PCI_WIDTH])),
        f"{device}/device/current_link_speed": speed,
        f"{device}/device/max_link_speed": f"{HEALTHY[PCI_SPEED]:.1f} GT/s PCIe",
    }


def nic_pci(rail: int) -> str:
    """PCI address of a host's backend NIC, the same on every host, as on machines of one kind."""
    return f"0000:{0x21 + 0x20 * (rail % 6):02x}:{rail // 6:02x}.0"


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
                path = f"{self._directory}/{name}"
                if more or not os.path.exists(path):
                    _add(path, more)
        finally:
            os.close(lock)
        self._added = dict(own)


def _add(path: str, more: int) -> None:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        text = b""
    before = int(text) if text.strip().isdigit() else 0
    _put(path, padded(str(before + more)), in_place=len(text) == _WIDTH + 1)


class Tree:
    """Files of one tree on disk; only what changed is written.

    A file is padded with blanks to a width that no counter outgrows, so that it can be written over in place, in one
    piece of one length: a reader sees the old or the new value, never an empty or half a one. Replacing it by renaming
    would need no padding, but costs 100 to 500 us of CPU where the state lies on a disk's file system, against 5 us.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._written: dict[str, bytes] = {}

    def write(self, files: Mapping[str, str]) -> int:
        """Bring the files on disk up to date; returns how many were written. Errors: OSError."""
        changed = 0
        for name, text in files.items():
            before, after = self._written.get(name), padded(text)
            if after == before:
                continue
            path = f"{self._root}/{name}"
            if before is None:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            _put(path, after, in_place=before is not None and len(after) == len(before))
            self._written[name] = after
            changed += 1
        return changed


def padded(text: str) -> bytes:
    """A file's content: the text, blanks up to the usual width, a new line."""
    return text.encode().ljust(_WIDTH) + b"\n"


def _put(path: str, content: bytes, in_place: bool) -> None:
    """Write a file whole: over what is there if that is as long, else beside it and then in its place."""
    directory, _, name = path.rpartition("/")
    # A name that begins with a dot is no counter: who lists the directory meanwhile passes it over.
    target = path if in_place else f"{directory}/.{name}"
    flags = os.O_WRONLY | os.O_CLOEXEC | (0 if in_place else os.O_CREAT | os.O_TRUNC)
    handle = os.open(target, flags, 0o644)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)
    if not in_place:
        os.rename(target, path)
