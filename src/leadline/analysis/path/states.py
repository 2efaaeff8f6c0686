"""What is concluded of each flow: one path, several as likely, a move, spraying, or nothing, and why.

one path for all samples? --misfits--> two paths, one after the other (moved)? or at one time (sprayed)?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from scipy.special import expit, gammaln

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.path.infer import ERROR, SURE, Ends, Evidence, Fabric, Paths, Posterior, fitting, posterior
from leadline.analysis.path.infer_kernels import ALTERNATIVES_MAX, HOPS_MAX, SPRAY

KNOWN_MIN = 0.95
PROBABILITY_MAX = 1 - ERROR  # the fabric may be other than what is told of it
CHANCE_MAX = 1e-3  # that samples of two paths at one time lie in this order by chance
OVERLAP_NS = 10**9  # switches export samples with a delay of up to about a second
OVERLAP_SHARE = 0.1  # of the time between the first and the last sample
REST_MAX = 0.05  # share of samples that may fit neither of two paths
MOVED_MIN = 2  # samples off a path before anything else than errors is thought of
SPRAYED_PRIOR = (0.01, 10.0)  # share of sprayed flows before any is seen: so many of so many


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


@dataclass
class _Found:
    """Conclusions in the making."""

    state_F: Ints
    probability_F: Floats
    alternatives_F: Ints
    sprayed_F: Floats
    moved_ns_F: Ints
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
        np.zeros(flows, np.int64), [], [],
    )  # fmt: skip
    first = posterior(plan, at, evidence, np.flatnonzero(at.known_F))
    first = _only(first, first.ok_X)
    fits_G = fitting(evidence, plan.topology, _by_flow(first, flows))
    off_F = _counted(evidence.flow_G, np.where(fits_G, 0, evidence.samples_G), flows)
    moved_F = _moves(plan, at, evidence, first, fits_G, off_F, from_ns, times_G, found)
    rest = _only(first, ~moved_F[first.flow_X])
    sprayed_X = sprayed_probability(rest, class_F[rest.flow_X])
    found.sprayed_F[rest.flow_X] = sprayed_X
    is_sprayed_X = (sprayed_X >= 0.5) & (rest.routes_X > 1)
    _sprayed(plan, at, evidence, rest.flow_X[is_sprayed_X], found)
    _single(_only(rest, ~is_sprayed_X), found)
    told = _joined(found.told)
    return Judged(
        found.state_F, found.probability_F, found.alternatives_F, found.sprayed_F, told, _crossed(found.crossed),
        _fit_any(plan, evidence, told, flows), found.moved_ns_F,
    )  # fmt: skip


def sprayed_probability(post: Posterior, class_X: Ints) -> Floats:
    """That the packets of each flow take their own ways, (X,), by empirical Bayes.

    The share of sprayed flows of a class of traffic is what makes all its flows likeliest (expectation maximisation,
    Dempster et al. 1977): a flow with three samples is judged by what its kind does here.
    """
    out = np.zeros(len(post.flow_X))
    odds_X = post.sprayed_X - post.single_X
    for kind in np.unique(class_X).tolist():
        mine = np.flatnonzero((class_X == kind) & (post.routes_X > 1) & (post.on_graph_X > 0))
        seen, of = SPRAYED_PRIOR
        share = seen / of
        for _ in range(60):
            p = expit(np.clip(odds_X[mine] + np.log(share / (1 - share)), -700, 700))
            # Sums of floats in a fixed order: flows are sorted by the posterior, not by how rows came.
            share = min((float(p.sum()) + seen) / (len(mine) + of), 1 - 1e-4)
        out[mine] = expit(np.clip(odds_X[mine] + np.log(share / (1 - share)), -700, 700))
    return out


def _single(post: Posterior, found: _Found) -> None:
    """Flows on one path: known, or several paths as likely."""
    spray_X = found.sprayed_F[post.flow_X]
    p_X = np.minimum((1 - spray_X) * post.probability_X + spray_X / np.maximum(post.routes_X, 1), PROBABILITY_MAX)
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


def _moves(
    plan: Fabric,
    at: Ends,
    evidence: Evidence,
    first: Posterior,
    fits_G: Bools,
    off_F: Floats,
    from_ns: int,
    times_G: tuple[Ints, Ints],
    found: _Found,
) -> Bools:
    """Which flows changed their path, (F,); what they are on now is written to `found`.

    The samples that the likeliest path leaves over make a second path. If the samples of only one come before those of
    only the other, and would not by chance, the flow moved.
    """
    flows = len(off_F)
    moved_F = np.zeros(flows, bool)
    some = first.flow_X[off_F[first.flow_X] >= MOVED_MIN]
    if not len(some):
        return moved_F
    other = posterior(plan, at, evidence, some, np.where(fits_G, 0, evidence.samples_G), silence=False)
    second_G = fitting(evidence, plan.topology, _by_flow(other, flows))
    n_G = evidence.samples_G
    one_G, two_G = fits_G & ~second_G, second_G & ~fits_G
    count = [np.bincount(evidence.flow_G[only], n_G[only], flows) for only in (one_G, two_G, ~fits_G & ~second_G)]
    span = [_span(evidence.flow_G[only], times_G, only, flows) for only in (one_G, two_G)]
    lasts = np.maximum(span[0][1], span[1][1]) - np.minimum(span[0][0], span[1][0])
    slack = np.minimum(OVERLAP_NS, (OVERLAP_SHARE * lasts).astype(np.int64))
    after = span[1][0] > span[0][1] - slack  # the second path is the later one
    before = span[0][0] > span[1][1] - slack
    by_chance = np.log(2) + gammaln(count[0] + 1) + gammaln(count[1] + 1) - gammaln(count[0] + count[1] + 1)
    total = np.bincount(evidence.flow_G, n_G, flows)
    is_some = np.zeros(flows, bool)
    is_some[some] = True
    moved_F = is_some & (after | before) & (by_chance < np.log(CHANCE_MAX)) & (count[2] <= REST_MAX * total)
    moved_F &= (count[0] >= MOVED_MIN) & (count[1] >= MOVED_MIN)
    flow_X = np.flatnonzero(moved_F)
    old_G = np.where(after[evidence.flow_G], one_G, two_G) & moved_F[evidence.flow_G]
    latest = posterior(plan, at, evidence, flow_X, np.where(old_G, 0, n_G))
    new_ns = np.where(after, span[1][0], span[0][0])
    p_X = np.minimum(latest.probability_X, PROBABILITY_MAX)
    now_X = new_ns[latest.flow_X] >= from_ns  # else it had moved before the window began
    known_X = p_X >= KNOWN_MIN
    found.state_F[latest.flow_X] = np.where(now_X, State.MOVED, np.where(known_X, State.KNOWN, State.AMBIGUOUS))
    found.probability_F[latest.flow_X] = p_X
    found.alternatives_F[latest.flow_X] = np.maximum(latest.alike_X, 1)
    found.moved_ns_F[latest.flow_X] = np.where(now_X, new_ns[latest.flow_X], 0)
    _tell(latest, p_X, found, ALTERNATIVES_MAX - 1)
    gone = _only(replace(first), np.isin(first.flow_X, latest.flow_X[now_X]))
    _tell_earlier(gone, other, after, found)
    moved: Bools = moved_F
    return moved


def _tell_earlier(first: Posterior, other: Posterior, after_F: Bools, found: _Found) -> None:
    """The path before the move as the last alternative: what the flow crossed earlier in the window."""
    path_F = {int(f): path for f, path in zip(other.flow_X.tolist(), other.path_XH, strict=True)}
    for f, path in zip(first.flow_X.tolist(), first.path_XH, strict=True):
        old = path if after_F[f] else path_F[f]
        sure = np.where(old >= 0, PROBABILITY_MAX, 0.0)
        told = Told(np.array([f]), np.array([ALTERNATIVES_MAX - 1]), old[None, :], sure[None, :])
        found.told.append(told)


def _span(flow_G: Ints, times_G: tuple[Ints, Ints], only: Bools, flows: int) -> tuple[Ints, Ints]:
    """First and last time of some groups of each flow, ns; (0, 0) where there are none."""
    first, last = np.full(flows, 2**62), np.full(flows, -(2**62))
    np.minimum.at(first, flow_G, times_G[0][only])
    np.maximum.at(last, flow_G, times_G[1][only])
    none = last < first
    return np.where(none, 0, first), np.where(none, 0, last)


def _counted(flow_G: Ints, count_G: Ints, flows: int) -> Floats:
    """Sum of counts by flow."""
    found: Floats = np.bincount(flow_G, count_G.astype(np.float64), flows).astype(np.float64)
    return found


def _only(post: Posterior, mask_X: Bools) -> Posterior:
    """The part of a posterior that is about these flows."""
    place = np.cumsum(mask_X) - 1
    in_A, in_M = mask_X[post.flow_A], mask_X[post.flow_M]
    return Posterior(
        post.flow_X[mask_X], post.status_X[mask_X], post.path_XH[mask_X], post.probability_X[mask_X],
        post.single_X[mask_X], post.sprayed_X[mask_X], post.routes_X[mask_X], post.alike_X[mask_X],
        post.on_graph_X[mask_X], place[post.flow_A[in_A]], post.path_AH[in_A], post.probability_A[in_A],
        place[post.flow_M[in_M]], post.direction_M[in_M], post.probability_M[in_M],
    )  # fmt: skip


def _by_flow(post: Posterior, flows: int) -> Paths:
    path_FH = np.full((flows, HOPS_MAX), -1, np.int32)
    path_FH[post.flow_X] = post.path_XH
    return path_FH


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
