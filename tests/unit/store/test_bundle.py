"""Bundles: from a store to a file and back, whole, in one form, or told why not."""

from __future__ import annotations

import errno
import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.incident import BEGIN_NS, END_NS, SECOND_NS, Names, incident, rows_of, write_incident
from tests.unit.store.conftest import RunningDouble, started

from leadline.model.errors import DataError, UsageError, WorldError
from leadline.model.tables import BY_NAME, TABLES, Type
from leadline.store import Store, StoreConfig, bundle_parquet
from leadline.store.bundle import Draft, draft_bundle, read_bundle, write_bundle
from leadline.store.bundle_format import BLOCK, CONFIG, MANIFEST, Manifest, member_of
from leadline.store.bundle_parquet import file_schema
from leadline.store.bundle_rows import LASTING, MINUTE_NS, Span, in_order, slices

tenants = (f"t{number}" for number in count())


@pytest.fixture(scope="module", params=["embedded", "double"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """As in conftest.py, but nothing ages: the incident has a date of its own."""
    path = str(tmp_path_factory.mktemp("store"))
    if request.param == "embedded":
        yield from started(StoreConfig(path=path, ttl=False))
    else:
        with RunningDouble(path) as port:
            yield from started(StoreConfig(url=f"http://127.0.0.1:{port}/leadline", ttl=False))


def span_of(tenant: str, from_ns: int = BEGIN_NS, to_ns: int = END_NS) -> Span:
    return Span(from_ns, to_ns, tenant)


def recorded(store: Store, path: Path, span: Span) -> Path:
    with draft_bundle(store, span, "server: {}\n", directory=path.parent) as draft:
        assert write_bundle(path, draft.chunks(), draft.size) == draft.size == path.stat().st_size
    return path


def stored(store: Store, names: Names) -> dict[str, pa.Table]:
    rows = incident(names)
    for name, table in rows.items():
        store.append(BY_NAME[name], table)
    return rows


def test_every_table_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    names = Names(tenant=next(tenants))
    rows = stored(store, names)
    with read_bundle(recorded(store, tmp_path / "a.leadline", span_of(names.tenant))) as bundle:
        assert [table.name for table in bundle.tables] == [table.name for table in TABLES]
        assert bundle.config_text == "server: {}\n"
        for table in TABLES:
            wanted = in_order(table, rows[table.name]).cast(file_schema(table))
            got = bundle.rows(table).cast(file_schema(table))
            assert bits(got) == bits(wanted), table.name


def bits(table: pa.Table) -> list[Any]:
    """Rows such that equal means the same bits: NaN is equal to itself."""
    return [repr(row) for row in table.to_pylist()]


def test_the_same_rows_give_the_same_bytes(store: Store, tmp_path: Path) -> None:
    """In whatever order and how often they were appended; only the tenant tells the stores apart."""
    paths = []
    for round_ in range(2):
        names = Names(tenant=next(tenants), cluster="same")
        for name, table in reversed(incident(names).items()):
            whole = table.take(list(reversed(range(table.num_rows)))) if round_ else table
            store.append(BY_NAME[name], whole.slice(0, whole.num_rows // 2 + 1))
            store.append(BY_NAME[name], whole)
        paths.append(recorded(store, tmp_path / f"{round_}.leadline", span_of(names.tenant)))
    again = recorded(store, tmp_path / "again.leadline", span_of(names.tenant))
    assert paths[-1].read_bytes() == again.read_bytes()
    with read_bundle(paths[0]) as one, read_bundle(paths[1]) as two:
        for table in TABLES:
            assert nobodys(one.rows(table)) == nobodys(two.rows(table)), table.name


def nobodys(rows: pa.Table) -> list[str]:
    """Rows without the name of their tenant."""
    whose = {str(name) for name in rows["tenant"].to_pylist()}
    return [text.replace(f"'{name}'", "'-'") for name in whose for text in bits(rows)]


def test_the_span_takes_what_overlaps_it_and_nothing_else(store: Store, tmp_path: Path) -> None:
    names = Names(tenant=next(tenants))
    stored(store, names)
    begin, end = BEGIN_NS + 10 * SECOND_NS, BEGIN_NS + 20 * SECOND_NS
    with read_bundle(recorded(store, tmp_path / "a.leadline", span_of(names.tenant, begin, end))) as bundle:
        samples = bundle.rows(BY_NAME["metric_sample"])
        assert samples.num_rows == 20
        assert all(begin <= at < end for at in samples["time_ns"].to_pylist())
        # A step of one second that began before the span and ended in it belongs to it.
        assert bundle.rows(BY_NAME["step"])["step"].to_pylist() == [step for step in range(10, 21) for _ in (0, 1)]
        # The graph: edges that held, however old; the anomaly that began before and lasts; the incident with its cause.
        assert bundle.rows(BY_NAME["relation"]).num_rows == 3
        assert bundle.rows(BY_NAME["anomaly"]).num_rows == 1
        assert bundle.rows(BY_NAME["cause"]).num_rows == 1
        assert bundle.rows(BY_NAME["event"]).num_rows == 1


def test_streams_without_samples_in_the_span_stay_out(store: Store, tmp_path: Path) -> None:
    names = Names(tenant=next(tenants))
    stored(store, names)
    late = span_of(names.tenant, END_NS, END_NS + SECOND_NS)
    with read_bundle(recorded(store, tmp_path / "a.leadline", late)) as bundle:
        assert bundle.rows(BY_NAME["series"]).num_rows == 0
        assert "series" not in bundle.manifest.rows()
        # What holds on is in every later span.
        lasting = {
            "relation": 3, "conflict": 1, "failure": 1, "expectation": 1, "anomaly": 1, "suspect": 1, "incident": 1,
            "symptom": 1, "cause": 1,
        }  # fmt: skip
        assert bundle.manifest.rows() == lasting


def test_other_tenants_and_clusters_stay_out(store: Store, tmp_path: Path) -> None:
    mine, other = Names(tenant=next(tenants)), Names(tenant=next(tenants))
    stored(store, mine)
    stored(store, other)
    with read_bundle(recorded(store, tmp_path / "a.leadline", span_of(mine.tenant))) as bundle:
        for table in bundle.tables:
            assert set(bundle.rows(table)["tenant"].to_pylist()) == {mine.tenant}, table.name
    nowhere = replace(span_of(mine.tenant), cluster="nowhere")
    with read_bundle(recorded(store, tmp_path / "b.leadline", nowhere)) as bundle:
        assert bundle.tables == []


def test_what_is_expected_of_every_cluster_is_in_the_bundle_of_each(store: Store, tmp_path: Path) -> None:
    names = Names(tenant=next(tenants))
    table = BY_NAME["expectation"]
    rows = incident(names)["expectation"]
    place = rows.column_names.index("cluster")
    for cluster in ("", "west"):
        store.append(table, rows.set_column(place, rows.schema.field(place), pa.array([cluster]).dictionary_encode()))
    span = replace(span_of(names.tenant), cluster="east")
    with read_bundle(recorded(store, tmp_path / "a.leadline", span)) as bundle:
        assert bundle.rows(table)["cluster"].to_pylist() == [""]


def test_an_empty_span_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="holds nothing"):
        draft_bundle(store, Span(5, 5), "")


def test_every_lasting_table_says_so() -> None:
    """A row with a nullable end lasts until somebody ends it."""
    ends = {t.name for t in TABLES for c in t.columns if c.name in ("end_ns", "to_ns") and c.nullable}
    assert ends <= LASTING.keys()


# --- slices --------------------------------------------------------------------------------------------------


def test_slices_hold_at_most_so_many_rows_and_miss_nothing() -> None:
    minutes = [(1, 5), (2, 5), (3, 1), (9, 20), (10, 3)]
    cut = slices(minutes, 10)
    assert cut == [
        (None, 3 * MINUTE_NS),
        (3 * MINUTE_NS, 9 * MINUTE_NS),
        (9 * MINUTE_NS, 10 * MINUTE_NS),
        (10 * MINUTE_NS, None),
    ]
    assert slices([], 10) == []
    assert slices([(7, 100)], 10) == [(None, None)]


def test_many_slices_read_as_one_table(tmp_path: Path) -> None:
    table, names = BY_NAME["metric_sample"], Names()
    groups = [
        rows_of(table, [{"series": s, "time_ns": BEGIN_NS + g * 10 + s, "value": 1.5} for s in range(5)], names)
        for g in range(4)
    ]
    path = tmp_path / "a.leadline"
    with Draft(Manifest(BEGIN_NS, END_NS), "", tmp_path) as draft:
        draft.add(table, groups)
        write_bundle(path, draft.chunks(), draft.size)
    with read_bundle(path) as bundle:
        assert [group.num_rows for group in bundle.groups(table)] == [5, 5, 5, 5]
        assert sorted(bundle.rows(table)["time_ns"].to_pylist()) == sorted(
            at for group in groups for at in group["time_ns"].to_pylist()
        )


# --- what is not a bundle of ours --------------------------------------------------------------------------------


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def packed(path: Path, parts: dict[str, bytes], told: bool = True, **more: Any) -> Path:
    """A tar of these members, by Python's own tarfile; `told`: with a manifest that agrees with them."""
    import hashlib

    body = json.loads(parts[MANIFEST])
    if told:
        rows = {
            name: pq.ParquetFile(io.BytesIO(raw)).metadata.num_rows for name, raw in parts.items() if "parq" in name
        }
        body["members"] = {
            name: {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "rows": rows.get(name, 0)}
            for name, raw in parts.items()
            if name != MANIFEST
        }
    parts = {**parts, MANIFEST: json.dumps({**body, **more}).encode()}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name in (MANIFEST, *(each for each in parts if each != MANIFEST)):
            info = tarfile.TarInfo(name)
            info.size = len(parts[name])
            tar.addfile(info, io.BytesIO(parts[name]))
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return write_incident(tmp_path / "made.leadline", incident())


def test_a_bundle_is_a_plain_tar_that_others_read_and_may_pack_again(made: Path, tmp_path: Path) -> None:
    parts = members(made)
    assert list(parts)[:3] == [MANIFEST, CONFIG, "series.parquet"]
    assert pq.read_table(io.BytesIO(parts["step.parquet"])).num_rows == 120
    with read_bundle(packed(tmp_path / "b.leadline", parts)) as again, read_bundle(made) as first:
        for table in TABLES:
            assert bits(again.rows(table)) == bits(first.rows(table))


def refused(path: Path, text: str) -> None:
    with pytest.raises(DataError, match=text):
        read_all(path)


def read_all(path: Path) -> None:
    with read_bundle(path) as bundle:
        for table in bundle.tables:
            bundle.rows(table)


def test_a_newer_format_is_told_with_its_version(made: Path, tmp_path: Path) -> None:
    newer = {"versions": {"leadline": "9.1.0"}}
    refused(packed(tmp_path / "b.leadline", members(made), format=2, **newer), r"format 2, made by Leadline 9\.1\.0")
    other = members(made) | {"hazard.parquet": members(made)["step.parquet"]}
    refused(packed(tmp_path / "b.leadline", other, **newer), r"hazard\.parquet'?, made by Leadline 9\.1\.0")
    step = pq.read_table(io.BytesIO(members(made)["step.parquet"]))
    wider = members(made) | {"step.parquet": parquet(step.append_column("power", pa.array([1.0] * 120)))}
    refused(packed(tmp_path / "b.leadline", wider, **newer), r"'power', made by Leadline 9\.1\.0")


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False)
    return out.getvalue()


def test_a_bundle_of_an_older_version_gets_the_columns_it_lacks(made: Path, tmp_path: Path) -> None:
    parts = members(made)
    step = pq.read_table(io.BytesIO(parts["step.parquet"]))
    older = step.drop([c.name for c in BY_NAME["step"].columns if c.name not in BY_NAME["step"].key])
    with read_bundle(packed(tmp_path / "b.leadline", parts | {"step.parquet": parquet(older)})) as bundle:
        rows = bundle.rows(BY_NAME["step"])
        assert rows.column_names == [column.name for column in BY_NAME["step"].columns]
        first = rows.to_pylist()[0]
        assert (first["loss"], first["clock"], first["metrics"], first["end_ns"]) == (None, "", [], 0)
    lost = step.drop(["job"])
    refused(packed(tmp_path / "c.leadline", parts | {"step.parquet": parquet(lost)}), "the key column job")


@pytest.mark.parametrize(
    ("name", "column", "text"),
    [
        ("rank", pa.array(["0"] * 120), "column rank: expected int64, got string"),
        ("loss", pa.array([1] * 120), "column loss: expected double, got int64"),
        ("job", pa.array([None] * 120, pa.string()), "never null, got 120 nulls"),
        ("job", pa.array([b"\xff"] * 120, pa.binary()).view(pa.string()), "UTF8"),
    ],
)
def test_columns_that_are_not_the_tables_are_refused(
    made: Path, tmp_path: Path, name: str, column: pa.Array, text: str
) -> None:
    step = pq.read_table(io.BytesIO(members(made)["step.parquet"]))
    changed = step.set_column(step.column_names.index(name), name, column)
    refused(packed(tmp_path / "b.leadline", members(made) | {"step.parquet": parquet(changed)}), text)


def test_texts_that_would_fill_the_memory_are_refused(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = members(made)
    for name, column in (("event", "message"), ("series", "labels")):
        rows = pq.read_table(io.BytesIO(parts[f"{name}.parquet"]))
        place = rows.column_names.index(column)
        text = "x" * 100_000
        long = pa.array([text if column == "message" else [("k", text)]] * rows.num_rows, rows.field(column).type)
        packed_small = io.BytesIO()
        pq.write_table(rows.set_column(place, rows.field(column), long), packed_small)
        bad = packed(tmp_path / "bad.leadline", {**parts, f"{name}.parquet": packed_small.getvalue()})
        read_all(bad)
        monkeypatch.setattr(bundle_parquet, "GROUP_BYTES_MAX", rows.num_rows * len(text) - 1)
        refused(bad, "bytes of texts written out")
        monkeypatch.undo()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "a/b.parquet", "truth.json", "Step.parquet", "manifest.json"]
)
def test_other_members_are_refused(made: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "b.leadline"
    with tarfile.open(path, "w") as tar, tarfile.open(made) as first:
        for info in first:
            tar.addfile(info, first.extractfile(info))
        tar.addfile(tarfile.TarInfo(name))
    refused(path, "made|manifest.json|once")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(made: Path, tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "b.leadline"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(MANIFEST)
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    refused(path, "a plain file")


def test_a_changed_byte_of_a_member_is_found(made: Path) -> None:
    raw = bytearray(made.read_bytes())
    raw[raw.index(b"ttl: true")] ^= 1
    made.write_bytes(raw)
    refused(made, r"config\.yaml: expected SHA-256")


@pytest.mark.parametrize("cut", [0, 1, BLOCK, BLOCK + 100, -BLOCK, -1])
def test_a_bundle_cut_off_is_refused(made: Path, cut: int) -> None:
    made.write_bytes(made.read_bytes()[:cut])
    refused(made, "cut off|end of the tar|empty tar|header|Leadline recording")


def test_members_and_manifest_must_agree(made: Path, tmp_path: Path) -> None:
    parts = members(made)
    without = {name: raw for name, raw in parts.items() if name != "event.parquet"}
    refused(packed(tmp_path / "b.leadline", without, told=False), "no such member")
    body = json.loads(parts[MANIFEST])
    body["members"]["event.parquet"]["rows"] += 1
    refused(
        packed(tmp_path / "b.leadline", parts, told=False, members=body["members"]), "7 rows, as manifest.json says"
    )
    body["members"].pop("event.parquet")
    refused(
        packed(tmp_path / "b.leadline", parts, told=False, members=body["members"]), "only what manifest.json lists"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"from_ns": None}, {"from_ns": 2**63}, {"from_ns": 1.5}, {"to_ns": -1}, {"format": 0}, {"format": True},
        {"members": []}, {"members": {}}, {"members": {CONFIG: 3}}, {"versions": {"a": 1}}, {"tenant": 4},
        {"members": {CONFIG: {"bytes": -1, "sha256": "0" * 64, "rows": 0}}}, {"redacted": "no"},
    ],
)  # fmt: skip
def test_a_manifest_that_is_none_is_refused(made: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    refused(packed(tmp_path / "b.leadline", members(made), **change), "manifest.json")


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="cannot be read"):
        read_bundle(tmp_path / "none.leadline")
    os.mkfifo(tmp_path / "pipe.leadline")
    for path in (tmp_path, tmp_path / "pipe.leadline"):
        with pytest.raises(WorldError, match="something that is no file"):
            read_bundle(path)


# --- a disk that fails -------------------------------------------------------------------------------------------


def full(chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield next(chunks)
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    path = write_incident(tmp_path / "a.leadline", incident())
    before = path.read_bytes()
    with pytest.raises(WorldError, match=r"No space left on device; nothing was kept"):
        write_bundle(path, full(iter([b"x" * 1000])))
    with pytest.raises(WorldError, match="3 of 5 bytes came"):
        write_bundle(path, iter([b"abc"]), 5)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_is_none_is_told(tmp_path: Path) -> None:
    with (
        Draft(Manifest(0, 1), "", tmp_path / "none") as draft,
        pytest.raises(WorldError, match="temporary file for event: cannot be written"),
    ):
        draft.add(BY_NAME["event"], [incident()["event"]])


def test_every_type_has_an_encoding_and_a_default() -> None:
    """A table of a type that no table has yet is still written: the schema names them all."""
    assert {column.type for table in TABLES for column in table.columns} <= set(Type)
    for table in TABLES:
        assert member_of(table.name) == f"{table.name}.parquet"
        assert len(file_schema(table)) == len(table.columns)
