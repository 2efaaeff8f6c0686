"""Laws of the ledger from collectives, on random jobs with random damage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builders.collectives import JOB, MS, T0, Call, collectives, empty

from leadline.analysis.ledger.collectives.collectives import from_collectives
from leadline.analysis.ledger.segments import CATEGORIES, Segments
from leadline.analysis.spec import Window

WINDOW = Window(T0, T0 + 1_000 * MS, job=JOB)


@st.composite
def jobs(draw: st.DrawFn) -> list[Call]:
    """Calls of a few ranks in one or two communicators; some are lost, some never end, some ends precede arrivals."""
    ranks = draw(st.integers(2, 5))
    times = st.integers(0, 1_000_000)
    found = []
    for comm in range(draw(st.integers(1, 2))):
        for seq in range(draw(st.integers(1, 6))):
            op = draw(st.sampled_from(("all_reduce", "all_reduce", "broadcast", "send")))
            for rank in range(ranks):
                if draw(st.integers(0, 9)):
                    arrived = draw(times) / 1_000
                    ended = arrived + draw(times) / 3_000 - 10 if draw(st.integers(0, 9)) else None
                    found.append(Call(rank, seq, arrived, ended, f"{JOB}/{comm}", ranks, op, 8, draw(st.booleans())))
    return found


def told(table: pa.Table, window: Window = WINDOW) -> Segments:
    """Spans of collectives alone."""
    return from_collectives(table, empty("step"), empty("edge"), empty("baseline"), window=window)[0]


def rows(found: Segments) -> list[tuple[object, ...]]:
    """Spans as tuples, with names."""
    return [
        (
            int(found.begin_N[place]), int(found.end_N[place]), CATEGORIES[found.category_N[place]],
            found.owners[found.owner_N[place]], float(found.lost_N[place]), float(found.confidence_N[place]),
        )
        for place in range(len(found))
    ]  # fmt: skip


ENDED_BEFORE_THEY_CAME = [
    Call(0, 5, 10.0, 0.000333, "j/0", 3, "all_reduce", 8, False),
    Call(0, 0, 0.367, 0.000333, "j/1", 3, "all_reduce", 8, False),
    Call(0, 1, 0.0, -10.0, "j/1", 3, "send", 8, False),
    Call(0, 2, 0.368, -9.632, "j/1", 3, "all_reduce", 8, False),
]


@settings(max_examples=60, deadline=None)
@given(jobs())
@example(ENDED_BEFORE_THEY_CAME)
def test_spans_are_disjoint_in_order_and_lose_no_more_than_they_last(calls: list[Call]) -> None:
    found = told(collectives(calls))
    assert (found.begin_N < found.end_N).all()
    assert (found.begin_N[1:] >= found.end_N[:-1]).all()
    assert (found.lost_N >= 0).all()
    assert (found.lost_N <= found.end_N - found.begin_N).all()
    assert ((found.confidence_N >= 0) & (found.confidence_N <= 1)).all()


@settings(max_examples=60, deadline=None)
@given(jobs(), st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(calls: list[Call], seed: int) -> None:
    table = collectives(calls)
    mixed = table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))
    assert rows(told(mixed)) == rows(told(table))


@settings(max_examples=60, deadline=None)
@given(jobs(), st.integers(-(10**6), 10**6))
def test_what_is_moved_in_time_is_told_there(calls: list[Call], by_ms: int) -> None:
    moved = [
        Call(
            call.rank, call.seq, call.arrived + by_ms, None if call.ended is None else call.ended + by_ms, call.comm,
            call.ranks, call.op, call.bytes, call.failed,
        )
        for call in calls
    ]  # fmt: skip
    window = Window(WINDOW.from_ns + by_ms * MS, WINDOW.to_ns + by_ms * MS, job=JOB)
    there = [
        (begin - by_ms * MS, end - by_ms * MS, *rest) for begin, end, *rest in rows(told(collectives(moved), window))
    ]
    assert there == rows(told(collectives(calls)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=12, max_size=12, unique=True), st.permutations(range(4)))
def test_names_of_ranks_do_not_matter(times: list[int], place_of: list[int]) -> None:
    def job(name_of: list[int]) -> list[Call]:
        found, free = [], 0.0
        for seq in range(3):
            arrived = [free + times[4 * seq + rank] / 1_000 for rank in range(4)]
            found += [Call(name_of[rank], seq, arrived[rank], max(arrived) + 5, ranks=4) for rank in range(4)]
            free = max(arrived) + 5
        return found

    window = Window(T0, T0 + 10_000 * MS, job=JOB)
    before, after = told(collectives(job([0, 1, 2, 3])), window), told(collectives(job(place_of)), window)
    renamed = {f"rank:{JOB}/{rank}": f"rank:{JOB}/{place_of[rank]}" for rank in range(4)}
    assert [(*row[:3], renamed.get(str(row[3]), row[3]), *row[4:]) for row in rows(before)] == rows(after)
