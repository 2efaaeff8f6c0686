"""Laws of bundles: any bytes are read or refused; redaction renames everything and changes nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builders.incident import Names, incident, truth_of, write_incident

from leadline.model.errors import DataError
from leadline.model.tables import BY_NAME, TABLES, Table, Type
from leadline.store import arrow_schema
from leadline.store.bundle import Bundle
from leadline.store.bundle_format import MANIFEST, padding, read_manifest, table_of, tar_header
from leadline.store.bundle_names import Pseudonyms
from leadline.store.bundle_parquet import TableReader
from leadline.store.bundle_redact import Kind, Redactor, draft_redacted, is_text, kind_of, redacted_truth
from leadline.store.bundle_rows import in_order

pytestmark = pytest.mark.slow  # left out of make check

laws = settings(max_examples=40, deadline=None)


@cache
def honest() -> bytes:
    """The bytes of a bundle with rows of every table."""
    with tempfile.TemporaryDirectory() as directory:
        return write_incident(Path(directory) / "a.leadline", incident(seconds=5)).read_bytes()


def read_all(raw: bytes) -> int:
    """Rows in these bytes. Errors: DataError."""
    with Bundle(io.BytesIO(raw), "bytes") as bundle:
        return sum(group.num_rows for table in bundle.tables for group in bundle.groups(table))


def readable_or_refused(raw: bytes) -> None:
    with suppress(DataError):
        read_all(raw)


# --- any bytes -----------------------------------------------------------------------------------------------


@given(raw=st.binary(max_size=3000))
@laws
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    readable_or_refused(raw)
    readable_or_refused(tar_header(MANIFEST, len(raw)) + raw + padding(len(raw)) + bytes(1024))


@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_changed_bytes_are_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(honest())
    for _ in range(data.draw(st.integers(1, 4))):
        # Headers and manifest are the first few kB; the rest is hashed.
        place = data.draw(st.one_of(st.integers(0, 12_000), st.integers(0, len(raw) - 1)))
        raw[place] = data.draw(st.integers(0, 255))
    readable_or_refused(bytes(raw))


@given(cut=st.integers(0, 400_000))
@laws
def test_a_beginning_is_refused(cut: int) -> None:
    raw = honest()
    if cut < len(raw):
        try:
            read_all(raw[:cut])
        except DataError:
            return
        raise AssertionError("a bundle that was cut off was read")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(data=st.data(), value=JSON)
@laws
def test_any_manifest_is_read_or_refused(data: st.DataObject, value: Any) -> None:
    body = json.loads(members(honest())[MANIFEST])
    target = data.draw(st.sampled_from([body, body["members"], next(iter(body["members"].values()))]))
    key = data.draw(st.sampled_from([*target, "x"]))
    target[key] = value
    try:
        manifest = read_manifest(json.dumps(body).encode(), "bytes")
    except DataError:
        return
    assert manifest.from_ns <= manifest.to_ns


@given(data=st.data(), table=st.sampled_from(["step", "event", "suspect", "metric_sample"]))
@settings(max_examples=80, deadline=None)
def test_any_parquet_is_read_or_refused(data: st.DataObject, table: str) -> None:
    """Bytes that the hashes agree with: somebody made them."""
    raw = bytearray(members(honest())[f"{table}.parquet"])
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.sampled_from([len(raw), len(raw) - 1, len(raw) // 2, 0]))]
    try:
        reader = TableReader(BY_NAME[table], io.BytesIO(bytes(raw)), "bytes", "0")
        for rows in reader.groups():
            assert rows.schema.equals(arrow_schema(BY_NAME[table]))
    except DataError:
        pass


def members(raw: bytes) -> dict[str, bytes]:
    with Bundle(io.BytesIO(raw), "bytes") as bundle:
        return {name: bundle._region(name).read() for name in bundle._places}


# --- order -------------------------------------------------------------------------------------------------------


@given(data=st.data())
@laws
def test_the_order_of_a_bundle_does_not_depend_on_the_order_of_rows(data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(TABLES))
    rows = incident(seconds=12)[table.name]
    mixed = rows.take(pa.array(data.draw(st.permutations(range(rows.num_rows)))))
    assert repr(in_order(table, mixed).to_pylist()) == repr(in_order(table, rows).to_pylist())


# --- redaction -----------------------------------------------------------------------------------------------

# Names that stand nowhere by chance, and names that stand everywhere.
STRANGE = st.from_regex(r"zq[a-z0-9]{8}([.-][a-z0-9]{3,5})?", fullmatch=True)
COMMON = st.sampled_from(["a", "1", "17", "node", "eth0", "idle", "rx", "default", "link", "metric", "x.y", "a b", "é"])
V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(str)


def names_of(word: st.SearchStrategy[str]) -> st.SearchStrategy[Names]:
    gpu = st.uuids(version=4).map(lambda each: f"GPU-{each}")

    def named(words: list[str], gpu: str, addresses: list[str]) -> Names:
        tenant, cluster, one, two, port, other, switch, job = words
        return Names(tenant, cluster, (one, two), (port, other), switch, job, gpu, (addresses[0], addresses[1]))

    return st.builds(
        named,
        st.lists(word, min_size=8, max_size=8, unique=True),
        gpu,
        st.one_of(st.lists(V4, min_size=2, max_size=2, unique=True), st.lists(V6, min_size=2, max_size=2, unique=True)),
    )


def redactor_of(rows: dict[str, pa.Table], names: Names) -> tuple[Redactor, bytes, bytes]:
    """(redactor, the bundle before, the bundle after)."""
    with tempfile.TemporaryDirectory() as directory:
        raw = write_incident(Path(directory) / "a.leadline", rows).read_bytes()
    with Bundle(io.BytesIO(raw), "bytes") as bundle:
        redactor = Redactor.of(bundle, truth_of(names), hashlib.sha256(repr(names).encode()).digest())
        with draft_redacted(bundle, redactor) as draft:
            return redactor, raw, b"".join(draft.chunks())


def texts(value: Any) -> list[str]:
    """Every string in a value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return texts([*value.keys(), *value.values()])
    return [text for each in value for text in texts(each)] if isinstance(value, list | tuple) else []


@given(names=names_of(STRANGE))
@settings(max_examples=12, deadline=None)
def test_no_name_is_left(names: Names) -> None:
    redactor, _, made = redactor_of(incident(names, 5), names)
    inside = [redacted_truth(truth_of(names), redactor)]
    with Bundle(io.BytesIO(made), "bytes") as bundle:
        inside += [bundle.rows(table).to_pylist() for table in bundle.tables]
        inside += [bundle.config_text, repr(bundle.manifest)]
    everything = "\n".join(texts(inside))
    for name in names.proper():
        # An address is a whole one: 1.2.3.4 is not in 11.2.3.45.
        found = re.search(rf"(?<![0-9a-fA-F:.]){re.escape(name)}(?![0-9a-fA-F:.])", everything)
        assert not found, f"{name} is left: {everything[max(found.start() - 40, 0) : found.end() + 40]}"
        assert name.encode() not in made or re.fullmatch("[0-9a-f:.]{2,7}", name)


@given(names=st.one_of(names_of(STRANGE), names_of(COMMON)))
@example(names=Names())
@example(names=Names(hosts=("1", "2"), switch="3", job="4", tenant="5", cluster="6", ports=("7", "8")))
@settings(max_examples=12, deadline=None)
def test_what_was_equal_is_equal_and_what_was_not_is_not(names: Names) -> None:
    rows = incident(names, 5)
    redactor, _, _ = redactor_of(rows, names)
    became: dict[str, dict[Any, Any]] = {}
    for table in TABLES:
        made = redactor.rows(table, rows[table.name])
        for column in table.columns:
            before, after = rows[table.name][column.name].to_pylist(), made[column.name].to_pylist()
            domain = _domain(table, column.name)
            for one, other in zip(before, after, strict=True):
                if domain == "as it was":
                    assert repr(one) == repr(other), f"{table.name}.{column.name}"
                elif domain:
                    for key, value in zip(_parts(one), _parts(other), strict=True):
                        assert became.setdefault(domain, {}).setdefault(key, value) == value
    for domain, pairs in became.items():
        assert len(set(pairs.values())) == len(pairs), f"two {domain} became one"
    assert all(value is None for pairs in became.values() for key, value in pairs.items() if key is None)


def _domain(table: Table, name: str) -> str:
    """Within which a value must become the same value: all names share one, each kind of id has its own."""
    column = table.column(name)
    if column.type is Type.U128:
        return name
    if not is_text(column):
        return "as it was"
    kind = kind_of(table.name, name)
    return "text" if kind in (Kind.NAME, Kind.ADDRESS) else "map values" if kind is Kind.LABELS else ""


def _parts(value: Any) -> list[Any]:
    """The values to compare: of a map those whose keys stay, of a set nothing, as its order is its own."""
    if not isinstance(value, list):
        return [value]
    pairs = [pair for pair in value if isinstance(pair, tuple)]
    return [each for key, each in pairs if key in ("instance", "device", "peer", "owner", "address")]


@given(text=st.text(max_size=30))
@laws
def test_any_text_has_one_pseudonym(text: str) -> None:
    names = Pseudonyms(bytes(32), {text, "h1"})
    assert names.text(text) == names.text(text)
    assert names.word(text) == names.word(text)
    assert Pseudonyms(bytes(32), {text, "h1"}).text(text) == names.text(text)


@given(one=st.text("ab/:~.-19 ", max_size=8), other=st.text("ab/:~.-19 ", max_size=8))
@settings(max_examples=300, deadline=None)
def test_two_texts_never_become_one(one: str, other: str) -> None:
    names = Pseudonyms(bytes(32), {"a", "b", "19"})
    assert (names.text(one) == names.text(other)) == (one == other)


def test_redaction_keeps_the_manifest_apart() -> None:
    """The key is kept nowhere: a second redaction of the same bundle gives other names."""
    rows = incident(seconds=5)
    first, _, one = redactor_of(rows, Names())
    with Bundle(io.BytesIO(one), "bytes") as bundle:
        again = Redactor.of(bundle)
        assert again.names.text("h1") != first.names.text("h1")
        assert replace(bundle.manifest, members={}) == replace(again.manifest(bundle.manifest), members={})
        assert table_of("step.parquet") == "step"
