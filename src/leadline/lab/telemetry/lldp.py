"""LLDP on every node: a real lldpd in each namespace, so that neighbours are found and not assumed.

Each daemon has a control socket of its own (`<state>/lldp/<node>.socket`; `lldpcli -u SOCKET show neighbors`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.model.errors import WorldError

if TYPE_CHECKING:
    from leadline.lab.realise.cluster import Cluster
    from leadline.lab.realise.process import Process


@dataclass(frozen=True, slots=True)
class Lldp:
    """The daemons of a lab, by node."""

    processes: dict[str, Process]


def directory(state: Path) -> Path:
    """Where the control sockets are."""
    return state / "lldp"


def control_socket(state: Path, node: str) -> Path:
    """The control socket of a node's daemon."""
    return directory(state) / f"{node}.socket"


# The daemon asks the resolver for its own full name, and a lab has no name server: the answer that never comes must
# not be waited for long. Then it is told its name (first, or each further setting asks again).
# And it locks itself up where the file of a wrong clock is not.
_ENVIRONMENT = {"RES_OPTIONS": "timeout:1 attempts:1", "LD_PRELOAD": ""}


def configuration(node: str, every_s: int) -> str:
    """What lldpcli is told at the daemon's start. Ports are told by interface name, as switches do."""
    return (
        f"configure system hostname {node}\n"
        f"configure lldp tx-interval {every_s}\n"
        "configure lldp tx-hold 4\n"
        "configure lldp portidsubtype ifname\n"
        'configure system description "Leadline lab"\n'
        "configure system ip management pattern none\n"
    )


def program() -> str | None:
    """Where lldpd is, or None."""
    return shutil.which("lldpd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin:/bin")


def start(cluster: Cluster, every_s: int, nice: int, detached: bool = False) -> Lldp:
    """Start a daemon on every node. Errors: WorldError if lldpd is not installed."""
    found = program()
    if found is None:
        raise WorldError("lldpd is not installed (Debian: apt install lldpd); or switch telemetry.lldp off")
    where = directory(cluster.state)
    where.mkdir(exist_ok=True)
    processes = {}
    for node in cluster.topology.nodes:
        ports = ",".join(port.name for port in cluster.topology.node(node).ports)
        settings = where / f"{node}.conf"
        settings.write_text(configuration(node, every_s))
        # In the foreground (-d), so that it dies with us; -r would only listen.
        argv = [found, "-d", "-u", str(control_socket(cluster.state, node)), "-I", ports, "-C", ports]
        argv += ["-O", str(settings), "-S", "Leadline lab", "-P", "Linux"]
        processes[node] = cluster.spawn(node, argv, name="lldpd", env=_ENVIRONMENT, nice=nice, detached=detached)
    return Lldp(processes)
