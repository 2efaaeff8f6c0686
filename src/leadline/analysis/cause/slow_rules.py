"""Rules of what makes jobs slow, by the part that is broken."""

from __future__ import annotations

from leadline.analysis.cause.job_rules import JOB_RULES
from leadline.analysis.cause.network_rules import NETWORK_RULES
from leadline.analysis.cause.node_rules import NODE_RULES
from leadline.analysis.cause.rule import Rule

SLOW_RULES: tuple[Rule, ...] = (*NODE_RULES, *NETWORK_RULES, *JOB_RULES)
