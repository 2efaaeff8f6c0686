"""More operations than fit: the newest steps are told, what the window loses by it is named."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.operation_traces import Planted, trace

from leadline.analysis.ledger.operations.bound import newest_steps
from leadline.analysis.ledger.operations.operations import from_operations
from leadline.analysis.spec import Window


def begins(operation: pa.Table) -> dict[int, int]:
    """Begin of each step."""
    found: dict[int, int] = {}
    for number, begin in zip(operation["step"].to_pylist(), operation["start_ns"].to_pylist(), strict=True):
        found[number] = min(found.get(number, begin), begin)
    return found


def numbers(operation: pa.Table) -> list[int]:
    return sorted(set(operation["step"].to_pylist()))


@pytest.fixture(scope="module")
def operation() -> pa.Table:
    return trace(Planted())


def test_what_fits_is_left_as_it_is(operation: pa.Table) -> None:
    kept, untold = newest_steps(operation, Window(0, 2**62, job="j"), operation.num_rows)
    assert kept is operation
    assert untold == {}


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_newest_whole_steps_are_kept_and_the_rest_of_the_window_is_named(
    operation: pa.Table, shuffled: bool
) -> None:
    if shuffled:
        operation = operation.take(pa.array(np.random.default_rng(3).permutation(operation.num_rows)))
    at, rows = begins(operation), operation.num_rows // len(begins(operation))
    steps = sorted(at, key=lambda number: at[number])
    window = Window(at[steps[1]], at[steps[-1]] + 1, job="j")
    kept, untold = newest_steps(operation, window, 2 * rows + 1)
    assert numbers(kept) == sorted(steps[-2:])
    assert kept.num_rows == 2 * rows
    assert untold == {f"operations beyond {2 * rows + 1:,} rows in reach": at[steps[-2]] - window.from_ns}
    assert len(from_operations(kept, window)), "two whole steps are enough to be told from"


def test_a_window_that_the_newest_steps_cover_lacks_nothing(operation: pa.Table) -> None:
    at = begins(operation)
    steps = sorted(at, key=lambda number: at[number])
    window = Window(at[steps[-1]], at[steps[-1]] + 1, job="j")
    _, untold = newest_steps(operation, window, 2 * operation.num_rows // len(at) + 1)
    assert untold == {}


def test_of_a_step_that_does_not_fit_nothing_is_told_and_all_of_the_window_is_named(operation: pa.Table) -> None:
    window = Window(begins(operation)[numbers(operation)[0]], max(begins(operation).values()) + 1, job="j")
    kept, untold = newest_steps(operation, window, 5)
    assert kept.num_rows == 0
    assert list(untold.values()) == [window.window_ns]
    assert not len(from_operations(kept, window))
