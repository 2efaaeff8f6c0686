"""Where a job's connections really pass: so that a fault of one path befalls a path in use.

The kernel of each switch is asked (`ip route get`) which way it sends a flow, hop by hop. Only the lab may know this:
real switches do not tell, and no analysis may use it. Connections get new ports with each run, so which paths are in
use is not the same for a seed in every run; the choice among them is the seed's.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.lab.running import RunningLab
from leadline.lab.topology import Port
from leadline.model.errors import WorldError
from leadline.model.ids import kind_of

HOPS_MAX = 8
DRAWS_MAX = 50  # of links, until one is in use
USED_LEAST = 0.05  # a path with less than this share of the bytes is one of keep-alives and acknowledgements
_CARRIED = re.compile(r"\bbytes_(?:received|acked):(\d+)")


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of a TCP connection: what `source` sends to `target`."""

    source: str
    target: str
    source_port: int
    target_port: int
    carried_bytes: int  # of both directions


def flows_from(lab: RunningLab, host: str) -> list[Flow]:
    """The established TCP connections of a host between ports of the lab. Errors: WorldError."""
    lines = lab.cluster.command(host, ["ss", "-Htnio", "state", "established"]).splitlines()
    known = _ports(lab)
    found = []
    for head, info in zip(lines, [*lines[1:], ""], strict=False):
        words = head.split()
        if len(words) < 4 or not words[0].isdigit():
            continue  # the second line of a connection
        (source, source_port), (target, target_port) = (_end(each) for each in words[2:4])
        if source in known and target in known:
            carried = sum(map(int, _CARRIED.findall(info)))
            found.append(Flow(source, target, source_port, target_port, carried))
    return found


def ways(lab: RunningLab, flows: Sequence[Flow]) -> list[list[Port]]:
    """The ports of switches by which each flow leaves them, in order. Errors: WorldError."""
    known, topology = _ports(lab), lab.cluster.topology
    found: list[list[Port]] = [[] for _ in flows]
    at = {number: topology.neighbour(known[flow.source]) for number, flow in enumerate(flows)}
    for _ in range(HOPS_MAX):
        by_node: dict[str, list[int]] = defaultdict(list)
        for number, entry in at.items():
            if kind_of(entry.id) == "swport":
                by_node[entry.node].append(number)
        if not by_node:
            break
        for node, numbers in by_node.items():
            for number, out in zip(numbers, _answers(lab, node, [(flows[n], at[n]) for n in numbers]), strict=True):
                port = topology.node(node).port(out)
                found[number].append(port)
                at[number] = topology.neighbour(port)
    return found


def switches_to(lab: RunningLab, host: str, tier: str) -> list[str]:
    """Switches of a tier through which traffic to a host passes now, by name; empty if nothing is known of it."""
    address = lab.cluster.address(host)
    tiers = {each.name: each.tier for each in lab.cluster.topology.switches}
    carried: Counter[str] = Counter()
    others = [each for each in _hosts(lab) if each != host]
    for flow, ports in _traced(lab, others):
        if flow.target == address:
            carried.update({port.node: flow.carried_bytes for port in ports if tiers[port.node] == tier})
    return _much(carried)


def some_used_link(lab: RunningLab, rng: random.Random, kinds: Iterable[str] = ("host", "uplink")) -> str:
    """A backend link that a job uses; between switches one that carries its connections now. Errors: UsageError."""
    kinds = tuple(kinds)
    carried: Counter[str] = Counter()
    topology = lab.cluster.topology
    for flow, ports in _traced(lab, _hosts(lab)) if "uplink" in kinds else ():
        for port in ports:
            link = topology.link_of(port)
            if lab.host_end(link) is None:
                carried[link.id] += flow.carried_bytes
    used = set(_much(carried))
    for _ in range(DRAWS_MAX):
        name = lab.some_link(rng, kinds)
        if not used or name in used or lab.host_end(lab.link(name)) is not None:
            return name
    return rng.choice(sorted(used))


def _traced(lab: RunningLab, hosts: Iterable[str]) -> list[tuple[Flow, list[Port]]]:
    try:
        flows = [flow for host in hosts for flow in flows_from(lab, host)]
        return list(zip(flows, ways(lab, flows), strict=True))
    except WorldError:
        return []  # no `ss`, or a node without a route just now: then any path will do


def _hosts(lab: RunningLab) -> list[str]:
    return sorted({one.host for job in lab.jobs.values() for one in job.ranks})


def _much(carried: Mapping[str, int]) -> list[str]:
    most = max(carried.values(), default=0)
    return sorted(name for name, count in carried.items() if count and count >= USED_LEAST * most)


def _answers(lab: RunningLab, node: str, asked: Sequence[tuple[Flow, Port]]) -> list[str]:
    """The port by which a switch sends each of these flows that came in by that port."""
    lines = "".join(
        f"route get {flow.target} from {flow.source} iif {entry.name} ipproto tcp "
        f"sport {flow.source_port} dport {flow.target_port}\n"
        for flow, entry in asked
    )
    told = lab.cluster.command(node, ["ip", "-batch", "-"], lines).splitlines()
    ports = [line.split(" dev ")[1].split()[0] for line in told if " dev " in line]
    if len(ports) != len(asked):
        raise WorldError(f"{node}: asked for {len(asked)} routes, it told {len(ports)}")
    return ports


def _ports(lab: RunningLab) -> dict[str, Port]:
    topology = lab.cluster.topology
    return {port.address: port for host in (*topology.hosts, *topology.storage) for port in host.ports}


def _end(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.removeprefix("[::ffff:").removesuffix("]"), int(port)
