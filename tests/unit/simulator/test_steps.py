"""The simulator's step model."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.lab.topology import load
from leadline.simulator.fabric import fabric_of
from leadline.simulator.network import LinkState, state_of
from leadline.simulator.step_model import (
    ALGORITHMS,
    NEVER_NS,
    StepPlan,
    StepTimes,
    collective_ns,
    sent_bytes,
    shared,
    steps,
    traffic_of,
)

# Little to send: the ports of clos64 have 100 Mbit/s.
LIGHT = StepPlan(8, 1e8, 0.0, 1e6, 2e6, 1e5, 2, network_cv=0.0)
PLAN = StepPlan(8, 1e8, 0.0, 1e6, 2e6, 1e6, 2, network_cv=0.0)


@pytest.fixture(scope="module")
def links() -> LinkState:
    topology = load("clos64")
    return state_of(topology, fabric_of(topology))


def run(plan: StepPlan, links: LinkState, count: int = 5, slow: object = None) -> StepTimes:
    factor = np.ones(plan.ranks) if slow is None else slow
    return steps(plan, np.arange(plan.ranks), links, count, 1000, factor, np.random.default_rng(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("overlap", [True, False])
def test_the_laws_of_every_plan(algorithm: str, overlap: bool, links: LinkState) -> None:
    plan = replace(PLAN, algorithm=algorithm, overlap=overlap, compute_cv=0.1, network_cv=0.05)
    made = run(plan, links)
    assert {getattr(made, each.name).dtype for each in fields(made)} == {np.dtype(np.int64)}
    assert made.start_TR.shape == (5, 8)
    assert made.arrive_TCR.shape == made.finish_TCR.shape == (5, 2, 8)
    assert (made.start_TR[0] == 1000).all()
    assert (made.end_TR > made.start_TR).all()
    # Synchronous: nobody begins before everybody is through (up to a rounding of each phase).
    assert (made.start_TR[1:] >= made.end_TR[:-1].max(axis=1, keepdims=True) - 4).all()
    phases = made.data_TR + made.forward_TR + made.backward_TR + made.optimizer_TR
    assert np.abs(made.start_TR + phases - made.end_TR).max() <= 4
    for phase in (made.data_TR, made.forward_TR, made.backward_TR, made.optimizer_TR):
        assert (phase >= 0).all()
    assert (made.finish_TCR >= made.arrive_TCR).all()
    if algorithm in ("ring", "halving_doubling", "all_to_all"):
        assert (made.finish_TCR >= made.arrive_TCR.max(axis=2, keepdims=True)).all()  # it needs the last
        assert (made.finish_TCR[:, 1:] >= made.finish_TCR[:, :-1]).all()
        assert (made.finish_TCR <= made.end_TR[:, None, :]).all()


def test_a_seed_gives_the_same_steps(links: LinkState) -> None:
    plan = replace(PLAN, compute_cv=0.2)
    first, second = run(plan, links), run(plan, links)
    assert all((getattr(first, each.name) == getattr(second, each.name)).all() for each in fields(first))


def test_a_ring_takes_what_the_formula_says(links: LinkState) -> None:
    plan = replace(PLAN, ranks=4, payload_bytes=4e6, collectives=1)
    hosts = np.array([0, 2, 4, 6])  # one leaf: a rank's own port is the bottleneck
    quiet = replace(links, transport=replace(links.transport, merge_share=0.0))
    ideal_ns = 2 * 3 / 4 * 4e6 * (4214 / 4148) * (1 + links.transport.ack_share) * 8 / 100e6 * 1e9
    assert collective_ns(plan, hosts, quiet) == pytest.approx(ideal_ns)
    assert collective_ns(plan, hosts, quiet, idle_ns=1e9) == pytest.approx(ideal_ns - 2e6)
    # Small ones cost their messages.
    tiny = replace(plan, payload_bytes=1000.0)
    assert collective_ns(tiny, hosts, quiet) == pytest.approx(6 * quiet.transport.message_ns)


def test_a_late_rank_makes_all_wait(links: LinkState) -> None:
    slow = np.ones(8)
    slow[5] = 2.0
    well, late = run(LIGHT, links), run(LIGHT, links, slow=slow)
    assert late.seconds_T[0] - well.seconds_T[0] == pytest.approx(0.1, rel=0.01)
    waits = late.finish_TCR[0, 0] - late.arrive_TCR[0, 0]
    assert waits.argmin() == 5
    assert late.backward_TR[0, 0] > late.backward_TR[0, 5]  # the others wait in theirs


def test_slowness_may_come_and_go(links: LinkState) -> None:
    def slow(now_ns: int) -> np.ndarray:
        return np.full(8, 2.0 if now_ns > 200_000_000 else 1.0)

    seconds = run(LIGHT, links, slow=slow).seconds_T
    assert seconds[0] == seconds[1]
    assert seconds[4] > 1.5 * seconds[0]
    always = run(LIGHT, links, slow=lambda _: np.ones(8))
    assert always.end_TR[-1, 0] == pytest.approx(run(LIGHT, links).end_TR[-1, 0], abs=20)


def test_a_slow_and_a_dead_link_show(links: LinkState) -> None:
    plan = replace(PLAN, payload_bytes=1e7)
    capacity = links.capacity_bps_L.copy()
    capacity[links.fabric.host_link_HK[3, 1]] /= 10  # the NIC of rank 3, an even host's is the other
    assert run(plan, replace(links, capacity_bps_L=capacity)).seconds_T[0] > 3 * run(plan, links).seconds_T[0]
    up = links.up_L.copy()
    up[links.fabric.host_link_HK[3, 1]] = False
    assert run(plan, replace(links, up_L=up)).end_TR.max() >= NEVER_NS


def test_buckets_hide_behind_the_backward_pass(links: LinkState) -> None:
    plan = replace(PLAN, compute_ns=1e9, payload_bytes=2e6, collectives=8)
    beside, after = run(plan, links), run(replace(plan, collectives=1), links)
    assert beside.seconds_T[0] < after.seconds_T[0]
    assert run(replace(plan, overlap=False), links).seconds_T[0] > beside.seconds_T[0]


def test_a_pipeline_goes_as_fast_as_its_slowest_stage(links: LinkState) -> None:
    plan = replace(PLAN, algorithm="pipeline", payload_bytes=1.0, data_ns=0.0, optimizer_ns=0.0, micro_batches=8)
    quiet = replace(links, transport=replace(links.transport, message_ns=0.0))
    assert run(plan, quiet).seconds_T[0] == pytest.approx(1e8 / 8 * (8 + 7) / 1e9, rel=0.01)
    slow = np.ones(8)
    slow[2] = 2.0
    assert run(plan, quiet, slow=slow).seconds_T[0] == pytest.approx(1e8 / 8 * (9 + 2 * 7) / 1e9, rel=0.01)


def test_ranks_share_processors() -> None:
    assert shared(np.full((1, 4), 10.0), 2).tolist() == [[20.0] * 4]
    assert shared(np.array([[10.0, 10.0, 40.0]]), 2).tolist() == [[15.0, 15.0, 45.0]]
    assert shared(np.array([[10.0, 30.0]]), 2).tolist() == [[10.0, 30.0]]
    assert shared(np.array([[10.0, 30.0]]), 0).tolist() == [[10.0, 30.0]]


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=9), st.integers(1, 9))
def test_shared_processors_do_no_more_than_they_can(work: list[float], cores: int) -> None:
    done = shared(np.array([work]), cores)[0]
    assert (done >= np.array(work) - 1e-3).all()
    assert done.max() >= sum(work) / cores - 1e-3
    assert done.max() <= sum(work) + 1e-3
    assert (np.argsort(done, kind="stable") == np.argsort(work, kind="stable")).all() or len(set(work)) < len(work)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "all_to_all"])
@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_what_ranks_send(algorithm: str, ranks: int) -> None:
    plan = replace(PLAN, ranks=ranks, algorithm=algorithm, payload_bytes=1e6)
    factor = {"ring": 2, "halving_doubling": 2, "all_to_all": 1}[algorithm]
    assert sent_bytes(plan) == pytest.approx(factor * (ranks - 1) / ranks * 1e6)
    traffic = traffic_of(plan)
    assert (traffic.src_E != traffic.dst_E).all()
    assert traffic.dst_E.max() < ranks


def test_nothing_to_say_costs_nothing(links: LinkState) -> None:
    assert run(replace(PLAN, ranks=1), links).seconds_T[0] == pytest.approx(0.103)
    assert run(replace(PLAN, collectives=0), links).arrive_TCR.shape == (5, 0, 8)
    assert run(PLAN, links, count=0).start_TR.shape == (0, 8)


def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="algorithm one of"):
        StepPlan(8, 1, 0, 0, 0, 1, 1, "tree")
