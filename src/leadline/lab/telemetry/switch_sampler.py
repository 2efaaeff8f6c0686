"""One emulated switch's sFlow agent: logged packets and port counters in, datagrams out. Pure.

    forward chain --1 in N--> NFLOG --packets--+
    rules that discard -----> NFLOG --packets--+--> SwitchAgent --datagrams--> UDP, from the switch's own address
    rtnetlink ----------------counters, queues-+

A data source is an input port, as in a switch that samples on ingress: it numbers its samples and says how many
packets it chose from. That pool is N for each sample taken or lost: the kernel counts packets per switch, not per port
and rule. What the kernel could not hand to us shows as a gap in its numbering and becomes `drops`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadline.lab.telemetry.nflog import Packet
from leadline.lab.telemetry.rtnetlink import Counters, Queue, prefix_length
from leadline.wire.sflow.encode import (
    Agent,
    InterfaceCounters,
    counter_sample,
    discarded_packet,
    ethernet_counters,
    extended_router,
    flow_sample,
    interface_counters,
    raw_header,
)
from leadline.wire.sflow.reasons import DROP_REASONS

TABLE = "leadline_sflow"  # our nft table in each switch
_REASON_CODES = {name: code for code, name in DROP_REASONS.items()}
_ETHERNET_CSMACD = 6  # IANAifType
_FULL_DUPLEX = 1
_NOT_COUNTED = 0xFFFFFFFF  # what the field says for a counter that an agent has not
_IPV4 = b"\x08\x00"
_WAYS_MAX = 4096  # remembered next hops: ports x address pairs of clos64 stay below


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """A port of a switch: its ifIndex and name, its rate, and the router or host at the other end."""

    index: int
    name: str
    rate_bps: int
    neighbour: str  # IPv4 address


@dataclass(slots=True)
class _Source:
    """Numbers of one data source."""

    samples: int = 0
    lost: int = 0
    counted: int = 0


class SwitchAgent:
    """Turns what one switch saw into datagrams. The caller brings the time and sends them."""

    def __init__(
        self,
        address: str,
        ports: Iterable[SwitchPort],
        rate: int,
        routes: list[tuple[int, int]],
        began_ms: int,
    ) -> None:
        """`rate`: one packet in this many is logged; `routes`: prefixes of the switch, longest first."""
        self.agent = Agent(address)
        self.ports = {port.index: port for port in ports}
        self.samples = 0  # flow samples made
        self.lost = 0  # samples that the kernel could not hand to us
        self.discards = 0  # notifications of discarded packets made
        self._rate = rate
        self._routes = routes
        self._began_ms = began_ms
        self._sources: dict[int, _Source] = {}
        self._ways: dict[tuple[int, bytes], bytes] = {}
        self._expected: int | None = None

    def take(self, packets: Iterable[Packet], now_ms: int) -> list[bytes]:
        """Sampled packets; returns datagrams that are full."""
        uptime_ms = now_ms - self._began_ms
        full = []
        for packet in packets:
            source = self._sources.setdefault(packet.in_port, _Source())
            gap = self._gap(packet.sequence)
            source.lost += gap
            source.samples += 1
            sample = flow_sample(
                source.samples,
                packet.in_port,
                self._rate,
                self._rate * (source.samples + source.lost),
                source.lost,
                packet.in_port,
                packet.out_port,
                (raw_header(packet.header, packet.frame_bytes), *self._way(packet)),
            )
            done = self.agent.add(sample, uptime_ms)
            if done is not None:
                full.append(done)
            self.samples += 1
            self.lost += gap
        return full

    def pass_over(self, packets: Iterable[Packet]) -> int:
        """Packets that are logged while the agent is silent: neither samples nor losses. Returns how many."""
        number = 0
        for number, packet in enumerate(packets, 1):  # noqa: B007 (used after the loop)
            self._gap(packet.sequence)
        return number

    def discarded(self, packets: Iterable[Packet], now_ms: int) -> list[bytes]:
        """Packets that a rule of the switch throws away; the rule's log prefix names the reason."""
        uptime_ms = now_ms - self._began_ms
        full = []
        for packet in packets:
            self.discards += 1
            sample = discarded_packet(
                self.discards,
                packet.in_port,
                0,
                packet.in_port,
                packet.out_port,
                reason_of(packet.prefix),
                (raw_header(packet.header, packet.frame_bytes),),
            )
            done = self.agent.add(sample, uptime_ms)
            if done is not None:
                full.append(done)
        return full

    def counters(
        self,
        links: Mapping[str, Counters],
        queues: Mapping[int, Queue],
        now_ms: int,
        errors: Mapping[int, Mapping[str, int]] | None = None,
    ) -> list[bytes]:
        """Counters of all ports; returns every datagram that is ready, the last one too.

        `errors`: counters of the Ethernet record (dot3Stats...) by ifIndex; a port that is not there has no record.
        """
        full = []
        for port in self.ports.values():
            link = links.get(port.name)
            if link is None:
                continue
            source = self._sources.setdefault(port.index, _Source())
            source.counted += 1
            records = [interface_counters(port_counters(port, link, queues.get(port.index)))]
            if errors and port.index in errors:
                records.append(ethernet_counters(errors[port.index]))
            done = self.agent.add(counter_sample(source.counted, port.index, records), now_ms - self._began_ms)
            if done is not None:
                full.append(done)
        return [*full, *self.flush(now_ms)]

    def flush(self, now_ms: int) -> list[bytes]:
        """The datagram of what waits, if anything does."""
        done = self.agent.flush(now_ms - self._began_ms)
        return [] if done is None else [done]

    def _gap(self, sequence: int | None) -> int:
        """How many packets the kernel logged but did not deliver before this one."""
        if sequence is None:
            return 0
        gap = 0 if self._expected is None else (sequence - self._expected) & 0xFFFFFFFF
        self._expected = sequence + 1 & 0xFFFFFFFF
        return gap if gap < 1 << 31 else 0  # a lower number: the group was bound anew

    def _way(self, packet: Packet) -> tuple[bytes, ...]:
        """The record of the route taken, where the packet is IPv4 and left by a port that we know."""
        if packet.header[12:14] != _IPV4 or packet.out_port not in self.ports or len(packet.header) < 34:
            return ()
        key = (packet.out_port, packet.header[26:34])
        way = self._ways.get(key)
        if way is None:
            if len(self._ways) >= _WAYS_MAX:
                self._ways.clear()
            way = self._ways[key] = extended_router(
                self.ports[packet.out_port].neighbour,
                prefix_length(self._routes, int.from_bytes(key[1][:4], "big")),
                prefix_length(self._routes, int.from_bytes(key[1][4:], "big")),
            )
        return (way,)


def port_counters(port: SwitchPort, link: Counters, queue: Queue | None) -> InterfaceCounters:
    """One port's counters in the words of IF-MIB.

    Discards on the way out are what the queue threw away and what the driver did. Linux counts multicast on the way in
    only and broadcast nowhere: those that it does not count are told as such, the rest is unicast.
    """
    return InterfaceCounters(
        if_index=port.index,
        if_type=_ETHERNET_CSMACD,
        speed_bps=port.rate_bps,
        direction=_FULL_DUPLEX,
        status=(1 if link.wanted_up else 0) | (2 if link.operstate == "up" else 0),
        in_octets=link.rx_bytes,
        in_unicast=link.rx_packets - link.multicast,
        in_multicast=link.multicast,
        in_broadcast=_NOT_COUNTED,
        in_discards=link.rx_dropped,
        in_errors=link.rx_errors,
        in_unknown_protocols=_NOT_COUNTED,
        out_octets=link.tx_bytes,
        out_unicast=link.tx_packets,
        out_multicast=_NOT_COUNTED,
        out_broadcast=_NOT_COUNTED,
        out_discards=link.tx_dropped + (queue.drops if queue else 0),
        out_errors=link.tx_errors,
        promiscuous=_NOT_COUNTED,
    )


def reason_of(prefix: str) -> int:
    """The reason that a rule's log prefix names: `leadline-acl` or `no_buffer_space`, say; else unknown."""
    return _REASON_CODES.get(prefix.strip().removeprefix("leadline-").rstrip(":"), _REASON_CODES["unknown"])


def nft_rules(ports: Iterable[str], rate: int, group: int, header_bytes: int, threshold: int) -> str:
    """What `nft -f` must be told in a switch: log one forwarded packet in `rate`.

    The chain comes before those that discard (priority 0), as an ASIC samples on ingress. `rate` 1 logs every packet.
    """
    several = f"numgen random mod {rate} 0 " if rate > 1 else ""
    names = ", ".join(f'"{name}"' for name in ports)
    return (
        f"table inet {TABLE} {{}}\n"
        f"delete table inet {TABLE}\n"
        f"table inet {TABLE} {{\n"
        "  chain forward {\n"
        "    type filter hook forward priority -10; policy accept;\n"
        f"    iifname {{ {names} }} {several}"
        f"log group {group} snaplen {header_bytes - 14} queue-threshold {threshold}\n"
        "  }\n"
        "}\n"
    )
