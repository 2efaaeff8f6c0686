"""Who is where, and what is a part of what, on the site of `tests.builders.causes`."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.builders.causes import RING, UPLINK_1, flows, host_link, relations
from tests.builders.failures import rows_of

from leadline.analysis.cause.components import Components, components_of
from leadline.analysis.cause.reach import ANYONE, FAR, Ground
from leadline.analysis.cause.traffic import traffic_of

EDGE = "rank:bert-1/0>rank:bert-1/1"


@pytest.fixture(scope="module")
def components() -> Components:
    return components_of(relations())


@pytest.fixture(scope="module")
def ground(components: Components) -> Ground:
    paths, volumes = flows(RING)
    return Ground(components, traffic_of(rows_of("flow_path", paths), rows_of("flow_volume", volumes)))


def test_a_rank_stands_on_its_process_gpu_and_host(components: Components) -> None:
    assert components.topology.on("rank:bert-1/2") == {"gpu:GPU-2", "host:h3", "process:h3/102"}
    assert components.topology.host_of("rank:bert-1/2") == "host:h3"
    assert components.topology.ranks_of("host:h2") == {"rank:bert-1/1", "rank:moe-2/0"}


def test_signs_of_a_link_stand_on_both_its_ports(components: Components) -> None:
    assert components.parts(host_link(1)) == {host_link(1), "port:h1/eth0", "swport:leaf1/E1"}
    assert host_link(1) in components.wholes("swport:leaf1/E1")
    assert components.topology.ends(UPLINK_1) == ("swport:leaf1/U1", "swport:spine1/E1")


def test_a_port_that_nobody_links_has_no_link(components: Components) -> None:
    assert components.topology.link("port:h1/eth1") == ""
    assert components.topology.owner("port:h9/eth0") == "host:h9", "by its name"


def test_counters_of_an_rdma_device_are_those_of_its_interface() -> None:
    rdma = {"child": "port:h1/mlx5_0", "parent": "port:h1/eth0", "kind": "in", "from_ns": 1, "to_ns": None}
    components = components_of(
        pa.concat_tables([relations(), rows_of("relation", [rdma])], promote_options="permissive")
    )
    assert components.parts(host_link(1)) == {host_link(1), "port:h1/eth0", "port:h1/mlx5_0", "swport:leaf1/E1"}
    assert set(components.wholes("port:h1/mlx5_0")) == set(components.wholes("port:h1/eth0"))
    assert components.topology.host_of("port:h1/mlx5_0") == "host:h1"


@pytest.mark.parametrize("entity", ["rank:none/0", "host:h77", "link:a~b", "xcvr:x/y", "nonsense", ""])
def test_what_nobody_tells_of_is_nowhere(components: Components, entity: str) -> None:
    assert components.topology.on(entity) == frozenset()
    assert entity in components.parts(entity)
    assert components.wholes(entity)[0] == entity


def test_the_other_hosts_of_a_machine_and_the_storage_of_a_job(components: Components) -> None:
    assert components.topology.hosts_beside("host:h5") == {"host:h4"}
    assert components.topology.storage_of("job:bert-1") == {"storage:nas1"}


def test_a_blamed_rank_reaches_down_to_the_wires_its_flows_use(ground: Ground) -> None:
    def near(entity: str) -> float:
        return ground.nearness("rank:bert-1/2", "bert-1", entity, "")

    assert [near(one) for one in ("rank:bert-1/2", "gpu:GPU-2", "host:h3", "port:h3/eth0", host_link(3))] == [1.0] * 5
    assert near("port:h3/eth1") == 0.0, "no flow uses it"
    assert near("gpu:GPU-1") == 0.0
    assert near(UPLINK_1) == FAR, "its flow from rank 1 crosses it"


def test_a_blamed_edge_reaches_its_way_first(ground: Ground) -> None:
    assert ground.nearness(EDGE, "bert-1", host_link(1), "") == 1.0
    assert ground.nearness(EDGE, "bert-1", UPLINK_1, "") == 0.0, "both hosts are at one leaf"
    assert ground.nearness(EDGE, "bert-1", "gpu:GPU-1", "") == FAR


def test_blame_of_nobody_reaches_all_that_the_job_stands_on(ground: Ground) -> None:
    for entity in ("gpu:GPU-3", "host:h1", host_link(4), "rank:bert-1/0"):
        assert ground.nearness("comm:bert-1/0x9c", "bert-1", entity, "") == ANYONE
    assert ground.nearness("comm:bert-1/0x9c", "bert-1", "host:h5", "") == 0.0
    assert ground.nearness("comm:bert-1/0x9c", "bert-1", "gpu:GPU-4", "") == 0.0, "the other job's"
    assert ground.nearness("comm:bert-1/0x9c", "bert-1", "host:h5", "machine") == 1.0, "beside h4"
