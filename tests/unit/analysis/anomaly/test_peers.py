"""Peer groups of small fabrics."""

from __future__ import annotations

import numpy as np

from leadline.analysis.anomaly.kinds import metric_kind
from leadline.analysis.anomaly.peers import groups_of
from leadline.analysis.anomaly.streams import Names, Samples, Streams

DROPS, BYTES = "node_qdisc_drops_total", "node_network_transmit_bytes_total"


def streams_of(entities: list[str]) -> tuple[Streams, Names]:
    """Each entity with both metrics, without samples."""
    names, metrics = Names(), [DROPS, BYTES]
    rows = [(names.number("", entity), metric) for entity in entities for metric in range(2)]
    count = len(rows)
    kinds = [kind for name in metrics if (kind := metric_kind(name)) is not None]
    return (
        Streams(
            entities=names, metrics=metrics, kinds=kinds, labels=[""],
            entity_R=np.array([entity for entity, _ in rows]), metric_R=np.array([metric for _, metric in rows]),
            label_R=np.zeros(count, np.int64), role_R=np.zeros(count, np.int64), counter_R=np.ones(count, bool),
            bound_R=np.full(count, -1),
            samples=Samples(np.zeros(count + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)),
        ),
        names,
    )  # fmt: skip


def test_ports_of_a_small_fabric_are_held_against_all_of_them_by_what_is_bad_and_not_by_load() -> None:
    """Two rails on two hosts: groups of two say nothing of drops, and rails carry different things."""
    streams, names = streams_of([f"port:h{host}/eth{rail}" for host in (1, 2) for rail in (0, 1)])
    rail_E = np.array([0, 1, 0, 1])
    group_R = groups_of(streams, rail_E)
    assert len(names.keys) == 4
    assert len(set(group_R[streams.metric_R == 0].tolist())) == 1
    assert len(set(group_R[streams.metric_R == 1].tolist())) == 2


def test_ports_that_have_peers_enough_keep_to_them() -> None:
    streams, _ = streams_of([f"port:h{host}/eth{rail}" for host in range(4) for rail in (0, 1)])
    group_R = groups_of(streams, np.array([0, 1] * 4))
    assert len(set(group_R.tolist())) == 4


def test_hosts_of_two_jobs_are_no_peers_however_few() -> None:
    streams, _ = streams_of(["host:h1", "host:h2", "host:h3"])
    group_R = groups_of(streams, np.array([0, 0, 1]))
    assert len(set(group_R[streams.metric_R == 0].tolist())) == 2
