"""A topology as rows of the table `relation`, as a site's own inventory would give them."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.lab.topology.parts import Topology
from leadline.model.ids import entity_id

SOURCE = "inventory"


def relations(topology: Topology, from_ns: int) -> list[dict[str, object]]:
    """Rows of `relation` that hold since `from_ns`: ports and GPUs in hosts, ports in switches, ports linked,
    and the addresses of ports.

    What a real inventory does not know is not told: which hosts share an emulated machine stands in the truth only.
    """
    return [
        {
            "child": child,
            "parent": parent,
            "kind": kind,
            "from_ns": from_ns,
            "to_ns": None,
            "source": SOURCE,
            "confidence": 1.0,
        }
        for child, kind, parent in _edges(topology)
    ]


def _edges(topology: Topology) -> Iterator[tuple[str, str, str]]:
    for host in topology.hosts:
        whole = entity_id("host", host.name)
        for gpu in host.gpus:
            yield entity_id("gpu", gpu), "in", whole
        for port in host.ports:
            yield port.id, "in", whole
            yield entity_id("address", port.address), "in", port.id
    for storage in topology.storage:
        for port in storage.ports:
            yield port.id, "in", entity_id("storage", storage.name)
            yield entity_id("address", port.address), "in", port.id
    for switch in topology.switches:
        for port in switch.ports:
            yield port.id, "in", entity_id("switch", switch.name)
            yield entity_id("address", port.address), "in", port.id  # that routers answer traces with
    for link in topology.links:
        yield link.b.id, "linked", link.a.id
