"""The model of the weights: which candidate is right, as a softmax over the same sums as `score` makes.

    P(candidate) = exp(sum of weight x group + fixed) / (the same of all rivals + exp(unknown))

Fitted by the likelihood of what was broken, a part of a case by its share of what was lost; where nothing that was
broken is a candidate, `unknown` is right. Each weight is held near what it was by hand by a normal prior (ridge): a
group that few cases have stays where it was. Source: McFadden, "Conditional logit analysis", 1974, with a ridge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from evals.learned.candidates import GROUPS, PartWeighed
from leadline.analysis.cause.weights import BY_HAND
from leadline.analysis.columns import Bools, Floats, Ints

NAMES = (*GROUPS, "unknown")
# How far a weight may be from the one by hand at a price of half a nat: a standard deviation, in nats and as a factor.
# Source: judgement, the classes by hand are 1.5 to 2 nats apart.
SPREAD = {name: 0.3 if name in ("alone", "blame") else 1.0 for name in NAMES}
CASES_MIN = 5  # with which a weight is told as learned; below it keeps its value by hand. Source: the rule.


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights by name, how many cases taught each, and the mean likelihood in nats a case, before and after."""

    values: Mapping[str, float]
    cases: Mapping[str, int]
    before: float
    after: float

    @property
    def kept(self) -> tuple[str, ...]:
        """Names with too few cases."""
        return tuple(name for name in NAMES if self.cases[name] < CASES_MIN)


@dataclass(frozen=True, slots=True)
class _Table:
    """All candidates, C, of all parts, P; each part has a candidate `unknown`."""

    much_CG: Floats
    fixed_C: Floats
    right_C: Bools
    part_C: Ints
    share_P: Floats


def fitted(cases: Sequence[Sequence[PartWeighed]]) -> Fit:
    """Weights that make what was broken likeliest in all cases, each of which counts alike."""
    table = _table(cases)
    taught = {name: sum(_teaches(case, place) for case in cases) for place, name in enumerate(GROUPS)}
    taught["unknown"] = sum(bool(case) for case in cases)
    hand = np.array([BY_HAND[name] for name in NAMES])
    free = np.array([taught[name] >= CASES_MIN for name in NAMES])
    spread = np.array([SPREAD[name] for name in NAMES])

    def price(change: Floats) -> tuple[float, Floats]:
        weight = hand + np.where(free, change, 0.0)
        loss, slope = _loss(table, weight)
        return (
            loss + float(((weight - hand) ** 2 / (2 * spread**2)).sum()),
            np.where(free, slope + (weight - hand) / spread**2, 0.0),
        )

    found = minimize(price, np.zeros(len(NAMES)), jac=True, method="L-BFGS-B")
    weight = hand + np.where(free, found.x, 0.0)
    count = max(1, len(cases))
    return Fit(
        {name: float(round(each, 3)) for name, each in zip(NAMES, weight, strict=True)}, taught,
        -_loss(table, hand)[0] / count, -_loss(table, weight)[0] / count,
    )  # fmt: skip


def chances(part: PartWeighed, weights: Mapping[str, float]) -> tuple[list[float], float]:
    """Of each candidate of a part, and of `unknown`."""
    table = _table([[part]])
    logit_C = _logits(table, np.array([weights[name] for name in NAMES]))
    odds_C = np.exp(logit_C - logit_C.max())
    found = (odds_C / odds_C.sum()).tolist()
    return found[:-1], found[-1]


def _teaches(case: Sequence[PartWeighed], place: int) -> bool:
    """Whether a right candidate has something of a group."""
    return any(one.right and one.groups[place] for part in case for one in part.candidates)


def _table(cases: Sequence[Sequence[PartWeighed]]) -> _Table:
    parts = [part for case in cases for part in case]
    much, fixed, right, number = [], [], [], []
    for place, part in enumerate(parts):
        known = any(one.right for one in part.candidates)
        for one in part.candidates:
            much.append((*one.groups, 0.0))
            fixed.append(one.fixed)
            right.append(one.right)
            number.append(place)
        much.append((*(0.0 for _ in GROUPS), 1.0))
        fixed.append(0.0)
        right.append(not known)
        number.append(place)
    return _Table(
        np.array(much, np.float64).reshape(-1, len(NAMES)), np.array(fixed), np.array(right, bool),
        np.array(number, np.int64), np.array([part.share for part in parts]),
    )  # fmt: skip


def _logits(table: _Table, weight: Floats) -> Floats:
    found: Floats = table.much_CG @ weight + table.fixed_C
    return found


def _loss(table: _Table, weight: Floats) -> tuple[float, Floats]:
    """Minus the log-likelihood, and its slope by weight."""
    if not len(table.share_P):
        return 0.0, np.zeros(len(NAMES))
    logit_C, part_C, parts = _logits(table, weight), table.part_C, len(table.share_P)
    top_P = np.full(parts, -np.inf)
    np.maximum.at(top_P, part_C, logit_C)
    odds_C = np.exp(logit_C - top_P[part_C])
    all_P = np.bincount(part_C, odds_C, parts)
    right_P = np.maximum(np.bincount(part_C, odds_C * table.right_C, parts), 1e-300)
    chance_C, of_right_C = odds_C / all_P[part_C], odds_C * table.right_C / right_P[part_C]
    loss = -float((table.share_P * np.log(right_P / all_P)).sum())
    slope: Floats = ((chance_C - of_right_C) * table.share_P[part_C]) @ table.much_CG
    return loss, slope
