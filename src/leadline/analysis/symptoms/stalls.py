"""Stalls and crashes of a job: when nothing moves any more, and which ranks stopped it.

collective ──> calls.py, groups that ranks wait in   ─┐
event, relation ──> happened.py, places.py           ─┼─> decisions.py: who is waited for ──> stall
step ──> whether it was stepping, how long steps take ┘   crashes.py: who died first ───────> crash
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.spec import Part, Read, S, Verdicts, Window, analysis
from leadline.analysis.symptoms.calls import NEVER, Calls, Group, calls_of, groups_waiting
from leadline.analysis.symptoms.crashes import Crash, crash_of, gone_of
from leadline.analysis.symptoms.decisions import DIED, DIVERGED, FROZEN, NEVER_ENTERED, Decision, decide, with_cut
from leadline.analysis.symptoms.happened import BACK, Happened, happened_of
from leadline.analysis.symptoms.job_ranks import JobRanks, job_ranks, rank_number
from leadline.analysis.symptoms.patience import PARTS_NS, Paces, Patience, paces_of
from leadline.analysis.symptoms.programs import Programs
from leadline.analysis.symptoms.same_name import comes_up, shared_of
from leadline.analysis.symptoms.spans import (
    Blame,
    Evidence,
    Told,
    bound_of,
    columns_of,
    seconds,
    told_before,
)  # fmt: skip
from leadline.model.accounts import Category
from leadline.model.incidents import Symptom
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import EVENT, SYMPTOM

# How far back steps and calls are read: a job that said nothing within it is not looked at, unless it stalls. Source:
# judgement.
LOOK_BACK_NS = 120 * S
# The same of events and of its own symptoms, which are few: pauses come each few minutes. Source: judgement.
EVENTS_NS = 600 * S
# Without any sign of progress, of a job that tells steps and of which a rank is gone or stopped: more than a step of
# most jobs, and less than a job without such a sign is given. Source: judgement.
SURE_NS = 5 * S
# Calls or steps of each rank that ended before, because a job that comes up is not stepping yet: its first collectives
# set up the model. Source: judgement.
CALLS_MIN = 12
# So old a stall is told as it was, since the calls that it began with go out of the look-back, with a quarter to spare.
# Source: definition.
KNOWN_NS = 90 * S
# Twice the longest usual time-out of collectives (30 min): nobody waits for a job any more. Source: manual: PyTorch,
# time-outs of process groups.
FORGOTTEN_NS = 3600 * S
# So long after a call failed its job is going down, or goes on: until then it does not stall anew. Written with the
# table of cases of evals. Source: judgement.
FAILED_NS = 60 * S
# A job that has not come back by then is told no more: less than the look-back, in which its end must still lie.
# Source: definition.
BACK_NS = 100 * S
# Ends of ranks so long before a crash that is known are looked at again: late rows may tell of an earlier one. Source:
# judgement.
EARLIER_NS = 10 * S
# A stall was over when something moved since so long before the window: it is judged each 2 s, so rows that came late
# are seen. Source: judgement.
MOVED_NS = 30 * S


@analysis(
    name="stalls",
    version=1,
    reads=(
        Read(STEP, columns=("job", "rank", "step", "start_ns", "end_ns", "forward_ns", "checkpoint_ns"),
             look_back_ns=LOOK_BACK_NS, waits=False),
        Read(
            COLLECTIVE,
            columns=(
                "job", "comm", "ranks", "rank", "seq", "op", "bytes", "dtype", "enqueued_ns", "started_ns",
                "finished_ns", "state",
            ),
            look_back_ns=LOOK_BACK_NS,
            waits=False,
        ),
        Read(
            EVENT,
            columns=("time_ns", "entity", "kind", "severity", "code", "message", "attributes"),
            look_back_ns=EVENTS_NS,
            waits=False,
            calls=False,
        ),
        Read(RELATION, columns=("child", "parent", "kind", "from_ns", "to_ns"), valid=True, look_back_ns=LOOK_BACK_NS,
             waits=False, calls=False, of_ranks=True),
        Read(SYMPTOM, valid=True, look_back_ns=EVENTS_NS, waits=False),
    ),
    writes=(SYMPTOM,),
    window_s=2,
    grace_s=1,
    part=Part.JOB,
)  # fmt: skip
def stalls(
    step: pa.Table, collective: pa.Table, event: pa.Table, relation: pa.Table, symptom: pa.Table, *, window: Window
) -> Verdicts:
    """Jobs in which nothing moves, or whose ranks ended with an error, with the ranks that are why.

    A stall: a collective that ranks wait in for longer than 2 s and 3 times what its kind takes, or a job that told
    steps and tells nothing any more. A crash: ranks ended with an error that nobody asked for.
    Accuracy: docs/analyses/stalls.md.
    Source: the decision table of `decisions`, earliest stuck group first.
    """
    places = job_ranks(relation, window.job)
    calls, paces = calls_of(collective, window.to_ns), paces_of(step, window.to_ns)
    happened = happened_of(event, places, window.job, window.to_ns)
    before = told_before(symptom, (Symptom.STALL, Symptom.CRASH), f"job:{window.job}", window)
    mixed = shared_of(step, window.to_ns) is not None or comes_up(places.processes_of, window.to_ns)
    job = _Job(window, places, calls, paces, happened, bound_of(step, collective), mixed)
    crash = job.crash([each for each in before if each.symptom == Symptom.CRASH])
    stall = job.stall([each for each in before if each.symptom == Symptom.STALL], crash)
    return {"symptom": columns_of([each for each in (stall, *crash) if each is not None], window)}


@dataclass(frozen=True, slots=True)
class _Job:
    """All that is known of a job at the end of the window."""

    window: Window
    places: JobRanks
    calls: Calls
    paces: Paces
    happened: Happened
    bound_ns: int | None
    mixed: bool  # with the rows of another job of its name: who waits for whom is not known

    @property
    def patience(self) -> Patience:
        """How long it may stand."""
        return Patience(self.paces, self.calls, self.happened)

    # --- crashes --------------------------------------------------------------------------------------------------

    def crash(self, before: Sequence[Told]) -> list[Told]:
        """The crash that lasts or ends in this window, and one that is new."""
        told, after_ns = [], 0
        for each in before:
            if each.end_ns is None:
                found = crash_of(self.happened, self.calls, each.start_ns - EARLIER_NS)
                told.append(self._crashed(each.start_ns, each.reported_ns, found, each))
            after_ns = max(after_ns, told[-1].end_ns or self.window.to_ns if told else 0, each.end_ns or 0)
        found = crash_of(self.happened, self.calls, max(after_ns, self.window.to_ns - LOOK_BACK_NS))
        if found is not None and not any(each.end_ns is None for each in told):
            told.append(self._crashed(found.start_ns, self.window.to_ns, found, None))
        return told

    def _crashed(self, start_ns: int, reported_ns: int, crash: Crash | None, known: Told | None) -> Told:
        last_ns = crash.last_ns if crash is not None else start_ns
        back_ns = self._works_after(last_ns)
        if back_ns is None and self.window.to_ns - last_ns > BACK_NS:
            back_ns = self.window.to_ns  # it does not come back: whoever waits for it knows
        if crash is None:
            assert known is not None
            return self._costs(replace(known, end_ns=back_ns))
        decision = crash.decision
        ends = [
            Evidence(
                "event",
                f"rank:{self.window.job}/{each.rank}",
                each.told_by,
                each.time_ns,
                each.bound_ns,
                each.message,
            )
            for each in sorted(crash.ends, key=lambda each: (each.rank not in decision.ranks, each.time_ns, each.rank))
        ]
        return self._told(Symptom.CRASH, start_ns, back_ns, reported_ns, decision, start_ns, ends)

    def _works_after(self, at_ns: int) -> int | None:
        """When the job made a step again, or a collective where it tells no steps, that began after a time."""
        if len(self.paces.end_N):
            later = self.paces.begin_N[self.paces.begin_N > at_ns]
            return int(later.min()) if len(later) else None
        again = self.calls.ended_N[(self.calls.entered_N > at_ns) & ~self.calls.failed_N & (self.calls.ended_N < NEVER)]
        return int(again.min()) if len(again) else None

    # --- stalls ---------------------------------------------------------------------------------------------------

    def stall(self, before: Sequence[Told], crash: Sequence[Told]) -> Told | None:
        """The stall that lasts, ends in this window, or is new."""
        last = next((each for each in reversed(before) if each.end_ns is None), None)
        crashed = next((each for each in crash if each.end_ns is None), None)
        if crashed is not None:
            return None if last is None else self._ended(last, max(crashed.start_ns, last.start_ns))
        if last is not None and self.window.to_ns - last.start_ns > KNOWN_NS and not self._is_over():
            return self._goes_on(last)
        if self.mixed and not self._is_over():  # no new one; one that was told before lasts until something moves
            return None if last is None else self._goes_on(last)
        found = None if self._is_over() else self._waits(last)
        if found is None:
            return None if last is None else self._ended(last, self._moved_ns(last) or self._left_ns())
        decision, since_ns = found
        evidence = [] if decision.group is None else [self._group_evidence(decision.group)]
        if last is not None:  # it lasts, or moved for a moment
            return self._told(Symptom.STALL, last.start_ns, None, last.reported_ns, decision, since_ns, evidence)
        return self._told(Symptom.STALL, since_ns, None, self.window.to_ns, decision, since_ns, evidence)

    def _goes_on(self, last: Told) -> Told:
        """A stall that is so old that its calls go out of sight: as it was told, until something moves."""
        moved_ns = self._moved_ns(last)
        if moved_ns is None and self.window.to_ns - last.start_ns > FORGOTTEN_NS:
            moved_ns = self.window.to_ns
        return self._costs(last) if moved_ns is None else self._ended(last, moved_ns)

    def _is_over(self) -> bool:
        """Whether all ranks have left: a job that ended makes no progress and does not stall."""
        known = set(self.places.left_ns) | self.calls.ranks()
        gone = self._gone()
        return (bool(known) and known <= gone.keys()) or self.happened.asked_ns is not None

    def _left_ns(self) -> int:
        """When the last of the ranks left the job, if all have; else now."""
        left = [at if at is not None else self.window.to_ns for at in self.places.left_ns.values()]
        return min(max(left, default=self.window.to_ns), self.window.to_ns)

    def _gone(self) -> dict[int, str]:
        return gone_of(self.happened, self.places.left_ns, self.window.to_ns, self._active_ns())

    def _active_ns(self) -> dict[int, int]:
        """When each rank called last."""
        rank_N, entered_N = self.calls.rank_N, self.calls.entered_N
        order_N = np.argsort(entered_N, kind="stable")
        return dict(zip(rank_N[order_N].tolist(), entered_N[order_N].tolist(), strict=True))

    def _waits(self, last: Told | None) -> tuple[Decision, int] | None:
        """Who is waited for, and since when; None: the job moves, or is not known to have moved."""
        to_ns = self.window.to_ns
        if not self._stepped(last):
            return None
        at_ns = self._before_failing_ns()
        groups, order = groups_waiting(self.calls, at_ns), Programs(self.calls, at_ns)
        # Who stood still when it began is why it lasts, until that one has come: to go on is not to have come.
        frozen = self.happened.frozen.keys() | (frozenset() if last is None else self.happened.frozen_at(last.start_ns))
        decision = decide(groups, gone=self._gone(), frozen=frozen, order=order)
        if decision is None or decision.group is None:
            return self._silent()
        group = decision.group
        decision = with_cut(decision, self.happened)
        complete = not group.absent and not group.pairwise
        since_ns = group.last_ns if complete else group.first_ns
        if to_ns - since_ns <= self.patience.of(decision):
            return None
        return decision, min(group.last_ns + (group.baseline_ns if complete else 0), to_ns - 1)

    def _before_failing_ns(self) -> int:
        """Now; or when the first call failed, if none has ended well since: who gave up waits in nothing any more."""
        calls = self.calls
        failed = calls.ended_N[calls.failed_N & (calls.ended_N > self.window.to_ns - FAILED_NS)]
        failed = failed[failed < self.window.to_ns]
        if not len(failed):
            return self.window.to_ns
        first_ns = int(failed.min())
        return self.window.to_ns if calls.over_ns(first_ns + S) is not None else first_ns

    def _stepped(self, last: Told | None) -> bool:
        """Whether it was seen working: it has called enough, or a stall of it is known."""
        ended = int((self.calls.ended_N < NEVER).sum()) + len(self.paces.end_N)
        return last is not None or ended >= CALLS_MIN * max(1, len(self.calls.ranks()))

    def _silent(self) -> tuple[Decision, int] | None:
        """A job that told steps, and tells nothing any more: neither steps nor calls."""
        if not len(self.paces.end_N) or self.happened.pauses:
            return None
        known = [int(self.paces.end_N[-1]), int(self.paces.begin_N.max())]
        told_N = np.maximum(self.calls.entered_N, np.where(self.calls.ended_N < NEVER, self.calls.ended_N, 0))
        last_ns = max(*known, int(told_N.max()) if len(told_N) else 0)
        quiet_ns = self.window.to_ns - last_ns
        why, gone = self.happened.frozen, self._gone()
        done = {each.rank for each in self.happened.ends if not each.failed}  # who is done waits for nobody
        gone = {rank: words for rank, words in gone.items() if rank not in done}
        if quiet_ns <= (SURE_NS if why or gone else self.patience.silent_ns()):
            return None
        if why:
            ranks = tuple(sorted(why))
            text = f"rank {', '.join(map(str, ranks))} stands still (stopped)"
            return Decision(FROZEN, ranks, None, text), last_ns
        if gone:
            return Decision(DIED, tuple(sorted(gone)), None, f"rank {min(gone)} {gone[min(gone)]}"), last_ns
        text = f"no step and no collective since {seconds(quiet_ns)}; no rank waits in a collective"
        return Decision(
            None, (), None, text, "collectives" if not len(told_N) else "what ranks do between collectives"
        ), last_ns

    def _moved_ns(self, last: Told) -> int | None:
        """When a stall was over: the first call that ended after its newest window, or step; None: nothing moved."""
        floor_ns = max(last.start_ns, self.window.from_ns - MOVED_NS)
        moved = [self.calls.over_ns(floor_ns)]
        later = self.paces.end_N[self.paces.end_N > floor_ns]
        moved += [int(later.min())] if len(later) else []
        moved += [each.time_ns for each in self.happened.ends if each.time_ns > floor_ns]
        return min((at for at in moved if at is not None), default=None)

    def _ended(self, last: Told, end_ns: int) -> Told:
        """It is over. Who was missing and wrote a checkpoint all that time was late by that: it is told when it is
        written."""
        end_ns = max(end_ns, last.start_ns)
        blamed = tuple(
            replace(each, category=Category.CHECKPOINT.value, how="steps")
            if each.category == NEVER_ENTERED and self._wrote(each.owner, last.start_ns, end_ns)
            else each
            for each in last.blamed
        )
        return self._costs(replace(last, end_ns=end_ns, blamed=blamed))

    def _wrote(self, owner: str, begin_ns: int, end_ns: int) -> bool:
        rank = rank_number(owner, self.window.job)
        return rank is not None and self.paces.wrote(rank, begin_ns, end_ns)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _told(
        self, symptom: Symptom, start_ns: int, end_ns: int | None, reported_ns: int, decision: Decision, since_ns: int,
        evidence: Sequence[Evidence],
    ) -> Told:  # fmt: skip
        job = self.window.job
        whole = Told(f"job:{job}", job, symptom, start_ns, end_ns, reported_ns, self.bound_ns)
        whole = self._costs(whole)
        lost = whole.lost_gpu_seconds
        owners = [f"rank:{job}/{rank}" for rank in decision.ranks]
        if not owners and decision.category is not None and decision.group is not None:
            owners = [f"job:{job}" if decision.category == DIVERGED else f"comm:{decision.group.comm}"]
        blamed = tuple(
            Blame(owner, decision.category or "", decision.how, lost / len(owners), since_ns) for owner in owners
        )
        said = Evidence("symptom", f"job:{job}", str(symptom), since_ns, self.bound_ns, decision.text)
        parts = [
            each.evidence for each in sorted(self.happened.parts, key=lambda each: (each.kind in BACK, -each.time_ns))
            if start_ns - PARTS_NS <= each.time_ns and (not decision.ranks or {*decision.ranks} & {*each.ranks})
        ]  # fmt: skip
        return replace(whole, blamed=blamed, missing=decision.missing, evidence=(said, *evidence, *parts))

    def _group_evidence(self, group: Group) -> Evidence:
        came = f"{len(group.entered)} of {group.size} ranks came"
        absent = f", not {', '.join(map(str, sorted(group.absent)[:8]))}" if group.absent else ""
        return Evidence("collective", f"comm:{group.comm}", group.op, group.first_ns, self.bound_ns,
                        f"{group.name}: {came}{absent}; usually over in {seconds(group.baseline_ns)}")  # fmt: skip

    def _costs(self, told: Told) -> Told:
        """The whole job waits: all of its GPUs, all of the time."""
        until_ns = self.window.to_ns if told.end_ns is None else told.end_ns
        gpus = self.places.gpus(len(self.calls.ranks()))
        lost = max(until_ns - told.start_ns, 0) / S * gpus
        blamed = tuple(replace(each, lost_gpu_seconds=lost / len(told.blamed)) for each in told.blamed)
        return replace(told, lost_gpu_seconds=lost, lost_share=1.0, blamed=blamed)
