"""Flows that change their path: two paths one after the other, told apart from errors and from spraying.

Axes: F = flow, X = flow with samples off its likeliest path, D = direction of a link.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.path.infer import ERROR, Ends, Evidence, Fabric, Paths, Posterior, fitting, posterior
from leadline.analysis.path.infer_kernels import HOPS_MAX

CHANCE_MAX = 1e-3  # that samples of two paths at one time lie in this order by chance
CLEAR_MIN = 2  # samples of either path, for a move that needs no further evidence
OVERLAP_NS = 10**9  # switches export samples with a delay of up to about a second
OVERLAP_SHARE = 0.1  # of the time between the first and the last sample
REST_MAX = 0.05  # share of samples that may fit neither of two paths
MOVED_PRIOR = (0.01, 10.0)  # share of flows that move before any is seen to: so many of so many
BLAME_MAX = 0.95  # that a link is down which flows left, and nothing crosses since
EXPLAINED_MAX = 500  # links that explain moves
SPRAYED_MANY = 0.05  # share of sprayed flows from which on a move is held against spraying
FAR_NS = 2**62


@dataclass(frozen=True)
class Two:
    """A first and a second path of each flow, arrays over F; (F, H) paths; groups of only one of them, over G."""

    path_FH: Paths
    other_FH: Paths
    has_F: Bools  # there is a second path
    first_n_F: Floats  # samples that fit the first one only
    other_n_F: Floats
    rest_n_F: Floats
    total_F: Floats
    later_F: Bools  # the second path is the later one
    apart_F: Bools  # one comes after the other
    first_ns_F: Ints  # first sample of the later one
    chance_F: Floats  # log of the chance of that order if both are at one time
    first_G: Bools
    other_G: Bools

    @property
    def clear_F(self) -> Bools:
        """Flows that moved beyond doubt."""
        found: Bools = (
            self.has_F
            & self.apart_F
            & (self.chance_F < np.log(CHANCE_MAX))
            & (self.rest_n_F <= REST_MAX * self.total_F)
            & (np.minimum(self.first_n_F, self.other_n_F) >= CLEAR_MIN)
        )
        return found

    def old_G(self, flow_G: Ints, moved_F: Bools) -> Bools:
        """Groups of the earlier path only, of the flows that moved."""
        found: Bools = np.where(self.later_F[flow_G], self.first_G, self.other_G) & moved_F[flow_G]
        return found


def two_paths(
    plan: Fabric, at: Ends, evidence: Evidence, first: Posterior, times_G: tuple[Ints, Ints], flows: int
) -> Two:
    """The second path of flows that the likeliest one leaves samples over."""
    from scipy.special import gammaln  # here: it takes half a second to load, which a server need not wait for

    path_FH = by_flow(first, flows)
    fits_G = fitting(evidence, plan.topology, path_FH)
    n_G = evidence.samples_G
    off_F = counted(evidence.flow_G, np.where(fits_G, 0, n_G), flows)
    some = first.flow_X[off_F[first.flow_X] > 0]
    other = posterior(plan, at, evidence, some, np.where(fits_G, 0, n_G), silence=False)
    other_FH = by_flow(other, flows)
    second_G = fitting(evidence, plan.topology, other_FH)
    has_F = np.zeros(flows, bool)
    has_F[other.flow_X[other.ok_X]] = True
    one_G, two_G = fits_G & ~second_G & has_F[evidence.flow_G], second_G & ~fits_G
    n_one, n_two, n_rest = (
        counted(evidence.flow_G, np.where(only, n_G, 0), flows) for only in (one_G, two_G, ~fits_G & ~second_G)
    )
    (one_begin, one_end), (two_begin, two_end) = (
        _span(evidence.flow_G[only], times_G, only, flows) for only in (one_G, two_G)
    )
    lasts = np.maximum(one_end, two_end) - np.minimum(one_begin, two_begin)
    slack = np.minimum(OVERLAP_NS, (OVERLAP_SHARE * lasts).astype(np.int64))
    both = (n_one > 0) & (n_two > 0)
    later_F = both & (two_begin > one_end - slack)
    sooner_F = both & (one_begin > two_end - slack)
    return Two(
        path_FH=path_FH,
        other_FH=other_FH,
        has_F=has_F,
        first_n_F=n_one,
        other_n_F=n_two,
        rest_n_F=n_rest,
        total_F=counted(evidence.flow_G, n_G, flows),
        later_F=later_F,
        apart_F=later_F | sooner_F,
        first_ns_F=np.where(later_F, two_begin, one_begin),
        chance_F=np.log(2) + gammaln(n_one + 1) + gammaln(n_two + 1) - gammaln(n_one + n_two + 1),
        first_G=one_G,
        other_G=two_G,
    )


def moved_probability(two: Two, post: Posterior, sprayed_share_X: Floats) -> Floats:
    """That each flow moved, (X,): against errors on one path, and against spraying. 1 where it is beyond doubt.

    Inputs: the posterior of one path; the share of sprayed flows among flows of its kind. How common moves are is
    learnt from those beyond doubt; where flows are sprayed none is, for some look like it by chance.
    """
    from scipy.special import logsumexp  # as above

    x = post.flow_X
    clear = two.clear_F[x] & (sprayed_share_X < SPRAYED_MANY)
    seen, of = MOVED_PRIOR
    share = min((float(clear.sum()) + seen) / (len(x) + of), 0.5)
    gain = -np.log(ERROR)
    maybe = two.has_F[x] & two.apart_F[x] & (two.rest_n_F[x] <= REST_MAX * two.total_F[x])
    routes = np.log(np.maximum(post.routes_X, 1.0))
    steady = np.log1p(-share) + np.log1p(-sprayed_share_X) + post.single_X + two.chance_F[x]
    # Its likelihood is that of the samples in their order already.
    sprayed = np.log(sprayed_share_X) + post.sprayed_X
    moved = np.log(share) + post.single_X + two.other_n_F[x] * gain - routes - np.log1p(two.total_F[x])
    found: Floats = np.exp(moved - logsumexp(np.vstack((steady, sprayed, moved)), axis=0))
    return np.where(clear, 1.0, np.where(maybe, found, 0.0))


def still_there(
    two: Two, moved_F: Bools, steady: Posterior, evidence: Evidence, times_G: tuple[Ints, Ints], directions: int
) -> Floats:
    """That flows that do not move are still where they were seen last, (X,) of `steady`.

    A link that flows left while nothing crossed it since may be down: what was seen on it before that has left it, too,
    though it be seen elsewhere since, on links that its old and its new path may have in common. And where some flows
    moved, others may have that are not seen since, unless all their links carry others.
    """
    keep_X = np.ones(len(steady.flow_X))
    f = np.flatnonzero(moved_F)
    if not len(f):
        return keep_X
    old_FH = np.where(two.later_F[f][:, None], two.path_FH[f], two.other_FH[f])
    new_FH = np.where(two.later_F[f][:, None], two.other_FH[f], two.path_FH[f])
    gone = (old_FH >= 0) & ~(old_FH[:, :, None] == new_FH[:, None, :]).any(axis=2)
    row, hop = np.nonzero(gone)
    left = old_FH[row, hop].astype(np.int64)
    when_D = np.full(directions, FAR_NS)
    np.minimum.at(when_D, left, two.first_ns_F[f][row])
    of_X, hop = np.nonzero(steady.path_XH >= 0)
    direction = steady.path_XH[of_X, hop].astype(np.int64)
    last_ns = last_named(evidence, times_G, directions, steady.flow_X[of_X], direction)
    alive_D = np.bincount(direction[last_ns >= when_D[direction]], minlength=directions) > 0
    blame_D = _blamed(row[~alive_D[left]], left[~alive_D[left]], directions)
    doubtful = (last_ns < when_D[direction]) & (blame_D[direction] > 0)
    np.minimum.at(keep_X, of_X[doubtful], 1 - blame_D[direction[doubtful]])
    when_ns = int(np.sort(two.first_ns_F[f])[len(f) // 2])
    used_D = np.bincount(direction[last_ns >= when_ns], minlength=directions) > 0
    idle_X = np.zeros(len(keep_X), bool)
    idle_X[of_X[~used_D[direction]]] = True
    last_ns_F = last_seen(evidence, times_G, len(moved_F))
    keep_X[idle_X & (last_ns_F[steady.flow_X] < when_ns)] *= 1 - len(f) / (len(f) + len(keep_X))
    return keep_X


def _blamed(flow_L: Ints, direction_L: Ints, directions: int) -> Floats:
    """That each direction is one that flows had to leave, (D,).

    Inputs: which flow left which directions, over L. The direction that most flows left explains them; what is left of
    the others is explained in turn, and where several explain as much they share the blame.
    """
    blame_D = np.zeros(directions)
    open_L = np.ones(len(flow_L), bool)
    for _ in range(EXPLAINED_MAX):
        count_D = np.bincount(direction_L[open_L], minlength=directions)
        most = int(count_D.max(initial=0))
        if most < 2:
            break
        best = int(count_D.argmax())
        same = np.flatnonzero(count_D == most)
        theirs = flow_L[open_L & (direction_L == best)]
        explained = np.isin(flow_L, theirs)
        # Those that the very same flows left cannot be told apart from it.
        rivals = [d for d in same.tolist() if np.isin(flow_L[open_L & (direction_L == d)], theirs).all()]
        blame_D[rivals] = np.maximum(blame_D[rivals], BLAME_MAX / len(rivals))
        open_L &= ~explained
    of_flow = np.bincount(flow_L[open_L], minlength=int(flow_L.max(initial=0)) + 1)
    np.maximum.at(blame_D, direction_L[open_L], BLAME_MAX / np.maximum(of_flow[flow_L[open_L]], 1))
    return blame_D


def by_flow(post: Posterior, flows: int) -> Paths:
    """Likeliest paths as (F, H), -1 for flows that have none."""
    path_FH = np.full((flows, HOPS_MAX), -1, np.int32)
    path_FH[post.flow_X] = post.path_XH
    return path_FH


def counted(flow_G: Ints, count_G: Ints, flows: int) -> Floats:
    """Sum of counts by flow."""
    found: Floats = np.bincount(flow_G, count_G.astype(np.float64), flows).astype(np.float64)
    return found


def last_seen(evidence: Evidence, times_G: tuple[Ints, Ints], flows: int) -> Ints:
    """Time of the last sample of each flow, ns."""
    last = np.full(flows, -FAR_NS)
    np.maximum.at(last, evidence.flow_G, times_G[1])
    return last


def last_named(
    evidence: Evidence, times_G: tuple[Ints, Ints], directions: int, flow_N: Ints, direction_N: Ints
) -> Ints:
    """Time of the last sample of each flow that names a direction of a link, (N,) ns; -FAR_NS if none does."""
    way_G2 = np.column_stack((evidence.in_G, evidence.out_G))
    g, _ = np.nonzero(way_G2 >= 0)
    key, place = np.unique(evidence.flow_G[g] * directions + way_G2[way_G2 >= 0], return_inverse=True)
    last = np.full(len(key) + 1, -FAR_NS)  # the last: no such sample
    np.maximum.at(last, place, times_G[1][g])
    wanted_N = flow_N * directions + direction_N
    at_N = np.searchsorted(key, wanted_N)
    found: Ints = last[np.where(np.append(key, -1)[at_N] == wanted_N, at_N, len(key))]
    return found


def _span(flow_G: Ints, times_G: tuple[Ints, Ints], only: Bools, flows: int) -> tuple[Ints, Ints]:
    """First and last time of some groups of each flow, ns; (0, 0) where there are none."""
    first, last = np.full(flows, FAR_NS), np.full(flows, -FAR_NS)
    np.minimum.at(first, flow_G, times_G[0][only])
    np.maximum.at(last, flow_G, times_G[1][only])
    none = last < first
    return np.where(none, 0, first), np.where(none, 0, last)
