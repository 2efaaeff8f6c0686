"""What a table is: columns, key, identity, how long it is kept.

Everything else about a table derives from its spec: the Arrow schema and the ClickHouse DDL (`store`), the
row checks of `/api/v1/rows` (`wire`), the API schema (`server`) and `docs/tables.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Type(StrEnum):
    """Column types, by the names the contracts use."""

    SYM = "SYM"  # string of few distinct values
    SYMS = "SYMS"  # set of such strings
    STR = "STR"
    I64 = "I64"
    U64 = "U64"
    U128 = "U128"  # 16 bytes, little-endian in memory, 32 hex digits in text
    F64 = "F64"
    BOOL = "BOOL"
    MAP = "MAP"  # string to string


SYM, SYMS, STR, I64, U64, U128, F64, BOOL, MAP = Type


DAY = 24  # hours, for `keep_hours`


class Identity(StrEnum):
    """When two stored rows are the same row.

    KEY: the same key is the same row and the one appended last is read (metric samples, relations). A retry is
    harmless by itself.
    BATCH: rows are only repeated by a retry, which carries the same batch id; the row is known by its key, its
    batch and its place in the batch.
    REVISION: a verdict row is known by its key and the analysis that wrote it. Where a window was judged again the
    row with the highest version and revision is read, and none where that judgement no longer has it.
    """

    KEY = "key"
    BATCH = "batch"
    REVISION = "revision"


class Partition(StrEnum):
    """Span of one stored partition; the unit in which old rows are dropped."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    NONE = "none"  # small tables whose rows are rewritten with a later time


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, type, unit (None for names, ids and texts), meaning, whether it may be null.

    `clocked`: a time stamped by the row's own clock (`clock`); the runner maps it to cluster time before an analysis
    sees it. Lengths of time and times that are cluster time already are not.
    `of_all`: what other tenants did is in it, though the row is one tenant's: told to the role operator; a tenant reads
    null. Such a column is nullable and of no key.
    """

    name: str
    type: Type
    unit: str | None
    doc: str
    nullable: bool = False
    clocked: bool = False
    of_all: bool = False


TENANT = Column("tenant", SYM, None, "whose row this is")
CLUSTER = Column("cluster", SYM, None, "cluster that the row is about")
HOST = Column("host", SYM, None, "host that saw it")
CLOCK = Column("clock", SYM, None, "clock that stamped it: host and boot id, `n12/7f3a`")
BATCH = Column("batch", U128, None, "id of the batch the row came in")
BATCH_ROW = Column("batch_row", U64, None, "place of the row in its batch")
ANALYSIS = Column("analysis", SYM, None, "analysis that wrote the row")
VERSION = Column("version", I64, None, "version of that analysis")
REVISION = Column("revision", I64, None, "0 at first, higher when late rows changed the verdict")
"""Stored below 0 (-1 for revision 0, -2 for 1) it takes back the row of its key; readers never see such a row."""


@dataclass(frozen=True, slots=True)
class Former:
    """What a table called things up to schema version 4: its rows of then are read from stores, bundles and senders.

    `columns`: former name by the name of today. `words`: by column, pairs of what was written and what is written
    today: whole values of a SYM, parts of a STR (JSON), each long enough to be nothing else.
    """

    name: str = ""  # of the table; empty: as today
    columns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


AS_TODAY = Former()


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `own` are the columns the table is about; `columns` adds what its kind of row always has.

    `order` is the sort key after tenant and cluster; with `more_key` it is what `Identity` calls the key.
    `time` names the column that rows are read and partitioned by. `keep_hours` is the age at which rows are dropped,
    counted from `time`, or from the column `age` where that is another one (a row whose age is null is kept).
    `newest` names the column whose greatest value counts where rows of one key differ; empty: the last one written.
    Verdicts that tell a span instead of a window need one, with the end of the window that reports it: many windows tell
    the same span, and they are not judged in order. `told_once`: an open span is told by one window and holds until
    another tells its end; else each window that sees it tells it, and a span that none has told for long is over.
    """

    name: str
    doc: str
    own: tuple[Column, ...]
    order: tuple[str, ...]
    time: str
    keep_hours: int
    identity: Identity
    written_by: str
    more_key: tuple[str, ...] = ()
    partition: Partition = Partition.MONTH
    host_row: bool = False
    age: str = ""
    newest: str = ""
    told_once: bool = False
    former: Former = field(default=AS_TODAY, hash=False)  # it holds mappings
    columns: tuple[Column, ...] = field(init=False)

    def __post_init__(self) -> None:
        extra: tuple[Column, ...] = (TENANT, CLUSTER)
        if self.host_row:
            extra += (HOST, CLOCK)
        behind: tuple[Column, ...] = ()
        if self.identity is Identity.BATCH:
            behind = (BATCH, BATCH_ROW)
        elif self.identity is Identity.REVISION:
            behind = (ANALYSIS, VERSION, REVISION)
        object.__setattr__(self, "columns", extra + self.own + behind)
        names = [column.name for column in self.columns]
        assert len(set(names)) == len(names), f"{self.name}: a column is declared twice"
        for column in self.columns:
            assert column.nullable or not column.of_all, f"{self.name}: {column.name} is of all and not nullable"
        assert not self.of_all & {*self.key, self.time}, f"{self.name}: a column of the key is of all"
        for name in (*self.former.columns, *self.former.words):
            assert name in names, f"{self.name}: {name} has a former name or words and is not declared"
        for name in (*self.key, self.time, self.aged_by, *([self.newest] if self.newest else [])):
            assert name in names, f"{self.name}: key, time, age or newest column {name} is not declared"

    def today(self, name: str) -> str:
        """The name of a column: as given, or, where that is a former name, the one that it has since."""
        return next((own for own, former in self.former.columns.items() if former == name), name)

    def shown(self, names: Iterable[str], *, to_operator: bool) -> tuple[str, ...]:
        """Columns as a SELECT names them: what is for operators as null to others."""
        hidden = frozenset() if to_operator else self.of_all
        return tuple(f"if(1, NULL, `{name}`) AS `{name}`" if name in hidden else f"`{name}`" for name in names)

    @property
    def of_all(self) -> frozenset[str]:
        """Names of the columns that tell of other tenants too."""
        return frozenset(column.name for column in self.columns if column.of_all)

    @property
    def aged_by(self) -> str:
        """Name of the column that a row's age is counted from."""
        return self.age or self.time

    @property
    def key(self) -> tuple[str, ...]:
        """Names of all columns that make a row itself, in sort order."""
        key = ("tenant", "cluster", *self.order, *self.more_key)
        if self.identity is Identity.BATCH:
            return (*key, BATCH.name, BATCH_ROW.name)
        if self.identity is Identity.REVISION:
            return (*key, ANALYSIS.name)
        return key

    def column(self, name: str) -> Column:
        """The column of that name. Errors: KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def given(self) -> tuple[Column, ...]:
        """The columns a sender gives: all but those that the way in adds (tenant, cluster, batch)."""
        added = {TENANT.name, CLUSTER.name, BATCH.name, BATCH_ROW.name}
        return tuple(column for column in self.columns if column.name not in added)
