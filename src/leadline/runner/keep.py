"""Verdicts into the store: rows first, then the run that makes them count, so that a crash between is repaired by
judging the window again (the same rows under the same keys)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from leadline.analysis.spec import Analysis, Window
from leadline.model.tables import BY_NAME, Table
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.conditions import Condition
from leadline.runner.judge import Judged
from leadline.runner.load import StoreRows
from leadline.runner.worker import DONE
from leadline.store.schema import arrow_table

Part = tuple[str, str, str]  # tenant, cluster, job


class StoreKeeping(Protocol):
    """What is needed of a store to keep verdicts."""

    def append(self, table: Table, rows: pa.Table) -> None:
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


def judged_to_ns(store: StoreKeeping) -> dict[str, int]:
    """End of the newest window judged, by analysis. Errors: StoreError."""
    found = store.query("SELECT analysis, max(end_ns) AS end_ns FROM leadline.analysis_run GROUP BY analysis")
    return {row["analysis"]: row["end_ns"] for row in found.to_pylist()}


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


def keep(store: StoreKeeping, analysis: Analysis, judged: Judged, revision: int) -> None:
    """Store the verdicts of a call and its run. Repeating this is harmless. Errors: StoreError."""
    for name, rows in judged.outcome.tables.items():
        store.append(BY_NAME[name], with_revision(rows, revision))
    store.append(ANALYSIS_RUN, run_row(analysis, judged, revision, time.monotonic_ns() - judged.began_ns))


def with_revision(rows: pa.Table, revision: int) -> pa.Table:
    """Verdicts with their revision; they come with 0."""
    if not revision:
        return rows
    place = rows.column_names.index("revision")
    return rows.set_column(place, rows.schema.field(place), pa.array(np.full(rows.num_rows, revision, np.int64)))


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
