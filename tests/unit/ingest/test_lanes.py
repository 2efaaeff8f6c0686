"""Lanes: group commit, back-pressure, retries, and that an answer means stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from leadline.ingest import lanes
from leadline.ingest.lanes import Lane
from leadline.model.errors import BusyError, StoreError


@contextmanager
def lane(append: Callable[[list[str]], None], **bounds: float) -> Iterator[Lane[str]]:
    failures: list[StoreError] = []
    made: Lane[str] = Lane(
        "test",
        append,
        batch_rows=int(bounds.get("batch_rows", 100)),
        linger_s=bounds.get("linger_s", 0.05),
        queue_rows_max=int(bounds.get("queue_rows_max", 1000)),
        queue_bytes_max=int(bounds.get("queue_bytes_max", 1 << 20)),
        on_failure=failures.append,
    )
    made.failures = failures  # type: ignore[attr-defined]
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_batches_offered_together_are_appended_together_and_in_order() -> None:
    appended: list[list[str]] = []
    begun, go_on = threading.Event(), threading.Event()

    def append(batches: list[str]) -> None:
        begun.set()
        assert go_on.wait(5)
        appended.append(batches)

    with lane(append) as under_test:
        first = under_test.offer("a", 1, 100)
        assert begun.wait(5)
        rest = [under_test.offer(name, 1, 100) for name in "bcd"]
        assert not first.done(), "an answer before the append has ended"
        go_on.set()
        for future in [first, *rest]:
            future.result(5)
    assert appended == [["a"], ["b", "c", "d"]]


def test_for_how_long_the_store_has_not_answered_is_told_and_over_when_it_has() -> None:
    begun, go_on = threading.Event(), threading.Event()
    with lane(lambda _: (begun.set(), go_on.wait(5), None)[2]) as under_test:
        assert under_test.held_s == 0.0
        taken = under_test.offer("a", 1, 100)
        assert begun.wait(5)
        assert 0.0 < under_test.held_s < 5.0
        go_on.set()
        taken.result(5)
        assert under_test.held_s == 0.0


def test_a_full_lane_takes_nothing_and_says_so() -> None:
    go_on = threading.Event()
    with lane(lambda _: (go_on.wait(5), None)[1], queue_rows_max=10) as under_test:
        taken = under_test.offer("a", 8, 100)
        with pytest.raises(BusyError, match="8 rows wait") as error:
            under_test.offer("b", 3, 100)
        assert error.value.retry_after_s >= 1
        assert under_test.rows == 8
        go_on.set()
        taken.result(5)
        under_test.offer("c", 3, 100).result(5)


def test_a_batch_larger_than_the_queue_is_taken_by_an_empty_lane() -> None:
    with lane(lambda _: None, queue_rows_max=10) as under_test:
        under_test.offer("huge", 50, 100).result(5)


def test_a_lane_is_full_by_bytes_too() -> None:
    go_on = threading.Event()
    with lane(lambda _: (go_on.wait(5), None)[1], queue_bytes_max=1000) as under_test:
        taken = under_test.offer("a", 1, 900)
        with pytest.raises(BusyError, match="900 bytes"):
            under_test.offer("b", 1, 101)
        go_on.set()
        taken.result(5)
        under_test.offer("huge", 1, 5000).result(5)
        under_test.offer("c", 1, 1000).result(5)


def test_an_append_that_fails_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "FIRST_WAIT_S", 0.001)
    tries: list[list[str]] = []

    def append(batches: list[str]) -> None:
        tries.append(batches)
        if len(tries) == 1:
            raise StoreError("disk is busy")

    with lane(append) as under_test:
        under_test.offer("a", 1, 100).result(5)
        assert [str(error) for error in under_test.failures] == ["disk is busy"]  # type: ignore[attr-defined]
    assert tries == [["a"], ["a"]]


def test_an_append_that_keeps_failing_is_told_and_the_lane_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "FIRST_WAIT_S", 0.001)
    broken = True

    def append(_: list[str]) -> None:
        if broken:
            raise StoreError("disk is full")

    with lane(append) as under_test:
        with pytest.raises(StoreError, match="disk is full"):
            under_test.offer("a", 1, 100).result(5)
        assert under_test.rows == 0
        broken = False
        under_test.offer("b", 1, 100).result(5)


def test_a_bug_in_the_append_fails_its_rows_and_not_the_lane() -> None:
    def append(batches: list[str]) -> None:
        if batches == ["bad"]:
            raise ZeroDivisionError("a bug")

    with lane(append) as under_test:
        with pytest.raises(StoreError, match="ZeroDivisionError"):
            under_test.offer("bad", 1, 100).result(5)
        under_test.offer("good", 1, 100).result(5)


def test_stop_appends_what_waits_and_takes_nothing_more() -> None:
    appended: list[str] = []
    with lane(appended.extend, linger_s=1.0) as under_test:
        futures = [under_test.offer(str(number), 1, 100) for number in range(20)]
        under_test.stop()
        assert all(future.done() for future in futures)
        with pytest.raises(BusyError, match="stopping"):
            under_test.offer("late", 1, 100)
    assert appended == [str(number) for number in range(20)]


def test_every_row_is_answered_under_many_senders() -> None:
    appended: list[str] = []

    def send(number: int) -> None:
        for place in range(50):
            under_test.offer(f"{number}/{place}", 1, 100).result(10)

    with lane(appended.extend, linger_s=0.01) as under_test:
        senders = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(30)
    assert sorted(appended) == sorted(f"{number}/{place}" for number in range(8) for place in range(50))
    for number in range(8):
        mine = [name for name in appended if name.startswith(f"{number}/")]
        assert mine == [f"{number}/{place}" for place in range(50)], "one sender's batches changed their order"


def test_where_many_wait_together_the_next_append_comes_later() -> None:
    appended: list[int] = []
    with lane(lambda batches: appended.append(len(batches)), linger_s=0.1) as under_test:
        for _ in range(2):
            for future in [under_test.offer("a", 1, 100) for _ in range(40)]:
                future.result(5)
        began = time.monotonic()
        under_test.offer("a", 1, 100).result(5)
        late_s = time.monotonic() - began
        under_test.offer("a", 1, 100).result(5)
    assert late_s > 0.5, "a linger is 0.1 s"
    assert appended[-2:] == [1, 1]


def test_one_batch_of_many_senders_is_many_who_wait_together() -> None:
    with lane(lambda _: None, linger_s=0.1) as under_test:
        under_test.offer("a", 1, 100, senders=40).result(5)
        began = time.monotonic()
        under_test.offer("a", 1, 100).result(5)
        assert time.monotonic() - began > 0.5, "a linger is 0.1 s"
        under_test.offer("a", 1, 100).result(5)


def test_what_nobody_waits_for_waits_for_more() -> None:
    appended: list[list[str]] = []
    with lane(appended.append, linger_s=0.1) as under_test:
        under_test.offer("first", 1, 100).result(5)
        began = time.monotonic()
        futures = [under_test.offer(name, 40, 100, awaited=False) for name in ("a", "b")]
        futures[0].result(5)
        assert time.monotonic() - began >= 0.4, "four lingers"
        futures = [under_test.offer("c", 1, 100, awaited=False)]
        time.sleep(0.1)
        assert not futures[0].done()
        under_test.offer("hurry", 1, 100).result(5)
        assert futures[0].done()
    assert appended[1:] == [["a", "b"], ["c", "hurry"]]
