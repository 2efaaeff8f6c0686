"""Laws of the windows: each closed one is judged once and in order, and once more after rows came that it missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leadline.model.units import S
from leadline.runner.windows import DEBOUNCE_NS, Due, Rhythm, Schedule, Why, resumed

rhythms = st.builds(
    lambda window, grace, late: Rhythm(window * S, grace * S, (grace + late) * S),
    st.integers(1, 30),
    st.integers(0, 20),
    st.integers(0, 100),
)
starts = st.integers(0, 10**6).map(lambda second: second * S)


def drain(schedule: Schedule, now_ns: int, ended_ns: int | None = None) -> list[Due]:
    """Judge everything that is due."""
    out = []
    while (due := schedule.next(now_ns, ended_ns)) is not None:
        out.append(due)
        schedule.done(due, now_ns)
        assert len(out) < 10_000
    return out


@given(rhythms, starts, st.lists(st.integers(0, 10 * S), max_size=30))
def test_every_closed_window_is_judged_once_and_in_order(rhythm: Rhythm, start_ns: int, waits: list[int]) -> None:
    schedule, now_ns, judged = Schedule(rhythm, start_ns), start_ns, []
    for wait in waits:
        now_ns += wait
        for due in drain(schedule, now_ns):
            assert due.why is Why.LIVE
            assert due.end_ns + rhythm.grace_ns <= now_ns, "not before it is closed"
            judged.append(due.end_ns)
    first = rhythm.begin(start_ns) + rhythm.window_ns
    assert judged == list(range(first, rhythm.begin(now_ns - rhythm.grace_ns) + 1, rhythm.window_ns))


@given(rhythms, starts, st.integers(1, 300))
def test_at_the_end_of_a_recording_every_window_of_its_span_is_judged(
    rhythm: Rhythm, start_ns: int, seconds: int
) -> None:
    end_ns = start_ns + seconds * S
    ends = [due.end_ns for due in drain(Schedule(rhythm, start_ns, 0, nothing_before=True), end_ns, end_ns)]
    assert ends[0] - rhythm.window_ns <= start_ns < ends[0]
    assert ends[-1] - rhythm.window_ns < end_ns <= ends[-1]
    assert len(ends) == (ends[-1] - ends[0]) // rhythm.window_ns + 1


@given(
    rhythms,
    starts,
    st.lists(st.tuples(st.integers(0, 8 * S), st.integers(-200 * S, 0), st.integers(0, 20 * S)), max_size=30),
)
def test_a_window_is_judged_after_the_last_rows_that_it_reads_have_settled(
    rhythm: Rhythm, start_ns: int, arrivals: list[tuple[int, int, int]]
) -> None:
    """Rows that come (after waits, so old, so long a span) are in the store a while later."""
    settle_ns = 5 * S
    schedule, now_ns = Schedule(rhythm, start_ns, settle_ns), start_ns
    needed: dict[int, int] = {}  # window -> when the last rows of it were in the store
    judged: dict[int, int] = {}

    def look() -> None:
        for due in drain(schedule, now_ns):
            judged[due.end_ns] = now_ns

    for wait, age, span in arrivals:
        now_ns += wait
        look()
        first, last = now_ns + age, now_ns + age + span
        schedule.touched(first, last, now_ns)
        window = rhythm.begin(first) + rhythm.window_ns
        while window <= rhythm.begin(last) + rhythm.window_ns:
            if window + rhythm.late_ns >= now_ns and window > rhythm.begin(start_ns):
                needed[window] = now_ns + settle_ns
            window += rhythm.window_ns
    for _ in range(3):
        now_ns += max(DEBOUNCE_NS, settle_ns) + rhythm.grace_ns + 100 * S
        look()
    for window, stored_ns in needed.items():
        assert judged[window] >= stored_ns, "it would have missed them"
    assert schedule.waiting(now_ns) == 0


@given(rhythms, starts, st.integers(0, 500), st.integers(1, 100))
def test_windows_that_are_asked_for_again_are_those_of_the_span(
    rhythm: Rhythm, start_ns: int, begin_s: int, seconds: int
) -> None:
    schedule = Schedule(rhythm, start_ns)
    drain(schedule, start_ns + 300 * S)
    from_ns, to_ns = start_ns + begin_s * S, start_ns + (begin_s + seconds) * S
    asked = schedule.backfill(from_ns, to_ns)
    found = drain(schedule, start_ns + 300 * S)
    assert len(found) == asked
    assert all(due.why is Why.BACKFILL for due in found)
    assert all(due.end_ns > from_ns and due.end_ns - rhythm.window_ns < to_ns for due in found)
    assert all(due.end_ns <= schedule.judged_to_ns for due in found)


@given(rhythms, st.integers(0, 100), st.integers(0, 400), st.booleans())
def test_windows_without_rows_are_passed_over_and_none_with_rows_is(
    rhythm: Rhythm, row_s: int, until_s: int, asked: bool
) -> None:
    row_ns, until_ns = row_s * S, (row_s + until_s) * S
    schedule, judged = Schedule(rhythm, 0, 0), []
    if asked:
        while (due := schedule.next(until_ns)) is not None:
            schedule.done(due, until_ns)
        schedule.backfill(0, until_ns)
    looks = 0
    while (due := schedule.next(until_ns)) is not None:
        looks += 1
        if due.end_ns - rhythm.window_ns <= row_ns < due.end_ns:
            judged.append(due.end_ns)
            schedule.done(due, until_ns)
        else:
            following = row_ns if due.end_ns <= row_ns else None
            schedule.empty(due, following, until_ns, rhythm.closed(until_ns, None))
    window = rhythm.begin(row_ns) + rhythm.window_ns
    assert judged == ([window] if window <= rhythm.closed(until_ns, None) else [])
    assert looks <= 3


@given(rhythms, starts, st.one_of(st.none(), st.integers(0, 2 * 10**6)), st.integers(0, 5000))
def test_after_a_start_no_window_is_left_out_but_those_that_are_too_old(
    rhythm: Rhythm, now_ns: int, before_s: int | None, backfill_s: int
) -> None:
    before_ns = None if before_s is None else rhythm.begin(before_s * S)
    live_ns, (from_ns, to_ns), skipped_ns = resumed(rhythm, now_ns, before_ns, backfill_s * S)
    assert from_ns <= to_ns == live_ns <= now_ns
    assert to_ns - from_ns <= backfill_s * S + rhythm.window_ns
    if before_ns is not None and before_ns <= live_ns:
        assert before_ns + skipped_ns == from_ns
