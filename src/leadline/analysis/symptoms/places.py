"""Where the ranks of a job stand: hosts, GPUs, communicators; and which of them have left."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

RANK_DIGITS_MAX = 9


@dataclass(slots=True)
class Places:
    """Ranks of one job by number, as `relation` has them."""

    host_of: dict[int, str] = field(default_factory=dict)
    gpus_of: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    left_ns: dict[int, int | None] = field(default_factory=dict)  # when a rank left the job; None: it is there

    def gpus(self, ranks_seen: int) -> int:
        """GPUs that the job holds: those that are named, and one for each rank of which none is."""
        named = set().union(*self.gpus_of.values()) if self.gpus_of else set()
        return max(1, len(named) + max(len(self.left_ns), ranks_seen) - len(self.gpus_of))

    def on_host(self, host: str) -> list[int]:
        """Ranks on a host, by its name."""
        return sorted(rank for rank, name in self.host_of.items() if name == host)


def rank_number(entity: str, job: str) -> int | None:
    """Number of a rank of this job, of `rank:JOB/3`; None of anything else."""
    start = f"rank:{job}/"
    number = entity[len(start) :] if entity.startswith(start) else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) <= RANK_DIGITS_MAX else None


def places_of(relation: pa.Table, job: str) -> Places:
    """Places from rows of `relation` that hold in the look-back; where a rank moved, the later place counts."""
    found = Places()
    texts = relation["child"].cast(pa.string())
    mine = relation.filter(pc.fill_null(pc.starts_with(texts, f"rank:{job}/"), False))
    columns = (mine[name].to_pylist() for name in ("from_ns", "child", "kind", "parent", "to_ns"))
    for _, child, kind, parent, to_ns in sorted(
        zip(*columns, strict=True), key=lambda row: (row[0] or 0, *map(str, row[1:]))
    ):
        rank = rank_number(child, job)
        if rank is None or not parent:
            continue
        of, _, name = parent.partition(":")
        if kind == "in" and of == "job":
            found.left_ns[rank] = to_ns
        elif kind == "runs-on" and of == "host":
            found.host_of[rank] = name
        elif kind == "runs-on" and of == "gpu":
            found.gpus_of[rank].add(parent)
    return found
