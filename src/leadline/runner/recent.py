"""The newest rows of each table, kept in memory as they are stored: what a live judgement reads of an embedded store.

    append ── the store has the rows ──> pending ──┐
    first read ── SELECT ... WHERE end > t ────────┴─> rows since t, each identity once ──> conditions ──> rows

A statement costs the engine 5 to 30 ms of a core however few rows it finds, and waits for the appends before it; read
anew for each window of two seconds that was nine tenths of the time it took to judge one. What is held here is what
the store would give, because this process is the only one that writes to it.

Source of the idea: incremental maintenance of a materialised view (Gupta, Mumick: "Maintenance of Materialized Views",
IEEE Data Engineering Bulletin 18(2), 1995, section 3), here of selections only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.tables import Table
from leadline.model.units import S
from leadline.runner.conditions import Condition, fulfilling, where
from leadline.runner.identity import Hashes, hashes
from leadline.runner.verdicts import newer_by, newer_columns
from leadline.store.client import Store
from leadline.store.coded import own_words
from leadline.store.schema import arrow_schema, is_verdicts

# Of one table: one with more in the span of a read is read from the store. 64 hosts have 480,000 samples in what is
# read; with the two million rows of 256 hosts held the runner took 0.38 cores instead of 0.17, and the engine 0.07 less
# (bench.live, 2026-11-28).
ROWS_MAX = 600_000
BYTES_MAX = 128 << 20  # of one table
PIECES_MAX = 32  # that rows lie in: more make each look at them slow
# Kept beyond what was asked for last: a window that is judged again asks for older rows, 64 s later at most
# (`windows.DEBOUNCE_NS_MAX`).
BACK_NS = 70 * S
GONE_SHARE = 4  # rows are let go of when they have become a quarter more: each time all that are kept are copied
AGAIN_NS = 60 * S  # a table that had too many rows is tried again when the reads have moved on so far
_LITTLE = 20_000  # rows: fewer are not worth to let go of
EVER = -(2**63)
# Words as the engine codes them: to write them out and code them again takes seconds for millions of rows.
CODED = "SETTINGS output_format_arrow_low_cardinality_as_dictionary = 1"


# Table, column that says how far back a read goes (empty: all rows are read), the one analysis whose rows are read.
_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Held:
    """Rows of a table whose column is at least `from_ns`, or null; of their columns those that are read."""

    from_ns: int
    names: tuple[str, ...]  # of columns: of `rows`
    taken: tuple[str, ...]  # these and those of the key, of rows that are `pending`
    rows: pa.Table
    hash_N: Hashes  # of the key of each row
    sorted_N: Hashes  # the same in order
    asked_ns: int  # the least since rows were last let go
    kept: int = 0  # rows at that time
    pending: list[pa.Table] = field(default_factory=list)
    pending_rows: int = 0


class Recent:
    """Rows that were stored of late. `appended` may be called by any thread, `stored` by one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()  # what is held, and what is pending
        self._held: dict[_Key, _Held] = {}
        self._too_many: dict[_Key, int] = {}
        self._read_yet: dict[_Key, dict[str, None]] = {}  # columns
        store.listen(self.appended)

    def close(self) -> None:
        """Hear of no more rows."""
        self._store.unlisten(self.appended)

    def forget(self) -> None:
        """Hold nothing: the next read of each table begins anew. Called by any thread."""
        with self._lock:
            self._held.clear()

    def appended(self, table: Table, rows: pa.Table | None) -> None:
        """Hear of rows that were stored; None: of some that perhaps were."""
        with self._lock:
            for key in [key for key in self._held if key[0] == table.name]:
                held = self._held[key]
                if rows is None or held.pending_rows + rows.num_rows > ROWS_MAX:  # unknown, or nobody reads them
                    del self._held[key]
                else:
                    fresh = fulfilling(rows, _writer(key)).select(held.taken)
                    held.pending.append(fresh)
                    held.pending_rows += fresh.num_rows

    def stored(self, table: Table, names: Sequence[str], conditions: Sequence[Condition]) -> pa.Table | None:
        """The rows with these columns that the store would give, in any order; None: it has to be asked.

        Errors: StoreError, RefusedError("limit").
        """
        least = next((each for each in conditions if each.how in (">", ">=")), None)
        from_ns = least.value if least and isinstance(least.value, int) else EVER
        writers = next((each.value for each in conditions if each.column == "analysis" and each.how == "in"), ())
        writer = writers[0] if isinstance(writers, tuple) and len(writers) == 1 else ""
        key = table.name, least.column if least else "", str(writer)
        if is_verdicts(table):  # rows that take others back are held, and never given out
            conditions = [*conditions, Condition("revision", ">=", 0)]
        needed = dict.fromkeys((*names, *(each.column for each in conditions)))
        held = self._now(key, table, from_ns)
        if held is None or from_ns < held.from_ns or not needed.keys() <= set(held.names):
            self._read_yet.setdefault(key, {}).update(needed)
            held = self._read(key, table, least, from_ns if held is None else min(from_ns, held.from_ns))
        if held is None:
            return None
        held.asked_ns = min(held.asked_ns, from_ns)
        return fulfilling(held.rows.select(list(needed)), conditions).select(list(names))

    def _now(self, key: _Key, table: Table, from_ns: int) -> _Held | None:
        """What is held, with all that was stored so far."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            pending, held.pending, held.pending_rows = held.pending, [], 0
        if pending:
            _take(held, table, pa.concat_tables(pending))
        if held.rows.num_rows > held.kept + held.kept // GONE_SHARE + _LITTLE:
            _let_go(held, key[1])
            if held.rows.num_rows > ROWS_MAX or held.rows.nbytes > BYTES_MAX:
                self._drop(key, from_ns)
                return None
        return held

    def _drop(self, key: _Key, from_ns: int) -> None:
        self._too_many[key] = from_ns
        with self._lock:
            self._held.pop(key, None)

    def _read(self, key: _Key, table: Table, least: Condition | None, from_ns: int) -> _Held | None:
        """Hold the rows since then, unless they are too many."""
        if from_ns <= self._too_many.get(key, EVER - AGAIN_NS - 1) + AGAIN_NS:
            return None
        since = [Condition(least.column, ">=", from_ns, null_too=least.null_too)] if least else []
        condition, parameters = where([*since, *_writer(key)])
        source = f"FROM leadline.{table.name} WHERE {condition}"
        count = self._store.query(f"SELECT count() AS n {source} SETTINGS final = 0", parameters)["n"][0].as_py()
        if count > ROWS_MAX:
            self._too_many[key] = from_ns
            return None
        own = [least.column] if least else []
        kept = tuple(dict.fromkeys((*self._read_yet[key], *own, *newer_columns(table))))
        taken = tuple(dict.fromkeys((*kept, *table.key)))
        none = np.zeros(0, np.uint64)
        held = _Held(from_ns, kept, taken, arrow_schema(table).empty_table().select(kept), none, none, from_ns)
        with self._lock:  # first: rows that are stored from here on are heard of
            self._held[key] = held
        names = ", ".join(f"`{name}`" for name in taken)
        schema = pa.schema([arrow_schema(table).field(name) for name in taken])
        try:
            found = self._store.query(f"SELECT {names} {source} {CODED}", parameters)
            rows = pa.table([in_type(found[each.name], each.type) for each in schema], schema=schema)
        except BaseException:
            with self._lock:
                self._held.pop(key, None)
            raise
        _take(held, table, rows)
        held.kept = held.rows.num_rows
        return self._now(key, table, from_ns)


def _writer(key: _Key) -> list[Condition]:
    return [Condition("analysis", "in", (key[2],))] if key[2] else []


def in_type(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """A column that the engine gave, in the type of its table."""
    if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    return column if column.type == wanted else column.cast(wanted)


def _take(held: _Held, table: Table, fresh: pa.Table) -> None:
    """Hold more rows: of one identity the one that counts."""
    rows, fresh_N = pa.concat_tables([held.rows, fresh.select(held.names)]), hashes(table, fresh)
    hash_N = np.concatenate([held.hash_N, fresh_N])
    fresh_N = np.sort(fresh_N)
    places = np.searchsorted(held.sorted_N, fresh_N)
    met = held.sorted_N.take(places, mode="clip") == fresh_N if len(held.sorted_N) else np.zeros(0, bool)
    if met.any() or (fresh_N[1:] == fresh_N[:-1]).any():
        order = np.arange(len(hash_N))
        if by := newer_by(table, rows):
            order = np.lexsort((order, *by))
        last = len(order) - 1 - np.unique(hash_N[order][::-1], return_index=True)[1]
        chosen = np.sort(order[last])
        rows, hash_N = rows.take(pa.array(chosen)), hash_N[chosen]
        held.sorted_N = np.sort(hash_N)
    else:
        held.sorted_N = np.insert(held.sorted_N, places, fresh_N)
    held.rows, held.hash_N = _in_one(rows), hash_N


def _in_one(rows: pa.Table) -> pa.Table:
    many = rows.num_columns and rows.column(0).num_chunks > PIECES_MAX
    return rows.unify_dictionaries().combine_chunks() if many else rows


def _let_go(held: _Held, column: str) -> None:
    """Let go of what is older than what was asked for of late, and of words that no row has any more."""
    if column:
        held.from_ns = max(held.from_ns, held.asked_ns - BACK_NS)
        kept = pc.fill_null(pc.greater_equal(held.rows[column], held.from_ns), True)
        held.rows, held.hash_N = held.rows.filter(kept), held.hash_N[kept.to_numpy()]
        held.sorted_N = np.sort(held.hash_N)
        held.asked_ns = 2**63 - 1
    held.rows = own_words(held.rows)
    held.kept = held.rows.num_rows
