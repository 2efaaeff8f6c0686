"""Host time to cluster time: which fit counts, how far, and what is left as it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.tables import BY_NAME
from leadline.runner.clock.clocks import FIT_AGE_NS, in_cluster_time, is_clocked, margins

STEP = BY_NAME["step"]
S = 10**9
T_NS = 1_750_000_000 * S


def fits(*rows: tuple[str, int, int, float, str]) -> pa.Table:
    """(clock, end in s, offset in ns, rate in ppb, state) as rows of clock_fit."""
    clock, end, offset, rate, state = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return pa.table(
        {
            "cluster": pa.array(["lab"] * len(rows), pa.string()),
            "clock": pa.array(clock, pa.string()).dictionary_encode(),
            "end_ns": pa.array([T_NS + each * S for each in end], pa.int64()),
            "offset_ns": pa.array(offset, pa.int64()),
            "rate_ppb": pa.array(rate, pa.float64()),
            "bound_ns": pa.array([500] * len(rows), pa.int64()),
            "state": pa.array(state, pa.string()),
            "island": pa.array([0] * len(rows), pa.int64()),
            "analysis": pa.array(["coarse-clock"] * len(rows), pa.string()),
        }
    )


def steps(*rows: tuple[str, int]) -> pa.Table:
    """(clock, host time since T in ns) as steps that take 1 s."""
    start = [T_NS + at for _, at in rows]
    return pa.table(
        {
            "clock": pa.array([clock for clock, _ in rows], pa.string()).dictionary_encode(),
            "start_ns": pa.array(start, pa.int64()),
            "end_ns": pa.array([at + S for at in start], pa.int64()),
        }
    )


def mapped(rows: pa.Table, known: pa.Table) -> list[tuple[int, int | None]]:
    """(cluster time of the start since T, bound) of each row."""
    found = in_cluster_time(STEP, rows, known)
    return [(row["start_ns"] - T_NS, row["bound_ns"]) for row in found.to_pylist()]


def test_only_tables_with_times_of_hosts_are_mapped() -> None:
    clocked = {name for name, table in BY_NAME.items() if is_clocked(table)}
    assert clocked == {"event", "step", "collective", "message_end", "operation", "flow_sent", "watermark", "edge_fit"}


def test_the_newest_fit_before_a_row_counts() -> None:
    known = fits(("a", 0, 100, 0.0, "fitted"), ("a", 10, 300, 0.0, "fitted"), ("b", 0, -50, 0.0, "fitted"))
    rows = steps(("a", 5 * S), ("a", 10 * S + 299), ("a", 10 * S + 300), ("b", 20 * S), ("a", -S), ("c", 5 * S))
    assert mapped(rows, known) == [
        (5 * S - 100, 500),
        (10 * S + 199, 500),
        (10 * S, 500),
        (20 * S + 50, 500),
        (-S, None),  # before the first fit
        (5 * S, None),  # a clock without one
    ]


def test_a_clock_that_drifts_is_followed_from_its_last_fit() -> None:
    known = fits(("a", 0, 1000, 50_000.0, "fitted"))  # 50 us a second
    assert mapped(steps(("a", 1000), ("a", 1000 + 10 * S + 500_000)), known) == [(0, 500), (10 * S, 500)]


def test_a_lost_clock_has_no_bound_and_an_old_fit_does_not_count() -> None:
    known = fits(("a", 0, 100, 0.0, "fitted"), ("a", 10, 100, 0.0, "lost"))
    rows = steps(("a", 5 * S), ("a", 11 * S), ("a", 10 * S + FIT_AGE_NS + 101))
    assert mapped(rows, known) == [(5 * S - 100, 500), (11 * S - 100, None), (10 * S + FIT_AGE_NS + 101, None)]


def test_durations_stay_what_the_clock_measured_across_a_new_fit() -> None:
    known = fits(("a", 0, 0, 0.0, "fitted"), ("a", 10, 400_000_000, 0.0, "fitted"))
    found = in_cluster_time(STEP, steps(("a", 10 * S)), known)
    assert found["end_ns"][0].as_py() - found["start_ns"][0].as_py() == S


def test_nulls_stay_null_and_no_rows_and_no_fits_are_fine() -> None:
    collective = BY_NAME["collective"]
    rows = pa.table(
        {
            "clock": ["a", "a"],
            "enqueued_ns": pa.array([T_NS + S, T_NS + 2 * S]),
            "started_ns": pa.array([None, T_NS + 3 * S], pa.int64()),
        }
    )
    found = in_cluster_time(collective, rows, fits(("a", 0, 7, 0.0, "fitted")))
    assert found["started_ns"].to_pylist() == [None, T_NS + 3 * S - 7]
    assert in_cluster_time(STEP, steps(), fits()).num_rows == 0
    assert mapped(steps(("a", 5)), fits()) == [(5, None)]


def test_margins_hold_every_offset_and_its_drift() -> None:
    assert (margins(fits()).low_ns, margins(fits()).high_ns) == (0, 0)
    found = margins(fits(("a", 0, 3 * S, 0.0, "fitted"), ("b", 0, -2 * S, 1000.0, "fitted")))
    assert found.low_ns <= -2 * S - 3_600_000
    assert found.high_ns >= 3 * S


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-50, 50), st.integers(-S, S)), max_size=12),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-60 * S, 60 * S)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_and_fits_does_not_matter(
    known: list[tuple[str, int, int]], rows: list[tuple[str, int]], random: object
) -> None:
    told = [(clock, end, offset, 0.0, "fitted") for clock, end, offset in known]
    expected = dict(zip(rows, mapped(steps(*rows), fits(*told)), strict=True))
    generator = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    shuffled = [rows[place] for place in generator.permutation(len(rows))]
    moved = [told[place] for place in generator.permutation(len(told))]
    assert dict(zip(shuffled, mapped(steps(*shuffled), fits(*moved)), strict=True)) == expected


@given(st.integers(-S, S), st.floats(-1e5, 1e5), st.integers(0, 3000 * S))
def test_a_row_is_mapped_back_to_when_it_happened(offset_ns: int, rate_ppb: float, after_ns: int) -> None:
    host_ns = after_ns + offset_ns + round(rate_ppb * 1e-9 * after_ns)
    ((found, _),) = mapped(steps(("a", host_ns)), fits(("a", 0, offset_ns, rate_ppb, "fitted")))
    assert abs(found - after_ns) <= 1
