"""Spans that were told as lasting and of which no window speaks any more: closed at the time they were seen last.

An anomaly, a symptom or an incident is told again by each window that still sees it, and told once more with its end.
Where nobody judges for hours (Leadline was off, a job's telemetry ended for good) that end is never seen: without this
the row would last for ever, be read by every window, and cost every reader the question whether it is true.

What is written is no verdict of an analysis: `end_ns` is when a window saw it last, and `seen_ns` a ns after that
(`model.incidents.is_unwatched`), so that a window which is judged later and sees it still is the newer word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.incidents import UNWATCHED_NS
from leadline.model.tables import TABLES, Table
from leadline.model.tables.verdicts import INCIDENT
from leadline.runner.store_verdicts import StoreWriting

SPANS: tuple[Table, ...] = tuple(
    table
    for table in TABLES
    if table.newest and not table.told_once and "end_ns" in {column.name for column in table.columns}
)
"""Tables of spans that each window tells again."""
ROWS_MAX = 100_000  # closed of a table in one look; the rest after the next start


def close_unwatched(store: StoreWriting, watched_ns: Callable[[str], int], since_ns: int) -> int:
    """Close the open spans that their analysis should have told again and has not. Returns: how many.

    `watched_ns`: of an analysis by its name, the time before which a span it last told is judged by no window any more.
    `since_ns`: spans told last before it were looked at already. Errors: StoreError.
    """
    closed = 0
    for table in SPANS:
        where = f"`{table.newest}` >= {{since:Int64}} AND isNull(end_ns)"
        sql = f"SELECT * FROM leadline.{table.name} WHERE {where} LIMIT {ROWS_MAX}"
        rows = store.query(sql, {"since": since_ns})
        last = {name: watched_ns(name) for name in pc.unique(rows["analysis"].cast(pa.string())).to_pylist()}
        names = rows["analysis"].cast(pa.string()).to_pylist()
        seen_N = rows[table.newest].to_numpy()
        gone_N = np.array([seen < last[name] for seen, name in zip(seen_N, names, strict=True)], bool)
        if gone_N.any():
            rows = closed_rows(table, rows.filter(pa.array(gone_N)))
            store.append(table, rows)
            closed += rows.num_rows
    return closed


def closed_rows(table: Table, rows: pa.Table) -> pa.Table:
    """Open spans as they are closed: over since a window saw them last."""
    seen_N = rows[table.newest].to_numpy()
    end_N = np.maximum(seen_N, rows["start_ns"].to_numpy())
    given: dict[str, Any] = {
        "end_ns": pa.array(end_N, pa.int64()),
        table.newest: pa.array(end_N + UNWATCHED_NS, pa.int64()),
    }
    if table is INCIDENT:
        given["state"] = pa.array(["over"] * rows.num_rows, pa.string()).dictionary_encode()
        ends = zip(rows["symptoms"].to_pylist(), end_N.tolist(), strict=True)
        given["symptoms"] = pa.array([_ended(text, end_ns) for text, end_ns in ends], pa.string())
    names = [column.name for column in table.columns]
    return pa.table({name: given.get(name, rows[name]) for name in names})


def _ended(text: str, end_ns: int) -> str:
    """The symptoms of an incident, those that lasted over with it. What is no list of ours stays as it is."""
    try:
        symptoms = json.loads(text)
    except ValueError:
        return text
    if not isinstance(symptoms, list):
        return text
    return json.dumps([_over(each, end_ns) for each in symptoms], ensure_ascii=False, separators=(",", ":"))


def _over(symptom: Any, end_ns: int) -> Any:
    if isinstance(symptom, Mapping) and "end_ns" in symptom and symptom["end_ns"] is None:
        return {**symptom, "end_ns": end_ns}
    return symptom
