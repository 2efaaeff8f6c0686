"""Facts of an entity: from the labels of its streams, from what its host told of it, from the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadline.model.ids import EntityId, kind_of, name_of
from leadline.model.tables.verdicts import EVENT
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.compare.settings import EVENTS
from leadline.views.entity.around import Near
from leadline.views.entity.streams import Stream
from leadline.views.incidents.view import GPU_LABEL, Where
from leadline.views.rows import json_rows

TOLD_MAX = 40  # facts of one entity
VALUE_MAX = 300  # characters

# Labels that say what a thing is, in the order in which they are told. The first stream that has one counts.
_LABELS: dict[str, tuple[tuple[str, str], ...]] = {
    "gpu": (
        ("modelName", "model"), ("hw.model", "model"), (GPU_LABEL, "number on its host"), ("pci_bus_id", "PCI address"),
        ("DCGM_FI_DRIVER_VERSION", "driver"), ("GPU_I_PROFILE", "MIG profile"), ("hw.serial_number", "serial number"),
    ),
    "host": (
        ("release", "kernel"), ("machine", "architecture"), ("pretty_name", "system"), ("rack", "rack"), ("pod", "pod"),
        ("zone", "zone"), ("product_name", "model"), ("system_vendor", "vendor"),
    ),
    "port": (("firmware_version", "firmware"), ("board_id", "board"), ("address", "MAC address"), ("duplex", "duplex")),
    "xcvr": (("vendor_name", "vendor"), ("part_number", "part"), ("serial_number", "serial number")),
}  # fmt: skip
_HOST_LABELS = ("exported_nodename", "nodename", "Hostname", "host.name")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is known; `entity`: where the value is one."""

    name: str
    value: str
    entity: str | None = None


def facts(
    entity: str, streams: Sequence[Stream], near: Iterable[Near], told: Mapping[str, str], parts: Sequence[str]
) -> list[Fact]:
    """All facts, the ones that say what it is first."""
    kind = kind_of(entity)
    labels = [
        Fact(name, value)
        for label, name in _LABELS.get(kind, ())
        if (value := next((each.labels[label] for each in streams if each.labels.get(label)), ""))
    ]
    found = [*labels, *_places(entity, near, parts), *(Fact(name, value) for name, value in sorted(told.items()))]
    once: dict[tuple[str, str], Fact] = {}
    for each in found:
        once.setdefault((each.name, each.value), each)
    return [Fact(each.name, each.value[:VALUE_MAX], each.entity) for each in list(once.values())[:TOLD_MAX]]


def _places(entity: str, near: Iterable[Near], parts: Sequence[str]) -> list[Fact]:
    """Where it is: host or switch by its name, links and addresses by the graph; of a host how much it has."""
    one = EntityId.of(entity)
    found = []
    if one.kind in ("port", "xcvr") and one.holder:
        found.append(Fact("host", one.first, f"host:{one.first}"))
    if one.kind == "swport":
        found.append(Fact("switch", one.first, f"switch:{one.first}"))
    if one.kind == "link":
        found += [Fact("end", each, each) for each in parts]
    if one.kind == "switch":
        found.append(Fact("ports", str(len(parts) - 1)))
    counts: dict[str, int] = {}
    for each in near:
        other = kind_of(each.entity)
        if each.link:
            found.append(Fact("linked to", each.entity, each.entity))
            found.append(Fact("link", each.link, each.link))
        elif other == "address":
            found.append(Fact("address", name_of(each.entity)))
        elif one.kind == "gpu" and other == "host":
            found.append(Fact("host", name_of(each.entity), each.entity))
        elif one.kind == "host" and other in ("gpu", "port"):
            counts[other] = counts.get(other, 0) + 1
    names = {"gpu": "GPUs", "port": "ports"}
    many = one.kind == "switch"  # its links stand among its neighbours
    return [*(each for each in found if not many or each.name not in ("linked to", "link")),
            *(Fact(names[kind], str(count)) for kind, count in sorted(counts.items()))]  # fmt: skip


def called(entity: str, streams: Iterable[Stream], host: str) -> str:
    """What people call it: `h5 GPU 4`; empty where nobody tells."""
    number = next((each.labels[GPU_LABEL] for each in streams if each.labels.get(GPU_LABEL)), "")
    return Where({entity: host}, {entity: number}).name(entity) if host else ""


def host_in(entity: str, streams: Iterable[Stream], near: Iterable[Near]) -> str:
    """The host that something is in, as an id; empty where neither name, graph nor labels tell."""
    one = EntityId.of(entity)
    if one.kind == "host":
        return entity
    if one.kind in ("port", "process") and one.holder:
        return f"host:{one.first}"
    if found := next((each.entity for each in near if kind_of(each.entity) == "host"), ""):
        return found
    names = (each.labels[label] for each in streams for label in _HOST_LABELS if each.labels.get(label))
    return f"host:{name}" if one.kind == "gpu" and (name := next(names, "")) else ""


def told_facts(store: Store, asked: Asked, entity: str) -> dict[str, str]:
    """What its host or job last told of it as settings (`host-info`, `port-info`, ...), by name."""
    where = " AND ".join(
        [*asked.conditions(), "entity = {entity:String}", "kind IN {kinds:Array(String)}", "time_ns <= {at_ns:Int64}"]
    )
    sql = f"SELECT attributes FROM leadline.{EVENT.name} WHERE {where} ORDER BY time_ns DESC LIMIT 1"
    rows = json_rows(store.query(sql, {**asked.parameters(sql), "entity": entity, "kinds": list(EVENTS)}))
    return {str(name): str(value) for name, value in rows[0]["attributes"].items()} if rows else {}
