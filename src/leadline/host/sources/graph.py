"""What this host knows of the graph without asking anybody: its ports and their addresses, its GPUs, its ranks."""

from __future__ import annotations

import logging
import re
import socket

from leadline.host.found import Edge, Found
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.links import all_addresses
from leadline.host.sources.site import Site, read, read_if_there
from leadline.host.sources.source import Source
from leadline.model.errors import DataError, UsageError, WorldError
from leadline.model.ids import entity_id, parse_entity_id
from leadline.wire.netlink.links import Address

GPUS_MAX = 64
ADDRESSES_MAX = 256
LOG = logging.getLogger("leadline.agent")


def _addresses(site: Site) -> str:
    """Ask for the addresses of this host. Errors: OSError."""
    return f"{len(all_addresses())} addresses"


def _gpus(site: Site) -> str:
    """Which GPUs the driver lists, or the configuration. Errors: OSError, WorldError where neither has any."""
    root = site.config.proc_root / "driver" / "nvidia" / "gpus"
    found = [read(path) for path in sorted(root.glob("*/information"))]
    gpus = [uuid for uuid in map(parse_gpu_information, found) if uuid] or site.config.gpus
    if not gpus:
        raise WorldError(f"no GPU in {root}, none in agent.gpus")
    return f"{len(gpus)} GPUs"


class Graph(Source):
    """Edges of the host itself."""

    name = "graph"
    reports = "ports, GPUs and ranks of this host"
    told_as = "relations `in`, `runs-on`, `member`"
    accesses = (
        Access(
            "addresses (netlink)",
            _addresses,
            "flows cannot be assigned to hosts by their addresses: no paths, and nobody to name for a full link",
            Grant(service="AF_NETLINK in RestrictAddressFamilies of its unit"),
            ("congesting-job", "congestion"),
        ),
        Access(
            "GPUs of the driver",
            _gpus,
            "the GPUs of this host are known only from dcgm-exporter, or from ranks that name theirs",
            Grant(service="NVIDIA's driver, or the UUIDs in agent.gpus", pod="the UUIDs in agent.config.gpus"),
            ("gpu-lost", "slow-gpu"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._gpus = self._driver_gpus() or site.config.gpus
        self._addresses: list[Address] = []
        self._said = ""  # of addresses, last

    def poll(self, now_ns: int) -> Found:
        host = entity_id("host", self.site.host)
        ports = {number: name for number, name in socket.if_nameindex() if self.site.counts_interface(name)}
        edges = [Edge(self.site.port(name), host, "in") for name in ports.values()]
        edges += self._held_by(ports)
        edges += self._rdma_of(set(ports.values()))
        edges += [Edge(entity_id("gpu", uuid), host, "in") for uuid in self._gpus[:GPUS_MAX]]
        for rank in self.site.ranks.values():
            process = entity_id("process", self.site.host, str(rank.pid))
            edges.append(Edge(rank.entity, host, "runs-on", rank.start_ns))
            edges.append(Edge(process, rank.entity, "member", rank.start_ns))
            if _is_gpu(rank.gpu):
                edges.append(Edge(rank.entity, rank.gpu, "runs-on", rank.start_ns))
        return Found(edges=edges)

    def _held_by(self, ports: dict[int, str]) -> list[Edge]:
        """The addresses of these ports. Where the kernel does not tell them now, those it told last: ports and ranks
        are told all the same, and no address ends because of it.
        """
        said = ""
        try:
            self._addresses = all_addresses()
        except (OSError, DataError) as error:
            self.site.counts.add("agent_source_failed", "read")
            said = f"addresses cannot be read, those of before are kept: {error}"
        held = sorted((address, ports[number]) for number, address in self._addresses if number in ports)
        if len(held) > ADDRESSES_MAX:
            said = said or f"{len(held)} addresses, the first {ADDRESSES_MAX} are reported (agent.interfaces_not)"
        if said and said != self._said:
            LOG.warning("source graph: %s", said)
        self._said = said
        return [Edge(entity_id("address", each), self.site.port(name), "in") for each, name in held[:ADDRESSES_MAX]]

    def _rdma_of(self, ports: set[str]) -> list[Edge]:
        """Each RDMA device on the interface that its first GID is of: counters of RDMA stand under the device's name,
        cables and addresses under the interface's."""
        found = []
        for device in sorted((self.site.config.sys_root / "class" / "infiniband").glob("*")):
            first = read_if_there(device / "ports" / "1" / "gid_attrs" / "ndevs" / "0")
            told = first.decode("ascii", "replace").strip()
            if told in ports and told != device.name:
                found.append(Edge(self.site.port(device.name), self.site.port(told), "in"))
        return found

    def _driver_gpus(self) -> list[str]:
        """The UUIDs that NVIDIA's driver tells under /proc/driver/nvidia/gpus."""
        found = []
        for path in sorted((self.site.config.proc_root / "driver" / "nvidia" / "gpus").glob("*/information")):
            uuid = parse_gpu_information(read_if_there(path))
            if uuid:
                found.append(uuid)
        return found


def parse_gpu_information(text: bytes) -> str:
    """The UUID in the `information` of a GPU, or an empty text (`GPU-????` until the driver has initialised it)."""
    match = re.search(rb"^GPU UUID:\s*(GPU-[0-9a-fA-F-]+)\s*$", text, re.M)
    return match[1].decode() if match else ""


def _is_gpu(entity: str) -> bool:
    try:
        return parse_entity_id(entity).kind == "gpu"
    except UsageError:
        return False
