"""How often each rule was right by what people marked, and which have fallen silent.

The counting is the analysis' own (`analysis/cause/silence.py`), so what is told here is what it obeys. Counts are of
all tenants: silence holds for all of them, and a count names nobody.
"""

from __future__ import annotations

from typing import Any

from leadline.analysis.cause.rules import BY_NAME
from leadline.analysis.cause.silence import Record, records
from leadline.model.incidents import RULE_MARKS_MIN, RULE_PRECISION_MIN
from leadline.model.tables.verdicts import MARK
from leadline.server.rows_view import SCHEMA_VERSION, json_rows
from leadline.store import Store


def rules_answer(store: Store, cluster: str) -> dict[str, Any]:
    """What `/api/v1/rules` says: each rule with its record; silent ones first, then those with most marks."""
    sql = (
        "SELECT incident, toString(entity) AS entity, toString(rule) AS rule, toString(mark) AS mark, "
        f"toString(actor) AS actor, time_ns FROM leadline.{MARK.name} WHERE cluster = {{cluster:String}}"
    )
    known = records(json_rows(store.query(sql, {"cluster": cluster})))
    rules = [_told(name, known.get(name, Record())) for name in {*BY_NAME, *known}]
    rules.sort(key=lambda each: (not each["silent"], -(each["right"] + each["wrong"]), each["rule"]))
    return {
        "schema": SCHEMA_VERSION, "cluster": cluster, "precision_min": RULE_PRECISION_MIN,
        "marks_min": RULE_MARKS_MIN, "rules": rules,
    }  # fmt: skip


def _told(name: str, record: Record) -> dict[str, Any]:
    rule = BY_NAME.get(name)
    return {
        "rule": name, "words": rule.words if rule else "", "layer": str(rule.layer) if rule else "",
        "right": record.right, "wrong": record.wrong, "precision": record.precision, "silent": record.silent,
    }  # fmt: skip
