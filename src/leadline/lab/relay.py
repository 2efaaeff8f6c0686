"""From the loopback of each host of a lab to Leadline: what a user has at `http://127.0.0.1:8440`.

    agent of h3 --> 127.0.0.1:8440 in the namespace of h3 --+
    agent of h4 --> 127.0.0.1:8440 in the namespace of h4 --+-- one thread --> the server's address on this machine

Hosts of a lab have no route to the machine that they run on. So a socket that listens is opened inside each namespace
(it stays there, whoever uses it) and bytes are handed on by a thread outside. That also makes the way one that can be
cut: `cut(30, ["h3"])` is a network that loses everything between h3 and Leadline for 30 s. Connections hang, as they
do then, and go on afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import math
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from leadline.host.config import AgentConfig
from leadline.model.errors import UsageError

if TYPE_CHECKING:
    from leadline.lab.realise.cluster import Cluster

SERVER = AgentConfig().server
"""Where Leadline is for whoever runs on a host of a lab: where it is for every user who sets nothing."""

HELD_BYTES_MAX = 256 * 1024  # of one direction of one connection: a request of an agent is some 10 to 200 kB
CONNECTIONS_MAX = 64  # of a host; an agent has a handful. Beyond them they wait in the kernel's queue
BACKLOG = 64  # connections that the kernel keeps for us, also while the way is cut
STOP_S_MAX = 5.0


@dataclass(slots=True)
class _End:
    """One side of a connection, and what is still to be sent to it."""

    socket: socket.socket
    held: bytearray = field(default_factory=bytearray)
    is_connected: bool = True
    has_ended: bool = False  # it sends no more
    is_told: bool = False  # that the other side sends no more
    events: int = 0  # what the selector looks for


@dataclass(slots=True, eq=False)
class _Connection:
    """A connection of a host and its other half to the server."""

    host: str
    near: _End
    far: _End

    @property
    def is_over(self) -> bool:
        """Whether both sides have ended and have all that the other said."""
        return self.near.is_told and self.far.is_told


class Relay:
    """The way from every host of a cluster to a Leadline on this machine. Built inert; methods from any thread."""

    def __init__(self, cluster: Cluster, server: str) -> None:
        """`server`: http://HOST:PORT as seen from here. Errors: UsageError for anything else."""
        self._cluster = cluster
        self._server = _address(server)
        self._cut_until: dict[str, float] = {}  # by host, monotonic
        self._heard: set[str] = set()  # hosts from which somebody connected
        self._loop: _Loop | None = None

    def start(self) -> None:
        """Listen on every host. Errors: WorldError, OSError if an address is taken there."""
        at, listeners = _address(SERVER), {}
        try:
            for host in self._cluster.topology.hosts:
                listeners[host.name] = self._cluster.call_in(host.name, partial(_listening, at))
        except BaseException:
            for each in listeners.values():
                each.close()
            raise
        self._loop = _Loop(listeners, self._server, self._cut_until, self._heard)
        self._loop.start()

    def stop(self) -> None:
        """Close every socket, those inside the namespaces too: an open one would keep its namespace. Harmless again."""
        if self._loop is not None:
            self._loop.stop()
            self._loop = None

    def cut(self, seconds: float, hosts: Iterable[str] = ()) -> None:
        """Nothing passes between these hosts (none named: all) and Leadline from now on, for so long.

        Errors: UsageError for a host that the lab has not.
        """
        self._set_cut(hosts, time.monotonic() + seconds)

    def pause(self, hosts: Iterable[str] = ()) -> None:
        """Cut until `resume`. Errors: UsageError."""
        self._set_cut(hosts, math.inf)

    def resume(self, hosts: Iterable[str] = ()) -> None:
        """Mend the way of these hosts (none named: all). Errors: UsageError."""
        self._set_cut(hosts, -math.inf)

    def cut_hosts(self) -> list[str]:
        """Hosts whose way is cut now."""
        now_s = time.monotonic()
        return [host for host, until_s in list(self._cut_until.items()) if until_s > now_s]

    def unheard(self) -> list[str]:
        """Hosts from which nobody has connected yet."""
        return [host.name for host in self._cluster.topology.hosts if host.name not in self._heard]

    def _set_cut(self, hosts: Iterable[str], until_s: float) -> None:
        chosen = list(hosts) or [host.name for host in self._cluster.topology.hosts]
        for host in chosen:
            self._cluster.topology.host(host)
        self._cut_until.update(dict.fromkeys(chosen, until_s))
        if self._loop is not None:
            self._loop.wake()


class _Loop:
    """The thread that hands bytes on. It owns every socket and writes `heard`; others wake it and write `cut_until`."""

    def __init__(
        self,
        listeners: dict[str, socket.socket],
        server: tuple[str, int],
        cut_until: dict[str, float],
        heard: set[str],
    ) -> None:
        self._listeners, self._server, self._cut_until, self._heard = listeners, server, cut_until, heard
        self._selector = selectors.DefaultSelector()
        self._listened: set[str] = set()  # hosts whose listener the selector has
        self._connections: dict[str, set[_Connection]] = {host: set() for host in listeners}
        self._wakes, self._woken = socket.socketpair()
        for end in (self._wakes, self._woken):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, self._awake)
        self._stopping = False
        # Daemon: a program that ends without taking its lab down must not hang here; its sockets go with it.
        self._thread = threading.Thread(target=self._run, name="leadline-relay", daemon=True)

    def start(self) -> None:
        """Begin to hand on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close everything."""
        self._stopping = True
        self.wake()
        self._thread.join(STOP_S_MAX)
        for each in [one for connections in self._connections.values() for one in connections]:
            self._close(each)
        self._selector.close()
        for opened in (*self._listeners.values(), self._wakes, self._woken):
            opened.close()

    def wake(self) -> None:
        """Let it look again at what is cut. From any thread."""
        with contextlib.suppress(OSError):  # it is full: somebody woke it already; or closed: nobody sleeps
            self._wakes.send(b"\0")

    def _run(self) -> None:
        while not self._stopping:
            self._look_for()
            for key, events in self._selector.select(self._mended_in_s()):
                key.data(events)

    def _awake(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(64)

    def _mended_in_s(self) -> float | None:
        """Until the next cut is over; None if none is to end by itself."""
        now_s = time.monotonic()
        ends_s = [until_s for until_s in list(self._cut_until.values()) if now_s < until_s < math.inf]
        return max(0.001, min(ends_s) - now_s) if ends_s else None

    def _look_for(self) -> None:
        """Tell the selector what to look for on every host: nothing where the way is cut."""
        now_s = time.monotonic()
        for host, connections in self._connections.items():
            is_cut = self._cut_until.get(host, -math.inf) > now_s
            self._listen(host, not is_cut and len(connections) < CONNECTIONS_MAX)
            for each in connections:
                self._interest(each, is_cut)

    def _listen(self, host: str, wanted: bool) -> None:
        if wanted and host not in self._listened:
            self._selector.register(self._listeners[host], selectors.EVENT_READ, partial(self._accept, host))
            self._listened.add(host)
        elif not wanted and host in self._listened:
            self._selector.unregister(self._listeners[host])
            self._listened.discard(host)

    def _interest(self, connection: _Connection, is_cut: bool) -> None:
        for end, other in _both(connection):
            events = 0 if is_cut else _events(end, other)
            if events == end.events:
                continue
            if not events:
                self._selector.unregister(end.socket)
            elif end.events:
                self._selector.modify(end.socket, events, partial(self._ready, connection, end, other))
            else:
                self._selector.register(end.socket, events, partial(self._ready, connection, end, other))
            end.events = events

    def _accept(self, host: str, _: int) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            near, _peer = self._listeners[host].accept()
            far = socket.socket(socket.AF_INET6 if ":" in self._server[0] else socket.AF_INET, socket.SOCK_STREAM)
            for each in (near, far):
                each.setblocking(False)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made = _Connection(host, _End(near), _End(far, is_connected=False))
            self._connections[host].add(made)
            self._heard.add(host)
            if far.connect_ex(self._server) not in (0, errno.EINPROGRESS):
                self._close(made)

    def _ready(self, connection: _Connection, end: _End, other: _End, events: int) -> None:
        if connection not in self._connections[connection.host]:  # closed by the other end's event of this turn
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._send(end)
            if events & selectors.EVENT_READ:
                _receive(end, other)
            # What was read goes on at once: nearly always it fits, and the selector need not be asked.
            for one, its_other in _both(connection):
                self._send(one)
                _pass_the_end_on(one, its_other)
        except OSError:
            self._close(connection)
            return
        if connection.is_over:
            self._close(connection)

    def _send(self, end: _End) -> None:
        if not end.is_connected:
            if failed := end.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(failed, "the server does not answer")
            with contextlib.suppress(OSError):  # not yet
                end.socket.getpeername()
                end.is_connected = True
        if end.held and end.is_connected:
            with contextlib.suppress(BlockingIOError):
                sent = end.socket.send(end.held)
                del end.held[:sent]

    def _close(self, connection: _Connection) -> None:
        self._connections[connection.host].discard(connection)
        for end in (connection.near, connection.far):
            if end.events:
                self._selector.unregister(end.socket)
                end.events = 0
            end.socket.close()


def _both(connection: _Connection) -> tuple[tuple[_End, _End], tuple[_End, _End]]:
    return (connection.near, connection.far), (connection.far, connection.near)


def _events(end: _End, other: _End) -> int:
    """What to wait for at an end: room if there is something for it, data if the other's buffer has room."""
    events = 0
    if end.held or not end.is_connected:
        events |= selectors.EVENT_WRITE
    if end.is_connected and not end.has_ended and len(other.held) < HELD_BYTES_MAX:
        events |= selectors.EVENT_READ
    return events


def _receive(end: _End, other: _End) -> None:
    with contextlib.suppress(BlockingIOError):
        data = end.socket.recv(HELD_BYTES_MAX - len(other.held))
        other.held += data
        end.has_ended = not data


def _pass_the_end_on(end: _End, other: _End) -> None:
    """Tell `end` that the other side sends no more, once it has all of it."""
    if other.has_ended and not end.held and end.is_connected and not end.is_told:
        end.socket.shutdown(socket.SHUT_WR)
        end.is_told = True


def _listening(at: tuple[str, int]) -> socket.socket:
    """A socket that listens in the calling thread's namespace and does not block. Errors: OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(at)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _address(server: str) -> tuple[str, int]:
    parts = urlsplit(server)
    try:
        if parts.scheme == "http" and parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:
        pass
    raise UsageError(f"a lab reaches Leadline at http://ADDRESS:PORT of this machine, got {server!r}")
