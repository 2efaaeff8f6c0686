"""How often each rule was right by what people marked, and which have fallen silent.

The counting is the analysis' own (`analysis/cause/silence.py`), so what is told here is what it obeys. A tenant is told
the marks that count for it: its own and operators'. An operator is told all, and for whom a rule is silent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.analysis.cause.rules import BY_NAME
from leadline.analysis.cause.silence import Record, counting, records, silent_rules
from leadline.model.incidents import RULE_MARKS_MIN, RULE_PRECISION_MIN
from leadline.model.principal import OPERATE
from leadline.model.tables.verdicts import MARK
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import SCHEMA_VERSION, json_rows


def rules_answer(store: Store, asked: Asked) -> dict[str, Any]:
    """What `/api/v1/rules` says: each rule with its record; silent ones first, then those with most marks."""
    sql = (
        "SELECT toString(tenant) AS tenant, incident, toString(entity) AS entity, toString(rule) AS rule, "
        f"toString(mark) AS mark, toString(actor) AS actor, time_ns FROM leadline.{MARK.name} "
        "WHERE cluster = {cluster:String}"
    )
    marks: Sequence[Mapping[str, Any]] = json_rows(store.query(sql, {"cluster": asked.cluster}))
    tenants = sorted({str(row["tenant"]) for row in marks})
    if not asked.principal.may(OPERATE):
        tenants = [asked.principal.tenant]
        marks = counting(marks, asked.principal.tenant)
    silent = {tenant: silent_rules(counting(marks, tenant)) for tenant in tenants}
    known = records(marks)
    rules = [
        _told(name, known.get(name, Record()), [each for each in tenants if name in silent[each]])
        for name in {*BY_NAME, *known}
    ]
    for each in rules:
        each["silent"] = bool(tenants) and each["silent_for"] == tenants
    rules.sort(key=lambda each: (not each["silent_for"], -(each["right"] + each["wrong"]), each["rule"]))
    return {
        "schema": SCHEMA_VERSION, "cluster": asked.cluster, "precision_min": RULE_PRECISION_MIN,
        "marks_min": RULE_MARKS_MIN, "rules": rules,
    }  # fmt: skip


def _told(name: str, record: Record, silent_for: list[str]) -> dict[str, Any]:
    rule = BY_NAME.get(name)
    return {
        "rule": name, "words": rule.words if rule else "", "layer": str(rule.layer) if rule else "",
        "right": record.right, "wrong": record.wrong, "precision": record.precision,
        "silent": False, "silent_for": silent_for,
    }  # fmt: skip
