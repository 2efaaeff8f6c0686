"""Which component makes flows lose packets: the likelihood of what their senders counted, flow by flow.

Two ways to be broken, each with all its strengths:

- *some packets*: each packet over the component is lost with a probability q (a bad cable, dirty optics);
- *some flows*: all packets of some of the flows over it are lost (a wrong entry of a table, a blackhole).

Flows that do not cross it, or are not hit, lose packets at a rate that is learnt from them: if all flows suffer alike,
no component stands out. Source: 007 (Arzani et al., NSDI 2018, section 4: votes of bad flows, good ones as
counter-evidence), as a likelihood over paths that are uncertain, as Flock (Harsh et al., 2023) has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.localise.flows import Sent

LOSS_Q = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.99])  # probabilities that a packet is lost
SHARE_S = np.array([0.1, 0.3, 0.6, 0.95])  # shares of flows that are hit
STUCK_SURE, STUCK_NOT = np.log(0.9), np.log(0.01)
"""A flow that is hit sends again in vain; one that gets something through is hardly hit."""
TRIES_MAX = 3  # of one interval: they follow each other ever more slowly
CALM = (0.4, 20.0)
"""Intervals with loss, of so many, that are taken for granted before any is seen: bursts fill queues everywhere."""
WORTH = 0.5
"""Of what intervals of one flow tell: they follow each other, and are not independent."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What flows tell. Arrays over F."""

    rows_F: Floats  # intervals of late
    lossy_F: Floats  # of them, those in which something was lost
    some_FQ: Floats  # log likelihood of these intervals if each packet is lost with LOSS_Q
    tries_F: Floats  # what was sent since something got through, each time in vain; 1 if it gets through
    stuck_F: Floats  # the same; 0 if it gets through


def counts(sent: Sent, since_ns: int) -> Counts:
    """Sums of each flow. Intervals with loss count that ended after `since_ns`, those in vain as long as they last."""
    flows = len(sent.id_F)

    def summed(value_N: Floats | Bools | Ints) -> Floats:
        found: Floats = np.bincount(sent.flow_N, value_N.astype(np.float64), flows).astype(np.float64)
        return found

    late_N = sent.time_N > since_ns
    lossy_N = late_N & (sent.lost_N > 0)
    none_NQ = np.maximum(sent.packets_N, 1)[:, None] * np.log1p(-LOSS_Q)[None, :]  # log P(no packet is lost)
    some_NQ = np.where(lossy_N[:, None], np.log(-np.expm1(none_NQ)), none_NQ) * late_N[:, None]
    some_FQ = np.stack([summed(some_NQ[:, q]) for q in range(len(LOSS_Q))], axis=1)
    stuck_F = summed(np.where(in_vain(sent), np.minimum(sent.lost_N, TRIES_MAX), 0))
    return Counts(summed(late_N), summed(lossy_N), some_FQ, np.maximum(stuck_F, 1.0), stuck_F)


def in_vain(sent: Sent) -> Bools:
    """Intervals since which a flow got nothing through, (N,)."""
    through_F = np.full(len(sent.id_F), -(2**62), np.int64)
    passed_N = ~sent.stuck_N
    np.maximum.at(through_F, sent.flow_N[passed_N], sent.time_N[passed_N])
    found: Bools = sent.stuck_N & (sent.time_N > through_F[sent.flow_N])
    return found


def some_packets(found: Counts, cross_FC: Floats) -> Floats:
    """Log Bayes factor of each component against none, (C,), if it loses some of all packets."""
    from scipy.special import logsumexp  # here: it takes half a second to load, which a server need not wait for

    null, calm_FC = _calm(found.lossy_F, found.rows_F, found.lossy_F, found.rows_F, cross_FC)
    gain_CQ = np.zeros((cross_FC.shape[1], len(LOSS_Q)))
    for q in range(len(LOSS_Q)):
        gain_CQ[:, q] = _mixed(cross_FC, found.some_FQ[:, q][:, None], calm_FC) - null
    whole: Floats = WORTH * (logsumexp(gain_CQ, axis=1) - np.log(len(LOSS_Q)))
    return whole


def some_flows(found: Counts, cross_FC: Floats) -> Floats:
    """The same, if it loses all packets of some flows; `cross_FC`: they or their acknowledgements cross it."""
    from scipy.special import logsumexp  # as above

    stuck_F, known_F = (found.stuck_F > 0).astype(np.float64), (found.tries_F > 0).astype(np.float64)
    null, calm_FC = _calm(found.stuck_F, found.tries_F, stuck_F, known_F, cross_FC)
    hit_F = found.stuck_F * STUCK_SURE + (found.tries_F - found.stuck_F) * STUCK_NOT
    gain_CS = np.zeros((cross_FC.shape[1], len(SHARE_S)))
    for s, share in enumerate(SHARE_S.tolist()):
        gain_CS[:, s] = _mixed(share * cross_FC, hit_F[:, None], calm_FC) - null
    whole: Floats = WORTH * (logsumexp(gain_CS, axis=1) - np.log(len(SHARE_S)))
    return whole


def _calm(bad_F: Floats, rows_F: Floats, one_F: Floats, of_F: Floats, cross_FC: Floats) -> tuple[float, Floats]:
    """Log likelihood of all flows if nothing is broken; of each flow if it is not hit, with the rate of the others.

    The rate is that of `one_F` among `of_F`, the likelihood is that of `bad_F` among `rows_F`.
    """
    off_FC = 1 - cross_FC
    rate_C = (one_F @ off_FC + CALM[0]) / (of_F @ off_FC + CALM[1])
    rate = (one_F.sum() + CALM[0]) / (of_F.sum() + CALM[1])
    null = float(bad_F.sum() * np.log(rate) + (rows_F - bad_F).sum() * np.log1p(-rate))
    calm_FC = bad_F[:, None] * np.log(rate_C) + (rows_F - bad_F)[:, None] * np.log1p(-rate_C)
    return null, calm_FC


def _mixed(hit_FC: Floats, hit: Floats, calm_FC: Floats) -> Floats:
    """Log likelihood of all flows where each is hit with a probability, (C,)."""
    with np.errstate(divide="ignore"):
        whole: Floats = np.logaddexp(np.log(hit_FC) + hit, np.log1p(-hit_FC) + calm_FC).sum(axis=0)
    return whole


def votes(bad_F: Bools, cross_FC: Floats) -> Floats:
    """Votes of the flows that lost (007): each has one, shared by what it crosses, (C,)."""
    hops_F = np.maximum(cross_FC.sum(axis=1), 1e-9)
    found: Floats = (bad_F[:, None] * cross_FC / hops_F[:, None]).sum(axis=0)
    return found
