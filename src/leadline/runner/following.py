"""How far each analysis follows the data of each job: what waits, what is held back, what is judged again.

    watermarks: up to when all data of a job is there ──> waits, holds its windows, lets them go in order
    rows that came late in spite of it               ──> set_back
    verdicts on a job that was behind                ──> who judged all jobs without them goes back

Not thread-safe: the runner calls it under its lock, and brings the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from leadline.analysis.spec import Part
from leadline.model.tables import Identity, Table
from leadline.model.tables.metrics import METRIC_SAMPLE
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.units import S
from leadline.runner.arrivals import Ints, Lateness, first_by_job
from leadline.runner.behind import Behind
from leadline.runner.calls.flights import Flight
from leadline.runner.lanes import Lane
from leadline.runner.watermarks import LATE_NS, Job
from leadline.runner.windows import Due, Why

# A window of all jobs waits so much longer than its grace for jobs whose data is nearly there: their agents are 1 s
# behind, and to judge them one by one as each comes would cost a load of rows for each.
TOGETHER_NS = S
# A window that takes no more of its length than this is judged as soon as it is closed, and again when steps and calls
# that began in it are over and told: to wait for them would cost it seconds. Where it takes more it waits, and is
# judged once. Source: judgement; with 64 hosts on two cores a window of 5 s of `anomaly` took 0.5 s and was judged 2 to
# 4 times, which made 0.34 cores of all analyses instead of 0.19 (bench.live, 2026-11-28).
CHEAP_SHARE = 0.05

# Where what closed so long ago is not judged yet, more closes than can be judged: now goes first, and that is judged
# when there is time. Source: judgement; a backlog of 90 s was caught up with in 31 s (evals.overload, 2026-11-28), and
# a machine that is busy for a minute shall not have verdicts out of order.
PUT_OFF_NS = 120 * S
# and it has to last for so long: what an agent sends after an outage is judged in order meanwhile, at the speed of a
# recording. Source: judgement.
PUT_OFF_AFTER_NS = 30 * S

JobsOn = Callable[[str, str, str], Iterable[Job]]


class Following:
    """The lanes of a runner that follows live data."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._of_jobs: dict[str, list[Lane]] = {}  # by table: who judges jobs and reads it without waiting
        self._far_back_ns: int | None = None  # since when more closes than is judged

    def begin(self) -> None:
        """From now on jobs are judged as far as their data has come. A recording's are not: there the time of each row
        says when it was known."""
        for lane in self._lanes:
            if lane.analysis.part is Part.JOB:
                lane.behind = Behind(lane.analysis.window_ns)
            elif any(read.table is METRIC_SAMPLE for read in lane.analysis.reads):
                lane.held_back, lane.over_later = Lateness(METRIC_SAMPLE), Lateness(STEP, COLLECTIVE)
        for lane in self._lanes:
            read_on = {read.table.name for read in lane.analysis.reads if not read.waits}
            if lane.behind is None:
                lane.fed_by = [
                    each
                    for each in self._lanes
                    if each.behind is not None and read_on & {table.name for table in each.analysis.writes}
                ]
                continue
            for read in lane.analysis.reads:
                if not read.waits and not read.valid and read.table.identity is not Identity.REVISION:
                    self._of_jobs.setdefault(read.table.name, []).append(lane)

    def reads(self, table: Table) -> bool:
        """Whether rows of a table that come late set jobs back."""
        return table.name in self._of_jobs

    def set_back(self, table: Table, rows: pa.Table, times_N: Ints, now_ns: int, jobs_on: JobsOn) -> None:
        """Have jobs judged again from the first of these rows on, if they were judged without it. `times_N`: when each
        row was known at the earliest, ns."""
        lanes = self._of_jobs[table.name]
        newest_ns = max(lane.read_to_ns for lane in lanes)
        late_N = times_N < newest_ns
        if not late_N.any():
            return
        rows, times_N = rows.filter(pa.array(late_N)), times_N[late_N]
        firsts = first_by_job(rows, times_N, jobs_on)
        for lane in lanes:
            assert lane.behind is not None
            schedule, flight = lane.schedule, lane.flight
            mine = firsts
            if schedule.asked:  # windows of the past that are still to come are judged with these rows
                left_N = ~np.logical_or.reduce([(begin <= times_N) & (times_N < end) for begin, end in schedule.spans])
                mine = first_by_job(rows.filter(pa.array(left_N)), times_N[left_N], jobs_on)
            for job, first_ns in mine.items():
                if flight is not None and first_ns < flight.due.end_ns and flight.wanted(job):
                    begin_ns = max(schedule.rhythm.begin(first_ns), schedule.oldest_ns(now_ns))
                    flight.missed[job] = min(flight.missed.get(job, begin_ns), begin_ns)
                if first_ns < lane.behind.judged_to_ns(job, schedule.judged_to_ns):
                    to_ns = max(schedule.rhythm.begin(first_ns), schedule.oldest_ns(now_ns))
                    if to_ns < schedule.judged_to_ns:
                        lane.behind.set_back(job, to_ns, now_ns)

    def told(self, lane: Lane, to_ns: int) -> None:
        """A lane has concluded something of a window that ends there: who has judged that time without it goes back."""
        for each in self._lanes if lane.behind is not None else ():
            asked = each.schedule.is_asked(each.schedule.rhythm.up(to_ns))  # it comes to that time by itself
            if lane in each.fed_by and each.read_to_ns >= to_ns and not asked:
                each.back_ns = to_ns - 1 if each.back_ns is None else min(each.back_ns, to_ns - 1)

    def put_off(self, now_ns: int, come: Mapping[Job, int], above: Sequence[Sequence[int]]) -> int:
        """Judge what closes now, and what closed before when there is time, if more closes than can be judged: all
        analyses at once, as after a start. What is told of the past then has later windows judged again as far as late
        rows have (`late_s`). `above`: by lane the places of those whose verdicts it reads. Returns: how many windows
        are put off."""
        if not any(self._is_far_back(lane, now_ns, come) for lane in self._lanes):
            self._far_back_ns = None
            return 0
        since_ns = now_ns if self._far_back_ns is None else min(self._far_back_ns, now_ns)
        self._far_back_ns = since_ns if now_ns - since_ns < PUT_OFF_AFTER_NS else None
        if self._far_back_ns is not None:
            return 0
        from_ns = []
        for lane in self._lanes:
            to_ns = lane.schedule.rhythm.closed(now_ns, None)
            behind_ns = lane.behind.put_off(come, to_ns) if lane.behind is not None else to_ns
            from_ns.append(min(lane.read_to_ns, behind_ns))
            lane.back_ns = None if lane.back_ns is None else min(lane.back_ns, to_ns)
        for _ in self._lanes:  # who reads verdicts of the past that are still to come judges it after them
            from_ns = [min([own, *(from_ns[at] for at in above[place])]) for place, own in enumerate(from_ns)]
        return sum(
            lane.schedule.put_off(begin_ns, lane.schedule.rhythm.closed(now_ns, None))
            for lane, begin_ns in zip(self._lanes, from_ns, strict=True)
        )

    def _is_far_back(self, lane: Lane, now_ns: int, come: Mapping[Job, int]) -> bool:
        """Whether all jobs, or half of them, wait to be judged on what closed long ago. One job whose agent was away
        for a while catches up in order: its turns take nothing from others."""
        schedule = lane.schedule
        before_ns = schedule.rhythm.closed(now_ns, None) - PUT_OFF_NS
        if lane.read_to_ns < before_ns:
            return True
        return lane.behind is not None and 2 * lane.behind.far_back(come, before_ns) > max(1, len(come))

    def waits(self, lane: Lane, end_ns: int, now_ns: int, come: Mapping[Job, int]) -> bool:
        """Whether a window that is closed by the clock waits a little: for data that is nearly there, for samples as
        late as they usually are, or for the jobs that this makes wait."""
        if lane.behind is not None:
            soon = now_ns - end_ns < lane.schedule.rhythm.grace_ns + TOGETHER_NS
            return soon and any(now_ns - LATE_NS < to_ns < end_ns for to_ns in come.values())
        for lateness in (lane.held_back, None if _is_cheap(lane) else lane.over_later):
            if lateness is not None and now_ns - end_ns < lateness.usual_ns(now_ns):
                return True  # else it is judged now and once more when they have come
        if now_ns - end_ns >= LATE_NS:
            return False  # where the machine is too slow somebody is always behind, and the others want to be told
        if lane.back_ns is not None and now_ns >= lane.back_after_ns:
            return True  # it goes back as soon as these have caught up
        for each in lane.fed_by:
            assert each.behind is not None
            first_ns = each.behind.first_ns()
            if each.schedule.judged_to_ns < end_ns or (first_ns is not None and first_ns < end_ns):
                return True
        return False

    def go_back(self, now_ns: int) -> None:
        """Have what judges all jobs judged again from where a late one shows symptoms; once it has caught up, and the
        farther back the less often: an eighth of the time at most is spent on it, at the speed of a recording."""
        for lane in self._lanes:
            if lane.back_ns is not None and now_ns >= lane.back_after_ns and lane.flight is None:
                lane.back_after_ns = now_ns + max(0, lane.schedule.judged_to_ns - lane.back_ns) // 8
                lane.schedule.set_back(lane.back_ns, now_ns)
                lane.back_ns = None

    def done(self, lane: Lane, flight: Flight, now_ns: int) -> None:
        """A window was judged. Jobs that rows came of meanwhile are judged on it again."""
        behind, due, others_ns = lane.behind, flight.due, lane.schedule.judged_to_ns
        if behind is None:
            return
        if due.why is Why.HELD:
            judged = [job for job in behind if flight.wanted(job) and job not in flight.missed]
            behind.done(due.end_ns, judged, others_ns)
        for job, to_ns in flight.missed.items():
            if to_ns < behind.judged_to_ns(job, others_ns):
                behind.set_back(job, to_ns, now_ns)

    def held(self, lane: Lane, now_ns: int, come: Mapping[Job, int]) -> Due | None:
        """The next window of jobs that are behind."""
        if not lane.behind:
            return None
        found = lane.behind.next(lane.schedule.judged_to_ns, now_ns, lambda job, end_ns: self._free(
            lane, job, end_ns, come
        ))  # fmt: skip
        return None if found is None else Due(Why.HELD, found[0])

    def _free(self, lane: Lane, job: Job, end_ns: int, come: Mapping[Job, int]) -> bool:
        """Whether a job can be judged on a window: its data has come, and what closed before it was judged."""
        to_ns = come.get(job)
        if to_ns is not None and to_ns < end_ns:
            return False
        own = end_ns + lane.schedule.rhythm.grace_ns, self._lanes.index(lane)
        for place, each in enumerate(self._lanes):
            next_ns = each.behind.oldest_ns(job) if each.behind is not None else None
            if next_ns is not None and (next_ns + each.schedule.rhythm.grace_ns, place) < own:
                return False
        return True

    def parts(self, lane: Lane, due: Due, now_ns: int, come: Mapping[Job, int]) -> Callable[[Job], bool]:
        """Which parts of a window are judged now. Jobs that cannot be are behind from here on."""
        behind = lane.behind
        if behind is None:
            return lambda _: True
        if due.why is Why.HELD:
            found = behind.next(lane.schedule.judged_to_ns, now_ns, lambda job, end_ns: self._free(
                lane, job, end_ns, come
            ))  # fmt: skip
            jobs = found[1] if found else frozenset()
            return lambda job: job in jobs
        if due.why is Why.LIVE:
            waiting = {job for each in self._lanes if each.behind is not None for job in each.behind}
            for job in {*come, *waiting}:
                if not self._free(lane, job, due.end_ns, come):
                    behind.hold(job, due.end_ns - lane.analysis.window_ns)
        later = frozenset(job for job in behind if behind.judged_to_ns(job, due.end_ns) < due.end_ns)
        return lambda job: job not in later


def _is_cheap(lane: Lane) -> bool:
    return (lane.last_took_s or 0.0) * S <= CHEAP_SHARE * lane.analysis.window_ns
