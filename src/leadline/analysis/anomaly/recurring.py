"""What comes back at equal distances is usual: a checkpoint each ten minutes, a log that is turned over.

Judged by what was told before: a load of an entity that was out at least three times within the last two hours, each
as far from the one before as the new one is from the last, is not told again. So a season is known once it came three
times, and periods from 2 to 40 minutes are. Only loads have seasons:
errors, lost time and states that come back are trouble each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from leadline.analysis.anomaly.kinds import Way, metric_kind
from leadline.analysis.anomaly.spans import Span
from leadline.analysis.spec import S

CYCLES_MIN = 3  # times that a season came before it is one: with two, anything that came twice would be
PERIOD_MIN_NS = 120 * S  # what comes back faster is in the look-back, and widens scales there
LATE_RATIO = 0.05  # of the period, how early or late it may come
LATE_MIN_NS = 10 * S  # two bins
TIMES_FURTHER = 1.5  # further out than ever before by so much, it is told

_Key = tuple[str, str, str, str | None, str, str]


def without_recurring(spans: Iterable[Span], known: Iterable[Span], to_ns: int) -> list[Span]:
    """The spans without new ones that came when they were due. known: what earlier windows told."""
    before: dict[_Key, list[Span]] = defaultdict(list)
    for span in known:
        before[_key(span)].append(span)
    return [span for span in spans if span.reported_ns < to_ns or not _is_due(span, before.get(_key(span), []))]


def _key(span: Span) -> _Key:
    return span.tenant, span.entity, span.metric, span.label, span.witness, span.direction


def _is_due(span: Span, before: list[Span]) -> bool:
    kind = metric_kind(span.metric)
    if len(before) < CYCLES_MIN or kind is None or kind.way != Way.LOAD:
        return False
    earlier = [each for each in before if each.end_ns is not None and each.start_ns < span.start_ns]
    starts = sorted({each.start_ns for each in earlier})
    if len(starts) < CYCLES_MIN:
        return False
    period_ns = min(later - sooner for sooner, later in pairwise(starts))
    if period_ns < PERIOD_MIN_NS:
        return False
    late_ns = max(LATE_MIN_NS, LATE_RATIO * period_ns)
    # What came when it was due was not told, so several periods may lie between two.
    on_time = all(
        abs((later - sooner) - round((later - sooner) / period_ns) * period_ns) <= late_ns
        for sooner, later in pairwise([*starts, span.start_ns])
    )
    usual = max(abs(each.seen - each.expected) for each in earlier)
    return on_time and abs(span.seen - span.expected) <= TIMES_FURTHER * usual
