"""What a cluster consists of: ports, links, hosts, switches, and the topology that holds them.

               spine1            spine2
              /      \\          /      \\          leaf-spine links: `a` is the leaf's port, `b` the spine's
           leaf1      leaf2  ...
            |  \\      /  |
            |   \\    /   |                         host links: `a` is the switch's port, `b` the host's
           h1    \\  /    h2      fe1 (front end: data, logs, checkpoints; storage1 hangs here too)

The `a` end of a link is the one that is taken down when the link flaps: downing the host's end would flush the host's
routes, which a pulled cable does not do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from leadline.lab.topology.shape import Shape
from leadline.model.errors import UsageError
from leadline.model.ids import entity_id, link_id, name_of

Role = Literal["backend", "frontend", "storage"]
Tier = Literal["leaf", "spine", "frontend"]

SWITCH_PORT = "Ethernet"  # switch ports are Ethernet1, Ethernet2, ...; no NIC is called that


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a link: a NIC port of a host or a port of a switch."""

    node: str
    name: str
    role: Role
    address: str  # IPv4, one of the two of a /31
    prefix_len: int
    mac: str

    @property
    def id(self) -> str:
        """Its entity id, `port:h3/eth0` or `swport:leaf1/Ethernet3`."""
        kind = "swport" if self.name.startswith(SWITCH_PORT) else "port"
        return entity_id(kind, self.node, self.name)


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two ports. `rate_bps` holds in each direction, `queue_bytes` is each sending port's queue."""

    a: Port
    b: Port
    rate_bps: int
    queue_bytes: int
    role: Role

    @property
    def id(self) -> str:
        """Its entity id, the same whichever end is named first."""
        return link_id(self.a.id, self.b.id)

    @property
    def ends(self) -> tuple[Port, Port]:
        """Both ports."""
        return self.a, self.b


@dataclass(frozen=True, slots=True)
class Host:
    """A training host, or a storage host (no GPU). Several hosts of one `machine` share its uplink and oscillator."""

    name: str
    machine: str
    rack: str
    pod: str
    gpus: tuple[str, ...]  # UUIDs, `GPU-...`
    ports: tuple[Port, ...]

    def port(self, name: str) -> Port:
        """The port of that name. Errors: UsageError."""
        return _named(self.ports, name, self.name)

    @property
    def backend(self) -> tuple[Port, ...]:
        """Its ports in the backend fabric, by rail."""
        return tuple(port for port in self.ports if port.role == "backend")

    @property
    def primary(self) -> Port:
        """The port that its own traffic leaves by: eth<(k-1) % homes> of host k, so that ring neighbours are on
        different leaves; a host without backend has its front end."""
        backend = self.backend
        return backend[(int(self.name.lstrip("h")) - 1) % len(backend)] if backend else self.ports[0]


@dataclass(frozen=True, slots=True)
class Switch:
    """A router with ports Ethernet1..N."""

    name: str
    tier: Tier
    pod: str
    ports: tuple[Port, ...]

    def port(self, name: str) -> Port:
        """The port of that name. Errors: UsageError."""
        return _named(self.ports, name, self.name)


Node = Host | Switch


@dataclass(frozen=True)
class Topology:
    """The whole cluster, and the shape it was built from."""

    name: str
    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]
    storage: tuple[Host, ...]
    shape: Shape
    _nodes: dict[str, Node] = field(init=False, repr=False, compare=False)
    _link_of: dict[tuple[str, str], Link] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        everything: tuple[Node, ...] = (*self.switches, *self.hosts, *self.storage)
        nodes = {node.name: node for node in everything}
        object.__setattr__(self, "_nodes", nodes)
        links = {(port.node, port.name): link for link in self.links for port in link.ends}
        object.__setattr__(self, "_link_of", links)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes: switches, hosts, storage hosts."""
        return tuple(self._nodes)

    @property
    def ports(self) -> tuple[Port, ...]:
        """All ports of all nodes."""
        return tuple(port for node in self._nodes.values() for port in node.ports)

    def node(self, name: str) -> Node:
        """The host or switch of that name. Errors: UsageError naming those that there are."""
        found = self._nodes.get(name)
        if found is None:
            raise UsageError(f"no node {name!r} in topology {self.name}; it has {', '.join(self._nodes)}")
        return found

    def host(self, name: str) -> Host:
        """The host (or storage host) of that name. Errors: UsageError."""
        found = self.node(name)
        if not isinstance(found, Host):
            raise UsageError(f"{name!r} of topology {self.name} is a switch, not a host")
        return found

    def switch(self, name: str) -> Switch:
        """The switch of that name. Errors: UsageError."""
        found = self.node(name)
        if not isinstance(found, Switch):
            raise UsageError(f"{name!r} of topology {self.name} is a host, not a switch")
        return found

    def port(self, name: str) -> Port:
        """The port `node/port` (an entity id of a port will do). Errors: UsageError."""
        node, _, port = (name_of(name) or name).partition("/")
        return self.node(node).port(port)

    def link(self, name: str) -> Link:
        """The link by its id (`link:` may be left out) or by the port at either end. Errors: UsageError."""
        plain = name_of(name) or name
        first, _, second = plain.partition("~")
        port = self.port(first)
        link = self.link_of(port)
        if second and link.id != link_id(first, second):
            raise UsageError(f"no link {name!r} in topology {self.name}; {port.id} is at {link.id}")
        return link

    def link_between(self, name: str) -> Link:
        """The link with these two ends, each a port or only its node: `h3~leaf1`. Errors: UsageError."""
        wanted = (name_of(name) or name).split("~")
        for link in self.links:
            ends = [{end.node, f"{end.node}/{end.name}"} for end in link.ends]
            for first, second in (ends, ends[::-1]):
                if len(wanted) == 2 and wanted[0] in first and wanted[1] in second:
                    return link
        known = ", ".join(f"{link.a.node}~{link.b.node}" for link in self.links[:6])
        raise UsageError(f"no link {name!r} in {self.name}; there are {known}, ...")

    def link_of(self, port: Port) -> Link:
        """The link that a port is at."""
        return self._link_of[port.node, port.name]

    def neighbour(self, port: Port) -> Port:
        """The port at the other end of a port's link."""
        link = self.link_of(port)
        return link.b if port == link.a else link.a

    def neighbours(self, node: str) -> tuple[tuple[Port, Port], ...]:
        """(own port, port it is linked to) of a node, in the order of its ports. Errors: UsageError."""
        return tuple((port, self.neighbour(port)) for port in self.node(node).ports)

    def machines(self) -> dict[str, tuple[Host, ...]]:
        """The hosts of each emulated machine."""
        found: dict[str, tuple[Host, ...]] = {}
        for host in self.hosts:
            found[host.machine] = (*found.get(host.machine, ()), host)
        return found


def _named(ports: tuple[Port, ...], name: str, node: str) -> Port:
    for port in ports:
        if port.name == name:
            return port
    raise UsageError(f"{node} has no port {name!r}; it has {', '.join(port.name for port in ports)}")
