"""The prober between namespaces: two hosts with two routers between them."""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.host.mesh.native import build

from leadline.host.mesh.commands import Options, Peer
from leadline.host.mesh.lines import Edge, Line, Silence, Trace
from leadline.host.mesh.prober import Prober

KEY = b"k" * 16
SECONDS = 20.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("prober"), "all") / "leadline-prober"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def chain() -> Iterator[list[str]]:
    """Namespaces host, router, router, host; the hosts are 10.71.1.1 and 10.71.3.2."""
    names = [f"llp{os.getpid()}_{number}" for number in range(4)]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for number, (left, right) in enumerate(itertools.pairwise(names), 1):
            ip("link", "add", "right", "netns", left, "type", "veth", "peer", "name", "left", "netns", right)
            for name, device, end in ((left, "right", 1), (right, "left", 2)):
                ip("-n", name, "addr", "add", f"10.71.{number}.{end}/24", "dev", device)
                ip("-n", name, "link", "set", device, "up")
        ip("-n", names[0], "route", "add", "default", "via", "10.71.1.2")
        ip("-n", names[1], "route", "add", "10.71.3.0/24", "via", "10.71.2.2")
        ip("-n", names[2], "route", "add", "10.71.1.0/24", "via", "10.71.2.1")
        ip("-n", names[3], "route", "add", "default", "via", "10.71.3.1")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_routers_are_told_and_a_dead_path_within_a_tenth_of_a_second(program: Path, chain: list[str]) -> None:
    said: queue.SimpleQueue[Line] = queue.SimpleQueue()

    def until(kind: type, valid: bool = False) -> Line:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            line = said.get(timeout=SECONDS)
            if isinstance(line, kind) and (not valid or line.fit is not None):
                return line
        raise AssertionError(f"no {kind.__name__} in {SECONDS:g} s")

    ends = [(chain[0], "a", 1, "10.71.1.1"), (chain[3], "b", 2, "10.71.3.2")]
    probers = [
        Prober(
            Options(name, id, KEY, 7500, ports=2, rate=100.0),
            said.put if name == "a" else lambda line: None,
            ["ip", "netns", "exec", where, str(program)],
        )
        for where, name, id, _ in ends
    ]
    b = Peer(2, "b", ends[1][3], 7500, True)
    try:
        probers[0].set_peers([b])
        probers[1].set_peers([Peer(1, "a", ends[0][3], 7500, False)])
        for each in probers:
            each.start()
        edge = until(Edge, valid=True)
        assert edge.fit.width_ns > 0
        probers[0].trace(b, 1, hops=4)
        trace = until(Trace)
        assert (trace.src_port, trace.hops) == (7501, ("10.71.1.2", "10.71.2.2", None, None))
        assert until(Edge, valid=True).stamp == "kernel"
        began_ns = time.time_ns()
        ip("-n", chain[2], "link", "set", "right", "down")
        silent = until(Silence)
        assert silent.is_silent
        assert silent.age_ns < 300_000_000
        assert time.time_ns() - began_ns < 2_000_000_000
    finally:
        for each in probers:
            each.stop()
