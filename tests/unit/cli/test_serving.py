"""How verbs that keep a server running are told to stop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.cli.pasted import pasted
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


URL = "http://127.0.0.1:9440"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in the working directory, with the program in it, that is not on the PATH."""
    program = tmp_path / ".venv" / "bin" / "leadline"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(program), "up"])
    monkeypatch.delenv("LEADLINE_SERVER", raising=False)
    return program


def test_a_printed_command_names_the_program_as_the_shell_finds_it(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pasted("doctor") == ".venv/bin/leadline doctor"
    monkeypatch.chdir(installed.parents[1])
    assert pasted("doctor") == "bin/leadline doctor"
    monkeypatch.chdir(Path(__file__).parent)
    assert pasted("doctor") == f"{installed} doctor"
    monkeypatch.setenv("PATH", str(installed.parent))
    assert pasted("doctor") == "leadline doctor"


def test_a_printed_command_names_the_server_where_it_is_not_the_usual_one(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    assert pasted("doctor", "http://127.0.0.1:8440") == "leadline doctor"
    assert pasted("doctor", URL) == f"leadline doctor --server {URL}"
    monkeypatch.setenv("LEADLINE_SERVER", URL)
    assert pasted("doctor", URL) == "leadline doctor"
