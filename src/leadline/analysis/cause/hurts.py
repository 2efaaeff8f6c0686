"""What hurts: rows of `symptom`, read and put together as far as it is plain that they belong together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.incidents import Symptom

S = 10**9
STALE_NS = 180 * S
"""An open symptom that no window has told for so long is over: its analysis saw nothing of the job any more."""
FOLLOWS_NS = 30 * S
"""A job that stalls or dies so soon after it was slow or stalled dies of the same: a collective gives up after 10 s to
30 min, and the stall lasts that long."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Whom a symptom names, with its part of what was lost."""

    owner: str  # an entity, an edge `rank:J/0>rank:J/1`, or words where input is missing
    category: str
    how: str
    share: float  # of what the symptom lost; shares of one symptom add up to at most 1
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Hurt:
    """One symptom."""

    entity: str
    job: str  # name; empty: no job
    symptom: Symptom
    start_ns: int
    end_ns: int | None
    bound_ns: int | None
    told_ns: int
    lost_gpu_s: float
    lost_share: float
    blamed: tuple[Blame, ...]
    missing: str
    tenant: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is the row of."""
        return self.tenant, self.entity, self.symptom.value, self.start_ns

    def until_ns(self, now_ns: int) -> int:
        """Until when it hurts, as far as is known."""
        return now_ns if self.end_ns is None else self.end_ns


def hurts_of(rows: Iterable[Mapping[str, Any]], now_ns: int) -> list[Hurt]:
    """Symptoms from rows of the table, in order of their begin. What is no symptom at all is passed over."""
    found = [each for row in rows if (each := _hurt(row, now_ns)) is not None]
    return sorted(found, key=lambda each: (each.start_ns, each.tenant, each.entity, each.symptom.value))


def _hurt(row: Mapping[str, Any], now_ns: int) -> Hurt | None:
    if not row["entity"] or row["symptom"] not in set(Symptom) or ":" not in row["entity"]:
        return None
    end_ns = row["end_ns"]
    if end_ns is None and row["seen_ns"] < now_ns - STALE_NS:
        end_ns = row["seen_ns"]
    entity = row["entity"]
    job = row["job"] or (entity.partition(":")[2] if entity.startswith("job:") else "")
    return Hurt(
        entity=entity,
        job=job,
        symptom=Symptom(row["symptom"]),
        start_ns=row["start_ns"],
        end_ns=None if end_ns is None else max(end_ns, row["start_ns"]),
        bound_ns=row["bound_ns"],
        told_ns=row["told_ns"],
        lost_gpu_s=_positive(row["lost_gpu_seconds"]),
        lost_share=min(1.0, _positive(row["lost_share"])),
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
    lost = [_positive(row.get("lost_gpu_seconds")) for row in rows]
    whole = sum(sorted(lost))
    shares = [each / whole for each in lost] if whole > 0 else [1.0 / len(rows)] * len(rows)
    found = []
    for row, share in zip(rows, shares, strict=True):
        since = row.get("since_ns")
        owner, category, how = (str(row.get(name) or "") for name in ("owner", "category", "how"))
        found.append(Blame(owner, category, how, share, since if type(since) is int else None))
    return tuple(found)


def _positive(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e15 else 0.0


def groups_of(hurts: Sequence[Hurt], now_ns: int) -> list[tuple[Hurt, ...]]:
    """Symptoms that plainly are one trouble: of one job, one while the other lasts, or a stop soon after.

    Other symptoms become one incident if they turn out to have one cause (`incidents.together`).
    """
    groups: list[list[Hurt]] = []
    for each in hurts:
        same = next((group for group in groups if any(_belongs(each, other, now_ns) for other in group)), None)
        if same is None:
            groups.append([each])
        else:
            same.append(each)
    return [tuple(group) for group in groups]


def _belongs(later: Hurt, earlier: Hurt, now_ns: int) -> bool:
    if not later.job or later.job != earlier.job or later.tenant != earlier.tenant:
        return False
    stops = later.symptom in (Symptom.STALL, Symptom.CRASH)
    return later.start_ns < earlier.until_ns(now_ns) + (FOLLOWS_NS if stops else 1)


def told(hurt: Hurt) -> dict[str, object]:
    """As `incident.symptoms` tells it."""
    return {
        "entity": hurt.entity,
        "symptom": hurt.symptom.value,
        "start_ns": hurt.start_ns,
        "lost_gpu_seconds": round(hurt.lost_gpu_s, 3),
    }


def without_blame(hurt: Hurt) -> Hurt:
    """The same with nobody blamed."""
    return replace(hurt, blamed=())
