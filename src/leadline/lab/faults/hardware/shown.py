"""What pages and files of a lab tell of an entity now: the proof that a replayed fault is to be seen.

Read where Leadline itself reads: the host's exporters over HTTP, the files of its NICs. What nobody tells (no telemetry
runs, or its exporter hangs, or only sFlow has it) is None.
"""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterable
from pathlib import Path

from leadline.lab.faults.hardware.replay import Cast, node_directory, parts_of
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import plan
from leadline.lab.telemetry.overlay import DCGM, ETHTOOL_NIC, PCI_WIDTH, REMAP_FAILURE, REMAP_PENDING, RX_POWER
from leadline.lab.telemetry.plan import DCGM_PORT, NIC_PORT, NODE_PORT, Plan
from leadline.model.errors import DataError
from leadline.model.ids import kind_of, name_of

WAIT_S = 1.0  # an exporter may hang: that is a fault of its own
_GPU_METRICS = frozenset((*DCGM, REMAP_FAILURE, REMAP_PENDING))


def shown(lab: RunningLab, fault: str, cast: Cast) -> dict[str, object]:
    """`entity name` -> value, of every counter and gauge that the fault's replay has for its cast."""
    wanted = {place.entity: (place.node, parts_of(fault)[part].names) for part, of in cast.items() for place in of}
    pages: dict[tuple[str, int], dict[str, float]] = {}
    out: dict[str, object] = {}
    for entity, (node, names) in wanted.items():
        for name in names:
            value = _of_page(lab, pages, node, entity, name) if _on_page(name) else _of_file(lab, node, entity, name)
            out[f"{entity} {name}"] = value
    return out


def _on_page(name: str) -> bool:
    return name in ETHTOOL_NIC or name in _GPU_METRICS or name in (RX_POWER,)


def _of_page(
    lab: RunningLab, pages: dict[tuple[str, int], dict[str, float]], node: str, entity: str, name: str
) -> float | None:
    nic = kind_of(entity) == "port"
    port = DCGM_PORT if name in _GPU_METRICS else NIC_PORT if nic else NODE_PORT
    if (node, port) not in pages:
        pages[node, port] = page(lab, node, port)
    label = f'UUID="{name_of(entity)}"' if port == DCGM_PORT else f'device="{entity.rpartition("/")[2]}"'
    metric = f"node_ethtool_{name}" if name in ETHTOOL_NIC else name
    found = (
        value for stream, value in pages[node, port].items() if stream.startswith(metric + "{") and label in stream
    )
    return next(found, None)


def page(lab: RunningLab, node: str, port: int) -> dict[str, float]:
    """Values by stream of a node's page; empty if nobody answers in time."""
    address = _address(lab, node)
    if address is None:
        return {}
    connection = http.client.HTTPConnection(address, port, timeout=WAIT_S)
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode(errors="replace")
        connection.close()
        lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {stream: float(value) for stream, _, value in lines}
    connection.close()
    return {}


def _address(lab: RunningLab, node: str) -> str | None:
    try:
        found: Plan = plan.read_plan(lab.state)
    except (OSError, DataError):
        return None
    return next((each.address for each in (*found.hosts, *found.switches) if each.name == node), None)


def _of_file(lab: RunningLab, node: str, entity: str, name: str) -> float | None:
    """A number from the tree of a NIC or port, wherever its driver has that counter."""
    root, port = node_directory(lab, node) / "sys" / "class", entity.rpartition("/")[2]
    for path in _candidates(root, port, name):
        with contextlib.suppress(OSError, ValueError):
            return float(path.read_text().split()[0])
    return None


def _candidates(root: Path, port: str, name: str) -> Iterable[Path]:
    yield root / "net" / port / "statistics" / name
    for device in sorted((root / "infiniband").glob(f"*/device/net/{port}/ifindex")):
        nic = device.parents[3]
        if name == PCI_WIDTH:
            yield nic / "device" / name
        yield from (nic / "ports/1/counters" / name, nic / "ports/1/hw_counters" / name)
