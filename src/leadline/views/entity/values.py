"""Samples of many streams by bin, in one query: binned in the engine, rates and peers worked out in columns here.

    metric_sample ── one row a stream and bin ──> (R, B) means, rates, last values ──> lines, bands of peers, states

R = stream, B = bin. A bin without a sample is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.model.metric_words import value_words
from leadline.model.tables.metrics import METRIC_SAMPLE
from leadline.model.units import S
from leadline.store import Store
from leadline.views.entity.catalogue import Line, Sum
from leadline.views.entity.streams import Owner, Stream

BEFORE_NS = 120 * S  # a counter's first rate needs a value before the span; exporters are read every 15 to 60 s
CODES_MAX = 2.0**53  # larger ones are no whole numbers any more
_LOW = (1 << 64) - 1
Values = NDArray[np.float64]
Places = NDArray[np.int64]
_NAMES = ("mean", "low", "high", "last", "bits")


@dataclass(frozen=True, slots=True)
class Span:
    """[from_ns, to_ns) in bins of the same length."""

    from_ns: int
    to_ns: int
    bin_ns: int

    @staticmethod
    def of(from_ns: int, to_ns: int, points: int) -> Span:
        """At most so many bins."""
        return Span(from_ns, to_ns, max(1, -(-(to_ns - from_ns) // points)))

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return -(-(self.to_ns - self.from_ns) // self.bin_ns)

    @property
    def t_ns(self) -> list[int]:
        """Where each bin begins."""
        return [self.from_ns + place * self.bin_ns for place in range(self.bins)]


class Sampled:
    """The samples of some streams of one owner, by stream and bin."""

    def __init__(self, store: Store, owner: Owner, streams: Sequence[Stream], span: Span) -> None:
        self._row_of = {each.number: row for row, each in enumerate({one.number: one for one in streams}.values())}
        self._counter = {each.number: each.counter for each in streams}
        self.span = span
        self._values: dict[str, Values] = {}
        found = store.query(_sql(span), {
            "tenant": owner.tenant, "cluster": owner.cluster, "ids": [*self._row_of],
        }) if streams else None  # fmt: skip
        if found is not None and found.num_rows:
            self._fill(found)

    def _fill(self, found: pa.Table) -> None:
        """Rows of the query, in order of stream and bin, as (R, B)."""
        low = np.array([number & _LOW for number in self._row_of], np.uint64)
        order = np.argsort(low)
        key_N = found.column("low_id").to_numpy()
        row_N = order[np.searchsorted(low[order], key_N)]
        bin_N = found.column("bin").to_numpy()
        within_N = bin_N >= 0
        at = row_N[within_N], np.minimum(bin_N[within_N], self.span.bins - 1)
        for name in _NAMES:
            dense = np.full((len(self._row_of), self.span.bins), np.nan)
            dense[at] = found.column(name).to_numpy()[within_N]
            self._values[name] = dense
        dense = np.full((len(self._row_of), self.span.bins), np.nan)
        dense[at] = _rates(found, key_N)[within_N]
        self._values["rate"] = dense

    def of(self, streams: Iterable[Stream], name: str) -> Values:
        """One of mean, low, high, last, bits, rate of some streams (K, B)."""
        rows = [self._row_of[each.number] for each in streams]
        if name not in self._values:
            return np.full((len(rows), self.span.bins), np.nan)
        return self._values[name][rows]


def _sql(span: Span) -> str:
    bin_ = f"toInt64(floor((time_ns - {span.from_ns}) / {span.bin_ns}))"
    return (
        # The low half of an id finds the stream: 64 bits of a hash, among a few thousand.
        f"SELECT reinterpretAsUInt64(series) AS low_id, {bin_} AS bin, avg(x) AS mean, min(x) AS low, max(x) AS high, "
        "argMax(x, time_ns) AS last, max(time_ns) AS last_ns, argMin(x, time_ns) AS first, min(time_ns) AS first_ns, "
        f"toFloat64(groupBitOr(toUInt64(if(x >= 0 AND x < {CODES_MAX:.0f}, x, 0)))) AS bits "
        f"FROM (SELECT series, time_ns, value AS x FROM leadline.{METRIC_SAMPLE.name} "
        "WHERE tenant = {tenant:String} AND cluster = {cluster:String} AND series IN {ids:Array(UInt128)} "
        f"AND time_ns >= {span.from_ns - BEFORE_NS} AND time_ns < {span.to_ns} AND isFinite(value)) "
        # A sample that came twice counts twice in its bin's mean, where it changes nothing that can be seen.
        "GROUP BY low_id, bin ORDER BY low_id, bin SETTINGS final = 0"
    )


def _rates(found: pa.Table, key_N: NDArray[Any]) -> Values:
    """Increase per second from the last value of the bin before; of a stream's first bin from its own first value.

    A counter that went back began again at 0 (as Prometheus' `rate` has it). NaN where there is no value before.
    """
    last, last_ns = found.column("last").to_numpy(), found.column("last_ns").to_numpy()
    begins = np.r_[True, key_N[1:] != key_N[:-1]]
    before = np.where(begins, found.column("first").to_numpy(), np.r_[last[:1], last[:-1]])
    since_ns = np.where(begins, found.column("first_ns").to_numpy(), np.r_[last_ns[:1], last_ns[:-1]])
    apart_s = (last_ns - since_ns) / S
    more = np.where(last >= before, last - before, last)
    rate: Values = np.divide(more, apart_s, out=np.full(len(more), np.nan), where=apart_s > 0)
    return rate


# --- lines --------------------------------------------------------------------------------------------------------

_SUMS: dict[Sum, Callable[[Values], Values]] = {
    Sum.ADD: lambda some_KB: np.nansum(some_KB, axis=0),
    Sum.LARGEST: lambda some_KB: np.nanmax(some_KB, axis=0),
    Sum.LEAST: lambda some_KB: np.nanmin(some_KB, axis=0),
}


def together(values_KB: Values, line: Line) -> Values:
    """Streams of a line as one (B,), in the plot's unit. NaN where most of them are not known: half a sum is none."""
    if len(values_KB) > 1:
        values_KB = kept(values_KB)
    out = np.full(values_KB.shape[1], np.nan)
    known_B = 2 * (~np.isnan(values_KB)).sum(axis=0) > len(values_KB)
    if known_B.any():
        out[known_B] = _SUMS[line.sum](values_KB[:, known_B]) * line.scale
    return out


def kept(values_KB: Values) -> Values:
    """The same with each stream's value kept until its next one is due: streams are read at different moments, and bins
    may be shorter than the time between two readings."""
    known_KB = ~np.isnan(values_KB)
    place_KB = np.where(known_KB, np.arange(values_KB.shape[1]), -1)
    last_KB = np.maximum.accumulate(place_KB, axis=1)
    apart = np.concatenate([np.diff(np.flatnonzero(row)) for row in known_KB]) if len(known_KB) else np.zeros(0)
    due = int(np.percentile(apart, 90)) if len(apart) else 1
    fresh_KB = (last_KB >= 0) & (np.arange(values_KB.shape[1]) - last_KB < due)
    filled = np.take_along_axis(values_KB, np.maximum(last_KB, 0), axis=1)
    return np.where(fresh_KB, filled, np.nan)


def band(values_PB: Values) -> Values:
    """Median, 10th and 90th percentile of P peers in each bin (3, B), by nearest rank: one of the values measured."""
    ordered_PB = np.sort(kept(values_PB), axis=0)  # NaN last
    known_B = (~np.isnan(ordered_PB)).sum(axis=0)
    place_3B = np.array([[0.5], [0.1], [0.9]]) * np.maximum(known_B - 1, 0)
    return np.take_along_axis(ordered_PB, np.rint(place_3B).astype(np.int64), axis=0)


@dataclass(frozen=True, slots=True)
class Held:
    """A code and the span in which it did not change."""

    from_ns: int
    to_ns: int
    value: float
    text: str


def states(values_B: Values, span: Span, metric: str) -> list[Held]:
    """Codes by bin as spans with words: each lasts until the next is read, the last as long as it is told."""
    found: list[Held] = []
    for place in np.flatnonzero(~np.isnan(values_B)).tolist():
        begin_ns, value = span.from_ns + place * span.bin_ns, float(values_B[place])
        if found and found[-1].value == value:
            found[-1] = Held(found[-1].from_ns, begin_ns + span.bin_ns, value, found[-1].text)
            continue
        if found:
            found[-1] = Held(found[-1].from_ns, begin_ns, found[-1].value, found[-1].text)
        found.append(Held(begin_ns, begin_ns + span.bin_ns, value, value_words(metric, value)))
    return [Held(each.from_ns, min(each.to_ns, span.to_ns), each.value, each.text) for each in found]


def drawn(values_B: Values) -> list[float | None]:
    """Values as they are drawn: six figures, None for what is not known."""
    return [None if each != each else float(f"{each:.6g}") for each in values_B.tolist()]
