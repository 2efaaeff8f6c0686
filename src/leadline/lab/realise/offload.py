"""Segmentation offload of a NIC, by the ioctl that `ethtool -K` uses: a program started per port would cost more.

With it a "packet" on a veth pair may be 64 KB long, and a sampled one would stand for forty. A real NIC cuts such a
thing up before it reaches the wire, so the lab's hosts send what a wire carries.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Iterable

from leadline.model.errors import WorldError

SIOCETHTOOL = 0x8946
ETHTOOL_STSO, ETHTOOL_SGSO = 0x1F, 0x24  # linux/ethtool.h: set TCP and generic segmentation offload


def segmentation_off(ports: Iterable[str]) -> None:
    """Turn both off, for ports of the calling thread's network namespace. Errors: WorldError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for port in ports:
            for command in (ETHTOOL_STSO, ETHTOOL_SGSO):
                _set(handle, port, command, 0)


def _set(handle: socket.socket, port: str, command: int, value: int) -> None:
    told = array.array("I", [command, value])  # struct ethtool_value
    address, _ = told.buffer_info()
    request = struct.pack("16sP", port.encode(), address).ljust(40, b"\0")  # struct ifreq
    try:
        fcntl.ioctl(handle, SIOCETHTOOL, request)
    except OSError as error:
        raise WorldError(f"{port}: cannot turn segmentation offload off: {error.strerror}") from error
