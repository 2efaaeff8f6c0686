"""Known names that an unknown one may mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from leadline.model.tables import Table
from leadline.store import Store
from leadline.views.asked import Asked

NAMES_MAX = 20_000  # looked through


def near_jobs(store: Store, asked: Asked, job: str, *tables: Table) -> str:
    """`; did you mean bert-1?` by the jobs of which somebody may read rows in these tables; empty if none is near."""
    known: set[str] = set()
    where = " AND ".join(asked.conditions()) or "1"
    for table in tables:
        sql = f"SELECT DISTINCT toString(job) AS name FROM leadline.{table.name} WHERE {where} LIMIT {NAMES_MAX}"
        known |= {str(name) for name in store.query(sql, asked.parameters(sql)).column("name").to_pylist()}
    return near_names(job, known)


def near_names(name: str, known: Iterable[str]) -> str:
    """`; did you mean bert-1?` by names that are known; empty if none is near."""
    near = difflib.get_close_matches(name, sorted(set(known) - {name}), 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
