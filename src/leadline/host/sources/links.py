"""Netlink sockets that tell links and addresses: those that are there, and links that change."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

from leadline.wire.netlink.framing import is_last
from leadline.wire.netlink.links import (
    NETLINK_ROUTE,
    RTMGRP_LINK,
    Address,
    Link,
    addresses_request,
    links_request,
    parse_addresses,
    parse_links,
)

RECEIVE_BYTES = 64 * 1024  # the kernel fills at most 32 KB of one datagram
EVENTS_BUFFER = 1024 * 1024  # 800 events of 1.3 KB, all at once
DATAGRAMS_MAX = 256  # read in one go
ANSWER_S_MAX = 2.0

SO_RCVBUFFORCE = 33


class Overrun(Exception):
    """The kernel dropped events because nobody read them: look at all links again."""


def all_links() -> list[Link]:
    """Every interface of this namespace with its counters. Errors: OSError, DataError."""
    return [link for data in _answer(links_request(1)) for link in parse_links(data)]


def all_addresses() -> list[Address]:
    """Every address of this namespace that others can send to. Errors: OSError, DataError."""
    return [address for data in _answer(addresses_request(1)) for address in parse_addresses(data)]


def _answer(request: bytes) -> Iterator[bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_ROUTE) as asked:
        asked.settimeout(ANSWER_S_MAX)
        asked.bind((0, 0))
        asked.send(request)
        for _ in range(DATAGRAMS_MAX):
            data = asked.recv(RECEIVE_BYTES)
            yield data
            if is_last(data):
                break


class LinkSocket:
    """Links as they change."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, NETLINK_ROUTE
        )
        with contextlib.suppress(OSError):  # without the right to, the system's default is kept
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, EVENTS_BUFFER)
        self._socket.bind((0, RTMGRP_LINK))

    def fileno(self) -> int:
        """The file to watch."""
        return self._socket.fileno()

    def changed(self) -> list[Link]:
        """What has changed since. Errors: Overrun, DataError."""
        links: list[Link] = []
        for _ in range(DATAGRAMS_MAX):
            try:
                links += parse_links(self._socket.recv(RECEIVE_BYTES))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    raise Overrun from None
                raise
        return links

    def close(self) -> None:
        """Close it."""
        self._socket.close()
