"""Profiles of all entities of a window: read from the rows of earlier windows, used, and written when it is their turn.

    rows of `profile` ── newest of each entity and bin width ──> Profiles ─┬─ judged: scores of the newest bins
                                                                           └─ learnt: rows with the bins since then

A profile is written each `EACH_NS`, the stalest first and a share of all in each window, so that no window has to learn
all of them. A window that is judged again reads the rows of the windows before it alone, and says the same.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.anomaly.detector import Scores
from leadline.analysis.anomaly.profile import (
    FACTORS,
    SCALES,
    Bins,
    Profile,
    begun,
    distances,
    learnt,
    matched,
    scales_of,
)
from leadline.analysis.anomaly.scores import GUARD, Scored, Tier
from leadline.analysis.anomaly.streams import Streams
from leadline.analysis.columns import Bools, Ints, codes, ints
from leadline.analysis.remembered import Remembered
from leadline.analysis.spec import S, Window
from leadline.model.ids import kind_of

PROFILE_NAMES = ("tenant", "entity", "end_ns", "bin_s", "since_ns", "bins", "jobs", "streams", "numbers")
EACH_NS = 90 * S
TURNS = 18  # windows in which all have had their turn
AT_ONCE_MIN = 64  # so few are no load
METRICS_MIN = 3  # two are each told alone
METRICS_MAX = 512
# Rows that are read once, though 18 windows have them. 5 KB each; a cluster of 256 hosts has 12,000. Source: bound.
KNOWN_MOST = 16_384
_VALUES_MAX = 1 << 19  # of bins that are looked at at once: 4 MB


@dataclass(frozen=True, slots=True)
class Kept:
    """A profile as its row has it."""

    tenant: str
    entity: str
    bin_ns: int
    since_ns: int
    end_ns: int
    jobs: tuple[str, ...]
    streams: str
    profile: Profile

    @property
    def key(self) -> tuple[str, str, int]:
        """What there is one profile of."""
        return self.tenant, self.entity, self.bin_ns


@dataclass(frozen=True, slots=True)
class Part:
    """The M streams of one entity in one tier, in the order of their names."""

    entity: int
    place_M: Ints  # into the tier
    streams: str

    def bins(self, tier: Tier) -> Bins:
        """What the window says of them."""
        return _bins(tier, self.place_M)


def _bins(tier: Tier, at_M: Ints) -> Bins:
    return Bins(tier.y_KB[at_M], tier.peers_KB[at_M], tier.floor_K[at_M], tier.side_K[at_M])


@dataclass(frozen=True, slots=True)
class Profiles:
    """What earlier windows wrote, by key, and which jobs each entity works for now."""

    kept: dict[tuple[str, str, int], Kept]
    jobs_E: list[tuple[str, ...]]
    to_ns: int
    _parts: dict[int, list[Part]] = field(default_factory=dict)  # by width of bins

    @classmethod
    def of(cls, rows: pa.Table, jobs_E: Sequence[frozenset[str]], to_ns: int) -> Profiles:
        """The newest profile of each entity that was written before the window that ends at `to_ns`."""
        kept = {each.key: each for each in _kept(rows, to_ns)}
        return cls(kept, [tuple(sorted(jobs)) for jobs in jobs_E], to_ns)

    def judged(
        self, streams: Streams, tier: Tier, wanted_E: Bools, all_of_E: Bools, least: float
    ) -> tuple[Bools, list[tuple[int, Ints, Scores]]]:
        """Which entities are known to their profile, (E,), and (entity, its streams, scores of its newest bins) of
        those of them that have a score of at least `least`, and of `all_of_E` whatever they have."""
        alike: dict[tuple[int, int], list[tuple[Part, Profile]]] = {}  # by their shape
        for part in self._of(streams, tier):
            kept = self._known(streams, tier, part)
            if kept is None or not kept.profile.knows or not wanted_E[part.entity]:
                continue
            profile = _matched(kept, part, tier)
            alike.setdefault((len(profile.centre_M), len(profile.own_F)), []).append((part, profile))
        known_E = np.zeros(len(wanted_E), bool)
        found: list[tuple[int, Ints, Scores]] = []
        for (metrics, _), some in alike.items():
            at_once = max(1, _VALUES_MAX // (metrics * tier.grid_KB.shape[1]))
            for first in range(0, len(some), at_once):
                parts, profiles = zip(*some[first : first + at_once], strict=True)
                place_EM = np.stack([part.place_M for part in parts])
                score_EN, share_ENM = distances(profiles, _bins(tier, place_EM.ravel()), GUARD)
                entity_E, nothing_NM = np.array([part.entity for part in parts]), np.zeros(share_ENM.shape[1:])
                known_E[entity_E] = True
                found += [
                    (
                        int(entity_E[at]),
                        tier.row_K[place_EM[at]],
                        Scores(score_EN[at], share_ENM[at], nothing_NM, nothing_NM),
                    )
                    for at in np.flatnonzero((score_EN >= least).any(axis=1) | all_of_E[entity_E]).tolist()
                ]
        return known_E, found

    def learnt(self, streams: Streams, scored: Scored) -> list[Kept]:
        """The profiles whose turn it is, with the bins since they were written."""
        due = [
            (-(2**62) if kept is None else kept.end_ns, *streams.entities.keys[part.entity], tier.width_ns, place, at)
            for place, tier in enumerate(scored.tiers)
            for at, part in enumerate(self._of(streams, tier))
            if (kept := self._known(streams, tier, part)) is None or self.to_ns - kept.end_ns >= EACH_NS
        ]
        at_once = max(AT_ONCE_MIN, -(-sum(map(len, self._parts.values())) // TURNS))
        chosen = sorted(due)[:at_once]
        tiers = scored.tiers
        told = [self._next(streams, tiers[place], self._of(streams, tiers[place])[at]) for *_, place, at in chosen]
        return [each for each in told if each is not None]

    def _next(self, streams: Streams, tier: Tier, part: Part) -> Kept | None:
        kept, seen = self._known(streams, tier, part), part.bins(tier)
        bins = tier.grid_KB.shape[1]
        scales = scales_of(bins, min(-(-EACH_NS // tier.width_ns), bins))
        since_ns = self.to_ns if kept is None else kept.since_ns
        if kept is None:
            profile = begun(seen, scales)
        else:
            most = bins - SCALES[scales - 1] + 1 if scales else bins
            newest = min(max((self.to_ns - kept.end_ns) // tier.width_ns, 1), most)
            profile = learnt(_matched(kept, part, tier), seen, newest)
        if profile is None or not _sound(profile):
            return None
        tenant, entity = streams.entities.keys[part.entity]
        jobs = self.jobs_E[part.entity]
        return Kept(tenant, entity, tier.width_ns, since_ns, self.to_ns, jobs, part.streams, profile)

    def _known(self, streams: Streams, tier: Tier, part: Part) -> Kept | None:
        """The profile of an entity, if it still does what it did when that was learnt."""
        kept = self.kept.get((*streams.entities.keys[part.entity], tier.width_ns))
        return kept if kept is not None and kept.jobs == self.jobs_E[part.entity] else None

    def _of(self, streams: Streams, tier: Tier) -> list[Part]:
        """The entities of a tier that have enough metrics."""
        if tier.width_ns not in self._parts:
            self._parts[tier.width_ns] = list(_parts(streams, tier))
        return self._parts[tier.width_ns]


def _parts(streams: Streams, tier: Tier) -> Iterator[Part]:
    metric_K, label_K = streams.metric_R[tier.row_K], streams.label_R[tier.row_K]
    metric_M, label_L = _ranks(streams.metrics), _ranks(streams.labels)
    entity_K = streams.entity_R[tier.row_K]
    order_K = np.lexsort((label_L[label_K], metric_M[metric_K], entity_K))
    entity_J, begin_J, count_J = np.unique(entity_K[order_K], return_index=True, return_counts=True)
    texts: dict[bytes, str] = {}  # entities of one kind have the same streams
    for entity, begin, count in zip(entity_J.tolist(), begin_J.tolist(), count_J.tolist(), strict=True):
        if not METRICS_MIN <= count <= METRICS_MAX:
            continue
        place_M = order_K[begin : begin + count]
        pair_M2 = np.column_stack([metric_K[place_M], label_K[place_M]])
        text = texts.get(pair_M2.tobytes())
        if text is None:
            named = [[streams.metrics[metric], streams.labels[label]] for metric, label in pair_M2.tolist()]
            text = texts[pair_M2.tobytes()] = json.dumps(named, separators=(",", ":"))
        yield Part(entity, place_M, text)


def _ranks(names: Sequence[str]) -> Ints:
    """The place of each in their order."""
    rank_N = np.zeros(len(names), np.int64)
    rank_N[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return rank_N


def _matched(kept: Kept, part: Part, tier: Tier) -> Profile:
    if kept.streams == part.streams:
        return kept.profile
    before = {tuple(each): place for place, each in enumerate(json.loads(kept.streams))}
    place_M = np.array([before.get(tuple(each), -1) for each in json.loads(part.streams)], np.int64)
    return matched(kept.profile, place_M, part.bins(tier))


def _sound(profile: Profile) -> bool:
    """Whether its numbers can be kept: small ones are in 16 bits."""
    small = (profile.moves_D, profile.own_F, profile.factor_FK)
    return bool(np.isfinite(profile.scale_M).all()) and all(np.abs(each).max(initial=0.0) < 6e4 for each in small)


_KNOWN: Remembered[Kept | None] = Remembered(KNOWN_MOST)

# --- rows -----------------------------------------------------------------------------------------------------------


def _kept(rows: pa.Table, to_ns: int) -> Iterator[Kept]:
    end_N = ints(rows, "end_ns")
    some = np.flatnonzero(end_N < to_ns)  # what this window told when it was judged before, it tells anew
    keys = [codes(rows, name).code_N[some] for name in ("tenant", "entity")] + [ints(rows, "bin_s")[some]]
    order = np.lexsort((end_N[some], *keys))
    last = np.ones(len(order), bool)
    last[:-1] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    for row in rows.take(pa.array(some[order[last]])).to_pylist():
        row["jobs"] = tuple(sorted(row["jobs"] or ()))
        kept = _KNOWN.of(tuple(row.values()), lambda told=row: _of_row(told))  # type: ignore[misc]
        if kept is not None:
            yield kept


def _of_row(row: dict[str, Any]) -> Kept | None:
    """None for a row that nobody can read: of a later version, say."""
    try:
        streams = json.loads(row["streams"]) if row["streams"] else []
        profile = unpacked(row["numbers"], len(streams), float(row["bins"]))
        names = all(
            isinstance(each, list) and len(each) == 2 and all(isinstance(n, str) for n in each) for each in streams
        )
    except (ValueError, TypeError):
        return None
    if profile is None or not names or row["bin_s"] <= 0:
        return None
    return Kept(row["tenant"], row["entity"], row["bin_s"] * S, row["since_ns"], row["end_ns"],
                row["jobs"], row["streams"], profile)  # fmt: skip


def packed(profile: Profile) -> str:
    """The numbers of a profile: those in units of their own as 64 bits, those in standard deviations as 16."""
    wide = np.concatenate([[profile.middle, profile.unit], profile.centre_M, profile.scale_M, profile.count_M])
    small = np.concatenate([profile.moves_D, profile.own_F, profile.factor_FK.ravel()])
    return b64encode(wide.astype("<f8").tobytes() + small.astype("<f2").tobytes()).decode()


def unpacked(text: str, metrics: int, bins: float) -> Profile | None:
    """The profile of so many metrics; None if that is not what the text holds. Errors: ValueError."""
    data = b64decode(text, validate=True)
    wide = 8 * (2 + 3 * metrics)
    more, odd = divmod(len(data) - wide, 2 * max(metrics, 1))
    # S scales: S moves, 1 + S features, and FACTORS numbers of each.
    scales, rest = divmod(more - 1 - FACTORS, 2 + FACTORS)
    if not metrics or odd or rest or not 0 <= scales <= len(SCALES):
        return None
    wide_N = np.frombuffer(data[:wide], "<f8").astype(np.float64)
    small_N = np.frombuffer(data[wide:], "<f2").astype(np.float64)
    per_metric = wide_N[2:].reshape(3, metrics)
    moves, features = metrics * scales, metrics * (1 + scales)
    moves_D, own_F, factor_N = np.split(small_N, [moves, moves + features])
    good = np.isfinite(per_metric).all() and np.isfinite(small_N).all() and (per_metric[1:] >= 0).all()
    if not good or (moves_D <= 0).any() or (own_F < 0).any():
        return None
    centre_M, scale_M, count_M = per_metric
    return Profile(bins, count_M, centre_M, scale_M, moves_D, own_F, factor_N.reshape(features, FACTORS),
                   float(wide_N[0]), float(wide_N[1]))  # fmt: skip


def profile_columns(told: Sequence[Kept], window: Window) -> dict[str, Any]:
    """The rows of some profiles."""
    return {
        "tenant": [each.tenant for each in told],
        "entity_kind": [kind_of(each.entity) for each in told],
        "entity": [each.entity for each in told],
        "end_ns": [each.end_ns for each in told],
        "window_ns": [window.window_ns] * len(told),
        "bin_s": [each.bin_ns // S for each in told],
        "since_ns": [each.since_ns for each in told],
        "bins": [round(each.profile.bins) for each in told],
        "jobs": [list(each.jobs) for each in told],
        "streams": [each.streams for each in told],
        "numbers": [packed(each.profile) for each in told],
    }


__all__ = ["PROFILE_NAMES", "Kept", "Profiles", "packed", "profile_columns", "unpacked"]
