"""Which rows were effective in stores of schema version 3 and before, whose tables of verdicts kept every revision.

Used once, when such a store is opened (`migrate`). `analysis_run` tells what was effective, one row per window and part
(job) that was judged. Of a window that it does not know, it is the highest version and revision: of the window, or,
where rows do not name theirs, of each row's own key.
"""

from __future__ import annotations

from leadline.model.tables import Table
from leadline.store.schema import DATABASE

_WINDOW = ("cluster", "analysis", "end_ns", "window_ns")
_RUNS = f"FROM {DATABASE}.analysis_run WHERE state = 'done'"


def before_name(table: str) -> str:
    """What a table is called while its rows are moved."""
    return f"{table}_of_all_revisions"


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
