"""How far the data of each job has come, by the word of those who send it. Pure: the caller brings the time.

    watermark rows ──> Watermarks ──> of_job: no window of the job that ends later is complete yet
                                 └──> senders: who is late, who is not heard any more

A window is judged when the data of those concerned has come, not when the clock says so: what is late is not silence.
Source: Akidau et al., "The Dataflow Model" (VLDB 2015), section 2.3; the watermark is each sender's own word.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from leadline.model.units import S
from leadline.runner.clock.coarse import Clock, CoarseClocks, less_way

LATE_NS = 5 * S
"""Data that is farther behind makes its sender late. An agent on default settings is 1 s behind (a look each 0.5 s,
0.3 s until it is stored), 2 s on a busy host, 3 s in a large fleet (a look each 2 s, a second until it is stored)."""
LOST_NS = 15 * S
"""A sender that was not heard for so long is lost. It says something each 0.5 s while ranks run on its host (2 s in a
large fleet, `wire.ring.pace`), each 5 s otherwise, and again 10 s later at most where that failed."""
GIVE_UP_NS = 600 * S
"""Nobody waits longer for a sender that is lost: by then its ranks are out of every look-back of what judges jobs
(120 s), so that they count as not known and not as missing."""
WRITTEN_NS = S // 10
"""A rank takes the time of a record before it writes it: what it was about to write when it was put aside by the kernel
may be so much older than the sender's word."""
SERVER = "server"
"""What the clock of the server is called in its own rows."""
PAIRS_MAX = 100_000  # (job, sender), 300 bytes each; the one heard longest ago makes room

OPEN, ENDED = "open", "ended"
COLUMNS = ("tenant", "cluster", "host", "clock", "reported_ns", "to_ns", "sender", "job", "ranks", "state",
           "took_ns")  # fmt: skip


class Job(NamedTuple):
    """A job; the part of an analysis that judges jobs."""

    tenant: str
    cluster: str
    job: str


class Sender(NamedTuple):
    """Who sends of a host."""

    tenant: str
    cluster: str
    host: str
    name: str  # agent


@dataclass(slots=True)
class _Said:
    """The newest word of one sender on one job; times of the host's clock but `heard_ns`, which is ours."""

    clock: str
    reported_ns: int
    to_ns: int
    ranks: int
    ended: bool
    heard_ns: int
    took_ns: int  # how long the word before it took


@dataclass(frozen=True, slots=True)
class SenderState:
    """How one sender is. `jobs`: how many ranks of which job run on its host; times of our clock, but `to_ns`."""

    sender: Sender
    state: str  # ok, late, lost, ended
    behind_s: float  # how old the newest data is of which nothing is missing
    heard_s: float  # since it was heard
    clock_off_s: float  # host clock minus ours when it was heard, less what requests take; right to within a second
    to_ns: int
    heard_ns: int
    jobs: Mapping[str, int]


class Watermarks:
    """The newest word of every sender. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clocks = CoarseClocks()
        self._of: dict[Job, dict[Sender, _Said]] = {}
        self._pairs = 0

    def take(self, rows: pa.Table, now_ns: int, *, fresh: bool = True) -> None:
        """Hear of rows of `watermark`, stored at `now_ns`. What is older than what is known changes nothing. `fresh`:
        they were said just now, so that they tell of the clocks of their hosts."""
        clocks: dict[Clock, tuple[int, int]] = {}
        with self._lock:
            for row in rows.select([name for name in COLUMNS if name in rows.column_names]).to_pylist():
                self._take(row, now_ns)
                clock = Clock(row["tenant"], row["cluster"], row["host"], row["clock"])
                word = row["reported_ns"], row.get("took_ns") or 0
                clocks[clock] = max(clocks.get(clock, word), word)
            for clock, (reported_ns, took_ns) in clocks.items() if fresh else ():
                self._clocks.heard(clock, reported_ns, now_ns, took_ns)

    def clock_fits(self) -> list[dict[str, Any]]:
        """New rows of `clock_fit`, of clocks that are plainly wrong."""
        with self._lock:
            return self._clocks.fits()

    def clock_stepped(self, now_ns: int) -> None:
        """Our clock was set: nobody was heard later than now."""
        with self._lock:
            self._clocks.clock_stepped()
            for said in self._of.values():
                for each in said.values():
                    each.heard_ns = min(each.heard_ns, now_ns)

    def _take(self, row: Mapping[str, Any], now_ns: int) -> None:
        job = Job(row["tenant"], row["cluster"], row["job"] or "")
        sender = Sender(row["tenant"], row["cluster"], row["host"], row["sender"])
        said = self._of.setdefault(job, {}).get(sender)
        if said is None:
            self._make_room()
            self._pairs += 1
        elif said.clock == row["clock"] and row["reported_ns"] < said.reported_ns:
            return
        same = said is not None and said.clock == row["clock"] and not said.ended
        to_ns = max(said.to_ns, row["to_ns"]) if same and said is not None else row["to_ns"]
        self._of.setdefault(job, {})[sender] = _Said(
            row["clock"],
            row["reported_ns"],
            to_ns,
            row["ranks"] or 0,
            row["state"] == ENDED,
            now_ns,
            row.get("took_ns") or 0,
        )

    def _make_room(self) -> None:
        if self._pairs < PAIRS_MAX:
            return
        job, sender = min(
            ((job, sender) for job, said in self._of.items() for sender in said),
            key=lambda pair: self._of[pair[0]][pair[1]].heard_ns,
        )
        self._drop(job, sender)

    def _drop(self, job: Job, sender: Sender) -> None:
        del self._of[job][sender]
        self._pairs -= 1
        if not self._of[job]:
            del self._of[job]

    def of_job(self, job: Job, now_ns: int) -> int | None:
        """Up to when all data of a job is there; None: nobody says (any more) how far it has come."""
        with self._lock:
            return self._least(self._of.get(job, {}), now_ns)

    def all(self, now_ns: int) -> dict[Job, int]:
        """The same of every job of which somebody says so."""
        with self._lock:
            found = {job: self._least(said, now_ns) for job, said in self._of.items() if job.job}
        return {job: to_ns for job, to_ns in found.items() if to_ns is not None}

    def _least(self, said: Mapping[Sender, _Said], now_ns: int) -> int | None:
        """In our time: of a clock that is plainly wrong, to within the bound of its fit."""
        waited = (
            (sender, each) for sender, each in said.items() if not each.ended and now_ns - each.heard_ns <= GIVE_UP_NS
        )
        least = min((each.to_ns - self._clocks.offset_ns(Clock(*sender[:3], each.clock)) for sender, each in waited),
                    default=None)  # fmt: skip
        return None if least is None else least - WRITTEN_NS

    def jobs_on(self, tenant: str, cluster: str, host: str) -> list[Job]:
        """Jobs with ranks on a host, by the word of who sends of it."""
        with self._lock:
            return [
                job
                for job, said in self._of.items()
                if job.job and job[:2] == (tenant, cluster) and any(sender.host == host for sender in said)
            ]

    def hosts(self, now_ns: int) -> int:
        """How many hosts there are of which somebody was heard lately."""
        with self._lock:
            said = [each for job, some in self._of.items() if not job.job for each in some.values()]
        return sum(not each.ended and now_ns - each.heard_ns <= LOST_NS for each in said)

    def has_ended(self, job: Job) -> bool:
        """Whether every sender of a job says that its ranks are gone and all of them is stored."""
        with self._lock:
            said = self._of.get(job, {})
            return bool(said) and all(each.ended for each in said.values())

    def over(self, tenant: str) -> tuple[list[str], int] | None:
        """The jobs of a tenant, and when the last of them was said to be over (our clock); None while one runs, or
        where there is none."""
        with self._lock:
            said = {job.job: each.values() for job, each in self._of.items() if job.job and job.tenant == tenant}
        every = [each for some in said.values() for each in some]
        if not every or not all(each.ended for each in every):
            return None
        return sorted(said), max(each.heard_ns for each in every)

    def senders(self, now_ns: int) -> list[SenderState]:
        """How each sender is, the worst first."""
        with self._lock:
            by_sender: dict[Sender, dict[str, _Said]] = {}
            for job, said in self._of.items():
                for sender, each in said.items():
                    by_sender.setdefault(sender, {})[job.job] = each
            found = [_state(sender, said, now_ns) for sender, said in by_sender.items()]
        order = ("lost", "late", "ok", "ended")
        return sorted(found, key=lambda each: (order.index(each.state), -each.behind_s, each.sender))


def _state(sender: Sender, said: Mapping[str, _Said], now_ns: int) -> SenderState:
    newest = max(said.values(), key=lambda each: each.heard_ns)
    lasting = {job: each for job, each in said.items() if not each.ended}
    off_ns = less_way(newest.reported_ns - newest.heard_ns, newest.took_ns)
    to_ns = min((each.to_ns for each in lasting.values()), default=newest.to_ns)
    behind_ns = max(0, now_ns + off_ns - to_ns)
    silent_ns = now_ns - newest.heard_ns
    state = "ok"
    if not lasting:
        state = "ended"
    elif silent_ns > LOST_NS:
        state = "lost"
    elif behind_ns > LATE_NS:
        state = "late"
    jobs = {job: said[job].ranks for job in sorted(lasting) if job}
    return SenderState(sender, state, behind_ns / S, silent_ns / S, off_ns / S, to_ns, newest.heard_ns, jobs)
