"""What every view of the mesh reads: windows of pairs in `delay`, source ports put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from leadline.model.tables.fabric import DELAY
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import json_rows, rows_where

LOOK_NS = 600 * S  # a pair whose newest window is older than this is not known now
SPAN_NS = 3600 * S  # of one pair or host, if no time is asked for
POINTS_MAX = 2000  # windows of one pair, both ways
NO_DELAY = "No one-way delay was measured within ten minutes"

Measure = Literal["queue_p50", "queue", "p50", "p99", "min", "lost"]
MEASURE: Measure = "queue_p50"
"""Unless another is asked for. It is next to nothing for a host that is well, whatever stamps its probes and however
many switches are between; a 99th percentile by kernel stamps is 13 us where nothing waits: every host would be red."""
COLUMN: Mapping[Measure, str] = {
    "p50": "p50_ns", "p99": "p99_ns", "min": "min_ns", "queue": "queue_p99_ns", "queue_p50": "queue_p50_ns",
    "lost": "lost",
}  # fmt: skip
SILENT = "(`count` = 0 OR lost >= 1)"
"""Condition on a window: it was probed, and nothing arrived, so that its delays mean nothing."""
Row = dict[str, Any]


def where_of(asked: Asked, from_ns: int, *more: str) -> str:
    return " AND ".join([*asked.conditions(), f"end_ns > {from_ns}", f"end_ns <= {asked.at_ns}", *more])


def pairs_sql(asked: Asked, from_ns: int, *, newest: bool, only: str = "1", most: int = POINTS_MAX) -> str:
    """Windows of pairs, source ports put together; the newest (of these the shortest) of each pair, or all by
    time, at most so many.

    A row without a source port speaks of all of them and counts alone. Where there is none, the ports' rows do:
    smallest of the smallest, worst 99th percentile and bound, medians weighted by probes, loss by port (each port is
    probed as often; a port that lost all has no probes to weigh). Delays of a window in which nothing arrived are 0.
    """
    rows = rows_where(DELAY, where_of(asked, from_ns, only))
    whole = "countIf(src_port IS NULL) > 0"
    of_all = "src_port IS NULL"

    def put(of_whole: str, of_ports: str) -> str:
        return f"if({whole}, {of_whole}, {of_ports})"

    # The smallest delay of five minutes is what the 99th percentile less its queueing leaves (`analysis.clock.delays`).
    waited = "greatest(p50_ns - p99_ns + queue_p99_ns, 0)"

    def by_probes(value: str) -> str:
        return f"toInt64(round(ifNotFinite(sum({value} * toFloat64(`count`)) / sum(toFloat64(`count`)), avg({value}))))"

    merged = ", ".join([
        put(f"minIf(min_ns, {of_all})", "min(min_ns)") + " AS least_ns",
        put(f"anyIf(p50_ns, {of_all})", by_probes("p50_ns")) + " AS median_ns",
        put(f"anyIf({waited}, {of_all})", by_probes(waited)) + " AS waited_ns",
        put(f"maxIf(p99_ns, {of_all})", "max(p99_ns)") + " AS late_ns",
        put(f"maxIf(queue_p99_ns, {of_all})", "max(queue_p99_ns)") + " AS queued_ns",
        put(f"avgIf(lost, {of_all})", "avg(lost)") + " AS share_lost",
        put(f"sumIf(`count`, {of_all})", "sum(`count`)") + " AS probes",
        put(f"maxIf(bound_ns, {of_all})", "if(countIf(bound_ns IS NULL) > 0, NULL, max(bound_ns))") + " AS right_ns",
    ])  # fmt: skip
    windows = (
        f"SELECT tenant, cluster, src, dst, class, end_ns, window_ns, {merged} FROM ({rows}) "
        "GROUP BY tenant, cluster, src, dst, class, end_ns, window_ns"
    )
    named = (
        "toString(src) AS src, toString(dst) AS dst, class, end_ns, window_ns, ifNull(least_ns, 0) AS min_ns, "
        "ifNull(median_ns, 0) AS p50_ns, ifNull(late_ns, 0) AS p99_ns, ifNull(queued_ns, 0) AS queue_p99_ns, "
        "ifNull(waited_ns, 0) AS queue_p50_ns, share_lost AS lost, "
        "probes AS `count`, right_ns AS bound_ns"
    )
    last = "ORDER BY end_ns DESC, window_ns LIMIT 1 BY src, dst, class" if newest else ""
    every = "" if newest else f" ORDER BY end_ns DESC LIMIT {most}"
    return f"SELECT {named} FROM ({windows}) {last}{every}"


def rows_of(store: Store, asked: Asked, sql: str, **parameters: object) -> list[Row]:
    return json_rows(store.query(sql, {**asked.parameters(sql), **parameters}))


def silent(row: Mapping[str, Any]) -> bool:
    """As `SILENT`."""
    return bool(row["count"] == 0 or row["lost"] >= 1)


def unit_of(measure: Measure) -> str:
    """Of the values of a measure."""
    return "ratio" if measure == "lost" else "ns"


def most_probed(pairs: Mapping[int, int]) -> int | None:
    """Of traffic classes with their pairs, that with most, of these the smallest; None of none."""
    return min(pairs, key=lambda each: (-pairs[each], each)) if pairs else None


def window_told(row: Mapping[str, Any], fields: Sequence[str]) -> Row:
    """A row as the API tells it."""
    return {name: row[name] for name in fields}
