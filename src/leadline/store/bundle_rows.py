"""Which rows belong to the span of a bundle, in which order, a slice of time at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.accounts import EVERYWHERE
from leadline.model.tables import Table
from leadline.model.tables.accounts import EXPECTATION, FAILURE
from leadline.model.tables.fabric import COLOCATION, CONFLICT, RELATION, SUSPECT
from leadline.model.tables.metrics import METRIC_ROLLUP, METRIC_SAMPLE, SERIES
from leadline.model.tables.training import STEP
from leadline.model.tables.verdicts import ANOMALY, CAUSE, INCIDENT, SYMPTOM
from leadline.store.schema import DATABASE

# Rows of one slice: what is held in memory at once (100 to 300 bytes a row) and becomes one row group. 10 minutes of
# clos8 are one slice.
SLICE_ROWS = 1_000_000
MINUTE_NS = 60 * 10**9

# Rows that last: they belong to the span if they overlap it. Every other row belongs to it by its time alone. Of a
# collective or a message that never ended the beginning counts: an end that is missing says nothing of how long.
LASTING: dict[str, tuple[str, str]] = {
    RELATION.name: ("from_ns", "to_ns"),  # all edges that held: the graph
    STEP.name: ("start_ns", "end_ns"),
    ANOMALY.name: ("start_ns", "end_ns"),
    CONFLICT.name: ("start_ns", "end_ns"),
    SUSPECT.name: ("start_ns", "end_ns"),
    COLOCATION.name: ("start_ns", "end_ns"),
    SYMPTOM.name: ("start_ns", "end_ns"),
    INCIDENT.name: ("start_ns", "end_ns"),
    FAILURE.name: ("start_ns", "end_ns"),
    EXPECTATION.name: ("from_ns", "to_ns"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """What to record: `from_ns` included, `to_ns` not; an empty tenant or cluster means all of them."""

    from_ns: int
    to_ns: int
    tenant: str = ""
    cluster: str = ""

    def parameters(self) -> dict[str, Any]:
        """The parameters of `belongs`."""
        out: dict[str, Any] = {"from_ns": self.from_ns, "to_ns": self.to_ns}
        if self.tenant:
            out["tenant"] = self.tenant
        if self.cluster:
            out["cluster"] = self.cluster
        return out


def belongs(table: Table, span: Span) -> str:
    """The SQL condition for the rows of `table` that belong to the span.

    What is expected of every cluster belongs to each: without it a replay would judge by the defaults.
    """
    if table is EXPECTATION and span.cluster:
        mine = " AND tenant = {tenant:String}" if span.tenant else ""
        return f"{_in_span(table, '')}{mine} AND cluster IN ({{cluster:String}}, '{EVERYWHERE}')"
    whose = "".join(f" AND {name} = {{{name}:String}}" for name in ("tenant", "cluster") if getattr(span, name))
    return _in_span(table, whose) + whose


def _in_span(table: Table, whose: str) -> str:
    by_time = "{time} >= {{from_ns:Int64}} AND {time} < {{to_ns:Int64}}"
    if table is SERIES:
        # The streams that the span's samples are of, not all that were ever known.
        used = " UNION DISTINCT ".join(
            f"SELECT tenant, cluster, series FROM {DATABASE}.{each.name} WHERE {by_time.format(time=each.time)}{whose}"
            for each in (METRIC_SAMPLE, METRIC_ROLLUP)
        )
        return f"(tenant, cluster, series) IN ({used})"
    if table is CAUSE:
        incidents = (
            f"SELECT tenant, cluster, incident FROM {DATABASE}.incident WHERE {_in_span(INCIDENT, whose)}{whose}"
        )
        return f"(tenant, cluster, incident) IN ({incidents})"
    if table.name in LASTING:
        begin, end = LASTING[table.name]
        lasts = f"{end} >= {{from_ns:Int64}}"
        if table.column(end).nullable:
            lasts = f"({end} IS NULL OR {lasts})"
        return f"{begin} < {{to_ns:Int64}} AND {lasts}"
    return by_time.format(time=table.time)


def minutes_sql(table: Table, condition: str) -> str:
    """Rows by minute, from which the slices are made."""
    return (
        f"SELECT intDiv({table.time}, {MINUTE_NS}) AS minute, count() AS n FROM {DATABASE}.{table.name} "
        f"WHERE {condition} GROUP BY minute ORDER BY minute"
    )


def slices(minutes: Sequence[tuple[int, int]], rows_max: int = SLICE_ROWS) -> list[tuple[int | None, int | None]]:
    """Bounds [from, to) of slices of time with at most `rows_max` rows each, from (minute, rows) in order.

    A minute is never divided: one with more rows is a slice by itself. The outer bounds are open (None), so nothing
    that belongs to the span falls beside. Cut by what is stored alone, so the same rows give the same slices.
    """
    if not minutes:
        return []
    cuts: list[int | None] = [None]
    held = 0
    for minute, rows in minutes:
        if held and held + rows > rows_max:
            cuts.append(minute * MINUTE_NS)
            held = 0
        held += rows
    cuts.append(None)
    return list(itertools.pairwise(cuts))


def slice_sql(
    table: Table, condition: str, bounds: tuple[int | None, int | None], *, of_one_tenant: bool = False
) -> str:
    """The rows of one slice; their order is made by `in_order`. Of one tenant: without what they tell of others."""
    names = ", ".join(table.shown((column.name for column in table.columns), to_operator=not of_one_tenant))
    low, high = bounds
    cut = "" if low is None else f" AND {table.time} >= {low}"
    cut += "" if high is None else f" AND {table.time} < {high}"
    return f"SELECT {names} FROM {DATABASE}.{table.name} WHERE {condition}{cut}"


def in_order(table: Table, rows: pa.Table) -> pa.Table:
    """Rows in the order of a bundle: by the columns of the key, so any order gives the same one.

    A 128-bit id is ordered by its bytes, a null comes last, a text by its UTF-8 bytes.
    """
    keys = {name: _sortable(rows.column(name)) for name in table.key}
    # A constant column orders nothing, and tenant and cluster nearly always are.
    telling = {name: column for name, column in keys.items() if not _constant(column)}
    if not telling:
        return rows
    places = pc.sort_indices(pa.table(telling), sort_keys=[(name, "ascending") for name in telling])
    return rows.take(places)


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    if pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    return column


def _constant(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type):
        return False
    bounds = pc.min_max(column)
    return bool(bounds["min"].equals(bounds["max"]) and not column.null_count)


def by_table(tables: Sequence[Table]) -> Iterator[Table]:
    """The tables in the order they are read: `series` last, so that no sample that came meanwhile lacks its stream."""
    yield from (table for table in tables if table is not SERIES)
    yield from (table for table in tables if table is SERIES)
