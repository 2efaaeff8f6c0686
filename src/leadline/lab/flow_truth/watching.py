"""Reading the counters of all switches of a running lab, every second, into the file of flows' truth.

A thread of the run does it, on netlink sockets opened in the switches' namespaces: no program is started for a
reading. Spans end at whole seconds; a switch that is read later than 0.1 s after one has a span that ends when it was
read.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from leadline.lab.flow_truth import counting
from leadline.lab.flow_truth.counting import Count, Counted
from leadline.lab.flow_truth.table import SCHEMA, FlowTruthFile
from leadline.lab.telemetry.sockets import ask, open_node
from leadline.model.errors import LeadlineError
from leadline.model.ids import flow_id

if TYPE_CHECKING:
    from leadline.lab.realise.cluster import Cluster
    from leadline.lab.topology import Switch

EVERY_NS = 10**9
LATE_NS_MAX = EVERY_NS // 10
_ANSWER_S_MAX = 5.0


@dataclass(slots=True)
class _Read:
    """One switch: how it is asked, what it said last and when."""

    name: str
    opened: socket.socket
    sets: dict[str, str]  # and the port of each
    link_of: dict[str | int, str]  # by a port's name and by its ifIndex
    until_ns: int
    last: dict[Counted, Count] = field(default_factory=dict)
    absent: set[Counted] = field(default_factory=set)  # of `last`, what the last answer did not have

    def counted(self) -> dict[Counted, Count]:
        """All its counters, now. Errors: WorldError, DataError."""
        found: dict[Counted, Count] = {}
        for name, port in self.sets.items():
            found |= counting.counts(ask(self.opened, counting.request(name), self.name), name, port)
        return found

    def take(self, now: dict[Counted, Count], until_ns: int) -> None:
        """Remember a reading. What it lacks is gone if the next lacks it too: a set that grows meanwhile may pass over
        some, a counter that was idle for minutes begins anew.
        """
        lacking = self.last.keys() - now.keys()
        self.last = {each: self.last[each] for each in lacking - self.absent} | now
        self.absent = lacking & self.last.keys()
        self.until_ns = until_ns


class FlowWatch:
    """Counts the flows of a cluster from `start` to `stop`; what it found is then in its file."""

    def __init__(self, cluster: Cluster, file: FlowTruthFile) -> None:
        self._cluster = cluster
        self._file = file
        self._ids: dict[tuple[str, str, int, int, int, int | None], bytes] = {}
        self._reads: list[_Read] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow-truth", daemon=True)
        self._late_ns_max = 0
        self.failures: list[str] = []  # what could not be read; the next reading has it, unless its counters are gone
        self.missed = 0  # packets that no counter took; known after `stop`
        self._unwritable = False  # what follows a batch that broke off could not be read: the truth ends there

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._file.rows

    def start(self) -> None:
        """Tell the switches to count, and begin to read. Errors: WorldError."""
        for switch in self._cluster.topology.switches:
            ports = [port.name for port in switch.ports]
            self._cluster.command(switch.name, ["nft", "-f", "-"], counting.rules(ports))
            self._reads.append(self._opened(switch, ports))
        self._thread.start()

    def stop(self) -> None:
        """Read once more, make the file and give everything back. Harmless if it never started."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._read_all(time.time_ns())
            self.missed = sum(self._missed(each.name) for each in self._reads)
            self._file.tell("packets_missed", self.missed)
        self._file.tell("late_ns_max", self._late_ns_max)
        self._file.tell("readings_failed", len(self.failures))
        try:
            self._file.finish()
        finally:
            self._give_back()

    def _give_back(self) -> None:
        for each in self._reads:
            each.opened.close()
            with contextlib.suppress(LeadlineError):  # the namespace is gone, with its rules
                self._cluster.command(each.name, ["nft", "delete", "table", "inet", counting.TABLE])
        self._reads.clear()

    def _opened(self, switch: Switch, ports: list[str]) -> _Read:
        topology = self._cluster.topology
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        opened = self._cluster.socket_in(switch.name, socket.AF_NETLINK, kind, counting.NETLINK_NETFILTER)
        opened.settimeout(_ANSWER_S_MAX)
        opened.bind((0, 0))
        node = open_node(switch.name, self._cluster.namespace(switch.name))
        try:
            links = node.links()
        finally:
            node.close()
        link_of: dict[str | int, str] = {port.name: topology.link_of(port).id for port in switch.ports}
        link_of |= {links[name].index: link for name, link in link_of.items() if name in links}
        return _Read(switch.name, opened, counting.sets_of(ports), link_of, time.time_ns())

    def _run(self) -> None:
        while True:
            due_ns = (time.time_ns() // EVERY_NS + 1) * EVERY_NS
            if self._ending.wait((due_ns - time.time_ns()) / 1e9):
                return
            self._read_all(due_ns)

    def _add(self, rows: list[dict[str, object]]) -> None:
        try:
            self._file.add(pa.Table.from_pylist(rows, SCHEMA))
        except OSError as error:  # the disk is full
            self._unwritable = True
            self.failures.append(f"{self._file.path}: {error}; what came after is not in it")

    def _read_all(self, due_ns: int) -> None:
        rows: list[dict[str, object]] = []
        for each in self._reads:
            try:
                now = each.counted()
            except LeadlineError as error:
                self.failures.append(f"{each.name}: {error}")
                continue
            late_ns = time.time_ns() - due_ns
            self._late_ns_max = max(self._late_ns_max, late_ns)
            until_ns = due_ns if late_ns <= LATE_NS_MAX else due_ns + late_ns
            if until_ns > each.until_ns:  # the machine's clock was not set back
                rows += self._rows(each, counting.grown(each.last, now), until_ns)
                each.take(now, until_ns)
        if rows and not self._unwritable:
            self._add(rows)

    def _rows(self, read: _Read, more: dict[Counted, Count], until_ns: int) -> list[dict[str, object]]:
        return [
            {
                "flow": self._id(counted),
                **dict(zip(Counted._fields[:6], counted[:6], strict=True)),
                "switch": read.name,
                "in_link": read.link_of.get(counted.in_port),
                "out_link": read.link_of.get(counted.out_port),
                "from_ns": read.until_ns,
                "to_ns": until_ns,
                "packets": count.packets,
                "bytes": count.bytes,
                "sprayed": False,
            }
            for counted, count in more.items()
        ]

    def _id(self, counted: Counted) -> bytes:
        key = (counted.src_ip, counted.dst_ip, counted.protocol, counted.src_port, counted.dst_port, counted.dst_qp)
        found = self._ids.get(key)
        if found is None:
            source, target, protocol, source_port, target_port, pair = key
            whole = flow_id(protocol, source, target, source_port, target_port, pair)
            found = self._ids[key] = whole.to_bytes(16, "little")
        return found

    def _missed(self, switch: str) -> int:
        try:
            listing = self._cluster.command(
                switch, ["nft", "--json", "list", "counter", "inet", counting.TABLE, "missed"]
            )
            return counting.missed(listing)
        except LeadlineError as error:
            self.failures.append(f"{switch}: {error}")
            return 0
