"""Rows of the table `conflict`, as every analysis that meets contradictions tells them: bounded, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.analysis.spec import Window
from leadline.model.tables.fabric import CONFLICT

ROWS_MAX = 1000  # of one window: a lying switch or a wrong inventory would otherwise mark every flow
CLAIMS_MAX = 16  # of one conflict, so many are named


@dataclass(frozen=True, slots=True)
class Conflict:
    """What is claimed of an entity, by whom, which claim was used; its tenant beside it (empty: the window's)."""

    entity: str
    kind: str
    start_ns: int
    end_ns: int | None
    claims: tuple[str, ...]
    sources: tuple[str, ...]
    used: str | None
    count: int  # rows or samples that say so
    text: str  # the contradiction in a sentence, and what to look at
    tenant: str = ""

    def as_row(self) -> dict[str, Any]:
        """Columns of `conflict`, sets as lists; without `seen_ns` and the tenant, which are the window's."""
        return {
            "entity": self.entity, "kind": self.kind, "start_ns": self.start_ns, "end_ns": self.end_ns,
            "claims": list(self.claims), "sources": list(self.sources), "used": self.used, "count": self.count,
            "text": self.text,
        }  # fmt: skip


def bounded(rows: Iterable[Conflict], entity: str, most: int = ROWS_MAX) -> list[Conflict]:
    """At most `most` rows: those that most samples or rows speak for; the others as one of `entity` with their number.

    Rows of one key (entity, start, kind, tenant) become one: their claims and sources together, the text of the first.
    The order of `rows` does not matter.
    """
    by_key: dict[tuple[str, int, str, str], list[Conflict]] = {}
    for row in rows:
        by_key.setdefault((row.entity, row.start_ns, row.kind, row.tenant), []).append(row)
    whole = [_merged(same) for same in by_key.values()]
    whole.sort(key=lambda row: (-row.count, row.entity, row.start_ns, row.kind, row.tenant))
    if len(whole) <= most:
        return whole
    kept, rest = whole[: most - 1], whole[most - 1 :]
    kinds = sorted({row.kind for row in rest})
    text = f"{len(rest)} more contradictions ({', '.join(kinds)}) in this window are not listed"
    start_ns = min(row.start_ns for row in rest)
    return [*kept, Conflict(entity, "more", start_ns, None, tuple(kinds), (), None, len(rest), text)]


def _merged(same: Sequence[Conflict]) -> Conflict:
    if len(same) == 1:
        return same[0]
    first = min(same, key=lambda row: (row.text, row.claims))
    ends = [row.end_ns for row in same]
    used = {row.used for row in same}
    return Conflict(
        entity=first.entity,
        kind=first.kind,
        start_ns=first.start_ns,
        end_ns=None if None in ends else max(end for end in ends if end is not None),
        claims=tuple(sorted({claim for row in same for claim in row.claims}))[:CLAIMS_MAX],
        sources=tuple(sorted({source for row in same for source in row.sources})),
        used=used.pop() if len(used) == 1 else None,
        count=sum(row.count for row in same),
        text=first.text,
        tenant=first.tenant,
    )


def columns(rows: Sequence[Conflict], window: Window) -> dict[str, list[object]]:
    """Columns of the table `conflict`: lists by name, one value a row, as this window says them."""
    told = [{**row.as_row(), "seen_ns": window.to_ns, "tenant": row.tenant or window.tenant} for row in rows]
    return {name: [row[name] for row in told] for name in ("tenant", *(column.name for column in CONFLICT.own))}
