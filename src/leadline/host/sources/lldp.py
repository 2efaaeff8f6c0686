"""Neighbours of this host's ports, as lldpd hears them: `lldpcli -f json0 show neighbors`.

lldpcli runs beside us and is read when it has something, so that nothing else waits for it. A neighbour that says it
is a bridge or a router is a switch, any other a host. Source: lldpcli(8), format json0 (every element a list).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from leadline.host.found import Edge, Found
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source
from leadline.model.errors import DataError, WorldError
from leadline.model.ids import entity_id

ANSWER_BYTES_MAX = 4 * 1024 * 1024
FIRST_S = 2.0  # at first, until neighbours are there, we ask more often
FIRST_ANSWERS = 15
PROGRAMS = "/usr/sbin:/usr/local/sbin:/usr/bin:/sbin:/bin"  # daemons have no sbin in their PATH
SOCKET = "/run/lldpd.socket"  # lldpcli's own default
ASK_S = 3.0  # of one question whose answer is waited for
FORWARDS = frozenset({"Bridge", "Router"})


def _neighbours(site: Site) -> str:
    """Ask lldpd for neighbours. Errors: PermissionError, WorldError where lldpcli or lldpd is not there."""
    socket_path = site.config.lldp_socket or SOCKET
    try:
        asked = subprocess.run(_command(site), capture_output=True, timeout=ASK_S, check=False)
    except subprocess.TimeoutExpired:
        raise WorldError("lldpcli did not answer; is lldpd well?") from None
    if asked.returncode != 0:
        if os.path.exists(socket_path) and not os.access(socket_path, os.R_OK | os.W_OK, effective_ids=True):
            raise PermissionError(f"{socket_path}: Permission denied")
        raise WorldError(f"lldpcli ended with {asked.returncode}; does lldpd run?")
    return f"{len(parse_neighbours(asked.stdout, site.host))} neighbours"


def _command(site: Site) -> list[str]:
    """Errors: PermissionError for a lldpcli that others may run, WorldError if there is none."""
    program = shutil.which("lldpcli", path=PROGRAMS)
    if program is None:
        closed = shutil.which("lldpcli", mode=os.F_OK, path=PROGRAMS)
        if closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), closed)
        raise WorldError("there is no lldpcli; install lldpd to see neighbours")
    given = site.config.lldp_socket
    return [program, *(["-u", given] if given else []), "-f", "json0", "show", "neighbors"]


class Lldp(Source):
    """Links to the ports of neighbours."""

    name = "lldp"
    reports = "neighbours, as lldpd hears them"
    told_as = "relation `linked`, from when to when"
    accesses = (
        Access(
            "neighbours (lldpd)",
            _neighbours,
            "the switch port behind each NIC is unknown: no paths through the fabric, unless another source tells it",
            Grant(
                service="install and start lldpd; root, or the group _lldpd (SupplementaryGroups=_lldpd)",
                pod="the image has no lldpcli: run the agent as a package where lldpd is to be asked",
            ),
            ("marginal-optic", "switch-loss", "blackhole", "congestion"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._command = _command(site)
        self._asked: subprocess.Popen[bytes] | None = None
        self._answer = bytearray()
        self._unheard = 0  # answers without a neighbour since the start
        self._hurries = True

    @property
    def every_s(self) -> float:
        usual_s = self.site.config.lldp_interval_s
        return min(FIRST_S, usual_s) if self._hurries else usual_s

    def poll(self, now_ns: int) -> Found:
        if self._asked is not None:  # no answer since the last time
            self.close()
            self._hurries = False
            raise WorldError("lldpcli did not answer; is lldpd well?")
        quiet = subprocess.DEVNULL
        self._asked = subprocess.Popen(self._command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet)
        assert self._asked.stdout is not None
        os.set_blocking(self._asked.stdout.fileno(), False)
        return Found()

    @property
    def pending(self) -> bool:
        return self._asked is not None

    def watched(self) -> Sequence[int]:
        return (self._asked.stdout.fileno(),) if self._asked is not None and self._asked.stdout is not None else ()

    def ready(self, handle: int, now_ns: int) -> Found:
        part = os.read(handle, 65_536)
        self._answer += part
        if part and len(self._answer) <= ANSWER_BYTES_MAX:
            return Found()
        answer, asked = bytes(self._answer), self._asked
        assert asked is not None
        code = asked.wait(1.0) if not part else -1
        self.close()
        if code != 0:
            self._hurries = False
            raise WorldError(f"lldpcli ended with {code}; does lldpd run?")
        edges = [each for each in parse_neighbours(answer, self.site.host) if self._counts(each)]
        self._unheard += not edges
        self._hurries = not edges and self._unheard < FIRST_ANSWERS
        return Found(edges=edges)

    def _counts(self, edge: Edge) -> bool:
        return self.site.counts_interface(edge.child.rpartition("/")[2])

    def close(self) -> None:
        asked, self._asked = self._asked, None
        self._answer.clear()
        if asked is not None:
            if asked.stdout is not None:
                asked.stdout.close()
            if asked.poll() is None:
                asked.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                asked.wait(1.0)


def parse_neighbours(text: bytes, host: str) -> list[Edge]:
    """Edges from this host's ports to their neighbours' ports. Errors: DataError for what is not lldpcli's JSON."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError("lldpcli", "JSON", str(error)[:120]) from None
    edges = []
    for lldp in _list(whole, "lldp"):
        for interface in _list(lldp, "interface"):
            edge = _edge(interface, host)
            if edge is not None:
                edges.append(edge)
    return edges


def _edge(interface: Any, host: str) -> Edge | None:
    """The edge of one interface, or None where the neighbour does not name itself and its port."""
    name = interface.get("name") if isinstance(interface, dict) else None
    if not isinstance(name, str) or not name:
        return None
    for chassis in _list(interface, "chassis"):
        for port in _list(interface, "port"):
            neighbour, far = _value(chassis, "name"), _port_name(port)
            if neighbour and far:
                kind = "swport" if _forwards(chassis) else "port"
                return Edge(entity_id("port", host, name), entity_id(kind, neighbour, far), "linked")
    return None


def _port_name(port: Any) -> str:
    """The name of a port: its id if that is a name, else its description (where the id is an address)."""
    for each in _list(port, "id"):
        if isinstance(each, dict) and each.get("type") in ("ifname", "local"):
            return str(each.get("value", ""))
    return _value(port, "descr")


def _forwards(chassis: Any) -> bool:
    return any(
        isinstance(each, dict) and each.get("type") in FORWARDS and each.get("enabled") is True
        for each in _list(chassis, "capability")
    )


def _value(parent: Any, name: str) -> str:
    for each in _list(parent, name):
        if isinstance(each, dict) and isinstance(each.get("value"), str):
            return str(each["value"])
    return ""


def _list(parent: Any, name: str) -> list[Any]:
    found = parent.get(name) if isinstance(parent, dict) else None
    return found if isinstance(found, list) else []
