"""Rules of what makes jobs stall or crash: the decision table, first match wins. Entries as in `slow_rules`."""

from __future__ import annotations

from leadline.analysis.cause.rule import Rule

STALL_RULES: tuple[Rule, ...] = ()
