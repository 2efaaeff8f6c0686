"""Agents of a lab: one that is restarted is not taken for one that has died."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.lab import agents
from leadline.lab.agents import Agents
from leadline.lab.realise.cluster import Cluster
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
