"""What this host is made of and set to: kernel, processor, memory, GPU driver; of each port driver, firmware, MTU.

Told as events `host-info` and `port-info` when the agent starts and when something changed, with the settings as
attributes. Source: linux/ethtool.h, ETHTOOL_GDRVINFO, ETHTOOL_GRINGPARAM, ETHTOOL_GPAUSEPARAM; proc(5); os-release(5).
"""

from __future__ import annotations

import array
import fcntl
import os
import platform
import re
import socket
import struct
from contextlib import closing

from leadline.host.found import Event, Found
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.ethtool import SIOCETHTOOL
from leadline.host.sources.site import Site, read_if_there
from leadline.host.sources.source import Source
from leadline.model.errors import WorldError
from leadline.model.ids import entity_id

GDRVINFO, GRINGPARAM, GPAUSEPARAM = 0x03, 0x10, 0x12
DRIVER_BYTES = 196  # struct ethtool_drvinfo
EVERY_S_MIN = 60.0  # settings change seldom, and some drivers ask their firmware
PORTS_MAX = 128
VALUE_MAX = 200
NUMBERS = ("mtu", "speed", "tx_queue_len")  # of /sys/class/net/PORT


def _settings(site: Site) -> str:
    """Read the settings of host and ports. Errors: WorldError where none is told."""
    with closing(Inventory(site)) as source:
        events = source.poll(0).events
    if not events:
        raise WorldError("neither /proc nor a driver says anything of this host")
    return f"{sum(len(each.attributes) for each in events)} settings"


class Inventory(Source):
    """Versions and settings of the host and its ports."""

    name = "inventory"
    reports = "kernel, system, processor, memory, GPU driver; of each port driver, firmware, MTU, speed, rings, pause"
    told_as = "events `host-info`, `port-info`, at the start and when something changed"
    accesses = (
        Access(
            "versions and settings",
            _settings,
            "`leadline compare` cannot find a host whose kernel, driver or firmware differs",
            Grant(service="no ProcSubset=pid in its unit"),
            ("new-software",),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._said: dict[str, dict[str, str]] = {}
        self._asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    @property
    def every_s(self) -> float:
        return max(self.site.config.interval_s, EVERY_S_MIN)

    def poll(self, now_ns: int) -> Found:
        seen = {entity_id("host", self.site.host): self._host()}
        names = [name for _, name in socket.if_nameindex() if self.site.counts_interface(name)]
        seen |= {self.site.port(name): self._port(name) for name in names[:PORTS_MAX]}
        events = []
        for entity, found in seen.items():
            before = self._said.get(entity)
            # What is not known just now (the speed of a port that is down) has not changed.
            settings = {**(before or {}), **found}
            if settings and settings != before:
                events.append(info_event(entity, settings, before, now_ns))
                self._said[entity] = settings
        return Found(events=events)

    def close(self) -> None:
        self._asked.close()

    def _host(self) -> dict[str, str]:
        proc = self.site.config.proc_root
        return {
            "kernel": os.uname().release,
            "architecture": platform.machine(),
            "os": parse_os_release(read_if_there("/etc/os-release")),
            **parse_processors(read_if_there(proc / "cpuinfo")),
            **parse_memory(read_if_there(proc / "meminfo")),
            **parse_gpu_driver(read_if_there(proc / "driver" / "nvidia" / "version")),
            **parse_command_line(read_if_there(proc / "cmdline")),
        }

    def _port(self, interface: str) -> dict[str, str]:
        folder = self.site.config.sys_root / "class" / "net" / interface
        found = parse_numbers({name: read_if_there(folder / name) for name in NUMBERS})
        for command, size, parse in (
            (GDRVINFO, DRIVER_BYTES, parse_driver),
            (GRINGPARAM, 36, parse_rings),
            (GPAUSEPARAM, 16, parse_pause),
        ):
            try:
                found |= parse(self._ask(interface, struct.pack("=I", command) + bytes(size - 4)))
            except OSError:
                continue  # the driver does not tell it
        return found

    def _ask(self, interface: str, request: bytes) -> bytes:
        """One ioctl; the kernel writes the answer where the request lies. Errors: OSError."""
        memory = array.array("B", request + bytes(64))
        pointer, _ = memory.buffer_info()
        fcntl.ioctl(self._asked, SIOCETHTOOL, struct.pack("16sP16x", interface.encode()[:15], pointer))
        return memory.tobytes()[: len(request)]


def info_event(entity: str, settings: dict[str, str], before: dict[str, str] | None, now_ns: int) -> Event:
    """The event that tells the settings of an entity; its message says what changed."""
    kind = f"{entity.partition(':')[0]}-info"
    if before is None:
        return Event(now_ns, entity, kind, "info", f"{len(settings)} settings", settings, "agent/inventory")
    changed = sorted(name for name in settings if settings[name] != before.get(name))
    message = "; ".join(f"{name}: {before.get(name, 'unknown')} -> {settings[name]}" for name in changed)
    return Event(now_ns, entity, kind, "info", message[:1000], settings, "agent/inventory")


def parse_os_release(text: bytes) -> str:
    """PRETTY_NAME."""
    match = re.search(rb'^PRETTY_NAME="?([^"\n]*)"?$', text, re.M)
    return _text(match[1]) if match else "unknown"


def parse_processors(text: bytes) -> dict[str, str]:
    """Model, microcode and number of logical processors, from /proc/cpuinfo; what it has not is left out."""
    found = {}
    model = re.search(rb"^model name\s*:\s*(.+)$", text, re.M)
    microcode = re.search(rb"^microcode\s*:\s*(.+)$", text, re.M)
    count = len(re.findall(rb"^processor\s*:", text, re.M))
    if model:
        found["cpu_model"] = _text(model[1])
    if microcode:
        found["cpu_microcode"] = _text(microcode[1])
    if count:
        found["cpus"] = str(count)
    return found


def parse_memory(text: bytes) -> dict[str, str]:
    """Memory in GiB: hosts of one kind differ by some pages."""
    match = re.search(rb"^MemTotal:\s*(\d{1,15}) kB$", text, re.M)
    return {"memory": f"{int(match[1]) / 2**20:.0f} GiB"} if match else {}


def parse_gpu_driver(text: bytes) -> dict[str, str]:
    """The version of NVIDIA's kernel module."""
    match = re.search(rb"Kernel Module\s+(?:for \S+\s+)?(\d[\w.]*)", text)
    return {"gpu_driver": _text(match[1])} if match else {}


def parse_command_line(text: bytes) -> dict[str, str]:
    """Parameters of the kernel that change how fast a host is; the others (disks, keys, consoles) are not told."""
    wanted = re.findall(
        rb"(?:^|\s)(isolcpus|nohz_full|intel_idle\.max_cstate|processor\.max_cstate|intel_pstate|amd_pstate|iommu"
        rb"|intel_iommu|amd_iommu|mitigations|hugepages|transparent_hugepage|numa_balancing|pci)=(\S+)",
        text,
    )
    return {f"kernel.{_text(name)}": _text(value) for name, value in wanted}


def parse_numbers(texts: dict[str, bytes]) -> dict[str, str]:
    """Numbers of sysfs; a speed of -1 is not known."""
    found = {name: text.strip() for name, text in texts.items()}
    told = {name: _text(text) for name, text in found.items() if text.isdigit() and len(text) < 20}
    if "speed" in told:
        told["speed"] += " Mbit/s"
    return told


def parse_driver(answer: bytes) -> dict[str, str]:
    """Driver, its version and the firmware's, of struct ethtool_drvinfo."""
    driver, version, firmware = (_text(answer[at : at + 32].partition(b"\0")[0]) for at in (4, 36, 68))
    found = {"driver": driver, "driver_version": version, "firmware": firmware}
    return {name: value for name, value in found.items() if value and value != "N/A"}


def parse_rings(answer: bytes) -> dict[str, str]:
    """Sizes of the receive and transmit rings, of struct ethtool_ringparam; those of a port without rings are 0."""
    if len(answer) < 36:
        return {}
    fields = struct.unpack("=9I", answer[:36])
    return {"rx_ring": str(fields[5]), "tx_ring": str(fields[8])} if fields[1] or fields[4] else {}


def parse_pause(answer: bytes) -> dict[str, str]:
    """Link-level flow control, of struct ethtool_pauseparam."""
    if len(answer) < 16:
        return {}
    _, negotiated, receives, sends = struct.unpack("=4I", answer[:16])
    return {"pause": f"rx {_switch(receives)}, tx {_switch(sends)}", "pause_autoneg": _switch(negotiated)}


def _switch(value: int) -> str:
    return "on" if value else "off"


def _text(raw: bytes) -> str:
    return "".join(each for each in raw.decode("utf-8", "replace").strip() if each.isprintable())[:VALUE_MAX]
