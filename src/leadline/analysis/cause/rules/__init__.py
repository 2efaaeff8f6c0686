"""All rules, one plain list: what makes jobs slow, then what makes them stall or crash. Add one to either file."""

from __future__ import annotations

from leadline.analysis.cause.rules.rule import Rule, Sign
from leadline.analysis.cause.rules.slow import SLOW_RULES
from leadline.analysis.cause.rules.stalls import STALL_RULES

RULES: tuple[Rule, ...] = (*SLOW_RULES, *STALL_RULES)

BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}

assert len(BY_NAME) == len(RULES), "rules have different names"

__all__ = ["BY_NAME", "RULES", "Rule", "Sign"]
