"""Live tables: bounded, counted, read by number, from many threads."""

from __future__ import annotations

import threading

import numpy as np

from leadline.model.tables import BY_NAME
from leadline.runner.live import LiveTables

EVENT, SAMPLE = BY_NAME["event"], BY_NAME["metric_sample"]


class Dropped:
    def __init__(self) -> None:
        self.rows = 0
        self._lock = threading.Lock()

    def __call__(self, rows: int) -> None:
        assert rows > 0, "nothing dropped is not told"
        with self._lock:
            self.rows += rows


def test_what_was_added_is_read_in_order_as_it_came() -> None:
    live = LiveTables(Dropped())
    columns = {"value": [1.0, 2.0]}
    live.add("acme", "c1", SAMPLE, columns, 2)
    live.add("default", "c2", EVENT, {}, 1)
    (batch,) = live.since("metric_sample")
    assert (batch.tenant, batch.cluster, batch.rows) == ("acme", "c1", 2)
    assert batch.columns is columns, "columns are not copied"
    assert live.rows() == {"metric_sample": 2, "event": 1}
    assert live.since("step") == []


def test_tables_that_nobody_reads_are_not_held() -> None:
    live = LiveTables(Dropped(), tables={"event"})
    live.add("t", "c", SAMPLE, {}, 1)
    live.add("t", "c", EVENT, {}, 1)
    assert live.rows() == {"event": 1}


def test_a_reader_goes_on_from_the_last_number() -> None:
    live = LiveTables(Dropped())
    seen: list[int] = []
    last = 0
    for number in range(6):
        live.add("t", "c", EVENT, {"n": number}, 1)
        live.add("t", "c", SAMPLE, {}, 1)  # another table's batches do not disturb the numbers
        if number % 2:
            batches = live.since("event", last)
            seen += [int(str(batch.columns["n"])) for batch in batches]
            last = batches[-1].number
    assert seen == list(range(6))
    assert live.since("event", last) == []


def test_the_oldest_rows_go_first_and_are_counted() -> None:
    dropped = Dropped()
    live = LiveTables(dropped, rows_max=10)
    for number in range(7):
        live.add("t", "c", EVENT, {"n": number}, 3)
        assert live.rows()["event"] <= 10
    assert [batch.columns["n"] for batch in live.since("event")] == [4, 5, 6]
    assert dropped.rows + live.rows()["event"] == 21


def test_a_batch_larger_than_the_bound_stays_until_the_next() -> None:
    dropped = Dropped()
    live = LiveTables(dropped, rows_max=10)
    live.add("t", "c", EVENT, {}, 3)
    live.add("t", "c", EVENT, {}, 50)
    assert (live.rows()["event"], dropped.rows) == (50, 3)
    live.add("t", "c", EVENT, {}, 1)
    assert (live.rows()["event"], dropped.rows) == (1, 53)


def test_small_batches_are_bounded_by_their_number() -> None:
    dropped = Dropped()
    live = LiveTables(dropped, rows_max=1000, batches_max=5)
    for number in range(12):
        live.add("t", "c", EVENT, {"n": number}, 1)
    assert [batch.columns["n"] for batch in live.since("event")] == [7, 8, 9, 10, 11]
    assert (live.rows()["event"], dropped.rows) == (5, 7)


def test_large_rows_are_bounded_by_their_bytes() -> None:
    dropped = Dropped()
    live = LiveTables(dropped, bytes_max=1000)
    for number in range(5):
        live.add("t", "c", EVENT, {"value": np.zeros(50), "n": number}, 2)  # 400 bytes each
    assert [batch.columns["n"] for batch in live.since("event")] == [3, 4]
    assert dropped.rows == 6


def test_bounds_are_for_each_table() -> None:
    live = LiveTables(Dropped(), rows_max=2)
    live.add("t", "c", EVENT, {}, 2)
    live.add("t", "c", SAMPLE, {}, 2)
    assert live.rows() == {"event": 2, "metric_sample": 2}


def test_many_writers_and_a_reader_see_every_batch_once_and_in_order() -> None:
    live = LiveTables(Dropped())
    writers = [threading.Thread(target=_write, args=(live, number)) for number in range(4)]
    seen: list[tuple[int, int]] = []
    last = 0
    for writer in writers:
        writer.start()
    while len(seen) < 4 * 200:
        running = any(writer.is_alive() for writer in writers)
        batches = live.since("event", last)
        last = batches[-1].number if batches else last
        seen += [batch.columns["key"] for batch in batches]  # type: ignore[misc]
        assert batches or running or live.since("event", last) or len(seen) == 4 * 200, f"{len(seen)} of 800 seen"
    for writer in writers:
        writer.join()
    assert sorted(seen) == [(writer, n) for writer in range(4) for n in range(200)]
    for number in range(4):
        assert [n for writer, n in seen if writer == number] == list(range(200))


def test_rows_dropped_by_many_writers_are_all_counted() -> None:
    dropped = Dropped()
    live = LiveTables(dropped, rows_max=37)
    writers = [threading.Thread(target=_write, args=(live, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert live.rows()["event"] <= 37
    assert sum(batch.rows for batch in live.since("event")) == live.rows()["event"]
    assert dropped.rows + live.rows()["event"] == 4 * 200


def _write(live: LiveTables, writer: int) -> None:
    for n in range(200):
        live.add("t", "c", EVENT, {"key": (writer, n)}, 1)
