"""What was lost: one number for every view, from the ledger; where it has not judged yet, estimated, and said to be so.

ledger     what a job lost, window by window            ─┐    of a job:       judged + estimated
incident   since when, until when, and what its symptoms ├──> of an incident: its part of both
           take for lost (the excess over the usual)    ─┘    of all:         sums of these

An incident lost no more than the ledger says that its jobs lost while it lasted, and no more than its symptoms explain.
Incidents of one job that overlap share what was lost, in proportion to what their symptoms take for lost, so nothing is
counted twice. Of time in which the ledger has no window, or knows nearly nothing, the symptoms' word is taken: that
part is estimated, is told beside the sum, and gives way as the ledger judges on. So at any time, of any span:

    lost by all = sum over jobs >= sum over incidents, and over each job the same
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from leadline.model.accounts import Category
from leadline.model.tables.accounts import LEDGER
from leadline.model.tables.verdicts import INCIDENT
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import json_rows, rows_where

CLAIMS_MAX = 1000  # incidents that are held against the ledger, the newest: as many as one answer tells
APART_NS = 600 * S  # spans of incidents that are nearer than this are asked for together
UNKNOWN_SHARE = 0.5  # of a window: the ledger does not know what the job did, so it has not judged what was lost
Key = tuple[str, str, str]  # tenant, cluster, incident
JobKey = tuple[str, str, str]  # tenant, cluster, job


@dataclass(frozen=True, slots=True)
class Loss:
    """GPU-seconds lost, and how many of them are an estimate."""

    gpu_seconds: float = 0.0
    estimated: float = 0.0

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.gpu_seconds + other.gpu_seconds, self.estimated + other.estimated)


@dataclass(frozen=True, slots=True)
class Claim:
    """What an incident takes for lost of one job, while it lasts: GPU-seconds, evenly over its time."""

    incident: Key
    job: JobKey
    from_ns: int
    to_ns: int
    gpu_seconds: float

    def within(self, from_ns: int, to_ns: int) -> float:
        """The part of it that falls into a span."""
        overlap_ns = min(self.to_ns, to_ns) - max(self.from_ns, from_ns)
        return self.gpu_seconds * max(overlap_ns, 0) / (self.to_ns - self.from_ns)


@dataclass(frozen=True, slots=True)
class Judged:
    """Windows of the ledger of one job, by their ends: what it lost in each, and whether the ledger knows that."""

    end_W: Sequence[int] = ()  # W = windows
    window_ns: int = 0
    lost_W: Sequence[float] = ()
    known_W: Sequence[bool] = ()


@dataclass(slots=True)
class _Share:
    """What an incident gets of a job: by the ledger, at most so; by its own word; both also within the span."""

    claim: Claim
    ledger: float = 0.0
    known: float = 0.0  # what it claims of judged windows
    estimated: float = 0.0
    ledger_within: float = 0.0
    estimated_within: float = 0.0

    def loss(self) -> Loss:
        return Loss(min(self.ledger, self.known) + self.estimated, self.estimated)

    def loss_within(self) -> Loss:
        part = self.ledger_within / self.ledger if self.ledger else 0.0
        return Loss(min(self.ledger, self.known) * part + self.estimated_within, self.estimated_within)


@dataclass(frozen=True, slots=True)
class Losses:
    """What incidents lost: whole, and within a span; and what is estimated of jobs within the span."""

    whole: Mapping[Key, Loss] = field(default_factory=dict)
    within: Mapping[Key, Loss] = field(default_factory=dict)
    jobs: Mapping[JobKey, float] = field(default_factory=dict)


def losses(claims: Iterable[Claim], judged: Mapping[JobKey, Judged], span: tuple[int, int] | None = None) -> Losses:
    """Whole losses of all claims, and those within a span (from, to], ns: the windows that end in it. Pure."""
    by_job: dict[JobKey, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.to_ns > claim.from_ns and claim.gpu_seconds > 0:
            by_job[claim.job].append(claim)
    low, high = span or (0, 1 << 62)
    whole: dict[Key, Loss] = defaultdict(Loss)
    within: dict[Key, Loss] = defaultdict(Loss)
    jobs: dict[JobKey, float] = defaultdict(float)
    for job, some in sorted(by_job.items()):
        for share in _shares(sorted(some, key=lambda one: (one.from_ns, one.incident)), judged.get(job), low, high):
            whole[share.claim.incident] += share.loss()
            within[share.claim.incident] += share.loss_within()
            jobs[job] += share.estimated_within
    return Losses(dict(whole), dict(within), dict(jobs))


def _shares(claims: Sequence[Claim], judged: Judged | None, low: int, high: int) -> list[_Share]:
    """The shares of claims on one job, piece by piece of its time."""
    shares = [_Share(claim) for claim in claims]  # by their begin
    there: list[_Share] = []
    begun = 0
    for from_ns, to_ns, lost, known in _pieces(claims, judged or Judged()):
        while begun < len(shares) and shares[begun].claim.from_ns < to_ns:
            there.append(shares[begun])
            begun += 1
        there = [share for share in there if share.claim.to_ns > from_ns]
        claimed = [(share, share.claim.within(from_ns, to_ns)) for share in there]
        every = sum(amount for _, amount in claimed)
        if not every:
            continue
        inside = low < to_ns <= high if known is not None else True
        for share, amount in claimed:
            if known:
                share.ledger += lost * amount / every
                share.ledger_within += lost * amount / every * inside
                share.known += amount
            else:  # of incidents that overlap the dearest counts, and is shared
                part = max(each for _, each in claimed) * amount / every
                clipped = max(0, min(to_ns, high) - max(from_ns, low)) / (to_ns - from_ns)
                share.estimated += part
                share.estimated_within += part * clipped
    return shares


def _pieces(claims: Sequence[Claim], judged: Judged) -> Iterable[tuple[int, int, float, bool | None]]:
    """Windows that overlap claims, with what was lost in them; and what lies between them (known: None), cut where a
    claim begins or ends."""
    edges = sorted({edge for claim in claims for edge in (claim.from_ns, claim.to_ns)})
    at_ns, until_ns = edges[0], edges[-1]
    first = bisect_right(judged.end_W, at_ns)
    for place in range(first, len(judged.end_W)):
        end_ns = judged.end_W[place]
        begin_ns = end_ns - judged.window_ns
        if begin_ns >= until_ns:
            break
        yield from _cut(at_ns, min(begin_ns, until_ns), edges)
        if judged.known_W[place]:
            yield begin_ns, end_ns, judged.lost_W[place], True
        else:
            yield from _cut(max(begin_ns, at_ns), min(end_ns, until_ns), edges)
        at_ns = max(at_ns, end_ns)
    yield from _cut(at_ns, until_ns, edges)


def _cut(from_ns: int, to_ns: int, edges: Sequence[int]) -> Iterable[tuple[int, int, float, None]]:
    """A span without judgement, cut at edges."""
    if to_ns > from_ns:
        inner = edges[bisect_right(edges, from_ns) : bisect_left(edges, to_ns)]
        cuts = [from_ns, *inner, to_ns]
        for begin_ns, end_ns in pairwise(cuts):
            yield begin_ns, end_ns, 0.0, None


# --- from rows ----------------------------------------------------------------------------------------------------


def claims_of(incidents: Iterable[Mapping[str, Any]]) -> list[Claim]:
    """Claims of rows of the table `incident`: one for each job that suffers, by what its symptoms lost."""
    found = []
    for row in incidents:
        until_ns = row["seen_ns"] if row["end_ns"] is None else row["end_ns"]
        parts = _parts(row)
        whole = sum(parts.values())
        for job, part in parts.items():
            amount = row["lost_gpu_seconds"] * (part / whole if whole else 1 / len(parts))
            key, of = (row["tenant"], row["cluster"], row["incident"]), (row["tenant"], row["cluster"], job)
            found.append(Claim(key, of, row["start_ns"], until_ns, amount))
    return found


def _parts(row: Mapping[str, Any]) -> dict[str, float]:
    """What the symptoms of each job lost."""
    jobs = row["jobs"] or ([row["job"]] if row["job"] else [])
    parts = dict.fromkeys(jobs, 0.0)
    try:
        told = json.loads(row["symptoms"] or "[]")
    except ValueError:
        return parts
    for each in told if isinstance(told, list) else []:
        job = str(each.get("entity", "")).removeprefix("job:") if isinstance(each, dict) else ""
        if job in parts:
            parts[job] += float(each.get("lost_gpu_seconds") or 0.0)
    return parts


def judged_of(ledger: Iterable[Mapping[str, Any]]) -> dict[JobKey, Judged]:
    """Windows by job from rows of the ledger, or from sums of them over owners."""
    sums: dict[JobKey, dict[tuple[int, int], list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    for row in ledger:
        one = sums[row["tenant"], row["cluster"], row["job"]][row["end_ns"], row["window_ns"]]
        one[0] += row["lost_gpu_seconds"]
        one[1] += row["gpu_seconds"]
        one[2] += row["gpu_seconds"] * (row["category"] == Category.UNKNOWN)
    found = {}
    for job, windows in sums.items():
        window_ns = max(width for _, width in windows)
        ordered = sorted((end, each) for (end, width), each in windows.items() if width == window_ns)
        found[job] = Judged(
            [end for end, _ in ordered], window_ns, [each[0] for _, each in ordered],
            [each[2] <= UNKNOWN_SHARE * each[1] for _, each in ordered],
        )  # fmt: skip
    return found


# --- from a store -------------------------------------------------------------------------------------------------


def losses_of(store: Store, asked: Asked, span: tuple[int, int] | None = None) -> Losses:
    """What the incidents of a store lost, as somebody may see them, whole and within a span. Errors: StoreError."""
    conditions = asked.conditions()
    sql = rows_where(INCIDENT, " AND ".join(conditions))
    rows = sorted(json_rows(store.query(sql, asked.parameters(sql))), key=lambda row: -row["start_ns"])
    claims = claims_of(rows[:CLAIMS_MAX])
    if not claims:
        return Losses()
    return losses(claims, _judged(store, asked, claims), span)


def _judged(store: Store, asked: Asked, claims: Sequence[Claim]) -> dict[JobKey, Judged]:
    """The windows of the ledger that claims overlap."""
    spans = _joined((claim.from_ns, claim.to_ns) for claim in claims)
    times = " OR ".join(f"(end_ns > {low} AND end_ns < {high + APART_NS})" for low, high in spans)
    where = " AND ".join([*asked.conditions(), "job IN {jobs:Array(String)}", f"({times})"])
    sql = (
        "SELECT toString(tenant) AS tenant, toString(cluster) AS cluster, toString(job) AS job, end_ns, window_ns, "
        "toString(category) AS category, sum(gpu_seconds) AS held, sum(lost_gpu_seconds) AS lost "
        f"FROM ({rows_where(LEDGER, where)}) "
        "GROUP BY tenant, cluster, job, end_ns, window_ns, category"
    )
    jobs = sorted({claim.job[2] for claim in claims})
    rows = json_rows(store.query(sql, {**asked.parameters(sql), "jobs": jobs}))
    return judged_of({**row, "gpu_seconds": row["held"], "lost_gpu_seconds": row["lost"]} for row in rows)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in their order, those that are near to each other as one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + APART_NS:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found
