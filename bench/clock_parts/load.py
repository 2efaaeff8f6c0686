"""Other traffic: bursts of 8 packets of 1,400 bytes at random times. `send ADDRESS PORT MBIT` or `sink PORT`."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import time

PACKETS, PACKET_BYTES, HEADERS_BYTES = 8, 1_400, 42


def send(address: str, port: int, mbit_per_s: float) -> None:
    """Send for ever; what was missed because the machine was busy is not made up for."""
    wait_s = PACKETS * (PACKET_BYTES + HEADERS_BYTES) * 8 / (mbit_per_s * 1e6)
    data, due = bytes(PACKET_BYTES), time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect((address, port))
        while True:
            for _ in range(PACKETS):
                with contextlib.suppress(ConnectionRefusedError):  # its sink is about to begin
                    one.send(data)
            due = max(due + random.expovariate(1 / wait_s), time.monotonic() - 0.1)
            time.sleep(max(0.0, due - time.monotonic()))


def sink(port: int) -> None:
    """Take what comes, and never read it: the kernel drops it without an answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("0.0.0.0", port))
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        sink(int(sys.argv[2]))
