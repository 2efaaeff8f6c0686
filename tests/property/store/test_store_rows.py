"""Laws of stored rows: what goes in comes out bit by bit, once, in whatever order and how often it was appended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.model.tables import BY_NAME
from leadline.store import Store, StoreConfig, arrow_table

NOW_NS = time.time_ns() // 10**9 * 10**9
SAMPLE = BY_NAME["metric_sample"]
EVENT = BY_NAME["event"]
tenants = (f"t{number}" for number in count())

# Streams by both ends of the 128 bits, times within a few days around a midnight: several partitions.
identities = st.tuples(
    st.sampled_from([0, 1, 2**63, 2**64, 2**127, 2**128 - 1]),
    st.integers(-3 * 86400, 86400).map(lambda s: s * 10**9 + s),
)
bits = st.integers(0, 2**64 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(StoreConfig(path=str(tmp_path_factory.mktemp("rows"))))
    store.start()
    yield store
    store.stop()


laws = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@laws
@given(appends=st.lists(st.dictionaries(identities, bits, min_size=1, max_size=8), min_size=1, max_size=4))
def test_the_last_append_of_each_identity_is_read(store: Store, appends: list[dict[tuple[int, int], int]]) -> None:
    tenant = next(tenants)
    for rows in appends:
        columns = {
            "tenant": [tenant] * len(rows),
            "cluster": ["c"] * len(rows),
            "series": [series for series, _ in rows],
            "time_ns": [NOW_NS + at for _, at in rows],
            "value": np.array(list(rows.values()), np.uint64).view(np.float64),
        }
        store.append(SAMPLE, arrow_table(SAMPLE, columns))
    found = store.query(
        "SELECT series, time_ns, value FROM leadline.metric_sample WHERE tenant = {t:String}", {"t": tenant}
    )
    wanted: dict[tuple[int, int], int] = {}
    for rows in appends:
        wanted |= rows
    series = [int.from_bytes(raw, "little") for raw in found["series"].to_pylist()]
    times = [at - NOW_NS for at in found["time_ns"].to_pylist()]
    values = found["value"].to_numpy().view(np.uint64).tolist()
    assert len(values) == len(wanted)
    assert dict(zip(zip(series, times, strict=True), values, strict=True)) == wanted


@laws
@given(
    rows=st.lists(
        st.tuples(texts, texts, st.none() | texts, st.dictionaries(texts, texts, max_size=3)), min_size=1, max_size=6
    ),
    repeats=st.integers(1, 3),
)
def test_texts_and_maps_come_back_once(
    store: Store, rows: list[tuple[str, str, str | None, dict[str, str]]], repeats: int
) -> None:
    tenant = next(tenants)
    size = len(rows)
    words = ("cluster", "host", "clock", "entity_kind", "severity", "source", "entity")
    columns = {name: [name] * size for name in words} | {
        "tenant": [tenant] * size,
        "time_ns": [NOW_NS] * size,
        "kind": [row[0] for row in rows],
        "message": [row[1] for row in rows],
        "code": [row[2] for row in rows],
        "attributes": [row[3] for row in rows],
        "batch": [7] * size,
        "batch_row": list(range(size)),
    }
    for _ in range(repeats):
        store.append(EVENT, arrow_table(EVENT, columns))
    sql = "SELECT kind, message, code, attributes FROM leadline.event WHERE tenant = {t:String} ORDER BY batch_row"
    found = store.query(sql, {"t": tenant}).to_pylist()
    assert [(r["kind"], r["message"], r["code"], dict(r["attributes"])) for r in found] == rows
