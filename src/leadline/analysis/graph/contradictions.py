"""Spans of time in which sources contradict each other, as rows of `conflict`.

    claim A  ──────────────┐                 A ────────────────
    claim B          ┌─────┴─────            B      ┌──┐
                     └─────┘                        └──┘
             hand-over: told if long         told: the older claim goes on

When a thing moves, its new place is often told before the end of the old one. Such a hand-over is no contradiction
while it is not longer than a source may take to see an end (`SETTLE_NS`, by source): nobody is wrong, one is late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.conflict import CLAIMS_MAX, Conflict
from leadline.analysis.graph.claims import Claims, Texts, agree, as_claims, conflict_name
from leadline.analysis.graph.rows import Rows
from leadline.analysis.graph.trust import chosen
from leadline.model.units import S

SETTLE_NS = 5 * S  # an agent looks every few seconds, the hook closes edges when it ends
SETTLE_BY_SOURCE_NS = {"lldp": 30 * S}  # lldpd is asked this often
CHECKS = {
    "two-hosts": "look on both hosts which has it (nvidia-smi -L, ip link, ps)",
    "two-links": "follow the cable, or ask the switch for its neighbours (lldpcli show neighbors); "
    "an inventory may be out of date",
    "two-gpus": "look at the device that its process has open (nvidia-smi)",
    "two-jobs": "check whether two jobs have the same name, or the end of a job was not reported",
    "two-switches": "see whether two switches have the same name",
    "two-ports": "see whether two hosts have the same address (arping -D)",
}


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which several things are claimed at once; `rows` are places among the rows of the group."""

    start_ns: int
    end_ns: int  # OPEN while it lasts
    rows: tuple[int, ...]
    hand_over: bool  # it began with a new claim and ended with the end of the older ones


def contradictions(
    rows: Rows, found: Claims, words: list[str], texts: Texts, from_ns: int, to_ns: int
) -> list[Conflict]:
    """Contradictions that hold at some time of a span, sorted by entity, beginning and kind.

    Inputs: `rows` with the groups of claims among them. What is known after the end of the span is not looked at: a
    contradiction that holds there has no end yet.
    """
    out = []
    for place, group in enumerate(found.groups()):
        row_K, other_K = found.row_K[group], found.other_K[group]
        spans = overlaps(rows.from_ns[row_K].tolist(), rows.to_ns[row_K].tolist(), other_K.tolist())
        for span in spans:
            if span.end_ns <= from_ns or span.start_ns >= to_ns:
                continue
            own = np.array(span.rows, np.int64)
            if found.per_source_G[place] and agree(rows, row_K[own], other_K[own]):
                continue
            if _told(span, to_ns, {words[source] for source in rows.source[row_K[own]].tolist()}):
                end_ns = None if span.end_ns >= to_ns else span.end_ns
                subject, kind = texts[int(found.subject_K[group][0])], conflict_name(int(found.conflict_K[group][0]))
                out.append(_row(subject, kind, span.start_ns, end_ns, rows, row_K[own], other_K[own], words, texts))
    return sorted(out, key=lambda each: (each.entity, each.start_ns, each.kind))


def overlaps(begin: list[int], end: list[int], other: list[int]) -> list[Span]:
    """Spans in which at least two different others are claimed, in order of time.

    Inputs: of each claim when it begins, when it ends (not included), and what it says.
    """
    moments: dict[int, tuple[list[int], list[int]]] = {}
    for place in range(len(other)):
        moments.setdefault(begin[place], ([], []))[0].append(place)
        moments.setdefault(end[place], ([], []))[1].append(place)
    active: Counter[int] = Counter()
    holding: set[int] = set()
    spans: list[Span] = []
    start_ns, rows, older = -1, set[int](), frozenset[int]()
    is_open = False
    for moment in sorted(moments):
        began, ended = moments[moment]
        before = frozenset(active)
        for place in ended:
            holding.discard(place)
            active[other[place]] -= 1
        for place in began:
            holding.add(place)
            active[other[place]] += 1
        active = +active
        if not is_open and len(active) > 1:
            is_open, start_ns, older, rows = True, moment, before, set(holding)
        elif is_open:
            rows |= holding
            if len(active) < 2:
                is_open = False
                spans.append(Span(start_ns, moment, tuple(sorted(rows)), not older & active.keys()))
    return spans


def _told(span: Span, now: int, sources: Iterable[str]) -> bool:
    """Whether it is more than the new place of a thing told before the end of the old one."""
    lasted_ns = min(span.end_ns, now) - span.start_ns
    if span.end_ns < now and not span.hand_over:
        return True
    return lasted_ns >= max(map(_settle_ns, sources))


def _settle_ns(source: str) -> int:
    return max(SETTLE_BY_SOURCE_NS.get(word, SETTLE_NS) for word in source.split("/"))


def _row(
    subject: str, kind: str, start_ns: int, end_ns: int | None, rows: Rows, row_K: Ints, other_K: Ints,
    words: list[str], texts: Texts,
) -> Conflict:  # fmt: skip
    told = as_claims(rows, row_K, other_K, words, texts)
    used = told[chosen(told)].says
    said = [f"{claim.says} ({', '.join(filter(None, claim.sources)) or 'unnamed source'})" for claim in told]
    more = f" and {len(said) - CLAIMS_MAX} more" if len(said) > CLAIMS_MAX else ""
    text = f"{subject} is reported to have {' and '.join(said[:CLAIMS_MAX])}{more} at the same time; used is {used}; "
    tenants = {words[tenant] for tenant in rows.tenant[row_K].tolist()}
    return Conflict(
        subject, kind, start_ns, end_ns, tuple(claim.says for claim in told[:CLAIMS_MAX]),
        tuple(sorted({source for claim in told for source in claim.sources})), used, len(row_K),
        text + CHECKS[kind], tenants.pop() if len(tenants) == 1 else "",
    )  # fmt: skip
