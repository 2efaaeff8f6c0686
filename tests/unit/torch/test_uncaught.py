"""The exception that ends a rank is told, what was called before is called after, and nothing of it stays behind."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import leadline
from leadline.torch.uncaught import TEXT_MAX, Uncaught, place_of, text_of


class Told(list[tuple[str, str, str, dict[str, str]]]):
    def __call__(self, kind: str, message: str, *, severity: str, code: str, attributes: dict[str, str]) -> None:
        assert severity == "error"
        self.append((kind, message, code, attributes))


def uncaught(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What is told when a program ends in this. Errors: AssertionError unless the hook of before saw it, too."""
    told, before = Told(), []
    monkeypatch.setattr(sys, "excepthook", lambda *arguments: before.append(arguments))
    watching = Uncaught(told)
    watching.attach()
    watching.attach()
    try:
        raise error
    except BaseException as raised:
        arguments: tuple[type[BaseException], BaseException, TracebackType | None] = (
            type(raised), raised, raised.__traceback__)  # fmt: skip
        sys.excepthook(*arguments)
    assert before == [arguments]
    watching.detach()
    sys.excepthook(*arguments)
    assert len(before) == 2
    return told


def test_class_first_line_and_place_of_an_exception_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ((kind, message, code, attributes),) = uncaught(ValueError("\n a label is out of range\nlabel 9"), monkeypatch)
    assert (kind, message, code) == ("rank-failed", "ValueError: a label is out of range", "ValueError")
    assert attributes["where"].startswith("test_uncaught.py:")
    assert attributes["where"].endswith(" in uncaught")


def test_the_place_is_the_users_own_line_also_where_a_library_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    told, seen = Told(), []
    monkeypatch.setattr(sys, "excepthook", lambda *_: seen.append(1))
    watching = Uncaught(told)
    watching.attach()
    try:
        np.linalg.inv(np.zeros((2, 2)))
    except np.linalg.LinAlgError as raised:
        sys.excepthook(type(raised), raised, raised.__traceback__)
    watching.detach()
    assert told[0][:3] == ("rank-failed", "LinAlgError: Singular matrix", "LinAlgError")
    assert told[0][3]["where"].startswith("test_uncaught.py:")


def test_code_beside_this_package_is_the_users_and_what_was_installed_is_not() -> None:
    def raised_in(file: str) -> TracebackType | None:
        with pytest.raises(ValueError) as raised:
            exec(compile("raise ValueError", file, "exec"))
        innermost = raised.value.__traceback__
        while innermost and innermost.tb_next:
            innermost = innermost.tb_next
        return innermost

    package = str(Path(leadline.__file__).parent)
    assert place_of(raised_in(f"{package}-train/loop.py")) == "loop.py:1 in <module>"
    for file in (f"{package}/torch/steps.py", "/home/me/.local/lib/python3.11/site-packages/torch/nn/linear.py",
                 "/usr/lib/python3/dist-packages/torch/nn/linear.py", "<frozen runpy>"):  # fmt: skip
        assert place_of(raised_in(file)) == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
def test_what_is_no_failure_is_not_told(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    assert uncaught(error, monkeypatch) == []


def test_what_it_was_raised_from_is_told_and_a_circle_ends() -> None:
    lost = RuntimeError("Connection closed by peer")
    outer = ValueError("step 7")
    outer.__cause__ = lost
    assert text_of(outer) == "ValueError: step 7, from RuntimeError: Connection closed by peer"
    lost.__cause__ = outer
    assert text_of(outer).startswith("ValueError: step 7")
    assert text_of(KeyError()) == "KeyError"
    assert len(text_of(ValueError("x" * 10_000))) == TEXT_MAX + len("ValueError: ")


def test_one_that_cannot_be_shown_is_told_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    ((_, message, code, attributes),) = uncaught(Broken(), monkeypatch)
    assert (message, code, attributes) == ("Broken", "Broken", {"unreadable": "RuntimeError"})


def test_who_put_something_there_since_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: Any = Told()
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    watching = Uncaught(told)
    watching.attach()
    later = functools.partial(sys.excepthook)
    sys.excepthook = later
    watching.detach()
    assert sys.excepthook is later
    sys.excepthook(ValueError, ValueError("after"), None)
    assert told == []
