"""Hosts on one bridge: a network namespace each, virtual Ethernet, a token bucket at each port of the bridge.

All share the kernel's clock, so the true difference between any two of them is 0.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SINK_PORT = 9009
BURST_BYTES, QUEUE_BYTES = 16_000, 120_000  # of a port: what passes at once, and what waits


def missing() -> str:
    """Why there can be no hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    ran = subprocess.run(["ip", "netns", "list"], capture_output=True, check=False)
    return "" if ran.returncode == 0 else "needs ip (Debian: iproute2)"


class Hosts:
    """Namespaces on one bridge. Construction is inert; a `with` block has them."""

    def __init__(self, count: int, port_mbit: int) -> None:
        self._port_mbit = port_mbit
        self._switch = f"lkc{os.getpid()}s"
        self.names = [f"lkc{os.getpid()}_{number}" for number in range(count)]
        self.addresses = [f"10.73.0.{number + 1}" for number in range(count)]
        self.server_address = "10.73.0.254"  # of the switch's namespace

    def __enter__(self) -> Hosts:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in (*self.names, self._switch):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def command(self, host: int, words: Sequence[str]) -> list[str]:
        """The command, run on a host; -1: at the switch."""
        return ["ip", "netns", "exec", self._switch if host < 0 else self.names[host], *words]

    def sent_bytes(self, host: int) -> int:
        """What its card has sent, Ethernet headers included."""
        words = self.command(host, ["cat", "/sys/class/net/eth0/statistics/tx_bytes"])
        return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

    @contextlib.contextmanager
    def load(self, ratio: float) -> Iterator[None]:
        """Every host sends bursts to the next one, so that each port is busy for this share of the time."""
        if not ratio:
            yield
            return
        program, count = [sys.executable, "-m", "bench.clock_parts.load"], len(self.names)
        mbit = f"{ratio * self._port_mbit}"
        sinks = [[*program, "sink", str(SINK_PORT)]] * count
        senders = [
            [*program, "send", self.addresses[(each + 1) % count], str(SINK_PORT), mbit] for each in range(count)
        ]
        running = []
        try:
            for words in (sinks, senders):
                running += [subprocess.Popen(self.command(host, each), cwd=ROOT) for host, each in enumerate(words)]
            yield
        finally:
            ended(running)

    def _make(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._switch, "addr", "add", f"{self.server_address}/24", "dev", "br0")
        _ip("-n", self._switch, "link", "set", "br0", "up")
        for number, name in enumerate(self.names):
            port = f"p{number}"
            _ip("netns", "add", name)
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self._switch)
            _ip("-n", name, "addr", "add", f"{self.addresses[number]}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
            _ip("-n", self._switch, "link", "set", port, "master", "br0", "up")
            bucket = ["rate", f"{self._port_mbit}mbit", "burst", str(BURST_BYTES), "limit", str(QUEUE_BYTES)]
            _run("tc", "-n", self._switch, "qdisc", "add", "dev", port, "root", "tbf", *bucket)


def ended(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes, and wait for them."""
    for each in running:
        each.terminate()
    for each in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            each.wait(5)
            continue
        each.kill()
        each.wait()


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
