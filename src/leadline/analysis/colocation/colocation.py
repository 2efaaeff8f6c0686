"""Which virtual hosts share a machine: clocks that keep the same time but for a constant.

    History --series--> offsets by block --energies--> modes --candidates--> pairs --machines--> Colocated
                                        for each length of history, the longest first

Hosts of one machine read one oscillator: their clocks have its rate and all its wander in common, and differ by what
each was set to. The statistic is the mean square of the difference of two clocks about its mean (section 7 of the
notes on time), mode by mode (`modes`), as a likelihood ratio (`pairs`). Nothing is told where a twin could not be told
from a stranger: a clock that somebody steers, a history too short, noise too large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import numpy as np

from leadline.analysis.colocation.clusters import Machines, machines
from leadline.analysis.colocation.history import Series
from leadline.analysis.colocation.modes import BLOCKS_MIN, Energies, energies
from leadline.analysis.colocation.pairs import (
    RATE_APART_PPB,
    RATES_PPB,
    alone,
    best_odds,
    candidates,
    log_odds,
    rates,
)
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.robust import IQR_TO_SIGMA
from leadline.model.units import S

SURE = 0.9  # probability from which on a pair is told
SURE_ODDS = float(np.log(SURE / (1 - SURE)))
SHARING = 1 / 30
"""Hosts that share a machine with another, before anything is known. With one in one, rates alone made pairs of hosts
that share none: of 60 hosts, read to 1 us, some two have rates as near as they can be measured."""
TOLD_ODDS = 0.0  # of a pair that is told as undecided
HOSTS_MIN = 3  # of two, cluster time is the mean: neither is seen to wander
MACHINE_MAX = 32  # hosts on one machine; more that agree are clocks that are steered as one
SPREAD_LEAST_PPB = 100.0  # standard deviation of the rates of free oscillators, at least
CROWD_PPB = 50.0  # to either side
CROWD_CHANCE = 1e-6
NEAR_OF = 8  # strangers by whose distance the density of rates is judged
Witness = Callable[[Sequence[str], Ints, Ints], Floats]  # names of hosts; pairs by their places: nats


class Why(StrEnum):
    """Why nothing is told of a host."""

    SHORT = "its clock has been followed for too short a time, or stepped of late"
    FEW = "too few hosts of one time to know how rates differ"
    NOISE = "its clock is read with too much noise: even a twin could not be told from a stranger"
    STEERED = "its rate is that of a crowd: somebody steers these clocks, and what would tell machines apart is gone"
    TORN = "it agrees with two hosts that disagree with each other"
    CLOSE = "another host's clock is nearly like its own; not yet sure"
    TOLD = "its clock is said to be steered"


@dataclass(frozen=True, slots=True)
class Colocated:
    """One host that shares a machine, or of which that cannot be told."""

    host: str
    others: tuple[str, ...]
    probability: float
    since_ns: int  # from when on the clocks were compared
    rate_ppb: float
    apart_ns: float  # root mean square of the differences of its clock to the others', about their means
    noise_ns: float  # of these differences, expected
    why: Why | None = None

    def moved(self, by_ns: int) -> Colocated:
        """The same later."""
        return replace(self, since_ns=self.since_ns + by_ns)


def colocated(
    series: Series,
    *,
    span_ns: int = 2 * S,
    steered: frozenset[str] = frozenset(),
    witness: Witness | None = None,
) -> list[Colocated]:
    """Hosts that share a machine, and those of which it is unknown, by name. A host that is in neither is alone.

    `span_ns`: over which each offset was fitted. `steered`: hosts whose clock is known to be somebody's. `witness`:
    nats that something else adds to pairs of hosts, as `Queues.odds` gives them: it strengthens what the clocks
    say, and lets none pass that they contradict.
    """
    found: dict[int, Colocated] = {}
    for island in np.unique(series.island_H).tolist():
        mine = np.flatnonzero(series.island_H == island)
        is_steered = np.array([series.hosts[host] in steered for host in mine.tolist()], bool)
        free = mine[~is_steered]
        length_H = _rungs(series.length_H[free])
        for length in sorted(set(length_H[length_H > 0].tolist()), reverse=True):
            those = free[length_H >= length]
            new = set(free[length_H == length].tolist())
            for hosts, told in _judged(series, those, length, span_ns, witness):
                # Hosts with a longer history were judged by it; a new one that joins all of them is added to them.
                if hosts & new and all(set(_others(found.get(host), series)) <= hosts for host in hosts - new):
                    found.update(told)
        found.update({host: _unknown(series, host, Why.SHORT) for host in free[length_H == 0].tolist()})
        found.update({host: _unknown(series, host, Why.TOLD) for host in mine[is_steered].tolist()})
    return [found[host] for host in sorted(found, key=lambda host: series.hosts[host])]


def reference(each: Colocated, time_ns: int) -> Mapping[str, object]:
    """A reference that says in words what was seen."""
    text = str(each.why) if each.why else (
        f"its clock keeps the time of {', '.join(each.others)} to within {each.apart_ns:.0f} ns, of which "
        f"{each.noise_ns:.0f} ns is noise; its rate is {each.rate_ppb:+.2f} ppb"
    )  # fmt: skip
    return {
        "table": "edge_fit", "entity": f"host:{each.host}", "what": "offset_ns", "time_ns": time_ns,
        "bound_ns": None, "text": text,
    }  # fmt: skip


def _rungs(length_H: Ints) -> Ints:
    """The length over which each host is compared, blocks: all there is, halved until hosts have it; 0: too short.

    A host that has just come is compared over what it has, and all others over more.
    """
    out = np.zeros(len(length_H), np.int64)
    most = int(length_H.max(initial=0))
    while most >= BLOCKS_MIN:
        out = np.where((out == 0) & (length_H >= most), most, out)
        most = most // 2 if most // 2 >= BLOCKS_MIN else (BLOCKS_MIN if most > BLOCKS_MIN else 0)
    return out


def _judged(
    series: Series, those: Ints, length: int, span_ns: int, witness: Witness | None
) -> list[tuple[set[int], dict[int, Colocated]]]:
    """Machines of hosts that are compared over one length, and hosts of which it is unknown: each with its verdicts."""
    begin = series.offset_HB.shape[1] - length
    names = [series.hosts[host] for host in those.tolist()]
    if len(those) < HOSTS_MIN:
        return [({host}, {host: _unknown(series, host, Why.FEW)}) for host in those.tolist()]
    told = energies(series.offset_HB[those, begin:], series.block_ns / S, span_ns / S)
    rate_H, sd_H = rates(told)
    a_P, b_P, crowded_H = candidates(rate_H, sd_H)
    alone_H = alone(told)
    prior = float(np.log(SHARING / len(those)))

    def odds(dense_H: Floats, a: Ints, b: Ints) -> Floats:
        by_clock = log_odds(told, alone_H, a, b, np.maximum(dense_H[a], dense_H[b]), prior)
        more = witness(names, a, b) if witness is not None else np.zeros(len(a))
        return np.where(by_clock >= TOLD_ODDS, by_clock + more, by_clock)

    def joined(dense_H: Floats) -> Machines:
        sure_P = odds(dense_H, a_P, b_P)
        return machines(len(those), a_P, b_P, sure_P, SURE_ODDS, MACHINE_MAX, partial(odds, dense_H))

    # How dense rates lie, three times: who agrees is one machine, and counts once.
    dense_H = np.full(len(those), 1 / RATES_PPB)
    for _ in range(2):
        dense_H = _density(rate_H, joined(dense_H).machine_H)
    odds_P, found = odds(dense_H, a_P, b_P), joined(dense_H)
    why = _doubts(found, rate_H, crowded_H, best_odds(told, alone_H, dense_H, prior), a_P, b_P, odds_P)
    return _verdicts(series, those, told, found, odds_P, (a_P, b_P), why, begin)


def _verdicts(
    series: Series,
    those: Ints,
    told: Energies,
    found: Machines,
    odds_P: Floats,
    pairs: tuple[Ints, Ints],
    why: Mapping[int, Why],
    begin: int,
) -> list[tuple[set[int], dict[int, Colocated]]]:
    from scipy.special import expit  # here: it takes half a second to load, which a server need not wait for

    rate_H, _ = rates(told)
    best_H = np.full(len(those), -np.inf)
    within = found.machine_H[pairs[0]] == found.machine_H[pairs[1]]
    for side in pairs:
        np.maximum.at(best_H, side[within], odds_P[within])
    since_ns = (series.first + begin) * series.block_ns
    out: list[tuple[set[int], dict[int, Colocated]]] = []
    together = [group for group in found.groups() if not any(host in why for host in group)]
    for group in together:
        verdicts = {}
        for host in group:
            others = [other for other in group if other != host]
            gap_OM = told.mode_HM[host] - told.mode_HM[others]
            blocks = told.mode_HM.shape[1] + 1
            noise = (told.noise_H[host] + told.noise_H[others].mean()) * told.basis.noise_M.sum() / blocks
            verdicts[int(those[host])] = Colocated(
                series.hosts[those[host]],
                tuple(sorted(series.hosts[those[other]] for other in others)),
                float(expit(best_H[host])),
                since_ns,
                float(rate_H[host]),
                float(np.sqrt((gap_OM**2).sum() / blocks / len(others))),
                float(np.sqrt(noise)),
            )
        out.append((set(verdicts), verdicts))
    for host, reason in why.items():
        number = int(those[host])
        out.append(({number}, {number: _unknown(series, number, reason)}))
    return out


def _doubts(
    found: Machines, rate_H: Floats, crowded_H: Bools, best_H: Floats, a_P: Ints, b_P: Ints, odds_P: Floats
) -> dict[int, Why]:
    """Hosts of which it is unknown, and why."""
    machine, size_H = found.machine_H, np.bincount(found.machine_H, minlength=len(rate_H))[found.machine_H]
    why: dict[int, Why] = {}
    alone_H = size_H == 1
    close_H = np.zeros(len(rate_H), bool)
    for side in (a_P, b_P):
        close_H[side[(odds_P >= TOLD_ODDS) & (machine[a_P] != machine[b_P])]] = True
    told = (
        (Why.CLOSE, close_H & alone_H),
        (Why.NOISE, (best_H < SURE_ODDS) & alone_H),
        (Why.TORN, np.isin(machine, machine[list(found.torn_H)])),
        (Why.STEERED, _steered(rate_H, machine) | crowded_H & alone_H | (size_H > MACHINE_MAX)),
    )
    for reason, is_so_H in told:  # what weighs more comes later
        why.update(dict.fromkeys(np.flatnonzero(is_so_H).tolist(), reason))
    return why


def _steered(rate_H: Floats, machine_H: Ints) -> Bools:
    """Hosts whose rate is that of a crowd of other machines, as no free oscillators have it."""
    from scipy.special import pdtrc  # as above

    one_M = np.unique(machine_H)
    rate_M = np.sort(rate_H[one_M])
    if len(rate_M) < HOSTS_MIN:
        return np.ones(len(rate_H), bool)
    spread = IQR_TO_SIGMA * float(np.subtract(*np.quantile(rate_M, [0.75, 0.25])))
    # Where most are steered, those that are not lie far from them.
    mostly_H = np.abs(rate_H - np.median(rate_M)) < max(5 * spread, CROWD_PPB)
    near_H = np.searchsorted(rate_M, rate_H + CROWD_PPB) - np.searchsorted(rate_M, rate_H - CROWD_PPB) - 1
    # As wide as free oscillators lie, or as most of these do: uniform over four standard deviations.
    expected = len(rate_M) * 2 * CROWD_PPB / min(RATES_PPB, max(4 * spread, 40 * CROWD_PPB))
    crowd_H = (near_H > 0) & (pdtrc(near_H - 1, expected) < CROWD_CHANCE)
    found: Bools = crowd_H | mostly_H if spread < SPREAD_LEAST_PPB else crowd_H
    return found


def _density(rate_H: Floats, machine_H: Ints) -> Floats:
    """How dense the rates of other machines lie around each host's, per ppb: by the nearest few, and a prior of one."""
    rate_M = np.sort(rate_H[np.unique(machine_H)])
    count = len(rate_M)
    near = min(NEAR_OF, count - 1)
    if near < 1:
        return np.full(len(rate_H), 1 / RATES_PPB)
    at = np.searchsorted(rate_M, rate_H)
    window = np.clip(at[:, None] + np.arange(-near - 1, near + 2)[None, :], 0, count - 1)
    apart = np.abs(rate_M[window] - rate_H[:, None])
    repeated = np.diff(window, axis=1, prepend=-1) == 0
    apart[repeated] = np.inf
    distance = np.sort(apart, axis=1)[:, near]  # the first is its own machine
    there = near / count / (2 * np.maximum(distance, RATE_APART_PPB / 100))
    found: Floats = (count * there + 1 / RATES_PPB) / (count + 1)
    return np.maximum(found, 1 / RATES_PPB)


def _others(told: Colocated | None, series: Series) -> list[int]:
    place = {name: number for number, name in enumerate(series.hosts)} if told and told.others else {}
    return [place[name] for name in told.others] if told else []


def _unknown(series: Series, host: int, why: Why) -> Colocated:
    since_ns = (series.first + int(series.begin_H[host])) * series.block_ns
    return Colocated(series.hosts[host], (), 0.0, since_ns, np.nan, np.nan, np.nan, why)
