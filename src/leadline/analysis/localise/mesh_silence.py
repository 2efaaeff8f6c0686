"""What says nothing: dead components, dead paths, hosts that stand still; and votes where paths are not known well."""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Floats
from leadline.analysis.localise.mesh_found import DEAD, FOUND_MAX, Found, prior
from leadline.analysis.localise.mesh_paths import Classes, Component

DEAD_PROBES_MIN = 8.0  # expected of a component in silence
STALL_LEAST_NS = 1_000_000.0  # between the kernel's stamp and the program's
STALL_TIMES = 20.0
NETWORK_NS = 10_000.0  # queueing by the kernel's stamps from which on the network is slow, too
VOTES_MIN = 3.0  # bad paths of a class


def dead(told: Classes, expected_P: Floats, heard_P: Floats) -> list[Found]:
    """What lets nothing through: of the last 100 ms, what was expected of each path, and what came, (P,).

    Components all of whose paths are silent, that with most silent paths first; what it covers is then explained.
    """
    silent_P = (expected_P > 0) & (heard_P == 0)
    alive_C = told.summed((heard_P > 0).astype(np.float64)) > 0
    found: list[Found] = []
    while silent_P.any() and len(found) < FOUND_MAX:
        covers_C = np.where(alive_C, 0.0, told.summed(silent_P.astype(np.float64)))
        expects_C = told.summed(np.where(silent_P, expected_P, 0.0))
        covers_C[expects_C < DEAD_PROBES_MIN] = 0.0
        most = float(covers_C.max(initial=0.0))
        if not most:
            break
        from scipy.special import softmax  # here: it takes half a second to load, which a server need not wait for

        alike = np.flatnonzero(covers_C == most)
        prior_A = np.array([prior(told.members_C[each]) for each in alike.tolist()])
        best = int(alike[int(np.argmax(prior_A))])
        share = softmax(prior_A)
        others = [int(each) for each in alike.tolist() if each != best]
        found.append(
            Found(
                told.members_C[best], tuple(one for each in others for one in told.members_C[each]), DEAD,
                float(share.max()), 1.0, int(told.paths_of([best]).sum()), int(most), float(expects_C[best]),
            )
        )  # fmt: skip
        silent_P = silent_P & ~told.paths_of([best])
    return found


def dead_paths(expected_P: Floats, heard_P: Floats, loss_P: Floats | float = 0.01, chance: float = 1e-6) -> Bools:
    """Paths that are dead by themselves: so long a silence comes of their loss with less than a chance, (P,)."""
    found: Bools = (heard_P == 0) & (expected_P * np.log(np.maximum(loss_P, 1e-3)) < np.log(chance))
    return found


def stalled(wait_HT: Floats, queue_HT: Floats, *, network_ns: float = NETWORK_NS) -> Bools:
    """Slots in which a host stood still: its program's stamps are late while the kernel's are not, (H, T).

    Inputs: the time between the kernel's stamp of what came in and the program's, and queueing of what came in by the
    kernel's stamps, ns: medians or higher quantiles over all of a host's edges, (H, T); NaN: not known, so not stalled.
    """
    known_HT = np.isfinite(wait_HT)
    usual_H = np.where(known_HT.any(axis=1), _median(wait_HT), 0.0)
    late_HT = np.nan_to_num(wait_HT) > np.maximum(STALL_LEAST_NS, STALL_TIMES * usual_H)[:, None]
    found: Bools = known_HT & late_HT & (np.nan_to_num(queue_HT) < np.maximum(network_ns, np.nan_to_num(wait_HT) / 10))
    return found


def voted(told: Classes, bad_P: Bools, seen_P: Bools, *, least: float = 0.5) -> list[tuple[Component, ...]]:
    """Where paths are not known well enough for likelihoods: votes, and peeling (007, Arzani et al., NSDI 2018).

    Each bad path has a vote, divided among what it crosses. The class with most is taken if at least `least` of its
    paths are bad, its paths are struck out, and so on.
    """
    cross_P = np.maximum(told.cross_PC.sum(axis=1), 1.0)
    left_P = bad_P & seen_P
    found: list[tuple[Component, ...]] = []
    while left_P.any() and len(found) < FOUND_MAX:
        votes_C = told.summed(left_P / cross_P)
        share_C = told.summed(left_P.astype(float)) / np.maximum(told.summed(seen_P.astype(float)), 1.0)
        shown_C = told.summed(left_P.astype(float))
        votes_C = np.where((share_C >= least) & (shown_C >= VOTES_MIN), votes_C * share_C, 0.0)
        best = int(np.argmax(votes_C))
        if votes_C[best] <= 0:
            break
        found.append(told.members_C[best])
        left_P = left_P & ~told.paths_of([best])
    return found


def _median(values_HT: Floats) -> Floats:
    some = np.isfinite(values_HT).any(axis=1)
    out = np.zeros(len(values_HT))
    out[some] = np.nanmedian(values_HT[some], axis=1)
    return out
