"""How verbs that keep a server running are told to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from leadline.cli.serving import stop_on_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of this process are as they were, whatever a test did."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_of_them_is_noted_and_its_handler_put_back(number: signal.Signals) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    before = signal.getsignal(number)
    with stop_on_signals() as caught:
        assert not caught
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert caught == [number, number]
    assert signal.getsignal(number) == before


def test_nohup_stays_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_on_signals() as caught:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not caught
