"""From scores to spans: what is out now, since when, what goes on, and what is over.

Analyses keep no state: spans that earlier windows told are read back. One goes on while its stream is as far out as
half of what it was, or still scores; its begin stays, so that all windows write the same key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.anomaly.grid_kernels import onsets
from leadline.analysis.anomaly.kinds import Way
from leadline.analysis.anomaly.scores import GUARD, PAST, WITNESSES, Mask, Scored, Tier, normal_of
from leadline.analysis.anomaly.streams import Streams
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.spec import S

ALARMS_PER_ENTITY_DAY = 0.1
"""The budget of false alarms, and the one knob: all thresholds follow from it."""
_BINS_A_DAY = 86_400 / 5
_STREAMS = 10  # of an entity that go their own ways: hundreds are told of a host, most of which move with others


def threshold(alarms_per_entity_day: float) -> float:
    """Standard deviations of a normal distribution that the streams of an entity exceed so often in a day by chance."""
    return float(normal_of(-np.log(alarms_per_entity_day / _BINS_A_DAY / _STREAMS)))


ON = threshold(ALARMS_PER_ENTITY_DAY)
"""From here on a metric is out, 5.0. With two of three bins it keeps to the budget on quiet data, with a margin:
docs/analyses/anomaly.md has what was measured."""
ON_ALONE = ON + 2.0  # one bin is enough from here
OFF = 0.6 * ON
HALF = 0.5
GONE_NS = 60 * S
"""An open span is told again by each window. One that was not told for so long ended in one whose row is out of sight,
or nothing was judged since: in both cases it does not go on."""
NORMAL_AFTER_NS = 3600 * S  # what has been so for an hour is what it is now, not what is odd about it


@dataclass(frozen=True, slots=True)
class Span:
    """A row of `anomaly`."""

    tenant: str
    entity: str
    metric: str
    label: str | None
    witness: str
    start_ns: int
    earliest_ns: int
    end_ns: int | None
    bound_ns: int | None
    score: float
    direction: str
    expected: float
    seen: float
    reported_ns: int
    weight: float = 0.0  # its score now, for `share`

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What there is one open span of."""
        return self.tenant, self.entity, self.metric, self.witness


def known_spans(anomaly: pa.Table, from_ns: int, to_ns: int) -> list[Span]:
    """Spans that earlier windows told. What this window told when it was judged before, it tells anew."""
    found = []
    for row in anomaly.to_pylist():
        if row["reported_ns"] >= to_ns or row["seen_ns"] > to_ns or row["start_ns"] < from_ns:
            continue
        if not (np.isfinite(row["score"]) and np.isfinite(row["expected"]) and np.isfinite(row["seen"])):
            continue
        if row["witness"] not in WITNESSES or row["direction"] not in ("high", "low", "shape") or row["score"] <= 0:
            continue
        names = ("tenant", "entity", "metric", "label", "witness", "start_ns", "earliest_ns", "end_ns", "bound_ns",
                 "score", "direction", "expected", "seen", "reported_ns")  # fmt: skip
        end_ns = None if row["seen_ns"] == to_ns else row["end_ns"]  # this window may have ended it: it decides anew
        if end_ns is None and row["seen_ns"] < to_ns - GONE_NS:
            continue
        found.append(Span(**{name: row[name] for name in names} | {"end_ns": end_ns}))
    return sorted(found, key=lambda each: (each.key, each.start_ns))


def rows_by_name(streams: Streams) -> dict[tuple[str, str, str, str], int]:
    """The number of each stream, by tenant, entity, metric and label."""
    found: dict[tuple[str, str, str, str], int] = {}
    columns = (streams.entity_R.tolist(), streams.metric_R.tolist(), streams.label_R.tolist())
    for row, (entity, metric, label) in enumerate(zip(*columns, strict=True)):
        tenant, name = streams.entities.keys[entity]
        found.setdefault((tenant, name, streams.metrics[metric], streams.labels[label]), row)
    return found


def mask_of(spans: list[Span], row_of: dict[tuple[str, str, str, str], int], to_ns: int) -> Mask | None:
    """Bins that are no past: of streams that were odd beside their past."""
    told = [(row_of.get((each.tenant, each.entity, each.metric, each.label or "")), each) for each in spans]
    kept = [(row, each) for row, each in told if row is not None and each.witness == WITNESSES[PAST]]
    kept = [(row, each) for row, each in kept if to_ns - each.start_ns < NORMAL_AFTER_NS]
    if not kept:
        return None
    return Mask(
        np.array([row for row, _ in kept], np.int64),
        np.array([each.earliest_ns for _, each in kept], np.int64),
        np.array([to_ns - 1 if each.end_ns is None else each.end_ns for _, each in kept], np.int64),
    )


def spans_now(streams: Streams, scored: Scored, known: list[Span], to_ns: int) -> list[Span]:
    """All spans of which this window has something to say: new ones, open ones that go on, and those that end now."""
    row_of = {}
    if known:
        row_of = rows_by_name(streams)
    place_of = (
        {int(row): (tier, place) for tier in scored.tiers for place, row in enumerate(tier.row_K)} if known else {}
    )
    found: dict[tuple[str, str, str, str], Span] = {}
    for span in known:
        if span.end_ns is None:
            row = row_of.get((span.tenant, span.entity, span.metric, span.label or ""))
            found[span.key] = _continued(span, place_of.get(-1 if row is None else row), to_ns)
    for tier in scored.tiers:
        for witness in range(len(WITNESSES)):
            for span in _new(streams, scored, tier, witness, to_ns):
                old = found.get(span.key)
                if old is None:
                    found[span.key] = span
                elif old.end_ns is None and span.weight > old.weight:
                    found[span.key] = replace(old, weight=span.weight)
    return [found[key] for key in sorted(found)]


def _continued(span: Span, at: tuple[Tier, int] | None, to_ns: int) -> Span:
    """An open span, with what is seen of it now; with its end if nothing is."""
    if at is None:
        return replace(span, end_ns=max(span.start_ns, to_ns), weight=0.0)
    tier, place = at
    witness = WITNESSES.index(span.witness)
    sign = 1.0 if span.direction == "high" else -1.0
    score_B = tier.score_WKB[witness, place, :GUARD] * sign
    value_B = tier.grid_KB[place, :GUARD]
    expected_B = tier.expected_WKB[witness, place, :GUARD]
    far_B = (value_B - (span.expected if witness == PAST else expected_B)) * sign
    out_B = (score_B >= OFF) | (np.nan_to_num(far_B) >= HALF * abs(span.seen - span.expected))
    if witness == PAST and to_ns - span.start_ns >= NORMAL_AFTER_NS:
        out_B[:] = False
    if not out_B[:2].any():
        newest = int(np.argmax(out_B)) if out_B.any() else GUARD
        return replace(span, end_ns=max(span.start_ns, to_ns - newest * tier.width_ns))
    best = int(np.argmax(score_B))
    if score_B[best] > span.score:
        span = replace(span, score=float(score_B[best]), seen=float(value_B[best]), expected=float(expected_B[best]))
    return replace(span, weight=max(float(score_B[best]), OFF))


def _out(tier: Tier, witness: int, way_K: Ints, alike_K: Bools) -> tuple[Ints, Floats]:
    """Which streams are out now, and the sign. Loads come and go, so they must be out for three bins of four, or two of
    three where peers are alike: jobs end and begin on some hosts a little before others."""
    load_K = (way_K == Way.LOAD) & ~alike_K
    alike_K = alike_K & (way_K == Way.LOAD)
    score_KB = tier.score_WKB[witness, :, :GUARD]
    found_K = np.zeros(len(tier.row_K), np.float64)
    for sign in (1.0, -1.0):
        on_KB = score_KB * sign >= ON
        twice_K = (on_KB[:, :3].sum(axis=1) >= 2) & on_KB[:, :2].any(axis=1)
        lasts_K = (on_KB.sum(axis=1) >= 3) & on_KB[:, :2].any(axis=1)
        alone_K = (score_KB[:, 0] * sign >= ON_ALONE) | ((way_K >= Way.COUNT) & on_KB[:, :2].any(axis=1))
        found_K[np.where(load_K, lasts_K, np.where(alike_K, twice_K, twice_K | alone_K))] = sign
    place_O = np.flatnonzero(found_K)
    return place_O, found_K[place_O]


def _new(streams: Streams, scored: Scored, tier: Tier, witness: int, to_ns: int) -> list[Span]:
    """What is out now, one span for each entity and metric: of several streams the one that is furthest out."""
    way_M = np.array([*(kind.way for kind in streams.kinds), 0], np.int64)
    alike_M = np.array([*(kind.alike for kind in streams.kinds), False], bool)
    metric_K = streams.metric_R[tier.row_K]
    place_O, sign_O = _out(tier, witness, way_M[metric_K], alike_M[metric_K])
    if not len(place_O):
        return []
    score_OB = tier.score_WKB[witness, place_O] * sign_O[:, None]
    peak_O = np.argmax(score_OB[:, :GUARD], axis=1)
    row_O = tier.row_K[place_O]
    best_O = score_OB[np.arange(len(place_O)), peak_O]
    order = np.lexsort((row_O, -best_O, streams.metric_R[row_O], streams.entity_R[row_O]))
    first = np.ones(len(order), bool)
    pair = np.column_stack([streams.entity_R[row_O], streams.metric_R[row_O]])[order]
    first[1:] = (pair[1:] != pair[:-1]).any(axis=1)
    chosen = order[first]
    place_O, peak_O, row_O = place_O[chosen], peak_O[chosen], row_O[chosen]
    sign_O, best_O = sign_O[chosen], best_O[chosen]
    expected_O, seen_O = tier.expected_WKB[witness, place_O, peak_O], tier.grid_KB[place_O, peak_O]
    last_O = _first_out(score_OB[chosen] >= OFF)
    from_O, until_O = to_ns - (last_O + 1) * tier.width_ns - 1, to_ns - last_O * tier.width_ns - 1
    samples = streams.samples
    start_O, earliest_O = onsets(row_O, from_O - tier.width_ns, until_O, to_ns, expected_O, seen_O,
                                 samples.begin_R, samples.time_N, scored.since_N, scored.x_N)  # fmt: skip
    return [
        _span(streams, witness, int(row), float(sign), (float(best), float(expected), float(seen)),
              (int(start), int(earliest)), to_ns)
        for row, sign, best, expected, seen, start, earliest in zip(
            row_O, sign_O, best_O, expected_O, seen_O, start_O, earliest_O, strict=True
        )
    ]  # fmt: skip


def _first_out(out_OB: Bools) -> Ints:
    """How far back a stream has been out without two bins that were not, beginning with its newest bin that is."""
    rows, bins = out_OB.shape
    last_O = np.zeros(rows, np.int64)
    gap_O, going_O = np.zeros(rows, np.int64), np.ones(rows, bool)
    for b in range(bins):
        last_O = np.where(going_O & out_OB[:, b], b, last_O)
        gap_O = np.where(out_OB[:, b], 0, gap_O + 1)
        going_O &= (gap_O < 2) | (b < GUARD)
    return last_O


def _span(
    streams: Streams, witness: int, row: int, sign: float, sizes: tuple[float, float, float], times: tuple[int, int],
    to_ns: int,
) -> Span:  # fmt: skip
    tenant, entity = streams.entities.keys[int(streams.entity_R[row])]
    score, expected, seen = sizes
    start_ns, earliest_ns = times
    bound_ns = int(streams.bound_R[row])
    return Span(
        tenant, entity, streams.metrics[int(streams.metric_R[row])], streams.labels[int(streams.label_R[row])] or None,
        WITNESSES[witness], start_ns, min(earliest_ns, start_ns), None, bound_ns if bound_ns >= 0 else None, score,
        "high" if sign > 0 else "low", expected, seen, to_ns, score,
    )  # fmt: skip
