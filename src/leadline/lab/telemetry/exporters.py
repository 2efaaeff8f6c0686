"""The exporters of one host, in a process of their own: the GPUs' page and the ports' page.

A process per host, because an exporter that hangs (SIGSTOP) is one of the lab's faults, and it must be that host's
alone. It does nothing until it is asked.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from leadline.lab.realise.namespaces import call_in, inode
from leadline.lab.telemetry.controls import EXPORTER_FILE, ControlFile, ToldPage, exporter_control
from leadline.lab.telemetry.gpu_model import Control, Gpu, GpuSpec, controls_from, idle_gpu, later, pci_address
from leadline.lab.telemetry.gpu_pages import Shown, gpu_page
from leadline.lab.telemetry.gpu_processes import GpuProcesses
from leadline.lab.telemetry.http_pages import PageServer
from leadline.lab.telemetry.node_pages import ShownPort, netstat_values, nic_page, node_page
from leadline.lab.telemetry.overlay import OverlayFile, card_metrics, gpu_metrics, port_metrics
from leadline.lab.telemetry.plan import DCGM_PORT, NIC_PORT, NODE_PORT, PlannedNode, PlannedPort
from leadline.lab.telemetry.sockets import NodeSockets, open_node
from leadline.lab.telemetry.sysfs_tree import nic_pci
from leadline.model.errors import DataError, LeadlineError

CONTROL_FILE = "gpu_control.json"
_READ_LEAST_S = 0.2  # two scrapers at once must not divide by a moment


@dataclass(slots=True)
class HostGpus:
    """The emulated GPUs of one host, brought up to date whenever somebody looks."""

    host: str
    uuids: tuple[str, ...]
    control: Path
    processes: GpuProcesses
    spec: GpuSpec = field(default_factory=GpuSpec)
    _gpus: dict[str, Gpu] = field(default_factory=dict)
    _controls: dict[str, Control] = field(default_factory=dict)
    _seen: tuple[int, int] = (0, 0)
    _overlay: OverlayFile = field(init=False)

    def __post_init__(self) -> None:
        self._overlay = OverlayFile(self.control.parent)

    def page(self, now_s: float) -> bytes:
        """The exposition page now."""
        controls = self._read_controls()
        if now_s - min((gpu.at_s for gpu in self._gpus.values()), default=float("-inf")) >= _READ_LEAST_S:
            self._bring_up_to(now_s, controls)
        overlay, now_ns = self._overlay.read(), time.monotonic_ns()
        shown = [
            Shown(
                index,
                controls.get(uuid, Control()).duplicate_of or uuid,
                pci_address(uuid),
                self._gpus[uuid],
                gpu_metrics(overlay, f"gpu:{uuid}", now_ns),
            )
            for index, uuid in enumerate(self.uuids)
            if not controls.get(uuid, Control()).lost
        ]
        return gpu_page(self.host, self.spec, shown)

    def _bring_up_to(self, now_s: float, controls: dict[str, Control]) -> None:
        uses = self.processes.read(now_s)
        for uuid in self.uuids:
            gpu = self._gpus.get(uuid)
            if gpu is None:
                self._gpus[uuid] = idle_gpu(self.spec, now_s)
                continue
            busy_ratio = uses[uuid].busy_s / (now_s - gpu.at_s)
            control = controls.get(uuid, Control())
            self._gpus[uuid] = later(self.spec, gpu, now_s, busy_ratio, uses[uuid].memory_bytes, control)

    def _read_controls(self) -> dict[str, Control]:
        """What faults want of the GPUs. A file that cannot be understood is told once, and the last one holds."""
        try:
            status = self.control.stat()
            if (status.st_mtime_ns, status.st_ino) != self._seen:
                self._seen = (status.st_mtime_ns, status.st_ino)
                self._controls = controls_from(json.loads(self.control.read_text()), str(self.control))
        except FileNotFoundError:
            self._controls = {}
        except (OSError, ValueError, DataError) as error:
            print(f"{self.control}: not used: {error}", file=sys.stderr, flush=True)
        return self._controls


@dataclass(slots=True)
class NodePorts:
    """The ports' page of one node: counters read from its namespace when somebody asks."""

    node: PlannedNode
    sockets: NodeSockets
    netstat: Callable[[], dict[str, int]] = dict
    overlay: OverlayFile | None = None  # None: nothing is replayed

    def page(self) -> bytes:
        """The exposition page now; empty if the namespace is gone."""
        shown = self._shown()
        if shown and not self.node.sflow:  # a host's agent tells its ports: what only drivers know is a page of its own
            shown = [ShownPort(each.link, each.queue, each.rate_bps) for each in shown]
        return node_page(shown, self.netstat()) if shown else b""

    def nic_page(self) -> bytes:
        """The page of what only the drivers, modules and slots of a host's NICs tell."""
        return nic_page(self._shown())

    def _shown(self) -> list[ShownPort]:
        """All ports; none if the namespace is gone."""
        try:
            links, queues = self.sockets.links(), self.sockets.queues()
        except LeadlineError as error:
            print(f"{self.node.name}: ports not read: {error}", file=sys.stderr, flush=True)
            return []
        return [
            self._with_replay(port, ShownPort(links[port.name], queues.get(links[port.name].index), port.rate_bps))
            for port in self.node.ports
            if port.name in links
        ]

    def _with_replay(self, port: PlannedPort, shown: ShownPort) -> ShownPort:
        """With what is played into it, if it is one that a fabric has: a host's backend NIC, any port of a switch."""
        if self.overlay is None or (port.rail < 0 and not self.node.sflow):
            return shown
        overlay, now_ns, entity = self.overlay.read(), time.monotonic_ns(), self.node.port_entity(port.name)
        link, metrics = overlay.link(entity, shown.link, now_ns), port_metrics(overlay, entity, now_ns)
        if port.rail < 0:
            return ShownPort(link, shown.queue, shown.rate_bps, metrics)
        card = card_metrics(overlay, entity, now_ns)
        return ShownPort(link, shown.queue, shown.rate_bps, metrics, card, nic_pci(port.rail))


def serve_host(state: Path, node: PlannedNode) -> None:
    """Serve the pages of one host until killed. Errors: WorldError if an address is taken."""
    loop = selectors.DefaultSelector()
    told = ControlFile(state / "hosts" / node.name / EXPORTER_FILE, exporter_control)
    if node.gpus:
        processes = GpuProcesses(inode(node.namespace) or 0, node.gpus)
        gpus = HostGpus(node.name, node.gpus, state / "hosts" / node.name / CONTROL_FILE, processes)
        shown = ToldPage("gpu", told, lambda: gpus.page(time.monotonic()))
        PageServer(loop, node.address, DCGM_PORT, shown.page)
    replay = OverlayFile(state / "hosts" / node.name)
    ports = NodePorts(node, open_node(node.name, node.namespace), netstat_reader(node.namespace), replay)
    PageServer(loop, node.address, NODE_PORT, ToldPage("ports", told, ports.page).page)
    PageServer(loop, node.address, NIC_PORT, ToldPage("ports", told, ports.nic_page).page)
    while True:
        for key, _ in loop.select():
            key.data()


def netstat_reader(namespace: str) -> Callable[[], dict[str, int]]:
    """A function that reads the TCP counters of a namespace, from files that were opened inside it."""
    files = call_in(
        namespace,
        lambda: [os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("netstat", "snmp")],
    )

    def read() -> dict[str, int]:
        return netstat_values(*(os.pread(file, 1 << 16, 0).decode() for file in files))

    return read
