"""Rows that were acknowledged stay readable on a disk that fills: merges, the ballast, what is spoilt or put aside."""

from __future__ import annotations

import shutil
import time
from collections import Counter as Tally
from collections.abc import Iterator
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
from leadline.store.disk.ballast import Ballast
from leadline.store.disk.parts import DataPart, shortfall
from leadline.store.disk.space import Space, space
from leadline.store.disk.watch import DiskWatch, findings

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
    part = DataPart("t", "p", "all", 1, 100, str(tmp_path / "gone"), 1, 1, 1)
    assert shortfall(part) == 0


def test_a_draft_leaves_the_disk_its_space(tmp_path: Path) -> None:
    with Draft(Manifest(0, 1), "", tmp_path, free_bytes_min=1 << 60) as draft, pytest.raises(WorldError, match="free"):
        draft.add(METRIC_SAMPLE, [rows(0)])
