"""Replay: what is due when, in which order, into a store double and the real live tables."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.incident import BEGIN_NS, END_NS, SECOND_NS, Names, incident, rows_of, write_incident

from leadline.model.errors import DataError, StoreError
from leadline.model.tables import BY_NAME, TABLES, Table
from leadline.runner.replay import FULL_SPEED_STEP_NS, Pace, Replay, TableFeed, due
from leadline.store.bundle import Draft, write_bundle
from leadline.store.bundle_format import Manifest
from leadline.testing import FakeClock, MemoryStore

SAMPLE = BY_NAME["metric_sample"]


class Live:
    """A double of the live tables' way in: keeps what it is given."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.owners: set[tuple[str, str]] = set()
        self.columns: list[Mapping[str, object]] = []

    def __call__(self, tenant: str, cluster: str, table: Table, columns: Mapping[str, object], rows: int) -> None:
        self.rows[table.name] = self.rows.get(table.name, 0) + rows
        self.owners.add((tenant, cluster))
        self.columns.append(columns)


class StopAtEachLook:
    """A double of the replay's event for "stop": each wait moves the clock on by what was waited, and a bit."""

    def __init__(self, clock: FakeClock, seconds: float, looks: int = 10**6) -> None:
        self.clock, self.seconds, self.looks = clock, seconds, looks
        self.set_ = False

    def wait(self, _: float) -> bool:
        self.clock.advance(self.seconds)
        self.looks -= 1
        self.set_ |= self.looks <= 0
        return self.set_

    def is_set(self) -> bool:
        return self.set_

    def set(self) -> None:
        self.set_ = True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_incident(tmp_path / "a.leadline", incident())


def played(path: Path, speed: float, store: MemoryStore, live: Live, looks: int = 10**6) -> Replay:
    clock = FakeClock()
    made = Replay(path, speed, store, live, clock)  # type: ignore[arg-type]
    made._stop = StopAtEachLook(clock, 0.5, looks)  # type: ignore[assignment]
    made.run()
    made.bundle.close()
    return made


def test_pace_follows_the_clock_and_never_goes_back() -> None:
    pace = Pace(BEGIN_NS, END_NS, 2.0, 100)
    assert pace.reached(BEGIN_NS, 100) == BEGIN_NS
    assert pace.reached(BEGIN_NS, 100 + SECOND_NS) == BEGIN_NS + 2 * SECOND_NS
    assert pace.reached(BEGIN_NS + 5 * SECOND_NS, 100 + SECOND_NS) == BEGIN_NS + 5 * SECOND_NS
    assert pace.reached(BEGIN_NS, 10**20) == END_NS
    full = replace(pace, speed=0.0, to_ns=BEGIN_NS + 10 * FULL_SPEED_STEP_NS)
    assert full.reached(BEGIN_NS, 0) == BEGIN_NS + FULL_SPEED_STEP_NS
    assert full.reached(BEGIN_NS, 0, BEGIN_NS + 7) == BEGIN_NS + 7 + FULL_SPEED_STEP_NS
    assert full.reached(BEGIN_NS, 0, full.to_ns) == full.to_ns


@given(
    times=st.lists(st.integers(-5, 30), max_size=30), cuts=st.lists(st.integers(-5, 35), max_size=8), many=st.booleans()
)
def test_every_row_is_due_once_and_none_before_its_time(times: list[int], cuts: list[int], many: bool) -> None:
    rows = rows_of(SAMPLE, [{"series": n, "time_ns": at} for n, at in enumerate(sorted(times))], Names())
    half = len(times) // 2
    groups = [rows.slice(0, half), rows.slice(half)] if many else [rows]
    feed = TableFeed(SAMPLE, iter([group for group in groups if group.num_rows]))
    seen: list[int] = []
    for cut in sorted(cuts):
        for part in feed.due(cut):
            at = part["time_ns"].to_pylist()
            assert at == sorted(at)
            assert all(each < cut for each in at)
            seen += at
        assert sorted(seen) == sorted(each for each in times if each < cut)
    for part in feed.due(None):
        seen += part["time_ns"].to_pylist()
    assert sorted(seen) == sorted(times)


def test_due_is_before_and_not_at() -> None:
    times = np.array([1, 2, 2, 3], np.int64)
    assert (due(times, 0, 2), due(times, 1, 3), due(times, 2, 1), due(times, 0, None)) == (1, 3, 2, 4)


@pytest.mark.parametrize("speed", [0.0, 1.0, 7.5])
def test_a_replay_stores_every_row_as_it_was(path: Path, speed: float) -> None:
    store, live = MemoryStore(), Live()
    made = played(path, speed, store, live)
    rows = incident()
    assert made.progress.state == "done"
    assert made.progress.rows == made.progress.rows_total == sum(table.num_rows for table in rows.values())
    assert (made.progress.at_ns, made.now_ns()) == (END_NS, END_NS)
    for table in TABLES:
        assert sorted(map(repr, store.rows(table.name))) == sorted(map(repr, rows[table.name].to_pylist())), table.name
    assert live.rows == {name: table.num_rows for name, table in rows.items()}
    assert live.owners == {("acme", "lab")}


def test_rows_come_in_the_order_of_their_times(path: Path) -> None:
    order: list[tuple[str, int, int]] = []

    class Watching(MemoryStore):
        def append(self, table: Table, rows: pa.Table) -> None:
            times = rows[table.time].to_pylist()
            order.append((table.name, min(times), max(times)))
            super().append(table, rows)

    played(path, 10.0, Watching(), Live())
    assert order[0][0] == "series", "streams come before their samples"
    timed = [each for each in order if each[0] != "series" and each[1] >= BEGIN_NS]
    assert {name for name, _, begin in order if begin < BEGIN_NS} == {"relation", "step", "anomaly"}
    # 10 times as fast, a look each half second: nothing comes more than 5 s before what was already there.
    newest = 0
    for _, oldest_ns, newest_ns in timed:
        assert oldest_ns >= newest - 5 * SECOND_NS
        newest = max(newest, newest_ns)
    assert len({name for name, _, _ in order}) == len(TABLES)


def test_a_span_of_years_without_rows_is_over_at_once(tmp_path: Path) -> None:
    path, store = tmp_path / "wide.leadline", MemoryStore()
    rows = incident()
    with Draft(Manifest(-(2**63), 2**63 - 1), "", None) as draft:
        for name, table in rows.items():
            draft.add(BY_NAME[name], [table])
        write_bundle(path, draft.chunks(), draft.size)
    made = played(path, 0.0, store, Live())
    assert (made.progress.state, made.progress.at_ns) == ("done", 2**63 - 1)
    assert made.progress.rows == sum(table.num_rows for table in rows.values())


def test_samples_reach_live_tables_as_arrays(path: Path) -> None:
    live = Live()
    played(path, 0.0, MemoryStore(), live)
    samples = [columns for columns in live.columns if "value" in columns]
    assert samples
    for columns in samples:
        ids = columns["series"]
        assert isinstance(ids, np.ndarray)
        assert ids.shape[1] == 2


def test_rows_of_two_tenants_reach_live_tables_apart(tmp_path: Path) -> None:
    first, second = incident(Names(tenant="a")), incident(Names(tenant="b"))
    rows = {name: pa.concat_tables([first[name], second[name]]).unify_dictionaries().combine_chunks() for name in first}
    live = Live()
    played(write_incident(tmp_path / "a.leadline", rows), 0.0, MemoryStore(), live)
    assert live.owners == {("a", "lab"), ("b", "lab")}
    assert live.rows["event"] == rows["event"].num_rows


def test_a_store_that_fails_is_asked_again_and_then_told(path: Path) -> None:
    store, failures = MemoryStore(), iter([True, True, False] + [False] * 10**4)

    def fault(table: Table, rows: pa.Table) -> None:
        if next(failures):
            raise StoreError("busy")

    store.fault = fault
    assert played(path, 0.0, store, Live()).progress.state == "done"

    def broken(table: Table, rows: pa.Table) -> None:
        raise StoreError("the disk is gone")

    store.fault = broken
    progress = played(path, 0.0, store, Live()).progress
    assert (progress.state, progress.error) == ("failed", "the disk is gone")


def test_a_replay_that_is_stopped_says_where(path: Path) -> None:
    progress = played(path, 1.0, MemoryStore(), Live(), looks=20).progress
    assert progress.state == "stopped"
    assert BEGIN_NS < progress.at_ns < END_NS
    assert 0 < progress.rows < progress.rows_total


def test_it_runs_in_a_thread_and_stops_when_asked(path: Path) -> None:
    made = Replay(path, 0.01, MemoryStore(), Live())  # type: ignore[arg-type]
    assert made.progress.state == "waiting"
    made.start()
    made.stop()
    assert made.progress.state == "stopped"
    assert not [thread for thread in threading.enumerate() if thread.name == "replay"]


def test_a_file_that_is_no_bundle_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.leadline").write_text("no")
    with pytest.raises(DataError):
        Replay(tmp_path / "a.leadline", 1.0, MemoryStore(), Live())  # type: ignore[arg-type]
