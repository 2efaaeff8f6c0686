"""The `bulk` workload on namespaces: where the bytes go, and to whom."""

from __future__ import annotations

import re

from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import load
from leadline.lab.workloads.bulk.job import Bulk, Transfer, colliding_ports


def sent_bytes(cluster: Cluster, node: str, port: str) -> int:
    """What a switch port has sent, as the kernel counts."""
    told = cluster.command(node, ["ip", "-s", "link", "show", port])
    found = re.search(r"TX:.*\n\s+(\d+)", told)
    assert found, told
    return int(found[1])


def test_elephants_collide_on_one_uplink(lab_name: str) -> None:
    with Cluster(load("clos8"), name=lab_name) as cluster:
        ports, link = colliding_ports(cluster, "h1", "h2", 4)
        leaf = cluster.topology.neighbour(cluster.topology.host("h1").primary).node
        uplink = link.a if link.a.node == leaf else link.b
        others = [
            each for each in cluster.topology.node(leaf).ports
            if each.name != uplink.name and cluster.topology.neighbour(each).node.startswith("spine")
        ]  # fmt: skip
        before = {port.name: sent_bytes(cluster, leaf, port.name) for port in (uplink, *others)}
        bulk = Bulk(src="h1", dst="h2", src_ports=ports, seconds=1.5)
        bulk.start(cluster)
        assert bulk.wait(20) == {0: 0, 1: 0}
        carried = bulk.carried_bytes()
        gone = {name: sent_bytes(cluster, leaf, name) - was for name, was in before.items()}
        received = bulk.reports()["h2"]["received"]
        bulk.stop()
    assert len(carried) == 4
    assert all(carried)
    assert gone[uplink.name] >= sum(carried)  # and headers, and what was sent again
    assert all(gone[each.name] < 0.01 * sum(carried) for each in others)
    assert sorted(received.values()) == sorted(carried)
    assert {int(source.rpartition(":")[2]) for source in received} == set(ports)


def test_storage_traffic_takes_the_front_end(lab_name: str) -> None:
    with Cluster(load("tiny"), name=lab_name) as cluster:
        bulk = Bulk(
            transfers=[
                Transfer("h1", "storage1", rate_bps=80_000_000, bytes_most=2_000_000, seconds=1, source_nic="fe0")
            ]
        )
        leaf = cluster.topology.neighbour(cluster.topology.host("h1").primary)
        before = sent_bytes(cluster, "h1", "fe0"), sent_bytes(cluster, leaf.node, leaf.name)
        bulk.start(cluster)
        bulk.wait(8)
        assert bulk.bytes_sent() == 2_000_000
        after = sent_bytes(cluster, "h1", "fe0"), sent_bytes(cluster, leaf.node, leaf.name)
        bulk.stop()
        assert list((cluster.state / "hosts/storage1/ring").glob("*.ring"))
    assert after[0] - before[0] > 2_000_000
    assert after[1] - before[1] < 10_000
