"""Bringing a stored schema to the declared one, forwards only.

What a store has is read from the engine's own catalogue and compared with the specs. A column that was added
to a spec, another compression (of parts written from then on), a changed age limit and changed table settings are
brought in by themselves. Everything else (a
column gone, another type, another key) would lose or rewrite rows: that needs a migration written by hand, in
`MIGRATIONS`, and a higher `SCHEMA_VERSION`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from leadline.model.errors import StoreError
from leadline.model.tables import Column, Table
from leadline.store.revisions import before_names, latest_sql, today_sql
from leadline.store.schema import (
    DATABASE,
    HIDDEN,
    MERGE_LIMIT,
    Layout,
    clickhouse_type,
    codec,
    create_statements,
    is_verdicts,
    partition_key,
    sorting_key,
    table_settings,
    ttl_clause,
)

SCHEMA_VERSION = 6
RENAMED_UP_TO = 4  # the last version whose stores have the names of `Table.former`

# Declared before, written by nobody until this version changed their columns: nothing is lost by making them anew.
_NEVER_WRITTEN = {
    2: ("message", "ledger", "sle", "sle_loss"), 3: ("anomaly", "incident", "cause"), 6: ("delay",),
}  # fmt: skip

# (version that it leads to, table, statements), oldest first; run once, before the comparison.
MIGRATIONS: tuple[tuple[int, str, tuple[str, ...]], ...] = tuple(
    (version, table, (f"DROP TABLE IF EXISTS {DATABASE}.{table}", f"DROP TABLE IF EXISTS {DATABASE}.{table}_local"))
    for version, tables in _NEVER_WRITTEN.items()
    for table in tables
)

_TTL = re.compile(r" TTL (.*?)(?: SETTINGS |$)")
_SETTING = re.compile(r"(\w+) = (\w+)")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """What the engine's catalogue says about one table."""

    name: str
    sorting_key: str
    partition_key: str
    engine_full: str
    columns: Mapping[str, str] = field(default_factory=dict)  # name -> type, in order
    codecs: Mapping[str, str] = field(default_factory=dict)  # name -> `CODEC(Delta(8), ZSTD(1))`

    @property
    def ttl(self) -> str:
        found = _TTL.search(self.engine_full)
        return found.group(1) if found else ""

    @property
    def settings(self) -> dict[str, str]:
        return dict(_SETTING.findall(self.engine_full.rpartition(" SETTINGS ")[2]))


def check_version(stored: int, where: str, newest: int = SCHEMA_VERSION) -> None:
    """Errors: StoreError if the store was made by a newer Leadline."""
    if stored > newest:
        raise StoreError(
            f"the store at {where} has schema version {stored}, this Leadline knows up to {newest}; open it "
            f"with the Leadline that made it (or a newer one), or set store.path to another directory"
        )


def migration_statements(stored: int, tables: tuple[Table, ...], layout: Layout) -> list[str]:
    """The written migrations that lead from version `stored` to ours, in order; `ON CLUSTER` may stand at their end."""
    names = {table.name for table in tables}
    return [
        f"{statement}{layout.on_cluster}"
        for version, table, statements in MIGRATIONS
        if version > stored and table in names
        for statement in statements
    ]


def statements_for(
    table: Table, stored: Mapping[str, StoredTable], layout: Layout, version: int = SCHEMA_VERSION
) -> list[str]:
    """The statements that bring one table to its spec; none if it is there already.

    Inputs: the tables of the store by name, and the schema version that it says it has.
    Errors: StoreError if it cannot be done without a written migration.
    """
    here = stored.get(_local_name(table, layout))
    before = next((stored[name] for name in before_names(table) if name in stored), None)
    if before is not None:  # an earlier start was ended in the middle of moving its rows
        return moved(table, before, layout, renamed=True)
    source = here or stored.get(table.former.name)
    if source is not None and _is_of_before(table, source, version):
        return moved(table, source, layout, renamed=False)
    if here is None:
        return create_statements(table, layout)
    _check_columns(table, here)
    _check_key(table, here)
    return [
        *_added_columns(table, here, layout),
        *_changed_codecs(table, here, layout),
        *_changed_ttl(table, here, layout),
        *_changed_settings(table, here, layout),
    ]


def _local_name(table: Table, layout: Layout) -> str:
    return layout.local(table).partition(".")[2]


def _is_of_before(table: Table, source: StoredTable, version: int) -> bool:
    """Whether rows of a table have to be written anew: every revision is kept, or names or words are former ones.

    Words are not to be seen in the catalogue. Where a start was ended before the version was written, the tables that
    it had moved are moved again, which changes nothing.
    """
    former = table.former
    renamed = source.name == former.name or any(name in source.columns for name in former.columns.values())
    return renamed or of_all_revisions(table, source) or (0 < version <= RENAMED_UP_TO and bool(former.words))


def of_all_revisions(table: Table, stored: StoredTable) -> bool:
    """Whether a table of verdicts is one of schema version 3 or before, which kept every revision of a row."""
    return is_verdicts(table) and stored.sorting_key == ", ".join([*sorting_key(table), "version", "revision"])


def moved(table: Table, source: StoredTable, layout: Layout, *, renamed: bool) -> list[str]:
    """The statements that make a table anew from its rows of before: effective ones only, in the names of today.

    A start that is ended in between leaves the old table under another name, and is done again (`renamed`).
    Errors: StoreError in a cluster, where nobody has tried it.
    """
    if layout.cluster:
        raise _needs_migration(table, f"is of schema version {RENAMED_UP_TO} or before, in a cluster")
    new, old = layout.local(table), f"{DATABASE}.{source.name if renamed else before_names(table)[0]}"
    values = {column.name: value for column in table.columns if (value := _value(table, column, source)) is not None}
    names = ", ".join(f"`{name}`" for name in values)
    rows = f"SELECT {', '.join(f'{value} AS `{name}`' for name, value in values.items())} FROM {old} AS old"
    effective = latest_sql(table, f"({rows})") if of_all_revisions(table, source) else rows
    return [
        f"DROP TABLE IF EXISTS {new} SYNC" if renamed else f"RENAME TABLE {DATABASE}.{source.name} TO {old}",
        *create_statements(table, layout),
        f"INSERT INTO {new} ({names}) SELECT {names} FROM ({effective}) SETTINGS final = 1",
        f"DROP TABLE {old} SYNC",
    ]


def _value(table: Table, column: Column, source: StoredTable) -> str | None:
    """A column of today as an expression over a row of before; None if that had nothing of the kind."""
    name = column.name if column.name in source.columns else table.former.columns.get(column.name, "")
    if name not in source.columns:
        return None
    return today_sql(column, f"old.`{name}`", table.former.words.get(column.name, ()))


def _check_columns(table: Table, stored: StoredTable) -> None:
    declared = {column.name: clickhouse_type(column) for column in table.columns}
    for name, got in stored.columns.items():
        if is_verdicts(table) and name in HIDDEN:
            continue
        if name not in declared:
            raise _needs_migration(table, f"has a column {name} ({got}) that the spec does not declare")
        if got != declared[name]:
            raise _needs_migration(table, f"has {name} as {got}, the spec as {declared[name]}")


def _check_key(table: Table, stored: StoredTable) -> None:
    for what, wanted, got in (
        ("is sorted by", ", ".join(sorting_key(table)), stored.sorting_key),
        ("is partitioned by", partition_key(table), stored.partition_key),
    ):
        if wanted != got:
            raise _needs_migration(table, f"{what} ({got}), the spec says ({wanted})")


def _needs_migration(table: Table, what: str) -> StoreError:
    return StoreError(
        f"table {table.name} in the store {what}; this is not changed by itself, because rows would be lost or "
        f"rewritten: open the store with the Leadline that made it, or write the migration in "
        f"leadline.store.migrate.MIGRATIONS"
    )


def _added_columns(table: Table, stored: StoredTable, layout: Layout) -> list[str]:
    out: list[str] = []
    before = ""
    for column in table.columns:
        if column.name not in stored.columns:
            # Rows that are there already read as the type's default (0, empty), or null.
            place = f"AFTER `{before}`" if before else "FIRST"
            kind = clickhouse_type(column)
            out += [
                f"ALTER TABLE {name}{layout.on_cluster} ADD COLUMN IF NOT EXISTS `{column.name}` {kind}"
                f"{f' CODEC({codec(column)})' if coded else ''} {place}"
                for name, coded in _names(table, layout)
            ]
        before = column.name
    return out


def _names(table: Table, layout: Layout) -> list[tuple[str, bool]]:
    """The tables to alter, and whether they keep rows (a Distributed table has no codecs)."""
    names = [(layout.local(table), True)]
    if layout.cluster:
        names.append((f"leadline.{table.name}", False))
    return names


def _changed_codecs(table: Table, stored: StoredTable, layout: Layout) -> list[str]:
    """Nothing is rewritten: a merge writes in the new compression what it reads in the old one."""
    out: list[str] = []
    for column in table.columns:
        stored_codec = stored.codecs.get(column.name)
        # The engine adds how many bytes a difference is of.
        if stored_codec is not None and stored_codec.replace("Delta(8)", "Delta") != f"CODEC({codec(column)})":
            out.append(
                f"ALTER TABLE {layout.local(table)}{layout.on_cluster} "
                f"MODIFY COLUMN `{column.name}` CODEC({codec(column)})"
            )
    return out


def _changed_ttl(table: Table, stored: StoredTable, layout: Layout) -> list[str]:
    wanted = ttl_clause(table) if layout.ttl else ""
    if stored.ttl == wanted:
        return []
    change = f"MODIFY TTL {wanted}" if wanted else "REMOVE TTL"
    return [f"ALTER TABLE {layout.local(table)}{layout.on_cluster} {change}"]


def _changed_settings(table: Table, stored: StoredTable, layout: Layout) -> list[str]:
    wanted = table_settings(table, layout)
    ours = {*wanted, *table_settings(table, Layout(fsync=True)), MERGE_LIMIT}
    change = [f"{key} = {value}" for key, value in wanted.items() if stored.settings.get(key) != str(value)]
    reset = [key for key in sorted(ours) if key not in wanted and key in stored.settings]
    alter = f"ALTER TABLE {layout.local(table)}{layout.on_cluster}"
    out = [f"{alter} MODIFY SETTING {', '.join(change)}"] if change else []
    return out + ([f"{alter} RESET SETTING {', '.join(reset)}"] if reset else [])
