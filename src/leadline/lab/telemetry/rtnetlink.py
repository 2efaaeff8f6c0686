"""Ports, queues and routes of a namespace, as the kernel tells them by rtnetlink. Pure: requests and answers as bytes.

Sources: include/uapi/linux/if_link.h, rtnetlink.h, pkt_sched.h, gen_stats.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from leadline.model.errors import DataError
from leadline.wire.netlink import framing as netlink
from leadline.wire.netlink.links import IFF_UP, RTM_NEWLINK, Link, link_of

_NEW_ROUTE, _GET_ROUTE = 24, 26
_NEW_QDISC, _GET_QDISC = 36, 38
_TRAFFIC, _ROUTE = struct.Struct("<BxxxiIII"), struct.Struct("<8BI")
_QDISC_KIND, _QDISC_STATS, _STATS_QUEUE = 1, 7, 3
_ROUTE_TO = 1
_ROOT = 0xFFFFFFFF
_MAIN_TABLE, _UNICAST = 254, 1
_QUEUE = struct.Struct("<5I")


@dataclass(frozen=True, slots=True)
class Counters:
    """One port at one moment: state, carrier and the kernel's 64-bit counters."""

    index: int
    name: str
    wanted_up: bool
    operstate: str
    carrier_changes: int
    carrier_ups: int
    carrier_downs: int
    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_errors: int
    tx_errors: int
    rx_dropped: int
    tx_dropped: int
    multicast: int


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue that a port sends through (its root qdisc): now waiting, and what happened to it so far."""

    index: int
    kind: str  # htb, bfifo, ...
    packets: int
    backlog_bytes: int
    drops: int
    requeues: int
    overlimits: int


def queues_request() -> bytes:
    """Ask for all qdiscs."""
    return netlink.message(_GET_QDISC, netlink.REQUEST | netlink.DUMP, _TRAFFIC.pack(0, 0, 0, 0, 0))


def routes_request() -> bytes:
    """Ask for all IPv4 routes."""
    return netlink.message(_GET_ROUTE, netlink.REQUEST | netlink.DUMP, _ROUTE.pack(2, 0, 0, 0, 0, 0, 0, 0, 0))


def links(answer: Iterable[netlink.Message]) -> dict[str, Counters]:
    """All interfaces of an answer, by name. Errors: DataError."""
    found = [_counters(link_of(kind, body)) for kind, body in answer if kind == RTM_NEWLINK]
    return {each.name: each for each in found}


def _counters(link: Link) -> Counters:
    changes = (link.carrier_changes or 0, link.carrier_ups or 0, link.carrier_downs or 0)
    counts = link.stats[:9] or (0,) * 9
    return Counters(link.number, link.name, bool(link.flags & IFF_UP), link.operstate, *changes, *counts)


def queues(answer: Iterable[netlink.Message]) -> dict[int, Queue]:
    """The root qdisc of each interface, by ifIndex. Errors: DataError.

    A classful root (HTB) counts what its leaves drop too. Interfaces without a queue (`noqueue`) tell none.
    """
    found: dict[int, Queue] = {}
    for kind, body in answer:
        if kind != _NEW_QDISC:
            continue
        if len(body) < _TRAFFIC.size:
            raise DataError("rtnetlink qdisc", f"{_TRAFFIC.size} bytes", f"{len(body)} bytes")
        _, index, _, parent, _ = _TRAFFIC.unpack_from(body)
        queue = _queue(index, body[_TRAFFIC.size :]) if parent == _ROOT else None
        if queue is not None:
            found[index] = queue
    return found


def _queue(index: int, rest: memoryview) -> Queue | None:
    discipline = ""
    for kind, value in netlink.attributes(rest):
        if kind == _QDISC_KIND:
            discipline = bytes(value).rstrip(b"\0").decode(errors="replace")
        if kind != _QDISC_STATS or discipline == "noqueue":
            continue
        for inner, counts in netlink.attributes(value):
            if inner == _STATS_QUEUE:
                if len(counts) < _QUEUE.size:
                    raise DataError("rtnetlink queue", f"{_QUEUE.size} bytes", f"{len(counts)} bytes")
                return Queue(index, discipline, *_QUEUE.unpack_from(counts))
    return None


def prefixes(answer: Iterable[netlink.Message]) -> list[tuple[int, int]]:
    """(network, prefix length) of the unicast routes of the main table, longest first. Errors: DataError."""
    found: set[tuple[int, int]] = set()
    for kind, body in answer:
        if kind != _NEW_ROUTE:
            continue
        if len(body) < _ROUTE.size:
            raise DataError("rtnetlink route", f"{_ROUTE.size} bytes", f"{len(body)} bytes")
        _, length, _, _, table, _, _, form, _ = _ROUTE.unpack_from(body)
        if table != _MAIN_TABLE or form != _UNICAST:
            continue
        network = 0
        for attribute, value in netlink.attributes(body[_ROUTE.size :]):
            if attribute == _ROUTE_TO:
                network = int.from_bytes(value[:4], "big")
        found.add((network, length))
    return sorted(found, key=lambda each: (-each[1], each[0]))


def prefix_length(routes: list[tuple[int, int]], address: int) -> int:
    """Length of the longest of these prefixes (longest first) that holds an IPv4 address; 0 if none does."""
    for network, length in routes:
        if address >> (32 - length) == network >> (32 - length):
            return length
    return 0
