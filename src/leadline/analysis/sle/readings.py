"""Indicators by second: for each entity that an expectation holds, the rows of values that its bounds are held against.

Indicator ──> streams or spans that it means ──> rows: (held entity, culprit, metric) ──> value_RC, NaN where silent
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Floats, Ints, ints
from leadline.analysis.sle import seconds, spans, streams
from leadline.analysis.sle.expectations import Expectation, Indicator, Source
from leadline.analysis.sle.scope import Life, Scope
from leadline.analysis.sle.seconds import NS_MIN, Samples
from leadline.analysis.sle.streams import Streams
from leadline.analysis.spec import Window
from leadline.model.units import S

LOOK_BACK_S = 600  # of samples, steps, collectives
EVENT_LOOK_BACK_S = 3600  # of events: as far back as the age of a checkpoint is told
INTERVALS = 2.5  # a series that comes every minute is not silent after 45 s, but after so many of its intervals
HOLD_S_MAX = 600.0
OPEN_S_MIN = 1.0  # collectives that are done sooner are not looked at: there are millions
_JOB_KINDS = ("job", "rank")


@dataclass(frozen=True, slots=True)
class Values:
    """R rows of values by column (C)."""

    held_R: Ints  # entity that is held to it
    culprit_R: Ints  # entity whose value it is
    metric_R: list[str]
    value_RC: Floats  # NaN where nothing is known
    begun_RC: Bools  # the entity is there


@dataclass(frozen=True, slots=True)
class Held:
    """What of an expectation decides which entities it holds and when they are silent."""

    of: str
    match: tuple[str, ...]
    missing_after_s: float
    tenant: str  # only this tenant's; empty: everybody's

    @staticmethod
    def by(expectation: Expectation, tenant: str) -> Held:
        """Of an expectation that holds one tenant, or all."""
        return Held(expectation.of, expectation.match, expectation.missing_after_s, tenant)


@dataclass(slots=True)
class Readings:
    """Everything that was read of one window, and the values already made of it."""

    window: Window
    scope: Scope
    metrics: Streams
    tables: Mapping[str, pa.Table]
    ranks: Mapping[str, Ints]  # of the rows of `step` and `collective`
    lives: Mapping[int, Life]
    pulse: Streams  # times at which jobs did anything
    _made: dict[object, Values] = field(default_factory=dict)
    _streams: dict[tuple[Source, str], Streams] = field(default_factory=dict)
    _intervals: dict[int, Ints] = field(default_factory=dict)  # by the identity of streams, which live as long as this

    def values(self, indicator: Indicator, held: Held, ends_C: Ints) -> Values:
        """The rows of an indicator, each time the same rows in the same order whatever the columns."""
        key = (indicator, held, len(ends_C), int(ends_C[-1]))
        if key not in self._made:
            self._made[key] = self._values(indicator, held, ends_C)
        return self._made[key]

    def _values(self, indicator: Indicator, held: Held, ends_C: Ints) -> Values:
        if indicator.source is Source.EVENT:
            return self._events(indicator, held, ends_C)
        if indicator.source is Source.COLLECTIVE and indicator.names[0] == "open_s":
            return self._open_collectives(held, ends_C)
        chosen = self._chosen(indicator)
        found = self._valued(indicator, chosen[0], self._rows(*chosen, held), held, ends_C)
        return self._combined(indicator, found)

    # --- streams ------------------------------------------------------------------------------------------------

    def _chosen(self, indicator: Indicator) -> tuple[Streams, Ints]:
        """The streams that an indicator means: all there are of its kind, and which of them."""
        if indicator.source is not Source.METRIC:
            found = self._told(indicator.source, indicator.names[0])
            return found, np.arange(len(found.entity_R))
        rows = np.flatnonzero(_named(self.metrics, indicator.names))
        if indicator.labels and len(rows):
            wanted = set(indicator.labels)
            fits = [wanted <= set(labels) for labels in self.metrics.labels(rows)]
            rows = rows[np.array(fits, bool)]
        return self.metrics, rows

    def _told(self, source: Source, name: str) -> Streams:
        """The streams of a field of a table."""
        if (source, name) not in self._streams:
            entities, tables = self.scope.entities, self.tables
            if source is Source.STEP:
                found = streams.step_streams(tables["step"], self.ranks["step"], name)
            elif source is Source.LEDGER:
                found = streams.ledger_streams(tables["ledger"], entities, name)
            elif source is Source.CLOCK:
                found = streams.clock_streams(tables["clock_fit"], entities, name)
            elif source is Source.ECMP:
                found = streams.ecmp_streams(tables["ecmp_group"], entities)
            else:
                found = self._took(name)
            self._streams[source, name] = found
        return self._streams[source, name]

    def _took(self, name: str) -> Streams:
        """How long the collectives of each rank took."""
        table = self.tables["collective"]
        begin_N, end_N = ints(table, "enqueued_ns"), ints(table, "finished_ns", NS_MIN)
        rank_N = np.where(end_N >= begin_N, self.ranks["collective"], -1)
        with np.errstate(over="ignore"):
            return streams.streams_of(rank_N, f"collective.{name}", end_N, begin_N, (end_N - begin_N) / S)

    def _rows(self, of: Streams, rows_K: Ints, held: Held) -> tuple[Ints, Ints, Ints]:
        """Streams, the entities that are held to them, and whose they are; a host of two jobs stands once for each.

        What speaks of a program on a host (the agent's own metrics) is the host's.
        """
        pair_K2 = np.column_stack(
            [of.entity_R[rows_K], of.host_R[rows_K] if held.of == "host" else of.entity_R[rows_K]]
        )
        pair_P2, pair_K = np.unique(pair_K2, axis=0, return_inverse=True)
        owners_P = [self._owners(entity, host, held) for entity, host in pair_P2.tolist()]
        count_P = np.array([len(owners) for owners, _ in owners_P], np.int64)
        begin_P = np.cumsum(count_P) - count_P
        all_M = np.array([owner for owners, _ in owners_P for owner in owners], np.int64)
        whose_P = np.array([whose for _, whose in owners_P], np.int64)
        count_K = count_P[pair_K.reshape(-1)] if len(rows_K) else np.zeros(0, np.int64)
        place_M = np.repeat(np.arange(len(rows_K)), count_K)
        nth_M = np.arange(len(place_M)) - np.repeat(np.cumsum(count_K) - count_K, count_K)
        pair_M = pair_K.reshape(-1)[place_M]
        return rows_K[place_M], all_M[begin_P[pair_M] + nth_M], whose_P[pair_M]

    def _hold(self, of: Streams, rows_R: Ints, missing_after_s: float) -> Ints:
        """For how long a value is held, ns, by row."""
        if id(of) not in self._intervals:
            self._intervals[id(of)] = seconds.usual_interval_ns(of.samples)
        usual_R = self._intervals[id(of)][rows_R] * INTERVALS
        hold_R: Ints = np.clip(usual_R, missing_after_s * S, max(missing_after_s, HOLD_S_MAX) * S).astype(np.int64)
        return hold_R

    def _owners(self, entity: int, host: int, held: Held) -> tuple[list[int], int]:
        """The entities that are held to what is told of one, and whose it is."""
        found = self.scope.owners(entity, held.of) if entity >= 0 else ()
        if not found and held.of == "host" and host >= 0 and entity != host:
            found, entity = (host,), host
        return [each for each in found if self._holds(each, held)], entity

    def _holds(self, number: int, held: Held) -> bool:
        if held.tenant and self.scope.entities.tenants[number] != held.tenant:
            return False
        name = self.scope.entities.names[number]
        return not held.match or any(fnmatchcase(name, pattern) for pattern in held.match)

    def _valued(
        self, indicator: Indicator, of: Streams, whose: tuple[Ints, Ints, Ints], held: Held, ends_C: Ints
    ) -> Values:
        rows_R, held_R, culprit_R = whose
        samples = of.samples.of(rows_R)
        hold_R = self._hold(of, rows_R, held.missing_after_s)
        at = seconds.latest(samples, ends_C)
        begun_RC = seconds.begun(samples, ends_C)
        if indicator.how == "age" or indicator.names == ("age_s",):
            value_RC = at.age_s(samples)
        else:
            value_RC = seconds.values(_read(samples, indicator, hold_R), at, hold_R)
        if indicator.per:
            value_RC = self._ratio(indicator, of, rows_R, held, value_RC, ends_C)
        names = [of.metrics[place] for place in of.metric_R[rows_R].tolist()]
        if indicator.per:
            names = [f"{name} per {indicator.per[0]}" for name in names]
        return Values(held_R, culprit_R, names, value_RC, begun_RC)

    def _ratio(
        self, indicator: Indicator, of: Streams, rows_R: Ints, held: Held, value_RC: Floats, ends_C: Ints
    ) -> Floats:
        """Divided by the sum of the series of the same entity that have the same labels, or by the only one it has."""
        rows_D = np.flatnonzero(_named(of, indicator.per))
        samples = of.samples.of(rows_D)
        hold_D = self._hold(of, rows_D, held.missing_after_s)
        rated = indicator.how == "rate"
        at = seconds.latest(samples, ends_C)
        by_rate_DC = seconds.values(_rates(samples, hold_D), at, hold_D) if rated else None
        plain_DC = seconds.values(samples, at, hold_D)
        below_DC = plain_DC if by_rate_DC is None else np.where(of.counter_R[rows_D][:, None], by_rate_DC, plain_DC)
        places: dict[tuple[int, object], list[int]] = {}
        for place, (entity, labels) in enumerate(zip(of.entity_R[rows_D].tolist(), of.labels(rows_D), strict=True)):
            places.setdefault((entity, labels), []).append(place)
            places.setdefault((entity, None), []).append(place)
        found_RC = np.full(value_RC.shape, np.nan)
        for row, (entity, labels) in enumerate(zip(of.entity_R[rows_R].tolist(), of.labels(rows_R), strict=True)):
            same = places.get((entity, labels)) or places.get((entity, None), [])
            if same and (len(same) <= len(indicator.per)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    below_C = below_DC[same].sum(axis=0)
                    share_C = value_RC[row] / below_C
                # Nothing of nothing is nothing; nothing of what is silent is unknown.
                found_RC[row] = np.where((value_RC[row] == 0) & ~np.isnan(below_C), 0.0, share_C)
        return found_RC

    def _combined(self, indicator: Indicator, found: Values) -> Values:
        """The rows of an entity as one, where the indicator says so."""
        if indicator.combine == "worst" or not len(found.held_R):
            return found
        order_R = np.lexsort((np.array(found.metric_R), found.held_R))
        held_R, begin_E = np.unique(found.held_R[order_R], return_index=True)
        how: np.ufunc = {"sum": np.add, "min": np.fmin, "max": np.fmax}[indicator.combine]
        with np.errstate(invalid="ignore"):
            value_EC = how.reduceat(found.value_RC[order_R], begin_E, axis=0)
        begun_EC = np.logical_or.reduceat(found.begun_RC[order_R], begin_E, axis=0)
        return Values(held_R, held_R, [indicator.metric] * len(held_R), value_EC, begun_EC)

    # --- what is open, what happened ----------------------------------------------------------------------------

    def _alive(self, held: Held, ends_C: Ints) -> Values:
        """The entities of a kind, 0 in each second in which something is heard of them."""
        if held.of in _JOB_KINDS:
            rows_R, held_R, _ = self._rows(self.pulse, np.arange(len(self.pulse.entity_R)), held)
            of, hold_s = self.pulse, max(held.missing_after_s, 120.0)
        else:
            named = np.flatnonzero(self.metrics.entity_R >= 0)
            rows_R, held_R, culprit_R = self._rows(self.metrics, named, held)
            # Targets are scraped by address: what a program's series name as its host need not be one.
            own_R = culprit_R == self.metrics.entity_R[rows_R]
            rows_R, held_R = rows_R[own_R], held_R[own_R]
            of, hold_s = self.metrics, held.missing_after_s
        samples = of.samples.of(rows_R)
        age_RC = seconds.latest(samples, ends_C).age_s(samples)
        silent_RC = age_RC * S > self._hold(of, rows_R, hold_s)[:, None]
        value_RC = np.where(silent_RC | np.isnan(age_RC), np.nan, 0.0)
        each = Values(held_R, held_R, [""] * len(held_R), value_RC, seconds.begun(samples, ends_C))
        return self._combined(Indicator(Source.METRIC, ("",), combine="min"), each)

    def _events(self, indicator: Indicator, held: Held, ends_C: Ints) -> Values:
        alive = self._alive(held, ends_C)
        entities, event = self.scope.entities, self.tables["event"]
        found = spans.events(event, entities, indicator.names)
        if indicator.how == "open":
            before = self.window.from_ns - EVENT_LOOK_BACK_S * S
            long = spans.long_open(self.tables["failure"], entities, indicator.names, before)
            until = spans.united(spans.events(event, entities, indicator.until), spans.ends_of(long))
            found = spans.opened(spans.united(found, long), until)
        by_part = indicator.how != "age"
        parts = [(place, owner, entity if by_part else owner)
                 for place, entity in enumerate(found.entity_N.tolist())
                 for owner in self.scope.owners(entity, held.of)]  # fmt: skip
        row_of = {(owner, owner): row for row, owner in enumerate(alive.held_R.tolist())}
        of_owner = dict(row_of)
        for _, owner, culprit in parts:
            if (owner, owner) in of_owner:
                row_of.setdefault((owner, culprit), len(row_of))
        kept = [(place, row_of[owner, culprit]) for place, owner, culprit in parts if (owner, culprit) in row_of]
        place_N, row_N = (np.array([pair[side] for pair in kept], np.int64) for side in (0, 1))
        shown = spans.Spans(found.entity_N[place_N], found.begin_N[place_N], found.end_N[place_N])
        alive_R = np.array([of_owner[owner, owner] for owner, _ in row_of], np.int64)
        held_R = np.array([owner for owner, _ in row_of], np.int64)
        culprit_R = np.array([culprit for _, culprit in row_of], np.int64)
        return self._happened(indicator, shown, row_N, held_R, culprit_R, alive, alive_R, ends_C)

    def _happened(
        self, indicator: Indicator, shown: spans.Spans, row_N: Ints, held_R: Ints, culprit_R: Ints,
        alive: Values, alive_R: Ints, ends_C: Ints,
    ) -> Values:  # fmt: skip
        rows = len(held_R)
        if indicator.how == "open":
            value_RC = spans.open_s(shown, row_N, rows, ends_C)
        elif indicator.how == "count":
            value_RC = spans.counts(shown, row_N, rows, ends_C, indicator.over_s)
        else:
            value_RC = spans.ages(shown, row_N, rows, ends_C)
        begun_RC = alive.begun_RC[alive_R] & ~(np.isnan(value_RC) & ~np.isnan(alive.value_RC[alive_R]))
        # What is known to be open is bad, silent or not: a link that is down takes its host's telemetry along.
        open_RC = value_RC > 0 if indicator.how == "open" else np.zeros(value_RC.shape, bool)
        value_RC = np.where(np.isnan(alive.value_RC[alive_R]) & ~open_RC, np.nan, value_RC)
        return Values(held_R, culprit_R, [indicator.metric] * rows, value_RC, begun_RC)

    def _open_collectives(self, held: Held, ends_C: Ints) -> Values:
        alive = self._alive(held, ends_C)
        found = spans.collectives(self.tables["collective"], self.ranks["collective"])
        ranks = np.unique(found.entity_N)
        row_of = {owner: row for row, owner in enumerate(alive.held_R.tolist())}
        pairs = [(rank, owner) for rank in ranks.tolist() for owner in self.scope.owners(rank, held.of)
                 if owner in row_of]  # fmt: skip
        row_of_rank = {rank: row for row, (rank, _) in enumerate(pairs)}
        long_N = found.end_N - found.begin_N >= OPEN_S_MIN * S
        row_N = np.array([row_of_rank.get(rank, -1) for rank in found.entity_N[long_N].tolist()], np.int64)
        shown = spans.Spans(found.entity_N[long_N], found.begin_N[long_N], found.end_N[long_N])
        value_RC = spans.open_s(shown, row_N, len(pairs), ends_C)
        alive_R = np.array([row_of[owner] for _, owner in pairs], np.int64)
        held_R = np.array([owner for _, owner in pairs], np.int64)
        culprit_R = np.array([rank for rank, _ in pairs], np.int64)
        value_RC = np.where(np.isnan(alive.value_RC[alive_R]) & (value_RC == 0), np.nan, value_RC)
        return Values(held_R, culprit_R, ["collective.open_s"] * len(pairs), value_RC, alive.begun_RC[alive_R])


def wanted_metrics(expectations: Sequence[Expectation]) -> Callable[[str, str], bool]:
    """Whether series of a name and a kind of entity are looked at at all."""
    names: set[str] = set()
    starts: set[str] = set()
    kinds: set[str] = set()
    for one in expectations:
        for bound in one.bounds:
            for test in (bound.test, *bound.when):
                if test.indicator.source is Source.EVENT:
                    kinds.add(one.of)
                elif test.indicator.source is Source.METRIC:
                    for name in (*test.indicator.names, *test.indicator.per):
                        (starts if name.endswith("*") else names).add(name.removesuffix("*"))
    begins = tuple(sorted(starts))
    return lambda name, kind: name in names or kind in kinds or name.startswith(begins)


def _named(of: Streams, names: tuple[str, ...]) -> Bools:
    """Which streams have one of these names."""
    whole = {name for name in names if not name.endswith("*")}
    begins = tuple(name[:-1] for name in names if name.endswith("*"))
    fits = np.array([name in whole or name.startswith(begins) for name in of.metrics] + [False])
    found: Bools = fits[of.metric_R]
    return found


def _read(samples: Samples, indicator: Indicator, hold_R: Ints) -> Samples:
    """The samples as the indicator reads them."""
    if indicator.how == "rate":
        return _rates(samples, hold_R)
    if indicator.how == "change":
        before_N, since_N = _before(samples, hold_R)
        changed_N = ~np.isnan(before_N) & (samples.value_N != before_N)  # a first value is no change
        value_N = np.where(np.isnan(samples.value_N), np.nan, changed_N.astype(np.float64))
        return Samples(samples.begin_R, samples.time_N, since_N, value_N)
    if indicator.mask:
        with np.errstate(invalid="ignore"):
            bits_N = np.nan_to_num(np.clip(samples.value_N, 0, 2.0**52)).astype(np.int64) & indicator.mask
        value_N = np.where(np.isnan(samples.value_N), np.nan, bits_N.astype(np.float64))
        return Samples(samples.begin_R, samples.time_N, samples.since_N, value_N)
    return samples


def _before(samples: Samples, hold_R: Ints) -> tuple[Floats, Ints]:
    """The value before each sample, NaN for the first of a row; and since when: a gap that is too long is no span."""
    first_N = np.zeros(len(samples.time_N), bool)
    first_N[samples.begin_R[:-1][np.diff(samples.begin_R) > 0]] = True
    before_N, earlier_N = np.roll(samples.value_N, 1), np.roll(samples.time_N, 1)
    near_N = ~first_N & (samples.time_N - earlier_N <= hold_R[samples.row_N])
    return np.where(first_N, np.nan, before_N), np.where(near_N, earlier_N, samples.time_N)


def _rates(samples: Samples, hold_R: Ints) -> Samples:
    """The increase of counters per second, since the sample before. A counter that went back began again at 0."""
    before_N, since_N = _before(samples, hold_R)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        more_N = np.where(samples.value_N >= before_N, samples.value_N - before_N, samples.value_N)
        rate_N = more_N / ((samples.time_N - np.roll(samples.time_N, 1)) / S)
    rate_N[np.isnan(before_N)] = np.nan
    return Samples(samples.begin_R, samples.time_N, since_N, rate_N)
