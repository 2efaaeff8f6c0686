"""After any judgements of any windows, with a kill between any two appends, plain SQL gives the rows of the last
judgement of each window and nothing else; of spans, the word of the latest window that has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.incident import Names, rows_of

from leadline.analysis.spec import Window
from leadline.model.tables import BY_NAME, Identity, Table
from leadline.runner.judge import Judged
from leadline.runner.load import StoreRows
from leadline.runner.recent import Recent
from leadline.runner.store_verdicts import Run, VerdictStore, revision_of
from leadline.runner.worker import DONE, Outcome, digest
from leadline.store import Store

VERDICTS = [table for table in BY_NAME.values() if table.identity is Identity.REVISION]
WINDOWS = 4
KEYS = "abc"
OFTEN, ONCE = 10, 2  # times that each is tried: one table of each kind, and the others
KINDS = ("flow_volume", "ledger", "conflict", "symptom")  # of a cluster's windows, of a job's; spans of each
WINDOW_NS = 10


class KilledError(Exception):
    """The process died."""


class Dying:
    """A store whose process dies before, or after, an append."""

    def __init__(self, store: Store, dies: Iterator[str]) -> None:
        self.store, self.dies = store, dies
        self.query = store.query

    def append(self, table: Table, rows: pa.Table, overrules: pa.Array | None = None) -> None:
        how = next(self.dies, "")
        if how == "before":
            raise KilledError
        self.store.append(table, rows, overrules)
        if how == "after":
            raise KilledError


def row_of(table: Table, job: str, window: int, key: str, text: str) -> dict[str, Any]:
    """A row of a verdict about `key`, which says `text`."""
    end_ns = window * WINDOW_NS
    found: dict[str, Any] = {"analysis": "law", "version": 1, "revision": 0}
    columns = {column.name: column for column in table.columns}
    for name in (*table.order, *table.more_key):
        column = columns[name]
        found[name] = key if column.type in ("SYM", "STR") else ord(key) if "ns" not in name else 1
    if "end_ns" in columns and not table.newest:
        found["end_ns"] = end_ns
    if "window_ns" in columns:
        found["window_ns"] = WINDOW_NS
    if table.newest:
        found[table.newest] = end_ns
        found |= {"start_ns": 1} if "start_ns" in columns else {}
    if "job" in columns:
        found["job"] = job
    said = next(
        column for column in table.own
        if column.type in ("STR", "SYM", "F64", "I64", "U64") and column.name not in (*table.key, *found)
        and not column.of_all
    )  # fmt: skip
    found[said.name] = text if said.type in ("STR", "SYM") else len(text)
    return found


def judged(table: Table, job: str, window: int, told: Mapping[str, str], names: Names) -> tuple[Judged, pa.Table]:
    rows = rows_of(table, [row_of(table, job, window, key, text) for key, text in sorted(told.items())], names)
    outcome = Outcome(DONE, {table.name: rows}, digest=digest({table.name: rows}))
    of = Window((window - 1) * WINDOW_NS, window * WINDOW_NS, names.tenant, names.cluster, job)
    return Judged(of, outcome, 1, 0), rows


Judgement = tuple[int, dict[str, str], list[str]]  # window, what it says of which key, how the process dies
JUDGEMENTS = st.lists(
    st.tuples(
        st.integers(1, WINDOWS),
        st.dictionaries(st.sampled_from(KEYS), st.text("xyz", min_size=1, max_size=3)),
        st.lists(st.sampled_from(["", "before", "after"]), max_size=3),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("table", VERDICTS, ids=lambda table: table.name)
def test_plain_sql_gives_the_rows_of_the_last_judgements(store: Store, table: Table) -> None:
    of_job = any(column.name == "job" and not column.nullable for column in table.columns)
    analysis: Any = SimpleNamespace(name="law", version=1, writes=(table,), window_ns=WINDOW_NS, joint=False)
    memory = StoreRows(store, Recent(store))
    tried = iter(range(10**9))

    @settings(max_examples=OFTEN if table.name in KINDS else ONCE)
    @given(JUDGEMENTS)
    def law(judgements: list[Judgement]) -> None:
        number = next(tried)
        names = Names(cluster=f"law-{table.name}-{number}")
        job = "j" if of_job else ""
        writer = VerdictStore(store)
        before: dict[int, Run] = {}
        model = Model(table)
        for window, told, dies in judgements:
            one, rows = judged(table, job, window, told, names)
            earlier = before.get(window)
            revision = revision_of(analysis, one, earlier)
            if revision is None:
                continue
            deaths = iter(dies)
            for _ in range(len(dies) + 1):  # until it comes through: after a kill the window is judged again
                try:
                    dying = _over(writer, Dying(store, deaths))
                    dying.begin_window()
                    dying.store(analysis, one, revision, earlier)
                    dying.add_run(analysis, one, revision)
                    dying.end_window()
                    dying.store_runs()
                    break
                except KilledError:
                    continue
            before[window] = Run(1, revision, DONE, one.outcome.digest)
            model.judge(window, revision, rows)
        shown = [column.name for column in table.columns]
        found = store.query(f"SELECT * FROM leadline.{table.name} WHERE cluster = '{names.cluster}'")
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, model.rows(shown)))
        held = memory.stored(table, shown, [])
        mine = [row for row in held.to_pylist() if row["cluster"] == names.cluster]
        assert sorted(map(str, mine)) == sorted(map(str, model.rows(shown))), "as a live run reads them"

    law()


def _over(writer: VerdictStore, store: Any) -> VerdictStore:
    """The same writer over a store that dies. (What it remembers lives as long as its process.)"""
    writer._store = store
    return writer


class Model:
    """What should be read, kept the slow way: every judgement of every window."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._last: dict[int, list[dict[str, Any]]] = {}  # by window: rows of its last judgement
        self._revision: dict[int, int] = {}
        self._words: dict[Any, dict[str, Any]] = {}

    def judge(self, window: int, revision: int, rows: pa.Table) -> None:
        self._last[window] = [{**row, "revision": revision} for row in rows.to_pylist()]
        self._revision[window] = revision

    def rows(self, names: list[str]) -> list[dict[str, Any]]:
        every = [row for window in sorted(self._last) for row in self._last[window]]
        if self._table.newest:
            by_key = {tuple(row[name] for name in self._table.key): row for row in every}  # the latest window's
            every = list(by_key.values())
        return [{name: row[name] for name in names} for row in every]
