"""Jobs that an analysis judges later than the others: their data is late, or came after their windows were judged.

    Schedule: windows of all jobs as they close        judged_to ───────────────┐
    Behind:   windows of some jobs, each at its own pace     judged_to of a job ─┴─> catches up, in order

Pure: the caller brings the time and does the judging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from leadline.runner.watermarks import Job
from leadline.runner.windows import DEBOUNCE_NS, DEBOUNCE_NS_MAX


@dataclass(slots=True)
class _Waits:
    judged_to_ns: int
    not_before_ns: int = 0


class Behind:
    """The jobs of one analysis that are behind. Not thread-safe."""

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._jobs: dict[Job, _Waits] = {}
        self._again: dict[Job, tuple[int, int]] = {}  # job -> when it was set back last, how long it waited then

    def __contains__(self, job: Job) -> bool:
        return job in self._jobs

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def judged_to_ns(self, job: Job, others_ns: int) -> int:
        """Up to when a job is judged; `others_ns`: those that are not behind."""
        waits = self._jobs.get(job)
        return others_ns if waits is None else waits.judged_to_ns

    def hold(self, job: Job, judged_to_ns: int) -> None:
        """From here on its data is not complete: its windows wait."""
        self._jobs.setdefault(job, _Waits(judged_to_ns))

    def set_back(self, job: Job, to_ns: int, now_ns: int) -> None:
        """Rows came that its windows from this one on were judged without: they are judged again, after a wait for
        more of the same. Each time soon after another doubles the wait."""
        last_ns, waited_ns = self._again.get(job, (-DEBOUNCE_NS_MAX, 0))
        soon = 0 <= now_ns - last_ns < 2 * DEBOUNCE_NS_MAX
        wait_ns = min(2 * waited_ns, DEBOUNCE_NS_MAX) if soon and waited_ns else DEBOUNCE_NS
        waits = self._jobs.get(job)
        if waits is None:
            self._jobs[job] = _Waits(to_ns, now_ns + wait_ns)
            self._again[job] = (now_ns, wait_ns)
        else:
            waits.judged_to_ns = min(waits.judged_to_ns, to_ns)

    def next(self, others_ns: int, now_ns: int, free: Callable[[Job, int], bool]) -> tuple[int, frozenset[Job]] | None:
        """The oldest window that some of the jobs can be judged on, and which: `free(job, end_ns)` says whether all
        that is read there has come. `others_ns`: no farther than those that are not behind."""
        found: dict[int, set[Job]] = {}
        for job, waits in self._jobs.items():
            end_ns = waits.judged_to_ns + self._window_ns
            if end_ns <= others_ns and waits.not_before_ns <= now_ns and free(job, end_ns):
                found.setdefault(end_ns, set()).add(job)
        if not found:
            return None
        end_ns = min(found)
        return end_ns, frozenset(found[end_ns])

    def put_off(self, come: Mapping[Job, int], to_ns: int) -> int:
        """What can be judged by now is judged when there is time: nobody is farther back than its data (`come`; a job
        that is not in it has all of it). Returns: up to when all of them were judged, `to_ns` at most."""
        first_ns = to_ns
        for job, waits in list(self._jobs.items()):
            there_ns = min(come.get(job, to_ns), to_ns) // self._window_ns * self._window_ns
            if waits.judged_to_ns < there_ns:
                first_ns = min(first_ns, waits.judged_to_ns)
                waits.judged_to_ns = there_ns
            if waits.judged_to_ns >= to_ns:
                del self._jobs[job]
        return first_ns

    def far_back(self, come: Mapping[Job, int], before_ns: int) -> int:
        """How many jobs are judged no farther than that although their data has come farther."""
        return sum(
            waits.judged_to_ns < before_ns and come.get(job, before_ns) >= before_ns
            for job, waits in self._jobs.items()
        )

    def clock_stepped(self, others_ns: int, now_ns: int) -> None:
        """The clock was set: nobody is judged farther than those that are not behind, or waits for a time far ahead."""
        for waits in self._jobs.values():
            waits.judged_to_ns = min(waits.judged_to_ns, others_ns)
            waits.not_before_ns = min(waits.not_before_ns, now_ns + DEBOUNCE_NS_MAX)
        self._again = {}

    def done(self, end_ns: int, jobs: Iterable[Job], others_ns: int) -> None:
        """These jobs were judged on the window that ends there."""
        for job in jobs:
            waits = self._jobs.get(job)
            if waits is None or waits.judged_to_ns + self._window_ns != end_ns:  # set back meanwhile
                continue
            waits.judged_to_ns = end_ns
            if end_ns >= others_ns:
                del self._jobs[job]

    def oldest_ns(self, job: Job) -> int | None:
        """End of the next window of a job that is behind."""
        waits = self._jobs.get(job)
        return None if waits is None else waits.judged_to_ns + self._window_ns

    def first_ns(self) -> int | None:
        """Up to when all jobs are judged; None: none is behind."""
        return min((each.judged_to_ns for each in self._jobs.values()), default=None)
