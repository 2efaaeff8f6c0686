"""Opening a store: the owner's lock, older and newer schemas, directories that cannot be used."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from leadline.model.errors import ConfigError, StoreError, StoreLockedError, UsageError
from leadline.model.tables import BY_NAME, TABLES, Column, Identity, Partition, Table, Type
from leadline.model.tables.spec import Former
from leadline.store import Store, StoreConfig, arrow_table
from leadline.store.migrate import SCHEMA_VERSION, StoredTable, check_version, statements_for
from leadline.store.opening import stored_tables
from leadline.store.owner import LOCK_FILE, Owner
from leadline.store.schema import Layout, clickhouse_type, partition_key, sorting_key, table_settings

OWN = (
    Column("time_ns", Type.I64, "ns", "when"),
    Column("name", Type.SYM, None, "what"),
)


def table_with(*more: Column, keep_hours: int = 24 * 400, order: tuple[str, ...] = ("name", "time_ns")) -> Table:
    return Table(
        "tiny", doc="For these tests.", own=(*OWN, *more), order=order, time="time_ns", keep_hours=keep_hours,
        identity=Identity.KEY, written_by="tests", partition=Partition.NONE,
    )  # fmt: skip


def started(path: Path, table: Table, **settings: bool) -> Store:
    store = Store(StoreConfig(path=str(path), **settings), (table,))
    store.start()
    return store


EMPTY: dict[Type, object] = {
    Type.SYM: "", Type.STR: "", Type.I64: 0, Type.U64: 0, Type.F64: 0.0, Type.MAP: {}, Type.U128: 1,
}  # fmt: skip
NOW_NS = 1_900_000_000 * 10**9
ROW = {"tenant": ["t"], "cluster": ["c"], "time_ns": [NOW_NS], "name": ["n"]}


def test_new_columns_are_added_and_old_rows_read_with_defaults(tmp_path: Path) -> None:
    old = table_with()
    store = started(tmp_path, old)
    store.append(old, arrow_table(old, ROW))
    store.stop()
    new = table_with(
        Column("count", Type.U64, "1", "new"),
        Column("note", Type.STR, None, "new", nullable=True),
        Column("code", Type.SYM, None, "new", nullable=True),
        Column("labels", Type.MAP, None, "new"),
        keep_hours=48 * 400,
    )
    store = started(tmp_path, new)
    try:
        assert store.query("SELECT * FROM leadline.tiny").to_pylist() == [
            {"tenant": "t", "cluster": "c", "time_ns": NOW_NS, "name": "n", "count": 0, "note": None, "code": None,
             "labels": []}
        ]  # fmt: skip
        (ttl,) = store.query("SELECT engine_full FROM system.tables WHERE name = 'tiny'")["engine_full"].to_pylist()
        assert f"toIntervalHour({48 * 400})" in ttl
    finally:
        store.stop()
    with pytest.raises(StoreError, match=r"has a column count .* does not declare"):
        started(tmp_path, old)


def test_tables_that_version_1_never_wrote_are_made_anew_and_the_others_kept(tmp_path: Path) -> None:
    """As a store of version 1 has them: other columns of `message`, another order of `sle`, and rows in both."""
    sle, event, message = (BY_NAME[name] for name in ("sle", "event", "message"))
    store = Store(StoreConfig(path=str(tmp_path)), (event,))
    store.start()
    row: dict[str, object] = {
        column.name: [None if column.nullable else EMPTY[column.type]] for column in event.columns
    }
    store.append(event, arrow_table(event, row | {"time_ns": [NOW_NS], "entity": ["host:h1"]}))
    with store._writers.borrow() as client:
        for name, columns, value in (
            ("message", "job String, sent_ns Int64", "7"),
            ("sle", "layer String, entity String", "'b'"),
        ):
            client.command(f"CREATE TABLE leadline.{name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
            client.command(f"INSERT INTO leadline.{name} SELECT 'a', {value}")
        client.command("TRUNCATE TABLE leadline.schema_version")
        client.command("INSERT INTO leadline.schema_version (version, since) VALUES (1, now())")
    store.stop()
    store = Store(StoreConfig(path=str(tmp_path)), (event, message, sle))
    store.start()
    try:
        assert store.query("SELECT entity FROM leadline.event")["entity"].to_pylist() == ["host:h1"]
        for table in (message, sle):
            found = store.query(f"SELECT * FROM leadline.{table.name}")
            assert (found.num_rows, found.column_names) == (0, [column.name for column in table.columns])
        assert store.query("SELECT max(version) AS v FROM leadline.schema_version")["v"].to_pylist() == [SCHEMA_VERSION]
    finally:
        store.stop()


def test_another_compression_holds_for_what_is_written_from_then_on(tmp_path: Path) -> None:
    table = table_with(Column("labels", Type.MAP, None, "texts"), Column("count", Type.U64, "1", "a number"))
    row = ROW | {"labels": [{"k": "v"}], "count": [7]}
    store = started(tmp_path, table)
    with store._writers.borrow() as client:
        client.command("ALTER TABLE leadline.tiny MODIFY COLUMN labels CODEC(ZSTD(1))")
        client.command("ALTER TABLE leadline.tiny MODIFY COLUMN count CODEC(LZ4)")
    store.append(table, arrow_table(table, row))
    store.stop()
    store = started(tmp_path, table)
    try:
        store.append(table, arrow_table(table, row | {"name": ["later"]}))
        with store._writers.borrow() as client:
            client.command("OPTIMIZE TABLE leadline.tiny FINAL")
        found = store.query("SELECT name, compression_codec AS c FROM system.columns WHERE table = 'tiny'")
        codecs = dict(zip(found["name"].to_pylist(), found["c"].to_pylist(), strict=True))
        assert (codecs["labels"], codecs["count"]) == ("CODEC(ZSTD(3))", "CODEC(Delta(8), ZSTD(1))")
        rows = store.query("SELECT name, labels, count FROM leadline.tiny ORDER BY name").to_pylist()
        assert rows == [{"name": name, "labels": [("k", "v")], "count": 7} for name in ("later", "n")]
    finally:
        store.stop()


def test_a_store_of_today_is_not_altered_when_it_is_opened(tmp_path: Path) -> None:
    store = Store(StoreConfig(path=str(tmp_path)))
    store.start()
    try:
        with store._writers.borrow() as client:
            stored = stored_tables(client)
        assert {table.name: statements_for(table, stored, Layout()) for table in TABLES} == {
            table.name: [] for table in TABLES
        }
        assert all(stored[table.name].codecs for table in TABLES)
    finally:
        store.stop()


def test_settings_follow_the_configuration(tmp_path: Path) -> None:
    def engine(**settings: bool) -> str:
        store = started(tmp_path, table_with(), **settings)
        try:
            rows = store.query("SELECT engine_full FROM system.tables WHERE name = 'tiny'")
            return str(rows["engine_full"].to_pylist()[0])
        finally:
            store.stop()

    assert "fsync" not in engine()
    assert "fsync_after_insert = 1, fsync_part_directory = 1" in engine(fsync=True)
    assert " TTL " not in engine(ttl=False)
    last = engine()
    assert "fsync" not in last
    assert " TTL " in last


def stored_as(table: Table, **change: object) -> StoredTable:
    columns = {column.name: clickhouse_type(column) for column in table.columns}
    settings = ", ".join(f"{key} = {value}" for key, value in table_settings(table, Layout()).items())
    engine = f"ReplacingMergeTree ORDER BY x SETTINGS {settings}, index_granularity = 8192"
    stored = StoredTable(table.name, ", ".join(sorting_key(table)), partition_key(table), engine, columns)
    return replace(stored, **change)


def test_what_would_lose_rows_needs_a_written_migration() -> None:
    table = table_with()
    layout = Layout(ttl=False)
    assert statements_for(table, {"tiny": stored_as(table)}, layout) == []
    columns = dict(stored_as(table).columns)
    for change, message in [
        ({"columns": columns | {"gone": "String"}}, "has a column gone"),
        ({"columns": columns | {"time_ns": "String"}}, "has time_ns as String, the spec as Int64"),
        ({"sorting_key": "tenant, name"}, "is sorted by"),
        ({"partition_key": "name"}, "is partitioned by"),
    ]:
        with pytest.raises(StoreError, match=message) as caught:
            statements_for(table, {"tiny": stored_as(table, **change)}, layout)
        assert "MIGRATIONS" in str(caught.value)


def test_a_cluster_alters_both_its_tables() -> None:
    table = table_with(Column("count", Type.U64, "1", "new"))
    statements = statements_for(table, {"tiny_local": stored_as(table_with())}, Layout("main", ttl=False))
    add = "ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS `count` UInt64"
    assert statements == [
        f"ALTER TABLE leadline.tiny_local {add} CODEC(Delta, ZSTD(1)) AFTER `name`",
        f"ALTER TABLE leadline.tiny {add} AFTER `name`",
    ]


def test_a_cluster_of_before_is_not_moved() -> None:
    before = replace(stored_as(table_with()), columns={"time_ns": "Int64", "called": "String"})
    table = replace(table_with(), former=Former(columns={"name": "called"}))
    with pytest.raises(StoreError, match=r"is of schema version 4 or before, in a cluster.*MIGRATIONS"):
        statements_for(table, {"tiny_local": before}, Layout("main", ttl=False), 4)


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    store = started(tmp_path, table_with())
    with store._writers.borrow() as client:
        client.command("INSERT INTO leadline.schema_version (version, since) VALUES (99, now())")
    store.stop()
    with pytest.raises(StoreError, match="has schema version 99, this Leadline knows up to"):
        started(tmp_path, table_with())
    check_version(0, "anywhere")


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    store = started(tmp_path, table_with())
    script = (
        "import sys; from leadline.store import Store, StoreConfig\n"
        "try: Store(StoreConfig(path=sys.argv[1])).start()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    try:
        with pytest.raises(StoreLockedError, match=f"in use by pid {os.getpid()}"):
            started(tmp_path, table_with())
        other = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
        )
        assert other.stdout.startswith("StoreLockedError")
        assert f"pid {os.getpid()} (" in other.stdout
        assert str(tmp_path) in other.stdout
        assert "(store.path)" in other.stdout
    finally:
        store.stop()
    started(tmp_path, table_with()).stop()


def test_a_lock_file_left_behind_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "owner.lock").write_text("pid 1 (somebody long dead)\n")
    started(tmp_path, table_with()).stop()


def test_nobody_else_may_look_into_a_store(tmp_path: Path) -> None:
    """Stores of before too; a directory that was there for something else is left alone."""
    store, shared = tmp_path / "new" / "store", tmp_path / "shared"
    shared.mkdir(mode=0o755)
    for path, before, after in ((store, None, 0o700), (store, 0o755, 0o700), (shared, 0o755, 0o755)):
        if before is not None:
            path.chmod(before)
        owner = Owner(str(path))
        owner.take()
        owner.give_back()
        assert stat.S_IMODE(path.stat().st_mode) == after
        (shared / LOCK_FILE).unlink(missing_ok=True)


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"store.path .*/file: expected a directory that can be written"):
        started(tmp_path / "file", table_with())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="Permission denied"):
        started(tmp_path, table_with())


def test_a_failed_start_gives_the_lock_back(tmp_path: Path) -> None:
    started(tmp_path, table_with(Column("count", Type.U64, "1", "more"))).stop()
    for _ in range(2):
        with pytest.raises(StoreError, match="count"):
            started(tmp_path, table_with())


def test_nothing_is_done_before_start_and_after_stop(tmp_path: Path) -> None:
    store = Store(StoreConfig(path=str(tmp_path / "new")), (table_with(),))
    assert not (tmp_path / "new").exists(), "construction is inert"
    with pytest.raises(StoreError, match="not open"):
        store.query("SELECT 1")
    store.start()
    store.stop()
    store.stop()
    with pytest.raises(StoreError, match="not open"):
        store.append(table_with(), arrow_table(table_with(), ROW))


def test_urls_are_checked_and_passwords_not_told() -> None:
    with pytest.raises(UsageError, match=r"store.cluster is 'main' but store.url is empty"):
        Store(StoreConfig(cluster="main"))
    for url in ("tcp://u:secret@host:9000", "http://u:secret@host:8123/other"):
        with pytest.raises(ConfigError, match=r"store.url") as caught:
            Store(StoreConfig(url=url)).start()
        assert "secret" not in str(caught.value)
    with pytest.raises(StoreError, match=r"cannot open the store at http://127.0.0.1:9") as unreachable:
        Store(StoreConfig(url="http://u:secret@127.0.0.1:9/leadline", connect_seconds_max=1)).start()
    assert "secret" not in str(unreachable.value)


def test_nothing_is_appended_to_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    """The embedded engine ignores writes that fail (chDB 26.9), so we stop before it comes to them."""
    table = table_with()
    config = StoreConfig(path=str(tmp_path), free_bytes_min=1 << 60)
    store = Store(config, (table,))
    store.start()
    try:
        with pytest.raises(StoreError, match=r"MiB are free on the disk of .*; make room"):
            store.append(table, arrow_table(table, ROW))
        with pytest.raises(StoreError, match="MiB are free"):
            store.maintain(NOW_NS)
        assert store.query("SELECT * FROM leadline.tiny").num_rows == 0, "it can still be asked"
    finally:
        store.stop()
    store = started(tmp_path, table)
    store.append(table, arrow_table(table, ROW))
    assert store.query("SELECT * FROM leadline.tiny LIMIT 0").column_names == ["tenant", "cluster", "time_ns", "name"]
    store.stop()


def test_the_disk_fills_up_while_appending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append whose disk turned out nearly full afterwards is not acknowledged; the retry is harmless."""
    table = table_with()
    store = started(tmp_path, table)
    free = [1 << 40, 0, 1 << 40, 1 << 40]
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free.pop(0)))
    try:
        with pytest.raises(StoreError, match="only 0 MiB are free"):
            store.append(table, arrow_table(table, ROW))
        store.append(table, arrow_table(table, ROW))
        assert store.query("SELECT * FROM leadline.tiny").num_rows == 1
    finally:
        store.stop()
