"""Bringing a stored schema to the declared one, forwards only.

What a store has is read from the engine's own catalogue and compared with the specs. A column that was added
to a spec, a changed age limit and changed table settings are brought in by themselves. Everything else (a
column gone, another type, another key) would lose or rewrite rows: that needs a migration written by hand, in
`MIGRATIONS`, and a higher `SCHEMA_VERSION`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from leadline.model.errors import StoreError
from leadline.model.tables import Table
from leadline.store.revisions import before_name, latest_sql
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

SCHEMA_VERSION = 4

# Declared before, written by nobody until this version changed their columns: nothing is lost by making them anew.
_NEVER_WRITTEN = {2: ("message", "ledger", "sle", "sle_loss"), 3: ("anomaly", "incident", "cause")}

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
    table: Table, stored: StoredTable | None, layout: Layout, before: StoredTable | None = None
) -> list[str]:
    """The statements that bring one table to its spec; none if it is there already.

    `before`: the table as it was, where an earlier start was ended in the middle of moving its rows.
    Errors: StoreError if it cannot be done without a written migration.
    """
    if before is not None or (stored is not None and of_all_revisions(table, stored)):
        return moved_verdicts(table, layout, renamed=before is not None)
    if stored is None:
        return create_statements(table, layout)
    _check_columns(table, stored)
    _check_key(table, stored)
    return (
        _added_columns(table, stored, layout)
        + _changed_ttl(table, stored, layout)
        + _changed_settings(table, stored, layout)
    )


def of_all_revisions(table: Table, stored: StoredTable) -> bool:
    """Whether a table of verdicts is one of schema version 3 or before, which kept every revision of a row."""
    return is_verdicts(table) and stored.sorting_key == ", ".join([*sorting_key(table), "version", "revision"])


def moved_verdicts(table: Table, layout: Layout, *, renamed: bool) -> list[str]:
    """The statements that make a table of verdicts anew from the rows of one that kept all revisions.

    A start that is ended in between leaves the old table under another name, and is done again (`renamed`).
    Errors: StoreError in a cluster, where nobody has tried it.
    """
    if layout.cluster:
        raise _needs_migration(table, "keeps every revision of a verdict, as schema version 3 did, in a cluster")
    old, new = f"{DATABASE}.{before_name(table.name)}", layout.local(table)
    names = ", ".join(f"`{column.name}`" for column in table.columns)
    return [
        f"DROP TABLE IF EXISTS {new} SYNC" if renamed else f"RENAME TABLE {new} TO {old}",
        *create_statements(table, layout),
        f"INSERT INTO {new} ({names}) SELECT {names} FROM ({latest_sql(table, old)}) SETTINGS final = 1",
        f"DROP TABLE {old} SYNC",
    ]


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
