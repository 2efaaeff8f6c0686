"""Edges: what the host knows, what lldpd hears, and how changes become rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.host.edges import changed, from_mark, to_mark
from leadline.host.found import Edge
from leadline.host.rows import Relation
from leadline.host.sources.graph import Graph, parse_gpu_information
from leadline.host.sources.lldp import parse_neighbours
from leadline.host.sources.site import RankSeen
from leadline.model.errors import DataError
from leadline.wire.netlink.links import Address

from .conftest import recorded, site_with

GPU = "GPU-5c1e9f0a-0000-4000-8000-000000000001"


def test_a_neighbour_as_lldpd_tells_it() -> None:
    edges = parse_neighbours(recorded("lldpcli.json"), "h3")
    assert edges == [Edge("port:h3/eth0", "swport:leaf1/Ethernet3", "linked")]


def test_a_neighbour_that_forwards_nothing_is_a_host() -> None:
    text = recorded("lldpcli.json").replace(b'"enabled": true', b'"enabled": false')
    assert [edge.parent for edge in parse_neighbours(text, "h3")] == ["port:leaf1/Ethernet3"]


def test_a_port_that_is_an_address_is_named_by_its_description() -> None:
    whole = json.loads(recorded("lldpcli.json"))
    port = whole["lldp"][0]["interface"][0]["port"][0]
    port["id"] = [{"type": "mac", "value": "4e:f7:58:fe:13:27"}]
    port["descr"] = [{"value": "swp9"}]
    assert [edge.parent for edge in parse_neighbours(json.dumps(whole).encode(), "h3")] == ["swport:leaf1/swp9"]


@pytest.mark.parametrize(
    "text", ['{"lldp": []}', '{"lldp": [{}]}', "{}", "[]", "5", '{"lldp": [{"interface": [{"name": "eth0"}]}]}']
)
def test_without_neighbours_there_are_no_edges(text: str) -> None:
    assert parse_neighbours(text.encode(), "h3") == []


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(DataError, match="lldpcli"):
        parse_neighbours(text, "h3")


def test_the_host_knows_its_gpus_and_ranks() -> None:
    site = site_with(gpus=[GPU])
    site.ranks[812] = RankSeen("bert-1", 3, 812, 9, 1_000, f"gpu:{GPU}")
    edges = Graph(site).poll(5).edges
    assert edges is not None
    assert {
        Edge(f"gpu:{GPU}", "host:h3", "in"),
        Edge("rank:bert-1/3", "host:h3", "runs-on", 1_000),
        Edge("rank:bert-1/3", f"gpu:{GPU}", "runs-on", 1_000),
        Edge("process:h3/812", "rank:bert-1/3", "member", 1_000),
    } <= set(edges)
    assert "port:h3/lo" not in {edge.child for edge in edges}


def test_the_host_knows_the_addresses_of_its_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of interfaces that it does not tell of, and as they are spelt elsewhere."""
    held = [Address(7, "2001:db8::5"), Address(7, "10.1.3.1"), Address(8, "10.2.3.1"), Address(1, "10.9.9.9")]
    monkeypatch.setattr("leadline.host.sources.graph.all_addresses", lambda: held)
    monkeypatch.setattr("socket.if_nameindex", lambda: [(1, "lo"), (7, "eth0"), (8, "eth1")])
    edges = Graph(site_with()).poll(5).edges or []
    assert [edge for edge in edges if edge.child.startswith("address:")] == [
        Edge("address:10.1.3.1", "port:h3/eth0", "in"),
        Edge("address:10.2.3.1", "port:h3/eth1", "in"),
        Edge("address:2001:db8::5", "port:h3/eth0", "in"),
    ]


def test_an_rdma_device_is_on_the_interface_of_its_first_gid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("leadline.host.sources.graph.all_addresses", list)
    monkeypatch.setattr("socket.if_nameindex", lambda: [(7, "eth0"), (8, "eth1")])
    for device, told in {"mlx5_0": "eth1\n", "mlx5_1": "gone0\n", "mlx5_2": ""}.items():
        gids = tmp_path / "class" / "infiniband" / device / "ports" / "1" / "gid_attrs" / "ndevs"
        gids.mkdir(parents=True)
        (gids / "0").write_text(told)
    edges = Graph(site_with(sys_root=tmp_path)).poll(5).edges or []
    assert [edge for edge in edges if edge.child.startswith("port:h3/mlx5")] == [
        Edge("port:h3/mlx5_0", "port:h3/eth1", "in")
    ]


def test_addresses_that_cannot_be_read_end_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ranks and ports are told all the same; it is counted each time and logged once."""
    answers: list[list[Address] | OSError] = [
        [Address(7, "10.1.3.1")], OSError("no netlink here"), OSError("no netlink here"),
    ]  # fmt: skip

    def told() -> list[Address]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("leadline.host.sources.graph.all_addresses", told)
    monkeypatch.setattr("socket.if_nameindex", lambda: [(7, "eth0")])
    site = site_with()
    site.ranks[812] = RankSeen("bert-1", 3, 812, 9, 1_000, f"gpu:{GPU}")
    source = Graph(site)
    first = source.poll(5).edges
    assert first is not None
    assert Edge("address:10.1.3.1", "port:h3/eth0", "in") in first
    assert source.poll(6).edges == first
    assert source.poll(7).edges == first
    assert site.counts.all()["agent_source_failed", "read"] == 2
    assert len(caplog.records) == 1


def test_more_addresses_than_are_told_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    many = [Address(7, f"10.1.{number // 200}.{number % 200 + 1}") for number in range(300)]
    monkeypatch.setattr("leadline.host.sources.graph.all_addresses", lambda: many)
    monkeypatch.setattr("socket.if_nameindex", lambda: [(7, "eth0")])
    source = Graph(site_with())
    first, second = source.poll(5).edges or [], source.poll(6).edges
    assert sum(edge.child.startswith("address:") for edge in first) == 256
    assert first == second
    assert [record.message for record in caplog.records] == [
        "source graph: 300 addresses, the first 256 are reported (agent.interfaces_not)"
    ]


def test_the_drivers_words_for_a_gpu() -> None:
    text = f"Model: \t\t NVIDIA H100\nIRQ:   \t\t 5\nGPU UUID: \t {GPU}\nBus Location: \t 0000:9b:00.0\n"
    assert parse_gpu_information(text.encode()) == GPU
    assert parse_gpu_information(b"GPU UUID: GPU-????????-????\n") == ""


def test_edges_are_told_when_they_begin_and_end() -> None:
    a, b = Edge("port:h3/eth0", "swport:leaf1/E1", "linked"), Edge("port:h3/eth0", "swport:leaf2/E1", "linked")
    held, rows = changed({}, [a], 10, "agent/lldp")
    assert rows == [Relation(a.child, a.parent, a.kind, 10, None, "agent/lldp")]
    held, rows = changed(held, [a], 20, "agent/lldp")
    assert rows == []
    held, rows = changed(from_mark(to_mark(held)), [b], 30, "agent/lldp")  # a restart of the agent lies between
    assert rows == [
        Relation(a.child, a.parent, a.kind, 10, 30, "agent/lldp"),
        Relation(b.child, b.parent, b.kind, 30, None, "agent/lldp"),
    ]
    _, rows = changed(held, [], 5, "agent/lldp")  # the clock was set back: an edge ends no earlier than it began
    assert [(row.from_ns, row.to_ns) for row in rows] == [(30, 30)]
    assert from_mark("nonsense") == {}
    assert from_mark('[["a", "b"]]') == {}
