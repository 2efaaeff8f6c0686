"""Which link, card, host or switch delays or loses probes: on a small fat tree, with noise and ties."""

from __future__ import annotations

import numpy as np
import pytest
from evals.mesh.fat_tree import Fault, Measured, Mesh, Noise, measured, mesh
from evals.mesh.localise import awake, death_ms, fault_of, named

from leadline.analysis.columns import Floats
from leadline.analysis.localise.mesh_found import Found, in_words, narrowest
from leadline.analysis.localise.mesh_paths import Classes, Component, classes, ends_only
from leadline.analysis.localise.mesh_silence import dead, dead_paths, stalled, voted
from leadline.analysis.localise.probes import lossy, queueing

MESH = mesh(1, k=4, degree=6)


def seen(fault: Fault, seconds: int = 10, seed: int = 0, noise: Noise | None = None) -> Measured:
    return measured(MESH, fault, noise or Noise(), seconds, 4, np.random.default_rng(seed))


def entities(found: list[Found]) -> set[str]:
    return {member.entity for each in found for member in (*each.members, *each.others)}


@pytest.mark.parametrize("kind", ["link", "link both ways", "card", "switch"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_loses_is_named_and_nothing_else(kind: str, seed: int) -> None:
    fault = fault_of(MESH, kind, np.random.default_rng(seed), loss=0.02)
    (found,) = named(MESH.told, seen(fault, seed=seed), 10)
    assert Component(fault.entity, fault.way) in found.members
    assert found.kind == "loss"
    assert found.amount == pytest.approx(0.02, rel=0.4)
    assert found.probability > 0.9


def test_what_delays_is_named_with_how_much_and_since_when() -> None:
    fault = fault_of(MESH, "link", np.random.default_rng(4), queue_ns=20_000.0)
    calm, slow = seen(Fault(""), 5), seen(fault, 20)
    (found,) = queueing(MESH.told, np.hstack((calm.queue_PT, slow.queue_PT)))
    assert Component(fault.entity, fault.way) in found.members
    assert found.amount == pytest.approx(20_000, rel=0.3)
    assert found.since == 5


def test_loss_that_began_late_is_told_since_then() -> None:
    fault = fault_of(MESH, "link", np.random.default_rng(5), loss=0.03)
    calm, bad = seen(Fault(""), 20), seen(fault, 10)
    (found,) = lossy(MESH.told, np.hstack((calm.sent_PT, bad.sent_PT)), np.hstack((calm.lost_PT, bad.lost_PT)))
    assert Component(fault.entity, fault.way) in found.members
    assert 19 <= found.since <= 22


def test_two_links_that_lose_are_both_named() -> None:
    far = [MESH.name(MESH.host_links + 1), MESH.name(len(MESH.links) - 1)]
    saw = seen(Fault("two", "", np.array([MESH.host_links + 1, len(MESH.links) - 1]), 0.03), 20)
    found = lossy(MESH.told, saw.sent_PT, saw.lost_PT)
    assert {(each.members[0].entity, each.members[0].way) for each in found} == set(far)


def test_the_order_of_paths_and_links_does_not_matter() -> None:
    fault = fault_of(MESH, "card", np.random.default_rng(6), loss=0.02)
    saw = seen(fault)
    order = np.random.default_rng(0).permutation(len(MESH.src_P))
    turned = classes(MESH.path_PX[order], MESH.links, MESH.switches)
    one = lossy(MESH.told, saw.sent_PT, saw.lost_PT)
    other = lossy(turned, saw.sent_PT[order], saw.lost_PT[order])
    assert [set(each.members) for each in one] == [set(each.members) for each in other]
    assert one[0].amount == pytest.approx(other[0].amount)


@pytest.mark.parametrize("shift_ns", [500.0, 5000.0, 50_000.0])
def test_queueing_that_all_paths_have_names_nothing(shift_ns: float) -> None:
    assert queueing(MESH.told, seen(Fault("")).queue_PT + shift_ns) == []


def test_loss_that_all_paths_have_names_nothing() -> None:
    for seed in range(5):
        assert named(MESH.told, seen(Fault(""), 20, seed, Noise(loss=0.01, bursts_per_s=0)), 20) == []


@pytest.mark.parametrize("seed", range(5))
def test_where_nothing_is_broken_nothing_is_named(seed: int) -> None:
    assert named(MESH.told, seen(Fault(""), 60, seed), 60) == []


def test_a_queue_that_overflows_once_is_nothing_that_is_broken() -> None:
    saw, burst = seen(Fault(""), 20), seen(fault_of(MESH, "link", np.random.default_rng(7), loss=0.2), 1)
    assert lossy(MESH.told, np.hstack((saw.sent_PT, burst.sent_PT)), np.hstack((saw.lost_PT, burst.lost_PT))) == []


def test_what_no_path_tells_apart_is_one_class() -> None:
    mine = next(members for members in MESH.told.members_C if Component("port:h1/eth0") in members)
    assert {each.entity for each in mine} == {"port:h1/eth0", "host:h1", MESH.links[0]}


def test_a_host_with_two_cards_is_apart_from_either() -> None:
    links = ["link:h1/eth0~leaf1/p1", "link:h1/eth1~leaf2/p1", "link:h2/eth0~leaf1/p2", "link:h2/eth1~leaf2/p2"]
    told = classes(np.array([[0, 6], [1, 7], [2, 4], [3, 5]]), links, {"leaf1", "leaf2"})
    of = {each: number for number, members in enumerate(told.members_C) for each in members}
    assert of[Component("host:h1")] != of[Component("port:h1/eth0")]


def test_hosts_that_stand_still_are_told_from_the_network() -> None:
    fault = fault_of(MESH, "stall", np.random.default_rng(8))
    saw, hosts = awake(MESH, seen(fault, 30))
    assert hosts == {fault.stalls}
    assert named(MESH.told, saw, 30) == []
    assert named(MESH.told, seen(fault, 30), 30) != []  # what its full socket loses looks like a bad card


def test_a_slow_network_is_no_host_that_stands_still() -> None:
    wait, queue = np.full((3, 10), 20_000.0), np.zeros((3, 10))
    wait[0, 5], wait[1, 5], queue[1, 5], wait[2, 5] = 60e6, 60e6, 60e6, np.nan
    found = stalled(wait, queue)
    assert found.sum() == 1
    assert found[0, 5]


def test_a_dead_link_is_named_in_100_ms() -> None:
    for seed in range(10):
        ms, right = death_ms(MESH, np.random.default_rng(seed))
        assert right
        assert ms is not None
        assert ms <= 100


def test_silence_is_no_death_while_little_is_expected_or_anything_comes() -> None:
    expected = np.full(len(MESH.src_P), 2.0)
    assert dead(MESH.told, expected, expected) == []
    assert dead(MESH.told, np.zeros_like(expected), np.zeros_like(expected)) == []
    assert dead_paths(np.array([2.0, 6.0, 6.0]), np.array([0.0, 0.0, 1.0])).tolist() == [False, True, False]


def test_votes_name_the_host_where_no_path_is_known() -> None:
    told = ends_only([f"h{each}" for each in MESH.src_P], [f"h{each}" for each in MESH.dst_P])
    bad = (MESH.src_P == 3) | (MESH.dst_P == 3)
    assert voted(told, bad, np.ones(len(bad), bool)) == [(Component("host:h3"),)]
    assert voted(told, np.zeros(len(bad), bool), np.ones(len(bad), bool)) == []
    few = np.arange(len(bad)) < 2
    assert voted(told, few, np.ones(len(bad), bool)) == []


@pytest.mark.parametrize("shape", [(0, 0), (0, 5)])
def test_nothing_in_nothing_out(shape: tuple[int, int]) -> None:
    empty: Floats = np.zeros(shape)
    told: Classes = classes(np.zeros((0, 6), np.int64), MESH.links, MESH.switches)
    assert lossy(told, empty, empty) == queueing(told, empty) == []
    none: Mesh = MESH
    paths = len(none.src_P)
    assert lossy(MESH.told, np.zeros((paths, 0)), np.zeros((paths, 0))) == []
    assert queueing(MESH.told, np.full((paths, 5), np.nan)) == []


def test_a_class_is_called_by_its_link_and_told_in_a_sentence() -> None:
    fault = fault_of(MESH, "card", np.random.default_rng(9), loss=0.05)
    (found,) = named(MESH.told, seen(fault), 10)
    entity, others = narrowest(found)
    assert entity.startswith("link:")
    assert fault.entity in others
    assert in_words(found, 0.05, 0.0001).startswith("probes across it lose 5.00%, across all others 0.010%")
