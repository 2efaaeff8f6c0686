"""The intake: what is taken, what is refused and counted, and that an answer means stored."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from leadline.ingest import known
from leadline.ingest.sources import Sender
from leadline.model.errors import BusyError, DataError, RefusedError, StoreError
from leadline.model.ids import series_id
from leadline.model.principal import Principal
from leadline.model.tables import BY_NAME
from leadline.testing import MemoryStore
from leadline.testing.clock import START_NS as T
from leadline.wire.samples import NORMAL_NAN_BITS, STALE_NAN_BITS, Metadata, samples_from

from .conftest import SENDER, Bench, one

S = 10**9
UP = {"__name__": "up", "job": "node"}
GPU = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": "GPU-1"}
EVENT, RELATION, LEDGER = BY_NAME["event"], BY_NAME["relation"], BY_NAME["ledger"]
Make = Callable[..., Bench]


def bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def of_bits(number: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", number))[0])


def events(messages: list[str], time_ns: int = T) -> dict[str, list[Any]]:
    n = len(messages)
    return {
        "time_ns": [time_ns] * n,
        "entity_kind": ["host"] * n,
        "entity": ["host:n1"] * n,
        "kind": ["log"] * n,
        "severity": ["info"] * n,
        "code": [None] * n,
        "message": messages,
        "attributes": [{}] * n,
        "source": ["test"] * n,
        "host": ["n1"] * n,
        "clock": ["n1"] * n,
    }


# --- samples -------------------------------------------------------------------------------------------------


def test_what_is_sent_is_stored_with_its_series(bench: Bench) -> None:
    receipt = bench.send(samples_from([UP, {"__name__": "load"}], [0, 1, 0], [T, T, T + S], [1.0, 2.0, 3.0]))
    assert (receipt.taken, dict(receipt.refused), receipt.wrong) == (3, {}, 0)
    assert bench.stored() == [("load{}", T, 2.0), ("up{job=node}", T, 1.0), ("up{job=node}", T + S, 3.0)]
    assert (bench.accepted("samples"), bench.accepted("series")) == (3, 2)
    row = next(row for row in bench.store.rows("series") if row["name"] == "up")
    assert int.from_bytes(row["series"], "little") == series_id(UP)
    assert (row["first_ns"], row["last_ns"], row["source"]) == (T, T + S, "remote-write")
    assert [name for name, _ in bench.store.appends] == ["series", "metric_sample"], "a series row comes first"


def test_nothing_is_answered_before_it_is_stored(bench: Bench) -> None:
    bench.faults.open.clear()
    receipt = bench.intake.samples(one(UP, T), Principal(), SENDER)
    assert bench.faults.waiting.wait(5)
    assert not receipt.done.done()
    assert bench.stored() == []
    assert bench.sources.all() == [] or bench.sources.all()[0].samples == 0
    assert bench.seen == []
    bench.faults.open.set()
    receipt.done.result(5)
    assert bench.seen == [("metric_sample", 1)], "windows that were judged without them are told when they are there"
    assert len(bench.stored()) == 1
    assert bench.sources.all()[0].samples == 1


def test_what_is_taken_is_told_once_it_is_stored_and_nothing_else(bench: Bench) -> None:
    bench.send(samples_from([UP], [0, 0], [T, T + 3600 * S], [1.0, 2.0]))
    assert bench.seen == [("metric_sample", 1)]
    (columns,) = bench.told
    assert (columns["time_ns"].tolist(), columns["value"].tolist()) == ([T], [1.0])
    assert columns["series"].shape == (1, 2)
    bench.send(one({"__name__": "new"}, T + 3600 * S))
    assert len(bench.told) == 1, "a request of which nothing is taken"


@pytest.mark.parametrize(
    ("age_s", "reason"),
    [
        (28 * 86400, None),
        (28 * 86400 + 0.001, "too_old"),
        (-600, None),
        (-600.001, "in_future"),
        (292 * 365 * 86400 * 0.17, "too_old"),
    ],
    ids=["oldest", "too old", "latest", "in the future", "1975"],
)
def test_samples_are_taken_within_their_time(bench: Bench, age_s: float, reason: str | None) -> None:
    receipt = bench.send(samples_from([UP], [0, 0], [T, T - round(age_s * S)], [1.0, 2.0]))
    assert receipt.taken == (2 if reason is None else 1)
    assert receipt.wrong == (0 if reason is None else 1)
    assert bench.refused() == ({} if reason is None else {reason: 1})
    assert len(bench.stored()) == receipt.taken
    if reason:
        assert "ingest." in receipt.messages[0]
        assert bench.sources.all()[0].last_error == receipt.messages[0]


def test_extreme_times_are_refused_and_not_wrapped(bench: Bench) -> None:
    receipt = bench.send(samples_from([UP], [0, 0], [-(2**63), 2**63 - 1], [1.0, 2.0]))
    assert receipt.taken == 0
    assert bench.refused() == {"too_old": 1, "in_future": 1}


def test_a_body_without_samples_is_answered(bench: Bench) -> None:
    assert bench.send(samples_from([], [], [], [])).taken == 0
    assert bench.send(samples_from([UP], [], [], [])).taken == 0
    assert [row["name"] for row in bench.store.rows("series")] == ["up"]
    assert bench.stored() == []


def test_values_keep_their_bits_and_stale_markers_are_counted(bench: Bench) -> None:
    numbers = [STALE_NAN_BITS, NORMAL_NAN_BITS, 0x7FF0000000000001, 1 << 63, bits(float("inf"))]
    bench.send(samples_from([UP], [0] * 5, [T + n for n in range(5)], [of_bits(number) for number in numbers]))
    stored = sorted(bench.store.rows("metric_sample"), key=lambda row: row["time_ns"])
    assert [bits(row["value"]) for row in stored][:2] == numbers[:2]
    assert [bits(row["value"]) for row in stored][3:] == numbers[3:]
    assert bench.accepted("stale_markers") == 1


def test_late_samples_are_stored_and_counted(bench: Bench) -> None:
    bench.send(one(UP, T))
    bench.send(one(UP, T - 60 * S))
    bench.send(one(UP, T))
    assert bench.accepted("late_samples") == 1
    assert [time_ns for _, time_ns, _ in bench.stored()] == [T - 60 * S, T]


SPEED = {"__name__": "node_network_speed_bytes", "device": "docker0"}


def test_blanks_are_left_out_of_the_streams_that_tell_them_so_only(bench: Bench) -> None:
    blank = 9223372036854775794.0
    streams, times = [0, 0, 1, 1, 2], [T, T + S, T, T + S, T]
    receipt = bench.send(samples_from([GPU, UP, SPEED], streams, times, [blank, 41.0, blank, -125000.0, -125000.0]))
    assert dict(receipt.refused) == {"blank_value": 2}
    assert receipt.wrong == 0, "no sender is told of a blank"
    assert bench.refused() == {"blank_value": 2}
    assert bench.stored() == [
        ("DCGM_FI_DEV_GPU_TEMP{UUID=GPU-1}", T + S, 41.0),
        ("up{job=node}", T, blank),
        ("up{job=node}", T + S, -125000.0),
    ]
    assert bench.sources.all()[0].last_error == ""


def test_a_blank_too_old_is_counted_once(bench: Bench) -> None:
    receipt = bench.send(samples_from([GPU], [0], [T - 29 * 86400 * S], [float(2**63)]))
    assert {reason: n for reason, n in receipt.refused.items() if n} == {"too_old": 1}


def test_what_the_decoder_dropped_is_counted(bench: Bench) -> None:
    receipt = bench.send(one(UP, T, dropped={"histogram_buckets": 7, "exemplar": 2}))
    assert bench.refused() == {"histogram_buckets": 7, "exemplar": 2}
    assert receipt.wrong == 7, "exemplars are no fault of the sender"


def test_refused_streams_leave_the_rest_of_the_body(make: Make) -> None:
    bench = make(label_bytes_max=16)
    streams = [UP, {"__name__": "x", "a": "v" * 17}, {"job": "nameless"}]
    for _ in range(2):
        receipt = bench.send(samples_from(streams, [0, 1, 1, 2], [T] * 4, [1.0, 2.0, 3.0, 4.0]))
        assert receipt.taken + sum(receipt.refused.values()) == 4
    assert bench.refused() == {"label_too_long": 4, "label_invalid": 2}
    assert [name for name, _, _ in bench.stored()] == ["up{job=node}"]


def test_series_of_one_tenant_do_not_count_for_another(make: Make) -> None:
    bench = make(series_max=1)
    other = Principal("other")
    assert bench.send(one(UP, T)).taken == 1
    assert bench.send(one({"__name__": "b"}, T)).taken == 0
    assert bench.send(one({"__name__": "b"}, T), other).taken == 1
    assert bench.send(one(UP, T), Principal(cluster="second")).taken == 1
    assert bench.refused() == {"series_limit": 1}
    assert sorted((row["tenant"], row["cluster"], row["name"]) for row in bench.store.rows("series")) == [
        ("default", "default", "up"),
        ("default", "second", "up"),
        ("other", "default", "b"),
    ]


# --- a store that fails --------------------------------------------------------------------------------------


def test_a_failing_store_is_told_and_the_retry_brings_series_before_samples(bench: Bench) -> None:
    bench.faults.broken = "disk is full"
    receipt = bench.intake.samples(one(UP, T), Principal(), SENDER)
    with pytest.raises(StoreError, match="disk is full"):
        receipt.done.result(5)
    assert bench.intake.last_store_error == "disk is full"
    assert (bench.store.appends, bench.accepted("samples")) == ([], 0)
    bench.faults.broken = ""
    bench.send(one(UP, T))
    assert [name for name, _ in bench.store.appends] == ["series", "metric_sample"]
    assert bench.stored() == [("up{job=node}", T, 1.0)]
    assert bench.accepted("series") == 1


def test_a_series_row_is_stored_before_its_samples_whatever_fails(bench: Bench) -> None:
    def samples_fail(table: Any, rows: pa.Table) -> None:
        if table.name == "metric_sample":
            raise StoreError("no room for samples")

    bench.store.fault = samples_fail
    with pytest.raises(StoreError):
        bench.send(one(UP, T))
    assert [row["name"] for row in bench.store.rows("series")] == ["up"]
    bench.store.fault = bench.faults
    bench.send(one({"__name__": "load"}, T))
    bench.send(one(UP, T))
    assert [name for name, _, _ in bench.stored()] == ["load{}", "up{job=node}"]


def test_an_answer_that_got_lost_does_not_store_twice(bench: Bench) -> None:
    def lose_the_answer(table: Any, rows: pa.Table) -> None:
        raise StoreError("connection reset")

    bench.store.fault_after = lose_the_answer
    with pytest.raises(StoreError):
        bench.send(one(UP, T))
    bench.store.fault_after = lambda table, rows: None
    bench.send(one(UP, T))
    assert bench.stored() == [("up{job=node}", T, 1.0)]


def test_a_full_lane_takes_nothing_of_the_samples_and_knows_their_streams(make: Make) -> None:
    bench = make(queue_rows_max=1000)
    bench.faults.open.clear()
    first = bench.intake.samples(
        samples_from([UP], [0] * 999, [T + n for n in range(999)], [1.0] * 999), Principal(), SENDER
    )
    assert bench.faults.waiting.wait(5)
    new = samples_from([{"__name__": "new"}], [0, 0], [T, T + S], [1.0, 2.0])
    with pytest.raises(BusyError):
        bench.intake.samples(new, Principal(), SENDER)
    assert bench.intake.waiting_rows["metric_sample"] == 999
    bench.faults.open.set()
    first.done.result(5)
    bench.send(new)
    row = next(row for row in bench.store.rows("series") if row["name"] == "new")
    assert (row["first_ns"], row["last_ns"]) == (T, T + S), "the retry of a refused request has the right times"
    assert bench.accepted("series") == 2
    assert bench.accepted("samples") == 1001


# --- restart -------------------------------------------------------------------------------------------------


def test_streams_are_known_again_after_a_restart(make: Make) -> None:
    first = make(series_max=3)
    for labels in (UP, GPU, SPEED):
        first.send(one(labels, T))
    first.intake.stop()
    second = make(store=first.store, series_max=3)
    assert second.intake.series_known == 3
    receipt = second.send(samples_from([UP, GPU, SPEED], [0, 1, 1, 2], [T + S] * 4, [1.0, 2.0**63, 40.0, -125000.0]))
    assert (second.accepted("series"), receipt.taken) == (0, 2)
    assert second.refused() == {"blank_value": 2}, "the store says how streams tell that they have no value"
    assert second.send(one({"__name__": "third"}, T)).refused["series_limit"] == 1


def test_a_stop_saves_how_far_the_streams_reach(make: Make) -> None:
    bench = make()
    bench.send(one(UP, T))
    bench.send(one(UP, T + 60 * S))
    bench.send(one(UP, T - 60 * S))
    assert bench.store.rows("series")[0]["last_ns"] == T
    bench.intake.stop()
    row = bench.store.rows("series")[0]
    assert (row["first_ns"], row["last_ns"]) == (T - 60 * S, T + 60 * S)


def test_times_are_saved_when_they_moved_by_more_than_an_hour(bench: Bench) -> None:
    bench.send(one(UP, T - 7200 * S))
    bench.send(one(UP, T - 3601 * S))
    bench.intake.save_streams()
    assert bench.store.rows("series")[0]["last_ns"] == T - 7200 * S
    bench.send(one(UP, T))
    bench.faults.broken = "disk is full"
    with pytest.raises(StoreError):
        bench.intake.save_streams()
    bench.faults.broken = ""
    bench.intake.save_streams()
    assert bench.store.rows("series")[0]["last_ns"] == T


def test_times_are_saved_a_slice_of_streams_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no tenant has so many streams that the engine's limit for one query is met."""
    monkeypatch.setattr("leadline.ingest.known.SLICE_FIRST", 3)
    monkeypatch.setattr("leadline.ingest.known.SLICE_MAX", 3)
    names = [f"m{number}" for number in range(10)]
    for name in names:
        bench.send(one({"__name__": name}, T))
    for name in names[:5]:
        bench.send(one({"__name__": name}, T + 60 * S))
    query, read = bench.store.query, list[int]()

    def counted_query(sql: str, parameters: Any = None) -> pa.Table:
        rows = query(sql, parameters)
        read.append(rows.num_rows)
        return rows

    bench.store.query = counted_query  # type: ignore[method-assign]
    bench.intake.save_streams(by_ns=0)
    assert read
    assert max(read) <= 3
    assert {row["name"]: row["last_ns"] - T for row in bench.store.rows("series")} == {
        name: 60 * S if name in names[:5] else 0 for name in names
    }


def test_a_store_that_fails_at_the_end_does_not_stop_the_stop(make: Make) -> None:
    bench = make()
    bench.send(one(UP, T))
    bench.send(one(UP, T + 1))
    bench.faults.broken = "disk is full"
    bench.intake.stop()
    assert bench.intake.last_store_error == "disk is full"


def test_a_stop_stores_what_was_offered_and_takes_nothing_more(make: Make) -> None:
    bench = make(linger_s=1.0)
    receipts = [bench.intake.samples(one(UP, T + n), Principal(), SENDER) for n in range(20)]
    rows = bench.intake.rows(EVENT, events(["last"]), 1, 1, Principal(), SENDER)
    bench.intake.stop()
    assert all(receipt.done.done() for receipt in [*receipts, rows])
    assert len(bench.stored()) == 20
    assert [row["message"] for row in bench.store.rows("event")] == ["last"]
    for table, columns in ((EVENT, events(["late"])), (RELATION, None)):
        with pytest.raises(BusyError, match="stopping"):
            bench.intake.rows(table, columns or relations(1), 1, 2, Principal(), SENDER)
    with pytest.raises(BusyError, match="stopping"):
        bench.intake.samples(one(UP, T + S), Principal(), SENDER)


def test_building_an_intake_does_nothing(make: Make) -> None:
    store = MemoryStore()
    bench = make(store=store, start=False)
    bench.intake.stop()
    assert store.appends == []


# --- rows ----------------------------------------------------------------------------------------------------


def relations(count: int) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "child": [f"rank:j/{n}" for n in range(count)],
        "parent": ["gpu:GPU-1"] * count,
        "kind": ["runs-on"] * count,
        "from_ns": [T] * count,
        "to_ns": [None] * count,
        "source": ["test"] * count,
        "confidence": [1.0] * count,
    }
    given = {column.name for column in RELATION.given}
    return {**{name: [""] * count for name in given - columns.keys()}, **columns}


def test_rows_are_stored_with_their_batch_and_whose_they_are(bench: Bench) -> None:
    batch = 0x0123456789ABCDEF_FEDCBA9876543210
    receipt = bench.intake.rows(EVENT, events(["a", "b"]), 2, batch, Principal("acme", "c1"), SENDER)
    receipt.done.result(5)
    rows = sorted(bench.store.rows("event"), key=lambda row: row["batch_row"])
    assert [(row["message"], row["batch_row"]) for row in rows] == [("a", 0), ("b", 1)]
    assert {(row["tenant"], row["cluster"]) for row in rows} == {("acme", "c1")}
    assert {int.from_bytes(row["batch"], "little") for row in rows} == {batch}
    assert (receipt.taken, bench.accepted("rows")) == (2, 2)
    assert bench.seen == [("event", 2)]
    assert bench.sources.all()[0].tells == {"event"}


def test_a_batch_that_comes_again_is_acknowledged_and_not_stored_twice(bench: Bench) -> None:
    for _ in range(3):
        bench.intake.rows(EVENT, events(["a"]), 1, 5, Principal(), SENDER).done.result(5)
    assert bench.accepted("repeated_batches") == 2
    assert [name for name, _ in bench.store.appends] == ["event"]
    bench.intake.rows(EVENT, events(["b"]), 1, 6, Principal(), SENDER).done.result(5)
    bench.intake.rows(EVENT, events(["c"]), 1, 5, Principal("other"), SENDER).done.result(5)
    assert sorted(row["message"] for row in bench.store.rows("event")) == ["a", "b", "c"]


def test_a_batch_whose_append_failed_is_no_repeated_one(bench: Bench) -> None:
    bench.faults.broken = "disk is full"
    with pytest.raises(StoreError):
        bench.intake.rows(EVENT, events(["a"]), 1, 5, Principal(), SENDER).done.result(5)
    bench.faults.broken = ""
    bench.intake.rows(EVENT, events(["a"]), 1, 5, Principal(), SENDER).done.result(5)
    assert bench.accepted("repeated_batches") == 0
    assert len(bench.store.rows("event")) == 1


def test_a_batch_after_a_restart_is_one_batch(make: Make) -> None:
    first = make()
    first.intake.rows(EVENT, events(["a", "b"]), 2, 5, Principal(), SENDER).done.result(5)
    second = make(store=first.store)
    second.intake.rows(EVENT, events(["a", "b"]), 2, 5, Principal(), SENDER).done.result(5)
    assert sorted(row["message"] for row in second.store.rows("event")) == ["a", "b"]


def test_rows_with_a_key_take_the_place_of_the_one_before(bench: Bench) -> None:
    for batch, confidence in ((1, 0.5), (1, 0.9)):
        columns = {**relations(2), "confidence": [confidence] * 2}
        bench.intake.rows(RELATION, columns, 2, batch, Principal(), SENDER).done.result(5)
    assert [row["confidence"] for row in bench.store.rows("relation")] == [0.9, 0.9]


@pytest.mark.parametrize(
    ("time_ns", "reason"),
    [
        (T - (400 * 24 + 1) * 3600 * S, "too_old"),
        (T + 601 * S, "in_future"),
        (-(2**63), "too_old"),
        (2**63 - 1, "in_future"),
    ],
)
def test_rows_out_of_their_time_refuse_the_body(bench: Bench, time_ns: int, reason: str) -> None:
    columns = events(["fine", "not", "fine"])
    columns["time_ns"][1] = time_ns
    with pytest.raises(RefusedError, match=r"event\.time_ns") as error:
        bench.intake.rows(EVENT, columns, 3, 1, Principal(), SENDER)
    assert (error.value.reason, error.value.amount) == (reason, 3)
    assert bench.store.appends == []
    assert bench.told == []


def test_no_rows_are_no_append(bench: Bench) -> None:
    receipt = bench.intake.rows(EVENT, events([]), 0, 1, Principal(), SENDER)
    receipt.done.result(5)
    assert (receipt.taken, bench.store.appends) == (0, [])


def test_rows_that_do_not_fit_are_the_callers_mistake(bench: Bench) -> None:
    columns = events(["a"])
    columns["time_ns"] = ["noon"]
    with pytest.raises(DataError, match="column time_ns of event"):
        bench.intake.rows(EVENT, columns, 1, 1, Principal(), SENDER)


def test_the_memory_of_batches_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.ingest.intake.RECENT_BATCHES_MAX", 3)
    for batch in range(10):
        bench.intake.rows(EVENT, events([str(batch)]), 1, batch, Principal(), SENDER).done.result(5)
    assert len(bench.intake._recent) == 3
    bench.intake.rows(EVENT, events(["0"]), 1, 0, Principal(), SENDER).done.result(5)
    assert len(bench.store.rows("event")) == 10, "a batch that is no longer remembered is the same rows in the store"


def test_refusing_counts_for_the_sender_and_in_total(bench: Bench) -> None:
    sender = Sender("default", "rows", "curl")
    bench.intake.refuse(sender, "bad_row", "line 3: expected a number", 2)
    assert bench.refused() == {"bad_row": 2}
    source = bench.sources.all()[0]
    assert (source.refused["bad_row"], source.last_error, source.last_error_ns) == (2, "line 3: expected a number", T)


# --- types told apart from samples ---------------------------------------------------------------------------


def test_what_is_told_later_reaches_the_stored_row(bench: Bench) -> None:
    bench.send(one({"__name__": "http_requests_total"}, T))
    bench.send(samples_from([], [], [], [], {"http_requests": Metadata("counter", "By")}))
    bench.send(one({"__name__": "http_requests_total"}, T + S))
    row = bench.store.rows("series")[0]
    assert (row["type"], row["unit"], row["first_ns"]) == ("counter", "bytes", T)
    bench.send(one({"__name__": "http_requests_total", "code": "500"}, T))
    assert {row["type"] for row in bench.store.rows("series")} == {"counter"}


def test_saving_times_does_not_undo_what_was_told_meanwhile(bench: Bench) -> None:
    bench.send(one(UP, T))
    bench.send(one(UP, T + S))
    bench.send(samples_from([], [], [], [], {"up": Metadata("gauge")}))
    query, saving = bench.store.query, threading.Thread(target=bench.intake.save_streams, args=(0,))
    read, go_on = threading.Event(), threading.Event()

    def slow_query(sql: str, parameters: Any = None) -> pa.Table:
        rows = query(sql, parameters)
        if threading.current_thread() is saving:
            read.set()
            assert go_on.wait(5)
        return rows

    bench.store.query = slow_query  # type: ignore[method-assign]
    saving.start()
    assert read.wait(5)
    receipt = bench.intake.samples(one(UP, T + 2 * S), Principal(), SENDER)
    go_on.set()
    saving.join(5)
    receipt.done.result(5)
    row = bench.store.rows("series")[0]
    assert (row["type"], row["last_ns"]) == ("gauge", T + 2 * S)


def test_tenants_beyond_the_bound_are_refused_by_name(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "TENANTS_MAX", 2)
    bench = make()
    for tenant in ("a", "b", "a"):
        bench.send(one(UP, T), Principal(tenant))
    with pytest.raises(RefusedError, match="'c'") as refused:
        bench.send(one(UP, T), Principal("c"))
    assert refused.value.reason == "tenant_limit"


def test_a_batch_repeated_for_another_cluster_is_another_batch(bench: Bench) -> None:
    for cluster in ("one", "two"):
        bench.intake.rows(EVENT, events(["a"]), 1, 7, Principal("t", cluster), SENDER).done.result(10)
    assert sorted(row["cluster"] for row in bench.store.rows("event")) == ["one", "two"]
