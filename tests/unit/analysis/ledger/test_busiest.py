"""The edge over the most loaded link owns what a communicator lost; control traffic and even loads name nobody."""

from __future__ import annotations

import pyarrow as pa

from leadline.analysis.ledger.collectives.busiest import busiest_edge, edges_of

H = "link:h{0}/eth0~leaf1/Ethernet{0}"


def paths(*rows: tuple[int, int, float, int, float]) -> pa.Table:
    """(from, to, own bytes, host whose link is the busiest, bytes on it): rank r is on host h<r>."""
    return pa.table(
        {
            "src_rank": pa.array([f"rank:j/{row[0]}" for row in rows], pa.string()),
            "dst_rank": pa.array([f"rank:j/{row[1]}" for row in rows], pa.string()),
            "dst": pa.array([f"port:h{row[1]}/eth0" for row in rows], pa.string()),
            "bytes": pa.array([row[2] for row in rows], pa.float64()),
            "busiest": pa.array([H.format(row[3]) for row in rows], pa.string()),
            "busiest_bytes": pa.array([row[4] for row in rows], pa.float64()),
        }
    )


RING = ((0, 1, 24.0, 1, 25.0), (1, 2, 24.0, 2, 25.0), (2, 3, 25.0, 3, 26.0), (3, 0, 24.0, 3, 25.0))


def test_another_jobs_traffic_into_a_host_names_the_edge_into_it() -> None:
    assert busiest_edge(paths((0, 1, 24.0, 1, 180.0), *RING[1:]), "j") == "rank:j/0>rank:j/1"


def test_the_edge_with_the_payload_is_named_not_the_one_with_acknowledgements() -> None:
    assert busiest_edge(paths((0, 1, 24.0, 1, 180.0), *RING[1:], (2, 1, 0.1, 1, 180.0)), "j") == "rank:j/0>rank:j/1"


def test_of_the_two_ends_of_a_heavy_flow_the_receivers_counts() -> None:
    # 3 > 0 leaves by the sender of the heavy flow, 0 > 1 comes in where it goes to; the former carries a little more.
    assert busiest_edge(paths((0, 1, 20.0, 1, 300.0), *RING[1:3], (3, 0, 24.0, 3, 310.0)), "j") == "rank:j/0>rank:j/1"


def test_an_even_load_names_nobody() -> None:
    assert busiest_edge(paths(*RING), "j") is None


def test_nothing_seen_names_nobody() -> None:
    assert busiest_edge(paths(), "j") is None
    assert busiest_edge(paths(RING[0]), "j") is None


def test_flows_of_others_and_to_oneself_are_no_edges() -> None:
    assert set(edges_of(paths((0, 0, 9.0, 1, 9.0), (0, 1, 9.0, 1, 9.0)), "j")) == {"rank:j/0>rank:j/1"}
    assert not edges_of(paths((0, 1, 9.0, 1, 9.0)), "other")
