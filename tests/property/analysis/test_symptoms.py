"""Laws of symptoms: whom a stuck job blames, whatever its size; what a steady job is not; what is lost is not more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import both, slow_job, stuck_job, tables, told, window, working
from tests.builders.small_job import JOB, MS, RANKS

from leadline.analysis.symptoms.calls import Group
from leadline.analysis.symptoms.decisions import earliest
from leadline.analysis.symptoms.excursion_kernels import ONCE_MAX, SLACK, TOLD
from leadline.analysis.symptoms.excursions import excursion
from leadline.analysis.symptoms.slowdowns import slowdowns
from leadline.analysis.symptoms.stalls import stalls

few = settings(deadline=None, max_examples=25)


@few
@given(st.sets(st.integers(0, RANKS - 1), min_size=1, max_size=RANKS - 1), st.integers(17, 40))
def test_whoever_is_missing_is_blamed_and_nobody_else(absent: set[int], seconds: int) -> None:
    (row,) = told(stalls, stuck_job(sorted(absent)), window(2 * seconds, 2))
    assert {each["owner"] for each in row["blamed"]} == {f"rank:{JOB}/{rank}" for rank in absent}
    lost = sum(each["lost_gpu_seconds"] for each in row["blamed"])
    assert abs(lost - row["lost_gpu_seconds"]) < 0.01 * RANKS


@few
@given(st.lists(st.floats(0.95, 1.05), min_size=4, max_size=60))
def test_a_pace_that_scatters_as_ever_is_no_excursion(ratios: list[float]) -> None:
    assert excursion(np.array(ratios)) is None


@few
@given(st.integers(8, 40), st.floats(1.35, 5.0), st.integers(4, 30))
def test_a_pace_that_falls_and_stays_is_found_where_it_fell(before: int, ratio: float, after: int) -> None:
    steady = [1.0 + 0.01 * (at % 3) for at in range(before)]
    found = excursion(np.array([*steady, *[ratio * each for each in ([*steady, *steady, *steady])[:after]]]))
    needed = TOLD / (ONCE_MAX - SLACK)
    assert found is not None or after < needed + 1
    assert found is None or found.first == before


@few
@given(st.floats(0.5, 3.0), st.integers(0, RANKS - 1))
def test_a_late_rank_is_blamed_for_no_more_than_was_lost(late_s: float, rank: int) -> None:
    for row in told(slowdowns, slow_job({rank: late_s}), window(10, 5)):
        assert row["blamed"][0]["owner"] == f"rank:{JOB}/{rank}"
        assert sum(each["lost_gpu_seconds"] for each in row["blamed"]) <= row["lost_gpu_seconds"] + 0.01
        assert T0 <= row["start_ns"] <= T0 + 10 * S
        assert 0 < row["lost_share"] <= 1


@few
@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 5), min_size=1)), min_size=1, max_size=4))
def test_who_waits_elsewhere_is_never_missing(groups: list[tuple[int, set[int]]]) -> None:
    waits = [_group(at, since, ranks) for at, (since, ranks) in enumerate(groups)]
    found = earliest(sorted(waits, key=lambda each: each.first_ns))
    assert found is not None
    assert not found[1] & frozenset().union(*(each.waiting for each in waits))


def _group(at: int, since: int, ranks: set[int]) -> Group:
    entered = dict.fromkeys(ranks, T0 + since * MS)
    kinds: Mapping[int, Any] = dict.fromkeys(ranks, ("all_reduce", 4, "float32"))
    return Group(
        f"bert-1/0x{at}", 1, "all_reduce", 4, entered, frozenset(ranks), frozenset(range(6)), 6, dict(kinds), 0, False
    )


@few
@given(st.integers(2, 8), st.integers(0, 6))
def test_a_job_that_works_neither_stalls_nor_is_slow(length_tenths: int, offset: int) -> None:
    given_ = tables(*working(-40 + offset, 20, length_s=0.6 + length_tenths / 10))
    assert told(stalls, given_, window(20, 2)) == []
    assert told(slowdowns, given_, window(20, 5)) == []


def test_a_call_without_an_end_is_lost_where_later_ones_ended() -> None:
    steps, calls = working(-30, 20)
    calls += both(0, 5, T0 - 27 * S, None)
    assert told(stalls, tables(steps, calls), window(20, 2)) == []
