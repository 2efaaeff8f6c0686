"""Stores and bundles of earlier schema versions: what was effective is there, under the names of today."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.model.tables import BY_FORMER_NAME, BY_NAME, TABLES, Table
from leadline.model.tables.spec import Former
from leadline.model.tables.verdicts import SYMPTOM
from leadline.store import Store, StoreConfig, opening
from leadline.store.bundle import read_bundle
from leadline.store.migrate import SCHEMA_VERSION, statements_for
from leadline.store.revisions import today_sql
from leadline.store.schema import quoted

GOLDEN = Path(__file__).parents[2] / "golden"
Wanted = dict[str, list[tuple[Any, ...]]]
# As the readers of schema version 3, which kept every revision of each verdict, saw them.
EFFECTIVE: Wanted = {
    "SELECT toString(link) AS what, revision FROM leadline.flow_volume": [("a", 1), ("e", 0), ("h", 3), ("j", 0)],
    "SELECT concat(tenant, ' ', category) AS what, revision FROM leadline.ledger": [
        ("acme y", 1), ("acme z", 0), ("other w", 0),
    ],
    "SELECT toString(entity) AS what, revision FROM leadline.conflict": [("a", 0)],
    "SELECT toString(message) AS what, 0 AS revision FROM leadline.event": [("kept", 0)],
}  # fmt: skip
START_NS = 1_790_000_000_000_000_000  # of every span and window in the store of schema version 4
LATE = '"category": "straggler", "how": "straggler: the others waited"'
# Of schema version 4: what a later version renames (tables, columns, categories) must still be there with these values.
NAMED: Wanted = {
    "SELECT toString(what) AS what, median_s, count, revision FROM leadline.baseline": [
        ("all_reduce 524288 B on 8 of j/0x9c", 0.5, 80, 0), ("step", 1.0, 41, 1),
    ],
    "SELECT concat(category, ' ', ifNull(owner, '-')) AS what, lost_gpu_seconds, revision FROM leadline.ledger": [
        ("compute -", 0.0, 0), ("straggler rank:j/3", 80.0, 1),
    ],
    f"SELECT toString(entity) AS what, reported_ns, position(blamed, '{LATE}') > 0 AS found FROM leadline.symptom": [
        ("job:j", START_NS + 60, 1),
    ],
    f"SELECT toString(entity) AS what, reported_ns, position(symptoms, '{LATE}') > 0 AS found FROM leadline.incident": [
        ("job:j", START_NS + 60, 1),
    ],
    "SELECT toString(entity) AS what, reported_ns, seen FROM leadline.anomaly": [("host:h", START_NS + 60, 2.0)],
    "SELECT toString(sender) AS what, reported_ns, to_ns FROM leadline.watermark": [
        ("agent", START_NS, START_NS - 5), ("agent", START_NS + 9, START_NS + 4),
    ],
    "SELECT toString(analysis) AS what, rows_out, revision FROM leadline.analysis_run": [
        ("baseline", 2, 1), ("ledger", 2, 1),
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
        moving = "SELECT name FROM system.tables WHERE name LIKE '%_of_all_revisions' OR name LIKE '%_of_before'"
        assert store.query(moving).num_rows == 0
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


def test_a_bundle_of_schema_version_4_has_the_names_of_today(tmp_path: Path) -> None:
    path = tmp_path / "before.leadline"
    path.write_bytes(lzma.decompress((GOLDEN / "store_schema_4" / "bundle.xz").read_bytes()))
    with read_bundle(path) as bundle:
        assert bundle.manifest.rows()["baseline"] == 2
        rows = {table.name: bundle.rows(table).to_pylist() for table in bundle.tables}
    assert "usual" not in rows
    assert {(row["what"], row["analysis"]) for row in rows["baseline"]} >= {("step", "baseline")}
    assert {row["category"] for row in rows["ledger"]} == {"compute", "straggler"}
    assert {row["analysis"] for row in rows["analysis_run"]} == {"baseline", "ledger"}
    (symptom,), (incident,) = rows["symptom"], rows["incident"]
    assert (symptom["reported_ns"], LATE in symptom["blamed"], LATE in incident["symptoms"]) == (
        START_NS + 60,
        True,
        True,
    )
    assert sorted(row["reported_ns"] for row in rows["watermark"]) == [START_NS, START_NS + 9]


def test_a_table_and_a_column_are_renamed_only_where_they_were_called_otherwise() -> None:
    renamed = {table.name: table.former for table in TABLES if table.former != Former()}
    assert set(BY_FORMER_NAME) == {former.name for former in renamed.values() if former.name}
    assert not set(BY_FORMER_NAME) & set(BY_NAME), "a former name is no name of today"
    for name, former in renamed.items():
        assert not set(former.columns.values()) & {column.name for column in BY_NAME[name].columns}


def test_words_of_before_are_no_words_of_a_user(store: Store) -> None:
    """A job that is called `late-rank` keeps its name in the JSON in which the category of that name is renamed."""
    column = next(each for each in SYMPTOM.columns if each.name == "blamed")
    blamed = '[{"category": "late-rank", "how": "late-rank: waited", "owner": "rank:late-rank/1"}]'
    sql = f"SELECT {today_sql(column, quoted(blamed), SYMPTOM.former.words['blamed'])} AS blamed"
    wanted = '[{"category": "straggler", "how": "straggler: waited", "owner": "rank:late-rank/1"}]'
    assert store.query(sql).to_pylist() == [{"blamed": wanted}]


@pytest.mark.parametrize("statements", range(4))
@pytest.mark.parametrize(
    ("version", "name", "wanted"),
    [(3, "flow_volume", EFFECTIVE), (4, "baseline", NAMED), (4, "watermark", NAMED), (4, "analysis_run", NAMED)],
)
def test_a_start_that_is_ended_in_the_middle_is_done_again(
    version: int, name: str, wanted: Wanted, statements: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unpacked(version, tmp_path)

    def cut(table: Table, *given: Any) -> Iterator[str]:
        made = statements_for(table, *given)
        if table.name != name:
            yield from made
            return
        yield from made[:statements]
        raise RuntimeError("the process is ended")

    with monkeypatch.context() as patched:
        patched.setattr(opening, "statements_for", cut)
        store = Store(StoreConfig(path=str(path), ttl=False))
        with pytest.raises(Exception, match="the process is ended"):
            store.start()
    assert opened(path, wanted) == wanted
