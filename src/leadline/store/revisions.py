"""Which rows were effective in stores of schema version 3 and before, whose tables of verdicts kept every revision.

Used once, when such a store is opened (`migrate`). `analysis_run` tells what was effective, one row per window and part
(job) that was judged. Of a window that it does not know, it is the highest version and revision: of the window, or,
where rows do not name theirs, of each row's own key.
"""

from __future__ import annotations

from collections.abc import Iterable

from leadline.model.tables import Column, Table, Type
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.store.schema import DATABASE, quoted

_WINDOW = ("cluster", "analysis", "end_ns", "window_ns")


def today_sql(column: Column, value: str, words: Iterable[tuple[str, str]]) -> str:
    """A value of a column, an SQL expression, with the words of before (`Table.former`) as those of today."""
    for before, now in words:
        literals = quoted(before), quoted(now)
        if column.type is Type.SYM:
            value = f"if({value} = {literals[0]}, {literals[1]}, {value})"
        else:
            value = f"replaceAll({value}, {', '.join(literals)})"
    return value


# It is the last of the tables that are moved, so that it is there, by its own name, for all others; with analyses as
# they were called before.
_ANALYSIS = next(column for column in ANALYSIS_RUN.columns if column.name == "analysis")
_NAMED = today_sql(_ANALYSIS, "analysis", ANALYSIS_RUN.former.words.get("analysis", ()))
_RUNS = f"FROM (SELECT * REPLACE ({_NAMED} AS analysis) FROM {DATABASE}.{ANALYSIS_RUN.name}) WHERE state = 'done'"


def before_names(table: Table) -> list[str]:
    """What a table may be called while its rows are moved: by this version, and by the one before."""
    names = [name for name in (table.name, table.former.name) if name]
    return [f"{table.name}_of_before", *(f"{name}_of_all_revisions" for name in names)]


def latest_sql(table: Table, source: str) -> str:
    """The rows of a table of verdicts that were effective, as a SELECT of all its columns from `source`."""
    names = ", ".join(f"`{column.name}`" for column in table.columns)
    rows = f"SELECT {names} FROM {source}"
    columns = {column.name for column in table.columns}
    if table.newest:
        return _seen_last(table, rows, names)
    if not {"end_ns", "window_ns"} <= columns:
        by = "tenant, cluster, analysis, end_ns" if table.time == "end_ns" else ", ".join(table.key)
        return _highest(rows, names, by)
    window = ", ".join(_WINDOW)
    # Jobs of two tenants may share a name; what is judged for a whole cluster has rows of several tenants. Rows that
    # name no job are those of any job of their tenant.
    mine, part = (", ifNull(job, '')", ", part") if "job" in columns else ("", "")
    run = f"{window}, version, revision"
    of_cluster = f"({run}) IN (SELECT {run} {_RUNS} AND part = '')"
    of_job = f"(tenant, {run}{mine}) IN (SELECT tenant, {run}{part} {_RUNS} AND part != '')"
    unknown = f"{rows} WHERE ({window}) NOT IN (SELECT {window} {_RUNS})"
    by_runs = f"SELECT {names} FROM ({rows}) WHERE {of_cluster} OR {of_job}"
    return f"{by_runs} UNION ALL {_highest(unknown, names, f'tenant, {window}')}"


def _seen_last(table: Table, rows: str, names: str) -> str:
    """The row of each key that the newest window reported; what a later judgement of that window took back is left
    out."""
    window, reported = "cluster, analysis, end_ns", f"cluster, analysis, `{table.newest}`"
    effective = (
        f"({reported}, version, revision) IN (SELECT {window}, version, revision {_RUNS}) "
        f"OR ({reported}) NOT IN (SELECT {window} {_RUNS})"
    )
    newest = f"(`{table.newest}`, version, revision)"
    best = f"max({newest}) OVER (PARTITION BY {', '.join(table.key)})"
    return f"SELECT {names} FROM (SELECT *, {best} AS best FROM ({rows}) WHERE {effective}) WHERE {newest} = best"


def _highest(rows: str, names: str, by: str) -> str:
    """The rows with the highest version and revision of their group."""
    best = f"max((version, revision)) OVER (PARTITION BY {by})"
    return f"SELECT {names} FROM (SELECT *, {best} AS best FROM ({rows})) WHERE (version, revision) = best"
