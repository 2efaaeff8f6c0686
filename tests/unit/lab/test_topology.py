"""Topologies: presets, ids, errors with file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.lab.topology import Topology, load, load_file, preset_names, read_shape, relations
from leadline.model.errors import ConfigError, UsageError
from leadline.model.ids import parse_entity_id
from leadline.model.tables import RELATION


@pytest.fixture(scope="module")
def clos8() -> Topology:
    return load("clos8")


def test_presets() -> None:
    assert {"tiny", "clos8", "clos64", "cloud16", "rails", "oversubscribed"} <= set(preset_names())
    for name in preset_names():
        assert load(name).name == name


def test_clos8_is_the_cluster_of_the_paper(clos8: Topology) -> None:
    assert [switch.name for switch in clos8.switches] == ["leaf1", "leaf2", "spine1", "spine2", "fe1"]
    assert [host.name for host in clos8.hosts] == [f"h{k}" for k in range(1, 9)]
    assert [storage.name for storage in clos8.storage] == ["storage1"]
    for host in clos8.hosts:
        assert [port.name for port in host.ports] == ["eth0", "eth1", "fe0"]
        assert [clos8.neighbour(port).node for port in host.ports] == ["leaf1", "leaf2", "fe1"]
        assert len(host.gpus) == 1
    assert {link.rate_bps for link in clos8.links if link.role == "backend"} == {250_000_000}
    assert {link.queue_bytes for link in clos8.links if link.role == "backend"} == {250_000}


def test_addresses_say_where_a_port_is(clos8: Topology) -> None:
    assert clos8.port("h3/eth1").address == "10.2.3.1"
    assert clos8.port("leaf2/Ethernet3").address == "10.2.3.0"
    assert clos8.port("swport:spine2/Ethernet1").address == "10.202.1.0"
    assert clos8.host("storage1").primary.address == "172.16.9.1"


def test_neighbours_of_a_ring_are_on_different_leaves(clos8: Topology) -> None:
    leaves = [clos8.neighbour(host.primary).node for host in clos8.hosts]
    assert all(here != there for here, there in zip(leaves, leaves[1:] + leaves[:1], strict=True))


def test_links_by_id_and_by_either_end(clos8: Topology) -> None:
    link = clos8.link("link:h3/eth0~leaf1/Ethernet3")
    assert link == clos8.link("h3/eth0") == clos8.link("leaf1/Ethernet3") == clos8.link("leaf1/Ethernet3~h3/eth0")
    assert link.id == "link:h3/eth0~leaf1/Ethernet3"
    assert link.a.node == "leaf1"
    with pytest.raises(UsageError, match="no link"):
        clos8.link("h3/eth0~leaf2/Ethernet3")


def test_names_that_are_not_there_are_told_with_those_that_are(clos8: Topology) -> None:
    with pytest.raises(UsageError, match=r"no node 'h9'.*leaf1.*h8"):
        clos8.node("h9")
    with pytest.raises(UsageError, match=r"no port 'eth7'.*eth0, eth1, fe0"):
        clos8.port("h1/eth7")
    with pytest.raises(UsageError, match="is a switch"):
        clos8.host("leaf1")
    with pytest.raises(UsageError, match="is a host"):
        clos8.switch("h1")


def test_gpu_ids_are_stable_and_readable() -> None:
    first, again = load("clos8").hosts[0].gpus[0], load("clos8").hosts[0].gpus[0]
    assert first == again == "GPU-61eb79e9-3f1b-58c1-8e09-2d744af3a8f1"
    assert load("tiny").hosts[0].gpus[0] != first


def test_pods_racks_and_machines() -> None:
    topology = load("name: x\nleaves: 4\nspines: 2\nhosts: 8\nhomes: 2\nhosts_per_rack: 2\nhosts_per_machine: 2\n")
    assert [host.pod for host in topology.hosts] == ["p1"] * 4 + ["p2"] * 4
    assert [host.rack for host in topology.hosts] == ["p1r1", "p1r1", "p1r2", "p1r2", "p2r1", "p2r1", "p2r2", "p2r2"]
    assert {name: len(hosts) for name, hosts in topology.machines().items()} == {f"m{k}": 2 for k in range(1, 5)}
    assert topology.shape.machine_bps == topology.shape.host_rate_bps
    # Rail r of every host of a pod is on the pod's leaf r.
    assert {topology.neighbour(host.port("eth1")).node for host in topology.hosts[4:]} == {"leaf4"}


def test_oversubscription_gives_the_uplinks_their_rate() -> None:
    text = "name: x\nleaves: 2\nspines: 2\nhosts: 8\nhomes: 2\nhost_rate_bps: 100_000_000\noversubscription: {}\n"
    by_ratio = {ratio: load(text.format(ratio)).shape.uplink_bps for ratio in (1, 2, 4.0)}
    assert by_ratio == {1: 400_000_000, 2: 200_000_000, 4.0: 100_000_000}


def test_relations_fit_their_table_and_tell_no_secret() -> None:
    topology = load("name: x\nhosts: 4\nhosts_per_machine: 2\ngpus: 2\n")
    rows = relations(topology, 7)
    given = {column.name for column in RELATION.given}
    for row in rows:
        assert set(row) == given
        assert row["from_ns"] == 7
        assert row["to_ns"] is None
        parse_entity_id(str(row["child"]))
        parse_entity_id(str(row["parent"]))
    assert {row["kind"] for row in rows} == {"in", "linked"}
    assert not any("m1" in str(row["parent"]) for row in rows)
    edges = {(row["child"], row["kind"], row["parent"]) for row in rows}
    port = topology.host("h1").primary
    assert (f"address:{port.address}", "in", port.id) in edges
    assert len(edges) == len(rows)
    assert ("port:h1/eth0", "linked", "swport:leaf1/Ethernet1") in edges
    assert ("port:storage1/fe0", "in", "storage:storage1") in edges
    assert sum(kind == "in" and str(child).startswith("gpu:") for child, kind, _ in edges) == 8


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\nhsots: 8\n", r"here.yaml, line 2: no parameter 'hsots' of a topology; did you mean hosts\?"),
        ("name: x\nbanana: 8\n", r"line 2: no parameter 'banana' of a topology; there are name, hosts"),
        ("name: x\nhosts: many\n", r"line 2: hosts: expected a whole number from 1 to 240, got 'many'"),
        ("name: x\nhosts: 2.5\n", r"line 2: hosts: expected a whole number"),
        ("name: x\nhosts: true\n", r"line 2: hosts: expected a whole number"),
        ("name: x\nhosts: .nan\n", r"line 2: hosts: expected a whole number"),
        ("name: x\nhosts: .inf\n", r"line 2: hosts: expected a whole number"),
        ("name: x\n\nhosts: 0\n", r"line 3: hosts: expected a whole number from 1"),
        ("name: X-1\n", r"line 1: name: expected lower-case letters and digits"),
        ("hosts: 8\n", r"expected a `name`"),
        ("name: x\nhosts: 2\nhosts: 4\n", r"line 3: hosts stands twice; the first is in line 2"),
        ("name: x\nleaves: 2\nhosts: 4\n", r"spines: expected at least 1 where there are several leaves, got 0"),
        ("name: x\nleaves: 3\nspines: 1\nhomes: 2\n", r"line 4: homes: expected a divisor of `leaves`"),
        ("name: x\nleaves: 4\nspines: 1\nhosts: 2\n", r"line 4: hosts: expected at least one host for each pod"),
        ("name: x\nuplink_rate_bps: 2000000\noversubscription: 2\n", r"line 2: uplink_rate_bps: .* not both"),
        ("name: x\nuplink_rate_bps: 20\n", r"line 2: uplink_rate_bps: expected at least 1000000"),
        ("name: x\nmachine_rate_bps: 2000000\n", r"line 2: machine_rate_bps: expected several hosts_per_machine"),
        ("name: x\ngpus: 2\nranks_per_host: 3\n", r"line 3: ranks_per_host: expected at most `gpus`.* got 3"),
        ("- a\n- b: 1\n", r"expected a mapping"),
        ("name: [x\n", r"expected YAML"),
        ("name: x\nhosts: 2e+400\n", r"line 2: hosts: expected a whole number"),
        ("name: x\nhosts: 0xfg\n", r"line 2: hosts: expected a whole number"),
        ("name: x\nhosts: 2001-99-99\n", r"expected YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "here.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        load_file(path)


def test_what_is_no_topology_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a preset \(clos64, clos8, cloud16, "):
        load("clos9")
    with pytest.raises(ConfigError, match="No such file"):
        load_file(tmp_path / "none.yaml")
    large = tmp_path / "large.yaml"
    large.write_text("# " + "x" * 70_000)
    with pytest.raises(ConfigError, match="at most 65536 bytes"):
        load_file(large)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(ConfigError, match="expected a YAML file"):
        load_file(binary)


def test_the_documented_example_is_a_topology() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lab" / "topology.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert examples
    for example in examples:
        read_shape(example, "docs/lab/topology.md")
