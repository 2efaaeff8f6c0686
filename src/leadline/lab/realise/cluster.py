"""A topology made of network namespaces: hosts and switches that forward, queue and drop as the kernel does.

    with Cluster(load("clos8"), name="demo") as cluster:
        cluster.spawn("h3", ["iperf3", "-s"], name="iperf")
        print(cluster.command("leaf1", ["ip", "route"]))

Built inert; `up` makes everything and `down` removes it, both as often as one likes. What a killed lab left behind is
found by its record (`state`) and removed by the next `up`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from leadline.lab import faketime, state
from leadline.lab.realise import cgroups, drops, leftovers, namespaces, offload, plan, privileges, process
from leadline.lab.realise.cgroups import Cgroup
from leadline.lab.realise.drops import DropRule
from leadline.lab.realise.process import Process
from leadline.lab.realise.resident import Resident
from leadline.lab.state import LabRecord
from leadline.lab.topology import Host, Shape, Topology, build, routes
from leadline.model.errors import UsageError, WorldError

T = TypeVar("T")

# A lab has no name server. Launchers look up the name of their host when they start; each such question would wait for
# 10 s or more, as resolv.conf has it (the resolver's defaults are 5 s, twice), and here for the shortest that there is.
NO_NAMES = {"RES_OPTIONS": "timeout:1 attempts:1"}
WORKERS = 4  # threads that set nodes up; the kernel serialises most of it, more did not help


class Cluster:
    """One running lab. Methods may be called from several threads, `up` and `down` from one at a time."""

    def __init__(self, topology: Topology, name: str = "lab", state_root: Path | None = None) -> None:
        """Inert. Errors: UsageError for a name that cannot be part of a namespace's name."""
        self.topology = topology
        self.name = state.checked_name(name)
        self._root = state.state_root(state_root)
        self._record = LabRecord(
            name=name,
            owner_pid=0,
            owner_start=0,
            boot_id=state.boot_id(),
            created_ns=0,
            topology=topology.name,
            shape=asdict(topology.shape),
            nodes=topology.nodes,
        )
        self._residents: dict[str, Resident] = {}
        self._started: list[Process] = []
        self._down_links: set[str] = set()
        self._residents_lock = threading.Lock()
        self._links_lock = threading.Lock()  # two links may flap at once
        self._up = False

    @classmethod
    def attach(cls, name: str = "lab", state_root: Path | None = None) -> Self:
        """A lab that another process made. Errors: UsageError if there is none of that name."""
        root = state.state_root(state_root)
        record = state.read(root, state.checked_name(name))
        if record is None:
            there = ", ".join(state.labs(root)) or "none"
            raise UsageError(f"no lab {name!r} is up (up: {there}); `leadline lab up` makes one")
        shape: dict[str, object] = record.shape
        cluster = cls(build(Shape(**shape)), name, root)  # type: ignore[arg-type]
        cluster._record = record
        cluster._up = True
        return cluster

    @property
    def state(self) -> Path:
        """The lab's directory."""
        return self._root / self.name

    @property
    def record(self) -> LabRecord:
        """What is written down about it."""
        return self._record

    def up(self, *, keep: bool = False) -> None:
        """Make it. With `keep` it outlives this process. Errors: WorldError, and then nothing of it is left."""
        if self._up:
            return
        privileges.require()
        with state.claims(self._root):
            leftovers.clear_dead(self._root)
            other = state.read(self._root, self.name)
            if other is not None:
                owner = f"process {other.owner_pid}" if other.owner_pid else "`leadline lab down` removes it"
                raise UsageError(f"a lab {self.name!r} is up already ({owner}); choose another --name")
            foreign = [name for name in self._record.namespaces.values() if namespaces.inode(name) is not None]
            if foreign:
                raise WorldError(
                    f"network namespace {foreign[0]} is there and no lab of ours made it; remove it or use another name"
                )
            self._record = replace(state.adopted(self._record, keep=False), created_ns=time.time_ns())
            state.write(self._root, self._record)
        try:
            self._make()
            self._record = replace(state.adopted(self._record, keep=keep), up=True)
            state.write(self._root, self._record)
        except BaseException:
            self.down()
            raise
        self._up = True

    def down(self) -> None:
        """Remove all of it: processes, namespaces, control groups, directory. Harmless when nothing is there."""
        with self._residents_lock:
            leaving, self._residents = self._residents, {}
        for resident in leaving.values():
            resident.leave()
        self._down_links = set()
        self._up = False
        if not self.state.is_dir():
            return
        with state.claims(self._root):
            there = state.read(self._root, self.name)
            # Somebody else may have taken ours down, or have made another of this name: that one is not ours to remove.
            if there is not None and there.created_ns == self._record.created_ns:
                leftovers.take_down(self._root, self._record)
        while self._started:
            # Bury our dead: all of them were killed above.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._started.pop().popen.wait(leftovers.KILL_PATIENCE_S)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # What runs on a node

    def namespace(self, node: str) -> str:
        """Name of a node's network namespace, for `ip netns`. Errors: UsageError for a node that is none."""
        self.topology.node(node)
        return state.namespace_name(self.name, node)

    def address(self, host: str, port: str = "primary") -> str:
        """IPv4 address of a host's port, by default of the one its own traffic leaves by."""
        found = self.topology.host(host)
        return (found.primary if port == "primary" else found.port(port)).address

    def spawn(
        self,
        node: str,
        argv: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str] | None = None,
        stdout: Path | None = None,
        cgroup: str | None = None,
        nice: int = 0,
        detached: bool = False,
    ) -> Process:
        """Start a program on a node: its network, host name and /sys.

        It prints to `stdout`, by default `<state>/log/<node>.<name>.log`; its control group is `cgroup`, by default
        one of its own; it is killed when this process ends, unless `detached`. Errors: WorldError, UsageError.
        """
        group = Cgroup(f"{cgroups.PARENT}/{self.name}/{node}/{cgroup or name}")
        entrances = [] if group.make() else group.entrances()
        command = process.wrapped(argv, entrances, nice, bound=not detached)
        log = stdout or self.state / "log" / f"{node}.{name}.log"
        variables = {**faketime.variables(self.state, node), **NO_NAMES, **(env or {})}
        popen = self._resident(node).run(partial(process.start, command, variables, log))
        started = Process(name, node, popen, group)
        self._started = [each for each in self._started if each.popen.poll() is None] + [started]
        return started

    def command(self, node: str, argv: Sequence[str], input: str | None = None) -> str:
        """Run a short command in a node's network; returns what it printed. Errors: WorldError with its stderr."""
        return self.call_in(node, partial(process.run, argv, input, f"{self.name}/{node}"))

    def socket_in(
        self, node: str, family: socket.AddressFamily | int, kind: socket.SocketKind | int, proto: int = 0
    ) -> socket.socket:
        """A socket opened in a node's network; it stays there as long as it is open, also in the caller's hands."""
        return self.call_in(node, lambda: socket.socket(family, kind, proto))

    def call_in(self, node: str, function: Callable[[], T]) -> T:
        """Run `function` in a thread inside a node's network."""
        return namespaces.call_in(self.namespace(node), function)

    # What can be done to a link

    def shape(self, node: str, port: str, rate_bps: int, queue_bytes: int) -> None:
        """Set rate and queue of a sending port, now, without losing what is queued. Errors: WorldError, UsageError."""
        self.topology.node(node).port(port)
        shaped = " htb 1: " in self.command(node, ["tc", "qdisc", "show", "dev", port])
        lines = (plan.reshape_lines if shaped else plan.shape_lines)(port, rate_bps, queue_bytes)
        self.command(node, ["tc", "-batch", "-"], "\n".join(lines) + "\n")

    def link_down(self, link: str, *, converge: bool = True) -> None:
        """Take the carrier of a link, at its `a` end. With `converge` the switches stop using it, as BGP would."""
        found = self.topology.link(link)
        with self._links_lock:
            self.command(found.a.node, ["ip", "link", "set", found.a.name, "down"])
            if converge:
                self._converge(self._down_links | {found.id})

    def link_up(self, link: str) -> None:
        """Give a link its carrier back, and the switches their routes over it."""
        found = self.topology.link(link)
        with self._links_lock:
            self.command(found.a.node, ["ip", "link", "set", found.a.name, "up"])
            # The kernel forgot the routes over a port that went down, only those: `replace` does not mind the others.
            down = self._down_links - {found.id}
            lines = [plan.route_line("replace", route) for route in routes(self.topology, down)[found.a.node]]
            self._ip(found.a.node, lines)
            self._converge(down)

    def drop_rule(
        self, node: str, port: str, match: str = "", probability: float = 1.0, direction: drops.Direction = "sent"
    ) -> DropRule:
        """Silently lose what a port sends (or received) and `match`, an nft expression, fits; "" fits all.

        Errors: UsageError, WorldError with what nft said.
        """
        self.topology.node(node).port(port)
        text = drops.add_text(port, match, probability, direction)
        echo = self.command(node, ["nft", "--echo", "--handle", "--file", "-"], text)
        return DropRule(node, direction, drops.handle_of(echo))

    def dropped(self, rule: DropRule) -> int:
        """Packets that a rule dropped so far."""
        listing = self.command(rule.node, ["nft", "--json", "list", "chain", "inet", drops.TABLE, rule.chain])
        return drops.dropped(listing, rule)

    def remove_rule(self, rule: DropRule) -> None:
        """Mend what `drop_rule` broke."""
        handle = str(rule.handle)
        self.command(rule.node, ["nft", "delete", "rule", "inet", drops.TABLE, rule.chain, "handle", handle])

    def _converge(self, down: set[str]) -> None:
        before, after = routes(self.topology, self._down_links), routes(self.topology, down)
        self._down_links = down
        for node in after:
            lines = plan.route_changes(before[node], after[node])
            gone = [line for line in lines if line.startswith("route del")]
            self._ip(node, [line for line in lines if line not in gone])
            for line in gone:
                # A route over the port that went down is gone already.
                with contextlib.suppress(WorldError):
                    self._ip(node, [line])

    def _ip(self, node: str, lines: Sequence[str]) -> None:
        if lines:
            self.command(node, ["ip", "-batch", "-"], "\n".join(lines) + "\n")

    def _resident(self, node: str) -> Resident:
        with self._residents_lock:
            if node not in self._residents:
                self._residents[node] = Resident(node, self.namespace(node))
            return self._residents[node]

    def _make(self) -> None:
        """Namespaces, cables, then each node by itself; several at a time where one need not wait for another."""
        self._directories()
        namespaces.prepare_directory()
        ip_lines, tc_lines = plan.node_lines(self.topology), plan.node_shapes(self.topology)
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="leadline-lab") as pool:
            list(pool.map(self._make_namespace, self.topology.nodes))
            cables = "\n".join(plan.cable_lines(self.topology, self._record.namespaces))
            # Bound to us: it works from outside the namespaces, where nobody would look for it when we are killed.
            process.run([*process.BOUND, "ip", "-batch", "-"], cables + "\n", self.name)
            for nodes in plan.in_order(self.topology):
                list(pool.map(lambda node: self._set_up(node, ip_lines[node], tc_lines[node]), nodes))

    def _make_namespace(self, node: str) -> None:
        settings = plan.sysctls(self.topology, node)
        namespaces.create(self.namespace(node), partial(_write_sysctls, settings))

    def _set_up(self, node: str, ip_lines: list[str], tc_lines: list[str]) -> None:
        def inside() -> None:
            where = f"{self.name}/{node}"
            process.run(["ip", "-batch", "-"], "\n".join(ip_lines) + "\n", where)
            if isinstance(self.topology.node(node), Host):
                offload.segmentation_off(port.name for port in self.topology.node(node).ports)
            if tc_lines:
                process.run(["tc", "-batch", "-"], "\n".join(tc_lines) + "\n", where)

        self.call_in(node, inside)

    def _directories(self) -> None:
        for host in (*self.topology.hosts, *self.topology.storage):
            for part in ("sys", "ring", "spool"):
                (self.state / "hosts" / host.name / part).mkdir(parents=True, exist_ok=True)
            (self.state / "hosts" / host.name / "kmsg").touch()
        for switch in self.topology.switches:
            (self.state / "switches" / switch.name / "sys").mkdir(parents=True, exist_ok=True)
        for part in ("jobs", "log"):
            (self.state / part).mkdir(exist_ok=True)


def _write_sysctls(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        path = f"/proc/sys/{name}"
        try:
            with open(path, "w") as file:
                file.write(value)
        except OSError as error:
            if name in plan.MUST or os.path.exists(path):
                raise WorldError(f"{path}: cannot be set to {value}: {error.strerror}") from error
