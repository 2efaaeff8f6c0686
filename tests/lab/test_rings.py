"""The `rings` workload on namespaces: right results, real counters, real losses that give real retransmits."""

from __future__ import annotations

from leadline.lab.realise.cluster import Cluster
from leadline.lab.topology import load
from leadline.lab.workloads.rings.job import Rings, hw_counters_directory

KiB = 1 << 10


def counters(cluster: Cluster, host: str) -> dict[str, int]:
    folder = hw_counters_directory(cluster.state, host, 0)
    return {path.name: int(path.read_text()) for path in folder.iterdir()}


def test_tcp_sums_are_right(lab_name: str) -> None:
    with Cluster(load("tiny"), name=lab_name) as cluster:
        rings = Rings(min_bytes=64 * KiB, max_bytes=1024 * KiB, iterations=2, cycles=1)
        rings.start(cluster)
        assert rings.wait(40) == {0: 0, 1: 0}, rings.ranks[0].log.read_text()
        told = rings.results()
        assert [each["size_bytes"] for each in told["results"]] == [65_536, 262_144, 1_048_576]
        assert all(each["wrong"] == 0 for each in told["results"])
        assert list((cluster.state / "hosts/h1/ring").glob("rings-1-0-*.ring"))
        rings.stop()


def test_a_lossy_link_shows_in_the_counters_of_both_nics(lab_name: str) -> None:
    """5 % of the RoCEv2 packets to h2 are dropped: h2 sees gaps, h1 gets NAKs, and every sum is right all the same."""
    with Cluster(load("tiny"), name=lab_name) as cluster:
        to_h2 = cluster.topology.neighbour(cluster.topology.host("h2").primary)
        cluster.command(
            to_h2.node,
            ["nft", "-f", "-"],
            f"table netdev loss {{\n chain out {{\n type filter hook egress device {to_h2.name} priority 0\n"
            " udp dport 4791 numgen random mod 100 < 5 counter drop\n }\n}\n",
        )
        rings = Rings(
            transport="rocev2", min_bytes=512 * KiB, max_bytes=512 * KiB, iterations=2, warmup=0, cycles=1,
        )  # fmt: skip
        rings.start(cluster)
        assert rings.wait(60) == {0: 0, 1: 0}, rings.ranks[0].log.read_text()
        assert all(each["wrong"] == 0 for each in rings.results()["results"])
        rings.stop()
        h1, h2 = counters(cluster, "h1"), counters(cluster, "h2")
    assert h2["out_of_sequence"] > 0
    assert h1["packet_seq_err"] > 0
    assert h1["packet_seq_err"] + h1["local_ack_timeout_err"] <= h2["out_of_sequence"] + h1["local_ack_timeout_err"]
    assert h1["rdma_tx_packets"] > h2["rdma_rx_packets"]  # what was dropped was sent and not received


def test_it_goes_on_until_it_is_stopped(lab_name: str) -> None:
    with Cluster(load("tiny"), name=lab_name) as cluster:
        rings = Rings(max_bytes=64 * KiB, pause_s=0.05)
        rings.start(cluster)
        assert rings.wait(2.5) == {0: None, 1: None}
        processes = [one.process.popen for one in rings.ranks]
        rings.stop()
        assert all(process.poll() is not None for process in processes)
        assert rings.results()["results"]  # what it had measured until then
