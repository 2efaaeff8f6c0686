"""A machine's wrong clock: the file that libfaketime reads, and a real program that reads its time by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.lab import clock, faketime
from leadline.lab.levers import Levers
from leadline.lab.topology import load

PROGRAM = """
import json, threading, time
began = time.monotonic()
time.sleep(0.05)
threading.Event().wait(0.05)
print(json.dumps([time.time_ns(), time.monotonic() - began]))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    """Stands for a lab of which only the state and the topology matter: two hosts on each machine."""
    topology = load("cloud16")
    for host in topology.hosts:
        (tmp_path / "hosts" / host.name).mkdir(parents=True)
    return SimpleNamespace(state=tmp_path, cluster=SimpleNamespace(topology=topology))


needs_library = pytest.mark.skipif(
    faketime.faketime() is None, reason="needs libfaketime (Debian: apt install libfaketime)"
)


def test_without_a_clock_file_nobody_pays(lab: Any) -> None:
    assert faketime.variables(lab.state, "h1") == {}


@needs_library
def test_hosts_of_a_machine_share_its_clock_and_others_do_not(lab: Any) -> None:
    clock.prepare(lab)
    clock.prepare(lab)  # a second fault asks for the same
    machines = lab.cluster.topology.machines()
    first, *others = machines
    faketime.write_offset(lab.state / "machines" / first / "clock", 1.5)
    told = {name: {(lab.state / "hosts" / h.name / "clock").read_text() for h in machines[name]} for name in machines}
    assert told[first] == {"+1.500000000\n"}
    assert all(told[name] == {"+0.000000000\n"} for name in others)
    assert any(len(hosts) > 1 for hosts in machines.values())


@needs_library
def test_offsets_add_up(lab: Any) -> None:
    clock.prepare(lab)
    machine = next(iter(lab.cluster.topology.machines()))
    levers, lever, step, drift = Levers(), clock.offset(lab, machine), object(), object()
    path = lab.state / "machines" / machine / "clock"
    levers.hold(lever, step, -2.0)
    levers.hold(lever, drift, 0.000125)
    assert path.read_text() == "-1.999875000\n"
    levers.release(lever, step)
    assert path.read_text() == "+0.000125000\n"
    levers.release(lever, drift)
    assert path.read_text() == "+0.000000000\n"


@needs_library
@pytest.mark.parametrize("seconds", [-30.0, 0.25, 1e6])
def test_a_program_reads_the_wrong_time_and_sleeps_as_long_as_it_should(lab: Any, seconds: float) -> None:
    import time

    clock.prepare(lab)
    faketime.write_offset(lab.state / "machines" / lab.cluster.topology.host("h1").machine / "clock", seconds)
    environment = {**os.environ, **faketime.variables(lab.state, "h1")}
    before_ns = time.time_ns()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    after_ns = time.time_ns()
    reported_ns, took_s = json.loads(done.stdout)
    assert before_ns <= reported_ns - round(seconds * 1e9) <= after_ns
    assert took_s >= 0.1  # the monotonic clock goes on as ever


def test_what_was_preloaded_before_stays(lab: Any) -> None:
    if faketime.faketime() is None:
        pytest.skip("needs libfaketime (Debian: apt install libfaketime)")
    clock.prepare(lab)
    told = faketime.variables(lab.state, "h1", {"LD_PRELOAD": "/lib/other.so", "PYTHONPATH": "/src"})
    assert told["LD_PRELOAD"] == f"{faketime.faketime()} /lib/other.so"
    assert told["PYTHONPATH"].endswith(f"{os.pathsep}/src")


def test_a_machine_without_the_library_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faketime, "faketime", lambda: None)
    with pytest.raises(Exception, match="apt install libfaketime"):
        faketime.require()
