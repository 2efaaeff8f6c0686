"""Which rows of verdicts are effective, in memory: as the engine decides for stored ones (`store.schema.STAMP`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.tables import Identity, Table
from leadline.runner.identity import hashes

Numbers = npt.NDArray[np.int64]

# A window of an analysis, as its verdict rows name it.
_WINDOW = ("cluster", "analysis", "end_ns", "window_ns")


def has_windows(table: Table) -> bool:
    """Whether rows of a table of verdicts say which window they are of."""
    names = {column.name for column in table.columns}
    return table.identity is Identity.REVISION and {"end_ns", "window_ns"} <= names


def effective_rows(table: Table, rows: pa.Table) -> pa.Table:
    """Of each key the newest row: reported by the latest window, then of the highest version and revision, then the
    last one. Without those that take a row back. In the order in which they were given."""
    if not rows.num_rows:
        return rows
    revision_N, hash_N = rows["revision"].to_numpy(), hashes(table, rows)
    order_N = np.lexsort((np.arange(rows.num_rows), *newer_by(table, rows), hash_N))
    last_N = np.append(hash_N[order_N][1:] != hash_N[order_N][:-1], True)
    chosen_N = np.sort(order_N[last_N])
    chosen_N = chosen_N[revision_N[chosen_N] >= 0]
    return rows if len(chosen_N) == rows.num_rows else rows.take(pa.array(chosen_N))


def newer_columns(table: Table) -> tuple[str, ...]:
    """The columns that say which of two rows of one key is newer."""
    by = ("revision", "version") if table.identity is Identity.REVISION else ()
    return (*by, table.newest) if table.newest else by


def newer_by(table: Table, rows: pa.Table) -> list[Numbers]:
    """What says which of two rows of one key is newer, the least important first; none where it is the last one."""
    newest = [rows[table.newest].to_numpy()] if table.newest else []
    if table.identity is not Identity.REVISION:
        return newest
    revision_N = rows["revision"].to_numpy()
    return [np.where(revision_N < 0, -1 - revision_N, revision_N), rows["version"].to_numpy(), *newest]


def of_last_judgements(table: Table, rows: pa.Table) -> pa.Table:
    """Rows of a recording, of each window (and job) those of its last judgement. Recordings of Leadline before 0.1 have
    every revision, and no rows that take back what a later one no longer has."""
    if not rows.num_rows or not has_windows(table):
        return effective_rows(table, rows)
    group = [name for name in ("tenant", *_WINDOW, "job") if name in rows.column_names]
    judged = [rows[name].to_numpy() for name in ("version", "revision")]
    code = np.unique(np.stack(judged, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    plain = {name: _plain(rows[name]) for name in group}
    keyed = pa.table({**plain, "_code": code, "_row": np.arange(rows.num_rows)})
    grouped = keyed.group_by(group).aggregate([("_code", "max"), ("_code", "min")])
    if pc.all(pc.equal(grouped["_code_max"], grouped["_code_min"])).as_py():
        return effective_rows(table, rows)
    jobless = {name: pc.fill_null(keyed[name], "") if name == "job" else keyed[name] for name in keyed.column_names}
    keyed = pa.table(jobless)
    best = keyed.group_by(group).aggregate([("_code", "max")])
    joined = keyed.join(best, group, join_type="inner")
    kept = joined.filter(pc.equal(joined["_code"], joined["_code_max"]))["_row"].to_numpy()
    return effective_rows(table, rows.take(pa.array(np.sort(kept))))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
