"""What network and clock faults do to real traffic and real agents, in namespaces."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from leadline.lab import clock, faketime
from leadline.lab.faults.base import of_magnitude
from leadline.lab.faults.network.wrong_mtu import WrongMtu
from leadline.lab.faults.telemetry.clock import ClockDrift, ClockStep
from leadline.lab.realise.cluster import Cluster
from leadline.lab.running import RunningLab
from leadline.lab.telemetry.kernel_log import append
from leadline.lab.topology import load
from leadline.lab.truth import Magnitude
from leadline.lab.workloads.incast.job import Incast

LONG = 400_000  # bytes: segments as long as the path takes
PATIENCE_S = 1.5  # unhindered it takes some 20 ms


@pytest.fixture(scope="module")
def lab() -> Iterator[RunningLab]:
    import os

    with Cluster(load("tiny"), f"n{os.getpid()}") as cluster:
        yield RunningLab(cluster)


def passes(lab: RunningLab, source: str, target: str, size: int) -> bool:
    """Whether so many bytes of a new TCP connection get from one host to another."""
    listener = lab.cluster.socket_in(target, socket.AF_INET, socket.SOCK_STREAM)
    sender = lab.cluster.socket_in(source, socket.AF_INET, socket.SOCK_STREAM)
    with listener, sender:
        listener.bind((lab.cluster.address(target), 0))
        listener.listen(1)
        listener.settimeout(PATIENCE_S)
        sender.settimeout(PATIENCE_S)
        sender.connect(listener.getsockname())
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            thread = threading.Thread(target=partial(_send, sender, size))
            thread.start()
            got = 0
            try:
                while got < size:
                    got += len(connection.recv(1 << 16))
            except TimeoutError:
                return False
            finally:
                thread.join()
            return True


def _send(sender: socket.socket, size: int) -> None:
    try:
        sender.sendall(bytes(size))
    except TimeoutError:
        return


@pytest.mark.parametrize(
    ("magnitude", "to_leaf_2", "from_leaf_2"),
    [("small", True, True), ("medium", False, True), ("large", False, False)],
)
def test_a_wrong_mtu_lets_short_packets_pass_and_stops_long_ones_where_nobody_tells(
    lab: RunningLab, magnitude: Magnitude, to_leaf_2: bool, from_leaf_2: bool
) -> None:
    fault = of_magnitude(WrongMtu, magnitude, link="leaf2~spine1")
    assert passes(lab, "h1", "h2", LONG)
    before = dict(fault.seen(lab))
    fault.start(lab)
    try:
        assert passes(lab, "h1", "h2", 800)
        assert passes(lab, "h1", "h2", LONG) is to_leaf_2
        assert passes(lab, "h2", "h1", LONG) is from_leaf_2
        seen = dict(fault.seen(lab))
    finally:
        fault.stop(lab)
    assert int(str(seen["too_long"])) > int(str(before["too_long"]))
    assert passes(lab, "h1", "h2", LONG)
    assert passes(lab, "h2", "h1", LONG)


@pytest.mark.skipif(faketime.faketime() is None, reason="needs libfaketime (Debian: apt install libfaketime)")
def test_an_agent_tells_the_time_of_its_machine(lab: RunningLab) -> None:
    """The agent of the host whose clock stepped stamps its readings so; the other host's does not."""
    step = ClockStep(host="h1", step_s=-1000.0).chosen(lab, random.Random(1))
    step.prepare(lab)
    step.start(lab)
    try:
        now_ns = time.time_ns()
        assert abs(clock.read_offset_ns(lab, "h1") + 1000 * 10**9) < 10**6
        stamps = {host: _newest_stamp(lab, host) for host in ("h1", "h2")}
    finally:
        step.stop(lab)
    assert -1000 <= (stamps["h1"] - now_ns) / 1e9 < -900
    assert 0 <= (stamps["h2"] - now_ns) / 1e9 < 100
    assert abs(clock.read_offset_ns(lab, "h1")) < 10**6


@pytest.mark.skipif(faketime.faketime() is None, reason="needs libfaketime (Debian: apt install libfaketime)")
def test_a_drift_adds_to_a_step_and_each_ends_by_itself(lab: RunningLab) -> None:
    step, drift = ClockStep(host="h2", step_s=5.0), ClockDrift(host="h2", drift_ppm=500.0)
    step.prepare(lab)
    step.start(lab)
    drift.start(lab)
    time.sleep(1.0)
    both_ns = clock.read_offset_ns(lab, "h2")
    step.stop(lab)
    drift_ns = clock.read_offset_ns(lab, "h2")
    drift.stop(lab)
    assert both_ns > 5 * 10**9 + 100_000
    assert 100_000 < drift_ns < 10**9
    assert abs(clock.read_offset_ns(lab, "h2")) < 100_000


def _newest_stamp(lab: RunningLab, host: str) -> int:
    """When a host's agent says that a line came which its kernel log has got just now."""
    log = lab.state / "log" / f"{host}.once.log"
    directory = lab.state / "hosts" / host
    append(directory, "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver", 3)
    settings = {"host": host, "sys_root": str(directory / "sys"), "kmsg": str(directory / "kmsg")}
    process = lab.cluster.spawn(
        host,
        [sys.executable, "-m", "leadline.host.main", "--once"],
        name="once",
        env={f"LEADLINE_AGENT__{name.upper()}": value for name, value in settings.items()},
        stdout=log,
    )
    assert process.popen.wait(60) == 0, log.read_text()
    text = log.read_text()
    return max(_numbers(json.loads(text[text.index("{") :])))


def _numbers(found: object) -> Iterator[int]:
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for each in found:
            yield from _numbers(each)
    elif isinstance(found, int) and 10**18 < found < 10**19:
        yield found


def test_bursts_of_many_hosts_overflow_the_queue_of_one_port(lab_name: str) -> None:
    with Cluster(load("clos8"), lab_name) as cluster:
        into = cluster.topology.neighbour(cluster.topology.host("h1").primary)

        def drops() -> int:
            told = cluster.command(into.node, ["tc", "-json", "-s", "qdisc", "show", "dev", into.name])
            return sum(int(each["drops"]) for each in json.loads(told) if each.get("root"))

        job = Incast(hosts=["h1", "h2", "h3", "h4", "h6"], burst_bytes=1 << 18, period_s=0.2, seconds=1.5)
        assert drops() == 0
        job.start(cluster)
        codes, report = job.wait(60), job.report()
        dropped = drops()
        job.stop()
    assert codes == dict.fromkeys(range(5), 0)
    assert report["received_bytes"] == report["bursts"] * 4 * (1 << 18) > 0
    assert dropped > 0
