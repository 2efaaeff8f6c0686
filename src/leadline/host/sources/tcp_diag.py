"""What TCP flows of this host sent and had to send again, from the kernel's sock_diag: rows of `flow_sent`.

    connections --less the last look--> flows that sent something --> at most FLOWS_MAX of them

Counters of ports say at best that something was lost; only the sender's own count says whose it was. One dump tells
every connection with its tcp_info; a flow is told by its id, as that of `flow_sample`, so that its path is known. What
counts by queue pair (RDMA) can be told in the same rows.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from leadline.host.found import FlowSent, Found
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source
from leadline.model.ids import flow_id
from leadline.wire.netlink.connections import NETLINK_SOCK_DIAG, Connection, connections_request, parse_connections
from leadline.wire.netlink.framing import is_last

FLOWS_MAX = 1024  # of one reading: eight ranks with 64 connections each have half of that
RECEIVE_BYTES = 64 * 1024  # the kernel fills at most 32 KB of one datagram, some 80 connections
DATAGRAMS_MAX = 128  # 10,000 connections, 50 ms of CPU
ANSWER_S_MAX = 2.0
_U32 = 1 << 32
_MAPPED = b"\0" * 10 + b"\xff\xff"
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class Flow(NamedTuple):
    """The names of a connection's flow; a hash of them is too dear to be taken at each look."""

    id: int
    src_ip: str
    dst_ip: str


class Seen(NamedTuple):
    """What a connection had counted at the last look, and its flow, once that was asked for."""

    counted: Connection
    flow: Flow | None


def _connections(site: Site) -> str:
    """Ask for all connections. Errors: OSError where the kernel has no sock_diag."""
    return f"{sum(1 for _ in all_connections())} TCP connections"


class TcpDiag(Source):
    """What every TCP flow that leaves this host sent, sent again and waited for."""

    name = "tcp_diag"
    reports = (
        "every TCP connection that leaves the host and sent something: packets, those sent again, timeouts, round "
        "trips; each second (`agent.flow_interval_s`)"
    )
    told_as = "rows of `flow_sent`, by the id of the flow that switches sample"
    accesses = (
        Access(
            "TCP connections (sock_diag)",
            _connections,
            "nobody knows whose packets were lost, so no link or switch can be suspected of losing them",
            Grant(
                service="the kernel module tcp_diag (`modprobe tcp_diag`), and AF_NETLINK in RestrictAddressFamilies"
            ),
            ("link-errors", "blackhole", "congestion", "slow-link"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._seen: dict[bytes, Seen] = {}
        self._seen_ns = 0
        for _ in all_connections():  # a kernel without sock_diag says so here
            break

    @property
    def every_s(self) -> float:
        """More often than counters: which came first, loss or load, is told in seconds."""
        return self.site.config.flow_interval_s

    def poll(self, now_ns: int) -> Found:
        """What was sent since the last look; the first one only looks."""
        before, window_ns = self._seen, now_ns - self._seen_ns
        is_first, self._seen_ns = not self._seen_ns, now_ns
        self._seen, sent = changes(before, all_connections())
        if is_first or window_ns <= 0:
            return Found()
        if len(sent) > FLOWS_MAX:
            self.site.counts.add("agent_dropped", "flows_full", len(sent) - FLOWS_MAX)
        rows = []
        for cookie, delta in most_telling(sent):
            flow = self._seen[cookie].flow or flow_of(delta)
            self._seen[cookie] = Seen(self._seen[cookie].counted, flow)
            rows.append(flow_sent(delta, flow, now_ns, window_ns))
        return Found(flows=rows)


def all_connections() -> Iterator[Connection]:
    """Every TCP connection of this namespace that may send. Errors: OSError, DataError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(ANSWER_S_MAX)
        asked.bind((0, 0))
        for family in _FAMILIES:
            asked.send(connections_request(family, 1))
            for _ in range(DATAGRAMS_MAX):
                data = asked.recv(RECEIVE_BYTES)
                yield from parse_connections(data)
                if is_last(data):
                    break
            else:
                return  # the rest of this answer would be taken for the next


def changes(before: dict[bytes, Seen], now: Iterable[Connection]) -> tuple[dict[bytes, Seen], dict[bytes, Connection]]:
    """What connections have counted, and how much more than before: those that sent something, by their cookies."""
    seen: dict[bytes, Seen] = {}
    sent: dict[bytes, Connection] = {}
    for each in now:
        last = before.get(each.cookie)
        seen[each.cookie] = Seen(each, last.flow if last else None)
        if is_local(each):
            continue
        delta = less(each, last.counted) if last else each
        if delta.packets or delta.again or delta.timeouts:
            sent[each.cookie] = delta
    return seen, sent


def less(now: Connection, last: Connection) -> Connection:
    """What was counted in between. Of what is no counter the newer stands. 32-bit counters wrap."""
    return now._replace(
        packets=(now.packets - last.packets) % _U32,
        again=(now.again - last.again) % _U32,
        needless=(now.needless - last.needless) % _U32,
        timeouts=(now.timeouts - last.timeouts) % (1 << 16),
        sent_bytes=max(0, now.sent_bytes - last.sent_bytes),
        acked_bytes=max(0, now.acked_bytes - last.acked_bytes),
        busy_us=max(0, now.busy_us - last.busy_us),
    )


def is_local(each: Connection) -> bool:
    """Whether it never leaves this host."""
    return each.source == each.target or _unmapped(each.source)[:1] == b"\x7f"


def most_telling(sent: dict[bytes, Connection]) -> list[tuple[bytes, Connection]]:
    """At most `FLOWS_MAX`: those that sent again first, then those that sent most."""
    order = sorted(sent.items(), key=lambda one: (-one[1].again, -one[1].sent_bytes, one[0]))
    return order[:FLOWS_MAX]


def flow_of(each: Connection) -> Flow:
    """Its flow, from here to the other end. An IPv4 address in an IPv6 one is told as IPv4, as a packet has it."""
    source, target = _address(each.source), _address(each.target)
    return Flow(flow_id(socket.IPPROTO_TCP, source, target, each.src_port, each.dst_port), source, target)


def _address(packed: bytes) -> str:
    bare = _unmapped(packed)
    return socket.inet_ntop(socket.AF_INET if len(bare) == 4 else socket.AF_INET6, bare)


def _unmapped(packed: bytes) -> bytes:
    """An address without the IPv6 around an IPv4 one (RFC 4291, section 2.5.5.2)."""
    return packed[12:] if packed.startswith(_MAPPED) else packed


def flow_sent(delta: Connection, flow: Flow, now_ns: int, window_ns: int) -> FlowSent:
    """The row of one flow. What was not measured is None."""
    return FlowSent(
        time_ns=now_ns,
        window_ns=window_ns,
        flow=flow.id,
        protocol=socket.IPPROTO_TCP,
        src_ip=flow.src_ip,
        dst_ip=flow.dst_ip,
        src_port=delta.src_port,
        dst_port=delta.dst_port,
        packets=delta.packets,
        again=delta.again,
        bytes=delta.sent_bytes,
        needless=delta.needless,
        timeouts=delta.timeouts if delta.knows_timeouts else None,
        acked_bytes=delta.acked_bytes,
        busy_ns=delta.busy_us * 1000,
        rtt_ns=delta.rtt_us * 1000 or None,
        rtt_var_ns=delta.rtt_var_us * 1000 or None,
        rtt_min_ns=delta.rtt_min_us * 1000 if 0 < delta.rtt_min_us < _U32 - 1 else None,
        delivery_bps=delta.delivery_bytes_per_s * 8.0 or None,
    )
