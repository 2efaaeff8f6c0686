"""Slowdowns of a job: since when it loses time, how much, and to whom.

step, collective ──> pace.py ──> excursions.py: it became slower, since which step     ─┐
ledger ────────────> 15 s in a row that lost more than 5 %, while work goes slower      ├─> slow
usual ─────────────> what it takes, where the look-back has nothing but trouble         │
collective, step ──> lateness.py, owners.py: who made it late; the ledger, once it knows ┘
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import ints
from leadline.analysis.spec import Part, Read, S, Verdicts, Window, analysis
from leadline.analysis.symptoms.calls import Calls, calls_of
from leadline.analysis.symptoms.excursion_kernels import SCATTER_MIN
from leadline.analysis.symptoms.excursions import Level, chance_s, even_from, excursion, jump, level_of, onset
from leadline.analysis.symptoms.happened import held_spans
from leadline.analysis.symptoms.job_ranks import JobRanks, job_ranks
from leadline.analysis.symptoms.lateness import Lateness, Meetings, lateness, meetings_of
from leadline.analysis.symptoms.onsets import dated
from leadline.analysis.symptoms.owners import NOT_LOST, first_blame, lost_since, merged, phases_since, somebody_new
from leadline.analysis.symptoms.pace import Pace, inside, pace_of
from leadline.analysis.symptoms.same_name import shared_of, told_of
from leadline.analysis.symptoms.spans import NEAR_NS, Evidence, Told, bound_of, columns_of, told_before
from leadline.model.accounts import Category
from leadline.model.incidents import Symptom
from leadline.model.tables.accounts import BASELINE, LEDGER
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import EVENT, SYMPTOM

# Look-back over steps: long enough for 20 blocks of steps of 10 s, and trouble that lasts longer is held against
# `baseline`. Source: judgement.
STEPS_NS = 300 * S
# Look-back over collectives, which are many: long enough for the onset of what is told within 40 s. Source: bound.
CALLS_NS = 120 * S
# Look-back over `baseline`: a day, as the ledger's, so that both hold a job against the same past. Source: definition.
BASELINE_NS = 24 * 3600 * S
# Share of the windows of `baseline` whose best is the level: trouble that lasts three quarters of a day does not become
# the usual. The same as in `ledger.baseline`. Source: recordings (docs/log.md, 2026-11-22).
BEST_SHARE = 0.25
# As usual for so long, and it is over: shorter, and a fault that comes and goes would be many symptoms. Source:
# recordings (docs/analyses/slowdowns.md).
BACK_NS = 10 * S
# The same in blocks, at least, for jobs of long steps, since one good step is chance. Source: judgement.
BACK_BLOCKS = 2
# Share of a job's time below which nothing is told as slow: healthy steps vary by as much. Source: recordings
# (docs/analyses/slowdowns.md).
LOST_SHARE_MIN = 0.05
# Times as long as the first that was seen that a checkpoint may take, because storage has other users too; the value of
# CHECKPOINT_RATIO of the ledger. Source: recordings (seed 7 of evals.stranger; docs/analyses/own-jobs.md).
CHECKPOINT_TIMES = (
    1.5  # of the first that was seen, that a checkpoint may take; as the ledger has it (CHECKPOINT_RATIO)
)
# ns of windows of the ledger in a row that must have lost time: two of them, since one may hold a single pause. Source:
# recordings (docs/analyses/slowdowns.md).
LEDGER_NS = 15 * S
# Windows of the ledger in a row of which one owner, and the same one, loses STEADY_MIN of the time and most of what is
# lost, after as many of which it lost a fifth of that: chance blames one of eight ranks thrice in a row once in 64.
# With steps 5 % slower since, less has to be lost than where the owner changes. Source: judgement, and simulated train
# cases (docs/log.md, 2026-11-29).
STEADY_WINDOWS, STEADY_MIN, STEADY_BEFORE = 3, 0.02, 0.2
# Shared machines slow a job for half a minute, by a fifth, all of its ranks alike (a user's jobs beside other work: by
# 13 % for 25 s); what has an owner, or takes a third of the time, is told sooner. A past that is long enough tells how
# much this job loses by chance: that counts, within what stands here for what one rank lost, for what is clear
# otherwise, and for the rest. What nobody makes slow was told from 4 s until healthy jobs were told (bdbbd902). Seconds
# lost. Source: recordings (evals.healthy, seeds 2 and 3; docs/analyses/own-jobs.md).
LOST_S_MIN, LOST_S_NOBODYS = 2.0, 8.0
# Least and most seconds between which a job's own chance decides: of one rank, clear, and the rest. Source: recordings
# (quiet and restless jobs; docs/analyses/slowdowns.md).
RANKS_S, CLEAR_S, NOBODYS_S = (1.0, LOST_S_MIN), (LOST_S_MIN, 4.0), (4.0, LOST_S_NOBODYS)
# Share of the loss that makes one its owner, and share of the time lost that is clear without one: half, because there
# is only one such; a third, because no busy machine of the lab took as much. Source: recordings
# (docs/analyses/slowdowns.md).
OWNER_SHARE, SHARE_CLEAR = 0.5, 1 / 3
# An onset longer ago was told then, or is not worth telling now: the slowest rule takes 30 s. Source: judgement.
SOON_NS = 40 * S
# Times as long as what it is held against that a slow-down may be: a job that comes up fast and goes on slower is no
# slow-down. Source: recordings (docs/analyses/slowdowns.md).
TIMES_BEFORE = 2
# Times as much as any other block that one block lost to be a pause, and no part of a slow-down. Source: recordings
# (evals.healthy, seed 3; docs/log.md, 2026-11-24).
PAUSE_TIMES = 3.0
# Slow units up to which they are pauses: what makes a job slow makes it so again and again. Source: recordings (the
# same).
PAUSES_MAX = 2
# ns; nothing is heard for so long, and many units: the job ended, or stalls, which takes up to 30 s to tell. Source:
# definition (PAUSE_NS_MIN of patience).
OVER_NS = 30 * S
NOT_BASELINE = (Symptom.SLOW, Symptom.CRASH, Symptom.NAME_SHARED)  # steps made meanwhile say nothing of what is usual
# What became much slower after it had been evenly slow for so long may be another's doing. Made for one live run of two
# faults in one slow-down. Source: recordings (docs/log.md, 2026-11-23).
EVEN_NS = 15 * S
# times its usual unit that nothing is heard, too: a job of long steps is silent for longer. Source: judgement.
OVER_UNITS = 5
# Share of the trouble's excess, beyond LOST_SHARE_MIN, that a window of the ledger loses to hold a symptom open: as
# BACK_SHARE of blocks. Source: judgement.
LOSING_SHARE = 0.25
# ns of a window of the ledger: what was lost up to so much later may be of the symptom. Source: definition.
WINDOW_NS = 10 * S


@analysis(
    name="slowdowns",
    version=1,
    reads=(
        Read(
            STEP,
            columns=("job", "rank", "step", "start_ns", "end_ns", "data_ns", "forward_ns", "checkpoint_ns"),
            look_back_ns=STEPS_NS,
            waits=False,
        ),
        Read(
            COLLECTIVE,
            columns=(
                "job", "comm", "ranks", "rank", "seq", "op", "bytes", "dtype", "enqueued_ns", "started_ns",
                "finished_ns", "state",
            ),
            look_back_ns=CALLS_NS,
            waits=False,
        ),
        Read(
            LEDGER,
            columns=("job", "end_ns", "window_ns", "category", "owner", "gpu_seconds", "lost_gpu_seconds", "depth"),
            look_back_ns=STEPS_NS,
            waits=False,
            calls=False,
        ),
        Read(BASELINE, columns=("job", "what", "end_ns", "count", "median_s"), look_back_ns=BASELINE_NS, waits=False,
             calls=False),
        Read(RELATION, columns=("child", "parent", "kind", "from_ns", "to_ns"), valid=True, look_back_ns=CALLS_NS,
             waits=False, calls=False, of_ranks=True),
        Read(EVENT, columns=("time_ns", "entity", "kind"), look_back_ns=STEPS_NS, waits=False, calls=False),
        Read(SYMPTOM, valid=True, look_back_ns=STEPS_NS, waits=False, calls=False),
    ),
    writes=(SYMPTOM,),
    window_s=2,
    grace_s=1,
    part=Part.JOB,
)  # fmt: skip
def slowdowns(
    step: pa.Table,
    collective: pa.Table,
    ledger: pa.Table,
    baseline: pa.Table,
    relation: pa.Table,
    event: pa.Table,
    symptom: pa.Table,
    *,
    window: Window,
) -> Verdicts:
    """Jobs that are slower than they used to be, since when, what it costs, and who makes them so.

    Told from steps (from collectives where there are none) within two or three of them, or from 15 s of the ledger
    that lost more than 5 %. Over when the job was as usual for 10 s.
    Accuracy: docs/analyses/slowdowns.md.
    """
    before = told_before(symptom, tuple(Symptom), f"job:{window.job}", window)
    held = held_spans(event, window.job, window.to_ns)
    job = _Job(window, step, collective, relation, _ledger_rows(ledger, window), _baseline_s(baseline), before, held)
    return {"symptom": columns_of(job.told(), window)}


def _ledger_rows(ledger: pa.Table, window: Window) -> list[dict[str, Any]]:
    rows = [row for row in ledger.to_pylist() if 0 < row["end_ns"] <= window.to_ns]
    return sorted(
        rows,
        key=lambda row: (row["end_ns"], row["category"], row["owner"] or "", row["depth"], row["lost_gpu_seconds"]),
    )


def writers(step: pa.Table, window: Window) -> frozenset[str]:
    """The ranks that wrote the first checkpoint that is seen, of which the newest takes no longer than the first by
    half: the same rank by custom, and storage that answers as it did."""
    took_N, end_N, rank_N = ints(step, "checkpoint_ns", 0), ints(step, "end_ns"), ints(step, "rank")
    keep_N = (took_N > 0) & (end_N > 0) & (end_N <= window.to_ns)
    took_N, end_N, rank_N = took_N[keep_N], end_N[keep_N], rank_N[keep_N]
    if not len(end_N):
        return frozenset()
    first = int(np.argmin(end_N))
    together_N = end_N - took_N < end_N[first]  # begun before the first was written: of the same checkpoint
    found = set()
    for rank in np.unique(rank_N[together_N]).tolist():
        mine_M = took_N[rank_N == rank][np.argsort(end_N[rank_N == rank], kind="stable")]
        if mine_M[-1] <= CHECKPOINT_TIMES * mine_M[0]:
            found.add(f"rank:{window.job}/{rank}")
    return frozenset(found)


def _baseline_s(baseline: pa.Table) -> float | None:
    """What steps took in the best windows of a day, s."""
    rows = sorted(
        (row["median_s"], min(row["count"], 2**40))
        for row in baseline.select(["what", "median_s", "count"]).to_pylist()
        if row["what"] == "step" and 0 < row["median_s"] < 3600 and row["count"] > 2
    )
    total, so_far = sum(count for _, count in rows), 0
    for median_s, count in rows:
        so_far += count
        if so_far >= BEST_SHARE * total:
            return float(median_s)
    return None


@dataclass(frozen=True, slots=True)
class _LedgerWindow:
    begin_ns: int
    end_ns: int
    share: float  # of the GPU time of the window, that was lost
    most: float  # of it, to one owner
    owner: str = ""  # that owner


@dataclass(frozen=True)
class _Job:
    """All that is known of a job at the end of the window.

    What is read of its collectives and places only who is slow pays for: most windows see a job that is not.
    """

    window: Window
    step: pa.Table
    collective: pa.Table
    relation: pa.Table
    ledger: Sequence[Mapping[str, Any]]
    baseline_s: float | None
    before: Sequence[Told]
    held: Sequence[tuple[int, int]]  # by a debugger, ns: what took long then is nobody's fault

    @cached_property
    def calls(self) -> Calls:
        return calls_of(self.collective, self.window.to_ns)

    @cached_property
    def meetings(self) -> Meetings:
        return meetings_of(self.calls)

    @cached_property
    def pace(self) -> Pace:
        found = pace_of(self.step, lambda: self.calls, self.window.to_ns)
        return found.take(~inside(found, self.held)) if self.held else found

    @cached_property
    def _writers(self) -> frozenset[str]:
        """Ranks that write the job's checkpoints, while theirs take no longer than they did: time that others wait for
        them is lost, but the job is not slower than it was."""
        return writers(self.step, self.window)

    @cached_property
    def places(self) -> JobRanks:
        return job_ranks(self.relation, self.window.job)

    @cached_property
    def bound_ns(self) -> int | None:
        return bound_of(self.step, self.collective)

    def told(self) -> list[Told]:
        """What this window says: that its name is not its own, or how slow it is."""
        shared = told_of(shared_of(self.step, self.window.to_ns), self.places.processes_of,
                         self._told(Symptom.NAME_SHARED), self.window)  # fmt: skip
        since_ns = next((each.start_ns for each in shared if each.end_ns is None), None)
        if since_ns is None:
            return [*shared, *self.slow()]
        slow = [each for each in self._told(Symptom.SLOW) if each.end_ns is None]
        return [*shared, *(self._ended(each, max(since_ns, each.start_ns)) for each in slow)]

    def slow(self) -> list[Told]:
        """The slowdown that lasts, ends in this window, or is new; or the one that ends where another begins."""
        last = next((each for each in reversed(self._told(Symptom.SLOW)) if each.end_ns is None), None)
        if last is not None:
            next_one = self._another(last)
            return [self._goes_on(last)] if next_one is None else [self._ended(last, next_one.start_ns), next_one]
        crashed = any(each.end_ns is None for each in self._told(Symptom.CRASH))
        onset = None if crashed else self._onset()
        if onset is None:
            return []
        return [self._new(*onset)]

    def _new(self, start_ns: int, level: Level, text: str) -> Told:
        told = Told(f"job:{self.window.job}", self.window.job, Symptom.SLOW, start_ns, None, self.window.to_ns)
        return self._row(told, level, text)

    def _told(self, symptom: Symptom) -> list[Told]:
        return [each for each in self.before if each.symptom == symptom]

    # --- onset ----------------------------------------------------------------------------------------------------

    def _onset(self) -> tuple[int, Level, str] | None:
        """When it became slow, and what was usual; None: it did not, or that was told."""
        spans = self._trouble(NOT_BASELINE)
        calm = self.pace.take(~inside(self.pace, spans))
        found = excursion(calm.unit_s_B)
        begin_ns = int(calm.begin_B[found.first]) if found is not None else 0
        if found is not None and self._lasts(calm, found.level, begin_ns):
            start_ns = _lost_from(calm, found.first, found.level)
            now_s = float(np.mean(calm.unit_s_B[found.first :]))
            if self.window.to_ns - start_ns <= min(SOON_NS, TIMES_BEFORE * (begin_ns - int(calm.begin_B[0]))):
                return start_ns, found.level, _words(calm.what, found.level.unit_s, now_s)
        return self._by_ledger(spans, calm)

    def _trouble(self, symptoms: Sequence[Symptom]) -> list[tuple[int, int]]:
        spans = [each for symptom in symptoms for each in self._told(symptom)]
        return [(each.start_ns, self.window.to_ns if each.end_ns is None else each.end_ns) for each in spans]

    def _lasts(self, pace: Pace, level: Level, begin_ns: int) -> bool:
        """Whether what came since is slow as a whole, and its end is."""
        now = pace.take(pace.begin_B >= begin_ns)
        recent = now.take(now.end_B > int(now.end_B[-1]) - BACK_NS)
        if min(_share(now, level), _share(recent, level)) < LOST_SHARE_MIN:
            return False
        late = lateness(self.meetings, begin_ns, self.window.to_ns, begin_ns)
        rank_s = max([*late.by_rank_s.values(), *self._hosts_s(late)], default=0.0)
        most_s = max([rank_s, *late.by_comm_s.values()])
        before = pace.take(pace.end_B <= begin_ns)
        baseline_s_B = np.asarray(level.unit_s * before.count_B, np.float64)
        chance = chance_s(before.unit_s_B * before.count_B, baseline_s_B, LOST_SHARE_MIN)
        pause_s = _pause_s(now, level)
        lost_s = max(0.0, _lost_s(now, level) - pause_s)
        # Whose the pause was is not known: it is taken off everybody.
        most_s, rank_s = max(0.0, most_s - pause_s), max(0.0, rank_s - pause_s)
        share = lost_s / (float(now.length_B.sum()) / S - pause_s)
        return _is_worth_telling(lost_s, share, most_s, rank_s, chance)

    def _hosts_s(self, late: Lateness) -> list[float]:
        """What ranks of each host lost together, s, beyond what as many ranks lose where all are late alike (of two
        hosts one always has half): 0 then, and all of it where no other host is late. Ranks of a host that wait for
        each other are each late by a part."""
        lost: dict[str, float] = defaultdict(float)
        ranks: dict[str, int] = defaultdict(int)
        for rank, host in self.places.host_of.items():
            lost[host] += late.by_rank_s.get(rank, 0.0)
            ranks[host] += 1
        whole_s, many = math.fsum(lost.values()), len(self.places.host_of)
        return [
            max(0.0, (lost[host] - whole_s * count / many) / (1 - count / many))
            for host, count in ranks.items()
            if 1 < count < many
        ]

    def _by_ledger(self, spans: Sequence[tuple[int, int]], calm: Pace) -> tuple[int, Level, str] | None:
        """Windows in a row that lost more than 5 %, the last of them just told."""
        spans = [*spans, *self._trouble((Symptom.STALL,)), *self.held]
        newest = self._losing_windows(spans)
        one_owner = [] if newest else self._of_one_owner(spans)
        newest = newest or one_owner
        lost_s = sum(each.share * (each.end_ns - each.begin_ns) / S for each in newest)
        most_s = sum(each.most * (each.end_ns - each.begin_ns) / S for each in newest)
        reported_ns = newest[-1].end_ns - newest[0].begin_ns if newest else 0
        worth = lost_s >= RANKS_S[0] if one_owner else _is_worth_telling(lost_s, 0.0, most_s, 0.0, None)
        if reported_ns < LEDGER_NS or not worth:
            return None
        if self.window.to_ns - newest[-1].end_ns > SOON_NS:
            return None
        # It began to lose time, by the ledger: then it got slower. Slow from its first window on only `baseline` tells.
        began = len(newest) < len(self._ledger_windows())
        if began and not calm.is_slower(newest[0].begin_ns, LOST_SHARE_MIN):
            return None
        slow = calm.slow_units(newest[0].begin_ns, LOST_SHARE_MIN)
        if began and slow is not None and 0 < slow <= PAUSES_MAX:
            return None  # evaluations that nobody marked
        calm_ns = newest[0].begin_ns - int(calm.begin_B[0]) if len(calm.begin_B) else 0
        if began and reported_ns > TIMES_BEFORE * calm_ns:
            return None
        level = level_of(calm.unit_s_B) or Level(self.baseline_s or 1.0, SCATTER_MIN)
        share, begin_ns = sum(each.share for each in newest) / len(newest), max(1, newest[0].begin_ns)
        inside_B = np.flatnonzero(calm.end_B > begin_ns)
        if len(inside_B):
            begin_ns = _lost_from(calm, onset(calm.unit_s_B, int(inside_B[0]), len(calm.end_B) - 1, level), level)
        return min(begin_ns, self.window.to_ns - 1), level, f"{100 * share:.0f} % of its time was lost, by the ledger"

    def _losing_windows(self, spans: Sequence[tuple[int, int]]) -> list[_LedgerWindow]:
        """The newest windows of the ledger that all lost more than 5 %, outside of some spans; the newest last."""
        found: list[_LedgerWindow] = []
        for each in reversed(self._ledger_windows()):
            known = any(begin < each.end_ns and each.begin_ns < until for begin, until in spans)
            if known or each.share < LOST_SHARE_MIN or (found and found[0].begin_ns != each.end_ns):
                break
            found.insert(0, each)
        return found

    def _of_one_owner(self, spans: Sequence[tuple[int, int]]) -> list[_LedgerWindow]:
        """The newest windows in a row, outside of some spans, of which one owner lost a little and most of what was
        lost, who lost next to nothing in as many before; none if they are fewer than `STEADY_WINDOWS`."""
        windows = self._ledger_windows()
        found: list[_LedgerWindow] = []
        for each in reversed(windows):
            known = any(begin < each.end_ns and each.begin_ns < until for begin, until in spans)
            steady = each.owner and each.most >= max(STEADY_MIN, OWNER_SHARE * each.share)
            follows = not found or (found[0].begin_ns == each.end_ns and found[0].owner == each.owner)
            if known or not steady or not follows:
                break
            found.insert(0, each)
        before = windows[: len(windows) - len(found)]
        if len(found) < STEADY_WINDOWS or len(before) < STEADY_WINDOWS:
            return []
        mean = sum(each.most for each in found) / len(found)
        earlier = [each.most for each in before if each.owner == found[0].owner]
        return [] if sum(earlier) / len(before) > STEADY_BEFORE * mean else found

    def _ledger_windows(self) -> list[_LedgerWindow]:
        """What share of each window of the ledger was lost, in order of time."""
        lost: dict[int, float] = defaultdict(float)
        most: dict[int, tuple[float, str]] = defaultdict(lambda: (0.0, ""))
        held: dict[int, float] = defaultdict(float)
        length: dict[int, int] = {}
        for row in self.ledger:
            held[row["end_ns"]] += _sound(row["gpu_seconds"])
            baseline = row["category"] == Category.CHECKPOINT and row["owner"] in self._writers
            if row["category"] not in NOT_LOST and not baseline:
                lost[row["end_ns"]] += _sound(row["lost_gpu_seconds"])
                # The owner of what is unknown is what is missing, in words that may have a colon.
                if row["category"] != Category.UNKNOWN and ":" in (row["owner"] or ""):
                    most[row["end_ns"]] = max(most[row["end_ns"]], (_sound(row["lost_gpu_seconds"]), row["owner"]))
            length[row["end_ns"]] = max(0, min(row["window_ns"], NEAR_NS))
        found = []
        for end in sorted(held):
            of_one, owner = most[end]
            share, one = (each / held[end] if held[end] > 0 else 0.0 for each in (lost[end], of_one))
            found.append(_LedgerWindow(end - length[end], end, share, one, owner))
        return found

    # --- while it lasts -------------------------------------------------------------------------------------------

    def _goes_on(self, last: Told) -> Told:
        level = self._level_before(last)
        blocks = self.pace.take(self.pace.end_B > last.start_ns)
        text = last.evidence[0].text if last.evidence else ""
        end_ns = None
        if level is not None and len(blocks.end_B):
            end_ns = self._back_ns(blocks, level)
            end_ns = None if end_ns is None else max(end_ns, last.start_ns)
            text = _words(blocks.what, level.unit_s, float(np.mean(blocks.unit_s_B)))
        last_ns = int(self.pace.end_B[-1]) if len(self.pace.end_B) else last.start_ns
        unit_ns = round(float(np.median(self.pace.length_B))) if len(self.pace.length_B) else 0
        if end_ns is None and self.window.to_ns - last_ns > max(OVER_NS, OVER_UNITS * unit_ns):
            end_ns = max(last_ns, last.start_ns)  # it ended, or stalls, which `stalls` tells
        return self._row(replace(last, end_ns=end_ns), level, text)

    def _ended(self, last: Told, end_ns: int) -> Told:
        text = last.evidence[0].text if last.evidence else ""
        return self._row(replace(last, end_ns=end_ns), self._level_before(last), text)

    def _another(self, last: Told) -> Told | None:
        """What began while this one lasted: a job that was evenly slow and is much slower now, by somebody else.

        What grows by the same one's doing is the same trouble.
        """
        blocks = self.pace.take(self.pace.begin_B >= last.start_ns)
        found = jump(blocks.unit_s_B)
        if found is None:
            return None
        even, since = blocks.take(np.arange(len(blocks.end_B)) >= found.even), found.first - found.even
        even_ns, begin_ns = int(even.begin_B[0]), int(even.begin_B[since])
        if begin_ns - even_ns < EVEN_NS or not self._lasts(even, found.level, begin_ns):
            return None
        if not self._is_somebody_new(last.start_ns, even_ns, begin_ns):
            return None
        now_s = float(np.mean(even.unit_s_B[since:]))
        return self._new(
            _lost_from(even, since, found.level), found.level, _words(even.what, found.level.unit_s, now_s)
        )

    def _is_somebody_new(self, calm_ns: int, even_ns: int, begin_ns: int) -> bool:
        to_ns = self.window.to_ns
        before, now = (
            lateness(self.meetings, since_ns, until_ns, calm_ns)
            for since_ns, until_ns in ((even_ns, begin_ns), (begin_ns, to_ns))
        )
        return somebody_new(before, (begin_ns - even_ns) / S, now, (to_ns - begin_ns) / S)

    def _level_before(self, last: Told) -> Level | None:
        """What was usual before it began; of a slowdown longer than the look-back what was usual the day before.

        Of one that began while another lasted what was usual in that one.
        """
        earlier = next((each for each in self._told(Symptom.SLOW) if each.end_ns == last.start_ns), None)
        if earlier is not None:
            within_B = (self.pace.begin_B >= earlier.start_ns) & (self.pace.end_B <= last.start_ns)
            unit_s_B = self.pace.unit_s_B[within_B]
            within = level_of(unit_s_B[even_from(unit_s_B) :])
            if within is not None:
                return within
        spans = [*self._trouble(NOT_BASELINE), (last.start_ns, self.window.to_ns)]
        calm = self.pace.take(~inside(self.pace, spans))
        known = level_of(calm.unit_s_B[calm.end_B <= last.start_ns]) or level_of(calm.unit_s_B)
        if known is None and self.baseline_s is not None and self.pace.what == "step":
            return Level(self.baseline_s, SCATTER_MIN)
        return known

    def _back_ns(self, blocks: Pace, level: Level) -> int | None:
        """When it was as usual again, if it has been for `BACK_NS`."""
        ratio_B = blocks.unit_s_B / level.unit_s
        earlier = ratio_B[blocks.end_B <= self.window.to_ns - BACK_NS]
        excess = max(0.0, float(np.mean(earlier)) - 1) if len(earlier) else 0.0
        slow = np.flatnonzero(ratio_B > level.slow_ratio(excess))
        since_ns = int(blocks.end_B[slow[-1]]) if len(slow) else int(blocks.begin_B[0])
        after = ratio_B[slow[-1] + 1 :] if len(slow) else ratio_B
        if len(after) < BACK_BLOCKS or self.window.to_ns - since_ns < BACK_NS:
            return None
        losing = [each for each in self._ledger_windows() if each.share >= LOST_SHARE_MIN + LOSING_SHARE * excess]
        if losing and losing[-1].begin_ns > since_ns:
            since_ns = losing[-1].end_ns  # steps as short as they were, and still time was lost
            if self.window.to_ns - since_ns < BACK_NS:
                return None
        return since_ns if float(np.mean(after)) <= level.back_ratio(excess) else None

    # --- rows -----------------------------------------------------------------------------------------------------

    def _row(self, told: Told, level: Level | None, text: str) -> Told:
        until_ns = self.window.to_ns if told.end_ns is None else max(told.end_ns, told.start_ns)
        gpus = self.places.gpus(len(self.calls.ranks()))
        blocks = self.pace.take((self.pace.end_B > told.start_ns) & (self.pace.begin_B < until_ns))
        lost_s = _lost_s(blocks, level) if level is not None else 0.0
        ledger = lost_since(self.ledger, told.start_ns, min(until_ns + WINDOW_NS, self.window.to_ns), self.window.job)
        oldest_ns = self.window.from_ns - STEPS_NS + WINDOW_NS
        lost = lost_s * gpus if told.start_ns > oldest_ns else max(told.lost_gpu_seconds, lost_s * gpus)
        lost = lost if lost > 0 else max(ledger.gpu_seconds, told.lost_gpu_seconds)
        since_ns = max(told.start_ns, ledger.until_ns)
        rest = blocks.take(blocks.end_B > since_ns)
        rest_s = _lost_s(rest, level) if level is not None else 0.0
        late = lateness(self.meetings, since_ns, until_ns, told.start_ns)
        phases = phases_since(self.step, told.start_ns, self.window.to_ns)
        units = int(rest.count_B.sum())
        blamed = merged(
            ledger, first_blame(late, phases, rest_s, gpus, units, told.start_ns, self.window.job), told.start_ns
        )
        whole = late if since_ns == told.start_ns else lateness(self.meetings, told.start_ns, until_ns, told.start_ns)
        blamed = dated(blamed, whole, self.ledger, told.start_ns, until_ns)
        held = max(until_ns - told.start_ns, 1) / S * gpus
        said = Evidence("symptom", told.entity, str(Symptom.SLOW), told.start_ns, self.bound_ns, text)
        missing = None if blamed else ledger.unknown or "collectives"
        return replace(
            told, bound_ns=self.bound_ns, lost_gpu_seconds=lost, lost_share=min(lost / held, 1.0), blamed=blamed,
            missing=missing, evidence=(said,),
        )  # fmt: skip


def _is_worth_telling(lost_s: float, share: float, most_s: float, rank_s: float, chance: float | None) -> bool:
    """Whether so much was lost, of it `most_s` to one owner and `rank_s` to one rank, that it is no noise.

    `chance`: what the job loses by chance, s; None: not known.
    """
    clear = most_s >= OWNER_SHARE * lost_s or share >= SHARE_CLEAR
    if chance is None:
        return lost_s >= (LOST_S_MIN if clear else LOST_S_NOBODYS)
    least_s, most_needed_s = CLEAR_S if clear else NOBODYS_S
    if rank_s >= OWNER_SHARE * lost_s:
        least_s, most_needed_s = RANKS_S
    return lost_s >= min(max(chance, least_s), most_needed_s)


def _lost_from(pace: Pace, place: int, level: Level) -> int:
    """The first second that was lost: when the first slow block should have been over."""
    begin_ns, end_ns = int(pace.begin_B[place]), int(pace.end_B[place])
    return min(begin_ns + round(level.unit_s * int(pace.count_B[place]) * S), end_ns)


def _share(pace: Pace, level: Level) -> float:
    """Share of the blocks' time that was lost."""
    whole_s = float(pace.length_B.sum()) / S
    return _lost_s(pace, level) / whole_s if whole_s > 0 else 0.0


def _lost_s(pace: Pace, level: Level) -> float:
    """What blocks took beyond the usual, s; what was shorter counts against it."""
    return max(0.0, float(pace.length_B.sum()) / S - level.unit_s * float(pace.count_B.sum()))


def _pause_s(pace: Pace, level: Level) -> float:
    """What one block lost that lost `PAUSE_TIMES` as much as any other, s; 0: there is none such."""
    lost_B = np.sort(pace.length_B / S - level.unit_s * pace.count_B)
    if len(lost_B) < 2 or lost_B[-1] <= PAUSE_TIMES * max(lost_B[-2], 0.0):
        return 0.0
    return float(lost_B[-1])


def _sound(value: float | None) -> float:
    return value if value is not None and 0 <= value < 1e300 else 0.0


def _words(what: str, baseline_s: float, now_s: float) -> str:
    unit = {"step": "a step", "collective": "one collective to the next"}.get(what, "a unit")
    return f"{unit} takes {now_s:.3g} s and took {baseline_s:.3g} s before ({100 * (now_s / baseline_s - 1):+.0f} %)"
