"""Laws of the ledger: its rows add up to the job's presence exactly, whatever is cut, missing, twice or upside down."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.fabrics import T0, S
from tests.builders.small_job import JOB, MS, RANKS, collective, event, relations, step, table
from tests.common.analysis_laws import judged

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
    return {name: table(name, rows.get(name, [])) for name in ("operation", "edge", "baseline", *rows)}


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


# --- rows of nonsense ------------------------------------------------------------------------------------------------

far = st.sampled_from([-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 1])
any_time = st.one_of(times, times, times, far)
any_rank = st.one_of(st.integers(0, RANKS - 1), st.sampled_from([10**6, -1, 2**40, 2**63 - 1, -(2**63)]))
any_number = st.one_of(st.integers(0, 5), st.sampled_from([-7, 2**40, 2**63 - 1, -(2**63)]))
any_length = st.one_of(st.integers(0, 4 * S), st.sampled_from([None, -S, 2**62, 2**63 - 1]))
any_seconds = st.sampled_from([0.0, 0.3, 2.0, 1e300, float("inf"), float("nan")])


@st.composite
def nonsense(draw: st.DrawFn) -> dict[str, Any]:
    """Rows as only a broken sender, or two jobs under one name, could tell them, among good ones."""
    of_phases = ("data_ns", "forward_ns", "backward_ns", "optimizer_ns", "checkpoint_ns")
    steps = [
        {**step(draw(any_rank), draw(any_number), draw(any_time)), "end_ns": draw(any_time)}
        | {name: draw(any_length) for name in of_phases}
        for _ in range(draw(st.integers(0, 6)))
    ]
    collectives = [
        collective(draw(any_rank), at % 5, draw(any_time), draw(st.one_of(st.none(), any_time)))
        | {"ranks": draw(any_rank), "comm": draw(st.sampled_from(["a", "b"])), "bytes": draw(st.integers(0, 2**64 - 1))}
        | {"op": draw(st.sampled_from(["all_reduce", "send", "recv", "broadcast"]))}
        for at in range(draw(st.integers(0, 12)))
    ]
    operations = [
        {
            "job": JOB, "rank": draw(any_rank), "step": draw(any_number), "start_ns": draw(any_time),
            "duration_ns": draw(any_time), "kind": draw(st.sampled_from(["forward-compute", "send", "?"])),
            "stage": 0, "dp_rank": draw(any_rank), "seq": at,
        }
        for at in range(draw(st.integers(0, 4)))
    ]  # fmt: skip
    edges = [
        {
            "job": JOB, "comm": draw(st.sampled_from(["a", "b"])), "src_rank": draw(any_rank),
            "dst_rank": draw(any_rank), "end_ns": WINDOW.to_ns, "window_ns": 10 * S, "messages": 1, "unpaired": 0,
            "conflicting": 0, "bytes": 1.0, "held_s": draw(any_seconds), "collectives_s": 1.0, "flows": 0,
        }
        for _ in range(draw(st.integers(0, 5)))
    ]  # fmt: skip
    baseline = [
        {
            "job": JOB, "what": what, "end_ns": T0 - S, "window_ns": 60 * S, "count": draw(st.integers(0, 2**64 - 1)),
            "low_s": draw(any_seconds), "median_s": draw(any_seconds),
        }
        for what in ("step", "step", "input", "compute")
    ]  # fmt: skip
    events = [
        event(draw(any_time), draw(st.integers(0, RANKS)), *draw(st.sampled_from(_EVENTS)))
        for _ in range(draw(st.integers(0, 3)))
    ]
    relation = draw(st.sampled_from([[], relations(T0 - 5 * S), relations(-(2**63)), relations(2**62)]))
    rows = {"step": steps, "collective": collectives, "operation": operations, "edge": edges, "baseline": baseline}
    return {name: table(name, each) for name, each in (rows | {"event": events, "relation": relation}).items()}


@given(nonsense())
@settings(max_examples=60, deadline=None)
def test_nonsense_among_the_rows_breaks_no_sum(tables: dict[str, Any]) -> None:
    found = judged(ledger, tables, WINDOW)["ledger"]
    seconds, lost = np.asarray(found["seconds"]), np.asarray(found["lost_seconds"])
    assert (seconds / TICK_S == np.rint(seconds / TICK_S)).all()
    assert (seconds > 0).all()
    assert seconds.sum() <= 10
    assert ((lost >= 0) & (lost <= seconds)).all()
    assert np.isfinite(np.asarray(found["gpu_seconds"])).all()
    assert np.isfinite(np.asarray(found["confidence"])).all()
