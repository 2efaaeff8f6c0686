"""The live clock on simulated traces: errors within what is stated, and what befalls clocks is told."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from evals.clock_parts.following import Errors, Followed, Options, followed, hindsight_errors, live_errors
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.clock.edge import Points, fitted
from leadline.analysis.clock.live import ordered, pauses, step
from leadline.analysis.clock.state import (
    NO_BOUND_NS,
    Edges,
    Kind,
    State,
    begun,
    joined,
    left,
    rows,
)  # fmt: skip
from leadline.analysis.clock.warm import warm_clock
from leadline.model.tables.fabric import CLOCK_FIT
from leadline.simulator.oscillators import COLD, NORMAL, STRESS, ClockStep, Nature, Oscillators
from leadline.simulator.probes import Conditions, Lie, Load, Pause, regular_edges, traces

HOSTS, SECONDS = 12, 12.0
SRC, DST = regular_edges(HOSTS, 10, 3)
ALL = np.ones(len(SRC), bool)


@cache
def run(
    nature: Nature = NORMAL, how: Conditions = Conditions(), steps: tuple[ClockStep, ...] = (),
    dark: tuple[str, float, float] = ("", 0.0, 0.0), seed: int = 3,
) -> Followed:  # fmt: skip
    """A mesh followed. `dark`: which edges are not heard between two times: those of a host, between halves, all."""
    clocks = Oscillators(HOSTS, SECONDS + 2, nature, seed, steps=steps)
    which, since, until = dark
    unheard = {
        "": ~ALL, "host": (SRC == 1) | (DST == 1), "between": (SRC < 6) != (DST < 6), "all": ALL
    }[which]  # fmt: skip
    options = Options(heard=lambda now: ~unheard if since < now <= until else ALL)
    return followed(clocks, traces(clocks, SRC, DST, SECONDS, how, seed), SECONDS, options)


def events(followed_: Followed) -> list[tuple[float, int, Kind]]:
    at = zip(followed_.seconds_K, followed_.states, strict=True)
    return [(second, each.host, each.kind) for second, state in at for each in state.events]


def states_of(followed_: Followed, host: int) -> list[State]:
    return [State(each.state_H[host]) for each in followed_.states]


def wrongly_ordered(errors: Errors, since_s: float) -> int:
    """Pairs of events at one moment of which one was said to be first."""
    at = errors.second_T >= since_s
    apart = np.abs(errors.error_TH[at, :, None] - errors.error_TH[at, None, :])
    bound = errors.bound_TH[at, :, None] + errors.bound_TH[at, None, :]
    return int((apart > bound).sum())


CONDITIONS = {
    "idle": (NORMAL, Conditions()),
    "load": (NORMAL, Conditions(load=Load(0.33, 900_000.0))),
    "stress": (STRESS, Conditions(late_ratio=0.01, biased_ratio=0.1)),
    "lossy": (NORMAL, Conditions(lost_ratio=0.2)),
    "user": (NORMAL, Conditions(user=True)),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_stated_bounds_hold_and_no_order_is_wrong(name: str) -> None:
    errors = live_errors(run(*CONDITIONS[name]))
    own, pairs = errors.covered(3.0)
    assert own >= 0.999
    assert pairs >= 0.999
    assert wrongly_ordered(errors, 3.0) == 0
    assert np.median(errors.bound_TH[errors.second_T > 6]) < (600 if name == "user" else 200)


def test_errors_are_some_tens_of_ns() -> None:
    followed_ = run()
    assert np.percentile(live_errors(followed_).pairs(6.0), 99) < 60
    assert np.percentile(hindsight_errors(followed_).pairs(6.0), 99) < 40


def test_a_cold_start_is_within_a_microsecond_in_three_seconds() -> None:
    assert live_errors(run(COLD)).settled_s(1_000) < 3


def test_biased_edges_are_flagged() -> None:
    followed_ = run(*CONDITIONS["stress"])
    flagged = np.mean([each.flagged_E for each in followed_.states[16:]], axis=0)
    biased = followed_.traces.biased_E
    assert flagged[biased].mean() >= 0.9
    assert flagged[~biased].mean() <= 0.02


@pytest.mark.parametrize("by", [3_600 * 10**9, -3_600 * 10**9, 50_000, 5_000, -1_000])
def test_a_step_of_a_clock_is_told_and_only_its_host_begins_anew(by: int) -> None:
    followed_ = run(steps=(ClockStep(1, 6.1, by),))
    assert [(host, kind) for _, host, kind in events(followed_)] == [(1, Kind.STEPPED)]
    assert states_of(followed_, 1)[-1] is State.FITTED
    assert all(state is State.FITTED for state in states_of(followed_, 0)[8:])
    errors = live_errors(followed_)
    assert wrongly_ordered(errors, 6.4) == 0  # until the next step of the mesh, and the way of its rows
    assert np.nanmax(np.abs(errors.error_TH[errors.second_T > 9.0])) < 200


def test_a_host_that_lies_of_its_stamps_is_told() -> None:
    followed_ = run(how=Conditions(lies=(Lie(1, 3.0, 10_000),)))
    assert (1, Kind.LYING) in [(host, kind) for _, host, kind in events(followed_)]
    assert {host for _, host, _ in events(followed_)} == {1}
    assert followed_.states[-1].lying_H.tolist() == [host == 1 for host in range(HOSTS)]
    assert followed_.states[-1].state_H[1] == State.LOST


def test_a_lie_that_nothing_can_tell_widens_the_bound() -> None:
    """Earlier send stamps look like longer ways of the host: half of them may be its offset."""
    errors = live_errors(run(how=Conditions(lies=(Lie(1, 3.0, -10_000),))))
    assert errors.covered(3.0)[0] >= 0.999
    assert errors.bound_TH[-1, 1] > 4_000


def test_a_pause_moves_nothing_and_is_found() -> None:
    followed_ = run(how=Conditions(pauses=(Pause(1, 6.0, 0.1),)))
    assert not events(followed_)
    assert live_errors(followed_).covered(3.0)[0] >= 0.999
    told = followed_.traces
    mine = np.where(told.forward_N, SRC[told.edge_N], DST[told.edge_N]) == 1
    sent = np.sort(told.tx_ns_N[mine])
    (found,) = pauses(sent, usual_ns=2_000_000)
    assert (found[1] - found[0]) == pytest.approx(1e8, rel=0.1)


def test_a_split_mesh_is_two_islands_and_one_again() -> None:
    followed_ = run(dark=("between", 5.0, 8.0))
    count = [len(np.unique(each.island_H)) for each in followed_.states]
    assert count[10] == 1
    assert count[26] == 2
    assert count[-1] == 1
    assert live_errors(followed_).covered(3.0)[0] >= 0.999


def test_what_is_not_heard_is_carried_with_a_growing_bound() -> None:
    for dark in (("host", 5.0, 10.0), ("all", 5.0, 10.0)):
        followed_ = run(dark=dark)
        assert State.CARRIED in states_of(followed_, 1)
        assert states_of(followed_, 1)[-1] is State.FITTED
        bound = [each.bound_H[1] for each in followed_.states if each.state_H[1] == State.CARRIED]
        assert bound == sorted(bound)
        assert live_errors(followed_).covered(3.0)[0] >= 0.999


def test_after_a_long_silence_a_clock_is_lost() -> None:
    mesh = run().states[-1]
    nothing = unheard()
    for k in range(1, 40):
        mesh = step(mesh, nothing, run().states[-1].end_ns + k * 10 * 10**9)
    assert (mesh.state_H == State.LOST).all()
    assert rows(mesh)["bound_ns"].tolist() == [NO_BOUND_NS] * HOSTS


def unheard() -> Edges:
    """No edges."""
    no = np.zeros(0, np.int64)
    empty = Points(np.zeros(1, np.int64), no, no)
    return Edges(no, no, fitted(empty, empty, no, 2 * 10**9), np.zeros(0, bool), np.zeros(0))


def test_hosts_come_and_go() -> None:
    mesh = run().states[-1]
    more = joined(mesh, 2)
    assert len(more) == HOSTS + 2
    assert more.state_H[-1] == State.LOST
    assert (more.base_H[:HOSTS] == mesh.base_H).all()
    gone = left(more, np.array([1]))
    assert not gone.known_H[1]
    assert gone.known_H[0]


def test_rows_are_those_of_the_table() -> None:
    told = rows(run().states[-1])
    assert set(told) < {column.name for column in CLOCK_FIT.columns}
    assert told["offset_ns"].dtype == np.int64
    assert told["bound_ns"].dtype == np.int64
    assert set(told["state"]) == {"fitted"}
    assert rows(begun(2, 0))["state"] == ["lost", "lost"]


@given(st.integers(-(2**60), 2**60), st.integers(0, 10**9), st.integers(-(2**60), 2**60), st.integers(0, 10**9))
def test_what_lies_within_bounds_is_not_ordered(a: int, bound_a: int, b: int, bound_b: int) -> None:
    found = ordered(a, bound_a, b, bound_b)
    assert found == -ordered(b, bound_b, a, bound_a)
    if found < 0:
        assert a + bound_a < b - bound_b
    assert (found == 0) == (abs(a - b) <= bound_a + bound_b)


def test_what_warms_kernels_is_a_fit() -> None:
    assert (warm_clock().state_H == State.FITTED).all()
