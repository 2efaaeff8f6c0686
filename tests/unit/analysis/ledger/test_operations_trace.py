"""Traces that are cut, damaged, doubled: what is whole is used, the rest is left out and counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builders.operation_traces import Planted, trace

from leadline.analysis.ledger.operations.trace import read_trace
from leadline.analysis.ledger.operations.whatif import what_if

WHOLE = trace(Planted(slow_worker=(1, 2, 1.8)))


def slowdown(operation: pa.Table) -> float:
    found, _ = read_trace(operation)
    assert found is not None
    return what_if(found).slowdown


def where(table: pa.Table, **values: object) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    kept = np.ones(table.num_rows, bool)
    for name, value in values.items():
        kept &= pc.equal(table.column(name), value).to_numpy()
    return kept


def without(table: pa.Table, dropped: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Table:
    return table.filter(pa.array(~dropped))


def changed(table: pa.Table, name: str, value: object, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Table:
    column = table.column(name).to_pylist()
    new = [value if row else old for old, row in zip(column, rows, strict=True)]
    return table.set_column(table.column_names.index(name), name, pa.array(new, table.column(name).type))


def test_a_trace_cut_in_the_middle_of_a_step_loses_that_step() -> None:
    last = where(WHOLE, step=3)
    cut = without(
        WHOLE, last & (WHOLE.column("start_ns").to_numpy() > np.median(WHOLE.column("start_ns").to_numpy()[last]))
    )
    found, left = read_trace(cut)
    assert left.steps == [3]
    assert found is not None
    assert found.step_T.tolist() == [0, 1, 2]
    assert slowdown(cut) == pytest.approx(slowdown(WHOLE), rel=0.02)


def test_a_step_that_lacks_a_rank_is_left_out() -> None:
    found, left = read_trace(without(WHOLE, where(WHOLE, step=1, rank=3)))
    assert left.steps == [1]
    assert found is not None


def test_a_replica_that_is_never_whole_is_left_out_and_the_steps_stay() -> None:
    found, left = read_trace(without(WHOLE, where(WHOLE, dp_rank=1, stage=2)))
    assert left.dp_ranks == [1] or left.dp_ranks == [0]
    assert found is not None
    assert len(found.step_T) == 4


def test_a_stage_that_is_not_there_is_named() -> None:
    found, left = read_trace(without(WHOLE, where(WHOLE, stage=1)))
    assert found is not None
    assert left.missing == ["stage 1"]
    assert what_if(found).slowdown > 1.0


def test_copies_of_rows_change_nothing() -> None:
    found, left = read_trace(pa.concat_tables([WHOLE, WHOLE.slice(100, 500)]))
    assert left.copies == 500
    assert found is not None
    assert what_if(found).slowdown == slowdown(WHOLE)


def test_a_step_that_ran_twice_under_one_number_is_left_out() -> None:
    twice = WHOLE.filter(pa.array(where(WHOLE, step=2)))
    later = twice.set_column(
        twice.column_names.index("start_ns"), "start_ns", pc.add(twice.column("start_ns"), 60_000_000_000)
    )
    found, left = read_trace(pa.concat_tables([WHOLE, later]))
    assert left.steps == [2]
    assert found is not None


def test_unknown_kinds_are_counted_and_the_rest_is_used() -> None:
    odd = changed(WHOLE, "kind", "expert-all-to-all", where(WHOLE, kind="gc"))
    found, left = read_trace(odd)
    assert left.unknown_kinds == {"expert-all-to-all": int(where(WHOLE, kind="gc").sum())}
    assert found is not None


def test_rows_of_nonsense_are_counted() -> None:
    odd = changed(WHOLE, "duration_ns", -5, where(WHOLE, step=0, kind="gc", rank=0))
    _, left = read_trace(odd)
    assert left.rows == 1
    assert left.steps == [0]


def test_a_trace_without_a_whole_step_says_so() -> None:
    found, left = read_trace(WHOLE.slice(0, 0))
    assert found is None
    assert left.missing == ["a whole training step"]


def test_clocks_that_contradict_the_order_do_not_stop_it() -> None:
    """All operations of a worker run backwards in time: whatever is found, nothing is raised."""
    mirrored = pa.array(-WHOLE.column("start_ns").to_numpy() + 4 * 10**18)
    odd = WHOLE.set_column(WHOLE.column_names.index("start_ns"), "start_ns", mirrored)
    found, left = read_trace(odd)
    assert found is not None or left.missing
