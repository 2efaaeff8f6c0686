"""Verdicts into the store: rows first, then the run that names them, so that a crash between is repaired by judging the
window again (the same rows under the same keys).

    judged again ──> its rows ──> rows of before that it no longer has: taken back
                                  ... of a span that an earlier window reports: the word of that one, in their place
                 ──> the run

An append costs the engine 5 to 10 ms however few rows it has, and a window of forty jobs is forty calls. So the rows of
all parts of a window are one append to each table, and the runs of a second, of all analyses, are one.

The store then has the rows that are effective and no others, whoever reads them (`store.schema.STAMP`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from leadline.analysis.spec import Analysis, Window
from leadline.model.tables import Table
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.model.units import S
from leadline.runner.conditions import Condition
from leadline.runner.judge import Judged
from leadline.runner.load import StoreRows
from leadline.runner.recent import CODED, in_type
from leadline.runner.verdicts import has_windows
from leadline.runner.words import KEPT_NS, Whose, Words, keys_of
from leadline.runner.worker import DONE
from leadline.store.schema import DATABASE, STAMP, arrow_schema, arrow_table

Part = tuple[str, str, str]  # tenant, cluster, job
STAMP_TYPE = pa.binary(16)
# Seconds that runs wait for others: whoever asks how far analyses have come learns it so much later, and a process that
# is killed judges so much again. Source: judgement.
RUNS_S = 1.0
# Times without a window that are longer were put off when Leadline ended, or nothing was told in them, which costs one
# look. Source: half of what is put off at once at least (following.PUT_OFF_NS).
GAP_NS = 60 * S
GAPS_MAX = 20  # of each analysis: a look costs some ms


class StoreWriting(Protocol):
    """What is needed of a store to write verdicts."""

    def append(self, table: Table, rows: pa.Table, overrules: pa.Array | None = None) -> None:
        """Store rows."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Rows of a statement."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a part of a window was judged before."""

    version: int
    revision: int
    state: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that is not stored yet."""

    analysis: Analysis
    end_ns: int
    key: Part
    run: Run
    row: pa.Table


def runs_before(rows: StoreRows, analysis: Analysis, end_ns: int) -> dict[Part, Run]:
    """How the parts of a window were judged before. Errors: StoreError."""
    names = ("tenant", "cluster", "part", "version", "revision", "state", "digest")
    of_window = [Condition("end_ns", ">=", end_ns), Condition("end_ns", "<=", end_ns)]
    of_window += [Condition("window_ns", "<=", analysis.window_ns), Condition("analysis", "in", (analysis.name,))]
    found = rows.stored(ANALYSIS_RUN, (*names, "window_ns"), of_window)
    return {
        (row["tenant"], row["cluster"], row["part"]): Run(row["version"], row["revision"], row["state"], row["digest"])
        for row in found.to_pylist()
        if row["window_ns"] == analysis.window_ns
    }


def judged_to_ns(store: StoreWriting) -> dict[str, int]:
    """End of the newest window judged, by analysis. Errors: StoreError."""
    found = store.query("SELECT analysis, max(end_ns) AS end_ns FROM leadline.analysis_run GROUP BY analysis")
    return {row["analysis"]: row["end_ns"] for row in found.to_pylist()}


def unjudged(store: StoreWriting, since_ns: int) -> dict[str, list[tuple[int, int]]]:
    """Times of GAP_NS and more of which no window was judged, between windows that were, by analysis, the newest
    GAPS_MAX: (end of the one before, end of the one after). Errors: StoreError."""
    found = store.query(
        "SELECT analysis, before_ns, end_ns FROM (SELECT analysis, end_ns, lagInFrame(end_ns) OVER"
        " (PARTITION BY analysis ORDER BY end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before_ns FROM"
        f" (SELECT DISTINCT analysis, end_ns FROM leadline.analysis_run WHERE end_ns > {since_ns}))"
        f" WHERE before_ns > 0 AND end_ns - before_ns >= {GAP_NS}"
        f" ORDER BY analysis, end_ns DESC LIMIT {GAPS_MAX} BY analysis"
    )
    gaps: dict[str, list[tuple[int, int]]] = {}
    for row in found.to_pylist():
        gaps.setdefault(row["analysis"], []).append((row["before_ns"], row["end_ns"]))
    return gaps


def as_before(judged: Judged, before: Mapping[Part, Run]) -> Judged:
    """A judgement of one tenant, under the part that its window has: before tenants were judged apart the only one of
    a cluster was judged as the whole of it, and two runs of a window would both count."""
    window = judged.window
    whole = replace(window, tenant=window.whose, own="")
    if not window.own or _key(window) in before or _key(whole) not in before:
        return judged
    return replace(judged, window=whole)


def run_before(judged: Judged, before: Mapping[Part, Run]) -> Run | None:
    """How the part of a window that was judged now was judged before."""
    return before.get(_key(judged.window))


def _key(window: Window) -> Part:
    return window.whose, window.cluster, window.part


def revision_of(analysis: Analysis, judged: Judged, before: Run | None) -> int | None:
    """The revision that a judgement becomes; None if it is not kept, because one that counts already says the same or,
    of one that failed, because one that did not fail stands."""
    if before is None or before.version != analysis.version:
        return None if before is not None and before.state == DONE and judged.outcome.state != DONE else 0
    if before.state != DONE:
        return before.revision
    if judged.outcome.state != DONE or before.digest == judged.outcome.digest:
        return None
    return before.revision + 1


class VerdictStore:
    """Stores verdicts, and takes back what a window reported before and reports no more. Used by one thread.

    store, add_run (a call of a window, again and again) ──> end_window ── its rows ──> ... ──> store_runs
    """

    def __init__(self, store: StoreWriting, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock_s = store, clock_s
        self._words = Words()
        self._rows: dict[str, tuple[Table, list[pa.Table]]] = {}  # of the window at hand
        self._of_window: list[_Run] = []  # its runs, to be stored after its rows
        self._runs: list[_Run] = []  # of windows whose rows are stored
        self._runs_due_s = 0.0

    def begin_window(self) -> None:
        """Forget what a window left that did not come to its end."""
        self._rows.clear()
        self._of_window.clear()

    def store(self, analysis: Analysis, judged: Judged, revision: int, before: Run | None) -> None:
        """Take the verdicts of a call, which `end_window` stores. `before`: how the window was judged before. Repeating
        this is harmless, until the run is stored. Errors: StoreError."""
        again = before is not None and before.state == DONE
        for table in analysis.writes:
            rows = judged.outcome.tables.get(table.name)
            told = _empty(table) if rows is None else with_revision(rows, revision)
            if table.newest:
                self._store_spans(analysis, table, judged.window, told, revision, again)
            else:
                self._add(table, told)
                if again:
                    self._take_back(analysis, table, judged.window, told, revision)

    def add_run(self, analysis: Analysis, judged: Judged, revision: int) -> None:
        """Note that a call was judged, after `store`."""
        row = run_row(analysis, judged, revision, time.monotonic_ns() - judged.began_ns)
        run = Run(analysis.version, revision, judged.outcome.state, judged.outcome.digest)
        self._of_window.append(_Run(analysis, judged.window.to_ns, _key(judged.window), run, row))

    def end_window(self) -> None:
        """Store the verdicts of the window, and the runs if they have waited for long enough. Errors: StoreError."""
        self._flush()
        if self._of_window and not self._runs:
            self._runs_due_s = self._clock_s() + RUNS_S
        self._runs += self._of_window
        self._of_window = []
        self.store_runs(all_of_them=False)

    def store_runs(self, *, all_of_them: bool = True) -> None:
        """Store the runs that wait, or only if they have waited for long enough. Errors: StoreError; they wait on."""
        if self._runs and (all_of_them or self._clock_s() >= self._runs_due_s):
            self._store.append(ANALYSIS_RUN, pa.concat_tables([each.row for each in self._runs]))
            self._runs = []

    def runs_waiting(self, analysis: Analysis, end_ns: int) -> dict[Part, Run]:
        """Runs of a window that are not stored yet."""
        return {each.key: each.run for each in self._runs if each.analysis is analysis and each.end_ns == end_ns}

    def _add(self, table: Table, rows: pa.Table) -> None:
        if rows.num_rows:
            self._rows.setdefault(table.name, (table, []))[1].append(rows)

    def _flush(self) -> None:
        """Store the rows that were taken so far."""
        for table, parts in self._rows.values():
            self._store.append(table, pa.concat_tables(parts).unify_dictionaries())
        self._rows.clear()

    def _take_back(self, analysis: Analysis, table: Table, window: Window, told: pa.Table, revision: int) -> None:
        """Take back the rows of a window's earlier judgement that `told` does not have."""
        self._flush()
        stored, _ = self._stored(analysis, table, window, "end_ns = {end:Int64}")
        keys = set(keys_of(table, told))
        gone = [place for place, key in enumerate(keys_of(table, stored)) if key not in keys]
        self._store.append(
            table, with_revision(stored.take(pa.array(gone, pa.int64())), -1 - revision, analysis.version)
        )

    def _store_spans(
        self, analysis: Analysis, table: Table, window: Window, told: pa.Table, revision: int, again: bool
    ) -> None:
        """Store what a window reports of spans. Of each the word of the latest window is effective; where an earlier
        one is judged, for the first time or again, each row is compared with what is stored."""
        whose = (table.name, analysis.name, window.whose, window.cluster, window.part)
        if again or window.to_ns < self._words.newest_ns(whose):
            self._correct(analysis, table, window, told, revision, whose)
        else:
            self._add(table, told)
        self._words.remember(whose, window.to_ns, told)

    def _correct(
        self, analysis: Analysis, table: Table, window: Window, told: pa.Table, revision: int, whose: Whose
    ) -> None:
        self._flush()
        since = f"`{table.newest}` >= {{end:Int64}} - {KEPT_NS}"
        stored, stamps = self._stored(analysis, table, window, since, last_of_each_key=True)
        gone_N = stored["revision"].to_numpy() < 0
        seen_N = stored[table.newest].to_numpy()
        place_of = {key: place for place, key in enumerate(keys_of(table, stored))}
        told_at = {key: place for place, key in enumerate(keys_of(table, told))}
        rows: list[pa.Table] = []
        overruled: list[bytes] = []
        for key, place in place_of.items():
            row: pa.Table | None = None
            if key in told_at and (gone_N[place] or seen_N[place] <= window.to_ns):
                row = told.slice(told_at[key], 1)
            elif key not in told_at and not gone_N[place] and seen_N[place] == window.to_ns:
                row = self._words.before(table, whose, window.to_ns, key)
                if row is None:
                    row = with_revision(stored.slice(place, 1), -1 - revision, analysis.version)
            if row is not None:  # else a later window has the last word, or an earlier one that stays
                rows.append(row)
                overruled.append(stamps[place])
        new = [place for key, place in told_at.items() if key not in place_of]
        self._store.append(table, told.take(pa.array(new, pa.int64())))
        if rows:
            self._store.append(table, pa.concat_tables(rows), pa.array(overruled, STAMP_TYPE))

    def _stored(
        self, analysis: Analysis, table: Table, window: Window, which: str, *, last_of_each_key: bool = False
    ) -> tuple[pa.Table, list[bytes]]:
        """Rows that an analysis has reported of the part that a window is of, with their stamps.

        `last_of_each_key`: also the rows that take others back.
        """
        names = ", ".join(f"`{column.name}`" for column in table.columns)
        where = [which, "analysis = {analysis:String}", "cluster = {cluster:String}"]
        given: dict[str, Any] = {"analysis": analysis.name, "cluster": window.cluster, "end": window.to_ns}
        if has_windows(table):
            where.append("window_ns = {window:Int64}")
            given["window"] = window.window_ns
        if not analysis.joint:  # of what is judged for all tenants at once rows are of any of them
            where.append("tenant = {tenant:String}")
            given["tenant"] = window.whose
        if window.job and any(column.name == "job" for column in table.columns):
            where.append("job = {job:String}")
            given["job"] = window.job
        sql = f"SELECT {names}, {STAMP} FROM {DATABASE}.{table.name} WHERE {' AND '.join(where)}"
        if last_of_each_key:
            sql += f" ORDER BY {STAMP} DESC LIMIT 1 BY {', '.join(table.key)}"
        found = self._store.query(f"{sql} {CODED}, final = {int(not last_of_each_key)}", given)
        schema = arrow_schema(table)
        rows = pa.table([in_type(found[each.name], each.type) for each in schema], schema=schema)
        return rows, found[STAMP].to_pylist()


def _empty(table: Table) -> pa.Table:
    return arrow_schema(table).empty_table()


def with_revision(rows: pa.Table, revision: int, version: int | None = None) -> pa.Table:
    """Verdicts with their revision; they come with 0. `version`: of the analysis, if it is to be another one."""
    for name, value in (("revision", revision or None), ("version", version)):
        if value is not None:
            place = rows.column_names.index(name)
            rows = rows.set_column(place, rows.schema.field(place), pa.array(np.full(rows.num_rows, value, np.int64)))
    return rows


def run_row(analysis: Analysis, judged: Judged, revision: int, took_ns: int) -> pa.Table:
    """The row of `analysis_run` about a call."""
    window, outcome = judged.window, judged.outcome
    row = {
        "tenant": window.whose,
        "cluster": window.cluster,
        "analysis": analysis.name,
        "part": window.part,
        "end_ns": window.to_ns,
        "window_ns": window.window_ns,
        "version": analysis.version,
        "revision": revision,
        "state": outcome.state,
        "rows_in": judged.rows_in,
        "rows_out": outcome.rows,
        "digest": outcome.digest,
        "took_ns": took_ns,
        "error": outcome.error,
    }
    return arrow_table(ANALYSIS_RUN, {name: [value] for name, value in row.items()})
