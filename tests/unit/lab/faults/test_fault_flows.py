"""Which paths a job's connections take: from what `ss` and the switches' kernels say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from leadline.lab.faults.network import flows
from leadline.lab.faults.network.blackhole import Blackhole
from leadline.lab.faults.network.link import _bps
from leadline.lab.faults.network.wrong_mtu import WrongMtu
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology, load
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import UsageError

SS = """\
0      0                  {h1}:40112             {h2}:29510
\t cubic wscale:9,9 rto:204 mss:4148 bytes_sent:9000 bytes_acked:9000 bytes_received:70000 segs_out:20
0      0         [::ffff:{h1}]:29510    [::ffff:{h2}]:51000
\t cubic wscale:9,9 rto:204 bytes_acked:10 bytes_received:5
0      0             127.0.0.1:5000         127.0.0.1:6000
\t cubic bytes_received:5
"""


class TalkingCluster:
    """Stands for a cluster whose first host has three connections; each switch sends all by its first way onwards."""

    def __init__(self, topology: Topology, spine: str) -> None:
        self.topology, self.state, self.spine = topology, Path("/nowhere"), spine

    def address(self, host: str) -> str:
        return self.topology.host(host).primary.address

    def command(self, node: str, argv: list[str], input: str | None = None) -> str:
        if argv[0] == "ss":
            told = SS.format(h1=self.address("h1"), h2=self.address("h2"))
            return told if node == "h1" else ""
        assert input is not None
        out = []
        for line in input.splitlines():
            target = line.split()[2]
            out.append(f"{target} dev {self._way(node, target)} src x\n    cache iif y\n")
        return "".join(out)

    def _way(self, node: str, target: str) -> str:
        """Down to the host if it hangs here, else by the chosen spine, else to the host's leaf."""
        neighbours = {port.name: self.topology.neighbour(port) for port in self.topology.node(node).ports}
        for name, peer in neighbours.items():
            if peer.address == target:
                return name
        host = next(h for h in self.topology.hosts if any(port.address == target for port in h.ports))
        leaves = {self.topology.neighbour(port).node for port in host.backend}
        wanted = {self.spine} if node.startswith("leaf") else leaves
        primary = self.topology.neighbour(next(p for p in host.ports if p.address == target)).node
        wanted = {primary} if node.startswith("spine") else wanted
        return next(name for name, peer in neighbours.items() if peer.node in wanted)


def _lab(spine: str) -> RunningLab:
    topology = load("clos8")
    lab = RunningLab(TalkingCluster(topology, spine))  # type: ignore[arg-type]
    ranks = [RankProcess(n, f"h{n + 1}", None, "", Path(), Path()) for n in range(2)]  # type: ignore[arg-type]
    job: Any = type("Job", (), {"name": "bert-1", "ranks": ranks})()
    lab.jobs["bert-1"] = job
    return lab


def test_connections_of_the_lab_are_found_with_what_they_carried() -> None:
    lab = _lab("spine1")
    found = flows.flows_from(lab, "h1")
    assert [(each.source_port, each.target_port, each.carried_bytes) for each in found] == [
        (40112, 29510, 79000),
        (29510, 51000, 15),
    ]
    assert flows.flows_from(lab, "h2") == []


def test_a_blackhole_falls_on_the_spine_that_is_in_use() -> None:
    for spine in ("spine1", "spine2"):
        lab = _lab(spine)
        assert flows.switches_to(lab, "h2", "spine") == [spine]
        for seed in range(6):
            assert Blackhole(host="h2").chosen(lab, random.Random(seed)).switch == spine


def test_an_uplink_is_chosen_among_those_in_use_and_a_hosts_link_among_all() -> None:
    lab = _lab("spine2")
    names = {flows.some_used_link(lab, random.Random(seed), ("uplink",)) for seed in range(12)}
    assert names
    assert all("spine2" in name for name in names)
    both = {flows.some_used_link(lab, random.Random(seed)) for seed in range(40)}
    assert any("h1/" in name for name in both)
    assert not any("spine1" in name for name in both)


def test_rates_are_read_as_tc_prints_them() -> None:
    assert [_bps(text) for text in ("250Mbit", "1Gbit", "12500Kbit", "800bit", "2.5Gbit")] == [
        250_000_000, 1_000_000_000, 12_500_000, 800, 2_500_000_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mtu_bytes": 9000}, "less than the fabric's 4200, got 9000"),
        ({"mtu_bytes": 100}, "576 or more"),
        ({"ends": 3}, "got 3"),
    ],
)
def test_a_wrong_mtu_that_is_none_is_refused_before_anything_starts(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WrongMtu(link="leaf2~spine1", **wrong).check(load("tiny"))  # type: ignore[arg-type]
