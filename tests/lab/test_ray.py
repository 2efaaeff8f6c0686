"""A real Ray cluster over two hosts: its collectives are watched, its actors are what faults take hold of."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import load
from leadline.lab.workloads.base import signal_process
from leadline.lab.workloads.ray_cluster.job import ActorProcess, Ray
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.segments import decode_ring

pytestmark = pytest.mark.slow


def test_collectives_of_ray_are_seen_and_its_actors_are_the_ranks(lab_name: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'leadline[ray]'")
    with Cluster(load("tiny"), lab_name) as cluster:
        job = Ray(payload_bytes=1 << 18, pause_s=0.05)
        job.start(cluster)
        try:
            wait_until(job.ready, "every rank has made a step", 150.0)
            assert [one.host for one in job.ranks] == ["h1", "h2"]
            for one in job.ranks:
                assert isinstance(one.process, ActorProcess)
                assert os.readlink(f"/proc/{one.process.pid}/ns/net") == namespace_of(cluster, one.host)
                assert one.process.pid in one.process.cgroup.processes(), "a quota on the rank holds its actor"
            before = len(job.steps_done())
            wait_until(lambda: len(job.steps_done()) > before + 3, "steps go on")
            assert all(end > start for start, end in job.steps_done())
            for host in ("h1", "h2"):
                told = rows_of(cluster.state / "hosts" / host / "ring")
                assert {row["op"] for row in told["collective"]} == {"all_reduce"}
                assert {row["job"] for row in told["collective"]} == {"ray-1"}
                assert max(row["bytes"] for row in told["collective"]) == 1 << 18
                assert len(told["step"]) >= before

            signal_process(job.ranks[1].process, signal.SIGKILL)
            wait_until(lambda: all(job.poll().values()), "the driver tells the failure", 60.0)
        finally:
            job.stop()
        groups = [one for one in os.listdir("/proc") if one.isdigit() and ray_of(one, str(cluster.state))]
        assert groups == [], "nothing of Ray is left"


def rows_of(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows in a host's rings, by table."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in directory.glob("*.ring"):
        last = 0
        while (reading := read_segment(path.read_bytes(), last)).segment:
            last = reading.last
            for table, rows in decode_ring(reading.segment).tables.items():
                found.setdefault(table, []).extend(rows.to_pylist())
    return found


def namespace_of(cluster: Cluster, host: str) -> str:
    """The network namespace of a host, as /proc names it."""
    return str(cluster.call_in(host, lambda: os.readlink("/proc/thread-self/ns/net")))


def ray_of(pid: str, state: str) -> bool:
    """Whether a process is one of Ray's in this lab."""
    try:
        return state.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wait_until(true: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait for something to come true."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.2)
