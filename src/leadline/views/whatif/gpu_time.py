"""What the GPUs of a job did, of traces of the PyTorch profiler: computing, communicating alone, nothing.

Kernels of one GPU overlap; a moment in which anything computes is computing, one in which only communication runs is
exposed communication. Of Chakra traces, whose times are made up from dependencies, the same holds for what they say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ints, codes, ints
from leadline.model.units import S

BUSY = ("compute", "memory")
NOT_OF_A_GPU = ("host",)
RANKS_MAX = 1024  # told, in order of their numbers


def gpu_time(operation: pa.Table) -> list[dict[str, Any]]:
    """Of each rank: seconds from its first to its last operation, of these computing, in exposed communication, idle.

    Inputs: rows of table `operation`. Idle is what remains, so that the three add up to the whole. Errors: none.
    """
    kind = codes(operation, "kind")
    rank_N, begin_N, took_N = (ints(operation, name) for name in ("rank", "start_ns", "duration_ns"))
    of_gpu_N = ~np.isin(kind.code_N, [kind.names.index(name) for name in NOT_OF_A_GPU if name in kind.names])
    busy_N = np.isin(kind.code_N, [kind.names.index(name) for name in BUSY if name in kind.names])
    found = []
    for rank in np.unique(rank_N[of_gpu_N]).tolist()[:RANKS_MAX]:
        of_N = of_gpu_N & (rank_N == rank)
        begins, ends = begin_N[of_N], begin_N[of_N] + took_N[of_N]
        whole = int(ends.max() - begins.min())
        computing = _covered(begins, ends, busy_N[of_N])
        working = _covered(begins, ends, np.ones(len(begins), bool))
        found.append(
            {"rank": rank, "whole_s": whole / S, "compute_s": computing / S, "exposed_s": (working - computing) / S,
             "idle_s": (whole - working) / S}
        )  # fmt: skip
    return found


def _covered(begin_N: Ints, end_N: Ints, which: Bools) -> int:
    """Length of the union of intervals, ns."""
    order = np.argsort(begin_N[which], kind="stable")
    begins, ends = begin_N[which][order], end_N[which][order]
    if not len(begins):
        return 0
    reached = np.maximum.accumulate(ends)
    return int(np.maximum(ends - np.maximum(begins, np.concatenate([begins[:1], reached[:-1]])), 0).sum())
