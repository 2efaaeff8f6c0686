"""A prober in Python, for hosts without leadline-prober: the same packets, commands and lines.

What it costs: stamps are taken in user space, so an edge is known to microseconds where kernel stamps give tens of
nanoseconds; a pair costs about a millisecond of a core, there and back, so it sends at most 10 pairs/s to each peer
(`RATE_MAX`), over windows of four seconds. It injects no clock, records nothing and traces no routers; `points`,
`stamps`, `nic` and `batch_ms` mean nothing to it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from leadline.host.mesh.fit import Fitted, fit_edge
from leadline.host.mesh.packet import BACK_MAX, STAMPS, Packet, Refusal, Stamp, Told, decode, encode

RATE_MAX = 10.0
WINDOW_S = 4.0
RING = 256  # packets remembered each way
HELLO_AFTER_NS = 1_000_000_000
MINIMA_NS = 300_000_000_000  # the smallest delay is of the last five minutes
SILENT_PERIODS = 4
_TEN_S_NS = 10_000_000_000


def main() -> int:
    """Run until the end of standard input, or SIGTERM."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    os.set_blocking(sys.stdin.fileno(), False)
    prober = Fallback(_write, time.clock_gettime_ns(time.CLOCK_REALTIME) - raw_ns())
    try:
        return prober.run(sys.stdin.fileno())
    except BrokenPipeError:
        return 0


def _end(*_: object) -> NoReturn:
    sys.exit(0)


def _write(line: dict[str, Any]) -> None:
    os.write(sys.stdout.fileno(), (json.dumps(line, separators=(",", ":")) + "\n").encode())


def raw_ns() -> int:
    """The clock that nobody steers."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


class Seen(NamedTuple):
    """When a packet was sent or received."""

    number: int
    host_ns: int


class Way:
    """One direction of an edge."""

    def __init__(self) -> None:
        self.points: deque[tuple[int, int]] = deque()
        self.fresh: list[tuple[int, int]] = []
        self.paired: set[int] = set()
        self.newest = self.told_newest = -1
        self.received = self.told_received = 0
        self.minima: dict[int, int] = {}  # by tens of seconds

    def take(self, number: int, t_ns: int, difference_ns: int) -> None:
        """One packet of which both stamps are known; it is told four times."""
        if number in self.paired:
            return
        self.paired.add(number)
        if len(self.paired) > 2 * RING:
            self.paired = {each for each in self.paired if each > number - RING}
        self.points.append((t_ns, difference_ns))
        self.fresh.append((t_ns, difference_ns))

    def smallest(self, delay_ns: int, end_ns: int) -> int:
        """The smallest delay of the last minutes, this one included."""
        now = end_ns // _TEN_S_NS
        self.minima[now] = min(delay_ns, self.minima.get(now, delay_ns))
        self.minima = {at: each for at, each in self.minima.items() if at > now - MINIMA_NS // _TEN_S_NS}
        return min(self.minima.values())


class Lane:
    """What is known of a peer by one label. Our own numbers go on when the peer starts anew."""

    def __init__(self, now_ns: int) -> None:
        self.next_seq = 0
        self.sent: dict[int, int] = {}  # number -> ns
        self.heard_ns = now_ns
        self.was_heard = self.is_silent = False
        self.forget()

    def forget(self) -> None:
        """What came from an earlier life of the peer."""
        self.received: dict[int, int] = {}
        self.there, self.back = Way(), Way()


class Other:
    """A peer."""

    def __init__(self, name: str, to: tuple[str, int], is_owned: bool, ports: int, now_ns: int) -> None:
        self.name, self.to, self.is_owned = name, to, is_owned
        self.boot = 0
        self.old_boots: deque[int] = deque(maxlen=8)
        self.lanes = [Lane(now_ns) for _ in range(ports)]
        self.label = 0
        self.heard_ns = now_ns
        self.nominal_ns = self.due_ns = now_ns

    def adopt(self, boot: int) -> None:
        """It has started anew."""
        if self.boot:
            self.old_boots.append(self.boot)
        self.boot = boot
        for lane in self.lanes:
            lane.forget()


class Fallback:
    """All of it, in one thread. `tell` writes one line."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], base_ns: int) -> None:
        self.tell = tell
        self.base_ns = base_ns
        self.options: dict[str, str] = {
            "name": "", "id": "", "key": "", "port": "", "address": "0.0.0.0", "ports": "1", "dscp": "0", "rate": "10",
            "report_ms": "250", "soft": "0.02", "silent_ms": "85", "boot": "",
        }  # fmt: skip
        self.peers: dict[int, Other] = {}
        self.sockets: list[socket.socket] = []
        self.refused: Counter[str] = Counter({each.value: 0 for each in Refusal})
        self.counts: Counter[str] = Counter()
        self.is_ended = False
        self.exit_code = 0
        self.line = b""

    def run(self, commands: int) -> int:
        """Until `commands`, a handle, ends. Returns the exit code."""
        while not self.is_ended:
            wait_s = (self._next_ns() - raw_ns()) / 1e9 if self.sockets else 1.0
            watched: list[int | socket.socket] = [commands, *self.sockets[:1]]
            ready, _, _ = select.select(watched, [], [], max(0.0, wait_s))
            if self.sockets and self.sockets[0] in ready:
                self._receive()
            if commands in ready:
                self._read(commands)
            if self.sockets and not self.is_ended:
                self._work(raw_ns())
        for each in self.sockets:
            each.close()
        return self.exit_code

    # --- commands ---

    def _read(self, commands: int) -> None:
        try:
            data = os.read(commands, 4096)
        except BlockingIOError:
            return
        if not data:
            self.is_ended = True
        *whole, self.line = (self.line + data).split(b"\n")
        for line in whole:
            if self.is_ended:
                return
            try:
                self._follow(line.decode("ascii").split())
            except (ValueError, OSError) as error:
                self.tell({"kind": "refused", "text": f"did not follow {line[:40]!r}: {error}"})

    def _follow(self, words: list[str]) -> None:
        match words:
            case ["set", name, value] if not self.sockets:
                self.options[name] = value
            case ["start"] if not self.sockets:
                self._start()
            case ["add", peer, name, address, port, owned] if self.sockets:
                other = Other(name, (address, int(port)), owned == "owned", self.ports, raw_ns())
                self.peers[int(peer, 16)] = other
            case ["remove", peer] if self.sockets:
                if self.peers.pop(int(peer, 16), None) is None:
                    raise ValueError("expected the id of a peer")
            case ["stop"]:
                self.is_ended = True
            case []:
                pass
            case _:
                raise ValueError("expected set, start, add, remove or stop, options before start")

    def _start(self) -> None:
        try:
            self._open()
        except (ValueError, OSError) as error:
            self.tell({"kind": "failed", "text": f"cannot begin: {error}"})
            self.is_ended, self.exit_code = True, 3
            return
        self.tell({
            "kind": "ready", "src": self.name, "boot": self.boot, "port": self.port, "ports": self.ports,
            "stamp": "user", "base_ns": self.base_ns,
        })  # fmt: skip

    def _open(self) -> None:
        of = self.options
        self.name, self.own, self.key = of["name"], int(of["id"], 16), bytes.fromhex(of["key"])
        self.port, self.ports, self.dscp = int(of["port"]), int(of["ports"]), int(of["dscp"])
        self.boot = int(of["boot"] or "0", 16) or random.SystemRandom().randrange(1, 1 << 32)
        self.period_ns = round(1e9 / min(RATE_MAX, float(of["rate"])))
        self.report_ns, self.soft = round(float(of["report_ms"]) * 1e6), float(of["soft"])
        self.window_ns = round(WINDOW_S * 1e9)
        self.silent_ns = max(round(float(of["silent_ms"]) * 1e6), SILENT_PERIODS * self.period_ns * self.ports)
        family = socket.AF_INET6 if ":" in of["address"] else socket.AF_INET
        for label in range(self.ports):
            one = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            self.sockets.append(one)
            if family == socket.AF_INET:
                one.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, self.dscp << 2)
            else:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, self.dscp << 2)
            one.bind((of["address"], self.port + label))
        now = raw_ns()
        self.report_at, self.counters_at = now + self.report_ns, now + 1_000_000_000

    # --- packets ---

    def _receive(self) -> None:
        for _ in range(64):
            try:
                data = self.sockets[0].recv(2048)
            except BlockingIOError:
                return
            now = raw_ns()
            if data[:2] == b"LT":  # a trace that has come to its end
                continue
            self.counts["received_bytes"] += len(data)
            refusal = self._take(data, now)
            if refusal is None:
                self.counts["received"] += 1
            else:
                self.refused[refusal.value] += 1

    def _take(self, data: bytes, now_ns: int) -> Refusal | None:
        packet = decode(data, self.key, self.own, self.boot)
        if isinstance(packet, Refusal):
            return packet
        peer = self.peers.get(packet.sender)
        if peer is None:
            return Refusal.STRANGER
        if packet.label >= self.ports:
            return Refusal.FIELD
        if packet.boot != peer.boot:
            if packet.boot in peer.old_boots:
                return Refusal.BOOT
            if not packet.is_hello or not peer.boot or now_ns - peer.heard_ns > HELLO_AFTER_NS:
                peer.adopt(packet.boot)
        if packet.is_hello:
            self.counts["hellos"] += 1
            return None
        return self._count(peer, peer.lanes[packet.label], packet, now_ns)

    def _count(self, peer: Other, lane: Lane, packet: Packet, now_ns: int) -> Refusal | None:
        number, back = 2 * packet.seq + packet.position, lane.back
        if number in lane.received or (back.newest >= 0 and number + RING <= back.newest):
            return Refusal.REPLAYED
        if back.newest < 0:
            back.told_newest = number - 1
        back.newest = max(back.newest, number)
        back.received += 1
        lane.received[number] = now_ns + self.base_ns
        _forget_old(lane.received, back.newest)
        lane.heard_ns = peer.heard_ns = now_ns
        lane.was_heard = True
        if peer.is_owned:
            self._pair(lane, packet)
        return None

    def _pair(self, lane: Lane, packet: Packet) -> None:
        for told in packet.sent:
            number = 2 * packet.seq - told.back
            if (received_ns := lane.received.get(number)) is not None:
                lane.back.take(number, received_ns, told.ns - received_ns)
        last = 2 * lane.next_seq - 1
        newest = last - ((last - packet.newest) & 0xFFFF)
        for told in packet.received:
            number = newest + 1 - told.back
            if (sent_ns := lane.sent.get(number)) is not None:
                lane.there.take(number, sent_ns, told.ns - sent_ns)
        there = lane.there
        if packet.received and newest >= 0:
            if there.newest < 0:
                there.newest = there.told_newest = newest
                there.received = there.told_received = packet.arrived
            elif newest > there.newest:
                there.newest = newest
                there.received += (packet.arrived - there.received) & 0xFFFF

    def _send(self, id: int, peer: Other) -> None:
        label, lane = peer.label, peer.lanes[peer.label]
        peer.label = (label + 1) % self.ports
        first, newest = 2 * lane.next_seq, lane.back.newest
        sent = [Told(back, lane.sent[first - back]) for back in range(1, BACK_MAX + 1) if first - back in lane.sent]
        received = [
            Told(back, lane.received[newest + 1 - back])
            for back in range(1, BACK_MAX + 1)
            if newest + 1 - back in lane.received
        ]
        packets = [
            encode(
                Packet(
                    self.own, self.boot, lane.next_seq, position, self.dscp, label, Stamp.USER, Stamp.USER,
                    raw_ns() + self.base_ns, max(0, newest), lane.back.received, tuple(sent[:STAMPS]),
                    tuple(received[:STAMPS]),
                ),
                self.key, id, peer.boot,
            )
            for position in (0, 1)
        ]  # fmt: skip
        lane.next_seq += 1
        for position, data in enumerate(packets):
            lane.sent[first + position] = raw_ns() + self.base_ns
            try:
                self.sockets[label].sendto(data, peer.to)
            except OSError:
                self.counts["send_errors"] += 1
                del lane.sent[first + position]
                continue
            self.counts["sent"] += 1
            self.counts["sent_bytes"] += len(data)
        _forget_old(lane.sent, first)

    # --- time ---

    def _next_ns(self) -> int:
        return min(
            [self.report_at, self.counters_at, raw_ns() + 50_000_000, *(each.due_ns for each in self.peers.values())]
        )

    def _work(self, now_ns: int) -> None:
        for id, peer in self.peers.items():
            if now_ns >= peer.due_ns:
                self._send(id, peer)
                peer.nominal_ns = max(peer.nominal_ns, now_ns - self.period_ns) + self.period_ns
                peer.due_ns = peer.nominal_ns + round(random.uniform(-0.25, 0.25) * self.period_ns)
            for label, lane in enumerate(peer.lanes):
                self._tell_silence(peer, label, lane, now_ns)
        if now_ns >= self.report_at:
            self.report_at = max(self.report_at, now_ns - self.report_ns) + self.report_ns
            for peer in self.peers.values():
                for label, lane in enumerate(peer.lanes):
                    if peer.is_owned:
                        self._report(peer, label, lane, now_ns + self.base_ns)
        if now_ns >= self.counters_at:
            self.counters_at = max(self.counters_at, now_ns - 1_000_000_000) + 1_000_000_000
            self._tell_counters(now_ns + self.base_ns)

    def _tell_silence(self, peer: Other, label: int, lane: Lane, now_ns: int) -> None:
        age_ns = now_ns - lane.heard_ns
        is_silent = age_ns > (self.silent_ns if lane.was_heard else max(self.silent_ns, HELLO_AFTER_NS))
        if is_silent == lane.is_silent:
            return
        lane.is_silent = is_silent
        self.tell({
            "kind": "silent" if is_silent else "heard", "src": peer.name, "dst": self.name, "label": label,
            "src_port": peer.to[1] + label, "class": self.dscp, "time_ns": now_ns + self.base_ns,
            "age_ns": age_ns, "was_heard": lane.was_heard,
        })  # fmt: skip

    def _report(self, peer: Other, label: int, lane: Lane, end_ns: int) -> None:
        upper, lower = (_window(way.points, end_ns - self.window_ns) for way in (lane.there, lane.back))
        fit = fit_edge(upper, lower, end_ns, self.window_ns, self.soft)
        is_valid = fit.state == "valid"
        line = {
            "kind": "edge", "src": self.name, "dst": peer.name, "label": label, "src_port": self.port + label,
            "back_port": peer.to[1] + label, "class": self.dscp, "end_ns": end_ns,
            "window_ns": self.window_ns, "report_ns": self.report_ns,
            "count": len(upper) + len(lower), "corners": min(fit.upper_corners, fit.lower_corners), "valid": is_valid,
            "state": fit.state, "stamp": "user" if lane.there.fresh or lane.back.fresh else "none",
        }  # fmt: skip
        if is_valid:
            line |= {
                "offset_ns": fit.offset_ns, "rate_ppb": round(fit.rate_ppb, 3), "bound_ns": int(fit.bound_ns) + 1,
                "width_ns": round(fit.width_ns, 1), "noise_ns": round(fit.noise_ns, 2),
            }  # fmt: skip
        line["there"] = _tell_way(lane.there, fit, 1, end_ns)
        line["back"] = _tell_way(lane.back, fit, -1, end_ns)
        self.tell(line)

    def _tell_counters(self, time_ns: int) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        names = (
            "sent",
            "sent_bytes",
            "received",
            "received_bytes",
            "hellos",
            "stamps_lost",
            "send_errors",
            "lines_lost",
        )
        counts = {name: self.counts[name] for name in names}
        cpu_s = round(used.ru_utime + used.ru_stime, 6)
        self.tell({"kind": "counters", "time_ns": time_ns, **counts, "cpu_s": cpu_s, "refused": dict(self.refused)})


def _forget_old(ring: dict[int, int], newest: int) -> None:
    if len(ring) > 2 * RING:
        for number in [each for each in ring if each <= newest - RING]:
            del ring[number]


def _window(points: deque[tuple[int, int]], from_ns: int) -> list[tuple[int, int]]:
    found = sorted(each for each in points if each[0] >= from_ns)
    points.clear()
    points.extend(found)
    return found


def _tell_way(way: Way, fit: Fitted, sign: int, end_ns: int) -> dict[str, int]:
    sent, received = way.newest - way.told_newest, way.received - way.told_received
    line = {"count": len(way.fresh), "sent": max(0, sent), "lost": max(0, sent - received)}
    if fit.state == "valid" and way.fresh:
        delays = sorted(round(sign * (d - fit.offset_ns - fit.rate_ppb * 1e-9 * (t - end_ns))) for t, d in way.fresh)
        p50, p99 = (delays[-(-len(delays) * share // 100) - 1] for share in (50, 99))
        smallest = way.smallest(delays[0], end_ns)
        line |= {"min_ns": delays[0], "p50_ns": p50, "p99_ns": p99, "queue_p99_ns": p99 - smallest}
    way.fresh = []
    way.told_newest, way.told_received = way.newest, way.received
    return line


if __name__ == "__main__":
    sys.exit(main())
