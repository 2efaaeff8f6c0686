"""The sockets of this process: which five-tuples it sends and receives on.

Each own file descriptor is asked for its two addresses (getsockname, getpeername), which costs two system calls per
descriptor whatever else the host does; the table of all sockets, /proc/net/tcp, has 100,000 lines on a busy host. The
calls go through ctypes: Python's own socket object would have to duplicate the descriptor, which delays its close.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
from typing import NamedTuple

SOCKETS_MAX = 4096  # descriptors looked at per round: 2 us each
_ADDRESS_BYTES = 128  # sizeof(struct sockaddr_storage)

_libc = ctypes.CDLL(None, use_errno=True)


class Socket(NamedTuple):
    """One connected internet socket: protocol number and both ends."""

    protocol: int
    local_ip: str
    local_port: int
    peer_ip: str
    peer_port: int


def own_sockets() -> set[Socket]:
    """Connected TCP and UDP sockets of this process, loopback left out. Errors: OSError if /proc is not there."""
    found = (_socket_of(int(name)) for name in os.listdir("/proc/self/fd")[:SOCKETS_MAX])
    return {one for one in found if one is not None and not _is_loopback(one.local_ip)}


def _socket_of(number: int) -> Socket | None:
    """The connected internet socket behind a descriptor, or None: a file, a listener, or closed by now."""
    peer = _address(_libc.getpeername, number)
    local = _address(_libc.getsockname, number) if peer else None
    if peer is None or local is None:
        return None
    protocol = _option(number, socket.SOL_SOCKET, socket.SO_PROTOCOL)
    if protocol not in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        return None
    return Socket(protocol, *local, *peer)


def _address(call: ctypes._NamedFuncPointer, number: int) -> tuple[str, int] | None:
    data = ctypes.create_string_buffer(_ADDRESS_BYTES)
    length = ctypes.c_uint32(_ADDRESS_BYTES)
    if call(number, data, ctypes.byref(length)) != 0:
        return None
    return parse_address(data.raw[: length.value])


def parse_address(data: bytes) -> tuple[str, int] | None:
    """IP address and port of a `struct sockaddr`; None for other families. An IPv4 address inside IPv6 comes out as
    IPv4, because that is what the switch sees."""
    if len(data) < 8:
        return None
    family = int.from_bytes(data[:2], "little" if struct.pack("=H", 1) == b"\x01\x00" else "big")
    port = int.from_bytes(data[2:4], "big")
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(data[4:8])), port
    if family == socket.AF_INET6 and len(data) >= 24:
        address = ipaddress.IPv6Address(data[8:24])
        return str(address.ipv4_mapped or address), port
    return None


def _option(number: int, level: int, name: int) -> int:
    value, length = ctypes.c_int(-1), ctypes.c_uint32(4)
    if _libc.getsockopt(number, level, name, ctypes.byref(value), ctypes.byref(length)) != 0:
        return -1
    return value.value


def _is_loopback(text: str) -> bool:
    return ipaddress.ip_address(text).is_loopback
