"""The rules of deploy/mixin: of metrics that there are; each alert with a severity, words and its section."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.server.metrics.catalogue import METRICS, Kind

ROOT = Path(__file__).resolve().parents[3]
MIXIN = ROOT / "deploy" / "mixin"
RULES: list[dict[str, Any]] = [
    rule
    for file in ("rules.yaml", "alerts.yaml")
    for group in yaml.safe_load((MIXIN / file).read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
EXPOSED = {each.exposed for each in METRICS.values()} | {
    f"{name}{suffix}"
    for name, each in METRICS.items()
    if each.kind is Kind.HISTOGRAM
    for suffix in ("_bucket", "_count")
}
RUNBOOK = "docs/how-to/act-on-alerts"


@pytest.mark.parametrize("rule", RULES, ids=[rule.get("alert", rule.get("record")) for rule in RULES])
def test_rules_are_of_metrics_that_there_are(rule: dict[str, Any]) -> None:
    expr = re.sub(r"\{__name__=~[^}]*\}", "", rule["expr"])
    used = set(re.findall(r"\bleadline_\w+", expr))
    assert used <= EXPOSED
    by_name = {each.exposed: each for each in METRICS.values()}
    for labels in re.findall(r"(leadline_\w+)\{([^}]*)\}", rule["expr"]):
        known = set(by_name[labels[0]].labels)
        assert set(re.findall(r"(\w+)=", labels[1])) <= known, labels[0]


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["for"]
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert path == f"http://{{{{ $labels.instance }}}}/{RUNBOOK}"
    assert anchor == rule["alert"].lower()
    assert f"\n## {rule['alert']}\n" in (ROOT / f"{RUNBOOK}.md").read_text()


def test_the_page_has_no_alert_that_is_gone() -> None:
    sections = set(re.findall(r"^## (\w+)$", (ROOT / f"{RUNBOOK}.md").read_text(), re.MULTILINE))
    assert sections == {rule["alert"] for rule in ALERTS}
