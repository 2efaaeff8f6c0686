"""A host that takes its machine's network: named if somebody told that the two share one, an inventory or clocks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.causes import anomaly, at, blame, case, named, symptom

Row = dict[str, Any]


def machine(**more: Any) -> Row:
    return {
        "entity": "host:h3", "others": ["host:h5"], "probability": 0.97, "kind": "shares-machine", "start_ns": at(-60),
        "end_ns": None, "evidence": "[]", "seen_ns": at(-10), "analysis": "colocation", "version": 1, "revision": 0,
        **more,
    }  # fmt: skip


def judged(*machines: Row) -> list[tuple[str, str]]:
    """Rank 2, on h3, is late; h5 sends and receives much more than its peers."""
    odd = [
        anomaly("port:h5/eth0", f"node_network_{way}_bytes_total", witness="peers", score=30.0)
        for way in ("transmit", "receive")
    ]  # fmt: skip
    return named(case(symptom=[symptom(blame("rank:bert-1/2", "straggler"))], anomaly=odd, colocation=list(machines)))


def test_the_neighbour_is_named_where_clocks_say_that_they_share_a_machine() -> None:
    assert judged(machine()) == [("host:h5", "neighbour")]


@pytest.mark.parametrize("told", [[], [machine(kind="unknown", others=[])], [machine(others=["host:h6"])]])
def test_without_that_edge_it_is_nobodys_neighbour(told: list[Row]) -> None:
    assert ("host:h5", "neighbour") not in judged(*told)


def test_what_no_longer_held_when_it_began_is_no_edge() -> None:
    assert ("host:h5", "neighbour") not in judged(machine(start_ns=at(-2000), end_ns=at(-1500)))


def test_a_host_whose_cpus_another_takes_gives_way_to_that_one() -> None:
    """Tasks of h3 wait for a processor: the cause, if nobody beside it takes more."""
    waits = anomaly("host:h3", "node_pressure_cpu_waiting_seconds_total", witness="peers", score=20.0)
    load = [anomaly("host:h3", name, witness="peers", score=20.0) for name in ("node_load1", "node_procs_running")]
    takes = [
        anomaly("port:h5/eth0", f"node_network_{way}_bytes_total", witness="peers", score=30.0)
        for way in ("transmit", "receive")
    ]  # fmt: skip
    late = [symptom(blame("rank:bert-1/2", "straggler"))]
    alone = case(symptom=late, anomaly=[waits, *load], colocation=[machine()])
    assert named(alone) == [("host:h3", "cpu-contended")]
    both = case(symptom=late, anomaly=[waits, *load, *takes], colocation=[machine()])
    assert named(both) == [("host:h5", "neighbour")]
    elsewhere = case(symptom=late, anomaly=[waits, *load, *takes], colocation=[machine(others=["host:h6"])])
    assert ("host:h5", "neighbour") not in named(elsewhere)
