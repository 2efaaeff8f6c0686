"""The store as the views ask it: what was answered before, and nothing was written to since, is not worked out again.

    view ── query(sql) ──> asked before, and none of its tables written to since? ── yes ──> the same rows
                             └─ no ──> rows that count spelled as shortly as is right (`counting`) ──> the store

A statement costs the engine 4 to 8 ms of a core to think about however few rows it finds, and one that finds out which
revision of each verdict counts 25 to 45 ms. Nearly always every row counts, which is known after a quarter of that
time; and pages that follow ask the same of a table until something is written to it.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pyarrow as pa

from leadline.server import counting
from leadline.store import Store
from leadline.store.client import TableFacts
from leadline.store.config import Limits

ANSWER_BYTES_MAX = 1 << 20  # of one answer that is kept
BYTES_MAX = 32 << 20  # of all; what was asked longest ago goes
# Rows also go by age, and samples are rolled up, without an append: so long that may go unseen.
KEPT_S = 30.0
# The engine compiles an expression when it meets it for the fourth time: 30 to 300 ms, once, in the middle of an answer
# that would take 20. Over the few rows of an answer that never pays.
_NOT_COMPILED = "compile_expressions = 0, compile_aggregate_expressions = 0, compile_sort_description = 0"
_SET = re.compile(r"\bSETTINGS [\w\s=,.']+$")
_TABLES = re.compile(r"\bleadline\.(\w+)")
# Appends to a table, when it was looked through, its oldest and newest row.
_Span = tuple[int, float, tuple[int | None, int | None]]
_Key = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass(frozen=True, slots=True)
class _Answer:
    written: tuple[int, ...]  # to each table of the statement, before it was asked
    at_s: float
    rows: pa.Table


class Answering(Store):
    """A store, with a memory. Thread-safe. It is opened and closed by what it was made of."""

    def __init__(self, store: Store) -> None:
        # One and the same store: whoever starts, stops or writes to one does so to the other.
        self.__dict__ = store.__dict__
        if "_answers" not in self.__dict__:
            # Others write to a server's tables too, and nobody tells of that.
            self._judgements = None if self.config.url else counting.Judgements()
            if self._judgements is not None:
                store.listen(self._judgements.appended)
            self._answers: OrderedDict[_Key, _Answer] = OrderedDict()
            self._answers_bytes = 0
            self._spans: dict[str, _Span] = {}
            self._answers_lock = threading.Lock()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, *, limits: Limits | None = None) -> pa.Table:
        """See `Store.query`."""
        given = dict(parameters or {})
        tables = tuple(dict.fromkeys(_TABLES.findall(sql)))
        if limits is not None or not tables or self.config.url:
            return super().query(counting.shortened(sql, given, super().query), given, limits=limits)
        key = (sql, tuple((name, _hashable(value)) for name, value in sorted(given.items())))
        written = tuple(self.written(table) for table in tables)
        with self._answers_lock:
            known = self._answers.get(key)
            if known is not None and known.written == written and monotonic() - known.at_s < KEPT_S:
                self._answers.move_to_end(key)
                return known.rows
        asked_s = monotonic()
        rows = self._interpreted(counting.shortened(sql, given, self._interpreted, self._judgements), given)
        self._keep(key, _Answer(written, asked_s, rows))
        return rows

    def _interpreted(self, sql: str, parameters: dict[str, Any]) -> pa.Table:
        """Rows of a statement of which nothing is compiled."""
        more = "," if _SET.search(sql) else " SETTINGS"
        return super().query(f"{sql}{more} {_NOT_COMPILED}", parameters)

    def facts(self) -> list[TableFacts]:
        """See `Store.facts`. Tables that were not written to are not looked through again: all of them take 100 ms."""
        if self.config.url:
            return super().facts()
        names = list(self.tables)
        written = {name: self.written(name) for name in names}
        now_s = monotonic()
        with self._answers_lock:
            known = dict(self._spans)
        stale = [name for name in names if name not in known or not _holds(known[name], written[name], now_s)]
        if stale:
            sql = " UNION ALL ".join(
                f"SELECT '{name}' AS name, min({time}) AS oldest, max({time}) AS newest, count() AS n "
                f"FROM leadline.{name} SETTINGS final = 0"
                for name in stale
                for time in (self.tables[name].time,)
            )
            for row in super().query(sql).to_pylist():
                times = (row["oldest"], row["newest"]) if row["n"] else (None, None)
                known[row["name"]] = written[row["name"]], now_s, times
            with self._answers_lock:
                self._spans.update({name: known[name] for name in stale})
        stored = {row["table"]: row for row in super().query(self._parts_sql()).to_pylist()}
        found = []
        for name in names:
            local = self._layout.local(self.tables[name]).partition(".")[2]
            row = stored.get(local, {"rows": 0, "bytes": 0})
            found.append(TableFacts(name, row["rows"], row["bytes"], *known[name][2]))
        return found

    def forget(self) -> None:
        """Keep none of the answers so far."""
        with self._answers_lock:
            self._answers.clear()
            self._answers_bytes = 0

    def _keep(self, key: _Key, answer: _Answer) -> None:
        if answer.rows.nbytes > ANSWER_BYTES_MAX:
            return
        with self._answers_lock:
            before = self._answers.pop(key, None)
            self._answers[key] = answer
            self._answers_bytes += _size(key, answer) - (_size(key, before) if before else 0)
            while self._answers_bytes > BYTES_MAX:
                self._answers_bytes -= _size(*self._answers.popitem(last=False))


def _holds(span: _Span, written: int, now_s: float) -> bool:
    return span[0] == written and now_s - span[1] < KEPT_S


def _size(key: _Key, answer: _Answer) -> int:
    return len(key[0]) + int(answer.rows.nbytes) + 1000  # what Python takes for it besides


def _hashable(value: Any) -> Any:
    return tuple(_hashable(each) for each in value) if isinstance(value, list | tuple) else value
