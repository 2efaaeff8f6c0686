"""What is concluded of each flow: one path, several as likely, a move, spraying, or nothing, and why.

one path for all samples? --misfits--> two paths, one after the other (moved)? or at one time (sprayed)?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.path.infer import ERROR, SURE, Ends, Evidence, Fabric, Paths, Posterior, fitting, posterior
from leadline.analysis.path.infer_kernels import ALTERNATIVES_MAX, HOPS_MAX, SPRAY, fits
from leadline.analysis.path.moves import REST_MAX, Two, moved_probability, still_there, two_paths
from leadline.analysis.path.trace import trace

KNOWN_MIN = 0.95
PROBABILITY_MAX = 1 - ERROR  # the fabric may be other than what is told of it
SPRAYED_PRIOR = (0.002, 1.0)  # share of sprayed flows before any is seen: so many of so many
EM_ROUNDS = 60
OFF_MIN = 0.5  # share of samples that fit no shortest path, for another path to be looked for
DETOUR_MAX = 0.98  # probability of a path that is not shortest
TRACED_MAX = 5000  # flows of one window that are followed link by link, about 0.1 ms each


class State(IntEnum):
    """States of a flow, as `flow_path.state` tells them."""

    UNKNOWN = 0
    KNOWN = 1
    AMBIGUOUS = 2
    MOVED = 3
    SPRAYED = 4
    LOOP = 5
    CONTRADICTED = 6

    @property
    def word(self) -> str:
        """As the tables have it."""
        return self.name.lower()


@dataclass(frozen=True)
class Told:
    """Paths that are told of flows. Arrays over A, by flow and number of the alternative."""

    flow_A: Ints
    number_A: Ints
    path_AH: Paths
    crossed_AH: Floats  # that the flow crossed the link there


@dataclass(frozen=True)
class Crossed:
    """Links that flows cross, with probabilities. Arrays over M."""

    flow_M: Ints
    direction_M: Ints
    probability_M: Floats


@dataclass(frozen=True)
class Judged:
    """Conclusions, arrays over F."""

    state_F: Ints
    probability_F: Floats
    alternatives_F: Ints
    sprayed_F: Floats  # that each packet takes its own way
    told: Told
    crossed: Crossed
    fits_G: Bools  # groups that lie on a path told
    moved_ns_F: Ints  # when it was first seen on its latest path, 0 where it did not move
    looped_F: Ints  # node that it passes twice, -1: none
    detour_F: Bools  # its path is longer than the shortest ones
    left_F: Bools  # it was last seen on a link that others left since


@dataclass
class _Found:
    """Conclusions in the making."""

    state_F: Ints
    probability_F: Floats
    alternatives_F: Ints
    sprayed_F: Floats
    moved_ns_F: Ints
    looped_F: Ints
    detour_F: Bools
    left_F: Bools
    told: list[Told]
    crossed: list[Crossed]


def judged(
    plan: Fabric, at: Ends, evidence: Evidence, class_F: Ints, from_ns: int, times_G: tuple[Ints, Ints]
) -> Judged:
    """Conclude on all flows.

    Inputs: fabric, ends and evidence; the class of traffic of each flow (what is sprayed is sprayed by class); the
    begin of the window; first and last time of each group.
    """
    flows = len(at.sources_F)
    found = _Found(
        np.zeros(flows, np.int64), np.zeros(flows), np.zeros(flows, np.int64), np.zeros(flows),
        np.zeros(flows, np.int64), np.full(flows, -1), np.zeros(flows, bool), np.zeros(flows, bool), [], [],
    )  # fmt: skip
    first = posterior(plan, at, evidence, np.flatnonzero(at.known_F))
    first = _only(first, first.ok_X)
    two = two_paths(plan, at, evidence, first, times_G, flows)
    first = replace(first, sprayed_X=_sprayed_likelihood(first, two))
    share_X, sprayed_X = sprayed_probability(first, class_F[first.flow_X], ~two.clear_F[first.flow_X])
    moved_F = np.zeros(flows)
    moved_F[first.flow_X] = moved_probability(two, first, share_X)
    is_moved_X = moved_F[first.flow_X] >= 0.5
    _moved(plan, at, evidence, two, moved_F, from_ns, found)
    is_sprayed_X = ~is_moved_X & (sprayed_X >= 0.5) & (first.routes_X > 1)
    total_X = two.total_F[first.flow_X]
    off_X = (total_X - first.on_graph_X > OFF_MIN * total_X) & ~is_moved_X
    found.sprayed_F[first.flow_X] = np.where(is_moved_X | off_X, 0.0, sprayed_X)
    _sprayed(plan, at, evidence, first.flow_X[is_sprayed_X & ~off_X], found)
    one = _only(first, ~is_moved_X & ~is_sprayed_X & ~off_X)
    there_X = still_there(two, moved_F >= 0.5, one, evidence, times_G, len(plan.topology.to_D))
    found.left_F[one.flow_X] = there_X < 1
    _single(one, there_X * (1 - np.where(two.later_F, moved_F, 0.0)[one.flow_X]), found)
    off = _only(first, off_X)
    found.state_F[off.flow_X] = State.CONTRADICTED
    _traced(plan, at, evidence, off, two, found)
    told = _joined(found.told)
    return Judged(
        found.state_F, found.probability_F, found.alternatives_F, found.sprayed_F, told, _crossed(found.crossed),
        _fit_any(plan, evidence, told, flows), found.moved_ns_F, found.looped_F, found.detour_F, found.left_F,
    )  # fmt: skip


def sprayed_probability(post: Posterior, class_X: Ints, learn_X: Bools) -> tuple[Floats, Floats]:
    """That the packets of each flow take their own ways: before its samples are looked at, and after, (X,) each.

    The share of sprayed flows of a class of traffic is what makes all its flows likeliest (expectation maximisation,
    Dempster et al. 1977): a flow with three samples is judged by what its kind does here. It is learnt from `learn_X`.
    """
    from scipy.special import expit  # here: it takes half a second to load, which a server need not wait for

    before, after = np.zeros(len(post.flow_X)), np.zeros(len(post.flow_X))
    odds_X = post.sprayed_X - post.single_X
    seen, of = SPRAYED_PRIOR
    for kind in np.unique(class_X).tolist():
        mine = np.flatnonzero(class_X == kind)
        telling = mine[learn_X[mine] & (post.routes_X[mine] > 1) & (post.on_graph_X[mine] > 0)]
        share = seen / of
        for _ in range(EM_ROUNDS):
            p = expit(np.clip(odds_X[telling] + np.log(share / (1 - share)), -700, 700))
            # A sum of floats in a fixed order: the posterior's, not that of the rows.
            share = min((float(p.sum()) + seen) / (len(telling) + of), 1 - 1e-4)
        before[mine] = share
        after[mine] = expit(np.clip(odds_X[mine] + np.log(share / (1 - share)), -700, 700))
    return before, after


def _sprayed_likelihood(post: Posterior, two: Two) -> Floats:
    """Log likelihood that packets take several paths at one time, (X,): all of them as likely, or few; half each.

    Few: each packet takes the path of an earlier one, drawn at random, or another one with the weight of one packet (a
    Dirichlet process; Blackwell and MacQueen 1973). Of the paths, the first two are counted, what is left is an error.
    """
    from scipy.special import gammaln  # as above

    x, gain = post.flow_X, -np.log(ERROR)
    other, rest = two.other_n_F[x], two.rest_n_F[x]
    mine = np.maximum(post.apart_X - other, 0.0)
    first_path = post.single_X + (other + rest) * gain
    routes = np.where(other > 0, np.log(np.maximum(post.routes_X, 1.0)), 0.0)
    drawn = gammaln(np.maximum(mine, 1)) + gammaln(np.maximum(other, 1)) - gammaln(mine + other + 1)
    few = first_path - routes + drawn - rest * gain
    found: Floats = np.logaddexp(post.sprayed_X, few) - np.log(2)
    return found


def _single(post: Posterior, there_X: Floats, found: _Found) -> None:
    """Flows on one path: known, or several paths as likely. `there_X`: that they are still where they were seen."""
    spray_X = found.sprayed_F[post.flow_X]
    p_X = there_X * ((1 - spray_X) * post.probability_X + spray_X / np.maximum(post.routes_X, 1))
    p_X = np.minimum(p_X, PROBABILITY_MAX)
    known_X = p_X >= KNOWN_MIN
    found.state_F[post.flow_X] = np.where(known_X, State.KNOWN, State.AMBIGUOUS)
    found.probability_F[post.flow_X] = p_X
    found.alternatives_F[post.flow_X] = np.maximum(post.alike_X, 1)
    _tell(post, p_X, found, ALTERNATIVES_MAX)


def _tell(post: Posterior, p_X: Floats, found: _Found, most: int, first: int = 0) -> None:
    """Paths and links of flows: where alternatives were looked for, those, else the likeliest path."""
    alone_X = np.ones(len(post.flow_X), bool)
    alone_X[post.flow_A] = False
    x = np.flatnonzero(alone_X)
    path = post.path_XH[x]
    sure = np.where(path >= 0, p_X[x][:, None], 0.0)
    found.told.append(Told(post.flow_X[x], np.full(len(x), first), path, sure))
    on = path >= 0
    found.crossed.append(Crossed(np.repeat(post.flow_X[x], on.sum(axis=1)), path[on].astype(np.int64), sure[on]))
    found.crossed.append(Crossed(post.flow_X[post.flow_M], post.direction_M, post.probability_M))
    columns = (post.path_AH[:, ::-1].T, -np.round(post.probability_A, 9)[None, :], post.flow_A[None, :])
    order = np.lexsort(np.concatenate(columns))
    flow_A, path_AH = post.flow_A[order], post.path_AH[order]
    number_A = np.arange(len(flow_A)) - np.searchsorted(flow_A, flow_A)
    kept = number_A < most
    flow_A, path_AH, number_A = flow_A[kept], path_AH[kept], number_A[kept]
    found.told.append(Told(post.flow_X[flow_A], first + number_A, path_AH, _marginals(post, flow_A, path_AH)))


def _marginals(post: Posterior, flow_A: Ints, path_AH: Paths) -> Floats:
    """Probability that the flow of each alternative crosses each of its links."""
    span = int(max(post.direction_M.max(initial=0), path_AH.max(initial=0))) + 1
    key_M = post.flow_M * span + post.direction_M
    order = np.argsort(key_M)
    wanted = flow_A[:, None] * span + np.maximum(path_AH, 0)
    at = np.minimum(np.searchsorted(key_M[order], wanted), max(len(order) - 1, 0))
    if not len(order):
        return np.zeros(path_AH.shape)
    hit = (key_M[order][at] == wanted) & (path_AH >= 0)
    found: Floats = np.where(hit, post.probability_M[order][at], 0.0)
    return found


def _sprayed(plan: Fabric, at: Ends, evidence: Evidence, flow_X: Ints, found: _Found) -> None:
    """Flows whose packets go different ways at one time: shares of the ways."""
    post = posterior(plan, at, evidence, flow_X, mode=SPRAY)
    found.state_F[post.flow_X] = State.SPRAYED
    found.probability_F[post.flow_X] = np.minimum(post.probability_X, PROBABILITY_MAX)
    found.alternatives_F[post.flow_X] = np.minimum(post.routes_X, 2**31).astype(np.int64)
    _tell(post, post.probability_X, found, ALTERNATIVES_MAX)


def _moved(
    plan: Fabric, at: Ends, evidence: Evidence, two: Two, probability_F: Floats, from_ns: int, found: _Found
) -> None:
    """Flows that changed their path: the latest one, from the samples that are not of the earlier one."""
    moved_F = probability_F >= 0.5
    old_G = two.old_G(evidence.flow_G, moved_F)
    latest = posterior(plan, at, evidence, np.flatnonzero(moved_F), np.where(old_G, 0, evidence.samples_G))
    x = latest.flow_X
    # That it is on the later path needs no move where that is the first, likelier one anyway.
    sure_X = np.where(two.later_F[x], probability_F[x], 1.0)
    p_X = np.minimum(latest.probability_X * sure_X, PROBABILITY_MAX)
    now_X = two.first_ns_F[x] >= from_ns  # else it had moved before the window began
    still_X = np.where(p_X >= KNOWN_MIN, State.KNOWN, State.AMBIGUOUS)
    found.state_F[x] = np.where(now_X & (p_X >= KNOWN_MIN), State.MOVED, still_X)
    found.probability_F[x] = p_X
    found.alternatives_F[x] = np.maximum(latest.alike_X, 1)
    found.moved_ns_F[x] = np.where(now_X, two.first_ns_F[x], 0)
    _tell(latest, p_X, found, ALTERNATIVES_MAX - 1)
    f = np.sort(x[now_X])
    old_FH = np.where(two.later_F[f][:, None], two.path_FH[f], two.other_FH[f])
    # What it crossed before: the last alternative.
    crossed = np.where(old_FH >= 0, PROBABILITY_MAX, 0.0)
    found.told.append(Told(f, np.full(len(f), ALTERNATIVES_MAX - 1), old_FH, crossed))


def _traced(plan: Fabric, at: Ends, evidence: Evidence, post: Posterior, two: Two, found: _Found) -> None:
    """Flows most of whose samples fit no shortest path: the links as they were seen, if they make a path."""
    for f in np.sort(post.flow_X)[:TRACED_MAX].tolist():
        seen = trace(evidence, plan.topology, at, f)
        path = np.full((1, HOPS_MAX), -1, np.int32)
        path[0, : len(seen.path)] = seen.path
        if seen.looped >= 0:
            found.state_F[f], found.looped_F[f] = State.LOOP, seen.looped
        if not seen.whole:
            continue
        share = _share_on(evidence, plan, f, path)
        detour = share >= 1 - REST_MAX
        # Each switch was seen, yet fewer samples speak for a detour than for a path that routing would choose.
        p = min(share, DETOUR_MAX) if detour else share * DETOUR_MAX
        found.state_F[f] = State.KNOWN if p >= KNOWN_MIN else State.CONTRADICTED
        found.detour_F[f] = detour
        found.probability_F[f], found.alternatives_F[f] = p, 1
        found.told.append(Told(np.array([f]), np.zeros(1, np.int64), path, np.where(path >= 0, p, 0.0)))
        directions = np.array(seen.path, np.int64)
        found.crossed.append(Crossed(np.full(len(directions), f), directions, np.full(len(directions), p)))


def _share_on(evidence: Evidence, plan: Fabric, f: int, path: Paths) -> float:
    """Share of a flow's samples that lie on a path."""
    g = slice(int(evidence.group_F[f]), int(evidence.group_F[f + 1]))
    one = np.array([0, g.stop - g.start])
    on = fits(one, evidence.node_G[g], evidence.in_G[g], evidence.out_G[g], path, plan.topology.to_D)
    samples = evidence.samples_G[g]
    return float(samples[on].sum() / max(samples.sum(), 1))


def _only(post: Posterior, mask_X: Bools) -> Posterior:
    """The part of a posterior that is about these flows."""
    place = np.cumsum(mask_X) - 1
    in_A, in_M = mask_X[post.flow_A], mask_X[post.flow_M]
    return Posterior(
        post.flow_X[mask_X], post.status_X[mask_X], post.path_XH[mask_X], post.probability_X[mask_X],
        post.single_X[mask_X], post.sprayed_X[mask_X], post.routes_X[mask_X], post.alike_X[mask_X],
        post.on_graph_X[mask_X], post.apart_X[mask_X], place[post.flow_A[in_A]], post.path_AH[in_A],
        post.probability_A[in_A], place[post.flow_M[in_M]], post.direction_M[in_M], post.probability_M[in_M],
    )  # fmt: skip


def _joined(parts: list[Told]) -> Told:
    """All paths told, by flow and alternative; the numbers of each flow's run from 0."""
    flow = np.concatenate([each.flow_A for each in parts])
    number = np.concatenate([each.number_A for each in parts])
    path = np.concatenate([each.path_AH for each in parts])
    crossed = np.concatenate([each.crossed_AH for each in parts])
    order = np.lexsort((number, flow))
    flow = flow[order]
    return Told(flow, np.arange(len(flow)) - np.searchsorted(flow, flow), path[order], crossed[order])


def _crossed(parts: list[Crossed]) -> Crossed:
    return Crossed(
        np.concatenate([each.flow_M for each in parts]),
        np.concatenate([each.direction_M for each in parts]),
        np.concatenate([each.probability_M for each in parts]),
    )


def _fit_any(plan: Fabric, evidence: Evidence, told: Told, flows: int) -> Bools:
    """Groups that lie on one of the paths told of their flow."""
    found = np.zeros(len(evidence.flow_G), bool)
    for number in range(int(told.number_A.max(initial=-1)) + 1):
        path_FH = np.full((flows, HOPS_MAX), -1, np.int32)
        mine = told.number_A == number
        path_FH[told.flow_A[mine]] = told.path_AH[mine]
        found |= fitting(evidence, plan.topology, path_FH)
    return found


__all__ = ["SURE", "Crossed", "Judged", "State", "Told", "judged", "sprayed_probability"]
