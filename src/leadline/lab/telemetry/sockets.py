"""The kernel's sockets of one node: counters, queues, connections, and the log groups of a switch.

Opened inside the node's namespace, used from outside for as long as they live.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from leadline.lab.realise.namespaces import call_in
from leadline.lab.telemetry import nflog, rtnetlink, tcp_diag
from leadline.model.errors import WorldError
from leadline.wire.netlink import framing as netlink
from leadline.wire.netlink.connections import NETLINK_SOCK_DIAG
from leadline.wire.netlink.links import NETLINK_ROUTE, links_request

_ANSWER_BYTES = 1 << 16
_WAIT_S = 5.0  # the kernel answers in microseconds; this only keeps a bug from hanging the lab
_RECEIVE_BYTES = 4 << 20  # of a log group: some 10,000 samples while this process does not run
_SO_RCVBUFFORCE = 33


@dataclass(slots=True)
class NodeSockets:
    """rtnetlink and sock_diag of one node."""

    node: str
    route: socket.socket
    diag: socket.socket

    def links(self) -> dict[str, rtnetlink.Counters]:
        """All interfaces by name, now. Errors: WorldError, DataError."""
        return rtnetlink.links(ask(self.route, links_request(1), self.node))

    def queues(self) -> dict[int, rtnetlink.Queue]:
        """The queue of each interface, by ifIndex. Errors: WorldError, DataError."""
        return rtnetlink.queues(ask(self.route, rtnetlink.queues_request(), self.node))

    def prefixes(self) -> list[tuple[int, int]]:
        """Prefixes of the main routing table, longest first. Errors: WorldError, DataError."""
        return rtnetlink.prefixes(ask(self.route, rtnetlink.routes_request(), self.node))

    def connections(self) -> list[tcp_diag.Connection]:
        """TCP connections with their counts. Errors: WorldError, DataError."""
        return tcp_diag.connections(ask(self.diag, tcp_diag.request(), self.node))

    def close(self) -> None:
        """Give the sockets back."""
        self.route.close()
        self.diag.close()


def open_node(node: str, namespace: str) -> NodeSockets:
    """Open the sockets of a node. Errors: WorldError if there is no such namespace or we may not enter it."""

    def inside() -> NodeSockets:
        return NodeSockets(node, _netlink(NETLINK_ROUTE), _netlink(NETLINK_SOCK_DIAG))

    return call_in(namespace, inside)


def open_group(namespace: str, group: int, requests: list[bytes]) -> socket.socket:
    """Bind a log group in a switch's namespace; the socket does not block.

    Errors: WorldError if somebody else has bound it, or the kernel has no NFLOG.
    """

    def inside() -> socket.socket:
        return _netlink(nflog.NETLINK_NETFILTER)

    opened = call_in(namespace, inside)
    try:
        # Forced: the limit of the machine (net.core.rmem_max) is meant for programs without CAP_NET_ADMIN.
        opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
        for request in requests:
            for _ in ask(opened, request, f"{namespace}, NFLOG group {group}"):
                pass
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


def ask(opened: socket.socket, request: bytes, where: str) -> Iterator[netlink.Message]:
    """Send a request; yields the messages of the answer until the kernel says that it is done.

    Errors: WorldError with the kernel's refusal.
    """
    try:
        opened.send(request)
        while True:
            data = opened.recv(_ANSWER_BYTES)
            for found in netlink.messages(data):
                if found.kind == netlink.DONE:
                    return
                if found.kind == netlink.ERROR:
                    number = netlink.refusal(found.body)
                    if number == 0:
                        return
                    raise OSError(number, "the kernel refused a netlink request")
                yield found
    except OSError as error:
        raise WorldError(f"{where}: netlink: {error}") from error


def _netlink(protocol: int) -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    opened.settimeout(_WAIT_S)
    opened.bind((0, 0))
    return opened


def drain(opened: socket.socket, take: Callable[[bytes], None], turns_max: int = 64) -> int:
    """Read what has come to a socket that does not block; returns how often the kernel said that it lost some."""
    lost = 0
    for _ in range(turns_max):
        try:
            data = opened.recv(_ANSWER_BYTES)
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno != 105:  # ENOBUFS: told once, then the rest can be read
                raise
            lost += 1
            continue
        take(data)
    return lost
