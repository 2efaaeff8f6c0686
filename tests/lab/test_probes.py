"""Hosts of a lab probe each other, each by a clock of its own: lines hold what clocks showed, and no prober stays."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.senders.running import RunningLeadline, wait_for
from tests.unit.host.mesh.native import build

from leadline.lab.agents import Agents
from leadline.lab.oscillators import Oscillator, drawn
from leadline.lab.realise.cluster import Cluster
from leadline.lab.relay import Relay
from leadline.lab.topology import load

EDGES, PORTS = 6, 2  # all pairs of four hosts; source ports of each
END_S = 10.0
LINES = (
    "SELECT src, dst, src_port, probe_ns, offset_ns, bound_ns, stamp FROM edge_fit WHERE state = 'valid' "
    "ORDER BY src, dst, src_port, probe_ns"
)
HOPS = (
    "SELECT DISTINCT src, dst, src_port, hop, address FROM probe_hop WHERE address != '' "
    "ORDER BY src, dst, src_port, hop"
)
OWN = "SELECT src, end_ns, probe_ns FROM edge_fit WHERE state = 'self'"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("prober"), "all") / "leadline-prober"


def test_lines_hold_what_clocks_showed_and_no_prober_stays(
    lab_name: str, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEADLINE_PROBER", shutil.copy(program, tmp_path))
    topology = load("shared")
    machines = {name: [host.name for host in hosts] for name, hosts in topology.machines().items()}
    clocks = drawn(machines, "stress", 7)
    with RunningLeadline(tmp_path) as leadline, Cluster(topology, lab_name) as cluster:
        relay, agents = Relay(cluster, leadline.url), Agents(cluster, clocks=clocks)
        try:
            relay.start()
            agents.start()
            wait_for("each edge's line", lambda: len(edges(leadline.sql(LINES))) == EDGES * PORTS, 120.0)
            wait_for("ways of probes", lambda: leadline.sql(HOPS), 60.0)
            ways = hops(leadline.sql(HOPS))
            told = (cluster.command(each.name, ["ip", "-o", "-4", "address"]) for each in topology.switches)
            routers = {word.partition("/")[0] for text in told for word in text.split() if word.count(".") == 3}
            probers = {host: prober_of(pid) for host, pid in agents.pids().items()}
            os.kill(agents.pids()["h1"], signal.SIGKILL)
            wait_for("the end of its prober", lambda: not runs(probers["h1"]), END_S)
            rows, own = leadline.sql(LINES), leadline.sql(OWN)
        finally:
            agents.stop()
            relay.stop()
        wait_for("the end of all probers", lambda: not any(map(runs, probers.values())), END_S)
    assert all(set(way) <= routers for way in ways.values()), ways
    assert max(map(len, ways.values())) >= 2, "a leaf, a spine"
    shown = {host: Oscillator(clock) for host, clock in clocks.items()}
    for row in rows:
        at_N = shown[row["src"]].raw(np.array([int(row["probe_ns"])]))
        true_ns = int(shown[row["dst"]].shown(at_N)[0]) - int(row["probe_ns"])
        assert abs(int(row["offset_ns"]) - true_ns) <= int(row["bound_ns"]), row
        assert row["stamp"] == "kernel"
    # A host's row says what its wall clock is ahead of the prober's; the wall clock is this machine's.
    for row in own:
        raw_ns = int(shown[row["src"]].raw(np.array([int(row["probe_ns"])]))[0])
        assert abs(int(row["end_ns"]) - raw_ns - clocks[row["src"]].base_ns) < 5_000_000, row


def hops(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], tuple[str, ...]]:
    """Routers that answered, of each way."""
    found: dict[tuple[str, str, int], tuple[str, ...]] = {}
    for row in rows:
        key = row["src"], row["dst"], row["src_port"]
        found[key] = (*found.get(key, ()), row["address"])
    return found


def edges(rows: list[dict[str, Any]]) -> set[tuple[str, str, int]]:
    return {(row["src"], row["dst"], row["src_port"]) for row in rows}


def prober_of(agent: int) -> int:
    """The child of an agent that probes."""
    for thread in Path(f"/proc/{agent}/task").iterdir():
        for child in (thread / "children").read_text().split():
            with contextlib.suppress(OSError):
                if "leadline-prober" in Path(f"/proc/{child}/cmdline").read_text():
                    return int(child)
    raise AssertionError(f"agent {agent} has no prober")


def runs(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
