"""The kernels of symptoms on a few rows: they compile, or load from the cache."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import calls_of
from leadline.analysis.symptoms.excursions import Excursion, chance_s, excursion, level_of
from leadline.analysis.symptoms.lateness import lateness, meetings_of

_TEXT = pa.dictionary(pa.int32(), pa.string())


def warm_symptoms() -> Excursion | None:
    """Three collectives of two ranks, each called and ended, in order and in none; blocks one of which is long."""
    told = [(at, rank, is_over) for at in range(3) for rank in range(2) for is_over in (False, True)]
    names = {"comm": "0x1", "op": "all_reduce", "dtype": "float32", "state": "finished"}
    collective = pa.table(
        {name: pa.array([text] * len(told), _TEXT) for name, text in names.items()}
        | {"ranks": [2] * len(told), "rank": [rank for _, rank, _ in told]}
        | {"seq": pa.array([at for at, _, _ in told], pa.uint64()), "bytes": pa.array([8] * len(told), pa.uint64())}
        | {"enqueued_ns": [(at + 1) * S for at, _, _ in told], "started_ns": pa.nulls(len(told), pa.int64())}
        | {"finished_ns": pa.array([(at + 1) * S + 9 if is_over else None for at, _, is_over in told], pa.int64())}
    )
    calls_of(collective.take(pa.array(np.arange(len(told))[::-1])), 10 * S)
    late = lateness(meetings_of(calls_of(collective, 10 * S)), 2 * S, 10 * S, 2 * S)
    assert not late.by_rank_s
    assert level_of(np.ones(3)) is not None
    assert chance_s(np.full(9, 9.0), np.full(9, 9.0), 0.05) is None
    assert chance_s(np.full(60, 9.0), np.full(60, 9.0), 0.05) is not None  # long enough to know its chance
    return excursion(np.array([1.0, 1.0, 1.0, 1.0, 3.0]))
