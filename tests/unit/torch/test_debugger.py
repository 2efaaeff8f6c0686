"""Prompts of a debugger are told, where the user expects them, and nothing of it stays behind."""

from __future__ import annotations

import io
import pdb
import sys

import pytest

from leadline.torch.debugger import Debugger


class Told(list[str]):
    def __call__(self, kind: str, message: str) -> None:
        self.append(kind)


def at_a_prompt(commands: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What a user sees who types these commands at a breakpoint."""
    tracing = sys.gettrace()  # coverage, or the debugger of whoever runs the tests
    monkeypatch.setattr(sys, "stdin", io.StringIO(commands))
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.setattr(sys, "breakpointhook", lambda: pdb.Pdb(nosigint=True, readrc=False).set_trace(sys._getframe(1)))
    try:
        here = 41
        breakpoint()
        here += 1
        assert here == 42
    finally:
        sys.settrace(tracing)
    return capsys.readouterr().out


def test_each_prompt_of_pdb_begins_and_ends_in_the_users_own_frame(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told, before = Told(), pdb.Pdb.interaction
    debugger = Debugger(told)
    monkeypatch.setattr(debugger, "_is_own", lambda _: True)
    debugger.attach()
    debugger.attach()
    try:
        out = at_a_prompt("p here * 2\nn\nc\n", monkeypatch, capsys)
    finally:
        debugger.detach()
    assert "82" in out
    assert told == ["debugger-begin", "debugger-end"] * 2
    assert pdb.Pdb.interaction is before
    at_a_prompt("c\n", monkeypatch, capsys)
    assert len(told) == 4


def test_another_debugger_is_told_by_its_hook_and_the_hook_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    told, called = Told(), []

    def other(*arguments: object, **named: object) -> str:
        called.append((arguments, named))
        if named:
            raise ValueError("at the prompt")
        return "done"

    monkeypatch.setattr(sys, "breakpointhook", other)
    debugger = Debugger(told)
    debugger.attach()
    assert breakpoint(1) == "done"  # type: ignore[func-returns-value]
    with pytest.raises(ValueError, match="at the prompt"):
        breakpoint(header="x")
    assert called == [((1,), {}), ((), {"header": "x"})]
    assert told == ["debugger-begin", "debugger-end"] * 2
    debugger.detach()
    assert sys.breakpointhook is other


def test_what_somebody_put_there_later_stays_and_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    told, called = Told(), []
    monkeypatch.setattr(sys, "breakpointhook", lambda: called.append("first"))
    debugger = Debugger(told)
    debugger.attach()
    ours = sys.breakpointhook

    def later() -> None:
        called.append("later")
        ours()

    monkeypatch.setattr(sys, "breakpointhook", later)
    debugger.detach()
    breakpoint()
    assert called == ["later", "first"]
    assert told == []
    assert sys.breakpointhook is later
