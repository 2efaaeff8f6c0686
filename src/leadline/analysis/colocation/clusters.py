"""Pairs into machines: by transitive closure, as long as no machine holds a pair that disagrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Floats, Ints

Odds = Callable[[Ints, Ints], Floats]  # log odds of pairs


@dataclass(frozen=True, slots=True)
class Machines:
    """Hosts by machine. `torn_H`: agrees with two that disagree with each other, so nothing is said of it."""

    machine_H: Ints  # the smallest number among its hosts; its own number: alone
    torn_H: frozenset[int]

    def groups(self) -> list[list[int]]:
        """Hosts of each machine that has several."""
        order = np.argsort(self.machine_H, kind="stable")
        cuts = np.flatnonzero(np.diff(self.machine_H[order])) + 1
        return [each.tolist() for each in np.split(order, cuts) if len(each) > 1]


def machines(hosts: int, a_P: Ints, b_P: Ints, odds_P: Floats, least: float, most: int, odds: Odds) -> Machines:
    """Machines of pairs whose log odds are at least `least`, the surest first.

    Two groups become one if no pair across is likelier two oscillators than one; else those who would join them are
    torn: they agree with two that disagree, which one oscillator cannot. A group of more than `most` is no machine, so
    it is not looked into: a thousand clocks that are steered as one would be half a million pairs.
    """
    parent = list(range(hosts))
    members: dict[int, list[int]] = {host: [host] for host in range(hosts)}
    torn: set[int] = set()

    def root(host: int) -> int:
        while parent[host] != host:
            parent[host] = parent[parent[host]]
            host = parent[host]
        return host

    sure = np.flatnonzero(odds_P >= least)
    for place in sure[np.lexsort((b_P[sure], a_P[sure], -odds_P[sure]))].tolist():
        a, b = int(a_P[place]), int(b_P[place])
        one, other = sorted((root(a), root(b)))
        if one == other:
            continue
        if len(members[one]) + len(members[other]) <= most and not _agree(members[one], members[other], odds):
            torn |= {a, b}
            continue
        parent[other] = one
        members[one] += members.pop(other)
    return Machines(np.array([root(host) for host in range(hosts)], np.int64), frozenset(torn))


def _agree(one: Sequence[int], other: Sequence[int], odds: Odds) -> bool:
    if len(one) == len(other) == 1:
        return True  # it is the pair itself
    a, b = np.meshgrid(np.array(one, np.int64), np.array(other, np.int64), indexing="ij")
    return bool((odds(a.ravel(), b.ravel()) >= 0).all())
