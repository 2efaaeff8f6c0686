"""Which late arrivals are more than the job's own scatter: somebody is always last, and now one, now another.

    rank that came last     2   0   3   1   0   3   2   1         each in its turn, by as much: the job's scatter
    by how much, ms         4   3   5   2   4   6   3   3         -> nobody is late

    rank that came last     2   1   1   1   0   1   1   1         one comes last more often than in its turn:
    by how much, ms         4   3   5   2   4   6   3   3            it is late, by however little
    rank that came last     2   0   3   1   0   3   2   1         or by far more than the others ever are
    by how much, ms         4   3  90   2   4   6   3   3

Peers at one collective are few, and tell little of how far the last of them strays; many collectives tell it well.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints

# So long before the window the job's scatter is looked for: some tens of steps of most jobs. Source: judgement.
BEFORE_NS = 60 * 10**9
# Arrivals of ranks in their turn from which there is a scatter; fewer are taken at their word. Source: judgement.
TIMES_MIN = 8
# Quantile of what ranks in their turn are late by: high, and below the pauses that the longest tenth may be. Source:
# recordings (docs/log.md, 2026-11-22).
QUANTILE = 0.9
# Times that quantile beyond which a single arrival is no chance: tails of the lab's healthy jobs end there. Source:
# recordings (docs/log.md, 2026-11-22).
RATIO = 2.0
# Standard deviations of the binomial distribution, beyond its turn, from which a rank comes last too often for chance:
# one in 740. Source: textbook: Shewhart (1931), three-sigma limits.
DEVIATIONS = 3.0


def beyond_scatter(late_O: Floats, rank_O: Ints, peers_O: Ints) -> Bools:
    """Of O last arrivals (O,): which are late by more than the ranks of this job are in turn.

    late_O: by how much each exceeds the median of its peers, ns, >= 0. peers_O: how many peers it had.
    """
    found_O = np.ones(len(late_O), np.bool_)
    if not len(late_O):
        return found_O
    _, which_O = np.unique(rank_O, return_inverse=True)
    which_O = which_O.ravel()
    turn_O = 1 / (np.maximum(peers_O, 1) + 1)  # by chance each of them is as likely the last
    expected, variance = float(turn_O.sum()), float((turn_O * (1 - turn_O)).sum())
    often_R = np.bincount(which_O) > expected + DEVIATIONS * np.sqrt(variance)
    in_turn = np.flatnonzero(~often_R[which_O])
    in_turn = in_turn[np.argsort(late_O[in_turn], kind="stable")]
    for which in np.unique(which_O[in_turn]).tolist() if len(in_turn) > TIMES_MIN else ():
        others = in_turn[which_O[in_turn] != which]  # not itself: whoever stalls now and then is no measure of it
        if len(others) >= TIMES_MIN:
            mine_O = which_O == which
            found_O[mine_O] = late_O[mine_O] > RATIO * late_O[others[int(QUANTILE * (len(others) - 1))]]
    return found_O
