"""Rows of contradictions: bounded, merged by key, whatever their order."""

from __future__ import annotations

from leadline.analysis.conflict import Conflict, bounded, columns
from leadline.analysis.spec import Window


def row(entity: str, count: int = 1, kind: str = "off-path", claims: tuple[str, ...] = ("a",)) -> Conflict:
    return Conflict(entity, kind, 5, None, claims, ("sflow",), claims[0], count, f"{entity} is odd")


def test_rows_of_one_key_are_one() -> None:
    [found] = bounded([row("swport:a/1", 2), row("swport:a/1", 3, claims=("b",))], "cluster:x")
    assert (found.claims, found.count, found.used) == (("a", "b"), 5, None)


def test_too_many_are_counted() -> None:
    found = bounded([row(f"swport:a/{each}", each) for each in range(10)], "cluster:x", 4)
    assert [each.count for each in found] == [9, 8, 7, 7]
    assert (found[-1].entity, found[-1].kind) == ("cluster:x", "more")
    assert "7 more contradictions" in found[-1].text


def test_the_order_does_not_matter() -> None:
    rows = [row(f"swport:a/{each % 5}", each, claims=(f"c{each}",)) for each in range(10)]
    assert bounded(rows, "cluster:x", 3) == bounded(rows[::-1], "cluster:x", 3)


def test_columns_are_those_of_the_table() -> None:
    window = Window(0, 7, "provider")
    found = columns([row("swport:a/1")], window)
    assert (found["seen_ns"], found["tenant"]) == ([7], ["provider"])
    assert found["claims"] == [["a"]]
    assert found["end_ns"] == [None]
    assert columns([], window)["entity"] == []
