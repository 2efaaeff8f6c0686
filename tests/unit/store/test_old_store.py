"""Stores of earlier schema versions are opened: what was effective is there, under the names of today."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.model.tables import Table
from leadline.store import Store, StoreConfig
from leadline.store import client as client_module
from leadline.store.migrate import SCHEMA_VERSION, statements_for

GOLDEN = Path(__file__).parents[2] / "golden"
# As the readers of schema version 3, which kept every revision of each verdict, saw them.
EFFECTIVE = {
    "SELECT toString(link) AS what, revision FROM leadline.flow_volume": [("a", 1), ("e", 0), ("h", 3), ("j", 0)],
    "SELECT concat(tenant, ' ', category) AS what, revision FROM leadline.ledger": [
        ("acme y", 1), ("acme z", 0), ("other w", 0),
    ],
    "SELECT toString(entity) AS what, revision FROM leadline.conflict": [("a", 0)],
    "SELECT toString(message) AS what, 0 AS revision FROM leadline.event": [("kept", 0)],
}  # fmt: skip
MOVED = "flow_volume"
START_NS = 1_790_000_000_000_000_000  # of every span and window in the store of schema version 4
LATE = '"category": "late-rank", "how": "late-rank: the others waited"'
# Of schema version 4: what a later version renames (tables, columns, categories) must still be there with these values.
NAMED = {
    "SELECT toString(what) AS what, median_s, count, revision FROM leadline.usual": [
        ("all_reduce 524288 B on 8 of j/0x9c", 0.5, 80, 0), ("step", 1.0, 41, 1),
    ],
    "SELECT concat(category, ' ', ifNull(owner, '-')) AS what, lost_gpu_seconds, revision FROM leadline.ledger": [
        ("compute -", 0.0, 0), ("late-rank rank:j/3", 80.0, 1),
    ],
    f"SELECT toString(entity) AS what, told_ns, position(blamed, '{LATE}') > 0 AS found FROM leadline.symptom": [
        ("job:j", START_NS + 60, 1),
    ],
    f"SELECT toString(entity) AS what, told_ns, position(symptoms, '{LATE}') > 0 AS found FROM leadline.incident": [
        ("job:j", START_NS + 60, 1),
    ],
    "SELECT toString(entity) AS what, told_ns, seen FROM leadline.anomaly": [("host:h", START_NS + 60, 2.0)],
    "SELECT toString(sender) AS what, told_ns, to_ns FROM leadline.watermark": [
        ("agent", START_NS, START_NS - 5), ("agent", START_NS + 9, START_NS + 4),
    ],
    "SELECT toString(analysis) AS what, rows_out, revision FROM leadline.analysis_run": [
        ("ledger", 2, 1), ("usual", 2, 1),
    ],
}  # fmt: skip


def unpacked(version: int, into: Path) -> Path:
    with tarfile.open(GOLDEN / f"store_schema_{version}" / "store.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into / "store"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return unpacked(3, tmp_path)


def opened(path: Path, queries: Iterable[str] = EFFECTIVE) -> dict[str, list[tuple[Any, ...]]]:
    store = Store(StoreConfig(path=str(path), ttl=False))
    store.start()
    try:
        assert store.query("SELECT max(version) AS v FROM leadline.schema_version")["v"].to_pylist() == [SCHEMA_VERSION]
        assert store.query("SELECT name FROM system.tables WHERE name LIKE '%_of_all_revisions'").num_rows == 0
        return {sql: sorted(tuple(row.values()) for row in store.query(sql).to_pylist()) for sql in queries}
    finally:
        store.stop()


def test_what_was_effective_is_there_and_nothing_else(path: Path) -> None:
    assert opened(path) == EFFECTIVE
    assert opened(path) == EFFECTIVE, "the second start finds nothing to do"


def test_rows_of_schema_version_4_are_there(tmp_path: Path) -> None:
    path = unpacked(4, tmp_path)
    assert opened(path, NAMED) == NAMED
    assert opened(path, NAMED) == NAMED, "the second start finds nothing to do"


@pytest.mark.parametrize("statements", range(4))
def test_a_start_that_is_ended_in_the_middle_is_done_again(
    path: Path, statements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(table: Table, *given: Any) -> Iterator[str]:
        made = statements_for(table, *given)
        if table.name != MOVED:
            yield from made
            return
        yield from made[:statements]
        raise RuntimeError("the process is ended")

    with monkeypatch.context() as patched:
        patched.setattr(client_module, "statements_for", cut)
        store = Store(StoreConfig(path=str(path), ttl=False))
        with pytest.raises(Exception, match="the process is ended"):
            store.start()
    assert opened(path) == EFFECTIVE
