"""Jobs of several tenants that share a name, kept apart: inside they have their tenant before their name.

rows: tenant a, rank:bert/0 ──> rank:a<US>bert/0 ──> what failed ──> rank:bert/0, tenant a

A job is that of who tells its steps, or the places of its ranks; the provider, whose scheduler may tell the places of
everybody's, only if it tells steps. Where a name has one such tenant it stays as it is, and what others tell of it (the
provider's hosts, a scheduler) counts for that job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from leadline.analysis.columns import codes
from leadline.analysis.failures.heard import pairs
from leadline.model.ids import EntityId, kind_of

_APART = "\x1f"  # unit separator: in no name
_KINDS = ("rank", "job")


@dataclass(frozen=True, slots=True)
class Shared:
    """Names of jobs that several tenants have: (tenant, name) of each."""

    owners: frozenset[tuple[str, str]]

    def jobs(self, rows: pa.Table, column: str) -> pa.Table:
        """Rows with the names of jobs in a column told apart."""
        return self._renamed(rows, column, self._job)

    def entities(self, rows: pa.Table, column: str) -> pa.Table:
        """Rows with the ids of jobs and ranks in a column told apart."""
        return self._renamed(rows, column, self._entity)

    def plain(self, text: str) -> str:
        """A text with the names as they were."""
        for tenant, _ in sorted(self.owners):
            text = text.replace(f"{tenant}{_APART}", "")
        return text

    def _job(self, tenant: str, name: str) -> str:
        return f"{tenant}{_APART}{name}" if (tenant, name) in self.owners else name

    def _entity(self, tenant: str, entity: str) -> str:
        kind, name = EntityId.of(entity)
        if kind not in _KINDS:
            return entity
        job, slash, rank = name.rpartition("/") if kind == "rank" else (name, "", "")
        return f"{kind}:{self._job(tenant, job)}{slash}{rank}"

    def _renamed(self, rows: pa.Table, column: str, told: Callable[[str, str], str]) -> pa.Table:
        if not self.owners:
            return rows
        tenant, text = codes(rows, "tenant"), codes(rows, column)
        tenant_U, text_U, place_N = pairs(tenant.code_N, text.code_N)
        names = [
            told(tenant.names[whose] if whose >= 0 else "", text.names[place]) if place >= 0 else None
            for whose, place in zip(tenant_U.tolist(), text_U.tolist(), strict=True)
        ]
        again = pa.array(names, pa.string()).take(pa.array(place_N, pa.int64()))
        return rows.set_column(rows.column_names.index(column), column, again)


def shared(step: pa.Table, relation: pa.Table, provider: str) -> Shared:
    """The names that several tenants have, by their steps and by where their ranks are."""
    owners: dict[str, set[str]] = defaultdict(set)
    for tenant, job in _told(step, "job"):
        owners[job].add(tenant)
    for tenant, child in _told(relation, "child"):
        if kind_of(child) == "rank" and tenant != provider:
            owners[EntityId.of(child).holder].add(tenant)
    return Shared(frozenset((tenant, job) for job, whose in owners.items() if len(whose) > 1 for tenant in whose))


def _told(rows: pa.Table, column: str) -> list[tuple[str, str]]:
    """Distinct tenants and texts of a column."""
    tenant, text = codes(rows, "tenant"), codes(rows, column)
    tenant_U, text_U, _ = pairs(tenant.code_N, text.code_N)
    both = zip(tenant_U.tolist(), text_U.tolist(), strict=True)
    return [(tenant.names[whose], text.names[place]) for whose, place in both if whose >= 0 and place >= 0]
