"""How far the data of a simulated fleet has come, as the agents of its hosts would say: see the table `watermark`.

Said to a running Leadline only. A fleet comes there in chunks of minutes, and its jobs stop in the middle of a step
when the simulated time is over. Without this a late chunk is a job that stands still, and at the end all of them do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from leadline.simulator.targets import Run

OPEN, ENDED = "open", "ended"
SENDER = "simulator"


class Said(NamedTuple):
    """What is said of a job on a host. `to_ns` is true time."""

    job: str
    host: int
    to_ns: int
    state: str


@dataclass(slots=True)
class Watermarks:
    """Who has been told to be open. Pure: it says what is to be sent, the caller sends."""

    start_ns: int
    _until_ns: int = 0  # end of the chunk that was begun last
    _open: set[tuple[str, int]] = field(default_factory=set)  # (job, host)

    def begun(self, runs: Iterable[Run], at_s: float, end_s: float) -> list[Said]:
        """Before the rows of a chunk from `at_s` to `end_s`: the job of each new run is open from its begin on.

        Where an earlier run of the job is on the host still, nothing is said: its own rows have not come yet.
        """
        self._until_ns = self._ns(end_s)
        said = []
        for run in runs:
            to_ns = self._ns(max(run.start_s, at_s))
            for host in run.hosts.tolist():
                if (run.job, host) not in self._open:
                    said.append(self._say(run.job, host, to_ns, OPEN))
        return said

    def passed(self, runs: Sequence[Run], end_s: float) -> list[Said]:
        """After the rows of a chunk that ends at `end_s`: all of these runs is stored up to there."""
        last = {(run.job, host): run for run in sorted(runs, key=_begin) for host in run.hosts.tolist()}
        to_ns = self._ns(end_s)
        return [
            self._say(job, host, to_ns, ENDED if run.end and run.end_s <= end_s else OPEN)
            for (job, host), run in last.items()
        ]

    def ended(self) -> list[Said]:
        """At the end, or when it is broken off: nothing more will come of any job.

        Some rows of the chunk under way may be there by then, so jobs end with it, and not before them.
        """
        return [self._say(job, host, self._until_ns, ENDED) for job, host in sorted(self._open)]

    def _say(self, job: str, host: int, to_ns: int, state: str) -> Said:
        if state == OPEN:
            self._open.add((job, host))
        else:
            self._open.discard((job, host))
        return Said(job, host, to_ns, state)

    def _ns(self, at_s: float) -> int:
        return self.start_ns + round(at_s * 1e9)


def _begin(run: Run) -> float:
    return run.start_s
