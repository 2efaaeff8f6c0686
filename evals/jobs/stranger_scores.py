"""Whether what befell a job was named, and how soon: pure functions of what was told of it."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from evals.jobs.healthy_scores import is_lost
from evals.jobs.watching import Seen, first_cause

S = 10**9
Right = Collection[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Score:
    """How one case went."""

    job: str
    kind: str
    named: bool  # by `leadline diagnose JOB`, in the end
    told_s: float | None  # from the first effect to the right cause being told; None: never while it was watched
    watched_s: float  # from the first effect to the end
    first: tuple[str, str]  # entity and rule that `diagnose` names first; empty: none
    before: int  # incidents of the job that were told before anything befell it
    slower: float | None = None  # how many times as long its steps took then; None: none ended


def named_first(diagnosis: Mapping[str, Any], job: str) -> tuple[str, str]:
    """Entity and rule of the first cause of the first incident of a job, as `leadline diagnose` orders them.

    Incidents of lost telemetry are not about the job and are passed over. Empty if there is none, or it names nothing.
    """
    for row in diagnosis.get("incidents", ()):
        if job in (row.get("jobs") or [row.get("job")]) and not is_lost(row):
            return first_cause(row)
    return "", ""


def told_after_s(seen: Sequence[Seen], right: Right, effect_ns: int) -> float | None:
    """Seconds from the first effect until an incident came to name a right cause; None: never.

    What was named before the effect is no telling of it, even if it is the same. An incident that was open before, and
    falsely, counts from when it names the right cause.
    """
    times = [at_ns for each in seen for at_ns, *cause in each.causes if tuple(cause) in right and at_ns >= effect_ns]
    return (min(times) - effect_ns) / S if times else None


def false_before(seen: Sequence[Seen], effect_ns: int) -> int:
    """Incidents that were told before anything had befallen the job."""
    return sum(each.first_ns < effect_ns for each in seen if not is_lost(each.row))


def slower(ends_ns: Sequence[int], effect_ns: int) -> float | None:
    """Median time from one step's end to the next after the effect, over that before; None where there are none.

    The step that the effect met is left out. On a busy machine it says whether a lever did anything at all.
    """
    before = [end - begin for begin, end in pairwise(ends_ns) if end < effect_ns]
    after = [end - begin for begin, end in pairwise(ends_ns) if begin >= effect_ns]
    return statistics.median(after) / statistics.median(before) if before and after else None


def named_share(scores: Sequence[Score]) -> float | None:
    """Of the cases, the share that was named; None without any."""
    return sum(each.named for each in scores) / len(scores) if scores else None


def told_p95_s(scores: Sequence[Score]) -> float | None:
    """95th percentile of how soon the right cause was told, s; where it never was, how long it was watched counts."""
    times = [each.watched_s if each.told_s is None else each.told_s for each in scores]
    return float(np.percentile(times, 95)) if times else None
