"""Metric samples by 5 minutes, made before the raw ones are dropped."""

from __future__ import annotations

from typing import Any

from leadline.model.tables.metrics import METRIC_ROLLUP, METRIC_SAMPLE
from leadline.store.schema import DATABASE, Layout

BUCKET_NS = 300 * 10**9
DAY_NS = 24 * 3600 * 10**9
# Two days before the raw samples go: time for a night without Leadline, and for late samples to come in.
ROLL_AT_AGE_NS = (METRIC_SAMPLE.keep_hours - 48) * 3600 * 10**9
# A day is rolled again while its samples live, for those that came late; not with every call.
AGAIN_AFTER_NS = DAY_NS // 2

_DAYS = f"""
SELECT DISTINCT toInt64(intDiv(time_ns, {DAY_NS})) AS day FROM {DATABASE}.metric_sample
WHERE time_ns < {{before:Int64}} ORDER BY day
"""

# Sorted by the same columns as the samples lie in, so the aggregation runs through without keeping groups.
_ROLL = f"""
INSERT INTO {DATABASE}.metric_rollup (tenant, cluster, series, time_ns, count, minimum, maximum, sum, last)
SELECT tenant, cluster, series, intDiv(time_ns, {BUCKET_NS}) * {BUCKET_NS} AS bucket_ns,
       count(), min(value), max(value), sum(value), argMax(value, time_ns)
FROM {DATABASE}.metric_sample FINAL
WHERE time_ns >= {{from:Int64}} AND time_ns < {{before:Int64}} AND NOT isNaN(value)
GROUP BY tenant, cluster, series, bucket_ns
SETTINGS optimize_aggregation_in_order = 1
"""


class Rollup:
    """Remembers which days were rolled up when; a restart only costs rolling the last ones again."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._rolled_at_ns: dict[int, int] = {}  # day since 1970 -> when

    def run(self, client: Any, now_ns: int) -> int:
        """Roll up every whole day older than `ROLL_AT_AGE_NS` that is due. Returns: days rolled up.

        Idempotent: a rolled-up row is known by stream and time, a second one replaces it.
        """
        last_day = (now_ns - ROLL_AT_AGE_NS) // DAY_NS  # the first one not due
        rows = client.query(_DAYS, parameters={"before": last_day * DAY_NS}).result_rows
        due = [day for (day,) in rows if self._is_due(day, now_ns)]
        for day in due:
            client.command(_ROLL, parameters={"from": day * DAY_NS, "before": (day + 1) * DAY_NS})
            self._rolled_at_ns[day] = now_ns
        return len(due)

    def _is_due(self, day: int, now_ns: int) -> bool:
        at_ns = self._rolled_at_ns.get(day)
        if at_ns is None:
            return True
        expired = (day + 1) * DAY_NS < now_ns - METRIC_SAMPLE.keep_hours * 3600 * 10**9
        return not expired and now_ns - at_ns >= AGAIN_AFTER_NS


assert METRIC_ROLLUP.key == ("tenant", "cluster", "series", "time_ns")
