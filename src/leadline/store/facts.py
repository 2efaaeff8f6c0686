"""What every table of a store holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from leadline.model.tables import Table
from leadline.store.schema import DATABASE, Layout, quoted


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table holds. `rows` counts stored rows, so a row that was appended twice and not merged counts twice."""

    table: str
    rows: int
    bytes: int  # on disk, compressed
    oldest_ns: int | None  # of the time column; null if the table is empty
    newest_ns: int | None


def facts_of(tables: Iterable[Table], layout: Layout, parts: pa.Table, spans: pa.Table) -> list[TableFacts]:
    """The facts of tables, in their order, from the answers to `parts_sql` and `spans_sql`."""
    stored = {row["table"]: row for row in parts.to_pylist()}
    span_of = {row["name"]: row for row in spans.to_pylist()}
    out = []
    for table in tables:
        row = stored.get(layout.local(table).partition(".")[2], {"rows": 0, "bytes": 0})
        span = span_of[table.name]
        oldest, newest = (span["oldest"], span["newest"]) if span["stored"] else (None, None)
        out.append(TableFacts(table.name, row["rows"], row["bytes"], oldest, newest))
    return out


def parts_sql(layout: Layout) -> str:
    """Rows and bytes of each table, as its parts say."""
    parts = f"cluster({quoted(layout.cluster)}, system.parts)" if layout.cluster else "system.parts"
    return (
        f"SELECT table, sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM {parts} "
        f"WHERE active AND database = '{DATABASE}' GROUP BY table"
    )


def spans_sql(tables: Iterable[Table]) -> str:
    """The first and the last time of each table, and how many rows it has."""
    # Without FINAL the engine answers from what it keeps about each part.
    return " UNION ALL ".join(
        f"SELECT '{table.name}' AS name, min({table.time}) AS oldest, max({table.time}) AS newest, "
        f"count() AS stored FROM {DATABASE}.{table.name} SETTINGS final = 0"
        for table in tables
    )
