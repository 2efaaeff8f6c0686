"""Counters of RDMA ports: /sys/class/infiniband/<device>/ports/<port>/{counters,hw_counters}/<name>.

Names are data: each file is a counter of that name, told as `node_infiniband_<name>` as node_exporter does, but
unscaled: `port_xmit_data` stays in words of 4 bytes, with the driver's name. A file that is not a number (a hole in the
driver) is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from leadline.host.found import Found, Sample, Stream
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.site import Site, read, read_if_there
from leadline.host.sources.source import Source
from leadline.model.errors import WorldError

FILES_MAX = 2048  # 16 ports with 128 counters
GAUGES = frozenset({"lifespan"})


def metric_name(name: str) -> str:
    """The metric of a counter's file."""
    return f"node_infiniband_{name}" + ("" if name in GAUGES else "_total")


def _ports(site: Site) -> str:
    """Read a counter of each RDMA device. Errors: OSError, WorldError where there is no device."""
    root = site.config.sys_root / "class" / "infiniband"
    devices = _names(root)
    if not devices:
        raise WorldError(f"no RDMA device in {root}")
    for device in devices:
        for port in os.listdir(root / device / "ports"):
            counters = root / device / "ports" / port / "counters"
            for name in os.listdir(counters)[:1]:
                read(counters / name)
    return ", ".join(devices)


class Rdma(Source):
    """Every counter that the drivers of RDMA devices have."""

    name = "rdma"
    reports = "`/sys/class/infiniband/*/ports/*/{counters,hw_counters}`"
    told_as = "`node_infiniband_<name>` of the port, the driver's names and units"
    as_node_exporter = (metric_name(".*"),)
    accesses = (
        Access(
            "counters of RDMA ports",
            _ports,
            "loss, time-outs and congestion of RoCE and InfiniBand are unknown; TCP's counters say nothing of RDMA",
            Grant(
                service="the driver of the device (mlx5_ib or its like); in a container `rdma system set netns shared`",
                pod="hostNetwork: true, and the driver on the node",
            ),
            ("wrong-gid", "wrong-dscp", "link-errors", "pfc-storm", "switch-loss"),
        ),
    )

    def poll(self, now_ns: int) -> Found:
        found: list[Sample] = []
        for device, port, name, path in self._files():
            if len(found) >= FILES_MAX:
                break
            value = parse_counter(read_if_there(path))
            if value is not None:
                labels = (("device", device), ("port", port))
                stream = Stream(metric_name(name), labels, name not in GAUGES)
                found.append(Sample(stream, now_ns, value))
        return Found(samples=found)

    def _files(self) -> Iterator[tuple[str, str, str, str]]:
        root = self.site.config.sys_root / "class" / "infiniband"
        for device in _names(root):
            for port in _names(root / device / "ports"):
                for kind in ("counters", "hw_counters"):
                    directory = root / device / "ports" / port / kind
                    for name in _names(directory):
                        yield device, port, name, f"{directory}/{name}"


def parse_counter(text: bytes) -> int | None:
    """The number in a counter's file, or None."""
    text = text.strip()
    return int(text) if text.isdigit() and len(text) <= 20 else None


def _names(directory: Path) -> list[str]:
    try:
        return sorted(each for each in os.listdir(directory) if not each.startswith("."))
    except OSError:
        return []
