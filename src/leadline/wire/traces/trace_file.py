"""What a trace file holds, whatever its format: operations as columns, and notes on what could not be used.

bytes ──> whatif_csv | kineto | chakra ──> TraceFile ──> rows of `operation`, placed to end at a given time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.model.tables.training import OPERATION

Ints = NDArray[np.int64]


@dataclass(slots=True)
class TraceFile:
    """N operations. Times in ns; `begin_N` counts from the begin of the operation's step where `by_step`, else from
    anywhere. `micro_batch_N` and `chunk_N` are -1 where the file has none."""

    format: str
    rank_N: Ints
    stage_N: Ints
    dp_rank_N: Ints
    step_N: Ints
    kinds: Sequence[str]
    begin_N: Ints
    duration_N: Ints
    seq_N: Ints
    micro_batch_N: Ints
    chunk_N: Ints
    by_step: bool = False
    notes: list[str] = field(default_factory=list)  # for people: what was left out, what is assumed

    def __len__(self) -> int:
        return len(self.step_N)


def steps_in_a_row(step_N: Ints, begin_N: Ints, duration_N: Ints) -> Ints:
    """Begins (N,), ns, of operations whose times count from their own step: each step begins where the last one ended.

    Within a step nothing moves: all of it is shifted by the same whole number.
    """
    step_T, of_N = np.unique(step_N, return_inverse=True)
    first_T = np.full(len(step_T), np.iinfo(np.int64).max)
    last_T = np.full(len(step_T), np.iinfo(np.int64).min)
    np.minimum.at(first_T, of_N, begin_N)
    np.maximum.at(last_T, of_N, begin_N + duration_N)
    after_T = np.concatenate([[0], np.cumsum(last_T - first_T)[:-1]]) if len(step_T) else first_T
    shifted: Ints = begin_N + (after_T - first_T)[of_N]
    return shifted


def numbered(step_N: Ints, rank_N: Ints, kinds: Sequence[str], begin_N: Ints) -> Ints:
    """Numbers (N,) of operations among those of their step, rank and kind, from 0, by begin."""
    if not len(kinds):
        return np.zeros(0, np.int64)
    kind_N = np.unique(np.array(kinds, np.str_), return_inverse=True)[1]
    order = np.lexsort((begin_N, kind_N, rank_N, step_N))
    first = np.ones(len(order), bool)
    first[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in (step_N, rank_N, kind_N)], axis=0)
    at = np.arange(len(order))
    seq_N = np.empty(len(order), np.int64)
    seq_N[order] = at - np.maximum.accumulate(np.where(first, at, 0))
    return seq_N


def operation_rows(files: Sequence[TraceFile], job: str, end_ns: int, *, shift: bool = True) -> pa.Table:
    """Rows of table `operation` of one job. With `shift` the last operation ends at `end_ns` (ns since 1970), and what
    lies between operations stays as it was; without, times are those of the files."""
    assert files, "no file"
    begins = [
        steps_in_a_row(each.step_N, each.begin_N, each.duration_N) if each.by_step else each.begin_N for each in files
    ]
    last = max((int((begin + each.duration_N).max()) for begin, each in zip(begins, files, strict=True) if len(each)))
    move = end_ns - last if shift else 0

    def joined(name: str) -> Ints:
        return np.concatenate([getattr(each, name) for each in files])

    micro_N, chunk_N, seq_N = joined("micro_batch_N"), joined("chunk_N"), np.maximum(joined("seq_N"), 0)
    count = len(micro_N)
    kind = pa.array([name for each in files for name in each.kinds], pa.string())
    given = {
        "job": pa.array([job] * count, pa.string()),
        "rank": pa.array(joined("rank_N")),
        "stage": pa.array(joined("stage_N")),
        "dp_rank": pa.array(joined("dp_rank_N")),
        "step": pa.array(joined("step_N")),
        "kind": kind,
        "start_ns": pa.array(np.concatenate(begins) + move),
        "duration_ns": pa.array(joined("duration_N")),
        "seq": pa.array(seq_N.astype(np.uint64)),
        "micro_batch": pa.array(micro_N, mask=micro_N < 0),
        "chunk": pa.array(chunk_N, mask=chunk_N < 0),
        "host": pa.array([""] * count, pa.string()),
        "clock": pa.array([""] * count, pa.string()),
    }
    return pa.table({column.name: given[column.name] for column in OPERATION.given})
