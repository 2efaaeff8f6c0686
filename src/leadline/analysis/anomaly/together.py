"""Whose metrics are odd together, though none of them is out alone: one score for all of an entity's metrics.

    scores of each metric by both witnesses ── the lesser ──> deviations ── detector: fit, score ──> distance of all

The same detector as that of whole recordings (`detector.py`), on deviations instead of values: what is usual for a
metric is known here by its kind and its peers, and its floor is in it. Told as the metric `metrics.together` of the
entity, with the direction `shape`: `seen` is the distance in robust standard deviations, `label` names the metrics of
which it is made.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leadline.analysis.anomaly.detector import SAMPLES_MIN, Scores, fit, score
from leadline.analysis.anomaly.profile_rows import Profiles
from leadline.analysis.anomaly.scores import GUARD, Scored, Tier
from leadline.analysis.anomaly.spans import NORMAL_AFTER_NS, OFF, ON, Span
from leadline.analysis.anomaly.streams import Streams
from leadline.analysis.columns import Floats, Ints

METRIC = "metrics.together"
METRICS_MIN = 3  # two are each told alone
LASTS = 3  # bins of the newest four: as for loads, of which most metrics are
NAMED = 3  # metrics in the label
_VALUES_MAX = 1 << 22  # of features that are looked at at once: 32 MB


def together(
    streams: Streams, scored: Scored, told: list[Span], known: list[Span], profiles: Profiles, to_ns: int
) -> list[Span]:
    """Spans of entities whose metrics are odd together: those of `known` that go on or end, and new ones of entities of
    which nothing that lasts is `told`. Held against its profile where that knows it, else against the window."""
    open_of = {(span.tenant, span.entity): span for span in known if span.metric == METRIC and span.end_ns is None}
    alone = {(span.tenant, span.entity) for span in told if span.end_ns is None}
    found: dict[tuple[str, str], Span] = {}
    for tier in scored.tiers:
        wanted_E = np.array([key in open_of or key not in alone for key in streams.entities.keys], bool)
        open_E = np.array([key in open_of for key in streams.entities.keys], bool)
        known_E, by_profile = profiles.judged(streams, tier, wanted_E, open_E, ON)
        for entity, row_M, scores in by_profile + _judged(streams, tier, wanted_E & ~known_E):
            key = streams.entities.keys[entity]
            old = open_of.get(key)
            span = _span(streams, tier, key, row_M, scores, old, to_ns)
            if span is not None and (key not in found or span.weight > found[key].weight):
                found[key] = span
    for key, span in open_of.items():
        found.setdefault(key, replace(span, end_ns=max(span.start_ns, to_ns), weight=0.0))
    return [found[key] for key in sorted(found)]


def distances(deviation_EMB: Floats) -> Scores:
    """The score of E entities in the newest `GUARD` bins, newest last, beside the bins before them.

    Inputs: deviation (E, M, B), bin 0 is the newest. NaN without `SAMPLES_MIN` bins of past.
    """
    value_ETM = np.ascontiguousarray(deviation_EMB[:, :, ::-1].transpose(0, 2, 1))
    past_ETM, now_ENM = value_ETM[:, :-GUARD], value_ETM[:, -GUARD:]
    return score(fit(past_ETM, standard=True), now_ENM, past_ETM)


def _judged(streams: Streams, tier: Tier, wanted_E: np.ndarray) -> list[tuple[int, Ints, Scores]]:
    """(entity, its streams, its scores) of those in which it could come to something."""
    if tier.grid_KB.shape[1] < SAMPLES_MIN + GUARD:
        return []
    entity_K = streams.entity_R[tier.row_K]
    order_K = np.argsort(entity_K, kind="stable")
    entity_J, begin_J, count_J = np.unique(entity_K[order_K], return_index=True, return_counts=True)
    newest_KN = np.nan_to_num(tier.lesser_KB[order_K, :GUARD])
    far_JN = np.sqrt(np.add.reduceat(newest_KN**2, begin_J, axis=0)) if len(begin_J) else np.zeros((0, GUARD))
    # Distances are shrunk, so they cannot come to more than the deviations do: most entities end here.
    near_J = (far_JN >= OFF).sum(1) >= LASTS
    chosen = np.flatnonzero(near_J & (count_J >= METRICS_MIN) & wanted_E[entity_J])
    found: list[tuple[int, Ints, Scores]] = []
    for metrics in np.unique(count_J[chosen]).tolist():
        same = chosen[count_J[chosen] == metrics]
        at_once = max(1, _VALUES_MAX // (metrics * 2 * tier.grid_KB.shape[1]))
        for first in range(0, len(same), at_once):
            some = same[first : first + at_once]
            place_EM = order_K[begin_J[some][:, None] + np.arange(metrics)]
            scores = distances(tier.lesser_KB[place_EM])
            for place, which in enumerate(some.tolist()):
                one = Scores(scores.score[place], scores.share[place], scores.z[place], scores.expected[place])
                found.append((int(entity_J[which]), tier.row_K[place_EM[place]], one))
    return found


def _span(
    streams: Streams, tier: Tier, key: tuple[str, str], row_M: Ints, scores: Scores, old: Span | None, to_ns: int
) -> Span | None:
    far_B = scores.score[::-1]  # newest first, as grids are
    best = int(np.argmax(np.nan_to_num(far_B)))
    largest = float(far_B[best])
    if old is not None:
        if not (far_B[:2] >= OFF).any() or to_ns - old.start_ns >= NORMAL_AFTER_NS:
            return None
        higher = largest > old.score
        return replace(old, score=max(largest, old.score), seen=largest if higher else old.seen, weight=largest)
    on_B = far_B >= ON
    if on_B.sum() < LASTS or not on_B[:2].any():
        return None
    last = int(np.flatnonzero(on_B)[-1])
    start_ns = to_ns - (last + 1) * tier.width_ns
    return Span(key[0], key[1], METRIC, _named(streams, row_M, scores.share[GUARD - 1 - best]), "past", start_ns,
                start_ns - tier.width_ns, None, None, largest, "shape", 0.0, largest, to_ns, largest)  # fmt: skip


def _named(streams: Streams, row_M: Ints, share_M: Floats) -> str:
    """The metrics of which most of it is made, the largest part first."""
    of: dict[str, float] = {}
    for row, share in zip(row_M.tolist(), share_M.tolist(), strict=True):
        name = streams.metrics[int(streams.metric_R[row])]
        of[name] = of.get(name, 0.0) + share
    return ", ".join(sorted(of, key=lambda name: (-of[name], name))[:NAMED])
