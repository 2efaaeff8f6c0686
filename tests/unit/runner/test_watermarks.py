"""How far data has come, by the word of its senders; and jobs that are judged later than others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.incidents import Names, rows_of

from leadline.model.tables.fabric import WATERMARK
from leadline.runner.behind import Behind
from leadline.runner.watermarks import GIVE_UP_NS, LATE_NS, LOST_NS, Job, Watermarks

S = 10**9
NOW = 1_750_000_000 * S
JOB = Job("acme", "lab", "bert")


def said(*rows: dict[str, Any]) -> pa.Table:
    """Rows of senders; times in seconds before or after `NOW`."""
    usual = {"host": "h1", "sender": "agent", "job": "bert", "ranks": 2, "state": "open", "clock": "h1/1"}
    whole = [
        {**usual, **row, "told_ns": NOW + round(row["told_s"] * S), "to_ns": NOW + round(row["to_s"] * S)}
        for row in rows
    ]
    known = {column.name for column in WATERMARK.columns}
    found = [{name: value for name, value in row.items() if name in known} for row in whole]
    return rows_of(WATERMARK, [{**row, "tenant": "acme", "cluster": "lab"} for row in found], Names())


def test_a_job_has_come_as_far_as_the_last_of_its_senders() -> None:
    marks = Watermarks()
    assert marks.of_job(JOB, NOW) is None
    marks.take(said({"told_s": 0, "to_s": -1}, {"told_s": 0, "to_s": -9, "host": "h2"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - 9 * S
    marks.take(said({"told_s": 1, "to_s": 0.5, "host": "h2"}), NOW + S)
    assert marks.of_job(JOB, NOW + S) == NOW - S


def test_who_has_ended_is_waited_for_no_more() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1}, {"told_s": 0, "to_s": -9, "host": "h2", "state": "ended"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - S
    assert not marks.has_ended(JOB)
    marks.take(said({"told_s": 1, "to_s": 1, "state": "ended"}), NOW + S)
    assert marks.of_job(JOB, NOW + S) is None
    assert marks.has_ended(JOB)


def test_an_older_word_changes_nothing_and_a_restart_of_the_host_counts() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1}), NOW)
    marks.take(said({"told_s": -5, "to_s": -6, "state": "ended"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - S
    marks.take(said({"told_s": 1, "to_s": -3}), NOW)  # an agent that begins anew knows less than we were told
    assert marks.of_job(JOB, NOW) == NOW - S
    marks.take(said({"told_s": -100, "to_s": -101, "clock": "h1/2"}), NOW)
    assert marks.of_job(JOB, NOW) == NOW - 101 * S


def test_a_lost_sender_is_waited_for_until_it_is_given_up() -> None:
    marks = Watermarks()
    marks.take(said({"told_s": 0, "to_s": -1}), NOW)
    assert marks.of_job(JOB, NOW + GIVE_UP_NS) == NOW - S
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
