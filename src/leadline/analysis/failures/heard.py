"""What was heard of ranks and hosts: when a rank began a step, when a host told anything, which hosts fell silent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, codes, ints

COUNTED_MAX = 1 << 22  # numbers below are counted: 4 MB of marks, 32 MB of places


@dataclass(frozen=True, slots=True)
class Times:
    """Times by name: those of `names[k]` are `time_N[first_K[k]:first_K[k + 1]]`, in the order in which they came.

    A window asks for a few names of ten thousand, so times of a name are put in order only where that is asked for.
    """

    places: dict[str, int]
    first_K: Ints
    time_N: Ints

    def _any_order(self, name: str) -> Ints:
        place = self.places.get(name)
        return self.time_N[:0] if place is None else self.time_N[self.first_K[place] : self.first_K[place + 1]]

    def of(self, name: str) -> Ints:
        """All times of a name, in order."""
        return np.sort(self._any_order(name))

    def last(self, name: str) -> int:
        """The last time of a name that has one."""
        return int(self._any_order(name).max())

    def after(self, name: str, time_ns: int) -> int | None:
        """The first time of a name after another time."""
        times_N = self._any_order(name)
        later_N = times_N[times_N > time_ns]
        return int(later_N.min()) if len(later_N) else None

    def after_pause(self, name: str, time_ns: int, pause_ns: int) -> int | None:
        """The first time of a name after another time that none came `pause_ns` before; None if there is none."""
        times_N = self.of(name)
        if not len(times_N):
            return None
        before_N = np.concatenate([[time_ns], times_N[:-1]])
        fits_N = (times_N > time_ns) & (times_N - np.maximum(before_N, time_ns) >= pause_ns)
        return int(times_N[np.argmax(fits_N)]) if fits_N.any() else None


def times_of(names: Iterable[str], code_N: Ints, time_N: Ints) -> Times:
    """Times by name from rows; rows of code -1 are left out."""
    listed = list(names)
    kept_N = code_N >= 0
    if not kept_N.all():
        code_N, time_N = code_N[kept_N], time_N[kept_N]
    # Numbers of two bytes are sorted by radix, fifteen times as fast as others.
    short_N = code_N.astype(np.uint16) if len(listed) <= 2**16 else code_N
    order_N = np.argsort(short_N, kind="stable")
    first_K = np.concatenate([[0], np.cumsum(np.bincount(code_N, minlength=len(listed)))])
    return Times({name: place for place, name in enumerate(listed)}, first_K.astype(np.int64), time_N[order_N])


@dataclass(frozen=True, slots=True)
class Heard:
    """begins: begins of steps by rank (`rank:JOB/3`). hosts: times by host at which it told a step's end or an event.

    ends: the last end of a step by (job, host).
    """

    begins: Times
    hosts: Times
    ends: dict[str, dict[str, int]]


def heard_of(step: pa.Table, event: pa.Table) -> Heard:
    """What was heard, from all rows that were given."""
    job, host, told_by = codes(step, "job"), codes(step, "host"), codes(event, "host")
    rank_N, begin_N, end_N = ints(step, "rank"), ints(step, "start_ns"), ints(step, "end_ns")
    ranks_U, rank_code_N = distinct(rank_N)
    job_U, place_U, pair_N = pairs(job.code_N, rank_code_N)
    names = [
        f"rank:{job.names[code]}/{ranks_U[place]}" if code >= 0 else ""
        for code, place in zip(job_U.tolist(), place_U.tolist(), strict=True)
    ]
    known_N = np.where(job.code_N >= 0, pair_N, -1)
    hosts = sorted({*host.names, *told_by.names})
    place = {name: number for number, name in enumerate(hosts)}
    host_N = _renumbered(host.names, host.code_N, place)
    told_N = _renumbered(told_by.names, told_by.code_N, place)
    return Heard(
        times_of(names, known_N, begin_N),
        times_of(hosts, np.concatenate([host_N, told_N]), np.concatenate([end_N, ints(event, "time_ns")])),
        _last_ends(job.names, job.code_N, host.names, host.code_N, end_N),
    )


def pairs(one_N: Ints, other_N: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct pairs of codes (from -1 on), both parts, and the place of each row's pair.

    As one number, since to sort rows of two takes thirty times as long.
    """
    width = int(other_N.max(initial=0)) + 2
    both_U, place_N = distinct((one_N + 1) * width + other_N + 1)
    return both_U // width - 1, both_U % width - 1, place_N


def distinct(number_N: Ints) -> tuple[Ints, Ints]:
    """Distinct numbers, ascending, and the place of each row's. Small ones are counted, ten times as fast as sorted."""
    high = int(number_N.max(initial=-1))
    if number_N.min(initial=0) < 0 or high >= COUNTED_MAX:
        number_U, place_N = np.unique(number_N, return_inverse=True)
        return number_U, place_N.reshape(-1)
    seen_V = np.zeros(high + 1, bool)
    seen_V[number_N] = True
    return np.flatnonzero(seen_V), (np.cumsum(seen_V) - 1)[number_N]


def _renumbered(names: list[str], code_N: Ints, place: dict[str, int]) -> Ints:
    return np.array([*(place[name] for name in names), -1], np.int64)[code_N]


def _last_ends(jobs: list[str], job_N: Ints, hosts: list[str], host_N: Ints, end_N: Ints) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    if not len(end_N):
        return found
    job_U, host_U, pair_N = pairs(job_N, host_N)
    last_U = np.full(len(job_U), np.iinfo(np.int64).min)
    np.maximum.at(last_U, pair_N, end_N)
    for job, host, last_ns in zip(job_U.tolist(), host_U.tolist(), last_U.tolist(), strict=True):
        if job >= 0 and host >= 0 and hosts[host]:
            found.setdefault(jobs[job], {})[hosts[host]] = last_ns
    return found


@dataclass(frozen=True, slots=True)
class Silent:
    """A host of which nothing is heard: since when, of which job, and what shows that the job was not just over."""

    host: str
    job: str
    last_ns: int
    shown_by: str


def silent_hosts(
    heard: Heard, gave_up: dict[str, dict[str, int]], told: dict[tuple[str, str], int], to_ns: int, silent_ns: int
) -> list[Silent]:
    """Hosts that were heard and then were not for `silent_ns`, though a job of theirs went on, or died without them.

    `gave_up`: of each job the hosts that told of an end with an error in this window, and when. `told`: when hosts told
    last of any end of a job, also before: one that has made no step of it since is not silent, if the job began again
    elsewhere. A job whose ranks all stop at once and tell nothing is over, as far as anybody can say: no host of it is
    called silent.
    """
    found: dict[str, Silent] = {}
    for job, ends in sorted(heard.ends.items()):
        for host in sorted(ends):
            last_ns = heard.hosts.last(host)
            if to_ns - last_ns < silent_ns or told.get((job, host), 0) >= ends[host]:
                continue
            went_on = [other for other, end_ns in ends.items() if other != host and end_ns - last_ns >= silent_ns]
            died = [other for other, at_ns in gave_up.get(job, {}).items() if other != host and at_ns > last_ns]
            if went_on or died:
                what = "took steps" if went_on else "gave up"
                shown_by = f"{job} {what} on {min(went_on or died)}"
                found.setdefault(host, Silent(host, job, last_ns, shown_by))
    return [found[host] for host in sorted(found)]
