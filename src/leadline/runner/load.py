"""What an analysis is given: the rows of its window, from the store or from memory, by one and the same rules.

span of a read        rows that are given
plain                 time in [from - look_back, to)
verdicts by window    end_ns in (from - look_back, to]: those of the windows that end within
valid                 begin < to and (end is null or end > from - look_back); an end after `to` is given as null,
                      because at `to` it had not come: a window judged late sees what one judged in time saw
spans told again      of a span that many windows tell (`Table.newest`) first the newest row of each key is chosen,
                      then looked at whether it is in the span of the read; where each window that sees it tells it,
                      one that no window has told since from - look_back is over, whatever its end says
host rows             the first of these, after their times were mapped to cluster time (`clocks`)

Rows that are read as valid and name no cluster hold in every cluster: what an operator promises, for one. Whose rows
count in a window, and which tenants of a cluster are judged apart: see `whose`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.spec import Analysis, Read, Window
from leadline.model.accounts import EVERYWHERE
from leadline.model.tables import Identity, Table
from leadline.model.tables.fabric import CLOCK_FIT, RELATION
from leadline.runner.clock.clocks import (
    FIT_AGE_NS,
    FIT_COLUMNS,
    MESH,
    MESH_AGE_NS,
    MESH_EVERY_NS,
    SETTLE_NS,
    Margins,
    in_cluster_time,
    is_clocked,
    margins,
)
from leadline.runner.clock.coarse import COARSE
from leadline.runner.conditions import Condition, fulfilling, where
from leadline.runner.recent import CODED, Recent, in_type
from leadline.runner.whose import Evidence
from leadline.store.coded import distinct, own_words
from leadline.store.schema import ARROW_TYPES

INT64_MAX = 2**63 - 1
# Begin and end of rows that tell a span, by the names that tables use.
_SPANS = (("from_ns", "to_ns"), ("start_ns", "end_ns"), ("first_ns", ""))


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows of a table to take: those in a span of time (of host time, where `margin` says so) of one owner.

    Empty `cluster`, `job` or `writer`: of all of them.
    """

    table: Table
    columns: tuple[str, ...]
    from_ns: int  # look-back and margin included
    to_ns: int
    valid: bool = False
    cluster: str = ""
    tenant: str = ""
    job: str = ""
    writer: str = ""  # analysis whose verdicts are taken

    @property
    def span(self) -> tuple[str, str]:
        """Columns of begin and end of a table that is read as valid; the end is empty where rows have none."""
        names = {column.name for column in self.table.columns}
        for begin, end in _SPANS:
            if begin in names and (not end or end in names):
                return begin, end
        raise AssertionError(f"{self.table.name} is read as valid and tells no span")

    def of(self, name: str) -> tuple[str, ...]:
        """The values of `cluster`, `tenant` or `job` whose rows are taken; none: all are."""
        wanted: str = getattr(self, name)
        if not wanted:
            return ()
        return (wanted, EVERYWHERE) if name == "cluster" and self.valid else (wanted,)

    @property
    def conditions(self) -> tuple[list[Condition], list[Condition]]:
        """What rows fulfil: before the newest of each key is chosen, and after.

        Before are only conditions that all rows of a key fulfil or none, and that no window has told it for long.
        """
        every = [*self._in_span(), *(Condition(name, "in", words) for name in _OWNER if (words := self.of(name)))]
        if self.writer:
            every.append(Condition("analysis", "in", (self.writer,)))
        newest = self.table.newest
        if not newest:
            return every, []
        before = [each for each in every if each.column in self.table.key]
        if self.valid and not self.table.told_once:
            before.append(Condition(newest, ">", self.from_ns))
        return before, [each for each in every if each.column not in self.table.key]

    def _in_span(self) -> list[Condition]:
        time = self.table.time
        if self.valid:
            begin, end = self.span
            lasts = [Condition(end, ">", self.from_ns, null_too=True)] if end else []
            return [Condition(begin, "<", self.to_ns), *lasts]
        if ends_windows(self.table):
            return [Condition(time, ">", self.from_ns), Condition(time, "<=", self.to_ns)]
        return [Condition(time, ">=", self.from_ns), Condition(time, "<", self.to_ns)]


_OWNER = ("cluster", "tenant", "job")


def ends_windows(table: Table) -> bool:
    """Whether rows are verdicts on windows, so that those on one that ends with ours belong to it."""
    return table.identity is Identity.REVISION and table.time == "end_ns"


class Rows(Protocol):
    """Where rows come from."""

    def chosen(self, chosen: Chosen) -> pa.Table:
        """The rows, with the columns asked for in their Arrow types. Errors: StoreError, RefusedError("limit")."""

    def owners(self, chosen: Chosen) -> list[tuple[str, str, str]]:
        """(tenant, cluster, job) that have such rows, in order; job is empty unless it is among the columns."""

    def next_ns(self, table: Table, from_ns: int) -> int | None:
        """The smallest time of the rows of a table that is not before `from_ns`."""

    def count(self, chosen: Chosen) -> int:
        """About how many rows these are: those that a later one replaces may be counted too."""


class StoreReading(Protocol):
    """What is needed of a store to read rows."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Rows of a statement."""


class StoreRows:
    """Rows of a store."""

    def __init__(self, store: StoreReading, recent: Recent | None = None) -> None:
        """`recent`: what it holds in memory is not read from the store."""
        self._store, self._recent = store, recent

    def chosen(self, chosen: Chosen) -> pa.Table:
        """See `Rows`."""
        before, after = chosen.conditions
        names = tuple(dict.fromkeys((*chosen.columns, *(each.column for each in after))))
        return as_declared(chosen, fulfilling(self.stored(chosen.table, names, before), after))

    def stored(self, table: Table, names: Sequence[str], conditions: Sequence[Condition]) -> pa.Table:
        """These columns of the rows that fulfil conditions."""
        held = self._recent.stored(table, names, conditions) if self._recent else None
        if held is not None:
            return held
        condition, parameters = where(conditions)
        return self._selected(names, f"leadline.{table.name}", condition, parameters)

    def _selected(self, columns: Sequence[str], source: str, where: str, parameters: dict[str, Any]) -> pa.Table:
        names = ", ".join(f"`{name}`" for name in columns)
        return self._store.query(f"SELECT {names} FROM {source} WHERE {where} {CODED}", parameters)

    def owners(self, chosen: Chosen) -> list[tuple[str, str, str]]:
        """See `Rows`. Whether a row was appended once or twice does not matter, and not to ask is ten times as fast."""
        names = owner_columns(chosen)
        if chosen.table.newest:
            return owners_of(self.chosen(replace(chosen, columns=names)))
        held = self._recent.stored(chosen.table, names, chosen.conditions[0]) if self._recent else None
        if held is not None:
            return owners_of(held)
        condition, parameters = where(chosen.conditions[0])
        job = "toString(ifNull(job, ''))" if "job" in chosen.columns else "''"
        found = self._store.query(
            f"SELECT DISTINCT tenant, cluster, {job} AS part FROM leadline.{chosen.table.name} WHERE {condition}",
            parameters,
        )
        return sorted((row["tenant"], row["cluster"], row["part"]) for row in found.to_pylist())

    def next_ns(self, table: Table, from_ns: int) -> int | None:
        """See `Rows`."""
        after = [Condition(table.time, ">=", from_ns)]
        held = self._recent.stored(table, (table.time,), after) if self._recent else None
        if held is not None:
            least: int | None = pc.min(held[table.time]).as_py()
            return least
        condition, parameters = where(after)
        found = self._store.query(
            f"SELECT min({table.time}) AS at, count() AS n FROM leadline.{table.name} "
            f"WHERE {condition} SETTINGS final = 0",
            parameters,
        ).to_pylist()[0]
        return int(found["at"]) if found["n"] else None

    def count(self, chosen: Chosen) -> int:
        """See `Rows`."""
        before = chosen.conditions[0]
        held = self._recent.stored(chosen.table, ("tenant",), before) if self._recent else None
        if held is not None:
            return int(held.num_rows)
        condition, parameters = where(before)
        found = self._store.query(
            f"SELECT count() AS n FROM leadline.{chosen.table.name} WHERE {condition}", parameters
        )
        return int(found["n"][0].as_py())


def owner_columns(chosen: Chosen) -> tuple[str, ...]:
    return ("tenant", "cluster", *(["job"] if "job" in chosen.columns else []))


def owners_of(rows: pa.Table) -> list[tuple[str, str, str]]:
    """(tenant, cluster, job) of rows, each once, in order; job is empty where there is none."""
    if not rows.num_rows:
        return []
    found, _ = distinct(rows, ("tenant", "cluster", *(["job"] if "job" in rows.column_names else [])))
    return sorted({(tenant or "", cluster or "", (job[0] or "") if job else "") for tenant, cluster, *job in found})


def as_declared(chosen: Chosen, found: pa.Table) -> pa.Table:
    """Rows with the chosen columns in the types of their table; ends that had not come by `to_ns` are null."""
    columns = []
    for name in chosen.columns:
        wanted = ARROW_TYPES[chosen.table.column(name).type]
        column = in_type(found[name], wanted)
        if chosen.valid and name == chosen.span[1] and chosen.table.column(name).nullable:
            column = pc.if_else(pc.greater(column, chosen.to_ns), pa.scalar(None, wanted), column)
        columns.append(column)
    return pa.table(columns, names=list(chosen.columns)).unify_dictionaries()


# --- what a call is given -----------------------------------------------------------------------------------------


def given(analysis: Analysis, window: Window, rows: Rows) -> list[pa.Table]:
    """The tables that a call is given, in the order of its reads. Errors: StoreError, RefusedError("limit")."""
    evidence = _evidence(analysis, window, rows)
    fits = evidence.counting(CLOCK_FIT, fits_of(analysis, window, rows))
    return [_read(read, window, rows, fits, evidence) for read in analysis.reads]


def _evidence(analysis: Analysis, window: Window, rows: Rows) -> Evidence:
    back_ns = max(read.look_back_ns for read in analysis.reads)

    def look(table: Table, names: tuple[str, ...]) -> pa.Table:
        return rows.chosen(choice(Read(table, names, back_ns, table is RELATION), window, names, Margins()))

    return Evidence(analysis, window, look)


def _read(read: Read, window: Window, rows: Rows, fits: pa.Table, evidence: Evidence) -> pa.Table:
    table, clocked = read.table, is_clocked(read.table)
    wanted = tuple(name for name in read.names if name != "bound_ns" or not _adds_bound(table))
    needed = (*wanted, *(name for name in ("clock", table.time) if name not in wanted)) if clocked else wanted
    chosen = choice(read, window, evidence.needed(table, needed), margins(fits) if clocked else Margins())
    found = evidence.counting(table, rows.chosen(chosen)).select(needed)
    if read.of_ranks and window.job:
        found = of_ranks(found, window.job)
    if not clocked:
        return found.append_column("bound_ns", pa.nulls(found.num_rows, pa.int64())) if wanted != read.names else found
    mapped = in_cluster_time(table, found, fits)
    times = mapped[table.time]
    inside = pc.and_(pc.greater_equal(times, window.from_ns - read.look_back_ns), pc.less(times, window.to_ns))
    return mapped.filter(inside).select(read.names)


def of_ranks(relation: pa.Table, job: str) -> pa.Table:
    """The relations whose child is a rank of a job."""
    child = relation["child"].combine_chunks()
    child = child.combine_chunks() if isinstance(child, pa.ChunkedArray) else child
    begin = f"rank:{job}/"
    if isinstance(child, pa.DictionaryArray):  # each word is looked at once
        kept = pc.starts_with(child.dictionary, begin).take(child.indices)
    else:
        kept = pc.starts_with(child, begin)
    return own_words(relation.filter(kept))


def _adds_bound(table: Table) -> bool:
    """Whether `bound_ns` is the runner's: some tables have a column of their own of that name."""
    return table.host_row and not any(column.name == "bound_ns" for column in table.columns)


def choice(read: Read, window: Window, columns: Sequence[str], margin: Margins) -> Chosen:
    """The rows of a read that a window may be given, whoever's they are."""
    low, high = (margin.low_ns, margin.high_ns) if is_clocked(read.table) else (0, 0)
    of_job = bool(window.job) and any(column.name == "job" for column in read.table.columns)
    return Chosen(
        read.table,
        tuple(columns),
        max(window.from_ns - read.look_back_ns + low, -INT64_MAX),
        min(window.to_ns + high, INT64_MAX),
        read.valid,
        window.cluster,
        window.tenant if of_job else "",
        window.job if of_job else "",
    )


def fits_of(analysis: Analysis, window: Window, rows: Rows) -> pa.Table:
    """The clock fits that rows of the window may need: none, unless the analysis reads rows with host times.

    Coarse ones of an hour, of which there are few; of those of the mesh one in five seconds, of some minutes. Who finds
    clocks reads the times that hosts showed: its own verdicts map none of its rows.
    """
    clocked = [read for read in analysis.reads if is_clocked(read.table)]
    if not clocked:
        return pa.table({name: pa.array([], ARROW_TYPES[CLOCK_FIT.column(name).type]) for name in FIT_COLUMNS})
    back = max(read.look_back_ns for read in clocked)
    coarse = rows.chosen(_fits(window, window.from_ns - back - FIT_AGE_NS, window.to_ns, COARSE))
    if CLOCK_FIT in analysis.writes:
        return coarse
    settled_ns = window.to_ns - SETTLE_NS
    mesh = rows.chosen(_fits(window, window.from_ns - back - SETTLE_NS - MESH_AGE_NS, settled_ns, MESH))
    every = mesh.filter(pa.array(mesh["end_ns"].to_numpy() % MESH_EVERY_NS == 0))
    return pa.concat_tables([coarse, every]).unify_dictionaries()


def _fits(window: Window, from_ns: int, to_ns: int, writer: str) -> Chosen:
    chosen = choice(Read(CLOCK_FIT, FIT_COLUMNS), window, FIT_COLUMNS, Margins())
    return replace(chosen, from_ns=max(from_ns, -INT64_MAX), to_ns=to_ns, writer=writer)


def rows_in(tables: Iterable[pa.Table]) -> int:
    """Rows of all tables."""
    return sum(table.num_rows for table in tables)
