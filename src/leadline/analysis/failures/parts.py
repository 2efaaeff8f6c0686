"""Who stood on what when something failed: jobs, ranks, GPUs and hosts, from relations and from names."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pyarrow as pa

from leadline.analysis.graph.topology import Placed, topology_of
from leadline.model.ids import EntityId, kind_of


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
        one = EntityId.of(entity)
        if one.kind not in ("job", "rank"):
            return ""
        return self.job_of.get(entity) or one.job

    def host(self, entity: str, told_by: str = "") -> str:
        """The host that an entity is on, by name; `told_by`: the host that told of it."""
        one = EntityId.of(entity)
        if one.kind in ("host", "port"):
            return one.host or told_by
        return self.host_of.get(entity) or told_by

    def ranks(self, entity: str, host: str = "") -> set[str]:
        """The ranks that stand on an entity; of what is neither job, rank nor GPU those on its host."""
        kind, name = EntityId.of(entity)
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
        kind, name = EntityId.of(entity)
        if kind == "gpu":
            return 1
        return len(self.gpus_in[name]) if kind == "host" and name in self.gpus_in else None


def parts_of(relation: pa.Table) -> Parts:
    """Places from rows of `relation`; where a rank was in two places the later one counts (`Topology.placed`)."""
    topology = topology_of(relation, ("in", "runs-on"))
    found = Parts()
    for relation_kind, child_kind, parent_kind in _ROWS:
        for row in topology.placed(relation_kind, child_kind, parent_kind):
            _put(found, row)
    for rank, host in found.host_of.items():
        if kind_of(rank) == "rank":
            found.ranks_on[f"host:{host}"].add(rank)
        else:
            found.gpus_in[host].add(rank)
    for rank, job in found.job_of.items():
        found.ranks_of_job[job].add(rank)
    return found


_ROWS = (
    ("in", "gpu", "host"), ("in", "rank", "host"), ("runs-on", "rank", "host"), ("in", "rank", "job"),
    ("runs-on", "rank", "gpu"),
)  # fmt: skip


def _put(found: Parts, row: Placed) -> None:
    parent = EntityId.of(row.parent)
    if parent.kind == "host":
        found.host_of[row.child] = parent.name
    elif parent.kind == "job":
        found.job_of[row.child] = parent.name
    else:
        found.gpus_of[row.child].add(row.parent)
        found.ranks_on[row.parent].add(row.child)
        since_ns, gpus = found.put.get(row.child, (row.from_ns, set()))
        found.put[row.child] = (row.from_ns, {row.parent, *(gpus if since_ns == row.from_ns else ())})
