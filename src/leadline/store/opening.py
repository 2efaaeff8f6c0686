"""Opening a store: what is missing is created, what is older is moved, before anybody reads or appends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leadline.model.tables import Table
from leadline.store.migrate import SCHEMA_VERSION, StoredTable, check_version, migration_statements, statements_for
from leadline.store.schema import DATABASE, Layout


def open_schema(client: Any, tables: tuple[Table, ...], layout: Layout, where: str) -> None:
    """Bring the schema to that of `tables`. Errors: StoreError, and what the engine raises.

    The version is written last, so that a start that was ended in between is done again.
    """
    client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}{layout.on_cluster}")
    client.command(_version_table(layout))
    version = int(client.command(f"SELECT max(version) FROM {DATABASE}.schema_version"))
    check_version(version, where)
    for statement in migration_statements(version, tables, layout):
        client.command(statement)
    stored = stored_tables(client)
    for table in tables:
        for statement in statements_for(table, stored, layout, version):
            client.command(statement)
    if version < SCHEMA_VERSION:
        client.command(f"INSERT INTO {DATABASE}.schema_version (version, since) VALUES ({SCHEMA_VERSION}, now())")


def directories(client: Any) -> dict[str, Path]:
    """Where the parts of each table lie."""
    sql = f"SELECT name, data_paths[1] FROM system.tables WHERE database = '{DATABASE}' AND notEmpty(data_paths)"
    return {name: Path(path) for name, path in client.query(sql).result_rows}


def _version_table(layout: Layout) -> str:
    engine = "MergeTree"
    if layout.cluster:
        engine = "ReplicatedMergeTree('/clickhouse/tables/all/{database}/{table}', '{shard}-{replica}')"
    return (
        f"CREATE TABLE IF NOT EXISTS {DATABASE}.schema_version{layout.on_cluster} "
        f"(version UInt32, since DateTime('UTC')) ENGINE = {engine} ORDER BY version"
    )


def stored_tables(client: Any) -> dict[str, StoredTable]:
    """What the engine's catalogue says about each table."""
    columns: dict[str, dict[str, str]] = {}
    codecs: dict[str, dict[str, str]] = {}
    for table, name, kind, codec in client.query(
        f"SELECT table, name, type, compression_codec FROM system.columns WHERE database = '{DATABASE}' "
        "ORDER BY table, position"
    ).result_rows:
        columns.setdefault(table, {})[name] = kind
        codecs.setdefault(table, {})[name] = codec
    rows = client.query(
        f"SELECT name, sorting_key, partition_key, engine_full FROM system.tables WHERE database = '{DATABASE}'"
    ).result_rows
    return {
        name: StoredTable(name, order, partition, engine, columns.get(name, {}), codecs.get(name, {}))
        for name, order, partition, engine in rows
    }
