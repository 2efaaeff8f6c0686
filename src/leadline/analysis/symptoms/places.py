"""Where the ranks of a job stand: hosts, GPUs, communicators; and which of them have left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints, coded, ints

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
class Places:
    """Ranks of one job by number, as `relation` has them."""

    host_of: dict[int, str] = field(default_factory=dict)
    gpus_of: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    left_ns: dict[int, int | None] = field(default_factory=dict)  # when a rank left the job; None: it is there
    processes_of: dict[int, list[Process]] = field(default_factory=dict)

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
    """Places from rows of `relation` that hold in the look-back; where a rank moved, the later place counts.

    Relations are those of the whole cluster: each text is looked at once, not each row.
    """
    child, parent, kind = (coded(relation, name) for name in ("child", "parent", "kind"))
    rank_N = _of_texts(child, _rank_numbers(child.dictionary, job))
    mine = np.flatnonzero((rank_N >= 0) & _of_texts(parent, pc.not_equal(parent.dictionary, "")))
    rank_N, relation = rank_N[mine], relation.take(pa.array(mine))
    child, parent, kind = (each.take(pa.array(mine)) for each in (child, parent, kind))
    rows = _Rows(rank_N, ints(relation, "from_ns", 0), child, parent, relation["to_ns"].to_pylist())
    is_in, runs_on = (_of_texts(kind, pc.equal(kind.dictionary, name)) for name in ("in", "runs-on"))
    found = Places()
    for rank, _, _, to_ns in rows.of(is_in, "job"):
        found.left_ns[rank] = to_ns
    for rank, host, _, _ in rows.of(runs_on, "host"):
        found.host_of[rank] = host.partition(":")[2]
    for rank, gpu, _, _ in rows.of(runs_on, "gpu"):
        found.gpus_of[rank].add(gpu)
    found.processes_of = _processes(rows.of(runs_on, "process"))
    return found


def _processes(rows: Sequence[tuple[int, str, int, int | None]]) -> dict[int, list[Process]]:
    """The processes of each rank. Hook and agent tell of the same one; who was killed tells no end, the agent does."""
    found: dict[int, dict[str, Process]] = defaultdict(dict)
    for rank, name, from_ns, to_ns in rows:
        known = found[rank].get(name)
        ends = [at for at in (to_ns, known.to_ns if known else None) if at is not None]
        begin_ns = min(from_ns, known.from_ns) if known else from_ns
        found[rank][name] = Process(name, begin_ns, min(ends, default=None))
    return {rank: list(of_rank.values()) for rank, of_rank in found.items()}


def _rank_numbers(texts: pa.Array, job: str) -> Ints:
    """Number of the rank that each text names, -1 of what is none of this job."""
    number_T = np.full(len(texts), -1)
    places = np.flatnonzero(pc.fill_null(pc.starts_with(texts, f"rank:{job}/"), False).to_numpy(zero_copy_only=False))
    for place, text in zip(places.tolist(), texts.take(pa.array(places)).to_pylist(), strict=True):
        number = rank_number(text, job)
        number_T[place] = -1 if number is None else number
    return number_T


def _of_texts(column: pa.DictionaryArray, value_T: pa.Array | Ints) -> Any:
    """What the text of each row has, of values of the dictionary's texts; -1 or False of null."""
    if not isinstance(value_T, np.ndarray):
        value_T = pc.fill_null(value_T, False).to_numpy(zero_copy_only=False)
    none = False if value_T.dtype == bool else -1
    return np.append(value_T, none)[column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Relations of ranks, N."""

    rank_N: Ints
    from_N: Ints
    child: pa.DictionaryArray
    parent: pa.DictionaryArray
    to_ns: list[int | None]

    def of(self, of_kind_N: Bools, parent: str) -> list[tuple[int, str, int, int | None]]:
        """Rank, parent, begin and end of rows of a kind whose parent is of a kind; the later ones of a rank come
        later."""
        texts = self.parent.dictionary
        of_parent_N = _of_texts(self.parent, pc.or_(pc.starts_with(texts, f"{parent}:"), pc.equal(texts, parent)))
        rows = np.flatnonzero(of_kind_N & of_parent_N)
        if len(np.unique(self.rank_N[rows])) < len(rows):
            rows = np.array(sorted(rows.tolist(), key=self._order), np.int64)
        parents = texts.take(self.parent.indices.take(pa.array(rows))).to_pylist()
        ranks = self.rank_N[rows].tolist()
        return [
            (ranks[place], parents[place], int(self.from_N[row]), self.to_ns[row])
            for place, row in enumerate(rows.tolist())
        ]

    def _order(self, row: int) -> tuple[int, str, str, bool, int]:
        to_ns = self.to_ns[row]
        told = self.child[row].as_py(), self.parent[row].as_py()
        return int(self.from_N[row]), *told, to_ns is None, to_ns or 0
