"""Which revision of a verdict counts.

A window that was judged again has rows of several revisions, and rows that a later revision no longer has. What counts
is told by `analysis_run`, one row per window and part (job) that was judged, in the SQL below and, for rows that are
held in memory (`latest_rows`), by the highest version and revision of each window.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.tables import Identity, Table

# A window of an analysis, as its verdict rows name it.
_WINDOW = ("cluster", "analysis", "end_ns", "window_ns")


def has_windows(table: Table) -> bool:
    """Whether rows of a table of verdicts say which window they are of."""
    names = {column.name for column in table.columns}
    return table.identity is Identity.REVISION and {"end_ns", "window_ns"} <= names


def latest_sql(table: Table, where: str = "", span: tuple[int, int] | None = None) -> str:
    """The rows of a table of verdicts whose revision counts, as a SELECT of all its columns (usable as a sub-query).

    `where`: a condition on the table's columns, with typed parameters as in any query; the shorter the span of time
    it leaves, the faster this is. It must tell windows, tenants, clusters or jobs apart, not rows within one: the
    highest revision is looked for among the rows that it leaves. `span`: the smallest and the largest `end_ns` that it
    leaves, where the caller knows them; else the rows are asked, which reads them six times more.

    Of a window that `analysis_run` knows, the version and revision it names (the last that was judged well). Of one it
    does not know (rows that came by import, or a table without windows) the highest version and revision: of the
    window, or, where rows do not name theirs (`start_ns`), of each row's own key. Where rows tell a span and when that
    was last seen (`Table.newest`), the one of each key that was seen last counts, of those that their run names.
    """
    assert table.identity is Identity.REVISION, f"{table.name} is not a table of verdicts"
    names = ", ".join(f"`{column.name}`" for column in table.columns)
    condition = f"WHERE {where}" if where else ""
    rows = f"SELECT {names} FROM leadline.{table.name} {condition}"
    if table.newest:
        return _seen_last(table, rows, names)
    if not has_windows(table):
        if table.time == "end_ns":  # one row per window and key
            return _highest(rows, names, "tenant, cluster, analysis, end_ns")
        return _highest(rows, names, ", ".join(_own_key(table)))
    window = ", ".join(_WINDOW)
    # Which runs there are to look at: those of the windows that the rows are of, not of 400 days.
    low, high = span or (f"(SELECT min(end_ns) FROM ({rows}))", f"(SELECT max(end_ns) FROM ({rows}))")
    spans = f"end_ns BETWEEN {low} AND {high}"

    def judged(what: str, condition: str) -> str:
        return f"(SELECT {what} FROM leadline.analysis_run WHERE state = 'done' AND {condition} AND {spans})"

    # Jobs of two tenants may share a name; what is judged for a whole cluster has rows of several tenants. Rows that
    # name no job are those of any job of their tenant.
    names_job = any(column.name == "job" for column in table.columns)
    mine, part = (", ifNull(job, '')", ", part") if names_job else ("", "")
    run = f"{window}, version, revision"
    of_cluster = f"({run}) IN " + judged(run, "part = ''")
    of_job = f"(tenant, {run}{mine}) IN " + judged(f"tenant, {run}{part}", "part != ''")
    unknown = f"{rows} {'AND' if where else 'WHERE'} ({window}) NOT IN {judged(window, '1')}"
    by_runs = f"SELECT {names} FROM ({rows}) WHERE {of_cluster} OR {of_job}"
    return f"{by_runs} UNION ALL {_highest(unknown, names, f'tenant, {window}')}"


def _own_key(table: Table) -> list[str]:
    """What a verdict is about, whoever judged it how often."""
    return [name for name in table.key if name not in ("version", "revision")]


def _seen_last(table: Table, rows: str, names: str) -> str:
    """The row of each key that the newest window tells. What a later judgement of that window took back is left out."""
    window = "cluster, analysis, end_ns"
    runs = "FROM leadline.analysis_run WHERE state = 'done' AND end_ns IN (SELECT seen FROM seen)"
    told = f"cluster, analysis, `{table.newest}`"
    counts = (
        f"({told}, version, revision) IN (SELECT {window}, version, revision {runs}) "
        f"OR ({told}) NOT IN (SELECT {window} {runs})"
    )
    newest = f"(`{table.newest}`, version, revision)"
    best = f"max({newest}) OVER (PARTITION BY {', '.join(_own_key(table))})"
    seen = f"WITH seen AS (SELECT DISTINCT `{table.newest}` AS seen FROM ({rows})) "
    return f"{seen}SELECT {names} FROM (SELECT *, {best} AS best FROM ({rows}) WHERE {counts}) WHERE {newest} = best"


def _highest(rows: str, names: str, by: str) -> str:
    """The rows with the highest version and revision of their group."""
    best = f"max((version, revision)) OVER (PARTITION BY {by})"
    return f"SELECT {names} FROM (SELECT *, {best} AS best FROM ({rows})) WHERE (version, revision) = best"


def latest_rows(table: Table, rows: pa.Table) -> pa.Table:
    """The same of rows in memory of windows that no `analysis_run` knows."""
    group = [*(name for name in ("tenant", *_WINDOW) if name in rows.column_names)]
    if not has_windows(table) and table.time != "end_ns":
        group = _own_key(table)
    if not rows.num_rows:
        return rows
    plain = {name: _plain(rows[name]) for name in group}
    by = [rows[name].to_numpy() for name in ((table.newest,) if table.newest else ()) + ("version", "revision")]
    code = np.unique(np.stack(by, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    keyed = pa.table({**plain, "_code": code, "_row": np.arange(rows.num_rows)})
    best = keyed.group_by(group).aggregate([("_code", "max")])
    joined = keyed.join(best, group, join_type="inner")
    kept = joined.filter(pc.equal(joined["_code"], joined["_code_max"]))["_row"].to_numpy()
    return rows.take(pa.array(np.sort(kept)))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
