"""What simulated switches sample."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from leadline.lab.topology import Host, Topology, load
from leadline.model.ids import flow_id
from leadline.model.tables.fabric import FLOW_SAMPLE
from leadline.simulator.fabric import Fabric, fabric_of
from leadline.simulator.sampling import (
    CAPABLE,
    CE,
    ROCE_PORT,
    UDP,
    Flows,
    columns,
    expected_samples,
    flow_ids,
    flow_samples,
)


def flows_on(topology: Topology, count: int = 40, size: float = 5e8) -> tuple[Fabric, Flows]:
    fabric = fabric_of(topology)
    rng = np.random.default_rng(1)
    hosts = len(topology.hosts)
    src = rng.integers(0, hosts, count)
    dst = (src + rng.integers(1, hosts, count)) % hosts
    rail = np.zeros(count, np.int64)
    return fabric, Flows(
        path_FX=fabric.paths(src, rail, dst, rail, rng.integers(0, 2**62, count)),
        links=fabric.links,
        bytes_F=rng.uniform(0.1, 1.0, count) * size,
        begin_ns_F=np.full(count, 10**9),
        end_ns_F=np.full(count, 3 * 10**9),
        src_ip_F=(0x0A000001 + 2 * src).astype(np.uint32),
        dst_ip_F=(0x0A000001 + 2 * dst).astype(np.uint32),
        src_port_F=np.arange(49152, 49152 + count),
        dst_port_F=np.full(count, ROCE_PORT),
        protocol_F=np.full(count, UDP),
        dst_qp_F=np.where(np.arange(count) % 2, 77, -1),
        dscp_F=np.full(count, 26),
        ce_share_F=np.full(count, 0.25),
    )


@pytest.mark.parametrize("rate", [1, 100, 10_000, 200_000])
@pytest.mark.parametrize("preset", ["tiny", "clos64"])
def test_as_many_as_one_in_the_rate(preset: str, rate: int) -> None:
    _, flows = flows_on(load(preset), size=5e8 if rate > 1 else 1e6)
    made = flow_samples(flows, rate, None, np.random.default_rng(2))
    expected = expected_samples(flows, rate)
    assert abs(len(made.flow_N) - expected) < 5 * np.sqrt(expected) + 1
    if rate == 100:
        # By flow too, and the estimate of the bytes is right.
        by_flow = np.bincount(made.flow_N, weights=made.frame_bytes_N, minlength=len(flows)) * rate
        switches = (flows.path_FX >= 0).sum(axis=1) - 1
        true = flows.bytes_F * (1 + 82 / 4096) * switches
        assert by_flow.sum() == pytest.approx(true.sum(), rel=0.02)
        assert by_flow == pytest.approx(true, rel=0.15)


def port_of(topology: Topology, number: int) -> object:
    link = topology.links[number // 2]
    low, high = (link.b, link.a) if isinstance(topology.node(link.b.node), Host) else (link.a, link.b)
    return high if number % 2 else low


@pytest.mark.parametrize("spray", [False, True])
def test_a_packet_goes_in_and_out_of_one_switch(spray: bool) -> None:
    topology = load("clos64")
    fabric, flows = flows_on(topology)
    ends = (flows.src_ip_F.astype(np.int64) - 0x0A000001) // 2, (flows.dst_ip_F.astype(np.int64) - 0x0A000001) // 2
    rail = np.zeros(len(flows), np.int64)
    way = (
        (lambda flow, hashes: fabric.paths(ends[0][flow], rail[flow], ends[1][flow], rail[flow], hashes))
        if spray
        else None
    )
    made = flow_samples(flows, 2000, way, np.random.default_rng(3))
    assert len(made.flow_N) > 500
    for came, left in set(zip(made.in_port_N.tolist(), made.out_port_N.tolist(), strict=True)):
        entry, leave = port_of(topology, came), port_of(topology, left)
        assert entry.node == leave.node  # type: ignore[attr-defined]
        assert entry != leave
        assert entry.name.startswith("Ethernet")  # type: ignore[attr-defined]
    uplinks = set(fabric.climb_FS.ravel().tolist())
    used = {
        flow: {int(port) // 2 for port in made.out_port_N[made.flow_N == flow]} & uplinks for flow in range(len(flows))
    }
    far = [flow for flow in range(len(flows)) if (flows.path_FX[flow] >= 0).sum() > 2]
    most = max(len(used[flow]) for flow in far)
    assert most > 4 if spray else most <= 2  # one up and one down


def test_times_marks_and_order() -> None:
    _, flows = flows_on(load("clos8"))
    made = flow_samples(flows, 1000, None, np.random.default_rng(4))
    assert (np.diff(made.time_ns_N) >= 0).all()
    assert made.time_ns_N.min() >= 10**9
    assert made.time_ns_N.max() < 3 * 10**9
    assert set(np.unique(made.ecn_N)) == {CAPABLE, CE}
    assert np.mean(made.ecn_N == CE) == pytest.approx(0.25, abs=0.03)
    assert made.frame_bytes_N.max() == 4096 + 82
    again = flow_samples(flows, 1000, None, np.random.default_rng(4))
    assert (again.time_ns_N == made.time_ns_N).all()


def test_switches_choose_by_themselves() -> None:
    """The same flow is seen by its switches at different times: no packet is chosen twice but by chance."""
    _, flows = flows_on(load("clos8"), count=1)
    made = flow_samples(flows, 100, None, np.random.default_rng(5))
    assert len(np.unique(made.time_ns_N)) == len(made.time_ns_N)


def test_a_flow_within_a_host_is_seen_by_nobody() -> None:
    _, flows = flows_on(load("tiny"))
    flows.path_FX[:] = -1
    assert len(flow_samples(flows, 1, None, np.random.default_rng(6)).flow_N) == 0
    with pytest.raises(ValueError, match="one packet in 1 to"):
        flow_samples(flows, 0, None, np.random.default_rng(6))


def test_rows_are_those_of_the_table() -> None:
    topology = load("clos8")
    fabric, flows = flows_on(topology)
    made = flow_samples(flows, 5000, None, np.random.default_rng(7))
    ports = [port_of(topology, number) for number in range(2 * fabric.links)]
    switches = pa.array([port.node for port in ports])  # type: ignore[attr-defined]
    names = pa.array([port.name for port in ports])  # type: ignore[attr-defined]
    rows = columns(made, flows, flow_ids(flows), switches, names)
    assert list(rows) == [column.name for column in FLOW_SAMPLE.own]
    assert {len(values) for values in rows.values()} == {len(made.flow_N)}  # type: ignore[arg-type]
    place = len(made.flow_N) // 2
    flow = int(made.flow_N[place])
    qp = 77 if flow % 2 else None
    src, dst = rows["src_ip"][place].as_py(), rows["dst_ip"][place].as_py()  # type: ignore[index]
    number = flow_id(UDP, src, dst, 49152 + flow, ROCE_PORT, qp)
    low, high = rows["flow"][place].tolist()  # type: ignore[index]
    assert high << 64 | low == number
    assert rows["dst_qp"][place].as_py() == qp  # type: ignore[index]
    assert rows["switch"][place].as_py() == ports[int(made.in_port_N[place])].node  # type: ignore[index,attr-defined]
    assert rows["out_port"][place].as_py() == ports[int(made.out_port_N[place])].name  # type: ignore[index,attr-defined]
