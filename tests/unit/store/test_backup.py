"""The drill: a store is backed up while rows come, and restored elsewhere with all that was acknowledged before."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leadline.model.errors import DataError, StoreLockedError, UsageError
from leadline.model.tables import BY_NAME
from leadline.store import Store, StoreConfig
from leadline.store.backup.restore import restore
from leadline.store.backup.take import MANIFEST, Manifest, freeze, gather

from .test_guard import events

BY_BATCH = "SELECT batch, count() AS n, sum(toUInt64(message)) AS s FROM leadline.event GROUP BY batch ORDER BY batch"


class Taken(NamedTuple):
    config: StoreConfig
    rows: list[dict[str, Any]]  # of the store, in the end
    copy: Path
    manifest: Manifest
    before: int
    after: int


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    """A store into which rows are appended and merged all the while, its back-up, and how many rows were acknowledged
    before that began and when it had ended. It is closed: there is one engine in a process."""
    base = tmp_path_factory.mktemp("backup")
    store = Store(StoreConfig(path=str(base / "store")))
    store.start()
    acknowledged, stopping = [0], threading.Event()

    def load() -> None:
        for batch in itertools.count(1):
            if stopping.is_set():
                return
            store.append(BY_NAME["event"], events("mine", [str(n) for n in range(100)], batch))
            acknowledged[0] += 100
            if batch % 5 == 0:
                with store._writers.borrow() as client:
                    client.command("OPTIMIZE TABLE leadline.event FINAL")

    thread = threading.Thread(target=load)
    thread.start()
    while acknowledged[0] < 1000:
        time.sleep(0.01)
    before = acknowledged[0]
    frozen = freeze(store)
    after = acknowledged[0] + 100
    manifest = gather(frozen, base / "copy", 5)
    while acknowledged[0] < after + 500:  # goes on, and what was linked is merged away
        time.sleep(0.01)
    stopping.set()
    thread.join()
    rows = store.query(BY_BATCH).to_pylist()
    store.stop()
    return Taken(store.config, rows, base / "copy", manifest, before, after)


def test_what_was_acknowledged_before_is_there_after_a_restore(taken: Taken, tmp_path: Path) -> None:
    restore(taken.copy, StoreConfig(path=str(tmp_path / "new")))
    restored = Store(StoreConfig(path=str(tmp_path / "new")))
    restored.start()
    found = restored.query(BY_BATCH).to_pylist()
    assert taken.before <= 100 * len(found) <= taken.after
    assert found == taken.rows[: len(found)]
    assert {(each["n"], each["s"]) for each in found} == {(100, 4950)}
    restored.append(BY_NAME["event"], events("mine", ["1"], 10**6))  # it is a store like any other
    restored.stop()
    assert taken.manifest.rows >= 100 * len(found)
    assert not list((Path(taken.config.path) / "shadow").glob("leadline_*"))  # nothing is left under the store


def test_its_files_are_those_of_the_store_and_a_restore_does_not_share_them(taken: Taken, tmp_path: Path) -> None:
    restore(taken.copy, StoreConfig(path=str(tmp_path / "new")))
    inodes = {path.stat().st_ino for path in taken.copy.rglob("*") if path.is_file()}
    assert not inodes & {path.stat().st_ino for path in (tmp_path / "new").rglob("*") if path.is_file()}


def test_a_running_store_is_not_restored_into(taken: Taken) -> None:
    store = Store(taken.config)
    store.start()
    with pytest.raises(StoreLockedError, match=r"is in use by pid .*; one process has an embedded store"):
        restore(taken.copy, store.config)
    store.stop()


def test_a_store_that_has_rows_is_not_restored_into(taken: Taken, tmp_path: Path) -> None:
    config = StoreConfig(path=str(tmp_path / "new"))
    restore(taken.copy, config)
    with pytest.raises(UsageError, match=r"has rows already \(event\); a back-up is restored into an empty one"):
        restore(taken.copy, config)


def test_what_is_missing_or_spoilt_is_told(taken: Taken, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(taken.copy, broken)
    (part, *_) = sorted((broken / "event").iterdir())
    data = part / "data.bin"
    data.write_bytes(b"")
    with pytest.raises(DataError, match="parts that are whole"):
        restore(broken, StoreConfig(path=str(tmp_path / "a")))
    shutil.rmtree(part)
    with pytest.raises(DataError, match=f"the part event/{part.name}"):
        restore(broken, StoreConfig(path=str(tmp_path / "b")))
    told = json.loads((broken / MANIFEST).read_text())
    (broken / MANIFEST).write_text(json.dumps(told | {"schema": 1}))
    with pytest.raises(UsageError, match="restore it with Leadline"):
        restore(broken, StoreConfig(path=str(tmp_path / "c")))
    (broken / MANIFEST).unlink()
    with pytest.raises(UsageError, match="is no back-up, or one that was not finished"):
        restore(broken, StoreConfig(path=str(tmp_path / "d")))


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    frozen, full = tmp_path / "shadow" / "f", tmp_path / "full"
    frozen.mkdir(parents=True)
    (frozen / "parts.json").write_text("{}")
    full.mkdir()
    (full / "mine").write_text("")
    with pytest.raises(UsageError, match="is there and not empty"):
        gather(frozen, full, 5)
    assert not frozen.exists()
