"""How far data has come, by the word of its senders; and jobs that are judged later than others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.builders.incident import Names, rows_of

from leadline.model.tables.fabric import WATERMARK
from leadline.runner.behind import Behind
from leadline.runner.clock.coarse import Clock, CoarseClocks
from leadline.runner.watermarks import GIVE_UP_NS, LATE_NS, LOST_NS, WRITTEN_NS, Job, Watermarks
from leadline.runner.watermarks_stored import keep_states
from leadline.testing import MemoryStore

S = 10**9
NOW = 1_750_000_000 * S
JOB = Job("acme", "lab", "bert")


def said(*rows: dict[str, Any]) -> pa.Table:
    """Rows of senders; times in seconds before or after `NOW`."""
    baseline = {"host": "h1", "sender": "agent", "job": "bert", "ranks": 2, "state": "open", "clock": "h1/1"}
    whole = [
        {**baseline, **row, "reported_ns": NOW + round(row["told_s"] * S), "to_ns": NOW + round(row["to_s"] * S)}
        for row in rows
    ]
    known = {column.name for column in WATERMARK.columns}
    found = [{name: value for name, value in row.items() if name in known} for row in whole]
    return rows_of(WATERMARK, [{**row, "tenant": "acme", "cluster": "lab"} for row in found], Names())


def test_a_job_has_come_as_far_as_the_last_of_its_senders() -> None:
    marks = Watermarks()
    assert marks.of_job(JOB, NOW) is None
    marks.take(said({"told_s": 0, "to_s": -1}, {"told_s": 0, "to_s": -9, "host": "h2"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - 9 * S - WRITTEN_NS
    marks.take(said({"told_s": 1, "to_s": 0.5, "host": "h2"}), NOW + S)
    assert marks.of_job(JOB, NOW + S) == NOW - S - WRITTEN_NS


def test_who_has_ended_is_waited_for_no_more() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1}, {"told_s": 0, "to_s": -9, "host": "h2", "state": "ended"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - S - WRITTEN_NS
    assert not marks.has_ended(JOB)
    assert marks.over("acme") is None
    marks.take(said({"told_s": 1, "to_s": 1, "state": "ended"}), NOW + S)
    assert marks.of_job(JOB, NOW + S) is None
    assert marks.has_ended(JOB)
    assert marks.over("acme") == (["bert"], NOW + S)
    assert marks.over("other") is None


def test_an_older_word_changes_nothing_and_a_restart_of_the_host_counts() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1}), NOW)
    marks.take(said({"told_s": -5, "to_s": -6, "state": "ended"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - S - WRITTEN_NS
    marks.take(said({"told_s": 1, "to_s": -3}), NOW)  # an agent that begins anew knows less than we were told
    assert marks.of_job(JOB, NOW) == NOW - S - WRITTEN_NS
    marks.take(said({"told_s": -100, "to_s": -101, "clock": "h1/2"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - 101 * S - WRITTEN_NS


def test_a_lost_sender_is_waited_for_until_it_is_given_up() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1}), NOW)
    assert marks.of_job(JOB, NOW + GIVE_UP_NS) == NOW - S - WRITTEN_NS
    assert marks.of_job(JOB, NOW + GIVE_UP_NS + 1) is None


def test_states_of_senders() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1}, {"told_s": 0, "to_s": -87, "host": "h3", "clock": "h3/1"}), NOW)
    late, fine = marks.senders(NOW)
    assert (late.sender.host, late.state, late.behind_s, dict(late.jobs)) == ("h3", "late", 87.0, {"bert": 2})
    assert (fine.sender.host, fine.state) == ("h1", "ok")
    assert {each.state for each in marks.senders(NOW + LOST_NS + 1)} == {"lost"}
    marks.take(said({"told_s": 60, "to_s": 59, "host": "h4", "clock": "h4/1"}), NOW)  # its clock is a minute ahead
    ahead = next(each for each in marks.senders(NOW) if each.sender.host == "h4")
    assert (ahead.state, ahead.clock_off_s, ahead.behind_s) == ("ok", 60.0, 1.0)
    assert LATE_NS < LOST_NS < GIVE_UP_NS


def test_jobs_that_are_behind_catch_up_in_order() -> None:
    behind = Behind(2 * S)
    other = JOB._replace(job="llama")
    behind.hold(JOB, 10 * S)
    behind.hold(other, 14 * S)
    assert behind.next(20 * S, NOW, lambda *_: False) is None
    assert behind.next(20 * S, NOW, lambda *_: True) == (12 * S, {JOB})
    behind.done(12 * S, [JOB], 20 * S)
    behind.done(14 * S, [JOB], 20 * S)
    assert behind.next(20 * S, NOW, lambda *_: True) == (16 * S, {JOB, other})
    for end_s in (16, 18, 20):
        behind.done(end_s * S, [JOB, other], 20 * S)
    assert not list(behind)


def test_a_job_that_is_set_back_waits_for_more_of_the_same() -> None:
    behind = Behind(2 * S)
    behind.set_back(JOB, 10 * S, NOW)
    assert behind.next(20 * S, NOW, lambda *_: True) is None
    assert behind.next(20 * S, NOW + 2 * S, lambda *_: True) == (12 * S, {JOB})
    behind.set_back(JOB, 4 * S, NOW + 2 * S)  # while it is behind: farther back
    behind.done(12 * S, [JOB], 20 * S)  # of before that
    assert behind.next(20 * S, NOW + 2 * S, lambda *_: True) == (6 * S, {JOB})
    for end_s in range(6, 22, 2):
        behind.done(end_s * S, [JOB], 20 * S)
    behind.set_back(JOB, 18 * S, NOW + 3 * S)  # soon again: twice as long
    assert behind.next(20 * S, NOW + 6 * S, lambda *_: True) is None
    assert behind.next(20 * S, NOW + 7 * S, lambda *_: True) == (20 * S, {JOB})


CLOCK = Clock("acme", "lab", "h1", "h1/1")


def words(clocks: CoarseClocks, *off_s: float) -> list[tuple[float, int]]:
    """Offsets of the fits that come of words so far ahead of when they were heard, a second apart; ends after `NOW`."""
    for number, each in enumerate(off_s):
        clocks.heard(CLOCK, NOW + number * S + round(each * S), NOW + number * S)
    return [(row["offset_ns"] / S, row["end_ns"] - NOW) for row in clocks.fits()]


def test_a_clock_that_is_a_minute_off_has_a_fit_that_holds_for_what_came_before() -> None:
    clocks = CoarseClocks()
    assert words(clocks, -60.4, -60.3) == []  # too few
    ((off_s, end_ns),) = words(clocks, -60.2)
    assert (off_s, end_ns) == (-60.2, -3000 * S)
    assert clocks.offset_ns(CLOCK) == round(-60.2 * S)
    assert words(clocks, -60.4, -59.9, -60.0) == []  # noise
    assert words(clocks, 0.0, -0.1, -0.1) == [(0.0, 2 * S)]  # it was set right


def test_words_that_were_held_up_tell_nothing_of_a_clock() -> None:
    clocks = CoarseClocks()
    assert words(clocks, -0.3, -45.0, -30.0, -15.0, -0.2, -0.3, -0.3) == []
    assert words(clocks, -1.9, -1.9, -1.9, -1.9) == []


def test_words_that_all_took_as_long_tell_nothing_of_a_clock() -> None:
    """An overloaded server took 30 s for each, the time-out of agents: all clocks looked half a minute behind."""
    clocks = CoarseClocks()
    for number in range(9):
        clocks.heard(CLOCK, NOW + number * S - 30 * S, NOW + number * S, took_ns=30 * S if number else S // 4)
    assert clocks.fits() == []
    assert words(clocks, -60.0, -60.0, -60.0)[0][0] == -60.0, "one that is behind is told when words are quick again"


def test_who_is_heard_late_has_no_wrong_clock_and_is_as_far_behind_as_that() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1, "took_ns": 30 * S}), NOW + 28 * S)
    (state,) = marks.senders(NOW + 28 * S)
    assert (state.clock_off_s, state.behind_s) == (0.0, 29.0)
    marks.take(said({"told_s": 30, "to_s": 29, "took_ns": 2 * S}), NOW + 28 * S)
    assert marks.senders(NOW + 28 * S)[0].clock_off_s == 2.0, "no way is so long that a clock looks ahead"


def test_how_senders_are_is_stored_by_the_servers_clock() -> None:
    marks, store = Watermarks(), MemoryStore()
    marks.take(said({"told_s": 0, "to_s": -1}), NOW)
    keep_states(store, marks.senders(NOW), NOW)
    assert store.appends == [("watermark", 1)]
    (row,) = store.rows("watermark")
    assert (row["job"], row["heard_ns"], row["reported_ns"], row["took_ns"]) == ("bert", NOW, NOW, None)


def test_a_job_has_come_as_far_as_its_senders_say_by_our_clock() -> None:
    marks = Watermarks()
    for second in range(3):
        marks.take(said({"told_s": 60 + second, "to_s": 59 + second}), NOW + second * S)
    assert marks.of_job(JOB, NOW + 2 * S) == NOW + S - WRITTEN_NS


def test_hosts_are_those_that_were_heard_lately() -> None:
    marks = Watermarks()
    hosts = [{"told_s": 0, "to_s": 0, "job": job, "host": host} for host in ("h1", "h2", "h3") for job in ("", "bert")]
    marks.take(said(*hosts), NOW)
    assert marks.hosts(NOW) == 3
    marks.take(said({"told_s": 10, "to_s": 0, "job": "", "host": "h1"}), NOW + 10 * S)
    marks.take(said({"told_s": 10, "to_s": 0, "job": "", "host": "h2", "state": "ended"}), NOW + 10 * S)
    assert marks.hosts(NOW + LOST_NS + S) == 1
