"""What a run of healthy jobs says of the product: pure functions of what was seen.

    age of the data of a rank at time t      steps that ended  ...|----|----|----|
                                             stored at t       ...|----|    ^ the oldest that ended and is not stored
                                                                            |<-- age -->| t

The age leaves out the length of steps and of pauses, as nothing can be stored of a step that has not ended: it is the
time since the end of the oldest step that is not stored yet, 0 where all are. It is known afterwards, from all steps.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evals.jobs.watching import Rank, Seen, first_cause

S = 10**9
CATCH_UP_S = 15.0
"""After the way is free again the agent tries within `agent.retry_s_max` = 10 s; the rest is for what waits with it."""
LOST = "telemetry-lost"
LOST_AFTER_S = 20.0
"""A sender that is silent for so long must be told as lost, one that is silent for less may be. The analysis
`telemetry` says: after 15 s, told 20 s after its last word at the latest."""
NAMED_WITHIN_S = 30.0  # after the end of a silence: a product that says it later than that says nothing


@dataclass(frozen=True, slots=True)
class Silence:
    """A span in which we kept the data from the server on purpose. Times ns.

    sender: host of the agent that was silent; empty: the server was away, and nobody was. asked: whether it must be
    told as lost if it was long enough; an agent that is stopped in order while no job runs may say that it goes.
    """

    what: str
    from_ns: int
    to_ns: int
    sender: str
    asked: bool = True

    @property
    def seconds(self) -> float:
        return (self.to_ns - self.from_ns) / S


def is_lost(row: Mapping[str, Any]) -> bool:
    """Whether an incident says that telemetry is lost, and nothing of a job."""
    return row.get("symptom") == LOST or first_cause(row)[1] == LOST


def of_jobs(seen: Iterable[Seen]) -> list[Seen]:
    """Incidents that say that a job suffers: nothing was wrong with any, so each is false."""
    return [each for each in seen if not is_lost(each.row)]


@dataclass(frozen=True, slots=True)
class Age:
    """How old the data of the worst rank was at a time, ns."""

    at_ns: int
    rank: Rank
    age_s: float


def ages(
    newest: Sequence[tuple[int, Mapping[Rank, int]]],
    ends: Mapping[Rank, Sequence[int]],
    silences: Collection[Silence],
) -> list[Age]:
    """The largest age of any rank's data at each time that somebody asked, outside the silences.

    newest: when asked, and the end of the newest step of each rank that was stored then, ns. ends: ends of all steps of
    each rank as they were stored at last, sorted, ns. Times at which no rank had ended a step within its job are left
    out; so are those within a silence and CATCH_UP_S after it.
    """
    out = []
    for at_ns, stored in newest:
        if any(each.from_ns <= at_ns < each.to_ns + CATCH_UP_S * S for each in silences):
            continue
        found = [
            Age(at_ns, rank, _age_s(at_ns, stored.get(rank), ends_ns))
            for rank, ends_ns in ends.items()
            if _runs(at_ns, ends_ns)
        ]
        if found:
            out.append(max(found, key=lambda each: each.age_s))
    return out


def _runs(at_ns: int, ends_ns: Sequence[int]) -> bool:
    """Whether the job runs, or ended so lately that its last steps may be on their way."""
    return bool(ends_ns) and ends_ns[0] <= at_ns <= ends_ns[-1] + CATCH_UP_S * S


def _age_s(at_ns: int, stored_ns: int | None, ends_ns: Sequence[int]) -> float:
    waiting = bisect_right(ends_ns, stored_ns) if stored_ns is not None else 0
    if waiting == len(ends_ns) or ends_ns[waiting] > at_ns:
        return 0.0
    return (at_ns - ends_ns[waiting]) / S


def age_p99_s(found: Sequence[Age]) -> float | None:
    """Their 99th percentile, s; None without any."""
    return float(np.percentile([each.age_s for each in found], 99)) if found else None


def oldest_s(found: Iterable[Age]) -> dict[str, float]:
    """The largest age of each job, s."""
    out: dict[str, float] = {}
    for each in found:
        job, _ = each.rank
        out[job] = max(out.get(job, 0.0), round(each.age_s, 1))
    return out


def lost_named(silences: Iterable[Silence], seen: Iterable[Seen]) -> tuple[list[Silence], list[Silence], list[Seen]]:
    """Silences that were told as lost telemetry of their sender; those that were not; and what was told without one.

    Asked for are silences of LOST_AFTER_S and more. What is told of a shorter one is neither right nor wrong.
    """
    told = [each for each in seen if is_lost(each.row)]
    fitting = {each.incident: [one for one in silences if _fits(one, each)] for each in told}
    named = [one for ones in fitting.values() for one in ones]
    asked = [each for each in silences if each.asked and each.sender and each.seconds >= LOST_AFTER_S]
    return (
        [each for each in asked if each in named],
        [each for each in asked if each not in named],
        [each for each in told if not fitting[each.incident]],
    )


def _fits(silence: Silence, told: Seen) -> bool:
    in_time = silence.from_ns <= told.first_ns <= silence.to_ns + NAMED_WITHIN_S * S
    words = {key: told.row.get(key) for key in ("entity", "causes", "symptoms", "verdict")}
    return in_time and silence.sender != "" and silence.sender in json.dumps(words)


def lost_share(named: Sequence[Silence], unnamed: Sequence[Silence], unasked: Sequence[Seen]) -> float | None:
    """Of silences and of tellings without one, the share that was named; None if there was neither."""
    all_of_them = len(named) + len(unnamed) + len(unasked)
    return len(named) / all_of_them if all_of_them else None
