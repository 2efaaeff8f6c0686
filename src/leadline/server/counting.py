"""Rows of verdicts that count, as the views ask for them: as `latest_sql` says, spelled shorter where that is the same.

    view ──> latest_sql(table, where) ──> the long text, between two marks ──> shortened: which rows do not count?
                                         none: all are read      some: all but those      many: the long text

`latest_sql` knows of any rows, and costs the engine 25 to 45 ms to think about, however few there are. Rows whose
window has no run that names their version and revision are found in 10 to 20 ms, nearly always there are none, and then
what is left to say takes 5 ms. What was found is right until something is appended that a window had told before
(`Judgements`), so it is found once an hour, not for each answer. To the engine the marks are comments: the long text is
right as it stands, too.

A row that was stored a moment ago counts here before the run that names it is stored, also where another job of its
window has one already.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.speakers import OWN_PART
from leadline.model.tables import BY_NAME, Identity, Table
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner import verdicts
from leadline.runner.verdicts import has_windows
from leadline.store.schema import quoted

UNCOUNTED_MAX = 200  # windows that are named in a statement
PARTS_MAX = 50_000  # of which it is known that they were judged; a job's is one of each analysis that judges jobs
FOUND_MAX = 500  # conditions of which it is known what does not count
HOUR_NS = 3600 * 10**9
_NO_JOB = "''"
_MARKED = re.compile(r"/\*counting (\{.*?\})\*/.*?/\*counted\*/", re.DOTALL)
_NAMED = re.compile(r"\{\s*(\w+)\s*:")
_TIME = re.compile(r"\b(end_ns|start_ns) (<=?|>=?) (\d{13,})\b")
Query = Callable[[str, dict[str, Any]], pa.Table]
Uncounted = tuple[tuple[Any, ...], ...]


@cache
def _writers(table: str) -> frozenset[str]:
    """Names of the analyses that write a table."""
    from leadline.analysis import ANALYSES  # loads kernels, which no command of a user needs

    return frozenset(each.name for each in ANALYSES if any(one.name == table for one in each.writes))


class Judgements:
    """What is known of rows that do not count, and whether it still holds. Thread-safe.

    Rows of the first judgement of a window change nothing: there were none before, and all of them count. Whatever else
    is appended (another revision or version, a run of a window that may have had one, rows nobody is sure of) does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: Counter[str] = Counter()  # by table, and of runs by analysis
        self._version: dict[str, int] = {}  # of each analysis
        self._ran_ns: dict[tuple[str, ...], int] = {}  # the newest window that was judged, of each part
        self._found: OrderedDict[tuple[Any, ...], tuple[tuple[int, ...], Uncounted | None]] = OrderedDict()

    def appended(self, table: Table, rows: pa.Table | None) -> None:
        """Hear of rows that were stored; None: of some that perhaps were."""
        if table.identity is not Identity.REVISION and table is not ANALYSIS_RUN:
            return
        with self._lock:
            if table is ANALYSIS_RUN:
                self._ran(rows)
            elif rows is None or not all(self._first(*each) for each in _judgements(rows)):
                self._changes[table.name] += 1

    def _first(self, analysis: str, version: int, revision: int) -> bool:
        known = self._version.get(analysis)
        self._version[analysis] = max(version, known or 0)
        return revision == 0 and known in (None, version)

    def _ran(self, rows: pa.Table | None) -> None:
        if rows is None:
            self._changes[ANALYSIS_RUN.name] += 1
            return
        names = ("tenant", "cluster", "analysis", "part", "window_ns", "end_ns", "version", "revision", "state")
        if len(self._ran_ns) > PARTS_MAX:  # of jobs of months: what is not known is looked for
            self._ran_ns.clear()
        for row in rows.select(names).to_pylist():
            part = (*(row[name] for name in names[:4]), str(row["window_ns"]))
            before_ns = self._ran_ns.get(part)
            self._ran_ns[part] = max(row["end_ns"], before_ns or 0)
            first = self._first(row["analysis"], row["version"], row["revision"])
            if not first or row["state"] != "done" or before_ns is None or row["end_ns"] <= before_ns:
                self._changes[f"{ANALYSIS_RUN.name} {row['analysis']}"] += 1

    def uncounted(self, table: Table, key: tuple[Any, ...], find: Callable[[], Uncounted | None]) -> Uncounted | None:
        """What `find` finds of a table, if it was not found before, and nothing changed since. Errors: as `find`."""
        with self._lock:
            now = self._at(table)
            known = self._found.get(key)
            if known is not None and known[0] == now:
                self._found.move_to_end(key)
                return known[1]
        found = find()
        with self._lock:
            self._found[key] = now, found
            self._found.move_to_end(key)
            if len(self._found) > FOUND_MAX:
                self._found.popitem(last=False)
        return found

    def _at(self, table: Table) -> tuple[int, ...]:
        runs = sorted(_writers(table.name))
        names = (table.name, ANALYSIS_RUN.name, *(f"{ANALYSIS_RUN.name} {each}" for each in runs))
        return tuple(self._changes[name] for name in names)


def _judgements(rows: pa.Table) -> Iterable[tuple[str, int, int]]:
    """(analysis, version, revision) of rows, each once; nearly always there is one."""
    told = [rows["analysis"].unique(), rows["version"].unique(), rows["revision"].unique()]
    if all(len(each) == 1 for each in told):
        return [tuple(each[0].as_py() for each in told)]
    names = ["analysis", "version", "revision"]
    found = pa.table({name: _decoded(rows[name]) for name in names}).group_by(names).aggregate([])
    return zip(*(found[name].to_pylist() for name in names), strict=True)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.string()) if pa.types.is_dictionary(column.type) else column


def latest_sql(table: Table, where: str = "", span: tuple[int, int] | None = None) -> str:
    """See `leadline.runner.verdicts.latest_sql`; with marks by which `shortened` knows it again."""
    long = verdicts.latest_sql(table, where, span)
    if "*/" in where or not (table.newest or has_windows(table)):
        return long
    told = json.dumps({"table": table.name, "where": where, "span": span}, separators=(",", ":"))
    return f"/*counting {told}*/{long}/*counted*/"


def shortened(sql: str, parameters: Mapping[str, Any], query: Query, judgements: Judgements | None = None) -> str:
    """The same statement, with what is between marks as short as is right by the rows that `query` finds now.

    Without `judgements` what does not count is looked for each time. Errors: as `query`.
    """

    def short(found: re.Match[str]) -> str:
        told = json.loads(found[1])
        table, where = BY_NAME[told["table"]], told["where"]
        names = set(_NAMED.findall(where))
        given = {name: value for name, value in parameters.items() if name in names}
        if judgements is None:
            uncounted = _Counting(table, where, told["span"]).uncounted(given, query)
        else:
            whole = _Counting(table, *_of_hours(where, told["span"]))
            key = (table.name, whole.where, *((name, str(value)) for name, value in sorted(given.items())))
            uncounted = judgements.uncounted(table, key, lambda: whole.uncounted(given, query))
        return found[0] if uncounted is None else _Counting(table, where).all_but(uncounted)

    return _MARKED.sub(short, sql) if "/*counting" in sql else sql


def _of_hours(where: str, span: tuple[int, int] | None) -> tuple[str, tuple[int, int] | None]:
    """The same condition with times of whole hours around those it names: it stays the same while time goes on."""

    def around(found: re.Match[str]) -> str:
        column, than, time_ns = found[1], found[2], int(found[3])
        return f"{column} {than} {_down(time_ns) if than[0] == '>' else _up(time_ns)}"

    return _TIME.sub(around, where), None if span is None else (_down(span[0]), _up(span[1]))


def _down(time_ns: int) -> int:
    return time_ns - time_ns % HOUR_NS


def _up(time_ns: int) -> int:
    return _down(time_ns) + HOUR_NS


class _Counting:
    """The rows of a table of verdicts that count, of those that fulfil a condition."""

    def __init__(self, table: Table, where: str, span: tuple[int, int] | None = None) -> None:
        self._table, self.where, self._span = table, where, span
        self._rows = f"leadline.{table.name}" + (f" WHERE ({where})" if where else "")
        self._more = "AND" if where else "WHERE"
        # How rows and runs name a window, and its judgement; which part of it, if a row tells that.
        length = () if table.newest else ("window_ns",)
        self._window = ("cluster", "analysis", table.newest or "end_ns", *length)
        self._ran = ("cluster", "analysis", "end_ns", *length)
        self._judged = (*self._window, "version", "revision")
        names_job = any(column.name == "job" for column in table.columns)
        self._part: tuple[str, ...] = () if table.newest else ("tenant", "ifNull(job, '')" if names_job else _NO_JOB)

    def uncounted(self, parameters: dict[str, Any], query: Query) -> Uncounted | None:
        """Judgements of windows (and parts) of which no row counts; None where they cannot be named."""
        found = query(self._uncounted_sql(), parameters)
        if found.num_rows > UNCOUNTED_MAX:
            return None
        uncounted = _tuples(found)
        if not uncounted:
            return ()
        width = len(self._window)
        known = self._known({each[:width] for each in uncounted}, query)
        if self._table.newest:  # what has no run at all counts
            return tuple(each for each in uncounted if each[:width] in known)
        # Of a window without any run the highest revision counts: that cannot be said in few words.
        return uncounted if all(each[:width] in known for each in uncounted) else None

    def _uncounted_sql(self) -> str:
        """Windows and parts with rows that no run names, each once; one more than may be named, if there are more."""
        judged, ran = ", ".join(self._judged), ", ".join((*self._ran, "version", "revision"))

        def runs(what: str, condition: str = "1") -> str:
            return f"(SELECT {what} FROM leadline.analysis_run WHERE state = 'done' AND {condition} AND {self._near()})"

        named = f"({judged}) NOT IN "
        if self._table.newest:
            named += runs(ran)
        else:
            tenant, job = self._part
            of_cluster, of_part = (
                runs(ran, "part = ''"),
                runs(f"{ran}, tenant, {'part' if job != _NO_JOB else job}", "part != ''"),
            )
            named += f"{of_cluster} AND ({judged}, {tenant}, {job}) NOT IN {of_part}"
            if job != _NO_JOB:  # what one tenant was told of a cluster: rows of any of its jobs
                of_tenant = runs(f"{ran}, tenant", f"startsWith(part, '{OWN_PART}')")
                named += f" AND ({judged}, {tenant}) NOT IN {of_tenant}"
        columns = ", ".join(f"{_plain(name)} AS c{place}" for place, name in enumerate((*self._judged, *self._part)))
        return f"SELECT DISTINCT {columns} FROM {self._rows} {self._more} {named} LIMIT {UNCOUNTED_MAX + 1}"

    def _near(self) -> str:
        """The runs of those windows that the rows are of, not of 400 days."""
        end = self._window[2]
        if self._table.newest:
            return f"end_ns IN (SELECT DISTINCT {end} FROM {self._rows})"
        low, high = self._span or (f"(SELECT min({end}) FROM {self._rows})", f"(SELECT max({end}) FROM {self._rows})")
        return f"end_ns BETWEEN {low} AND {high}"

    def _known(self, windows: set[tuple[Any, ...]], query: Query) -> set[tuple[Any, ...]]:
        """Those of these windows that have a run."""
        columns = ", ".join(f"{_plain(name)} AS c{place}" for place, name in enumerate(self._ran))
        found = query(
            f"SELECT DISTINCT {columns} FROM leadline.analysis_run WHERE state = 'done' "
            f"AND ({', '.join(self._ran)}) IN ({_literals(sorted(windows))})",
            {},
        )
        return set(_tuples(found))

    def all_but(self, uncounted: Uncounted) -> str:
        """The rows as a SELECT, without those of some judgements."""
        names = ", ".join(f"`{column.name}`" for column in self._table.columns)
        rows = f"SELECT {names} FROM {self._rows}"
        if left_out := _literals(uncounted):
            rows += f" {self._more} ({', '.join((*self._judged, *self._part))}) NOT IN ({left_out})"
        if not self._table.newest:
            return rows
        own = ", ".join(f"`{name}`" for name in self._table.key if name not in ("version", "revision"))
        return f"{rows} ORDER BY {self._table.newest} DESC, version DESC, revision DESC LIMIT 1 BY {own}"


def _plain(name: str) -> str:
    return name if name.endswith(("_ns", "version", "revision")) else f"toString({name})"


def _tuples(found: pa.Table) -> Uncounted:
    return tuple(sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True)))


def _literals(rows: Iterable[tuple[Any, ...]]) -> str:
    """Rows as tuples of a statement."""
    texts = (", ".join(quoted(each) if isinstance(each, str) else str(each) for each in row) for row in rows)
    return ", ".join(f"({text})" for text in texts)
