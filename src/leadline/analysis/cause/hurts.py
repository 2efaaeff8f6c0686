"""What hurts: rows of `symptom`, read and put together as far as it is plain that they belong together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.model.incidents import Symptom

S = 10**9
STALE_NS = {Symptom.SLE: 200 * S}
STALE_ELSE_NS = 30 * S
"""An open symptom that no window has told for so long is over since: windows of five seconds (a minute for `sle`) tell
each symptom that they still see."""
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


def hurts_of(rows: Iterable[Mapping[str, Any]], now_ns: int, over_ns: int) -> list[Hurt]:
    """Symptoms from rows of the table that last, or were over at most `over_ns` before, in order of their begin.

    What is no symptom at all is passed over.
    """
    found = [each for row in rows if (each := _hurt(row, now_ns)) is not None]
    found = [each for each in found if each.until_ns(now_ns) >= now_ns - over_ns]
    return sorted(found, key=lambda each: (each.start_ns, each.tenant, each.entity, each.symptom.value))


def _hurt(row: Mapping[str, Any], now_ns: int) -> Hurt | None:
    if not row["entity"] or row["symptom"] not in set(Symptom) or ":" not in row["entity"]:
        return None
    end_ns, symptom = row["end_ns"], Symptom(row["symptom"])
    if end_ns is None and row["seen_ns"] < now_ns - STALE_NS.get(symptom, STALE_ELSE_NS):
        end_ns = row["seen_ns"]
    entity = row["entity"]
    job = row["job"] or (entity.partition(":")[2] if entity.startswith("job:") else "")
    return Hurt(
        entity=entity,
        job=job,
        symptom=symptom,
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
    if not rows:
        return ()
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


Told = dict[str, Any]
"""A symptom as `incident.symptoms` tells it."""


def told(hurt: Hurt) -> Told:
    """As `incident.symptoms` tells it."""
    return {
        "entity": hurt.entity,
        "symptom": hurt.symptom.value,
        "start_ns": hurt.start_ns,
        "end_ns": hurt.end_ns,
        "lost_gpu_seconds": round(hurt.lost_gpu_s, 3),
    }


def retold(text: str | None) -> list[Told]:
    """The symptoms that an earlier row of `incident` tells. Nonsense in it is passed over."""
    try:
        rows = json.loads(text or "[]")
    except ValueError:
        return []
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [
        {
            "entity": str(row.get("entity")),
            "symptom": str(row.get("symptom")),
            "start_ns": row["start_ns"],
            "end_ns": row.get("end_ns") if type(row.get("end_ns")) is int else None,
            "lost_gpu_seconds": round(_positive(row.get("lost_gpu_seconds")), 3),
        }
        for row in rows
        if type(row.get("start_ns")) is int
    ]


def key_of(row: Told) -> tuple[str, str, int]:
    """What it is, by name and begin."""
    return row["entity"], row["symptom"], row["start_ns"]


def lost_of(rows: Iterable[Told], now_ns: int) -> float:
    """GPU-seconds that symptoms cost together: of those of one entity that overlap in time only the costliest counts.

    A job that stalls while it is slow loses its time once.
    """
    kept: list[Told] = []
    for row in sorted(rows, key=lambda row: (-row["lost_gpu_seconds"], key_of(row))):
        end_ns = now_ns if row["end_ns"] is None else row["end_ns"]
        if not any(
            row["entity"] == other["entity"]
            and row["start_ns"] < (now_ns if other["end_ns"] is None else other["end_ns"])
            and other["start_ns"] < end_ns
            for other in kept
        ):
            kept.append(row)
    return float(round(sum(row["lost_gpu_seconds"] for row in kept), 3))
