"""The failures that are known while a window is read: which are open, which began, what followed from which.

candidate ──┐ (XID, OOM kill, ...)
alone ──────┼──> failure: one row           exits of the same job within JOB_DIES_NS, and the same kind of thing
exit ───────┘                               within MERGE_NS, follow from it and make no row of their own
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from leadline.analysis.failures.heard import Heard
from leadline.analysis.failures.kinds import OF_GPUS, Exit, Meaning
from leadline.analysis.failures.parts import Parts
from leadline.model.accounts import FailureClass
from leadline.model.ids import kind_of
from leadline.model.units import S

MERGE_NS = 5 * S  # identical errors within it are one (Delta study); ends of one job within it are of one cause
BEFORE_NS = 60 * S  # an error so long before a job dies may be why: a collective notices a dead peer at once or not
JOB_DIES_NS = 1800 * S  # the last rank gives up so long after the first: gloo's default time-out, NCCL's is 600 s
PAUSE_NS = 60 * S  # without steps, so that a host in maintenance was away
WORDS_MAX = 240


class Happening(NamedTuple):
    """One event, times in cluster time."""

    time_ns: int
    entity: str
    kind: str
    code: str
    severity: str
    message: str
    reason: str
    host: str
    tenant: str


Key = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True)
class Failure:
    """One row of `failure`, while it may still change."""

    tenant: str
    entity: str
    kind: str
    of: FailureClass
    job: str | None
    gpus: int | None
    start_ns: int
    end_ns: int | None
    evidence: str

    @property
    def key(self) -> Key:
        """What makes two rows the same."""
        return self.tenant, self.entity, self.start_ns, self.kind


class Book:
    """Open failures by key. What the window says anew, or once more, is in `changed`."""

    def __init__(self, parts: Parts, heard: Heard, open_rows: Iterable[tuple[Failure, bool]]) -> None:
        """`open_rows`: those of earlier windows; true: this window has said something of it before, and does again."""
        self._parts, self._heard = parts, heard
        self._open: dict[Key, Failure] = {}
        self.changed: dict[Key, Failure] = {}
        # A rack that fails has thousands: all that is asked of each event is looked up, never searched for.
        self._of: dict[str, set[Key]] = defaultdict(set)  # the open ones of an entity
        self._backs: list[tuple[int, Key]] = []  # a heap: when open ones were back, as steps say
        self._stand: dict[tuple[str, str], tuple[set[str], set[str]]] = {}  # ranks and jobs on (entity, told by)
        self._candidates: dict[tuple[object, ...], list[tuple[Happening, Meaning]]] = defaultdict(list)
        self._codes: dict[tuple[str, str], list[Key]] = defaultdict(list)  # of GPU errors: what merges
        for failure, again in open_rows:
            self._keep(failure)
            if again:
                self.changed[failure.key] = failure

    def _put(self, failure: Failure) -> None:
        self._keep(failure)
        self.changed[failure.key] = failure

    def _keep(self, failure: Failure) -> None:
        self._open[failure.key] = failure
        self._of[failure.entity].add(failure.key)
        back_ns = self._back_ns(failure)
        if back_ns is not None:
            heapq.heappush(self._backs, (back_ns, failure.key))

    # --- what happens -------------------------------------------------------------------------------------------

    def candidate(self, event: Happening, meaning: Meaning) -> None:
        """An event that is a failure only if a job dies of it. They come in order of time."""
        what = (event.entity, event.kind, event.code, event.host, meaning)
        self._candidates[what].append((event, meaning))

    def alone(self, event: Happening, meaning: Meaning) -> None:
        """An event that is a failure by itself, unless its entity is out already, or the same befell a neighbour."""
        self.settle(event.time_ns)
        if self._is_out(event.entity, event.time_ns):
            return
        place = self._parts.job(event.entity) or self._job_on(event) or self._parts.host(event.entity, event.host)
        code = (f"{event.kind} {event.code}", place)
        if meaning.of is FailureClass.GPU and event.code:
            # Found in order of time: the last that is open is the nearest.
            last = next((key for key in reversed(self._codes[code]) if key in self._open), None)
            # A GPU that is dead is out by itself until it is reset, however many died with it.
            is_other = kind_of(event.entity) == "gpu" and last is not None and last[1] != event.entity
            if last is not None and abs(event.time_ns - last[2]) <= MERGE_NS and not is_other:
                return
        failure = self._new(event, event.kind, meaning.of)
        if event.kind == "process-stopped":  # its job waits for it from now on
            failure = self._stops(failure, self._parts.job(event.entity))
        self._codes[code].append(failure.key)
        self._put(failure)

    def back(self, event: Happening, was: str) -> None:
        """An event that says that something is back."""
        # Back at the time at which it went: short, for times of events may be those of their batch.
        for key in sorted(self._of[event.entity]):
            failure = self._open[key]
            if failure.kind == was and failure.start_ns <= event.time_ns:
                self._close(failure, event.time_ns)

    def gpu_back(self, gpu: str, at_ns: int) -> None:
        """A GPU that was dead works again."""
        for key in sorted(self._of[gpu]):
            failure = self._open[key]
            if failure.kind in OF_GPUS and failure.of is FailureClass.GPU and failure.start_ns <= at_ns:
                self._close(failure, at_ns)

    def driver_loaded(self, host: str, at_ns: int) -> None:
        """The driver of a host's GPUs was loaded anew: none of them is dead any more."""
        for gpu in sorted({key[1] for key in self._open if kind_of(key[1]) == "gpu"}):
            if self._parts.host(gpu) == host:
                self.gpu_back(gpu, at_ns)

    def silent(self, host: str, tenant: str, last_ns: int, job: str, words: str) -> None:
        """A host fell silent: a failure of the host from when it was last heard."""
        if self._is_out(f"host:{host}", last_ns):
            return
        gpus = self._parts.gpus_held(job)
        self._put(Failure(tenant, f"host:{host}", "silent", FailureClass.HOST, job, gpus, last_ns, None, words))

    def died(self, job: str, exits: list[tuple[Happening, Exit]]) -> None:
        """Processes of a job ended, all within MERGE_NS, in order of time: of one cause, which is looked for."""
        first, told = min(exits, key=lambda each: (each[1].telling, each[0]))
        self.settle(first.time_ns)
        follows = f"; {len(exits) - 1} more ends of {job} followed" if len(exits) > 1 else ""
        if any(each.job == job and first.time_ns - each.start_ns <= JOB_DIES_NS for each in self._open.values()):
            return
        if not told.sure:
            asked = told.of is FailureClass.OPERATOR
            known = self._stood_on(job, first, asked)
            if known is not None:
                words = _joined(known.evidence, f"then: {first.message}{follows}")
                self._put(replace(self._stops(known, job), evidence=words))
                return
            cause = self._best(job, first, asked)
            if cause is not None:
                event, meaning = cause
                words = _joined(event.message or event.kind, f"then: {first.message}{follows}")
                self._put(self._stops(replace(self._new(event, event.kind, meaning.of), evidence=words), job))
                return
        failure = self._stops(self._new(first, told.kind, told.of), job)
        self._put(replace(failure, evidence=_joined(failure.evidence, follows.lstrip("; "))))

    def settle(self, until_ns: int) -> None:
        """Close what was back in service by a time, as steps and rows say."""
        while self._backs and self._backs[0][0] < until_ns:
            back_ns, key = heapq.heappop(self._backs)
            failure = self._open.get(key)
            if failure is not None and self._back_ns(failure) == back_ns:
                self._close(failure, back_ns)

    # --- what is looked for ----------------------------------------------------------------------------------------

    def _is_out(self, entity: str, at_ns: int) -> bool:
        return any(self._open[key].start_ns <= at_ns for key in self._of[entity])

    def _close(self, failure: Failure, at_ns: int) -> None:
        del self._open[failure.key]
        self._of[failure.entity].discard(failure.key)
        self.changed[failure.key] = replace(failure, end_ns=at_ns)

    def _new(self, event: Happening, kind: str, of: FailureClass) -> Failure:
        words = (event.message or f"{event.kind} {event.code}").strip()[:WORDS_MAX]
        gpus = self._parts.gpus_of_part(event.entity)
        return Failure(event.tenant, event.entity, kind, of, None, gpus, event.time_ns, None, words)

    def _stops(self, failure: Failure, job: str) -> Failure:
        gpus = self._parts.gpus_held(job)
        return replace(failure, job=job or None, gpus=failure.gpus if gpus is None else gpus)

    def _job_on(self, event: Happening) -> str:
        jobs = {self._parts.job(rank) for rank in self._parts.ranks(event.entity, event.host)}
        return min(jobs) if len(jobs) == 1 else ""

    def _near(self, job: str, entity: str, told_by: str, end: Happening) -> int | None:
        """0 where the process that ended stood on an entity, 1 where another rank of its job did; else None."""
        ranks, jobs = self._on(entity, told_by)
        if end.entity in ranks or (told_by and told_by == end.host):
            return 0
        return 1 if job in jobs else None

    def _on(self, entity: str, told_by: str) -> tuple[set[str], set[str]]:
        """Ranks and jobs that stand on an entity."""
        key = (entity, told_by)
        if key not in self._stand:
            ranks = self._parts.ranks(entity, told_by)
            self._stand[key] = ranks, {self._parts.job(rank) for rank in ranks}
        return self._stand[key]

    def _stood_on(self, job: str, end: Happening, asked: bool) -> Failure | None:
        """The open failure that the job's end follows from: of a part that its ranks stand on."""
        found = []
        for failure in self._open.values():
            near = self._near(job, failure.entity, self._parts.host(failure.entity), end)
            since_ns = end.time_ns - failure.start_ns
            if failure.job is None and near is not None and -MERGE_NS <= since_ns <= JOB_DIES_NS:
                if asked and failure.of is not FailureClass.OPERATOR and (near or failure.of is FailureClass.NETWORK):
                    continue  # who stops a job asks for it, whatever flaps elsewhere meanwhile
                found.append((near, -failure.start_ns, failure.key))
        return self._open[min(found)[2]] if found else None

    def _best(self, job: str, end: Happening, asked: bool) -> tuple[Happening, Meaning] | None:
        """The event that the job's end follows from: what befell the very process, then hardware, then the latest."""
        found = []
        for alike in self._candidates.values():  # one line of a log may come a hundred thousand times
            event, meaning = alike[0]
            near = self._near(job, event.entity, event.host, end)
            if near is None or (asked and meaning.of is not FailureClass.OPERATOR):
                continue
            if meaning.of is FailureClass.MEMORY and event.kind == "oom-kill" and near:
                continue  # the kill of some process on another host is not this one's end
            place = bisect_right(alike, end.time_ns + MERGE_NS, key=lambda each: each[0].time_ns)
            if place and end.time_ns - alike[place - 1][0].time_ns <= BEFORE_NS:
                last_ns = alike[place - 1][0].time_ns
                place = bisect_left(alike, last_ns, key=lambda each: each[0].time_ns)  # of equals the first
                found.append((near, meaning.of is FailureClass.SOFTWARE, -last_ns, alike[place]))
        return min(found, key=lambda each: (*each[:3], each[3][0]))[3] if found else None

    def _back_ns(self, failure: Failure) -> int | None:
        """When a part was back, as steps say; None: not yet, or only an event can say."""
        kind = kind_of(failure.entity)
        if failure.kind == "link-down":
            return None
        if failure.kind == "silent":
            return self._heard.hosts.after(self._parts.host(failure.entity), failure.start_ns)
        if kind == "gpu" and failure.kind in OF_GPUS and failure.of is FailureClass.GPU:
            return self._used_again_ns(failure)
        ranks = self._parts.ranks(failure.entity)
        if kind not in ("rank", "job", "gpu", "host", "port") and failure.job:
            ranks = self._parts.ranks(f"job:{failure.job}")
        if failure.kind == "maintenance":  # a host is drained while its jobs still run: back is who was away
            begins = [self._heard.begins.after_pause(rank, failure.start_ns, PAUSE_NS) for rank in sorted(ranks)]
        else:
            begins = [self._heard.begins.after(rank, failure.start_ns) for rank in sorted(ranks)]
        return min((begin for begin in begins if begin is not None), default=None)

    def _used_again_ns(self, failure: Failure) -> int | None:
        """When a rank began a step on a GPU that was dead: one that is there now, not one that was and went elsewhere.

        Of a rank that was there before, only what it begins a while after: clocks differ.
        """
        found = [
            self._heard.begins.after(rank, max(since_ns, failure.start_ns + MERGE_NS))
            for rank, since_ns in self._parts.put_on(failure.entity).items()
        ]
        return min((begin for begin in found if begin is not None), default=None)


def _joined(first: str, second: str) -> str:
    """Two parts of the evidence, the second once."""
    if not second or second in first:
        return first[: 2 * WORDS_MAX]
    return f"{first}; {second}"[: 2 * WORDS_MAX]
