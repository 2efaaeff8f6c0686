"""How far this host's data has come, told to the server: rows of `watermark`. The core is pure, the reporter a thread.

A watermark says: everything that I saw up to then is stored. By it the server tells a rank that is silent from one
whose data is late. It is not spooled, because only the newest matters: one that could not be told is told anew, with
what is true by then. A job has a row for as long as ranks of it write here, and a last one, `ended`, when all that
they wrote is stored; the host has one always, with no job, and that is `ended` once the agent was told to stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from leadline.host import rows
from leadline.host.delivery import Delivery, Verdict, judge
from leadline.host.found import Watermark
from leadline.host.frames import Item
from leadline.host.post import Poster

PATH = "/api/v1/rows/watermark"
SENDER = "agent"
OPEN, ENDED = "open", "ended"
JOBS_MAX = 1024  # as many as there are rings; one more is an error of ours
STOP_S_MAX = 1.0  # longest time at stop for the last word; without it the next agent says it


class Gone(NamedTuple):
    """A job whose ranks here have ended: at the look of `seen_ns`, with so many ranks."""

    seen_ns: int
    ranks: int


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of this host: how many ranks of each write here, and which have ended and were not told to have."""

    here: Mapping[str, int] = field(default_factory=dict)
    gone: Mapping[str, Gone] = field(default_factory=dict)

    def looked(self, found: Mapping[str, int], seen_ns: int) -> Jobs:
        """After a look of that time, which found these."""
        gone = {job: Gone(seen_ns, ranks) for job, ranks in self.here.items()}
        return Jobs(dict(found), {job: each for job, each in {**gone, **self.gone}.items() if job not in found})

    def told(self, told: Mapping[str, Gone]) -> Jobs:
        """After the server knows that these have ended."""
        return replace(self, gone={job: each for job, each in self.gone.items() if told.get(job) != each})

    def over(self, to_ns: int) -> dict[str, Gone]:
        """Those that have ended and whose data is stored."""
        return {job: each for job, each in self.gone.items() if each.seen_ns <= to_ns}

    def rows(self, to_ns: int, now_ns: int, *, leaving: bool = False, took_ns: int | None = None) -> list[Watermark]:
        """What is to be told: all that was seen up to `to_ns` is stored. `leaving`: the agent is told to end; where no
        job runs on, its silence from then on is no loss of telemetry."""
        over = self.over(to_ns)
        late = {job: each.ranks for job, each in self.gone.items() if job not in over}
        is_over = leaving and not self.here and not late
        found = [("", sum(self.here.values()), ENDED if is_over else OPEN)]
        found += [(job, ranks, OPEN) for job, ranks in {**self.here, **late}.items()]
        found += [(job, each.ranks, ENDED) for job, each in over.items()]
        told = found[: JOBS_MAX + 1]
        return [Watermark(now_ns, to_ns, SENDER, job, ranks, state, took_ns) for job, ranks, state in told]


class Kept:
    """The jobs of this host across lives of the agent, in a small file: one that is gone is still to be told of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: dict[str, int] | None = None

    def read(self) -> dict[str, int]:
        """Ranks by job, as they were kept; none if there is no such file, or it is spoilt."""
        try:
            found = json.loads(self._path.read_text())
            return {str(job): int(ranks) for job, ranks in list(found.items())[:JOBS_MAX]}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def keep(self, jobs: Jobs) -> None:
        """Write them, if they are others than before. On a full disk an end may be left untold by the next agent."""
        now = {**{job: each.ranks for job, each in jobs.gone.items()}, **jobs.here}
        if now == self._last:
            return
        self._last = now
        beside = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            beside.write_text(json.dumps(now))
            os.replace(beside, self._path)


class Reporter:
    """Tells the server how far the data has come. `delivered()` is up to when all is stored; 0: not known."""

    def __init__(
        self,
        post: Poster,
        delivered: Callable[[], int],
        row_of: Callable[[list[Watermark]], bytes],
        kept: Kept,
        now_ns: Callable[[], int],
        *,
        busy_s: float,
        idle_s: float,
        wait_s_max: float,
    ) -> None:
        """`busy_s`: shortest time between two words while ranks are here; `idle_s`: without, and without any news."""
        self._post = post
        self._delivered = delivered
        self._row_of = row_of
        self._kept = kept
        self._now_ns = now_ns
        self._busy_s, self._idle_s, self._wait_s_max = busy_s, idle_s, wait_s_max
        self._changed = threading.Condition()
        self._jobs = Jobs(gone={job: Gone(0, ranks) for job, ranks in kept.read().items()})
        self._has_looked = False
        self._told_ns = 0
        self._took_ns: int | None = None  # the last request
        self._state = Delivery()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="watermark", daemon=True)

    def start(self) -> None:
        """Begin to tell."""
        self._thread.start()

    def looked(self, jobs: Mapping[str, int] | None, seen_ns: int) -> None:
        """The rings were looked at; `seen_ns` is when the look began. None: nobody looks at rings here."""
        with self._changed:
            if jobs is None:
                self._has_looked, self._jobs = True, Jobs()
                self._changed.notify()
                return
            if not self._has_looked:  # those of an earlier agent are here until this look says otherwise
                self._jobs = Jobs(gone={job: Gone(seen_ns, each.ranks) for job, each in self._jobs.gone.items()})
            self._has_looked = True
            self._jobs = self._jobs.looked(jobs, seen_ns)
            self._kept.keep(self._jobs)
            self._changed.notify()

    def wake(self) -> None:
        """Something was delivered."""
        with self._changed:
            self._changed.notify()

    def stop(self) -> None:
        """Say a last word, and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)

    def _run(self) -> None:
        due = time.monotonic()
        again = due  # when the same is said once more, so that the server knows how far behind we are
        while True:
            with self._changed:
                to_ns = self._delivered()
                now = time.monotonic()
                while not self._stopping and (now < due or not (self._has_news(to_ns) or now >= again)):
                    self._changed.wait((due if now < due else again) - now)
                    to_ns, now = self._delivered(), time.monotonic()
                jobs, stopping = self._jobs, self._stopping
            if not stopping or not self._state.failures:
                self._tell(jobs, to_ns, leaving=stopping)
            if stopping:
                self._post.close()
                return
            busy = self._busy_s if jobs.here or jobs.gone else self._idle_s
            due = time.monotonic() + max(busy, self._state.wait_s)
            again = time.monotonic() + max(self._idle_s, self._state.wait_s)

    def _has_news(self, to_ns: int) -> bool:
        return bool(to_ns) and (to_ns != self._told_ns or bool(self._jobs.over(to_ns)))

    def _tell(self, jobs: Jobs, to_ns: int, *, leaving: bool) -> None:
        if not to_ns or not self._has_looked:
            return
        told = jobs.rows(to_ns, self._now_ns(), leaving=leaving, took_ns=self._took_ns)
        item = Item(PATH, rows.CONTENT_TYPE, self._row_of(told), os.urandom(16), len(told))
        began_ns = time.monotonic_ns()
        outcome = self._post(item)
        self._took_ns = time.monotonic_ns() - began_ns
        self._state, verdict = judge(self._state, outcome, self._wait_s_max, random.random())
        if verdict is Verdict.POISON:  # a server that does not know the table yet; it may tomorrow
            self._state = Delivery(1, self._wait_s_max, self._state.words)
        if verdict is not Verdict.STORED:
            return
        with self._changed:
            self._told_ns = to_ns
            self._jobs = self._jobs.told(jobs.over(to_ns))
            self._kept.keep(self._jobs)
