"""What people said of rules: how often each was right, and which have fallen silent; and which incidents are none.

A mark counts for the tenant whose incident it is of; an operator's counts for all. So none can silence a rule, or an
alert, for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadline.model.incidents import RULE_MARKS_MIN, RULE_PRECISION_MIN, Mark
from leadline.model.principal import signed_by_operator


@dataclass(frozen=True, slots=True)
class Record:
    """How often people found a rule right and wrong."""

    right: int = 0
    wrong: int = 0

    @property
    def precision(self) -> float | None:
        """Share of the marks that say right; None without marks."""
        marks = self.right + self.wrong
        return self.right / marks if marks else None

    @property
    def silent(self) -> bool:
        """Whether the rule names no cause any more: marked often enough, and wrong too often."""
        precision = self.precision
        enough = self.right + self.wrong >= RULE_MARKS_MIN
        return enough and precision is not None and precision < RULE_PRECISION_MIN


def counting(marks: Iterable[Mapping[str, object]], tenant: str) -> list[Mapping[str, object]]:
    """The marks that count for what a tenant is told: its own people's, and operators'."""
    return [row for row in marks if row["tenant"] == tenant or signed_by_operator(str(row["actor"]))]


def records(marks: Iterable[Mapping[str, object]]) -> dict[str, Record]:
    """The record of each rule, by name in order, from rows of the table `mark`.

    Of one person's marks of one cause (incident, entity, rule) the newest counts: opinions change. Of two persons' both
    count. Marks of whole incidents (empty rule) and dismissals say nothing of a rule.
    """
    newest: dict[tuple[object, ...], tuple[int, str]] = {}
    for row in marks:
        if not row["rule"] or row["mark"] not in (Mark.RIGHT, Mark.WRONG):
            continue
        key = tuple(row[name] for name in ("incident", "entity", "rule", "actor"))
        said = int(str(row["time_ns"])), str(row["mark"])
        newest[key] = max(newest.get(key, said), said)
    found: dict[str, Record] = {}
    for (*_, rule, _), (_, mark) in newest.items():
        before = found.get(str(rule), Record())
        found[str(rule)] = Record(before.right + (mark == Mark.RIGHT), before.wrong + (mark == Mark.WRONG))
    return dict(sorted(found.items()))


def silent_rules(marks: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Names of the rules that have fallen silent."""
    return frozenset(rule for rule, record in records(marks).items() if record.silent)


def dismissed(marks: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Incidents that somebody dismissed and nobody judged since."""
    newest: dict[str, tuple[int, str]] = {}
    for row in marks:
        if row["mark"] in (Mark.COMMENT, Mark.ASSIGNED):  # says nothing of whether it is an incident
            continue
        said = int(str(row["time_ns"])), str(row["mark"])
        incident = str(row["incident"])
        newest[incident] = max(newest.get(incident, said), said)
    return frozenset(incident for incident, (_, mark) in newest.items() if mark == Mark.DISMISSED)
