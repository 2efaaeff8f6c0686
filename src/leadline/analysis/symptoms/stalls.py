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

from leadline.analysis.columns import Ints, ints
from leadline.analysis.spec import Part, Read, S, Verdicts, Window, analysis
from leadline.analysis.symptoms.calls import NEVER, Calls, Group, calls_of, groups_waiting
from leadline.analysis.symptoms.crashes import Crash, crash_of, gone_of
from leadline.analysis.symptoms.decisions import DIED, FROZEN, Decision, decide
from leadline.analysis.symptoms.happened import BACK, Happened, happened_of
from leadline.analysis.symptoms.places import Places, places_of
from leadline.analysis.symptoms.spans import (
    NEAR_NS,
    Blame,
    Evidence,
    Told,
    bound_of,
    columns_of,
    seconds,
    told_before,
)  # fmt: skip
from leadline.model.incidents import Symptom
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import EVENT, SYMPTOM

LOOK_BACK_NS = 120 * S
EVENTS_NS = 600 * S
WAIT_NS_MIN = 2 * S
USUAL_TIMES = 3  # as long as nearly the longest of its kind, before a collective is told as stuck
SILENT_NS_MIN = 5 * S  # without any sign of progress, of a job that tells steps
CALLS_MIN = 12  # ended before it: a job that comes up is not stepping yet
PAUSE_TIMES = 3  # as long as the longest pause of its kind that was seen (evaluation, checkpoint)
PAUSE_S_MIN = 60.0  # where none was seen
PARTS_NS = 30 * S  # what befell a part so long before may be why
BACK_NS = 100 * S  # a job that has not come back by then is told no more: less than the look-back


@analysis(
    name="stalls",
    version=1,
    reads=(
        Read(STEP, columns=("job", "rank", "step", "start_ns", "end_ns", "checkpoint_ns"), look_back_ns=LOOK_BACK_NS,
             waits=False),
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
             waits=False, calls=False),
        Read(SYMPTOM, valid=True, look_back_ns=EVENTS_NS, waits=False, calls=False),
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
    places = places_of(relation, window.job)
    calls, paces = calls_of(collective, window.to_ns), _paces(step, window.to_ns)
    happened = happened_of(event, places, window.job, window.to_ns)
    before = told_before(symptom, (Symptom.STALL, Symptom.CRASH), f"job:{window.job}", window)
    job = _Job(window, places, calls, paces, happened, bound_of(step, collective))
    crash = job.crash([each for each in before if each.symptom == Symptom.CRASH])
    stall = job.stall([each for each in before if each.symptom == Symptom.STALL], crash)
    return {"symptom": columns_of([each for each in (stall, *crash) if each is not None], window)}


@dataclass(frozen=True, slots=True)
class _Paces:
    """Steps that are over: when they ended, how long they took (checkpoint taken off), ns. In order of end."""

    end_N: Ints
    length_N: Ints
    begin_N: Ints  # when they began
    checkpoint_ns: int  # the longest checkpoint

    @property
    def usual_ns(self) -> int:
        return int(np.median(self.length_N)) if len(self.length_N) else 0

    def longest_gap_ns(self) -> int:
        """Longest time between two ends of steps that were usual, of what the job did before."""
        times = np.unique(self.end_N)
        return int(np.diff(times).max()) if len(times) > 1 else 0


def _paces(step: pa.Table, to_ns: int) -> _Paces:
    begin_N, end_N = ints(step, "start_ns"), ints(step, "end_ns")
    keep_N = (begin_N > 0) & (end_N > begin_N) & (end_N < min(to_ns, NEAR_NS))
    begin_N, end_N = begin_N[keep_N], end_N[keep_N]
    checkpoint_N = np.clip(ints(step, "checkpoint_ns", 0)[keep_N], 0, end_N - begin_N)
    order_N = np.argsort(end_N, kind="stable")
    checkpoint = int(checkpoint_N.max()) if len(checkpoint_N) else 0
    lengths = np.sort((end_N - begin_N - checkpoint_N)[order_N])
    return _Paces(end_N[order_N], lengths, begin_N[order_N], checkpoint)


@dataclass(frozen=True, slots=True)
class _Job:
    """All that is known of a job at the end of the window."""

    window: Window
    places: Places
    calls: Calls
    paces: _Paces
    happened: Happened
    bound_ns: int | None

    # --- crashes --------------------------------------------------------------------------------------------------

    def crash(self, before: Sequence[Told]) -> list[Told]:
        """The crash that lasts or ends in this window, and one that is new."""
        told, after_ns = [], 0
        for each in before:
            if each.end_ns is None:
                found = crash_of(self.happened, self.calls, each.start_ns - 10 * S, self._kinds())
                told.append(self._crashed(each.start_ns, each.told_ns, found, each))
            after_ns = max(after_ns, told[-1].end_ns or self.window.to_ns if told else 0, each.end_ns or 0)
        found = crash_of(self.happened, self.calls, max(after_ns, self.window.to_ns - LOOK_BACK_NS), self._kinds())
        if found is not None and not any(each.end_ns is None for each in told):
            told.append(self._crashed(found.start_ns, self.window.to_ns, found, None))
        return told

    def _crashed(self, start_ns: int, told_ns: int, crash: Crash | None, known: Told | None) -> Told:
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
                "process-exit",
                each.time_ns,
                each.bound_ns,
                each.message,
            )
            for each in sorted(crash.ends, key=lambda each: (each.rank not in decision.ranks, each.time_ns, each.rank))
        ]
        return self._told(Symptom.CRASH, start_ns, back_ns, told_ns, decision, start_ns, ends)

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
        found = None if self._is_over() else self._waits(last)
        if found is None:
            return None if last is None else self._ended(last, self._moved_ns(last))
        decision, since_ns = found
        evidence = [] if decision.group is None else [self._group_evidence(decision.group)]
        if last is not None:  # it lasts, or moved for a moment
            return self._told(Symptom.STALL, last.start_ns, None, last.told_ns, decision, since_ns, evidence)
        return self._told(Symptom.STALL, since_ns, None, self.window.to_ns, decision, since_ns, evidence)

    def _is_over(self) -> bool:
        """Whether all ranks have left: a job that ended makes no progress and does not stall."""
        known = set(self.places.left_ns) | self.calls.ranks()
        gone = gone_of(self.happened, self.places.left_ns, self.window.to_ns)
        return (bool(known) and known <= gone.keys()) or self.happened.asked_ns is not None

    def _waits(self, last: Told | None) -> tuple[Decision, int] | None:
        """Who is waited for, and since when; None: the job moves, or is not known to have moved."""
        to_ns = self.window.to_ns
        if not self._stepped(last):
            return None
        groups = [each for each in groups_waiting(self.calls, to_ns) if to_ns - each.first_ns > self._patience_ns(each)]
        gone = gone_of(self.happened, self.places.left_ns, to_ns)
        decision = decide(groups, gone=gone, frozen=self.happened.frozen, known_kinds=self._kinds())
        if decision is not None and decision.group is not None:
            if self._pauses(decision.group):
                return None
            since_ns = decision.group.last_ns + (decision.group.usual_ns if not decision.group.absent else 0)
            return decision, min(since_ns, to_ns - 1)
        return self._silent()

    def _stepped(self, last: Told | None) -> bool:
        """Whether it was seen working: it has called enough, or a stall of it is known."""
        ended = int((self.calls.ended_N < NEVER).sum()) + len(self.paces.end_N)
        return last is not None or ended >= CALLS_MIN * max(1, len(self.calls.ranks()))

    def _patience_ns(self, group: Group) -> int:
        """How long a collective may take before it is told: three times its kind, nearly a step where none is known."""
        usual_ns = USUAL_TIMES * group.usual_ns
        return max(WAIT_NS_MIN, usual_ns if group.usual_ns else 2 * self.paces.usual_ns)

    def _pauses(self, group: Group) -> bool:
        """Whether those who are missing are in a phase that they told, or at a checkpoint as they make them."""
        kinds = {
            self.happened.pauses[rank][1] for rank in group.absent or group.members if rank in self.happened.pauses
        }
        known_s = [self.happened.paused_s.get(kind, PAUSE_S_MIN / PAUSE_TIMES) for kind in sorted(kinds)]
        if not kinds and group.absent:
            known_s.append(self._checkpoint_s())
        return (self.window.to_ns - group.last_ns) / S < PAUSE_TIMES * max(known_s, default=0.0)

    def _checkpoint_s(self) -> float:
        """The longest checkpoint that was seen, s; 0: none was."""
        return max(self.happened.paused_s.get("checkpoint", 0.0), self.paces.checkpoint_ns / S)

    def _silent(self) -> tuple[Decision, int] | None:
        """A job that told steps, and tells nothing any more: neither steps nor calls."""
        if not len(self.paces.end_N) or self.happened.pauses:
            return None
        known = [int(self.paces.end_N[-1]), int(self.paces.begin_N.max())]
        told_N = np.maximum(self.calls.entered_N, np.where(self.calls.ended_N < NEVER, self.calls.ended_N, 0))
        last_ns = max(*known, int(told_N.max()) if len(told_N) else 0)
        quiet_ns = self.window.to_ns - last_ns
        usual_ns = max(self.paces.longest_gap_ns(), self.paces.usual_ns, round(self._checkpoint_s() * S))
        if quiet_ns <= max(SILENT_NS_MIN, USUAL_TIMES * usual_ns):
            return None
        if self.happened.frozen:
            ranks = tuple(sorted(self.happened.frozen))
            text = f"rank {', '.join(map(str, ranks))} stands still (stopped)"
            return Decision(FROZEN, ranks, None, text), last_ns
        gone = gone_of(self.happened, self.places.left_ns, self.window.to_ns)
        if gone:
            return Decision(DIED, tuple(sorted(gone)), None, f"rank {min(gone)} {gone[min(gone)]}"), last_ns
        text = f"no step and no collective since {seconds(quiet_ns)}; no rank waits in a collective"
        return Decision(
            None, (), None, text, "collectives" if not len(told_N) else "what ranks do between collectives"
        ), last_ns

    def _moved_ns(self, last: Told) -> int:
        """When a stall was over: the first call that ended after its newest window, or step, or now."""
        floor_ns = max(last.start_ns, self.window.from_ns - 30 * S)
        moved = [self.calls.over_ns(floor_ns)]
        later = self.paces.end_N[self.paces.end_N > floor_ns]
        moved += [int(later.min())] if len(later) else []
        moved += [each.time_ns for each in self.happened.ends if each.time_ns > floor_ns]
        return min([at for at in moved if at is not None] or [self.window.to_ns])

    def _ended(self, last: Told, end_ns: int) -> Told:
        return self._costs(replace(last, end_ns=max(end_ns, last.start_ns)))

    # --- rows -----------------------------------------------------------------------------------------------------

    def _kinds(self) -> frozenset[tuple[str, int, str]]:
        """What the job called with success."""
        calls = self.calls
        done = (calls.ended_N < NEVER) & ~calls.failed_N & (calls.op_N >= 0) & (calls.dtype_N >= 0)
        told = np.unique(np.column_stack([calls.op_N, calls.bytes_N, calls.dtype_N])[done], axis=0).tolist()
        return frozenset((calls.ops[op], size, calls.dtypes[dtype]) for op, size, dtype in told)

    def _told(
        self, symptom: Symptom, start_ns: int, end_ns: int | None, told_ns: int, decision: Decision, since_ns: int,
        evidence: Sequence[Evidence],
    ) -> Told:  # fmt: skip
        job = self.window.job
        whole = Told(f"job:{job}", job, symptom, start_ns, end_ns, told_ns, self.bound_ns)
        whole = self._costs(whole)
        lost = whole.lost_gpu_seconds
        owners = [f"rank:{job}/{rank}" for rank in decision.ranks]
        if not owners and decision.category is not None and decision.group is not None:
            owners = [f"comm:{decision.group.comm}"]
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
                        f"{group.name}: {came}{absent}; usually over in {seconds(group.usual_ns)}")  # fmt: skip

    def _costs(self, told: Told) -> Told:
        """The whole job waits: all of its GPUs, all of the time."""
        until_ns = self.window.to_ns if told.end_ns is None else told.end_ns
        gpus = self.places.gpus(len(self.calls.ranks()))
        lost = max(until_ns - told.start_ns, 0) / S * gpus
        blamed = tuple(replace(each, lost_gpu_seconds=lost / len(told.blamed)) for each in told.blamed)
        return replace(told, lost_gpu_seconds=lost, lost_share=1.0, blamed=blamed)
