"""How labs end: taken down, interrupted, failed, killed. Nothing of ours stays, nothing of others goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.lab_realise import leftovers_after_kills, traces

from leadline.lab import state
from leadline.lab.realise import leftovers, namespaces, plan
from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import load
from leadline.model.errors import UsageError, WorldError

TINY = load("tiny")


@pytest.fixture
def foreign(lab_name: str) -> Iterator[str]:
    """A namespace that looks like one of ours, but is not."""
    name = f"ll-{lab_name}-h1"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


def test_down_is_complete_and_may_be_repeated(lab_name: str) -> None:
    cluster = Cluster(TINY, lab_name)
    cluster.down()
    cluster.up()
    cluster.up()
    assert len(traces(lab_name, state.state_root())) == len(TINY.nodes) + 1
    cluster.down()
    cluster.down()
    assert traces(lab_name, state.state_root()) == []
    cluster.up()
    cluster.down()
    assert traces(lab_name, state.state_root()) == []


def test_a_failure_in_the_middle_leaves_nothing(lab_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nonsense = ["qdisc add dev nonsense root nonsense"]
    monkeypatch.setattr(plan, "node_shapes", lambda topology: dict.fromkeys(topology.nodes, nonsense))
    with pytest.raises(WorldError, match=r"tc -batch - failed"):
        Cluster(TINY, lab_name).up()
    assert traces(lab_name, state.state_root()) == []


def test_an_interrupt_in_the_middle_leaves_nothing(lab_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "cable_lines", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Cluster(TINY, lab_name).up()
    assert traces(lab_name, state.state_root()) == []


def test_an_exception_inside_leaves_nothing(lab_name: str) -> None:
    def use() -> None:
        with Cluster(TINY, lab_name) as cluster:
            cluster.spawn("h1", ["sleep", "60"], name="x", detached=True)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        use()
    assert traces(lab_name, state.state_root()) == []


def test_a_second_lab_of_the_name_is_refused_and_harms_nothing(lab_name: str) -> None:
    with Cluster(TINY, lab_name) as first:
        second = Cluster(TINY, lab_name)
        with pytest.raises(UsageError, match=rf"{lab_name}' is up already \(process {os.getpid()}\)"):
            second.up()
        second.down()
        assert first.command("h1", ["ip", "route"]) != ""


def test_a_foreign_namespace_is_in_the_way_and_stays(foreign: str, lab_name: str) -> None:
    cluster = Cluster(TINY, lab_name)
    with pytest.raises(WorldError, match=f"{foreign} is there and no lab of ours made it"):
        cluster.up()
    cluster.down()
    leftovers.remove_leftovers()
    assert namespaces.inode(foreign) is not None
    assert not cluster.state.exists()


def test_nothing_foreign_is_killed(lab_name: str, tmp_path: Path) -> None:
    """A dead lab is cleared away beside a living process and a namespace whose names look alike."""
    bystander = subprocess.Popen(["sleep", "60"])
    other = f"ll-{lab_name}x-h1"
    subprocess.run(["ip", "netns", "add", other], check=True)
    try:
        program = (
            "import os, signal, sys; from pathlib import Path; from leadline.lab.topology import load\n"
            "from leadline.lab.realise.cluster import Cluster\n"
            "Cluster(load('tiny'), sys.argv[1], Path(sys.argv[2])).up(); os.kill(os.getpid(), signal.SIGKILL)"
        )
        killed = subprocess.run([sys.executable, "-c", program, lab_name, str(tmp_path)], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert traces(lab_name, tmp_path)
        removed = leftovers.remove_leftovers(tmp_path)
        assert f"{lab_name}: {len(TINY.nodes)} network namespaces" in removed
        assert traces(lab_name, tmp_path) == [f"namespace {other}"]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
        subprocess.run(["ip", "netns", "del", other], check=True)


def test_killed_at_random_moments(lab_name: str) -> None:
    assert leftovers_after_kills(kills=4, preset="tiny", name=lab_name, seed=3) == []


def leadline(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from leadline.cli.main import main; main()"
    command = [sys.executable, "-c", program, "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_verbs(lab_name: str) -> None:
    made = leadline("up", "tiny", "--name", lab_name)
    assert made.returncode == 0, made.stderr
    assert f"lab {lab_name} (tiny: 4 switches, 2 hosts, 7 links) is up" in made.stdout

    again = leadline("up", "tiny", "--name", lab_name)
    assert again.returncode == 2
    assert "is up already (`leadline lab down` removes it)" in again.stderr

    cluster = Cluster.attach(lab_name)
    assert cluster.topology == TINY
    sleeper = cluster.spawn("h1", ["sleep", "600"], name="x", detached=True)
    told = leadline("status", "--name", lab_name, "--output", "json")
    assert told.returncode == 0
    answer = json.loads(told.stdout)
    assert answer["state"] == "ok"
    assert answer["owner_pid"] is None
    by_node = {node["node"]: node for node in answer["nodes"]}
    assert by_node["h1"]["programs"] == {"sleep": 1}
    assert {port["rate_bps"] for node in answer["nodes"] for port in node["ports"]} == {250_000_000}

    cluster.link_down("h1/eth0")
    assert leadline("status", "--name", lab_name).returncode == 1
    ports = leadline("status", "leaf1", "--name", lab_name)
    assert "swport:leaf1/Ethernet1" in ports.stdout
    assert leadline("status", "nothing", "--name", lab_name).returncode == 2

    down = leadline("down", "--name", lab_name)
    assert down.returncode == 0, down.stderr
    assert f"{lab_name}: 1 processes" in down.stdout
    assert sleeper.popen.wait(10.0) == -9
    assert traces(lab_name, state.state_root()) == []
    assert leadline("down", "--name", lab_name).stdout == "nothing to take down\n"
    assert leadline("status", "--name", lab_name).returncode == 2


def test_a_lab_in_use_is_not_taken_down_by_accident(lab_name: str) -> None:
    with Cluster(TINY, lab_name) as cluster:
        refused = leadline("down", "--name", lab_name)
        assert refused.returncode == 2
        assert f"belongs to process {os.getpid()}" in refused.stderr
        assert cluster.command("h1", ["ip", "route"])
        assert leadline("down", "--name", lab_name, "--force").returncode == 0
        assert traces(lab_name, state.state_root()) == []
