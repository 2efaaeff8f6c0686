"""What the telemetry of one lab consists of: data, written to `<state>/telemetry.json` and read by its processes.

The processes know the lab by this file alone. They need neither the topology's reader nor YAML, which keeps each of
them small; and who wants to know where something listens can look it up there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.model.errors import DataError, UsageError
from leadline.model.ids import entity_id

if TYPE_CHECKING:
    from leadline.lab.topology import Host, Port, Switch, Topology

FILE, READY, STATUS = "telemetry.json", "telemetry.ready", "telemetry.status.json"  # in the lab's state
SAMPLE_GROUP, DISCARD_GROUP = 7701, 7702  # log groups of NFLOG rules, in each switch's own namespace
QUEUE_THRESHOLD = 64  # samples that the kernel gathers before it wakes us
DCGM_PORT, NODE_PORT, NIC_PORT = 9400, 9100, 9417  # the last is that of exporters of `ethtool`
NODES_MAX = 254  # of a kind: the last byte of 127.77.<slot>.<number> and its like


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """What of the telemetry runs, and how often."""

    collectors: tuple[tuple[str, int], ...] = (("127.0.0.1", 6343),)
    sampling_rate: int = 100  # one packet in so many; 0: no flow samples
    header_bytes: int = 128
    counters_every_s: float = 10.0  # sFlow counter samples of each switch
    trees_every_s: float = 2.0
    exporters: bool = True
    lldp: bool = True
    lldp_every_s: int = 5
    kernel_log: bool = True
    nice: int = 10

    def __post_init__(self) -> None:
        """Errors: UsageError."""
        if self.sampling_rate < 0 or not 64 <= self.header_bytes <= 1024:
            raise UsageError(
                "telemetry needs sampling_rate >= 0 and header_bytes of 64 to 1024, got "
                f"{self.sampling_rate} and {self.header_bytes}"
            )
        if min(self.counters_every_s, self.trees_every_s, self.lldp_every_s) <= 0:
            raise UsageError("telemetry intervals must be over 0 seconds")


@dataclass(frozen=True, slots=True)
class PlannedPort:
    """A port as the telemetry needs it. `rail` is the number of a host's backend NIC, -1 for other ports."""

    name: str
    address: str
    neighbour: str
    rate_bps: int
    rail: int = -1


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A host or switch; `address` is the loopback address that its exporter has (and its sFlow agent, see `sflow`)."""

    name: str
    namespace: str
    number: int
    address: str
    ports: tuple[PlannedPort, ...]
    gpus: tuple[str, ...] = ()
    sflow: str = ""

    def port_entity(self, port: str) -> str:
        """Entity id of one of its ports; a node with an sFlow agent is a switch."""
        return entity_id("swport" if self.sflow else "port", self.name, port)


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it."""

    lab: str
    config: TelemetryConfig
    hosts: tuple[PlannedNode, ...]  # storage hosts too; they have no GPUs
    switches: tuple[PlannedNode, ...]
    cgroup: str = ""  # path of the lab's control group, as the kernel log tells it

    def write(self, state: Path) -> None:
        """Write it for the processes of the telemetry, whole or not at all."""
        write_json(state / FILE, asdict(self))


def make_plan(topology: Topology, lab: str, config: TelemetryConfig, namespaces: dict[str, str], cgroup: str) -> Plan:
    """The plan of a lab, in slot 0. Errors: UsageError for more switches or hosts than a slot has addresses."""
    nodes = (*topology.hosts, *topology.storage)
    if max(len(nodes), len(topology.switches)) > NODES_MAX:
        raise UsageError(
            f"telemetry has addresses for {NODES_MAX} hosts and switches, {topology.name} has {len(nodes)}"
        )
    hosts = tuple(
        PlannedNode(host.name, namespaces[host.name], number, "", _ports(topology, host), host.gpus)
        for number, host in enumerate(nodes, 1)
    )
    switches = tuple(
        PlannedNode(switch.name, namespaces[switch.name], number, "", _ports(topology, switch))
        for number, switch in enumerate(topology.switches, 1)
    )
    return in_slot(Plan(lab, config, hosts, switches, cgroup), 0)


def in_slot(plan: Plan, slot: int) -> Plan:
    """The plan with the loopback addresses of one slot: labs side by side have different ones."""
    return replace(
        plan,
        hosts=tuple(replace(host, address=f"127.78.{slot}.{host.number}") for host in plan.hosts),
        switches=tuple(
            replace(each, address=f"127.79.{slot}.{each.number}", sflow=f"127.77.{slot}.{each.number}")
            for each in plan.switches
        ),
    )


def read_plan(state: Path) -> Plan:
    """The plan that `Plan.write` wrote. Errors: OSError, DataError."""
    path = state / FILE
    try:
        found = json.loads(path.read_text())
        config = found["config"]
        config["collectors"] = tuple((str(host), int(port)) for host, port in config["collectors"])
        return Plan(
            found["lab"],
            TelemetryConfig(**config),
            tuple(map(_node, found["hosts"])),
            tuple(map(_node, found["switches"])),
            found["cgroup"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(str(path), "a telemetry plan", repr(error)) from error


def sflow_senders(plan: Plan, indexes: dict[str, dict[int, str]]) -> list[dict[str, object]]:
    """The list that Leadline's `ingest.sflow.sender_files` reads. `indexes`: port names by ifIndex of each switch."""
    return [
        {"address": switch.sflow, "switch": switch.name, "ports": {str(i): n for i, n in indexes[switch.name].items()}}
        for switch in plan.switches
    ]


def scrape_targets(plan: Plan) -> dict[str, list[dict[str, object]]]:
    """Target lists in the manner of Prometheus' file_sd, by file name. Labels name what loopback addresses hide."""
    gpu_hosts = [host for host in plan.hosts if host.gpus]
    return {
        "dcgm.json": [_target(host, DCGM_PORT, "dcgm-exporter", {"nodename": host.name}) for host in gpu_hosts],
        "hosts.json": [_target(host, NODE_PORT, "node-exporter", {"nodename": host.name}) for host in plan.hosts],
        "nics.json": [_target(host, NIC_PORT, "ethtool-exporter", {"nodename": host.name}) for host in gpu_hosts],
        "switches.json": [_target(each, NODE_PORT, "switch", {"switch": each.name}) for each in plan.switches],
    }


def _target(node: PlannedNode, port: int, job: str, labels: dict[str, str]) -> dict[str, object]:
    return {"targets": [f"{node.address}:{port}"], "labels": {"job": job, **labels}}


def write_json(path: Path, value: object) -> None:
    """Write a small file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(json.dumps(value))
    partial.replace(path)


def _ports(topology: Topology, node: Host | Switch) -> tuple[PlannedPort, ...]:
    rails = {port.name: rail for rail, port in enumerate(_backend(node))}
    return tuple(
        PlannedPort(
            port.name,
            port.address,
            topology.neighbour(port).address,
            topology.link_of(port).rate_bps,
            rails.get(port.name, -1),
        )
        for port in node.ports
    )


def _backend(node: Host | Switch) -> Iterable[Port]:
    return node.backend if hasattr(node, "backend") else ()


def _node(found: dict[str, Any]) -> PlannedNode:
    ports = tuple(PlannedPort(**port) for port in found["ports"])
    return PlannedNode(**{**found, "ports": ports, "gpus": tuple(found["gpus"])})
