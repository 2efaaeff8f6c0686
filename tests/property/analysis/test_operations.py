"""Laws of the replay of operations: it is what ran, ideal is never longer where all shrinks, order means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.operation_traces import Planted, S, trace

from leadline.analysis.ledger.operations.cause import finding
from leadline.analysis.ledger.operations.operations import from_operations
from leadline.analysis.ledger.operations.trace import Trace, read_trace
from leadline.analysis.ledger.operations.whatif import Replay, what_if
from leadline.analysis.spec import Window

FEW = settings(max_examples=25, deadline=None)


@st.composite
def planted(draw: st.DrawFn) -> Planted:
    """Any small run: with and without virtual stages, with delays and troubles or not."""
    pp = draw(st.integers(1, 4))
    vpp = draw(st.integers(1, 3)) if pp > 1 else 1
    dp = draw(st.integers(1, 3))
    worker = (draw(st.integers(0, dp - 1)), draw(st.integers(0, pp - 1)), draw(st.floats(1.0, 3.0)))
    return Planted(
        dp=dp,
        pp=pp,
        vpp=vpp,
        micro_batches=pp * draw(st.integers(1, 2)),
        steps=2,
        seed=draw(st.integers(0, 2**20)),
        slow_worker=draw(st.sampled_from([None, worker])),
        lengths=draw(st.sampled_from([0.0, 0.5])),
        launch_s=draw(st.sampled_from([0.0, 0.003])),
        no_ops=draw(st.booleans()),
    )


def read(operation: pa.Table) -> Trace:
    found, _ = read_trace(operation)
    assert found is not None
    return found


@given(planted())
@FEW
def test_replayed_as_it_was_a_step_takes_what_it_took(of: Planted) -> None:
    found = read(trace(of))
    replay = Replay(found)
    begin_TDO, end_TDO = replay.times(replay.everything_DO, delays=True)
    np.testing.assert_allclose(begin_TDO, found.begin_TDO, atol=50)
    np.testing.assert_allclose(end_TDO, found.end_TDO, atol=50)


@given(planted())
@FEW
def test_without_launch_delays_no_step_takes_longer(of: Planted) -> None:
    replay = Replay(read(trace(of)))
    delayed_T, lengths_T = (replay.lengths_T(replay.everything_DO, delays=delays) for delays in (True, False))
    assert (lengths_T <= delayed_T + 50).all()
    if not of.launch_s:
        np.testing.assert_allclose(lengths_T, delayed_T, atol=50)


@given(planted(), st.integers(0, 2**20), st.floats(0.0, 1.0))
@FEW
def test_where_operations_only_shrink_no_step_takes_longer(of: Planted, seed: int, share: float) -> None:
    replay = Replay(read(trace(of)))
    shrunk_TDO = replay.real_TDO * np.where(np.random.default_rng(seed).random(replay.real_TDO.shape) < share, 0.5, 1.0)
    whole_T = replay.lengths_T(replay.everything_DO)
    assert (replay.lengths_T(replay.everything_DO, real_TDO=shrunk_TDO) <= whole_T + 1e-3).all()


@given(planted(), st.integers(0, 2**20))
@FEW
def test_the_order_of_rows_means_nothing(of: Planted, seed: int) -> None:
    operation = trace(of)
    mixed = operation.take(pa.array(np.random.default_rng(seed).permutation(operation.num_rows)))
    window = Window(1_700_000_000 * S, 1_700_000_010 * S, job="j")
    one, other = what_if(read(operation)), what_if(read(mixed))
    assert (one.slowdown, one.by_worker, finding(one)) == (other.slowdown, other.by_worker, finding(other))
    for name in ("begin_N", "end_N", "category_N", "owner_N", "lost_N"):
        assert np.array_equal(*(getattr(from_operations(rows, window), name) for rows in (operation, mixed)))


@given(planted(), st.integers(0, 2**20))
@FEW
def test_any_rows_may_be_missing_and_segments_stay_disjoint_and_within(of: Planted, seed: int) -> None:
    operation = trace(of)
    kept = np.random.default_rng(seed).random(operation.num_rows) < 0.98
    window = Window(1_700_000_000 * S + S // 2, 1_700_000_002 * S, job="j")
    segments = from_operations(operation.filter(pa.array(kept)), window)
    assert (segments.end_N > segments.begin_N).all()
    assert (segments.begin_N[1:] >= segments.end_N[:-1]).all()
    assert len(segments) == 0 or (segments.begin_N[0] >= window.from_ns and segments.end_N[-1] <= window.to_ns)
    assert ((segments.lost_N >= 0) & (segments.lost_N <= segments.end_N - segments.begin_N)).all()


HUGE = st.one_of(st.integers(-3, 5), st.sampled_from([2**31, 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63)]))
NUMBERS = ("rank", "stage", "dp_rank", "step", "start_ns", "duration_ns", "micro_batch", "chunk")
KINDS = st.sampled_from(
    ["forward-compute", "backward-recv", "forward-send", "optimizer", "gc", "?", "params-all-gather"]
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "kind": KINDS,
                **dict.fromkeys(NUMBERS, HUGE),
            }
        ),
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_nonsense_is_survived(rows: list[dict[str, Any]]) -> None:
    operation = pa.table(
        {name: pa.array([row[name] for row in rows], pa.int64()) for name in NUMBERS}
        | {
            "kind": pa.array([row["kind"] for row in rows], pa.string()),
            "job": pa.array(["j"] * len(rows), pa.string()),
        }
    )
    segments = from_operations(operation, Window(0, 10 * S, job="j"))
    assert ((segments.begin_N >= 0) & (segments.end_N <= 10 * S)).all()
    found, _ = read_trace(operation)
    if found is not None:
        assert np.isfinite(what_if(found).slowdown)
        finding(what_if(found))
