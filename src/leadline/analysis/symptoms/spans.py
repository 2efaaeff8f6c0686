"""Symptoms as rows: what earlier windows told, and what this one tells of the same or of new ones.

Each window that still sees a symptom writes its row again, under the same key (of what, since when, which symptom);
the newest counts. An end is null while the symptom lasts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from leadline.analysis.spec import S, Window

BLAMED_MAX = 8  # owners told of one symptom, the costliest: more are nobody in particular. Source: bound.
EVIDENCE_MAX = 8  # rows of evidence told of one symptom, so that it stays readable. Source: bound.
NEAR_NS = 2**62  # ns; times beyond it are nonsense, and would overflow where they are subtracted. Source: bound.


@dataclass(frozen=True, slots=True)
class Blame:
    """Who took the time: one entry of `symptom.blamed`."""

    owner: str
    category: str
    how: str
    lost_gpu_seconds: float
    since_ns: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row that says so: one entry of `symptom.evidence`."""

    table: str
    entity: str
    what: str
    time_ns: int
    bound_ns: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """One row of `symptom`."""

    entity: str
    job: str | None
    symptom: str
    start_ns: int
    end_ns: int | None
    reported_ns: int
    bound_ns: int | None = None
    lost_gpu_seconds: float = 0.0
    lost_share: float = 0.0
    blamed: tuple[Blame, ...] = ()
    missing: str | None = None
    evidence: tuple[Evidence, ...] = ()


def told_before(symptom: pa.Table, kinds: Iterable[str], entity: str | None, window: Window) -> list[Told]:
    """Symptoms of some kinds that windows before this one told, in order of begin; `entity`: of this one only.

    What only later windows told is not known yet: a window that is judged again finds it anew. Texts that are no JSON
    of ours are taken as empty.
    """
    wanted, found = frozenset(kinds), []
    for row in symptom.to_pylist():
        if row["symptom"] not in wanted or row["reported_ns"] >= window.to_ns or not 0 < row["start_ns"] < window.to_ns:
            continue
        if entity is None or row["entity"] == entity:
            found.append(_told(row))
    return sorted(found, key=lambda each: (each.entity, each.start_ns, each.symptom, each.reported_ns))


def _told(row: Mapping[str, Any]) -> Told:
    end_ns = row["end_ns"]
    return Told(
        row["entity"], row["job"], row["symptom"], row["start_ns"],
        max(end_ns, row["start_ns"]) if end_ns is not None else None, row["reported_ns"], row["bound_ns"],
        _finite(row["lost_gpu_seconds"]), min(_finite(row["lost_share"]), 1.0),
        tuple(_parsed(row["blamed"], Blame)), row["missing"], tuple(_parsed(row["evidence"], Evidence)),
    )  # fmt: skip


def _finite(value: float | None) -> float:
    return value if value is not None and 0 <= value < 1e300 else 0.0


def _parsed(text: str | None, kind: type[Any]) -> list[Any]:
    """Entries of a JSON list that have the fields of `kind` and numbers where numbers belong."""
    try:
        entries = json.loads(text or "[]")
        found = [kind(**each) for each in entries]
    except (ValueError, TypeError):
        return []
    times = [getattr(each, "since_ns", None) or getattr(each, "time_ns", 0) for each in found]
    amounts = [getattr(each, "lost_gpu_seconds", 0.0) for each in found]
    sound = all(isinstance(at, int) and abs(at) < NEAR_NS for at in times)
    sound &= all(isinstance(each, int | float) and 0 <= each < 1e300 for each in amounts)
    return found if sound else []


def columns_of(rows: Sequence[Told], window: Window) -> dict[str, list[Any]]:
    """Rows as columns of `symptom`. A begin that lies after its end, or after the window, is moved to it."""
    kept = {(each.entity, each.start_ns, each.symptom): each for each in rows}  # one row per key: the last said counts
    told = [kept[key] for key in sorted(kept)]
    return {
        "entity": [each.entity for each in told],
        "job": [each.job for each in told],
        "symptom": [each.symptom for each in told],
        "start_ns": [each.start_ns for each in told],
        "end_ns": [each.end_ns for each in told],
        "bound_ns": [each.bound_ns for each in told],
        "reported_ns": [each.reported_ns for each in told],
        "lost_gpu_seconds": [each.lost_gpu_seconds for each in told],
        "lost_share": [min(max(each.lost_share, 0.0), 1.0) for each in told],
        "blamed": [_text(_most_lost(each.blamed)) for each in told],
        "missing": [each.missing for each in told],
        "evidence": [_text(each.evidence[:EVIDENCE_MAX]) for each in told],
        "seen_ns": [window.to_ns] * len(told),
    }


def _most_lost(blamed: Iterable[Blame]) -> list[Blame]:
    return sorted(blamed, key=lambda each: (-each.lost_gpu_seconds, each.since_ns, each.owner))[:BLAMED_MAX]


def _text(entries: Sequence[Blame] | Sequence[Evidence]) -> str:
    return json.dumps([_rounded(asdict(each)) for each in entries], ensure_ascii=False, separators=(",", ":"))


def _rounded(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in entry.items()}


def bound_of(*tables: pa.Table) -> int | None:
    """How wrong times of these rows may be by their clocks: the largest bound, None if any is not known."""
    found = 0
    for table in tables:
        bounds = table.column("bound_ns")
        if bounds.null_count:
            return None
        found = max([found, *(value for value in bounds.unique().to_pylist() if value is not None)])
    return found


def tenant_of(symptom: pa.Table, told: Told) -> str:
    """Whose a symptom is that was told before."""
    for row in symptom.select(["tenant", "entity", "start_ns", "symptom"]).to_pylist():
        if (row["entity"], row["start_ns"], row["symptom"]) == (told.entity, told.start_ns, told.symptom):
            return row["tenant"] or ""
    return ""


def seconds(ns: int) -> str:
    """A length in words."""
    return f"{ns / S:.1f} s"
