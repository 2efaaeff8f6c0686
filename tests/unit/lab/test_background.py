"""Deeds of faults that come later: done once, not at all when the fault ends before, and their failure is told."""

from __future__ import annotations

import threading

import pytest

from leadline.lab.faults.background import later
from leadline.model.errors import WorldError


def test_it_is_done_once_after_its_time() -> None:
    done = threading.Event()
    one = later("soon", 0.01, done.set)
    assert done.wait(30)
    one.end()


def test_it_is_not_done_when_the_fault_ends_before() -> None:
    done: list[int] = []
    later("never", 3600.0, lambda: done.append(1)).end()
    assert done == []


def test_what_it_raised_is_told_at_the_end() -> None:
    began = threading.Event()

    def fail() -> None:
        began.set()
        raise WorldError("the namespace is gone")

    one = later("fails", 0.0, fail)
    assert began.wait(30)
    with pytest.raises(WorldError, match="the namespace is gone"):
        one.end()
