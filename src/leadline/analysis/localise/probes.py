"""Which link, card, host or switch delays or loses probes: the second source of what `localise` says.

    queueing, loss by path --sparse non-negative least squares on the columns of `mesh_paths`--> classes of components

One component after another: that which explains most of what the others leave, if it is beyond chance among all
(Benjamini and Hochberg, 1995), and steady: more than one moment and a few paths show it. Strengths of all that were
chosen are fitted together, never negative. What the same paths cross is one class and told as such; so is what they
cross nearly, if its likelihood is. Source: orthogonal matching pursuit (Pati et al., 1993) with the likelihoods of
counts (loss) and of far-out values (queueing) for squares; loss adds up along a path as -log(1 - loss).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.localise.mesh_found import FOUND_MAX, LOSS, QUEUE, Found, prior
from leadline.analysis.localise.mesh_paths import Classes
from leadline.analysis.robust import MAD_TO_SIGMA

DISCOVERIES = 1e-3  # share of false ones among those told; where nothing is broken, how often anything is
PATHS_MIN = 3  # that show it, or all of its paths if they are fewer
ALIKE_SHOWN = 0.75  # of the paths that would show it if all were alike
SLOT_LOST_MAX = 2.0  # losses of one path in one slot that count: what is lost at once has one reason
ONCE_MIN, ONCE_CHANCE = 4.0, 1e-3
"""Losses in one moment, at least, and the chance that one so bad comes of what the third worst was."""
BACKGROUND = (1.0, 1e5)  # losses of so many probes, taken for granted before any is seen
RATES_X = np.geomspace(1e-4, 4.0, 16)  # -log(1 - loss)
LOSS_LEAST = 2e-4
QUEUE_LEAST_NS = 10_000.0  # what is less is load
QUEUE_SLOTS_MIN = 3  # moments over which a queue stands
QUEUE_NOISE_NS = 100.0
TAIL = 3.0  # standard deviations beyond which residuals count by their size, not its square
ALIKE_MIN = 0.1  # of the likeliest: cannot be told apart from it


def lossy(told: Classes, sent_PT: Floats, lost_PT: Floats, *, discoveries: float = DISCOVERIES) -> list[Found]:
    """What loses probes, the worst first.

    Inputs: probes sent and lost by path and slot (a second), (P, T). Loss while an end is stalled (`stalled`) is left
    out by the caller: `sent` and `lost` of 0.
    """
    count_PT = np.minimum(lost_PT, SLOT_LOST_MAX)
    once_PT = _once(told, count_PT)
    sent_P, all_P, count_P = (np.where(once_PT, 0.0, each).sum(axis=1) for each in (sent_PT, lost_PT, count_PT))
    chosen: list[int] = []
    found: list[Found] = []
    prior_C = np.array([prior(members) for members in told.members_C])
    while len(chosen) < FOUND_MAX:
        clear_P = ~told.paths_of(chosen)
        # Of all other paths, those not left out that something not yet chosen makes bad: it then stands out less, by
        # its share of the traffic. (A mean without the worst paths is 0 where losses are rare.)
        wide_C, shown_C = _wide(told, np.where(clear_P, sent_P, 0.0), np.where(clear_P, count_P, 0.0))
        lost, sent = float(count_P[clear_P].sum()), float(sent_P[clear_P].sum())
        usual = max(lost / max(sent, 1.0), (lost + BACKGROUND[0]) / (sent + BACKGROUND[1]))
        known_P = _explained(told, chosen, sent_P, all_P)
        expected_P = sent_P * (usual + known_P)
        gain_CX = np.stack(
            [told.summed(_poisson_gain(count_P, expected_P, sent_P * rate)) for rate in RATES_X.tolist()], axis=1
        )
        gain_C, rate_C = gain_CX.max(axis=1), RATES_X[gain_CX.argmax(axis=1)]
        p_C = _chance(gain_C)
        may_C = wide_C & (rate_C >= LOSS_LEAST)
        may_C[chosen] = False
        best = _best(gain_C + prior_C, p_C, may_C, discoveries)
        if best is None:
            break
        chosen.append(best)
        one = _of(told, best, LOSS, np.where(may_C, gain_C + prior_C, -np.inf), float(shown_C[best]), chosen)
        on_P, calm_PT = told.paths_of([best]), np.where(once_PT, 0.0, sent_PT)
        by_slot_PT = _poisson_gain(
            np.where(once_PT, 0.0, count_PT)[on_P],
            calm_PT[on_P] * (usual + known_P[on_P, None]),
            calm_PT[on_P] * rate_C[best],
        )
        found.append(replace(one, since=_since(by_slot_PT.sum(axis=0))))
    return _with_amounts(told, chosen, found, _nnls(told, chosen, _log_loss(sent_P, all_P), sent_P), loss=True)


def queueing(
    told: Classes, queue_PT: Floats, *, least_ns: float = QUEUE_LEAST_NS, discoveries: float = DISCOVERIES
) -> list[Found]:
    """What delays probes, the worst first.

    Input: queueing by path and slot, ns (the median of its probes: one-way delay less its own smallest of late), by
    kernel stamps, NaN: none came, (P, T). A queue counts that stands in most slots.
    """
    seen_PT = np.isfinite(queue_PT)
    known_P = seen_PT.any(axis=1) & (told.hops_P > 0)
    queue_P, spread_P = np.zeros(len(queue_PT)), np.full(len(queue_PT), np.inf)
    if not known_P.any() or queue_PT.shape[1] < QUEUE_SLOTS_MIN:
        return []
    queue_P[known_P] = np.nanmedian(queue_PT[known_P], axis=1)
    apart = np.nanmedian(np.abs(queue_PT[known_P] - queue_P[known_P, None]), axis=1)
    spread_P[known_P] = 1.25 * MAD_TO_SIGMA * apart / np.sqrt(seen_PT[known_P].sum(axis=1))
    rest_P = queue_P - _usual(queue_P, told.hops_P, known_P)
    every = MAD_TO_SIGMA * float(np.median(np.abs(rest_P[known_P])))  # paths differ by load, too
    sd_P = np.sqrt(spread_P**2 + every**2 + QUEUE_NOISE_NS**2)
    prior_C = np.array([prior(members) for members in told.members_C])
    paths_C = told.summed(known_P.astype(np.float64))
    rate_X = np.geomspace(least_ns, max(2 * least_ns, 2 * float(queue_P.max())), 16)
    chosen: list[int] = []
    found: list[Found] = []
    amounts = np.zeros(0)
    while len(chosen) < FOUND_MAX:
        left_P = rest_P - (told.cross_PC[:, chosen] @ amounts if chosen else 0.0)
        before_P = np.where(known_P, _tailed(left_P / sd_P), 0.0)
        gain_CX = np.stack(
            [
                told.summed(np.where(known_P, before_P - _tailed((left_P - rate) / sd_P), 0.0))
                for rate in rate_X.tolist()
            ],
            axis=1,
        )
        gain_C = gain_CX.max(axis=1)
        shown_C = told.summed((known_P & (left_P > least_ns / 2)).astype(np.float64))
        p_C = _chance(gain_C)
        may_C = shown_C >= np.minimum(PATHS_MIN, np.maximum(paths_C, 1))
        may_C[chosen] = False
        best = _best(gain_C + prior_C, p_C, may_C, discoveries)
        if best is None:
            break
        chosen.append(best)
        one = _of(told, best, QUEUE, np.where(may_C, gain_C + prior_C, -np.inf), float(shown_C[best]), chosen)
        on_P = told.paths_of([best]) & known_P
        waits_PT = np.nan_to_num(queue_PT[on_P]) - (queue_P - left_P)[on_P, None] > least_ns / 2
        found.append(replace(one, since=_since(waits_PT.mean(axis=0) - 0.5)))
        amounts = _nnls(told, chosen, rest_P, np.where(known_P, sd_P**-2.0, 0.0))
    return [each for each in _with_amounts(told, chosen, found, amounts, loss=False) if each.amount >= least_ns]


# --- Parts ---------------------------------------------------------------------------------------------------------


def _once(told: Classes, count_PT: Floats) -> Bools:
    """Moments in which all that crosses a class lost far more than in others: a queue that overflowed, (P, T).

    They are left out of everything. What lasts shows in three moments alike, so it costs two seconds.
    """
    from scipy.special import pdtrc  # here: it takes half a second to load, which a server need not wait for

    by_CT = told.summed(count_PT)
    slots = by_CT.shape[1]
    third_C = np.partition(by_CT, slots - 3, axis=1)[:, slots - 3] if slots > 2 else np.zeros(len(by_CT))
    often_CT = (by_CT >= ONCE_MIN) & (pdtrc(by_CT - 1, third_C[:, None] + 1) < ONCE_CHANCE)
    found: Bools = told.cross_PC @ often_CT.astype(np.float64) > 0
    return found


def _wide(told: Classes, sent_P: Floats, count_P: Floats) -> tuple[Bools, Floats]:
    """Classes of whose paths enough lose, (C,), and how many do.

    At least a few, or all there are; and about as many as if all lost alike: where two or three lose all of it, they go
    another way than is thought, over something bad elsewhere.
    """
    paths_C, shown_C = (told.summed((value_P > 0).astype(np.float64)) for value_P in (sent_P, count_P))
    each_C = told.summed(count_P) / np.maximum(paths_C, 1.0)
    none_C = np.exp(-each_C)
    like_C = paths_C * (1 - none_C)  # occupancy: so many paths of equal chance have something
    sd_C = np.sqrt(np.maximum(paths_C * none_C * (1 - (1 + each_C) * none_C), 0.0))
    few_C = (paths_C == 0) | (shown_C < np.minimum(PATHS_MIN, np.maximum(paths_C, 1.0)))
    return ~few_C & (shown_C >= ALIKE_SHOWN * like_C - 2.5 * sd_C), shown_C


def _since(gain_T: Floats) -> int:
    """The slot from which on it speaks for it most."""
    return int(np.argmax(np.cumsum(gain_T[::-1])[::-1]))


def _best(score_C: Floats, p_C: Floats, may_C: Bools, discoveries: float) -> int | None:
    """The likeliest of those beyond chance among all classes; None if there is none."""
    order = np.argsort(np.where(may_C, p_C, 1.0), kind="stable")
    ranks = np.arange(1, len(order) + 1)
    passes = np.flatnonzero(np.where(may_C, p_C, 1.0)[order] <= discoveries * ranks / len(order))
    if not len(passes):
        return None
    beyond_C = np.zeros(len(order), bool)
    beyond_C[order[: passes[-1] + 1]] = True
    return int(np.argmax(np.where(beyond_C & may_C, score_C, -np.inf)))


def _of(told: Classes, best: int, kind: str, score_C: Floats, shown: float, chosen: Sequence[int]) -> Found:
    from scipy.special import softmax  # as above

    share_C = softmax(np.r_[score_C, 0.0])[:-1]
    alike = np.flatnonzero(share_C >= ALIKE_MIN * share_C[best])
    others = tuple(one for each in alike.tolist() if each not in chosen for one in told.members_C[each])
    paths = int(told.paths_of([best]).sum())
    return Found(told.members_C[best], others, kind, float(share_C[best]), 0.0, paths, int(shown), float(score_C[best]))


def _with_amounts(
    told: Classes, chosen: Sequence[int], found: Sequence[Found], amounts: Floats, *, loss: bool
) -> list[Found]:
    """What was found with its strength in the fit of all; what has none is explained by the others."""
    told_of = [
        replace(each, amount=float(-np.expm1(-amount) if loss else amount))
        for each, amount in zip(found, amounts.tolist(), strict=True)
        if amount > 0
    ]
    return sorted(told_of, key=lambda each: -each.odds)


def _nnls(told: Classes, chosen: Sequence[int], value_P: Floats, weight_P: Floats) -> Floats:
    """Strengths of the chosen classes, none negative, that fit all paths best."""
    if not chosen:
        return np.zeros(0)
    from scipy.optimize import nnls  # as above

    root_P = np.sqrt(weight_P)
    columns = told.cross_PC[:, list(chosen)].toarray() * root_P[:, None]
    found: Floats = nnls(columns, value_P * root_P)[0]
    return found


def _explained(told: Classes, chosen: Sequence[int], sent_P: Floats, lost_P: Floats) -> Floats:
    """-log(1 - loss) of each path that the chosen account for."""
    if not chosen:
        return np.zeros(len(sent_P))
    found: Floats = told.cross_PC[:, list(chosen)] @ _nnls(told, chosen, _log_loss(sent_P, lost_P), sent_P)
    return found


def _log_loss(sent_P: Floats, lost_P: Floats) -> Floats:
    """-log(1 - loss); of a path that lost all, as if half a probe had come."""
    share_P = np.minimum(lost_P, sent_P - 0.5) / np.maximum(sent_P, 1.0)
    found: Floats = -np.log1p(-np.maximum(share_P, 0.0))
    return found


def _chance(gain_C: Floats) -> Floats:
    """That chance gains so much: half of a chi-squared variable of one degree, as a strength is never negative."""
    from scipy.special import chdtrc  # as above

    found: Floats = 0.5 * chdtrc(1, 2 * np.maximum(gain_C, 0.0))
    return found


def _poisson_gain(count_P: Floats, expected_P: Floats, more_P: Floats) -> Floats:
    """Log likelihood of counts if more is expected, less that if not."""
    found: Floats = count_P * np.log1p(more_P / np.maximum(expected_P, 1e-12)) - more_P
    return found


def _usual(queue_P: Floats, hops_P: Ints, known_P: Bools) -> Floats:
    """Queueing of most paths of so many hops, (P,)."""
    out = np.zeros(len(queue_P))
    for hops in np.unique(hops_P[known_P]).tolist():
        mine = known_P & (hops_P == hops)
        out[mine] = np.median(queue_P[mine])
    return out


def _tailed(deviation: Floats) -> Floats:
    """Minus the log likelihood of a deviation: half its square, and by its size beyond `TAIL`. Source: Huber (1964)."""
    size = np.abs(deviation)
    found: Floats = np.where(size <= TAIL, 0.5 * size**2, TAIL * (size - 0.5 * TAIL))
    return found
