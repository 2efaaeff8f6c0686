"""The verdicts of tenants as they stand: the revision that counts, without what each judgement makes anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pyarrow as pa

from evals.tenants.same import normal
from evals.tenants.scene import Row
from leadline.model.tables import BY_NAME
from leadline.runner.verdicts import effective_rows

TABLES = ("incident", "cause", "symptom", "ledger", "sle", "failure")
# What is another each time the same is judged.
OWN = frozenset({"revision", "version", "judged_ns", "reported_ns", "seen_ns", "batch", "batch_row"})
Verdicts = Mapping[str, Mapping[str, Row]]  # by table and what the row says


def verdicts(
    judged: Mapping[str, pa.Table], tenants: Iterable[str], tables: Iterable[str] = TABLES
) -> dict[str, dict[str, Row]]:
    """The verdicts of these tenants among all that were judged."""
    whose = set(tenants)
    out: dict[str, dict[str, Row]] = {}
    for name in tables:
        rows = effective_rows(BY_NAME[name], judged[name]).to_pylist() if name in judged else []
        out[name] = {said(row): row for row in rows if row["tenant"] in whose}
    return out


def said(row: Row) -> str:
    """A row as a text that is the same when it says the same; times are told exactly."""
    told = {name: value for name, value in row.items() if name not in OWN}
    exact = {k: v if k.endswith("_ns") else normal(v) for k, v in told.items()}
    return json.dumps(exact, sort_keys=True, default=repr)


def changed(before: Verdicts, after: Verdicts) -> list[tuple[str, str, Row]]:
    """What is gone and what is new: (table, `gone` or `new`, row)."""
    out = []
    for table in sorted(before.keys() | after.keys()):
        old, new = before.get(table, {}), after.get(table, {})
        out += [(table, "gone", old[key]) for key in sorted(old.keys() - new.keys())]
        out += [(table, "new", new[key]) for key in sorted(new.keys() - old.keys())]
    return out
