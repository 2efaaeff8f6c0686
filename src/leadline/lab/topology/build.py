"""From the numbers of a shape to hosts, switches, links and addresses.

leaf to host    10.<leaf>.<host>.0/31          switch .0, host .1; so a leaf owns 10.<leaf>.0.0/16
leaf to spine   10.<200 + spine>.<leaf>.0/31   spine .0, leaf .1
front end       172.16.<n>.0/31                fe1 .0, host .1; n counts hosts, then storage hosts
"""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Iterator

from leadline.lab.topology.partial import cut_off, without
from leadline.lab.topology.parts import SWITCH_PORT, Host, Link, Port, Role, Switch, Topology
from leadline.lab.topology.shape import Shape
from leadline.model.errors import UsageError

FRONTEND = "fe1"


def build(shape: Shape) -> Topology:
    """The cluster of a shape. The same shape gives the same cluster, names, addresses and GPU ids included.

    Errors: UsageError where `links_down` names a link that is none, or cuts hosts off.
    """
    full = _full(shape)
    if not shape.links_down:
        return full
    partial = without(full, shape.links_down)
    if lacks := cut_off(partial):
        raise UsageError(f"links_down: expected that all hosts reach each other, but {'; '.join(lacks)}")
    return partial


def _full(shape: Shape) -> Topology:
    cables = _Cables()
    for leaf, host, rail in _homes(shape):
        cables.join(
            (f"leaf{leaf}", None, f"10.{leaf}.{host}.0"),
            (f"h{host}", f"eth{rail}", f"10.{leaf}.{host}.1"),
            (shape.host_rate_bps, shape.queue_bytes, "backend"),
        )
    for leaf in range(1, shape.leaves + 1):
        for spine in range(1, shape.spines + 1):
            net = f"10.{200 + spine}.{leaf}"
            cables.join(
                (f"leaf{leaf}", None, f"{net}.1"),
                (f"spine{spine}", None, f"{net}.0"),
                (shape.uplink_bps, shape.queue_bytes, "backend"),
            )
    at_front = [(f"h{host}", "frontend") for host in range(1, shape.hosts + 1)]
    at_front += [(f"storage{k}", "storage") for k in range(1, shape.storage + 1)]
    for n, (node, role) in enumerate(at_front, start=1):
        cables.join(
            (FRONTEND, None, f"172.16.{n}.0"),
            (node, "fe0", f"172.16.{n}.1"),
            (shape.frontend_rate_bps, shape.frontend_queue_bytes, "storage" if role == "storage" else "frontend"),
        )
    machines = _machines(shape)
    return Topology(
        name=shape.name,
        hosts=tuple(_host(shape, k, machines[k], cables) for k in range(1, shape.hosts + 1)),
        switches=tuple(_switches(shape, cables)),
        links=tuple(cables.links),
        storage=tuple(_storage(k, cables) for k in range(1, shape.storage + 1)),
        shape=shape,
    )


def gpu_id(topology: str, host: str, index: int) -> str:
    """The UUID of an emulated GPU, stable over runs: `GPU-` and a version 5 UUID of where it is."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'{topology}/{host}/{index}')}"


def _homes(shape: Shape) -> Iterator[tuple[int, int, int]]:
    """(leaf, host, rail) of every backend NIC. Rail r of all hosts of a pod is on that pod's leaf r."""
    for host in range(1, shape.hosts + 1):
        for rail in range(shape.homes):
            yield shape.pod_of(host) * shape.homes + rail + 1, host, rail


def _machines(shape: Shape) -> dict[int, str]:
    """The machine of each host. A machine is cabled in one pod; which of the pod's hosts it carries says
    `machine_order`, so that neighbours by name need not share one."""
    found: dict[int, str] = {}
    number = 0
    for pod in range(shape.pods):
        hosts = [k for k in range(1, shape.hosts + 1) if shape.pod_of(k) == pod]
        if shape.machine_order:
            random.Random(f"{shape.name}/{shape.machine_order}/{pod}").shuffle(hosts)
        for first in range(0, len(hosts), shape.hosts_per_machine):
            number += 1
            found |= dict.fromkeys(hosts[first : first + shape.hosts_per_machine], f"m{number}")
    return found


def _host(shape: Shape, k: int, machine: str, cables: _Cables) -> Host:
    pod = shape.pod_of(k)
    first = next(host for host in range(1, k + 1) if shape.pod_of(host) == pod)
    rack = (k - first) // (shape.hosts_per_rack or shape.hosts) + 1
    name = f"h{k}"
    return Host(
        name=name,
        machine=machine,
        rack=f"p{pod + 1}r{rack}",
        pod=f"p{pod + 1}",
        gpus=tuple(gpu_id(shape.name, name, index) for index in range(shape.gpus)),
        ports=tuple(cables.ports[name]),
    )


def _storage(k: int, cables: _Cables) -> Host:
    name = f"storage{k}"
    return Host(name=name, machine=name, rack=name, pod="", gpus=(), ports=tuple(cables.ports[name]))


def _switches(shape: Shape, cables: _Cables) -> Iterator[Switch]:
    for leaf in range(1, shape.leaves + 1):
        yield Switch(f"leaf{leaf}", "leaf", f"p{(leaf - 1) // shape.homes + 1}", tuple(cables.ports[f"leaf{leaf}"]))
    for spine in range(1, shape.spines + 1):
        yield Switch(f"spine{spine}", "spine", "", tuple(cables.ports[f"spine{spine}"]))
    yield Switch(FRONTEND, "frontend", "", tuple(cables.ports[FRONTEND]))


class _Cables:
    """Joins ports in the order in which it is told; switch ports are numbered as they are joined."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.ports: defaultdict[str, list[Port]] = defaultdict(list)

    def join(self, a: tuple[str, str | None, str], b: tuple[str, str | None, str], how: tuple[int, int, Role]) -> None:
        rate_bps, queue_bytes, role = how
        ends = [self._port(end, role, 2 * len(self.links) + side) for side, end in enumerate((a, b))]
        self.links.append(Link(ends[0], ends[1], rate_bps, queue_bytes, role))

    def _port(self, end: tuple[str, str | None, str], role: Role, number: int) -> Port:
        node, name, address = end
        named = name or f"{SWITCH_PORT}{len(self.ports[node]) + 1}"
        # Locally administered, unique in the cluster, and readable: 02:4c:4c is Leadline's lab.
        mac = f"02:4c:4c:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        port = Port(node, named, role, address, 31, mac)
        self.ports[node].append(port)
        return port
