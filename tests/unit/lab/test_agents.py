"""Agents of a lab: one that is restarted is not taken for one that has died."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.lab import agents
from leadline.lab.agents import PAIRS_S, Agents, probing
from leadline.lab.oscillators import Injected
from leadline.lab.realise.cluster import Cluster
from leadline.lab.relay import SERVER
from leadline.lab.topology import load


class Ended:
    """Stands for an agent's process that has ended."""

    def __init__(self, node: str, pid: int) -> None:
        self.node, self.pid, self.popen = node, pid, self

    def poll(self) -> int:
        return 0


def test_one_that_is_restarted_is_not_dead_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster, started = Cluster(load("tiny"), "x", tmp_path), []

    def spawn(node: str, *_: Any, **__: Any) -> Ended:
        started.append(node)
        return Ended(node, len(started))

    monkeypatch.setattr(cluster, "spawn", spawn)
    watched = Agents(cluster)
    watched.start()
    told: list[list[str]] = []
    # As another thread may ask while the old one ends, which takes seconds.
    monkeypatch.setattr(agents, "stop_all", lambda ending: told.append([*watched.ended(), f"{len(ending)} ending"]))
    watched.restart("h1")
    assert told == [["h2", "1 ending"]]
    assert started == ["h1", "h2", "h1"]
    assert watched.pids() == {"h2": 2, "h1": 3}


def test_each_has_the_server_of_the_lab_an_address_that_others_reach_and_its_own_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With LEADLINE_SERVER set, as for verbs, a lab's agents once went there."""
    cluster, given = Cluster(load("tiny"), "x", tmp_path), {}

    def spawn(node: str, *_: Any, env: dict[str, str], **__: Any) -> Ended:
        given[node] = env
        return Ended(node, 1)

    monkeypatch.setattr(cluster, "spawn", spawn)
    clock = Injected(1, 2.0, 3.0, 4.0, 5.0, 6, 7, 8)
    Agents(cluster, clocks={"h1": clock}).start()
    assert [given[host]["LEADLINE_AGENT__SERVER"] for host in ("h1", "h2")] == [SERVER, SERVER]
    assert [given[host]["LEADLINE_AGENT__MESH"] for host in ("h1", "h2")] == ["true", "true"]
    assert given["h1"]["LEADLINE_AGENT__MESH_ADDRESS"] == cluster.address("h1") != cluster.address("h2")
    assert given["h1"]["LEADLINE_PROBER_CLOCK"] == clock.words
    assert "LEADLINE_PROBER_CLOCK" not in given["h2"]
    Agents(cluster, mesh=False).start()
    assert given["h1"]["LEADLINE_AGENT__MESH"] == "false"


@pytest.mark.parametrize(("hosts", "processors", "neighbours", "rate"), [
    (1, 2, 10, 50.0), (2, 2, 10, 50.0), (4, 2, 10, PAIRS_S / 3), (8, 3, 4, PAIRS_S * 3 / 16),
    (8, 5, 10, PAIRS_S * 5 / 28), (8, 16, 10, 50.0), (48, 16, 4, PAIRS_S * 16 / 96),
])  # fmt: skip
def test_hosts_of_one_machine_probe_each_other_as_often_as_it_can_take(
    hosts: int, processors: int, neighbours: int, rate: float
) -> None:
    assert probing(hosts, processors) == (neighbours, pytest.approx(rate))


def test_too_many_hosts_for_one_machine_do_not_probe_at_all() -> None:
    assert probing(64, 2) is None
    assert probing(8, 2) is None
