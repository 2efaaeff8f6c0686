"""When windows that late rows fell into are judged again."""

from __future__ import annotations

from leadline.model.units import S
from leadline.runner.windows import DEBOUNCE_NS, DEBOUNCE_NS_MAX, TIME_MAX_NS, Rhythm, Schedule, Why

RHYTHM = Rhythm(window_ns=10 * S, grace_ns=5 * S, late_ns=600 * S)


def judged(schedule: Schedule, now_ns: int) -> list[tuple[Why, int]]:
    """What is due is judged, as fast as it comes."""
    out = []
    while (due := schedule.next(now_ns)) is not None:
        out.append((due.why, due.end_ns))
        schedule.done(due, now_ns)
    return out


def at(now_s: int) -> Schedule:
    """A schedule that has judged all that closed."""
    schedule = Schedule(RHYTHM, now_s * S, settle_ns=0)
    judged(schedule, now_s * S)
    return schedule


def test_a_trickle_of_late_rows_costs_a_window_a_judgement_a_minute_and_its_last_row_is_seen() -> None:
    schedule, again, told_s = at(1000), [], 0
    for now_s in range(1000, 1800):
        if now_s < 1500:
            schedule.touched(985 * S, 985 * S, now_s * S)
            told_s = now_s
        again += [now_s for why, end_ns in judged(schedule, now_s * S) if (why, end_ns) == (Why.LATE, 990 * S)]
    assert 500 * S // DEBOUNCE_NS_MAX < len(again) < 15, "instead of 250"
    assert again[0] == 1000 + DEBOUNCE_NS // S
    assert told_s <= again[-1] <= told_s + DEBOUNCE_NS_MAX // S


def test_windows_that_nothing_touches_any_more_are_forgotten() -> None:
    schedule = at(1000)
    for now_s in range(1000, 9000, 5):
        schedule.touched((now_s - 30) * S, (now_s - 30) * S, now_s * S)
        judged(schedule, now_s * S)
    kept = max(len(schedule._again), len(schedule._late), len(schedule._heard))
    assert kept <= (RHYTHM.late_ns + RHYTHM.grace_ns) // RHYTHM.window_ns + 2


def test_a_clock_that_was_set_back_does_not_hold_up_what_came_late() -> None:
    schedule = at(8000)
    schedule.touched(7985 * S, 7985 * S, 8000 * S)
    schedule.touched(7985 * S, 7985 * S, 4000 * S)  # an hour earlier
    assert judged(schedule, 4000 * S + DEBOUNCE_NS) == [(Why.LATE, 7990 * S)]
    schedule.touched(3995 * S, 3995 * S, 4010 * S)
    assert judged(schedule, 4010 * S + DEBOUNCE_NS) == [(Why.LATE, 4000 * S)], "what comes now was judged as empty"


def test_rows_of_a_time_far_ahead_touch_no_window_and_make_nothing_due() -> None:
    schedule = at(1000)
    schedule.touched(86_400 * S, 86_400 * S, 1000 * S)
    schedule.touched(TIME_MAX_NS - 1, TIME_MAX_NS - 1, 1000 * S)
    assert judged(schedule, 1004 * S) == []
    assert schedule.waiting(1004 * S) == 0
