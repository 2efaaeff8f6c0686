"""How a running lab is: what the kernel says about each port, and what runs on each node."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from leadline.lab.realise import leftovers
from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import Switch

_RATE = re.compile(r"^class htb 1:10 .*? rate (\d+)([KMG]?)bit ", re.MULTILINE)
_FACTOR = {"": 1, "K": 1000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class PortStatus:
    """One port as the kernel counts it since the lab came up."""

    port: str  # entity id
    peer: str
    role: str
    carrier: bool
    carrier_changes: int
    rate_bps: int | None  # that it is shaped to now; None if it is not
    sent_bytes: int
    received_bytes: int
    dropped: int  # packets that its queue had no room for
    queue_bytes: int  # waiting now


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node: its ports, and the programs that run on it by name."""

    node: str
    kind: str  # leaf, spine, frontend, host, storage
    ports: tuple[PortStatus, ...]
    programs: dict[str, int]


def status(cluster: Cluster) -> list[NodeStatus]:
    """Every node of a lab that is up. Errors: WorldError if one of its namespaces is gone."""
    programs: dict[str, Counter[str]] = {}
    for pid, node in leftovers.processes_of(cluster.record).items():
        programs.setdefault(node, Counter())[_program(pid)] += 1
    return [
        NodeStatus(node, _kind(cluster, node), _ports(cluster, node), dict(programs.get(node, {})))
        for node in cluster.topology.nodes
    ]


def _ports(cluster: Cluster, node: str) -> tuple[PortStatus, ...]:
    ports = cluster.topology.node(node).ports
    links = {each["ifname"]: each for each in json.loads(cluster.command(node, ["ip", "-j", "-s", "-s", "link"]))}
    queues = queues_of(cluster.command(node, ["tc", "-j", "-s", "qdisc", "show"]))
    classes = "".join(f"class show dev {port.name}\n" for port in ports)
    rates: list[int | None] = list(rates_of(cluster.command(node, ["tc", "-batch", "-"], classes)))
    if len(rates) != len(ports):  # some port is not shaped, and the text does not say which
        rates = [None] * len(ports)
    found = []
    for port, rate_bps in zip(ports, rates, strict=True):
        link = links[port.name]
        sent, received = link["stats64"]["tx"], link["stats64"]["rx"]
        dropped, waiting = queues.get(port.name, (0, 0))
        found.append(
            PortStatus(
                port=port.id,
                peer=cluster.topology.neighbour(port).id,
                role=port.role,
                carrier="LOWER_UP" in link["flags"],
                carrier_changes=sent["carrier_changes"],
                rate_bps=rate_bps,
                sent_bytes=sent["bytes"],
                received_bytes=received["bytes"],
                dropped=dropped,
                queue_bytes=waiting,
            )
        )
    return tuple(found)


def queues_of(listing: str) -> dict[str, tuple[int, int]]:
    """(packets dropped, bytes waiting) of the queue at each port, from `tc -j -s qdisc show`."""
    return {
        each["dev"]: (each.get("drops", 0), each.get("backlog", 0))
        for each in json.loads(listing)
        if each["kind"] == "bfifo"
    }


def rates_of(listing: str) -> list[int]:
    """Rates in bit/s, one per shaped port, from `tc class show`."""
    return [int(number) * _FACTOR[unit] for number, unit in _RATE.findall(listing)]


def _kind(cluster: Cluster, node: str) -> str:
    found = cluster.topology.node(node)
    if isinstance(found, Switch):
        return found.tier
    return "storage" if found in cluster.topology.storage else "host"


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"
