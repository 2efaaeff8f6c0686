"""What is read behind those who ask: who waits, how long, and what they get."""

from __future__ import annotations

import threading

import pytest

from leadline.model.errors import StoreError
from leadline.store.asking.behind import Behind, Held


def test_whoever_waits_for_as_long_as_it_takes_has_the_newest() -> None:
    told: list[int] = []

    def read() -> int:
        told.append(len(told))
        return told[-1]

    behind = Behind[int]("test")
    assert behind.value is None
    assert behind.told(read) == Held(0, 0.0)
    assert behind.told(read) == Held(1, 0.0)
    assert behind.value == 1


def test_a_store_that_hangs_is_waited_for_as_long_as_one_likes() -> None:
    answers, asked, now_s = threading.Event(), [0], [100.0]

    def read() -> int:
        asked[0] += 1
        answers.wait(10)
        return asked[0]

    behind = Behind[int]("test", lambda: now_s[0])
    assert behind.told(read, 0.01).value is None
    now_s[0] = 112.0
    assert behind.told(read, 0.01) == Held(None, 12.0), "for how long it has not answered"
    assert asked == [1], "one reading at a time"
    answers.set()
    assert behind.begin(read).join(10) is None
    assert behind.value == 1
    answers.clear()
    assert behind.told(read, 0.01).value == 1, "what was told last"
    answers.set()


def test_an_error_is_of_whoever_waits_and_what_was_read_stays() -> None:
    def fails() -> int:
        raise StoreError("the disk is full")

    behind = Behind[int]("test")
    with pytest.raises(StoreError, match="the disk is full"):
        behind.told(fails)
    assert behind.told(lambda: 7) == Held(7, 0.0)
    with pytest.raises(StoreError, match="the disk is full"):
        behind.told(fails)
    assert behind.value == 7
