"""Queues that grow at once before two hosts: a second witness that they share a machine, and a weak one.

Hosts of one machine share its network card, so what waits for one delays what comes to the other. Hosts under one leaf
that serve one job queue together as well, so what it says is bounded, and it never confirms a pair by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Codes, Floats, Ints

SHARES_MOST = 0.3  # correlation that two hosts of one machine may be told to have at least
NATS_MAX = 3.0
COMMON_MAX = 0.7  # mean correlation of all pairs, above which nothing stands out
MOMENTS_MIN = 30


def queueing_odds(queue_HT: Floats, a_P: Ints, b_P: Ints) -> Floats:
    """Nats that queueing adds to the log odds of each pair, between -1 and 3, 0 where it cannot tell, (P,).

    Inputs: queueing before each host by moment (the median over the edges that enter it, ns; NaN: not known). By ranks,
    so that single long queues do not decide. What the correlation of most pairs is (a busy fleet's common rhythm) is
    taken for granted: only what is above it speaks. Source: Fisher's transformation of a rank correlation.
    """
    hosts, moments = queue_HT.shape
    if not len(a_P) or moments < MOMENTS_MIN or hosts < 3:
        return np.zeros(len(a_P))
    from scipy.special import log_ndtr  # here: it takes half a second to load, which a server need not wait for

    told_H = np.isfinite(queue_HT).all(axis=1) & (np.ptp(np.nan_to_num(queue_HT), axis=1) > 0)
    rank_HT = np.stack([_ranks(queue_T) for queue_T in np.nan_to_num(queue_HT)])
    rank_HT -= rank_HT.mean(axis=1, keepdims=True)
    rank_HT /= np.maximum(np.linalg.norm(rank_HT, axis=1, keepdims=True), 1e-12)
    common = rank_HT[told_H].sum(axis=0) if told_H.any() else np.zeros(moments)
    count = max(int(told_H.sum()), 2)
    usual = (float(common @ common) - count) / (count * (count - 1))  # mean correlation of all pairs
    if usual > COMMON_MAX:
        return np.zeros(len(a_P))
    usual = max(usual, 0.0)
    z_P = np.arctanh(np.clip(np.einsum("pt,pt->p", rank_HT[a_P], rank_HT[b_P]), -0.999, 0.999))
    sd = 1.06 / np.sqrt(moments - 3)
    shares = max(SHARES_MOST, usual + 0.2)
    at_least = log_ndtr((z_P - np.arctanh(shares)) / sd)  # that the correlation is at least so large
    apart = log_ndtr((np.arctanh(usual) - z_P) / sd)  # that so large a one comes of chance
    found: Floats = np.where(
        told_H[a_P] & told_H[b_P], np.clip(np.maximum(at_least, -1.0) - apart - 1, -1.0, NATS_MAX), 0
    )
    return found


def _ranks(value_T: Floats) -> Floats:
    """Ranks from 1 on, equal values their mean. (Of scipy only scipy.stats has it: 59 MB in each process.)"""
    _, place_T, count = np.unique(value_T, return_inverse=True, return_counts=True)
    found: Floats = (np.cumsum(count) - (count - 1) / 2)[place_T]
    return found


@dataclass(frozen=True, slots=True)
class Queues:
    """What waits before each host, by moment: (hosts, moments), ns; NaN: not known."""

    place: Mapping[str, int]
    queue_HT: Floats

    def odds(self, names: Sequence[str], a_P: Ints, b_P: Ints) -> Floats:
        """Nats that queueing adds to pairs of hosts, by their places in `names`, (P,). See `queueing_odds`."""
        at = np.array([self.place.get(name, -1) for name in names], np.int64)
        queue_HT = np.where((at >= 0)[:, None], self.queue_HT[at], np.nan) if len(self.place) else self.queue_HT
        return queueing_odds(queue_HT, a_P, b_P) if len(self.place) else np.zeros(len(a_P))


def queues_of(dst: Codes, end_N: Ints, queue_N: Ints) -> Queues:
    """Of rows of `delay`: the median over the edges that enter a host, of each window."""
    known = (queue_N >= 0) & (dst.code_N >= 0)
    end_T, moment_N = np.unique(end_N[known], return_inverse=True)
    cell_N = dst.code_N[known] * max(len(end_T), 1) + moment_N
    order = np.lexsort((queue_N[known], cell_N))
    first_C = np.flatnonzero(np.diff(cell_N[order], prepend=-1))
    count_C = np.diff(np.append(first_C, len(order)))
    queue_HT = np.full((len(dst.names), len(end_T)), np.nan)
    queue_HT.ravel()[cell_N[order][first_C]] = queue_N[known][order][first_C + count_C // 2]
    return Queues({name: place for place, name in enumerate(dst.names)}, queue_HT)
