"""Rules of what makes jobs slow, by the part that is broken."""

from __future__ import annotations

from leadline.analysis.cause.rules.jobs import JOB_RULES
from leadline.analysis.cause.rules.network import NETWORK_RULES
from leadline.analysis.cause.rules.nodes import NODE_RULES
from leadline.analysis.cause.rules.rule import Rule

SLOW_RULES: tuple[Rule, ...] = (*NODE_RULES, *NETWORK_RULES, *JOB_RULES)
