"""Who brought a job down, of ranks that ended within a minute of each other.

The first that died is blamed, the others died of it: which was first is told by how they ended, not by clocks alone. A
rank that gives up because a collective failed says so, or has a call that failed: it is a victim, and whom the
collective waited for is looked up in the calls as they were when the first rank gave up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import NEVER, Calls, groups_waiting
from leadline.analysis.symptoms.decisions import CUT_NS, DIED, DIVERGED, FROZEN, NAMED_MAX, Decision, decide, with_cut
from leadline.analysis.symptoms.happened import BROKEN, TOGETHER_NS, End, Happened
from leadline.analysis.symptoms.programs import Programs

# Where the first to end was asked to, so were the others that end within this, whatever they say: shutting down in time
# varies by some seconds. Source: judgement.
ASKED_NS = 5 * S
# Ends so close together are in no order: an agent tells when it saw them, and on a busy host it looks at both at once
# or at the later one first. torchrun looks for a rank that failed each 0.1 s, and ends the others then. Source:
# judgement; 16 ms the wrong way round were seen on two cores with a load of 16.
ORDER_NS = S // 10
# Launchers kill the rest after the first: SIGKILLs later than this after it are theirs. torchrun looks each 0.1 s, and
# an OOM killer that takes two ranks takes both within milliseconds. Source: judgement.
KILLED_NS = S // 2


@dataclass(frozen=True, slots=True)
class Crash:
    """Ends of a job's ranks with an error: since when, and why as far as ranks tell."""

    start_ns: int
    last_ns: int
    ends: tuple[End, ...]
    decision: Decision


def crash_of(happened: Happened, calls: Calls, after_ns: int) -> Crash | None:
    """The first crash after a time; None: no rank ended with an error, or all were asked to end."""
    ends = [each for each in happened.ends if each.time_ns > after_ns]
    failed = [each for each in ends if each.failed and not each.asked]
    if not failed:
        return None
    first_ns = min(each.time_ns for each in failed)
    together = tuple(each for each in ends if abs(each.time_ns - first_ns) <= TOGETHER_NS)
    failed = [each for each in together if each.failed and not each.asked]
    gave_up = _gave_up(happened, calls, first_ns)
    gave_up_ns = min([first_ns, *gave_up.values()])
    # Who had given up by then was ended by a launcher that cleans up, and is no sign that somebody ended the job.
    asked_ns = min((each.time_ns for each in together if each.asked and gave_up.get(each.rank, NEVER) > each.time_ns),
                   default=first_ns + 1)  # fmt: skip
    if asked_ns <= first_ns and (
        first_ns - asked_ns > ORDER_NS or not _own(failed, first_ns, _victims(happened, calls, gave_up_ns))
    ):
        return None  # somebody ended it, and who lost a peer then says so
    if happened.asked_ns is not None and 0 <= first_ns - happened.asked_ns <= TOGETHER_NS:
        return None
    decision = _decision(happened, calls, failed, gave_up_ns)
    start_ns = min([each.time_ns for each in failed if each.rank in decision.ranks and decision.category == DIED]
                   or [gave_up_ns])  # fmt: skip
    return Crash(start_ns, max(each.time_ns for each in failed), tuple(failed), decision)


def _own(failed: Sequence[End], first_ns: int, victims: set[int]) -> bool:
    """Whether one of the first to end with an error did so for a reason of its own."""
    return any(each.rank not in victims and each.time_ns - first_ns <= ORDER_NS for each in failed)


def _gave_up(happened: Happened, calls: Calls, first_ns: int) -> dict[int, int]:
    """When each rank gave up that did: its first complaint or failed call of this crash, which begins then at least."""
    near_ns = first_ns - TOGETHER_NS
    failed_N = calls.failed_N & (calls.ended_N > near_ns) & (calls.ended_N < NEVER)
    told = list(zip(calls.rank_N[failed_N].tolist(), calls.ended_N[failed_N].tolist(), strict=True))
    told += [(each.rank, each.time_ns) for each in happened.complaints_near(first_ns)]
    return dict(sorted(told, key=lambda each: -each[1]))  # of several the earliest


def _decision(
    happened: Happened,
    calls: Calls,
    failed: Sequence[End],
    gave_up_ns: int,
) -> Decision:
    victims, frozen = _victims(happened, calls, gave_up_ns), happened.frozen_at(gave_up_ns)
    own = [each for each in failed if each.rank not in frozen]  # who stood still was ended by whoever gave up on it
    by_itself = [each for each in own if each.rank not in victims and each.time_ns - gave_up_ns < ASKED_NS]
    for told in (
        [each for each in failed if each.reason == "oom-kill"],
        _killed(own, victims),
        _befallen(by_itself, happened, gave_up_ns),
    ):
        if told and not (told[0].code.startswith("exit/") and _diverged(calls, gave_up_ns)):
            return Decision(DIED, tuple(sorted({each.rank for each in told})), None, _words(told))
    order = Programs(calls, gave_up_ns)
    waited = decide(groups_waiting(calls, gave_up_ns), gone={}, frozen=frozen, order=order)
    if waited is not None:
        return with_cut(waited, happened)
    if frozen:
        ranks = tuple(sorted(frozen))
        return Decision(FROZEN, ranks, None, f"rank {ranks[0]} stood still (stopped)")
    first = min(failed, key=lambda each: (each.time_ns, each.rank))
    return Decision(None, (), None, f"all ranks gave up because of others, first rank {first.rank}", "collectives")


def _diverged(calls: Calls, at_ns: int) -> bool:
    """Whether ranks called different things when they failed: then who fails first is chance."""
    found = decide(groups_waiting(calls, at_ns), gone={}, frozen=(), order=Programs(calls, at_ns))
    return found is not None and found.category == DIVERGED


def _victims(happened: Happened, calls: Calls, gave_up_ns: int) -> set[int]:
    """Ranks that gave up because of others: their collective failed, or they say so."""
    failed = np.unique(calls.rank_N[calls.failed_N & (calls.ended_N >= gave_up_ns)])
    found: set[int] = set(failed.tolist())
    return found | {each.rank for each in happened.complaints_near(gave_up_ns) if each.of_peers}


def _killed(failed: Sequence[End], victims: set[int]) -> list[End]:
    """Ranks that a signal ended, not because a library gave up (SIGABRT after a failed collective)."""
    found = [each for each in failed if each.by_signal and not (each.code == "signal/SIGABRT" and each.rank in victims)]
    own = [each for each in found if each.code != "signal/SIGKILL"] or found
    first_ns = min((each.time_ns for each in own), default=0)
    return [each for each in own if each.time_ns - first_ns <= KILLED_NS or each.code != "signal/SIGKILL"]


def _befallen(ends: list[End], happened: Happened, at_ns: int) -> list[End]:
    """Of ranks that ended together with an error, those that lost their port, or whose host or GPU broke, just before;
    all of them where that is none."""
    hit = {*happened.cut_since(at_ns - CUT_NS)}
    broken = (each for each in happened.parts if each.kind in BROKEN and at_ns - CUT_NS <= each.time_ns <= at_ns + S)
    hit |= {rank for each in broken for rank in each.ranks}
    return [each for each in ends if each.rank in hit] or ends


def _words(ends: Sequence[End]) -> str:
    first = min(ends, key=lambda each: (each.time_ns, each.rank))
    others = sorted({each.rank for each in ends} - {first.rank})
    more = f"; so did rank{'s' if len(others) > 1 else ''} {', '.join(map(str, others[:NAMED_MAX]))}" if others else ""
    return f"{first.message or f'rank {first.rank} ended with {first.code}'}{more}"


def gone_of(
    happened: Happened, left_ns: Mapping[int, int | None], at_ns: int, active_ns: Mapping[int, int]
) -> dict[int, str]:
    """Ranks that are no more, and how they ended. `active_ns`: when each called last; one that did since is anew."""
    found = {rank: "left the job" for rank, left in left_ns.items() if left is not None and left <= at_ns}
    for each in happened.ends:
        if active_ns.get(each.rank, 0) <= each.time_ns:
            found[each.rank] = f"ended with {each.code or 'an error'}"
    return found
