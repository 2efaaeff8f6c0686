"""The supervisor with a double of the server: small programs that end as told."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from leadline.model.errors import WorldError
from leadline.server import supervisor as module
from leadline.server.supervisor import CANNOT_START, CannotStartError, Supervisor


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the supervisor, seconds; it goes on by hand."""
    at = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: at[0])
    return at


def supervising(code: str) -> Supervisor:
    made = Supervisor(None, [], os.environ, "http://127.0.0.1:1")
    made._command = [sys.executable, "-I", "-c", code]
    made.start()
    return made


def ended(supervisor: Supervisor) -> int | None:
    assert supervisor._child is not None
    supervisor._child.wait()
    return supervisor.watch()


def test_a_crash_is_followed_by_a_start_however_often_each_time_later(
    clock: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    supervisor = supervising("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    for number in range(12):
        pid, wait_s = supervisor.pid, min(60.0, 0.2 * 2**number)
        assert ended(supervisor) is None
        clock[0] += wait_s * 0.9
        assert supervisor.watch() is None
        assert supervisor.pid == pid, (
            "not before its time, and without a wait that a wish to stop would have to sit out"
        )
        clock[0] += wait_s * 0.2
        assert supervisor.watch() is None
        assert supervisor.pid != pid
    said = capfd.readouterr().err
    assert "the server ended with signal SIGSEGV; starting it again in 0.2 s" in said
    assert said.count("starting it again in 60.0 s") == 3
    clock[0] += module.LIVED_S
    assert ended(supervisor) is None
    assert "starting it again in 0.2 s" in capfd.readouterr().err, "one that lived for long has recovered"
    assert supervisor.stop() == -11


@pytest.mark.parametrize("code", [0, CANNOT_START])
def test_an_end_in_order_and_a_wrong_setting_are_no_crash(code: int) -> None:
    supervisor = supervising(f"raise SystemExit({code})")
    pid = supervisor.pid
    assert ended(supervisor) == code
    assert supervisor.pid == pid


def test_one_that_ends_before_it_is_ready_says_how() -> None:
    with pytest.raises(CannotStartError, match="exit code 2 before it was ready") as caught:
        supervising("raise SystemExit(2)").wait_ready(20)
    assert caught.value.code == CANNOT_START
    with pytest.raises(CannotStartError, match="signal SIGKILL"):
        supervising("import os; os.kill(os.getpid(), 9)").wait_ready(20)


def test_one_that_never_gets_ready_and_one_that_will_not_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    deaf = tmp_path / "deaf"
    supervisor = supervising(
        f"import pathlib, signal, time; signal.signal(15, signal.SIG_IGN); pathlib.Path({str(deaf)!r}).touch(); "
        "time.sleep(60)"
    )
    with pytest.raises(WorldError, match="not ready after 0 s"):
        supervisor.wait_ready(0.2)
    end = time.monotonic() + 20
    while not deaf.exists() and time.monotonic() < end:
        time.sleep(0.01)
    monkeypatch.setattr(module, "STOP_WAIT_S", 0.1)
    assert supervisor.stop() == -9
    assert "did not stop in time and is killed" in capfd.readouterr().err
