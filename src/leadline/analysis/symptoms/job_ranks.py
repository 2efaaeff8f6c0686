"""Where the ranks of a job stand: hosts, GPUs, communicators; and which of them have left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from leadline.analysis.graph.topology import Placed, topology_of
from leadline.model.ids import name_of

RANK_DIGITS_MAX = 9  # digits of a rank's number that fit 32 bits: longer texts are no ranks. Source: bound.


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was a rank: `process:h1/811`, from when to when, ns (None: it is there)."""

    name: str
    from_ns: int
    to_ns: int | None

    def overlaps(self, from_ns: int, to_ns: int) -> bool:
        """Whether it was there in a span of time."""
        return self.from_ns < to_ns and (self.to_ns is None or self.to_ns > from_ns)


@dataclass(slots=True)
class JobRanks:
    """Ranks of one job by number, as `relation` has them."""

    host_of: dict[int, str] = field(default_factory=dict)  # where each was put last
    hosts_of: dict[int, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))  # since when, where
    gpus_of: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    left_ns: dict[int, int | None] = field(default_factory=dict)  # when a rank left the job; None: it is there
    processes_of: dict[int, list[Process]] = field(default_factory=dict)

    def gpus(self, ranks_seen: int) -> int:
        """GPUs that the job holds: those that are named, and one for each rank of which none is."""
        named = set().union(*self.gpus_of.values()) if self.gpus_of else set()
        return max(1, len(named) + max(len(self.left_ns), ranks_seen) - len(self.gpus_of))

    def on_host(self, host: str, at_ns: int) -> list[int]:
        """Ranks that were on a host at a time, by its name: a job that died may be started again elsewhere. Before the
        first place of a rank is told that one counts."""
        found = []
        for rank, places in self.hosts_of.items():
            by_then = [name for from_ns, name in places if from_ns <= at_ns]
            if (by_then[-1] if by_then else places[0][1]) == host:
                found.append(rank)
        return sorted(found)


def rank_number(entity: str, job: str) -> int | None:
    """Number of a rank of this job, of `rank:JOB/3`; None of anything else."""
    start = f"rank:{job}/"
    number = entity[len(start) :] if entity.startswith(start) else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) <= RANK_DIGITS_MAX else None


def job_ranks(relation: pa.Table, job: str) -> JobRanks:
    """Places from rows of `relation` that hold in the look-back; where a rank moved, the later place counts."""
    topology = topology_of(relation, ("in", "runs-on"), child=f"rank:{job}/")
    found = JobRanks()
    for rank, row in _of_ranks(topology.placed("in", "rank", "job"), job):
        found.left_ns[rank] = row.to_ns
    for rank, row in _of_ranks(topology.placed("runs-on", "rank", "host"), job):
        found.host_of[rank] = name_of(row.parent)
        found.hosts_of[rank].append((row.from_ns, name_of(row.parent)))
    for rank, row in _of_ranks(topology.placed("runs-on", "rank", "gpu"), job):
        found.gpus_of[rank].add(row.parent)
    found.processes_of = _processes(_of_ranks(topology.placed("runs-on", "rank", "process"), job))
    return found


def _of_ranks(rows: Iterable[Placed], job: str) -> Iterator[tuple[int, Placed]]:
    """Rows of ranks with their number."""
    for row in rows:
        rank = rank_number(row.child, job)
        if rank is not None:
            yield rank, row


def _processes(rows: Iterable[tuple[int, Placed]]) -> dict[int, list[Process]]:
    """The processes of each rank. Hook and agent tell of the same one; who was killed tells no end, the agent does."""
    found: dict[int, dict[str, Process]] = defaultdict(dict)
    for rank, (_, name, from_ns, to_ns) in rows:
        known = found[rank].get(name)
        ends = [at for at in (to_ns, known.to_ns if known else None) if at is not None]
        begin_ns = min(from_ns, known.from_ns) if known else from_ns
        found[rank][name] = Process(name, begin_ns, min(ends, default=None))
    return {rank: list(of_rank.values()) for rank, of_rank in found.items()}
