"""Which components explain a symptom: what each of them loses by itself, and how much of it can reach the symptom.

A caller waits for whom it calls, and fails if they fail. So a caller's loss contains its callees' losses, and what is
left is its own. Losses are in one currency that adds up along the calls: seconds lost or requests failed per interval.

    symptom <- A (8 s) <- B (7 s) <- C (6.5 s)      own: A 1, B 0.5, C 6.5: C explains 6.5 / 8 of the symptom
                 ^- D (30 s, beside the calls)      D can explain 8 at most: what passes is what A loses

Evidence must be there when the symptom is: what is explained is counted interval by interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Row = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Calls:
    """Who calls whom among N components: E calls, as places of the caller and of the callee. Cycles are allowed."""

    count: int
    caller_E: NDArray[np.int64]
    callee_E: NDArray[np.int64]

    @classmethod
    def of(cls, names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Calls:
        """From names. Calls of or by others than `names` are left out, and so are calls of oneself."""
        place = {name: each for each, name in enumerate(names)}
        known = [(place[a], place[b]) for a, b in dict.fromkeys(pairs) if a in place and b in place and a != b]
        ends = np.array(known, dtype=np.int64).reshape(-1, 2)
        return cls(len(names), ends[:, 0], ends[:, 1])

    def without_calls_of(self, callee: int) -> Calls:
        """The calls but those of one component."""
        kept_E = self.callee_E != callee
        return Calls(self.count, self.caller_E[kept_E], self.callee_E[kept_E])

    def reached(self, start: int) -> Flags:
        """Which components `start` reaches by calls, itself included: bool (N,)."""
        reached_N = np.zeros(self.count, dtype=bool)
        reached_N[start] = True
        for _ in range(self.count):
            further = self.callee_E[reached_N[self.caller_E] & ~reached_N[self.callee_E]]
            if not further.size:
                break
            reached_N[further] = True
        return reached_N

    def chain(self, start: int, end: int) -> list[int]:
        """Places from `start` to `end` along calls, both included, by as few calls as possible; empty: no path."""
        before = {start: start}
        edge = [start]
        while edge and end not in before:
            ends = [(at, int(n)) for at in edge for n in self.callee_E[self.caller_E == at]]
            edge = []
            for at, n in ends:
                if n not in before:
                    before[n] = at
                    edge.append(n)
        if end not in before:
            return []
        found = [end]
        while found[-1] != start:
            found.append(before[found[-1]])
        return found[::-1]


@dataclass(frozen=True, slots=True)
class Explained:
    """How much of a symptom N components explain: shares, 0 to 1."""

    share_N: Row  # by what the component loses by itself; of the symptom's own component: what nobody else explains
    fit_N: Row  # 1: loses as much as the symptom, and when it does; small: far less, far more, or at other times
    inferred_N: Flags  # nothing was measured of it: its share is what its callers cannot account for
    lost: float  # by the symptom, in the currency of the losses
    missing: tuple[int, ...]  # reachable components of which nothing is known
    target: int

    def ranked(self) -> list[int]:
        """Places of the components that explain some of it, the most first; what was measured before what is inferred.

        Of those that explain equally much, to a thousandth, the one that fits better goes first. Without the symptom's
        own component: that it loses is the symptom, and no witness of a cause.
        """
        share_N, inferred_N, fit_N = np.round(self.share_N, 3), self.inferred_N, self.fit_N
        order = sorted(range(len(share_N)), key=lambda n: (-share_N[n], inferred_N[n], -fit_N[n], n))
        return [n for n in order if self.share_N[n] > 0.0 and n != self.target]

    @property
    def most(self) -> float:
        """What the best candidate explains, in the currency of the losses: to hold against what is usual."""
        first = self.ranked()[:1]
        return self.lost * float(self.share_N[first[0]]) if first else 0.0


def explained(
    lost_TN: Matrix, symptom_T: Row, calls: Calls, target: int, *, silent_N: Flags | None = None
) -> Explained:
    """How much of the symptom at component `target` each component explains.

    Inputs: `lost_TN` float (T, N) >= 0, what every component lost in each of T intervals, NaN where unknown;
    `symptom_T` (T,) >= 0, what the symptom lost; `silent_N`: components known to have taken no part (nobody called
    them), of which nothing is inferred.
    Returns: `Explained`. A share is the sum over intervals of min(own loss, what passes up to the target, symptom),
    over the sum of the symptom. All 0 if the symptom lost nothing.
    Accuracy: a callee's loss is taken off each of its callers whole, since nobody knows how it is split among them: so
    a fault of a caller that happens together with one of its callee may be told too small, never too large; and of
    two that call each other neither is named. Who calls the target back is not excused by the symptom.
    Source: the traversal of Hardt et al., The PetShop Dataset, CLeaR 2024, section 4 (an anomaly whose callees are
    normal), on amounts instead of yes or no, so that a callee explains its caller in part.
    """
    symptom_T = np.nan_to_num(np.maximum(symptom_T, 0.0))
    lost = float(symptom_T.sum())
    reached_N = calls.reached(target)
    unknown_N = ~np.isfinite(lost_TN).any(axis=0) & reached_N
    unknown_N &= ~silent_N if silent_N is not None else True
    missing = tuple(int(n) for n in np.flatnonzero(unknown_N))
    if lost <= 0.0:
        nothing_N = np.zeros(calls.count)
        return Explained(nothing_N, nothing_N, unknown_N, 0.0, missing, target)
    own_TN = own_losses(lost_TN, calls.without_calls_of(target))
    reaching_TN = np.minimum(np.minimum(own_TN, passing(lost_TN, symptom_T, calls, target)), symptom_T[:, None])
    share_N = np.where(reached_N, reaching_TN.sum(axis=0) / lost, 0.0)
    fit_N = share_N * lost / np.maximum(own_TN, symptom_T[:, None]).sum(axis=0)
    return Explained(_inferred(share_N, unknown_N, calls, target), fit_N, unknown_N, lost, missing, target)


def own_losses(lost_TN: Matrix, calls: Calls) -> Matrix:
    """What components lose beyond what those whom they call lose: float (T, N) >= 0; unknown losses count as 0."""
    known_TN = np.nan_to_num(lost_TN)
    callees_TN = np.zeros_like(known_TN)
    np.add.at(callees_TN.T, calls.caller_E, known_TN.T[calls.callee_E])
    return np.maximum(known_TN - callees_TN, 0.0)


def passing(lost_TN: Matrix, symptom_T: Row, calls: Calls, target: int) -> Matrix:
    """How much of a loss can pass from each component up to `target`: float (T, N).

    It passes along the chain of callers whose least loss is largest (a widest path); who is unknown lets all pass.
    0 where the target is not reached. The target itself: `symptom_T`.
    """
    width_TN = np.where(np.isfinite(lost_TN), lost_TN, np.inf)
    best_TN = np.zeros_like(width_TN)
    best_TN[:, target] = symptom_T
    for _ in range(calls.count):
        through_TE = best_TN[:, calls.caller_E]
        wider_TN = best_TN.copy()
        np.maximum.at(wider_TN.T, calls.callee_E, through_TE.T)
        wider_TN[:, target] = symptom_T
        capped_TN = np.minimum(wider_TN, width_TN)
        capped_TN[:, target] = symptom_T
        if np.array_equal(capped_TN, best_TN):
            break
        best_TN = capped_TN
    return best_TN


def _inferred(share_N: Row, unknown_N: Flags, calls: Calls, target: int) -> Row:
    """Of an unknown callee: the share its caller cannot hand on, spread evenly over caller and unknown callees.

    Nothing is inferred from the target itself: the symptom is no evidence of its own cause.
    """
    out_N = share_N.copy()
    blind_E = unknown_N[calls.callee_E] & ~unknown_N[calls.caller_E] & (calls.caller_E != target)
    blind_N = np.bincount(calls.caller_E[blind_E], minlength=calls.count)
    for caller, callee in zip(calls.caller_E[blind_E], calls.callee_E[blind_E], strict=True):
        out_N[callee] = max(out_N[callee], share_N[caller] / (1 + blind_N[caller]))
    return out_N
