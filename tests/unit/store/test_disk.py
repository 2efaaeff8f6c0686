"""Rows that were acknowledged stay readable on a disk that fills: merges, the ballast, what is spoilt or put aside."""

from __future__ import annotations

import shutil
import time
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from leadline.model.counters import Counter
from leadline.model.errors import StoreError, WorldError
from leadline.model.tables.metrics import METRIC_SAMPLE
from leadline.store import Store, StoreConfig, arrow_table
from leadline.store.bundle import Draft
from leadline.store.bundle_format import Manifest
from leadline.store.connect import insert
from leadline.store.disk.ballast import Ballast
from leadline.store.disk.definitions import Definitions
from leadline.store.disk.parts import DataPart
from leadline.store.disk.space import Space, space
from leadline.store.disk.watch import DiskWatch, findings
from leadline.store.disk.whole import lacking, sizes_meant

MIB = 1 << 20
ROWS = 1000
NOW_NS = time.time_ns()


def rows(number: int) -> Any:
    """A batch of samples of one stream, told apart by its number."""
    return arrow_table(METRIC_SAMPLE, {
        "tenant": ["acme"] * ROWS, "cluster": ["lab"] * ROWS, "series": [7] * ROWS,
        "time_ns": NOW_NS + number * ROWS + np.arange(ROWS), "value": np.arange(ROWS) * 0.5,
    })  # fmt: skip


class World:
    """A store of one table, watched step by step."""

    def __init__(self, path: Path) -> None:
        self.counted: Tally[str] = Tally()
        self.store = Store(StoreConfig(path=str(path), ttl=False), (METRIC_SAMPLE,))
        self.store.start()
        self.watch = self.watched()

    def watched(self) -> DiskWatch:
        return DiskWatch(self.store, self._count, Ballast(Path(self.store.config.path), MIB))

    def _count(self, which: Counter, amount: int) -> None:
        self.counted[which.reason] += amount

    def merged(self) -> DataPart:
        """The part that all batches were merged into."""
        self.store.command("OPTIMIZE TABLE leadline.metric_sample FINAL")
        (part,) = (part for part in self.watch._parts() if part.table == "metric_sample")
        return part

    def count(self) -> int:
        found: int = self.store.query("SELECT count(), sum(value) AS all FROM leadline.metric_sample")[0][0].as_py()
        return found

    def said(self) -> list[str]:
        return [f"{each['state']} {each['text']}" for each in findings(self.watch)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "store")
    yield made
    made.store.stop()


def spoil(part: DataPart) -> None:
    """What writes that failed leave behind: the files, and nothing in them."""
    for file in Path(part.path).iterdir():
        file.write_bytes(b"")


@contextmanager
def cut_in_new_part(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Appends lose the contents of a file of their part, as if its write had failed, and are told that all is well."""
    (directory, *_) = {Path(each.path).parent for each in world.watch._parts() if each.table == "metric_sample"}

    def cut(*given: Any) -> None:
        before = set(directory.iterdir())
        insert(*given)
        (made,) = set(directory.iterdir()) - before
        (made / name).write_bytes(b"")

    with monkeypatch.context() as patch:
        patch.setattr("leadline.store.client.insert", cut)
        yield


def test_a_merge_that_met_a_full_disk_is_undone(world: World) -> None:
    """The audit's C1: all of the day was gone at the next start, and nobody was told."""
    for number in range(4):
        world.store.append(METRIC_SAMPLE, rows(number))
    world.watch.look_at_parts()
    assert world.said() == []
    spoil(world.merged())
    world.watch.look_at_parts()
    assert (world.count(), world.store.unreadable) == (4 * ROWS, {})
    (told,) = world.said()
    assert told.startswith("warning part ")
    assert told.endswith("was spoilt and the table loaded anew, 0 rows are gone")
    assert (world.counted["spoilt"], world.counted["lost"], world.counted["aside"]) == (1, 0, 0)
    world.store.append(METRIC_SAMPLE, rows(9))
    assert world.count() == 5 * ROWS


def test_a_merge_that_is_done_again_is_looked_at_again(world: World) -> None:
    """Its part has the name of the one that was spoilt. Seen by evals.faults_on_disk: the second was never found."""
    for number in range(4):
        world.store.append(METRIC_SAMPLE, rows(number))
    names = []
    for times in (1, 2):
        part = world.merged()
        names.append(part.name)
        spoil(part)
        world.watch.look_at_parts()
        assert (world.count(), world.counted["spoilt"], world.counted["lost"]) == (4 * ROWS, times, 0)
    assert len(set(names)) == 1


def test_what_cannot_be_read_takes_nothing_in_until_it_can(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        world.store.append(METRIC_SAMPLE, rows(number))
    spoil(world.merged())
    reload = world.store.reload

    def fails(table: str) -> None:
        raise StoreError("no room to load it")

    monkeypatch.setattr(world.store, "reload", fails)
    with pytest.raises(StoreError, match="no room"):
        world.watch.look_at_parts()
    with pytest.raises(StoreError, match="nothing is appended to metric_sample now"):
        world.store.append(METRIC_SAMPLE, rows(9))
    assert world.said()[0].startswith("critical table metric_sample cannot be read")
    monkeypatch.setattr(world.store, "reload", reload)
    world.watch.look_at_parts()
    assert (world.count(), world.store.unreadable) == (2 * ROWS, {})


def test_a_query_that_meets_a_spoilt_part_has_it_looked_at(world: World) -> None:
    world.store.append(METRIC_SAMPLE, rows(0))
    world.store.append(METRIC_SAMPLE, rows(1))
    spoil(world.merged())
    with pytest.raises(StoreError):
        world.count()
    assert world.store.doubted
    world.watch._canary_s = time.monotonic()
    world.watch.look()
    assert (world.count(), world.store.doubted) == (2 * ROWS, False)


def test_a_part_that_nothing_stands_for_is_told_as_lost_at_the_start(world: World) -> None:
    """And told again at each start, with its rows, until somebody has removed it."""
    for number in range(3):
        world.store.append(METRIC_SAMPLE, rows(number))
    part = world.merged()
    world.watch.look_at_parts()
    for each in Path(part.path).parent.iterdir():  # its sources, as the engine clears them away after a time
        if each.name.endswith("_0"):
            shutil.rmtree(each)
    world.store.stop()
    spoil(part)
    for _ in range(2):
        world.store.start()
        world.watch = world.watched()
        world.watch._rows = world.watch._known()
        world.watch.look_aside()
        (told,) = world.said()
        assert told.startswith("critical data_loss: part broken-on-start_")
        assert f"with {3 * ROWS} rows that no other part has" in told
        assert world.counted["aside"] == 1, "counted once"
        world.store.stop()
    world.store.start()
    for aside in world.watch.aside:
        shutil.rmtree(aside.path)
    world.watch = world.watched()
    world.watch.look_aside()
    assert world.said() == []


def test_merges_stop_before_the_space_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.store.append(METRIC_SAMPLE, rows(0))
    monkeypatch.setattr("leadline.store.disk.watch.SMALL_MERGE_BYTES", 1_000)
    free, said = [8 * 1024 * MIB], list[str]()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free[0]))
    command = world.store.command

    def told(statement: str) -> None:
        said.append(statement.replace("leadline.", ""))
        command(statement)

    monkeypatch.setattr(world.store, "command", told)
    ballast = Path(world.store.config.path) / "ballast"
    world.watch.look_at_space()
    assert ballast.stat().st_size == MIB
    world.watch._merge_bytes = 500 * MIB
    free[0] = 1400 * MIB
    world.watch.look_at_space()
    assert world.watch.space is Space.SHORT
    assert said == [
        "SYSTEM STOP MERGES",
        "ALTER TABLE metric_sample MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1000",
        "SYSTEM START MERGES",
    ]
    assert ballast.exists()
    said.clear()
    free[0] = 1000 * MIB
    world.watch.look_at_space()
    assert (said, ballast.exists()) == (["SYSTEM STOP MERGES"], False)
    assert world.said()[0].startswith("critical space on the disk of store.path is full")
    said.clear()
    free[0] = 4000 * MIB
    world.watch.look_at_space()
    world.watch.look_at_space()
    assert said == [
        "SYSTEM STOP MERGES",
        "ALTER TABLE metric_sample RESET SETTING max_bytes_to_merge_at_max_space_in_pool",
        "SYSTEM START MERGES",
    ]
    assert ballast.exists()


def test_a_part_of_which_anything_is_cut_off_is_seen(world: World, tmp_path: Path) -> None:
    """Also what is less than the files hold that no list of checksums has."""
    for number in range(2):
        world.store.append(METRIC_SAMPLE, rows(number))
    part = Path(world.merged().path)
    assert lacking(part) == ""
    cut = tmp_path / "cut"
    for file in part.iterdir():
        for length in {0, file.stat().st_size // 2, file.stat().st_size - 1}:
            shutil.copytree(part, cut)
            (cut / file.name).write_bytes(file.read_bytes()[:length])
            assert file.name in lacking(cut), (file.name, length)
            shutil.rmtree(cut)
        shutil.copytree(part, cut, ignore=shutil.ignore_patterns(file.name))
        assert bool(lacking(cut)) or file.name in (
            "metadata_version.txt", "columns_substreams.txt", "default_compression_codec.txt"
        ), f"without {file.name}"  # fmt: skip
        shutil.rmtree(cut)


def test_a_list_of_checksums_that_a_later_engine_wrote_says_nothing() -> None:
    assert sizes_meant(b"checksums format version: 5\n...") == {}
    assert sizes_meant(b"checksums format version: 4\n" + bytes(16) + b"\x93" + b"\x09\0\0\0" + bytes(4)) == {}
    for text in (b"", b"checksums", b"checksums format version: 4\n" + bytes(20)):
        with pytest.raises(ValueError, match="it "):
            sizes_meant(text)


def test_an_append_that_the_disk_did_not_take_is_refused_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine says that it is done. Seen by evals.faults_on_disk: those rows were acknowledged, then lost."""
    world.store.append(METRIC_SAMPLE, rows(0))
    world.watch.look_at_parts()
    for name in ("data.bin", "checksums.txt", "columns.txt"):
        with cut_in_new_part(world, monkeypatch, name), pytest.raises(StoreError, match="did not take all of part"):
            world.store.append(METRIC_SAMPLE, rows(1))
        assert (world.count(), world.store.unreadable) == (ROWS, {})
    world.store.append(METRIC_SAMPLE, rows(1))
    world.watch.look_at_parts()
    assert (world.count(), world.said(), world.counted["lost"]) == (2 * ROWS, [], 0)


def test_a_part_of_a_refused_append_that_cannot_be_dropped_yet_stops_appends_until_it_can(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store.append(METRIC_SAMPLE, rows(0))
    world.watch.look_at_parts()
    command = world.store.command

    def fails(statement: str) -> None:
        if "DROP PART" in statement or "DETACH" in statement:
            raise StoreError("the disk is full")
        command(statement)

    monkeypatch.setattr(world.store, "command", fails)
    with cut_in_new_part(world, monkeypatch, "data.bin"), pytest.raises(StoreError, match="the disk is full"):
        world.store.append(METRIC_SAMPLE, rows(1))
    with pytest.raises(StoreError, match="nothing is appended to metric_sample now"):
        world.store.append(METRIC_SAMPLE, rows(1))
    world.watch.look_at_parts()
    assert world.said() == [
        "critical table metric_sample cannot be read, and nothing is appended to it: the disk is full"
    ]
    monkeypatch.setattr(world.store, "command", command)
    assert world.store.doubted, "the watch looks again soon"
    world.watch.look_at_parts()
    assert (world.count(), world.said(), world.counted["lost"]) == (ROWS, [], 0)
    world.store.append(METRIC_SAMPLE, rows(1))
    assert world.count() == 2 * ROWS


def test_an_append_that_adds_no_part_or_meets_a_reload_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.store.client.insert", lambda *given: None)
    with pytest.raises(StoreError, match="added no part to metric_sample"):
        world.store.append(METRIC_SAMPLE, rows(0))

    def insert_and_reload(*given: Any) -> None:
        insert(*given)
        world.store.reload("metric_sample")

    monkeypatch.setattr("leadline.store.client.insert", insert_and_reload)
    with pytest.raises(StoreError, match="loaded anew meanwhile"):
        world.store.append(METRIC_SAMPLE, rows(0))
    assert world.count() == ROWS, "appended again it is the same rows"


def test_a_spoilt_merge_that_an_append_meets_is_left_to_the_watch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds rows of others, and its sources are there. Seen by evals.faults_on_disk while it was dropped as if it
    were the append's own: 4,280 acknowledged rows were gone."""
    for number in range(3):
        world.store.append(METRIC_SAMPLE, rows(number))
    world.watch.look_at_parts()

    def insert_beside_a_merge(*given: Any) -> None:
        spoil(world.merged())
        insert(*given)

    with monkeypatch.context() as patch:
        patch.setattr("leadline.store.client.insert", insert_beside_a_merge)
        world.store.append(METRIC_SAMPLE, rows(3))
    world.watch.look_at_parts()
    assert (world.count(), world.counted["lost"]) == (4 * ROWS, 0)


def test_where_no_part_can_be_dropped_the_table_is_loaded_without_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store.append(METRIC_SAMPLE, rows(0))
    command = world.store.command

    def fails(statement: str) -> None:
        if "DROP PART" in statement:
            raise StoreError("the disk is full")
        command(statement)

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "command", fails)
        with cut_in_new_part(world, patch, "data.bin"), pytest.raises(StoreError, match="did not take all of part"):
            world.store.append(METRIC_SAMPLE, rows(1))
    assert (world.count(), world.store.unreadable) == (ROWS, {})
    world.watch.look_aside()
    assert world.said() == []


def test_a_definition_that_was_cut_off_is_written_anew(world: World) -> None:
    """The engine writes it with each ALTER, and could not open any table any more. Seen by evals.faults_on_disk."""
    world.store.append(METRIC_SAMPLE, rows(0))
    path = Path(world.store.config.path)
    (definition,) = path.glob("store/*/*/metric_sample.sql")
    whole = definition.read_bytes()
    for length in (0, len(whole) // 2, len(whole) - 1):
        definition.write_bytes(whole[:length])
        world.watch.look_at_parts()
        assert definition.read_bytes() == whole
    definition.write_bytes(b"")
    world.store.reload("metric_sample")
    definition.write_bytes(b"")
    world.store.stop()
    world.store.start()
    assert (world.count(), definition.read_bytes()) == (ROWS, whole)


def test_definitions_of_tables_that_are_gone_are_forgotten_and_newer_ones_kept(tmp_path: Path) -> None:
    file = tmp_path / "store" / "a" / "b" / "t.sql"
    file.parent.mkdir(parents=True)
    definitions = Definitions(tmp_path)
    copy = tmp_path / "definitions" / "store" / "a" / "b" / "t.sql"
    for text in (b"ATTACH TABLE t\nSETTINGS a = 1\n", b"ATTACH TABLE t\nSETTINGS a = 2\n"):
        file.write_bytes(text)
        definitions.keep()
        assert copy.read_bytes() == text
    file.write_bytes(b"ATTACH TABLE t\nSETT")
    definitions.mend()
    assert file.read_bytes() == copy.read_bytes()
    file.unlink()
    definitions.mend()
    assert not file.exists(), "a table that was dropped does not come back"
    definitions.keep()
    assert not copy.exists()


@pytest.mark.parametrize(
    ("free_mib", "before", "now"),
    [
        (1600, Space.ROOMY, Space.ROOMY),
        (1499, Space.ROOMY, Space.SHORT),
        (999, Space.ROOMY, Space.FULL),
        (1600, Space.SHORT, Space.SHORT),
        (1700, Space.SHORT, Space.ROOMY),
        (1100, Space.FULL, Space.FULL),
        (1130, Space.FULL, Space.SHORT),
        (9000, Space.FULL, Space.ROOMY),
    ],
)
def test_space(free_mib: int, before: Space, now: Space) -> None:
    assert space(free_mib * MIB, 1000 * MIB, 500 * MIB, before) is now


def test_a_part_that_is_gone_lacks_nothing(tmp_path: Path) -> None:
    assert lacking(tmp_path / "gone") == ""


def test_a_draft_leaves_the_disk_its_space(tmp_path: Path) -> None:
    with Draft(Manifest(0, 1), "", tmp_path, free_bytes_min=1 << 60) as draft, pytest.raises(WorldError, match="free"):
        draft.add(METRIC_SAMPLE, [rows(0)])
