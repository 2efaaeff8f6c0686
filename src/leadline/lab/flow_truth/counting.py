"""Counting every flow in the kernel of a switch: what nft is told, how its sets are asked for, what they answer. Pure.

A chain of ours comes after all rules that discard (priority 300 after routing, netfilter's last; Linux 5.7 and later
tell there by which port a packet came), so that only what is handed to the port's queue counts. It keeps one counter
for each flow and port by which it leaves, in sets of the port by which it came: nft 1.0.6 allows five fields in a key
and crashes over seven; over fields that are no type of its own (`@th,...`) it crashes whenever anybody lists anything
in that namespace. So the queue pair of RoCEv2 is carried by the packet's mark, for as long as the rule takes.
Source: include/uapi/linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from leadline.model.errors import DataError
from leadline.wire.netlink import framing as netlink

TABLE = "leadline_flows"
ETHERNET_BYTES = 14  # netfilter sees IP packets; `frame_bytes` has the header as well
ROCE_PORT, TCP, UDP = 4791, 6, 17
_KINDS = ("tcp", "udp", "roce")
_PAIR = "@th,96,32"  # bytes 4 to 7 of the BTH behind the UDP header: flags, queue pair
_SIZE = 1 << 16  # flows and ports out, of one port in; a set takes room only as it grows
_IDLE = "5m"  # a counter that nobody needs goes; it has been read long before

NETLINK_NETFILTER = 12
_GET_ELEMENTS, _NEW_ELEMENTS = 10 << 8 | 13, 10 << 8 | 12  # sub-system nftables
_INET = struct.pack(">BBH", 1, 0, 0)
_LIST_TABLE, _LIST_SET, _LIST_ELEMENTS = 1, 2, 3
_KEY, _EXPRESSION, _VALUE = 1, 7, 1
_EXPRESSION_DATA, _BYTES, _PACKETS = 2, 1, 2
_U64 = struct.Struct(">Q")
# Every field is padded to four bytes; the port out is in the machine's order, the mark as it lay in the packet.
_ENTRY = struct.Struct("<4s4s2sxx2sxxI")
_ROCE_ENTRY = struct.Struct("<4s4s2sxx4sI")


class Counted(NamedTuple):
    """What one counter of a switch is of."""

    src_ip: str
    dst_ip: str
    protocol: int
    src_port: int
    dst_port: int
    dst_qp: int | None
    in_port: str
    out_port: int  # its ifIndex


class Count(NamedTuple):
    """Since the counter began."""

    packets: int
    bytes: int  # of frames


def rules(ports: Sequence[str]) -> str:
    """What `nft -f` is told in a switch with these ports."""
    sets, chains = "", ""
    for number, _ in enumerate(ports):
        for kind in _KINDS:
            last = "mark" if kind == "roce" else "inet_service"
            sets += (
                f"  set {kind}_{number} {{ type ipv4_addr . ipv4_addr . inet_service . {last} . iface_index; "
                f"size {_SIZE}; flags dynamic,timeout; timeout {_IDLE}; counter; }}\n"
            )
        flow = "{ ip saddr . ip daddr . udp sport . "
        chains += (
            f"  chain in_{number} {{\n"
            f"    update @tcp_{number} {{ ip saddr . ip daddr . tcp sport . tcp dport . oif }} accept\n"
            f"    udp dport != {ROCE_PORT} update @udp_{number} {flow}udp dport . oif }} accept\n"
            f"    udp dport {ROCE_PORT} meta mark set {_PAIR} update @roce_{number} {flow}meta mark . oif }} "
            "meta mark set 0 accept\n"
            "    meta l4proto { tcp, udp } counter name missed\n"
            "  }\n"
        )
    jumps = ", ".join(f'"{port}" : jump in_{number}' for number, port in enumerate(ports))
    return (
        f"table inet {TABLE} {{}}\n"
        f"delete table inet {TABLE}\n"
        f"table inet {TABLE} {{\n{sets}"
        f"  counter missed {{ }}\n{chains}"
        "  chain sent {\n"
        "    type filter hook postrouting priority 300; policy accept;\n"
        f"    meta nfproto ipv4 iifname vmap {{ {jumps} }}\n"
        "  }\n"
        "}\n"
    )


def sets_of(ports: Sequence[str]) -> dict[str, str]:
    """The sets of a switch with these ports, and the port by which came what each has."""
    return {f"{kind}_{number}": port for number, port in enumerate(ports) for kind in _KINDS}


def request(name: str) -> bytes:
    """Ask for all counters of a set."""
    asked = netlink.attribute(_LIST_TABLE, TABLE.encode() + b"\0") + netlink.attribute(_LIST_SET, name.encode() + b"\0")
    return netlink.message(_GET_ELEMENTS, netlink.REQUEST | netlink.DUMP, _INET + asked)


def counts(answer: Iterable[netlink.Message], name: str, in_port: str) -> dict[Counted, Count]:
    """The counters of an answer. One that is told twice, because the set grew meanwhile, counts once; queue pairs whose
    packets differ in flags only are added up. Errors: DataError.
    """
    raw: dict[bytes, Count] = {}
    for kind, body in answer:
        if kind != _NEW_ELEMENTS:
            continue
        for what, elements in netlink.attributes(body[len(_INET) :]):
            if what == _LIST_ELEMENTS:
                for _, element in netlink.attributes(elements):
                    key, count = _element(element)
                    raw[key] = max(count, raw.get(key, count))
    found: dict[Counted, Count] = {}
    for key, count in raw.items():
        counted = counted_by(key, name, in_port)
        before = found.get(counted, Count(0, 0))
        found[counted] = Count(before.packets + count.packets, before.bytes + count.bytes)
    return found


def counted_by(key: bytes, name: str, in_port: str) -> Counted:
    """What a key of a set stands for. Errors: DataError if it has another length."""
    if len(key) != _ENTRY.size:
        raise DataError(f"nft set {name}", f"keys of {_ENTRY.size} bytes", f"{len(key)} bytes")
    kind, pair = name.partition("_")[0], None
    if kind == "roce":
        source, target, source_port, told, out_port = _ROCE_ENTRY.unpack(key)
        target_port, pair = ROCE_PORT.to_bytes(2, "big"), int.from_bytes(told[1:], "big")
    else:
        source, target, source_port, target_port, out_port = _ENTRY.unpack(key)
    return Counted(
        ".".join(map(str, source)),
        ".".join(map(str, target)),
        TCP if kind == "tcp" else UDP,
        int.from_bytes(source_port, "big"),
        int.from_bytes(target_port, "big"),
        pair,
        in_port,
        out_port,
    )


def grown(before: Mapping[Counted, Count], now: Mapping[Counted, Count]) -> dict[Counted, Count]:
    """What was counted in between. A counter that is lower than before began anew after a pause."""
    found = {}
    for counted, count in now.items():
        old = before.get(counted, Count(0, 0))
        anew = count.packets < old.packets or count.bytes < old.bytes
        more = count if anew else Count(count.packets - old.packets, count.bytes - old.bytes)
        if more.packets:
            found[counted] = more
    return found


def missed(listing: str) -> int:
    """Packets that no counter took (fragments, a full set), from `nft --json list counter`. Errors: DataError."""
    try:
        told = [each["counter"]["packets"] for each in json.loads(listing)["nftables"] if "counter" in each]
        return int(told[0])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError("nft, counter missed", "its packets as JSON", listing[:200] or "nothing") from error


def _element(element: memoryview) -> tuple[bytes, Count]:
    key, packets, size = b"", 0, 0
    for kind, value in netlink.attributes(element):
        if kind == _KEY:
            key = next((bytes(data) for what, data in netlink.attributes(value) if what == _VALUE), b"")
        elif kind == _EXPRESSION:
            for what, data in netlink.attributes(value):
                if what == _EXPRESSION_DATA:
                    told = dict(netlink.attributes(data))
                    packets, size = (
                        netlink.number(told.get(each, memoryview(b"")), _U64, "nft counter")
                        for each in (_PACKETS, _BYTES)
                    )
    return key, Count(packets, size + ETHERNET_BYTES * packets)
