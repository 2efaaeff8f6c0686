"""One suite for every counter: what is declared is used, what is used is declared, and it says what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from leadline.model.counters import COUNTERS, Counter, Severity, UnknownCounterError, accepted, counter, refused
from leadline.model.counters import FAMILIES as DOCS
from leadline.wire.otlp.metrics import _DROPPED
from leadline.wire.remote_write.parts import REASONS

SOURCE = Path(__file__).resolve().parents[2] / "src" / "leadline"
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "counters.py"]
INGEST = {"refused": "ingest_refused", "accepted": "ingest_accepted"}


def text_of(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c`; nothing of what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def named_in(path: Path, text: str) -> Iterator[tuple[str, str | None, str]]:
    """(where, family or None for any, reason) of each reason written as a text in a call that takes one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Subscript) and last_name(node.value) == "tally" and (reason := text_of(node.slice)):
            yield f"{path.name}:{node.lineno}", "ingest_refused", reason
        if not isinstance(node, ast.Call) or not node.args:
            continue
        where, name = f"{path.name}:{node.lineno}", last_name(node.func)
        first, second = text_of(node.args[0]), text_of(node.args[1]) if len(node.args) > 1 else None
        if name in INGEST and first:
            yield where, INGEST[name], first
        elif name == "counter" and first and second:
            yield where, first, second
        elif name in ("RefusedError", "_RefusedStream") and first:
            yield where, None, first
        elif name == "refuse" and second:
            yield where, "ingest_refused", second


# Of the files that may name one only: every process that collects tests reads this.
CALLS = re.compile(r"\b(tally|refused|accepted|counter|RefusedError|_RefusedStream|refuse)\b")
NAMED = [each for path in FILES if CALLS.search(text := path.read_text()) for each in named_in(path, text)]
NAMED += [("wire/remote_write/parts.py", "ingest_refused", reason) for reason in REASONS]
NAMED += [("wire/otlp/metrics.py", "ingest_refused", reason) for reason, _ in _DROPPED]
FAMILIES = {each.family for each in COUNTERS}


def test_every_family_says_what_it_counts() -> None:
    assert DOCS.keys() == FAMILIES
    assert all(text.endswith(".") and len(text) > 20 for text in DOCS.values())


@cache
def texts() -> set[str]:
    """Every text of the source that is no docstring: a reason may be chosen in one line and counted in another."""
    nodes = (node for path in FILES for node in ast.walk(ast.parse(path.read_text())))
    return {value for node in nodes if (value := text_of(node)) is not None and " " not in value}  # type: ignore[arg-type]


def test_the_walk_sees_the_source() -> None:
    reasons = {reason for _, _, reason in NAMED}
    assert {"malformed", "too_old", "unsupported_encoding", "series_limit", "append", "samples"} <= reasons
    assert len(NAMED) > 40


@pytest.mark.parametrize(("where", "family", "reason"), sorted(set(NAMED), key=str))
def test_what_is_counted_is_declared(where: str, family: str | None, reason: str) -> None:
    families = FAMILIES if family is None else {family}
    assert any(each.reason == reason and each.family in families for each in COUNTERS), (
        f"{where} counts {reason!r}, which model.counters does not declare"
    )


@pytest.mark.parametrize("each", COUNTERS, ids=lambda each: f"{each.family}-{each.reason}")
class TestEveryCounter:
    def test_is_used(self, each: Counter) -> None:
        assert each.reason in texts(), f"{each.family}/{each.reason} is declared and nothing counts it"

    def test_says_what_to_do(self, each: Counter) -> None:
        for sentence in (each.doc, each.do):
            assert re.fullmatch(r"[A-Z`].*[^\s.]\.", sentence), sentence
        if each.severity is not Severity.INFO:
            assert each.do != "Nothing to do.", "something is wrong, so there is something to do"

    def test_has_a_unit_and_names_that_fit_a_metric(self, each: Counter) -> None:
        assert each.unit
        for name in (each.family, each.reason):
            assert re.fullmatch("[a-z][a-z0-9_]*", name)

    def test_is_found_by_its_name(self, each: Counter) -> None:
        assert counter(each.family, each.reason) is each


def test_no_counter_is_declared_twice() -> None:
    keys = [(each.family, each.reason) for each in COUNTERS]
    assert len(set(keys)) == len(keys)


def test_families_stand_together() -> None:
    """The pages are read top to bottom: one block per family."""
    order = [each.family for each in COUNTERS]
    blocks = [family for place, family in enumerate(order) if place == 0 or order[place - 1] != family]
    assert len(blocks) == len(set(blocks))


def test_a_reason_nobody_declared_is_a_bug() -> None:
    for find in (refused, accepted, lambda reason: counter("ingest_refused", reason)):
        with pytest.raises(UnknownCounterError, match="no counter"):
            find("never heard of")
