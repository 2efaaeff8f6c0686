"""The list of rules: what every entry keeps."""

from __future__ import annotations

import pytest

from leadline.analysis.cause.rules import BY_NAME, RULES
from leadline.analysis.cause.rules.rule import Rule
from leadline.model.ids import ENTITY_KINDS

TABLES = {"anomaly", "event", "failure", "conflict", "sle_loss", "traffic", "suspect"}

each = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@each
def test_a_rule_speaks_of_kinds_and_tables_that_there_are(rule: Rule) -> None:
    assert set(rule.kinds) <= set(ENTITY_KINDS)
    assert {sign.table for sign in rule.signs} <= TABLES
    assert all(sign.weight > 0 for sign in rule.signs)


@each
def test_a_rule_can_be_found(rule: Rule) -> None:
    assert rule.signs or rule.alone, "without a sign and without blame nothing ever speaks for it"
    assert rule.symptoms
    assert rule.strength > 0 or not rule.alone


def test_a_cpu_that_is_throttled_is_of_its_rule_only_when_it_is_high() -> None:
    (sign, *_) = BY_NAME["cpu-throttled"].signs
    metric = "container_cpu_cfs_throttled_seconds_total"
    assert sign.fits("anomaly", metric, "high", "past", "", "")
    assert not sign.fits("anomaly", metric, "low", "past", "", "")
    assert not sign.fits("anomaly", f"{metric}_more", "high", "past", "", "")
    assert not sign.fits("event", metric, "high", "past", "", "")
