"""Who stood on what when something failed: jobs, ranks, GPUs and hosts, from relations and from names."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Codes, codes, ints


@dataclass(slots=True)
class Parts:
    """Places of ranks and GPUs by entity id."""

    job_of: dict[str, str] = field(default_factory=dict)  # rank -> job's name
    host_of: dict[str, str] = field(default_factory=dict)  # rank, GPU -> host's name
    gpus_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # rank -> GPUs
    ranks_of_job: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ranks_on: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # host:NAME or gpu:ID -> ranks
    put: dict[str, tuple[int, set[str]]] = field(default_factory=dict)  # rank -> since when it is on which GPUs, newest
    gpus_in: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # host's name -> GPUs

    def job(self, entity: str) -> str:
        """The job of a rank or of a job's own id; empty for others."""
        kind, _, name = entity.partition(":")
        if kind == "job":
            return name
        if kind != "rank":
            return ""
        return self.job_of.get(entity) or name.rpartition("/")[0]

    def host(self, entity: str, told_by: str = "") -> str:
        """The host that an entity is on, by name; `told_by`: the host that told of it."""
        kind, _, name = entity.partition(":")
        if kind == "host":
            return name
        if kind == "port":
            return name.rpartition("/")[0] or told_by
        return self.host_of.get(entity) or told_by

    def ranks(self, entity: str, host: str = "") -> set[str]:
        """The ranks that stand on an entity; of what is neither job, rank nor GPU those on its host."""
        kind, _, name = entity.partition(":")
        if kind == "rank":
            return {entity}
        if kind == "job":
            return self.ranks_of_job.get(name, set())
        if kind == "gpu" and entity in self.ranks_on:
            return self.ranks_on[entity]
        host = self.host(entity, host)
        return self.ranks_on.get(f"host:{host}", set()) if host else set()

    def put_on(self, gpu: str) -> dict[str, int]:
        """The ranks whose newest place is a GPU, and since when it is, ns."""
        host = self.host_of.get(gpu)
        there = {rank: self.put[rank][0] for rank in self.ranks_on.get(gpu, ()) if gpu in self.put[rank][1]}
        return {rank: since for rank, since in there.items() if host in (None, self.host_of.get(rank, host))}

    def gpus_held(self, job: str) -> int | None:
        """GPUs of a job: those its ranks name, one for each rank that names none; None if no rank is known."""
        ranks = self.ranks_of_job.get(job)
        if not ranks:
            return None
        named = {gpu for rank in ranks for gpu in self.gpus_of.get(rank, ())}
        return len(named) + sum(1 for rank in ranks if not self.gpus_of.get(rank))

    def gpus_of_part(self, entity: str) -> int | None:
        """GPUs that a part takes with it: 1 of a GPU, those of a host; None if that is not known."""
        kind, _, name = entity.partition(":")
        if kind == "gpu":
            return 1
        return len(self.gpus_in[name]) if kind == "host" and name in self.gpus_in else None


def parts_of(relation: pa.Table) -> Parts:
    """Places from rows of `relation`; where a rank was in two places the later one counts, then the first by name."""
    found = Parts()
    child, parent, kind = (codes(relation, name) for name in ("child", "parent", "kind"))
    place_of_kind = kind.places()
    wanted_N = np.isin(kind.code_N, [place_of_kind.get(name, -2) for name in ("runs-on", "in")])
    wanted_N &= _starts(child, ("rank:", "gpu:")) & _starts(parent, ("job:", "host:", "gpu:"))
    row_X = np.flatnonzero(wanted_N)
    from_N = ints(relation, "from_ns")
    order_X = np.lexsort((-parent.code_N[row_X], child.code_N[row_X], from_N[row_X]))
    for row in row_X[order_X].tolist():
        _put(found, child.names[child.code_N[row]], parent.names[parent.code_N[row]], int(from_N[row]))
    for rank, host in found.host_of.items():
        if rank.startswith("rank:"):
            found.ranks_on[f"host:{host}"].add(rank)
        else:
            found.gpus_in[host].add(rank)
    for rank, job in found.job_of.items():
        found.ranks_of_job[job].add(rank)
    return found


def _starts(column: Codes, prefixes: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    fits = np.array([*(name.startswith(prefixes) for name in column.names), False], bool)
    return fits[column.code_N]


def _put(found: Parts, child: str, parent: str, from_ns: int) -> None:
    kind, _, name = parent.partition(":")
    if kind == "host":
        found.host_of[child] = name
    elif child.startswith("rank:") and kind == "job":
        found.job_of[child] = name
    elif child.startswith("rank:") and kind == "gpu":
        found.gpus_of[child].add(parent)
        found.ranks_on[parent].add(child)
        since_ns, gpus = found.put.get(child, (from_ns, set()))
        found.put[child] = (from_ns, {parent, *(gpus if since_ns == from_ns else ())})
