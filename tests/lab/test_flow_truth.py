"""The truth of flows, from the kernel of a lab's switches: held against the routes, the drops and the samples."""

from __future__ import annotations

import socket
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.lab.flows import collecting, transfer, wait_for

from leadline.lab.faults.network import flows as routes
from leadline.lab.flow_truth import FlowTruthFile, counting, read_flow_truth, ways
from leadline.lab.flow_truth.watching import FlowWatch
from leadline.lab.realise.cluster import Cluster
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import Telemetry, TelemetryConfig
from leadline.lab.topology import load
from leadline.lab.workloads.rings.job import Rings
from leadline.model.ids import flow_id
from leadline.wire.sflow import headers

EVER = 1 << 62
FOUR = "name: four\nleaves: 2\nspines: 2\nhosts: 4\nhomes: 2\n"


def packets_at(truth: pa.Table, switch: str, target: str) -> int:
    there = truth.filter((pc.field("switch") == switch) & (pc.field("dst_ip") == target))
    return int(pc.sum(there["packets"]).as_py() or 0)


def test_the_truth_agrees_with_the_routes_of_a_running_job(lab_name: str, tmp_path: Path) -> None:
    """And each flow leads over the links by which the kernel says that it sends it."""
    with Cluster(load(FOUR), lab_name) as cluster:
        watch = FlowWatch(cluster, FlowTruthFile(tmp_path / "run.flows.parquet"))
        watch.start()
        lab = RunningLab(cluster)
        job = Rings(max_bytes=1 << 18, pause_s=0.01)
        job.start(cluster)
        lab.jobs[job.name] = job
        try:
            wait_for("the job's traffic", lambda: len(routes.flows_from(lab, "h1")) >= 4, 30.0)
            time.sleep(2.0)
            flows = [flow for host in cluster.topology.hosts for flow in routes.flows_from(lab, host.name)]
            ported = routes.ways(lab, flows)
        finally:
            job.stop()
            watch.stop()
    truth = read_flow_truth(tmp_path / "run.flows.parquet")
    assert watch.failures == []
    assert truth.schema.metadata[b"leadline.packets_missed"] == b"0"
    found, topology = ways(truth, 0, EVER), cluster.topology
    compared = 0
    for flow, ports in zip(flows, ported, strict=True):
        whole = flow_id(6, flow.source, flow.target, flow.source_port, flow.target_port).to_bytes(16, "little")
        if flow.carried_bytes > 100_000 and whole in found:
            [way] = found[whole]
            assert way.links[1:] == tuple(topology.link_of(port).id for port in ports)
            compared += 1
    assert compared >= 8


def test_only_what_a_switch_sends_counts(lab_name: str, tmp_path: Path) -> None:
    """A packet that a rule of the switch discards on its way out is none that it sent; rules of others still work."""
    with Cluster(load("tiny"), lab_name) as cluster:
        watch = FlowWatch(cluster, FlowTruthFile(tmp_path / "run.flows.parquet"))
        watch.start()
        host = cluster.topology.host("h2").primary
        port = cluster.topology.neighbour(host)
        rule = cluster.drop_rule(port.node, port.name, probability=0.05)
        transfer(cluster, "h1", "h2", 2_000_000)
        dropped = cluster.dropped(rule)
        watch.stop()
    truth = read_flow_truth(tmp_path / "run.flows.parquet")
    assert dropped > 0  # of some 480 packets one in twenty
    assert packets_at(truth, "spine1", host.address) - packets_at(truth, port.node, host.address) == dropped


@pytest.mark.slow
def test_every_packet_that_is_sampled_is_counted_with_the_same_length(lab_name: str, tmp_path: Path) -> None:
    """At one sample for each packet the samples are the count."""
    with collecting() as collector, Cluster(load("tiny"), lab_name) as cluster:
        watch = FlowWatch(cluster, FlowTruthFile(tmp_path / "run.flows.parquet"))
        watch.start()
        config = TelemetryConfig((("127.0.0.1", collector.port),), 1, exporters=False, lldp=False, kernel_log=False)
        telemetry = Telemetry(cluster, config)
        telemetry.start()
        try:
            transfer(cluster, "h1", "h2", 2_000_000)
            time.sleep(1.0)
        finally:
            telemetry.stop()
            watch.stop()
    truth = read_flow_truth(tmp_path / "run.flows.parquet")
    counted = pa.TableGroupBy(truth, ["flow"]).aggregate([("bytes", "sum")])
    sampled: Counter[bytes] = Counter()
    for address in {sender for sender, _ in collector.got}:
        batch, _ = collector.of(address)
        for whole, frame_bytes in zip(batch.ids, batch.flows[:, headers.FRAME_BYTES].tolist(), strict=True):
            sampled[whole.tobytes()] += frame_bytes
    assert len(sampled) == 2
    assert sampled == dict(zip(counted["flow"].to_pylist(), counted["bytes_sum"].to_pylist(), strict=True))


def test_packets_that_find_no_counter_free_are_told(
    lab_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set that is full takes no more flows; it is not silent about it, and what it counts stays right."""
    monkeypatch.setattr(counting, "_SIZE", 4)
    path = tmp_path / "run.flows.parquet"
    with Cluster(load("tiny"), lab_name) as cluster:
        watch = FlowWatch(cluster, FlowTruthFile(path))
        watch.start()
        target = cluster.address("h2")
        for port in (headers.ROCE_PORT, 9999):
            for number in range(10):
                with cluster.socket_in("h1", socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    sender.bind(("", 20_000 + number))
                    sender.sendto(bytes([42, 0, 0, 0, 0, 0, 1, number]) + bytes(92), (target, port))
        watch.stop()
    truth = read_flow_truth(path)
    assert packets_at(truth, "spine1", target) == 8
    assert watch.missed == 3 * (20 - 8)  # two leaves and a spine
    assert truth.schema.metadata[b"leadline.packets_missed"] == b"36"


def test_a_full_disk_ends_the_truth_and_is_told(lab_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on, what was written before stays readable, and the switches count no longer afterwards."""
    path = tmp_path / "run.flows.parquet"
    with Cluster(load("tiny"), lab_name) as cluster:
        file = FlowTruthFile(path)
        watch = FlowWatch(cluster, file)
        watch.start()
        transfer(cluster, "h1", "h2", 100_000)
        wait_for("the first rows", lambda: watch.rows > 0, 10.0)

        def full(_: pa.Table) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(file, "add", full)
        transfer(cluster, "h1", "h2", 100_000, port=5002)
        wait_for("the failure", lambda: bool(watch.failures), 10.0)
        watch.stop()
        assert counting.TABLE not in cluster.command("spine1", ["nft", "list", "tables"])
    assert [text for text in watch.failures if "No space left" in text] == watch.failures[:1]
    assert set(read_flow_truth(path)["dst_port"].to_pylist()) & {5001, 5002} == {5001}
