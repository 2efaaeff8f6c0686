"""Which revision of a verdict counts.

A window that was judged again has rows of several revisions, and rows that a later revision no longer has. What counts
is told by `analysis_run`, one row per window and part (job) that was judged, in the SQL below and, for rows that are
held in memory (`latest_rows`), by the highest version and revision of each window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.speakers import OWN_PART
from leadline.model.tables import Identity, Table
from leadline.runner.conditions import Condition

ENDS_MAX = 1000  # windows that are asked for by name rather than by their span
# A window of an analysis, as its verdict rows name it.
_WINDOW = ("cluster", "analysis", "end_ns", "window_ns")

# What `runs_of` gives where no run decides.
NO_RUNS = pa.Table.from_batches(
    [], pa.schema([(each, pa.string()) for each in ("tenant", "part", "version", "revision", *_WINDOW)])
)


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
    if names_job:  # what one tenant was told of a cluster: rows of any of its jobs
        of_job += f" OR (tenant, {run}) IN " + judged(f"tenant, {run}", f"startsWith(part, '{OWN_PART}')")
    unknown = f"{rows} {'AND' if where else 'WHERE'} ({window}) NOT IN {judged(window, '1')}"
    by_runs = f"SELECT {names} FROM ({rows}) WHERE {of_cluster} OR {of_job}"
    return f"{by_runs} UNION ALL {_highest(unknown, names, f'tenant, {window}')}"


def counted_by(table: Table) -> tuple[str, ...]:
    """Columns that `all_count` looks at."""
    names = {column.name for column in table.columns}
    more = (table.newest,) if table.newest else tuple(each for each in ("end_ns", "window_ns", "job") if each in names)
    return (*table.key, *more)


def runs_of(table: Table, rows: pa.Table) -> list[Condition] | None:
    """What rows of `analysis_run` fulfil that decide which of these rows count, and some others; None: none do."""
    if not rows.num_rows or not (table.newest or has_windows(table)):
        return None
    ends = rows[table.newest or "end_ns"].unique()
    span = pc.min_max(ends).as_py()
    few = len(ends) <= ENDS_MAX
    return [
        Condition("end_ns", ">=", span["min"]),
        Condition("end_ns", "in", tuple(ends.to_pylist())) if few else Condition("end_ns", "<=", span["max"]),
        Condition("state", "in", ("done",)),
        Condition("analysis", "in", tuple(pc.unique(_plain(rows["analysis"])).to_pylist())),
    ]


def all_count(table: Table, rows: pa.Table, runs: pa.Table) -> bool:
    """Whether, by what `runs_of` gave, each of these rows has the revision that counts; of a span that many windows
    tell, before the newest is chosen. To find that out is a fifth of the work of `latest_sql`, which knows of any rows.

    It is so where there is one version and one revision, as there is until late rows change a verdict, and each row
    has a run, or its window has none at all.
    """
    said = ["analysis", "version", "revision"]
    revisions = _distinct(rows, said) | _distinct(runs, said)
    if len(revisions) > len({analysis for analysis, *_ in revisions}):
        return False
    if table.newest or not has_windows(table):
        return True
    known: dict[tuple[Any, ...], set[tuple[str, str]]] = {}  # window -> (tenant, job); ("", "") is everybody
    for tenant, part, *window in _distinct(runs, ["tenant", "part", *_WINDOW]):
        known.setdefault(tuple(window), set()).add((tenant if part else "", _part(part)))
    jobs = ["job"] if "job" in rows.column_names else []
    for tenant, *window_job in _distinct(rows, ["tenant", *_WINDOW, *jobs]):
        told = known.get(tuple(window_job[: len(_WINDOW)]), {("", "")})
        mine = [(tenant, each) in told for job in window_job[len(_WINDOW) :] for each in (job or "", OWN_PART)]
        if ("", "") not in told and not any(mine or [whose == tenant for whose, _ in told]):
            return False
    return True


def counting_rows(table: Table, rows: pa.Table, runs: pa.Table) -> pa.Table:
    """Of rows with all their revisions those that count, by the runs that `runs_of` asks for: what `latest_sql` gives,
    in memory. The rows need the columns of `counted_by`."""
    if all_count(table, rows, runs):
        return latest_rows(table, rows) if table.newest else rows
    if not (table.newest or has_windows(table)):
        return latest_rows(table, rows)
    ours, theirs = (
        (("cluster", "analysis", table.newest), ("cluster", "analysis", "end_ns"))
        if table.newest
        else (_WINDOW, _WINDOW)
    )
    known: set[tuple[Any, ...]] = set()
    said: set[tuple[Any, ...]] = set()
    names_job = "job" in rows.column_names and not table.newest
    for tenant, part, *run in _distinct(runs, ["tenant", "part", *theirs, "version", "revision"]):
        known.add(tuple(run[: len(ours)]))
        of_all = table.newest or not part
        said.add(("", "", *run) if of_all else (tenant, _part(part) if names_job else "", *run))
    named, unknown = [], []
    for (tenant, *run_job), places in _groups(rows, ["tenant", *ours, "version", "revision", *["job"] * names_job]):
        run, job = run_job[: len(ours) + 2], (run_job[-1] or "") if names_job else ""
        if tuple(run[: len(ours)]) not in known:
            unknown.append(places)
        elif said & {("", "", *run), (tenant, job, *run), (tenant, OWN_PART, *run)}:
            named.append(places)
    if table.newest:
        return latest_rows(table, _at(rows, [*named, *unknown]))
    return pa.concat_tables([_at(rows, named), latest_rows(table, _at(rows, unknown))])


def _part(part: str) -> str:
    """A job that was judged, or `OWN_PART` for all rows of the tenant that the run is of."""
    return OWN_PART if part.startswith(OWN_PART) else part


def _groups(rows: pa.Table, names: list[str]) -> list[tuple[tuple[Any, ...], npt.NDArray[np.int64]]]:
    """The values of some columns, each combination once, with the places of its rows."""
    keyed = pa.table({**{name: _plain(rows[name]) for name in names}, "_row": np.arange(rows.num_rows)})
    found = keyed.group_by(names, use_threads=False).aggregate([("_row", "list")]).combine_chunks()
    values = zip(*(found[name].to_pylist() for name in names), strict=True)
    return [(value, np.asarray(places.values)) for value, places in zip(values, found["_row_list"], strict=True)]


def _at(rows: pa.Table, places: list[npt.NDArray[np.int64]]) -> pa.Table:
    return rows.take(pa.array(np.sort(np.concatenate([np.zeros(0, np.int64), *places]))))


def _distinct(rows: pa.Table, names: list[str]) -> set[tuple[Any, ...]]:
    """The values of some columns, each combination once."""
    found = pa.table({name: _plain(rows[name]) for name in names}).group_by(names).aggregate([])
    return set(zip(*(found[name].to_pylist() for name in names), strict=True))


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
