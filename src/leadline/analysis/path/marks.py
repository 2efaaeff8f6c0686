"""Contradictions that the path analysis met: rows of `conflict`, bounded, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

ROWS_MAX = 1000  # of one window: a lying switch or a wrong inventory would otherwise mark every flow


@dataclass(frozen=True, slots=True)
class ConflictRow:
    """One row of `conflict`: what is claimed of an entity, by whom, which claim was used."""

    entity: str
    kind: str
    start_ns: int
    end_ns: int | None
    claims: tuple[str, ...]
    sources: tuple[str, ...]
    used: str | None
    count: int  # rows or samples that say so
    text: str  # the contradiction in a sentence, and what to look at


def bounded(rows: Iterable[ConflictRow], entity: str, most: int = ROWS_MAX) -> list[ConflictRow]:
    """At most `most` rows: those that most samples speak for; the others as one row of `entity` with their number.

    Rows of one key (entity, start, kind) become one: their claims and sources together, the text of the first.
    The order of `rows` does not matter.
    """
    by_key: dict[tuple[str, int, str], list[ConflictRow]] = {}
    for row in rows:
        by_key.setdefault((row.entity, row.start_ns, row.kind), []).append(row)
    whole = [_merged(same) for same in by_key.values()]
    whole.sort(key=lambda row: (-row.count, row.entity, row.start_ns, row.kind))
    if len(whole) <= most:
        return whole
    kept, rest = whole[: most - 1], whole[most - 1 :]
    kinds = sorted({row.kind for row in rest})
    text = f"{len(rest)} more contradictions ({', '.join(kinds)}) in this window are not told one by one"
    start_ns = min(row.start_ns for row in rest)
    return [*kept, ConflictRow(entity, "more", start_ns, None, tuple(kinds), (), None, len(rest), text)]


def _merged(same: Sequence[ConflictRow]) -> ConflictRow:
    if len(same) == 1:
        return same[0]
    first = min(same, key=lambda row: (row.text, row.claims))
    ends = [row.end_ns for row in same]
    used = {row.used for row in same}
    return ConflictRow(
        entity=first.entity,
        kind=first.kind,
        start_ns=first.start_ns,
        end_ns=None if None in ends else max(end for end in ends if end is not None),
        claims=tuple(sorted({claim for row in same for claim in row.claims})),
        sources=tuple(sorted({source for row in same for source in row.sources})),
        used=used.pop() if len(used) == 1 else None,
        count=sum(row.count for row in same),
        text=first.text,
    )


def columns(rows: Sequence[ConflictRow], seen_ns: int) -> dict[str, list[object]]:
    """Columns of the table `conflict`: lists by name, one value a row. `seen_ns`: end of the window that says so."""
    own = {field.name: [_plain(getattr(row, field.name)) for row in rows] for field in fields(ConflictRow)}
    return {**own, "seen_ns": [seen_ns] * len(rows)}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
