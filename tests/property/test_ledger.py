"""Laws of the ledger: its rows add up to the job's presence exactly, whatever is cut, missing, twice or upside down."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.common.analysis_laws import judged
from tests.fabrics import T0, S
from tests.small_job import JOB, MS, RANKS, collective, event, relations, step, table

from leadline.analysis.ledger.layers import accounts, dealt_ticks, merged, orderly, ticks_of
from leadline.analysis.ledger.ledger import ledger
from leadline.analysis.ledger.segments import CATEGORIES, Segments
from leadline.analysis.spec import Window
from leadline.model.accounts import TICK_S, Depth

WINDOW = Window(T0, T0 + 10 * S, job=JOB)

# --- sums ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 20 * S), max_size=40))
def test_ticks_are_dealt_without_one_left_or_made(ns: list[int]) -> None:
    dealt = dealt_ticks(ns)
    assert sum(dealt) == ticks_of(sum(ns))
    assert all(abs(Fraction(ticks) - Fraction(each * 2**20, S)) < 1 for ticks, each in zip(dealt, ns, strict=True))


times = st.integers(T0 - 5 * S, T0 + 15 * S)


@st.composite
def segments(draw: st.DrawFn, depth: Depth) -> Segments:
    """Spans that may overlap, be empty or turned, with lost time and confidence of any kind."""
    rows = draw(
        st.lists(
            st.tuples(
                times, times, st.integers(0, len(CATEGORIES) - 1), st.integers(-1, 2),
                st.floats(allow_nan=True), st.floats(allow_nan=True),
            ),
            max_size=6,
        )
    )  # fmt: skip
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 6
    ints = [np.array(column, np.int64) for column in columns[:4]]
    return Segments(depth, *ints, *(np.array(column, np.float64) for column in columns[4:]), ("a", "b", "c"))


spans_ = st.lists(st.tuples(times, times), max_size=5)


@given(spans_, st.tuples(*(segments(depth) for depth in (Depth.OPERATIONS, Depth.STEPS, Depth.EVENTS))))
def test_accounts_add_up_to_the_presence(spans: list[tuple[int, int]], layers: tuple[Segments, ...]) -> None:
    presence = merged(spans, WINDOW.from_ns, WINDOW.to_ns)
    found = accounts(presence, layers, "no telemetry")
    assert sum(each.ticks for each in found) == ticks_of(sum(end - begin for begin, end in presence))
    assert all(0 <= each.lost_ticks <= each.ticks and 0 <= each.confidence <= 1 for each in found)


@given(spans_, segments(Depth.OPERATIONS), segments(Depth.STEPS))
def test_a_worse_depth_takes_nothing_from_a_better_one(
    spans: list[tuple[int, int]], better: Segments, worse: Segments
) -> None:
    presence = merged(spans, WINDOW.from_ns, WINDOW.to_ns)
    alone = [each for each in accounts(presence, [better], "x") if each.depth is Depth.OPERATIONS]
    beside = [each for each in accounts(presence, [better, worse], "x") if each.depth is Depth.OPERATIONS]
    assert [(each.category, each.owner) for each in alone] == [(each.category, each.owner) for each in beside]
    assert all(abs(one.ticks - other.ticks) <= 1 for one, other in zip(alone, beside, strict=True))


@given(segments(Depth.STEPS))
def test_spans_are_put_in_order_and_none_lies_on_another(given_: Segments) -> None:
    found = orderly(given_)
    assert (found.begin_N < found.end_N).all()
    assert (found.begin_N[1:] >= found.end_N[:-1]).all()


# --- the analysis on damaged jobs ------------------------------------------------------------------------------------


@st.composite
def damaged_jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Steps and collectives of four ranks, some lost, doubled, overlapping, renumbered, shifted; exits."""
    length = draw(st.integers(50, 4000)) * MS
    first = T0 + draw(st.integers(-40, 9)) * S
    back_at = draw(st.one_of(st.none(), st.integers(1, 40)))  # from here on numbers begin anew
    skew = [draw(st.sampled_from([0, 0, 3 * MS, -5 * S])) for _ in range(RANKS)]
    lost = draw(st.sets(st.integers(0, RANKS - 1), max_size=RANKS))
    cut_from, cut_to = sorted((draw(times), draw(times)))
    steps, collectives = [], []
    for at in range(draw(st.integers(0, 40))):
        number = at if back_at is None or at < back_at else at - back_at
        for rank in set(range(RANKS)) - lost:
            begin = first + at * length + skew[rank]
            if cut_from <= begin < cut_to:
                continue
            steps.append(step(rank, number, begin, length + draw(st.sampled_from([0, 0, length // 2]))))
            arrived = begin + draw(st.integers(0, length // MS)) * MS
            ended = draw(st.sampled_from([arrived + length // 4, None]))
            collectives.append(collective(rank, at, arrived, ended, state="finished" if ended else "enqueued"))
    steps += draw(st.lists(st.sampled_from(steps), max_size=3)) if steps else []
    events = [
        event(draw(times), draw(st.integers(0, RANKS)), *draw(st.sampled_from(_EVENTS)))
        for _ in range(draw(st.integers(0, 4)))
    ]
    held = draw(st.sampled_from([[], relations(first - 5 * S), relations(first, T0 + 6 * S), relations(T0 - 400 * S)]))
    rows = {"step": steps, "collective": collectives, "event": events, "relation": held}
    return {name: table(name, rows.get(name, [])) for name in ("operation", "edge", "usual", *rows)}


_EVENTS = (
    ("process-exit", "error", "signal/SIGKILL"), ("process-exit", "info", "exit/0"), ("process-stopped", "error"),
    ("process-continued", "info"), ("evaluation-begin",), ("evaluation-end",), ("checkpoint",),
    ("rank-failed", "error"),
)  # fmt: skip


@given(damaged_jobs())
@settings(max_examples=60, deadline=None)
def test_whatever_is_broken_the_rows_add_up(tables: dict[str, Any]) -> None:
    found = judged(ledger, tables, WINDOW)["ledger"]
    seconds = np.asarray(found["seconds"])
    ticks = seconds / TICK_S
    assert (ticks == np.rint(ticks)).all()
    assert (seconds > 0).all()
    assert seconds.sum() <= 10
    lost = np.asarray(found["lost_seconds"])
    assert ((lost >= 0) & (lost <= seconds)).all()
    gpus = np.asarray(found["gpu_seconds"]) / seconds
    assert (np.asarray(found["gpu_seconds"]) == seconds * gpus.round()).all()
    owners, categories = found["owner"].to_pylist(), found["category"].to_pylist()
    assert all(owner for owner, category in zip(owners, categories, strict=True) if category == "unknown")


@given(damaged_jobs(), st.integers(T0 - 60 * S, T0))
@settings(max_examples=40, deadline=None)
def test_a_job_that_the_inventory_says_is_there_has_every_second_told(tables: dict[str, Any], from_ns: int) -> None:
    tables = tables | {"relation": table("relation", relations(from_ns)), "event": table("event", [])}
    found = judged(ledger, tables, WINDOW)["ledger"]
    assert np.asarray(found["seconds"]).sum() == 10.0
