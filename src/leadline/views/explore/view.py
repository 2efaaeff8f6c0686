"""`GET /api/v1/explore`: one metric, all its streams that fit a filter, as lines by stream or by a label.

series ──> streams that fit, by tenant ──> metric_sample, one query ──> rates, groups, band, table
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from leadline.model.metric_words import is_state, metric_name, value_words
from leadline.model.names import entity_of
from leadline.model.tables.metrics import SERIES
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.entity.facts import called, host_in
from leadline.views.entity.streams import OWN_MAX, Stream, own_streams
from leadline.views.entity.values import Sampled, Span, Values, band, drawn, kept
from leadline.views.explore.matchers import conditions, matchers
from leadline.views.natural import natural
from leadline.views.near import near_names
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.samples import metric_unit

LINES_MAX = 40  # told, those with the largest values; the band is of all that were read
VALUES_MAX = 50  # of a label, told for filters
LABELS_MAX = 60
NAMES_NEAR = 20_000  # looked through for what somebody may have meant


class Rate(StrEnum):
    """Whether values are drawn as increases per second."""

    AUTO = "auto"  # counters are
    ON = "on"
    OFF = "off"


class Combine(StrEnum):
    """How the streams of a group become one line."""

    AUTO = "auto"  # rates are added, other values averaged
    SUM = "sum"
    MEAN = "mean"
    LARGEST = "largest"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. `by`: a label, `entity` or `host` whose values are the lines; empty: a line a stream."""

    name: str
    where: str = ""
    by: str = ""
    rate: Rate = Rate.AUTO
    combine: Combine = Combine.AUTO


def explore_answer(store: Store, asked: Asked, wanted: Wanted, from_ns: int, points: int = 300) -> dict[str, Any]:
    """What the end point says. Errors: UsageError for a filter that is none."""
    where, given = conditions(matchers(wanted.where))
    which = " AND ".join(["name = {metric:String}", *where])
    owner, found = own_streams(store, asked, which, metric=wanted.name, **given)
    total = len(found) if len(found) < OWN_MAX else _count(store, asked, wanted.name, where, given)
    counter = bool(found) and found[0].counter
    rate = counter if wanted.rate is Rate.AUTO else wanted.rate is Rate.ON
    span = Span.of(_begin(asked, found, from_ns), asked.at_ns, points)
    answer = {
        "schema": SCHEMA_VERSION, "metric": wanted.name, "title": metric_name(wanted.name),
        "unit": metric_unit(found[0].unit if found else "", wanted.name, rate), "type": "counter" if counter else "",
        "family": entity_of({**found[0].labels, "__name__": wanted.name}).family if found else "", "rate": rate,
        "combine": _combine(wanted, rate).value, "from_ns": span.from_ns, "to_ns": span.to_ns, "bin_ns": span.bin_ns,
        "t_ns": span.t_ns, "labels": labels(found), "lines": [], "lines_total": 0, "streams_total": total,
        "streams_read": len(found), "band": None, "why": "",
    }  # fmt: skip
    if owner is None:
        return answer | {"why": _why(store, asked, wanted)}
    sampled = Sampled(store, owner, found, span)
    return answer | _Lines(sampled, found, wanted, rate).answer()


class _Lines:
    """Lines of the streams that were read."""

    def __init__(self, sampled: Sampled, streams: Sequence[Stream], wanted: Wanted, rate: bool) -> None:
        self._sampled, self._wanted, self._rate = sampled, wanted, rate
        self._groups = groups(streams, wanted.by)
        self._combine = _combine(wanted, rate)

    def answer(self) -> dict[str, Any]:
        """Lines, how many there are, and their band."""
        values_GB = np.stack([self._line(some) for some in self._groups.values()])
        largest = np.where(np.isnan(values_GB), -np.inf, values_GB).max(axis=1)
        shown = sorted(np.argsort(-largest, kind="stable")[:LINES_MAX].tolist())
        names = list(self._groups)
        median, low, high = band(values_GB)
        told = {"count": len(names), "median": drawn(median), "low": drawn(low), "high": drawn(high)}
        return {
            "lines": [self._told(names[place], values_GB[place]) for place in shown], "lines_total": len(names),
            "band": told if len(names) > 1 else None,
            "why": "" if np.isfinite(largest).any() else f"no sample of {self._wanted.name} in this span",
        }  # fmt: skip

    def _line(self, streams: Sequence[Stream]) -> Values:
        values_KB = self._sampled.of(streams, "rate" if self._rate else "mean")
        return values_KB[0] if len(values_KB) == 1 else combined(values_KB, self._combine)

    def _told(self, name: str, values_B: Values) -> dict[str, Any]:
        streams = self._groups[name]
        alone = len(streams) == 1 and not self._rate
        low, high = (self._sampled.of(streams, which)[0] if alone else None for which in ("low", "high"))
        known_B = values_B[~np.isnan(values_B)]
        last = float(known_B[-1]) if len(known_B) else None
        if alone and len(known_B):
            last_B = self._sampled.of(streams, "last")[0]
            last = float(last_B[~np.isnan(last_B)][-1])
        entities = {each.entity for each in streams}
        state = is_state(self._wanted.name) and not self._rate
        return {
            "label": name, "entity": entities.pop() if len(entities) == 1 else "", "streams": len(streams),
            "mean": drawn(values_B), "low": None if low is None else drawn(low),
            "high": None if high is None else drawn(high), "last": _plain(last),
            "least": _edge(known_B if low is None else low, np.nanmin),
            "most": _edge(known_B if high is None else high, np.nanmax),
            "last_words": value_words(self._wanted.name, last) if state and last is not None else "",
        }  # fmt: skip


_COMBINED: dict[Combine, Callable[[Values], Values]] = {
    Combine.SUM: lambda some_KB: np.nansum(some_KB, axis=0),
    Combine.LARGEST: lambda some_KB: np.nanmax(some_KB, axis=0),
    Combine.MEAN: lambda some_KB: np.nanmean(some_KB, axis=0),
}


def combined(values_KB: Values, how: Combine) -> Values:
    """Streams as one (B,); a sum where at least half of them are known."""
    filled_KB = kept(values_KB)
    known_B = (~np.isnan(filled_KB)).sum(axis=0)
    out = np.full(values_KB.shape[1], np.nan)
    some_B = known_B * 2 > len(values_KB) if how is Combine.SUM else known_B > 0
    out[some_B] = _COMBINED[how](filled_KB[:, some_B])
    return out


def groups(streams: Sequence[Stream], by: str) -> dict[str, list[Stream]]:
    """Streams by what tells them apart: the value of a label, or all labels that differ; in order of that."""
    differ = [] if by else _differing(streams)
    people = {} if by and by != "entity" else _called(streams)
    found: dict[str, list[Stream]] = {}
    for each in streams:
        found.setdefault(_value(each, by, people) if by else _name(each, differ, people), []).append(each)
    return dict(sorted(found.items(), key=lambda one: natural(one[0])))


def _differing(streams: Sequence[Stream]) -> list[str]:
    """Labels that tell streams apart, those that name the entity left out where it is told."""
    values: dict[str, set[str]] = {}
    names = {name for each in streams for name in each.labels}
    for name in sorted(names):
        values[name] = {each.labels.get(name, "") for each in streams}
    differ = [name for name in sorted(names) if len(values[name]) > 1]
    by_entity: dict[str, set[tuple[str, ...]]] = {}
    for each in streams:
        by_entity.setdefault(each.entity, set()).add(tuple(each.labels.get(name, "") for name in differ))
    named = "" not in by_entity and len(by_entity) > 1
    if not named:
        return differ
    # What is the same for all streams of an entity says no more than its name.
    within = [
        name
        for place, name in enumerate(differ)
        if any(len({one[place] for one in some}) > 1 for some in by_entity.values())
    ]
    return ["entity", *within]


def _called(streams: Iterable[Stream]) -> dict[str, str]:
    """What people call each entity, `h5 GPU 4`; its id where they call it nothing, or two the same."""
    by_entity: dict[str, list[Stream]] = {}
    for each in streams:
        by_entity.setdefault(each.entity, []).append(each)
    names = {entity: called(entity, some, host_in(entity, some, ())) for entity, some in by_entity.items()}
    counts = Counter(names.values())
    return {entity: name if name and counts[name] == 1 else entity for entity, name in names.items()}


def _name(stream: Stream, differ: Iterable[str], people: Mapping[str, str]) -> str:
    told = [people[stream.entity] if name == "entity" else f"{name}={stream.labels.get(name, '')}" for name in differ]
    return " ".join(told) or people[stream.entity] or stream.name


def _value(stream: Stream, by: str, people: Mapping[str, str]) -> str:
    if by == "entity":
        return people[stream.entity] or "(no entity)"
    return stream.labels.get(by, "") or f"(no {by})"


def labels(streams: Sequence[Stream]) -> list[dict[str, Any]]:
    """Labels of streams with their values, those with few values first."""
    counts: dict[str, dict[str, int]] = {}
    for each in streams:
        for name, value in (("entity", each.entity), *each.labels.items()):
            if value:
                some = counts.setdefault(name, {})
                some[value] = some.get(value, 0) + 1
    told = [{"name": name, "values": _most(some), "values_total": len(some)} for name, some in counts.items()]
    return sorted(told, key=lambda one: (one["values_total"], one["name"]))[:LABELS_MAX]


def _most(counts: Mapping[str, int]) -> list[str]:
    return sorted(counts, key=lambda value: (-counts[value], value))[:VALUES_MAX]


def _combine(wanted: Wanted, rate: bool) -> Combine:
    if wanted.combine is not Combine.AUTO:
        return wanted.combine
    return Combine.SUM if rate else Combine.MEAN


def _begin(asked: Asked, streams: Iterable[Stream], from_ns: int) -> int:
    """Of the present no earlier than the first sample of any."""
    first = min((each.first_ns for each in streams), default=from_ns)
    return max(from_ns, min(first, asked.at_ns - 60 * 10**9)) if asked.latest else from_ns


def _count(store: Store, asked: Asked, name: str, where: Sequence[str], given: Mapping[str, object]) -> int:
    sql = f"SELECT count() AS n FROM leadline.{SERIES.name} WHERE " + " AND ".join(
        [*asked.conditions(), "name = {metric:String}", *where]
    )
    return int(store.query(sql, {**asked.parameters(sql), "metric": name, **given}).column("n")[0].as_py())


def _why(store: Store, asked: Asked, wanted: Wanted) -> str:
    """Why there is no stream: the name is not known, or none fits the filter."""
    where = " AND ".join(asked.conditions()) or "1"
    sql = f"SELECT DISTINCT toString(name) AS name FROM leadline.{SERIES.name} WHERE {where} LIMIT {NAMES_NEAR}"
    names = [str(each) for each in store.query(sql, asked.parameters(sql)).column("name").to_pylist()]
    if wanted.name in names:
        return f"no stream of {wanted.name} fits {wanted.where!r}"
    return f"no metric {wanted.name[:200]!r} is stored{near_names(wanted.name, names)}"


def _edge(values: Values, function: Any) -> float | None:
    return None if not len(values) or np.isnan(values).all() else _plain(float(function(values)))


def _plain(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
