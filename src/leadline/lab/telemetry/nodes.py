"""What each switch and each host of a lab tells, and the kernel log that they share: sockets and files in a loop.

NFLOG of a switch ---> its sFlow agent ---> UDP from its own address
rtnetlink of a switch -+--> counter samples, its tree of files
rtnetlink and TCP of a host ---> its tree of files
/dev/kmsg ---> <state>/hosts/<h>/kmsg
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from leadline.lab.telemetry import nflog
from leadline.lab.telemetry.controls import (
    EXPORTER_FILE,
    SWITCH_FILE,
    ControlFile,
    exporter_control,
    switch_control,
)
from leadline.lab.telemetry.kernel_log import Sharer, append, record_parts
from leadline.lab.telemetry.overlay import ETHERNET, RDMA_HW, OverlayFile
from leadline.lab.telemetry.plan import DISCARD_GROUP, QUEUE_THRESHOLD, SAMPLE_GROUP, Plan, PlannedNode
from leadline.lab.telemetry.rtnetlink import Counters, Queue
from leadline.lab.telemetry.sockets import NodeSockets, drain, open_group, open_node
from leadline.lab.telemetry.switch_sampler import SwitchAgent, SwitchPort
from leadline.lab.telemetry.sysfs_tree import (
    SharedCounters,
    Tree,
    infiniband_files,
    net_files,
    replayed_files,
    transport_counters,
)
from leadline.lab.telemetry.tcp_diag import TcpCounts, TcpSums
from leadline.model.errors import DataError

WAIT_CS = 25  # the kernel hands samples over after 0.25 s at the latest; sFlow allows one second
NFLOG_BUFFER_BYTES = 1 << 15


def monotonic_ms() -> int:
    """Milliseconds since boot: what an agent's uptime is counted by."""
    return time.monotonic_ns() // 1_000_000


class SwitchTelemetry:
    """Everything that one switch tells."""

    def __init__(self, plan: Plan, node: PlannedNode, state: Path, loop: selectors.BaseSelector) -> None:
        """Errors: WorldError if the namespace, the log group or an address cannot be had."""
        self.node = node
        self._config = plan.config
        self.sockets = open_node(node.name, node.namespace)
        links = self.sockets.links()
        ports = [
            SwitchPort(links[port.name].index, port.name, port.rate_bps, port.neighbour)
            for port in node.ports
            if port.name in links
        ]
        self.indexes = {port.index: port.name for port in ports}
        rate = max(1, plan.config.sampling_rate)
        self.agent = SwitchAgent(node.sflow, ports, rate, self.sockets.prefixes(), monotonic_ms())
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._out.bind((node.sflow, 0))
        self._out.setblocking(False)
        self.unsent = 0
        self.withheld = 0  # packets logged while a fault makes the sampler silent
        self._control = ControlFile(state / "switches" / node.name / SWITCH_FILE, switch_control)
        self._tree = Tree(state / "switches" / node.name / "sys")
        self.overlay = OverlayFile(state / "switches" / node.name)
        self._rates = {port.name: port.rate_bps for port in node.ports}
        if plan.config.sampling_rate:
            self._bind(loop, SAMPLE_GROUP, self.agent.take)
        self._bind(loop, DISCARD_GROUP, self.agent.discarded)

    def _bind(self, loop: selectors.BaseSelector, group: int, take: Callable[..., list[bytes]]) -> None:
        header_bytes = self._config.header_bytes
        requests = nflog.bind_requests(group, header_bytes - 14, WAIT_CS, QUEUE_THRESHOLD, NFLOG_BUFFER_BYTES)
        opened = open_group(self.node.namespace, group, requests)

        def packets(data: bytes) -> None:
            found = nflog.packets(data, header_bytes)
            if self._control.read().silent:
                self.withheld += self.agent.pass_over(found)
            else:
                self._send(take(found, monotonic_ms()))

        def ready() -> None:
            try:
                drain(opened, packets)
            except DataError as error:
                print(f"{self.node.name}: sample not understood: {error}", file=sys.stderr, flush=True)
            self._send(self.agent.flush(monotonic_ms()))

        loop.register(opened, selectors.EVENT_READ, ready)

    def count(self) -> None:
        """Send counter samples of all ports."""
        if self._control.read().silent == "all":
            return
        links, queues = self.read()
        overlay, now_ns = self.overlay.read(), time.monotonic_ns()
        errors = {
            index: overlay.some(self.node.port_entity(name), ETHERNET, now_ns) for index, name in self.indexes.items()
        }
        self._send(self.agent.counters(links, queues, monotonic_ms(), errors))

    def grow_tree(self) -> None:
        """Bring the tree of files up to date."""
        links, queues = self.read()
        files: dict[str, str] = {}
        for name, rate_bps in self._rates.items():
            if name in links:
                files |= net_files(links[name], queues.get(links[name].index), rate_bps)
        self._tree.write(files)

    def read(self) -> tuple[dict[str, Counters], dict[int, Queue]]:
        """Counters, with what is replayed, and queues now."""
        overlay, now_ns = self.overlay.read(), time.monotonic_ns()
        links = {
            name: overlay.link(self.node.port_entity(name), link, now_ns) for name, link in self.sockets.links().items()
        }
        return links, self.sockets.queues()

    def _send(self, datagrams: list[bytes]) -> None:
        for datagram in datagrams:
            for collector in self._config.collectors:
                try:
                    self._out.sendto(datagram, collector)
                except OSError as error:
                    # Nobody listens there (yet), or its buffer is full: UDP is lost silently, so is this, but counted.
                    self.unsent += 1
                    if error.errno not in (errno.ECONNREFUSED, errno.EAGAIN, errno.ENOBUFS):
                        raise


class HostTelemetry:
    """The tree of files of one host."""

    def __init__(self, node: PlannedNode, state: Path) -> None:
        self.node = node
        self._sockets: NodeSockets = open_node(node.name, node.namespace)
        root = state / "hosts" / node.name / "sys"
        self._tree = Tree(root)
        self._tcp = TcpSums()
        self._control = ControlFile(root.parent / EXPORTER_FILE, exporter_control)
        self._overlay = OverlayFile(root.parent)
        self._transport = {
            port.name: SharedCounters(root / f"class/infiniband/mlx5_{port.rail}/ports/1/hw_counters")
            for port in node.ports
            if port.rail >= 0
        }

    def grow_tree(self) -> None:
        """Bring the tree of files up to date."""
        links, queues = self._sockets.links(), self._sockets.queues()
        self._tcp.take(self._sockets.connections())
        if "sys" in self._control.read().frozen:
            return
        overlay, now_ns = self._overlay.read(), time.monotonic_ns()
        files: dict[str, str] = {}
        for port in self.node.ports:
            link = links.get(port.name)
            if link is None:
                continue
            entity = self.node.port_entity(port.name)
            link, queue = overlay.link(entity, link, now_ns), queues.get(link.index)
            files |= net_files(link, queue, port.rate_bps)
            if port.rail >= 0:
                files |= infiniband_files(port.rail, link, queue, port.rate_bps)
                files |= replayed_files(port.rail, overlay, entity, now_ns)
                counts = self._tcp.by_address.get(port.address, TcpCounts())
                own = Counter(transport_counters(counts))
                own.update(overlay.some(entity, RDMA_HW, now_ns))
                self._transport[port.name].bring_to(own)
        self._tree.write(files)


class KernelLog:
    """Shares the machine's kernel log out to the hosts whose processes it speaks of. Read only."""

    def __init__(self, plan: Plan, state: Path, loop: selectors.BaseSelector, path: str = "/dev/kmsg") -> None:
        """Errors: OSError if the log cannot be read."""
        self._state = state
        known = {host.name for host in plan.hosts}
        base = plan.cgroup.strip("/") + "/"

        def host_of_group(group: str) -> str | None:
            _, found, rest = group.partition(base)
            host = rest.partition("/")[0]
            return host if found and host in known else None

        self._sharer = Sharer(host_of_group)
        self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._handle, 0, os.SEEK_END)  # what was before the lab is not about the lab
        loop.register(self._handle, selectors.EVENT_READ, self._read)

    def _read(self) -> None:
        for _ in range(256):
            try:
                record = os.read(self._handle, 8192)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.EPIPE:  # records were overwritten before we read them; go on with the next
                    raise
                continue
            parts = record_parts(record)
            host = self._sharer.host_of(parts[2]) if parts else None
            if parts and host:
                append(self._state / "hosts" / host, parts[2], parts[0], parts[1])
