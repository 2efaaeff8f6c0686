"""Which hosts share a machine: found by rate and wander, whatever their order; unknown rather than wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from evals.mesh.colocation import history_of, told_pairs, true_pairs
from evals.mesh.oscillators import START_NS, Readings, S, Scene, readings

from leadline.analysis.colocation.clusters import machines
from leadline.analysis.colocation.colocation import Colocated, Why, colocated
from leadline.analysis.colocation.history import BLOCKS, History, fed, series
from leadline.analysis.columns import Floats, Ints

SMALL = Scene(hosts=40, machines=25)


def judged(told: Readings, **more: object) -> list[Colocated]:
    return colocated(series(history_of(told)), **more)  # type: ignore[arg-type]


def pairs(found: Sequence[Colocated]) -> set[tuple[str, str]]:
    return told_pairs(found)


def whys(found: Sequence[Colocated]) -> set[Why | None]:
    return {each.why for each in found}


@pytest.mark.parametrize("seed", range(5))
def test_those_who_share_an_oscillator_are_found_and_nobody_else(seed: int) -> None:
    told = readings(SMALL, seed)
    found = judged(told)
    assert pairs(found) == true_pairs(told)
    assert whys(found) == {None}
    assert min(each.probability for each in found) >= 0.9


def test_the_order_of_hosts_and_rows_does_not_matter() -> None:
    told = readings(SMALL, 1)
    order = np.random.default_rng(0).permutation(len(told.hosts))
    turned = Readings(
        tuple(told.hosts[each] for each in order), told.machine_H[order], told.time_T, told.offset_HT[order]
    )
    assert judged(turned) == judged(told)
    host_N, time_N = np.repeat(np.arange(40), len(told.time_T)), np.tile(told.time_T, 40)
    mixed = np.random.default_rng(1).permutation(len(host_N))
    at_once = fed(History(), told.hosts, host_N[mixed], time_N[mixed], told.offset_HT.ravel()[mixed])
    assert pairs(colocated(series(at_once))) == true_pairs(told)


def test_offsets_do_not_matter_nor_what_all_clocks_do_at_once() -> None:
    told = readings(SMALL, 2)
    rng = np.random.default_rng(0)
    constant = rng.integers(-(10**10), 10**10, (40, 1))
    anchored = np.where(np.arange(len(told.time_T)) > 100, 5_000_000, 0)
    moved = replace(told, offset_HT=told.offset_HT + constant + anchored[None, :])
    assert pairs(judged(moved)) == true_pairs(told)


def test_moved_in_time_it_says_the_same_later() -> None:
    told = readings(SMALL, 3)
    later = replace(told, time_T=told.time_T + 3600 * S)
    for one, other in zip(judged(told), judged(later), strict=True):
        assert (one.host, one.others, one.probability) == (other.host, other.others, other.probability)
        assert other.since_ns - one.since_ns == 3600 * S


@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
def test_twice_the_noise_and_wander_is_as_telling(scale: float) -> None:
    told = readings(SMALL, 4)
    assert pairs(judged(replace(told, offset_HT=np.rint(scale * told.offset_HT).astype(np.int64)))) == true_pairs(told)


@pytest.mark.parametrize("noise_ns", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("seconds", [30.0, 60.0, 300.0])
def test_without_a_shared_oscillator_no_noise_makes_a_pair(noise_ns: float, seconds: float) -> None:
    for seed in range(3):
        told = readings(Scene(hosts=60, machines=60, noise_ns=noise_ns, seconds=seconds, step_s=0.5), seed)
        assert pairs(judged(told)) == set()


def test_where_noise_hides_a_twin_it_is_unknown() -> None:
    found = judged(readings(Scene(hosts=40, machines=25, noise_ns=1e5, seconds=30), 0))
    assert pairs(found) == set()
    assert {each.host for each in found if each.why is Why.NOISE} == set(readings(SMALL, 0).hosts)


@pytest.mark.parametrize("steered", ["exact", "daemon"])
@pytest.mark.parametrize("hosts", [4, 8, 60])
def test_clocks_that_somebody_steers_are_unknown(steered: str, hosts: int) -> None:
    told = readings(Scene(hosts=hosts, machines=hosts, seconds=120, steered=steered), 1)
    found = judged(told)
    assert pairs(found) == set()
    assert {each.host for each in found} == set(told.hosts)


def test_who_is_known_to_be_steered_is_unknown_and_the_others_are_judged() -> None:
    told = readings(SMALL, 5)
    mine = frozenset(told.hosts[:5])
    found = judged(told, steered=mine)
    assert {each.host for each in found if each.why is Why.TOLD} == mine
    assert pairs(found) == {pair for pair in true_pairs(told) if not mine & set(pair)}


def test_half_of_a_fleet_that_is_steered_does_not_blur_the_other_half() -> None:
    free = readings(Scene(hosts=40, machines=25, seconds=120), 6)
    bound = readings(Scene(hosts=40, machines=40, seconds=120, steered="daemon"), 6)
    names = tuple(f"s{host}" for host in bound.hosts)
    both = Readings(
        free.hosts + names,
        np.r_[free.machine_H, 100 + bound.machine_H],
        free.time_T,
        np.r_[free.offset_HT, bound.offset_HT],
    )
    found = judged(both)
    assert pairs(found) == true_pairs(free)
    unknown = {each.host for each in found if each.why is Why.STEERED}
    assert unknown <= set(names)
    assert len(unknown) >= 35  # a loop that hunts may for once be somewhere else


def test_too_short_or_too_few_is_unknown() -> None:
    assert whys(judged(readings(replace(SMALL, seconds=15), 0))) == {Why.SHORT}
    assert whys(judged(readings(Scene(hosts=2, machines=2), 0))) == {Why.FEW}
    assert judged(Readings((), np.zeros(0, np.int64), np.arange(2), np.zeros((0, 2), np.int64))) == []


def test_a_clock_that_steps_begins_anew_and_is_found_again() -> None:
    told = readings(replace(SMALL, seconds=120), 7)
    one = sorted(true_pairs(told))[0][0]
    place = told.hosts.index(one)
    offset_HT = told.offset_HT.copy()
    offset_HT[place, 200:] += 3_600_000_000_000
    found = judged(replace(told, offset_HT=offset_HT))
    assert pairs(found) == true_pairs(told)
    mine = next(each for each in found if each.host == one)
    assert mine.since_ns >= START_NS + 48 * S
    offset_HT[place, 440:] += 20_000  # 10 s before the end, 20 us
    found = judged(replace(told, offset_HT=offset_HT))
    assert pairs(found) == {pair for pair in true_pairs(told) if one not in pair}
    assert next(each for each in found if each.host == one).why is Why.SHORT


def test_a_host_that_has_just_come_joins_those_that_were_there() -> None:
    told = readings(replace(SMALL, seconds=200), 8)
    one = sorted(true_pairs(told))[0][1]
    place = told.hosts.index(one)
    host_N, time_N = np.repeat(np.arange(40), len(told.time_T)), np.tile(told.time_T, 40)
    kept = (host_N != place) | (time_N >= START_NS + 130 * S)
    history = fed(History(), told.hosts, host_N[kept], time_N[kept], told.offset_HT.ravel()[kept])
    assert pairs(colocated(series(history))) == true_pairs(told)


def test_short_gaps_are_bridged_long_ones_begin_anew() -> None:
    told = readings(replace(SMALL, seconds=120), 9)
    one = told.hosts.index(sorted(true_pairs(told))[0][0])
    host_N, time_N = np.repeat(np.arange(40), len(told.time_T)), np.tile(told.time_T, 40)
    since_N = (time_N - START_NS) / S
    for gap, begins_s in ((3.0, 0), (20.0, 60)):
        kept = (host_N != one) | (since_N < 50) | (since_N > 50 + gap)
        history = fed(History(), told.hosts, host_N[kept], time_N[kept], told.offset_HT.ravel()[kept])
        found = colocated(series(history))
        assert pairs(found) == true_pairs(told)
        mine = next(each for each in found if each.host == told.hosts[one])
        assert mine.since_ns >= START_NS + begins_s * S


def test_hosts_of_different_islands_are_not_compared() -> None:
    told = readings(SMALL, 10)
    host_N, time_N = np.repeat(np.arange(40), len(told.time_T)), np.tile(told.time_T, 40)
    isle_H = np.arange(40) % 2
    history = fed(History(), told.hosts, host_N, time_N, told.offset_HT.ravel(), isle_H[host_N])
    isle = {name: int(isle_H[place]) for place, name in enumerate(told.hosts)}
    assert pairs(colocated(series(history))) == {pair for pair in true_pairs(told) if isle[pair[0]] == isle[pair[1]]}


def test_the_ring_forgets_and_who_is_gone_is_forgotten() -> None:
    told = readings(SMALL, 11)
    history = history_of(told)
    later = fed(history, ("h01",), np.zeros(1, np.int64), told.time_T[-1:] + 2 * BLOCKS * 2 * S, np.zeros(1, np.int64))
    assert later.hosts == ("h01",)
    old = fed(later, ("h02",), np.zeros(1, np.int64), told.time_T[:1], np.zeros(1, np.int64))
    assert old.hosts == ("h01",)


def of_pairs(nats: Mapping[tuple[str, str], float]) -> Callable[[Sequence[str], Ints, Ints], Floats]:
    def witness(names: Sequence[str], a_P: Ints, b_P: Ints) -> Floats:
        both = zip(a_P.tolist(), b_P.tolist(), strict=True)
        return np.array([nats.get((min(names[a], names[b]), max(names[a], names[b])), 0.0) for a, b in both])

    return witness


def test_a_witness_strengthens_and_never_makes_a_pair() -> None:
    told = readings(replace(SMALL, seconds=300, noise_ns=200), 13)
    sure = dict.fromkeys(true_pairs(told), 3.0)
    wrong = {(a, b): 100.0 for a in told.hosts for b in told.hosts if a < b and (a, b) not in sure}
    assert pairs(judged(told, witness=of_pairs(sure))) == true_pairs(told)
    assert pairs(judged(told, witness=of_pairs(wrong))) <= true_pairs(told)


def test_no_machine_holds_a_pair_that_disagrees() -> None:
    a, b, odds_P = np.array([0, 1, 3]), np.array([1, 2, 4]), np.array([9.0, 8.0, 7.0])

    def odds(one: Ints, other: Ints) -> Floats:
        return np.where((one + other == 2) & (one != other), -5.0, 9.0)  # 0 and 2 disagree

    found = machines(5, a, b, odds_P, 4.0, 32, odds)
    assert found.groups() == [[0, 1], [3, 4]]
    assert found.torn_H == {1, 2}


def test_hosts_that_were_heard_one_after_another_are_not_compared() -> None:
    """No block holds half of them: each is heard for a minute, when the one before has gone."""
    hosts = tuple(f"h{number:02}" for number in range(8))
    seconds = np.arange(480)
    history = fed(History(), hosts, seconds // 60, seconds * S, np.zeros(480, np.int64))
    assert not pairs(colocated(series(history)))
