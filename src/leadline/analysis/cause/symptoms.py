"""Rows of `symptom`, read and put together as far as it is plain that they belong together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.model.ids import kind_of, name_of
from leadline.model.incidents import Symptom
from leadline.model.units import S

NEAR_NS = 2**62  # ns; times beyond it are nonsense, and would overflow where they are subtracted. Source: bound.
# A symptom of `burning` that no window told for so long is over: it is judged each 60 s, so three windows and a grace.
# Source: definition.
STALE_NS = {Symptom.SLE: 200 * S}
# The same of all other symptoms, which windows of 2 to 5 s tell as long as they see them: several of them in a row.
# Source: definition.
STALE_ELSE_NS = 30 * S
# A job that stalls or dies so soon after it was slow or stalled dies of the same: a collective gives up after 10 s to
# 30 min, and the stall lasts that long. Source: manual: PyTorch, time-outs of process groups (30 min for gloo, 10 for
# NCCL).
FOLLOWS_NS = 30 * S
BLAMED_MAX = 16  # owners that are told again of each symptom of an incident: its rows stay bounded. Source: bound.


@dataclass(frozen=True, slots=True)
class Blame:
    """Whom a symptom names, with its part of what was lost."""

    owner: str  # an entity, an edge `rank:J/0>rank:J/1`, or words where input is missing
    category: str
    how: str
    share: float  # of what the symptom lost; shares of one symptom add up to at most 1
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SymptomRow:
    """One symptom."""

    entity: str
    job: str  # name; empty: no job
    kind: Symptom
    start_ns: int
    end_ns: int | None
    bound_ns: int | None
    reported_ns: int
    lost_gpu_s: float
    blamed: tuple[Blame, ...]
    missing: str
    tenant: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is the row of."""
        return self.tenant, self.entity, self.kind.value, self.start_ns

    def until_ns(self, now_ns: int) -> int:
        """Until when it lasts, as far as is known."""
        return now_ns if self.end_ns is None else self.end_ns


def symptoms_of(rows: Iterable[Mapping[str, Any]], now_ns: int, over_ns: int) -> list[SymptomRow]:
    """Symptoms from rows of the table that last, or were over at most `over_ns` before, in order of their begin.

    What is no symptom at all is passed over.
    """
    found = [each for row in rows if (each := _symptom(row, now_ns)) is not None]
    found = [each for each in found if each.until_ns(now_ns) >= now_ns - over_ns]
    return sorted(found, key=lambda each: (each.start_ns, each.tenant, each.entity, each.kind.value))


def _symptom(row: Mapping[str, Any], now_ns: int) -> SymptomRow | None:
    if not row["entity"] or row["symptom"] not in set(Symptom) or ":" not in row["entity"]:
        return None
    end_ns, symptom = row["end_ns"], Symptom(row["symptom"])
    if end_ns is None and row["seen_ns"] < now_ns - STALE_NS.get(symptom, STALE_ELSE_NS):
        end_ns = row["seen_ns"]
    entity = row["entity"]
    job = row["job"] or (name_of(entity) if kind_of(entity) == "job" else "")
    return SymptomRow(
        entity=entity,
        job=job,
        kind=symptom,
        start_ns=row["start_ns"],
        end_ns=None if end_ns is None else max(end_ns, row["start_ns"]),
        bound_ns=row["bound_ns"],
        reported_ns=row["reported_ns"],
        lost_gpu_s=_positive(row["lost_gpu_seconds"]),
        blamed=_blamed(row["blamed"]),
        missing=row["missing"] or "",
        tenant=row["tenant"] or "",
    )


def _blamed(text: str | None) -> tuple[Blame, ...]:
    """The list of a symptom, its lost seconds as shares. Where none tells seconds all have the same share."""
    try:
        rows = json.loads(text or "[]")
    except ValueError:
        return ()
    rows = [row for row in rows if isinstance(row, dict) and row.get("owner")] if isinstance(rows, list) else []
    if not rows:
        return ()
    lost = [_positive(row.get("lost_gpu_seconds")) for row in rows]
    whole = sum(sorted(lost))
    shares = [each / whole for each in lost] if whole > 0 else [1.0 / len(rows)] * len(rows)
    found = []
    for row, share in zip(rows, shares, strict=True):
        owner, category, how = (str(row.get(name) or "") for name in ("owner", "category", "how"))
        found.append(Blame(owner, category, how, share, _time(row.get("since_ns"))))
    return tuple(found)


def _time(value: object) -> int | None:
    return value if type(value) is int and 0 < value < NEAR_NS else None


def _positive(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e15 else 0.0


def groups_of(symptoms: Sequence[SymptomRow], now_ns: int) -> list[tuple[SymptomRow, ...]]:
    """Symptoms that plainly are one trouble: of one job, one while the other lasts, or a stop soon after.

    Other symptoms become one incident if they turn out to have one cause (`incidents.together`).
    """
    groups: list[list[SymptomRow]] = []
    for each in symptoms:
        same = next((group for group in groups if any(_belongs(each, other, now_ns) for other in group)), None)
        if same is None:
            groups.append([each])
        else:
            same.append(each)
    return [tuple(group) for group in groups]


def _belongs(later: SymptomRow, earlier: SymptomRow, now_ns: int) -> bool:
    if not later.job or later.job != earlier.job or later.tenant != earlier.tenant:
        return False
    if later.kind is earlier.kind is Symptom.SLOW:  # `slowdowns` tells apart what is another's doing
        return later.start_ns < earlier.until_ns(now_ns)
    stops = later.kind in (Symptom.STALL, Symptom.CRASH)
    return later.start_ns < earlier.until_ns(now_ns) + (FOLLOWS_NS if stops else 1)


def told(symptom: SymptomRow) -> dict[str, object]:
    """As `incident.symptoms` tells it: enough to judge it again when its own row is out of sight."""
    blamed = [
        {
            "owner": each.owner,
            "category": each.category,
            "how": each.how,
            "share": round(each.share, 4),
            "since_ns": each.since_ns,
        }
        for each in symptom.blamed[:BLAMED_MAX]
    ]
    return {
        "entity": symptom.entity,
        "job": symptom.job,
        "symptom": symptom.kind.value,
        "start_ns": symptom.start_ns,
        "end_ns": symptom.end_ns,
        "bound_ns": symptom.bound_ns,
        "lost_gpu_seconds": round(symptom.lost_gpu_s, 3),
        "blamed": blamed,
        "missing": symptom.missing,
    }


def retold(text: str | None, tenant: str, seen_ns: int) -> list[SymptomRow]:
    """The symptoms that an earlier row of `incident` tells; one that was open then is over since it was seen last.

    Nonsense in it is passed over.
    """
    try:
        rows = json.loads(text or "[]")
    except ValueError:
        return []
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [symptom for row in rows if (symptom := _retold(row, tenant, seen_ns)) is not None]


def _retold(row: Mapping[str, Any], tenant: str, seen_ns: int) -> SymptomRow | None:
    entity, symptom, start_ns = str(row.get("entity")), row.get("symptom"), row.get("start_ns")
    if type(start_ns) is not int or symptom not in set(Symptom) or ":" not in entity:
        return None
    end_ns, bound_ns = (row.get(name) if type(row.get(name)) is int else None for name in ("end_ns", "bound_ns"))
    lost = _positive(row.get("lost_gpu_seconds"))
    blamed = _reblamed(row.get("blamed"))
    return SymptomRow(
        entity=entity,
        job=str(row.get("job") or ""),
        kind=Symptom(symptom),
        start_ns=start_ns,
        end_ns=max(start_ns, seen_ns if end_ns is None else end_ns),
        bound_ns=bound_ns,
        reported_ns=seen_ns,
        lost_gpu_s=lost,
        blamed=tuple(blamed) if sum(each.share for each in blamed) <= 1.01 else (),
        missing=str(row.get("missing") or ""),
        tenant=tenant,
    )


def _reblamed(rows: object) -> list[Blame]:
    told_blame = [row for row in rows if isinstance(row, dict) and row.get("owner")] if isinstance(rows, list) else []
    found = []
    for row in told_blame:
        owner, category, how = (str(row.get(name) or "") for name in ("owner", "category", "how"))
        found.append(Blame(owner, category, how, min(1.0, _positive(row.get("share"))), _time(row.get("since_ns"))))
    return found


def lost_of(symptoms: Iterable[SymptomRow], now_ns: int) -> float:
    """GPU-seconds that symptoms cost together: of those of one entity that overlap in time only the costliest counts.

    A job that stalls while it is slow loses its time once.
    """
    kept: list[SymptomRow] = []
    for symptom in sorted(symptoms, key=lambda symptom: (-symptom.lost_gpu_s, symptom.key)):
        if not any(
            symptom.entity == other.entity
            and symptom.start_ns < other.until_ns(now_ns)
            and other.start_ns < symptom.until_ns(now_ns)
            for other in kept
        ):
            kept.append(symptom)
    return float(round(sum(symptom.lost_gpu_s for symptom in kept), 3))
