"""A store of schema version 3, which kept every revision of each verdict, is opened: what was effective is there."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.model.tables import Table
from leadline.store import Store, StoreConfig
from leadline.store import client as client_module
from leadline.store.migrate import SCHEMA_VERSION, statements_for

MADE = Path(__file__).parents[2] / "golden" / "store_schema_3" / "store.tar.xz"
# As that version's readers saw them.
EFFECTIVE = {
    "SELECT toString(link) AS what, revision FROM leadline.flow_volume": [("a", 1), ("e", 0), ("h", 3), ("j", 0)],
    "SELECT concat(tenant, ' ', category) AS what, revision FROM leadline.ledger": [
        ("acme y", 1), ("acme z", 0), ("other w", 0),
    ],
    "SELECT toString(entity) AS what, revision FROM leadline.conflict": [("a", 0)],
    "SELECT toString(message) AS what, 0 AS revision FROM leadline.event": [("kept", 0)],
}  # fmt: skip
MOVED = "flow_volume"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with tarfile.open(MADE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "store"


def opened(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    store = Store(StoreConfig(path=str(path), ttl=False))
    store.start()
    try:
        assert store.query("SELECT max(version) AS v FROM leadline.schema_version")["v"].to_pylist() == [SCHEMA_VERSION]
        assert store.query("SELECT name FROM system.tables WHERE name LIKE '%_of_all_revisions'").num_rows == 0
        return {
            sql: sorted((row["what"], row["revision"]) for row in store.query(sql).to_pylist()) for sql in EFFECTIVE
        }
    finally:
        store.stop()


def test_what_was_effective_is_there_and_nothing_else(path: Path) -> None:
    assert opened(path) == EFFECTIVE
    assert opened(path) == EFFECTIVE, "the second start finds nothing to do"


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
