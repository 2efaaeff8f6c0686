"""What counts as one failure, of which class, of which job, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.failures import MINUTE, WINDOW, at, event, exits, failing_job, places, rows_of, steps

from leadline.analysis.failures.failures import failures
from leadline.analysis.spec import Window
from leadline.runner.execute import InProcess
from leadline.runner.offline import judge_rows

PLACES = [*places("bert-1", 4), *places("moe-2", 2, 5)]


def told(
    events: Iterable[Mapping[str, Any]], step: Iterable[Mapping[str, Any]] = (),
    known: Iterable[Mapping[str, Any]] = (), window: Window = WINDOW, relation: Iterable[Mapping[str, Any]] = PLACES,
    odd: Iterable[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """Rows of `failure` that a window says, by time."""
    found = failures(
        *(rows_of(name, rows) for name, rows in
          (("event", events), ("step", step), ("relation", relation), ("failure", known), ("anomaly", odd))),
        window=window,
    )["failure"]  # fmt: skip
    rows = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    return sorted(rows, key=lambda row: (row["start_ns"], row["entity"]))


def short(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["entity"], row["kind"], row["class"], row["job"]) for row in rows]


def test_a_job_that_dies_of_a_gpu_is_one_failure_of_the_gpu_until_its_rank_steps_again() -> None:
    rows = told([event(10, "gpu:GPU-2", "xid", "79", "h2"), *exits("bert-1", (1, 0, 2, 3), 10.5, "signal/SIGABRT")],
                [*steps("bert-1", range(4), 0, 10), *steps("bert-1", range(4), 40, 55)])  # fmt: skip
    assert short(rows) == [("gpu:GPU-2", "xid", "gpu", "bert-1")]
    assert (rows[0]["gpus"], rows[0]["start_ns"], rows[0]["end_ns"]) == (4, at(10), at(40))
    assert "3 more ends of bert-1 followed" in rows[0]["evidence"]


@pytest.mark.parametrize(
    ("code", "reason", "kind", "of"),
    [
        ("signal/SIGKILL", "oom-kill", "oom-kill", "memory"),
        ("signal/SIGKILL", "", "process-exit", "unknown"),
        ("signal/SIGSEGV", "", "process-exit", "software"),
        ("exit/1", "", "process-exit", "software"),
        ("exit/143", "", "process-exit", "operator"),
        ("signal/SIGTERM", "", "process-exit", "operator"),
        (None, "", "process-exit", "unknown"),
    ],
)
def test_an_end_by_itself_is_of_the_class_that_its_code_tells(code: str, reason: str, kind: str, of: str) -> None:
    rows = told(exits("moe-2", (0,), 5, code, attributes={"reason": reason}))
    assert short(rows) == [("rank:moe-2/0", kind, of, "moe-2")]
    assert rows[0]["end_ns"] is None


def test_an_end_without_error_is_no_failure() -> None:
    assert told(exits("bert-1", range(4), 5, "exit/0")) == []


def test_the_most_telling_of_ends_that_come_together_is_the_first() -> None:
    """Clocks of hosts differ by milliseconds: who lost its peer may seem to have ended before it."""
    rows = told([*exits("bert-1", (0, 2), 5.0, "exit/1"), *exits("bert-1", (3,), 5.2, "signal/SIGSEGV"),
                 *exits("bert-1", (1,), 6.0, "signal/SIGTERM")])  # fmt: skip
    assert short(rows) == [("rank:bert-1/3", "process-exit", "software", "bert-1")]


def test_a_peer_that_gives_up_minutes_later_is_no_second_failure() -> None:
    first = told(exits("bert-1", (3,), 5, "signal/SIGSEGV"))
    later = replace(WINDOW, from_ns=at(600), to_ns=at(660))
    assert told(exits("bert-1", (0, 1, 2), 610, "exit/1"), known=first, window=later) == []
    much_later = replace(WINDOW, from_ns=at(3600), to_ns=at(3660))
    assert len(told(exits("bert-1", (0,), 3610, "exit/1"), known=first, window=much_later)) == 1


def test_a_job_that_came_back_and_died_again_failed_twice() -> None:
    rows = told([*exits("bert-1", range(4), 5, "exit/1"), *exits("bert-1", range(4), 40, "signal/SIGBUS")],
                [*steps("bert-1", range(4), 0, 5), *steps("bert-1", range(4), 20, 40)])  # fmt: skip
    assert [(row["start_ns"], row["end_ns"]) for row in rows] == [(at(5), at(20)), (at(40), None)]


def test_a_dead_link_that_a_job_dies_of_gets_the_job_in_a_later_window() -> None:
    first = told([event(50, "port:h2/eth0", "link-down", None, "h2")])
    assert short(first) == [("port:h2/eth0", "link-down", "network", None)]
    later = replace(WINDOW, from_ns=at(60), to_ns=at(120))
    second = told(exits("bert-1", (1, 0), 70, "exit/1"), known=first, window=later)
    assert short(second) == [("port:h2/eth0", "link-down", "network", "bert-1")]
    assert (second[0]["gpus"], second[0]["start_ns"], second[0]["seen_ns"]) == (4, at(50), at(120))


def test_who_stops_a_job_asks_for_it_whatever_flaps_meanwhile() -> None:
    rows = told([event(5, "port:h2/eth9", "link-down", None, "h2"), *exits("bert-1", range(4), 9, "signal/SIGTERM")])
    assert short(rows)[1] == ("rank:bert-1/0", "process-exit", "operator", "bert-1")


def test_a_link_that_comes_back_ends_its_failure_also_in_a_later_window() -> None:
    known = told([event(50, "port:h2/eth0", "link-down")])
    later = replace(WINDOW, from_ns=at(60), to_ns=at(120))
    rows = told([event(75, "port:h2/eth0", "link-up", severity="info")], known=known, window=later)
    assert [(row["start_ns"], row["end_ns"]) for row in rows] == [(at(50), at(75))]


def test_errors_of_one_kind_within_five_seconds_are_one() -> None:
    xids = [
        event(second, f"gpu:GPU-{gpu}", "xid", "79", f"h{gpu}") for second, gpu in ((1, 1), (3, 2), (3.5, 1), (30, 3))
    ]
    dead = told(xids)
    assert [row["entity"] for row in dead] == ["gpu:GPU-1", "gpu:GPU-2", "gpu:GPU-3"], "each is out until it is reset"
    lines = [event(second, "host:h7", "xid", "79", "h7") for second in (1, 3, 3.5)]  # of GPUs that nobody names
    assert len(told(lines)) == 1


DEAD = event(10, "gpu:GPU-2", "xid", "79", "h2")
DIES = [DEAD, *exits("bert-1", (1, 0, 2, 3), 10.5, "signal/SIGABRT")]


def elsewhere(host: int) -> list[dict[str, Any]]:
    """Rank 1 of bert-1 is put on another GPU, second 30."""
    name = "rank:bert-1/1"
    return [
        {"child": name, "kind": "runs-on", "parent": parent, "from_ns": at(30)}
        for parent in (f"host:h{host}", f"gpu:GPU-{host}")
    ]


def test_a_dead_gpu_is_not_back_because_its_job_goes_on_elsewhere() -> None:
    again = steps("bert-1", range(4), 40, 55)
    spare = [*PLACES, *elsewhere(8)]
    assert [row["end_ns"] for row in told(DIES, again, relation=spare)] == [None]
    neighbour = [*PLACES, *places("moe-9", 1, 2, gpus=False)]  # another job begins on the same host, not on that GPU
    other = [{**each, "host": "h2"} for each in steps("moe-9", range(1), 40, 55)]
    assert [row["end_ns"] for row in told([DEAD], other, relation=[*neighbour, *elsewhere(8)])] == [None]


@pytest.mark.parametrize(
    "back",
    [
        event(45, "gpu:GPU-2", "gpu-ready", None, "ops", severity="info"),
        event(45, "host:h2", "gpu-driver-loaded", None, "h2", severity="info"),
    ],
)
def test_a_dead_gpu_is_back_when_its_driver_is_loaded_anew_or_somebody_says_so(back: Mapping[str, Any]) -> None:
    assert [row["end_ns"] for row in told([*DIES, back], relation=[*PLACES, *elsewhere(8)])] == [at(45)]


@pytest.mark.parametrize(("end_s", "back"), [(50, True), (None, False), (3700, False)])
def test_a_dead_gpu_is_back_when_its_metrics_come_again(end_s: float | None, back: bool) -> None:
    begin_s = 15 if end_s is None or end_s < 60 else 50 - 3700
    silent = {
        "entity": "gpu:GPU-2", "entity_kind": "gpu", "metric": "telemetry.silent", "start_ns": at(begin_s),
        "end_ns": None if end_s is None else at(50), "earliest_ns": at(begin_s), "score": 9.0, "expected": 5.0,
        "seen": 30.0, "direction": "high", "witness": "peers", "reported_ns": at(20), "seen_ns": at(55), "share": 1.0,
    }  # fmt: skip
    rows = told(DIES, relation=[*PLACES, *elsewhere(8)], odd=[silent])
    assert [row["end_ns"] for row in rows] == [at(50) if back else None], "silence of an hour is given up, not over"


def test_gpu_errors_that_leave_the_gpu_running_are_failures_only_if_a_job_dies() -> None:
    remap = event(5, "gpu:GPU-2", "xid", "63", "h2")
    assert told([remap, event(6, "gpu:GPU-2", "xid", "45", "h2")]) == []
    assert short(told([remap, *exits("bert-1", (1,), 20, "exit/1")])) == [("gpu:GPU-2", "xid", "gpu", "bert-1")]
    page_fault = event(5, "gpu:GPU-2", "xid", "31", "h2")
    assert short(told([page_fault, *exits("bert-1", (1,), 6, "exit/1")]))[0][2] == "software"
    assert short(told([remap, *exits("moe-2", (0,), 20, "exit/1")]))[0][0] == "rank:moe-2/0"


def test_what_befell_a_minute_before_the_window_is_known() -> None:
    later = replace(WINDOW, from_ns=at(60), to_ns=at(120))
    rows = told([event(55, "gpu:GPU-2", "xid", "94", "h2"), *exits("bert-1", (1,), 61, "exit/1")], window=later)
    assert [(row["entity"], row["start_ns"]) for row in rows] == [("gpu:GPU-2", at(55))]


def test_a_stopped_process_holds_its_job_until_it_goes_on() -> None:
    rows = told([event(5, "rank:bert-1/2", "process-stopped"),
                 event(25, "rank:bert-1/2", "process-continued", severity="info")])  # fmt: skip
    assert [(*short([row])[0], row["end_ns"]) for row in rows] == [
        ("rank:bert-1/2", "process-stopped", "unknown", "bert-1", at(25))
    ]


def test_a_host_of_which_nothing_is_heard_is_silent_if_its_job_goes_on_or_gives_up() -> None:
    later = replace(WINDOW, from_ns=at(60), to_ns=at(120))
    gone, others = steps("bert-1", (2,), 0, 30), steps("bert-1", (0, 1, 3), 0, 30)
    assert told([], [*gone, *others], window=later) == []  # all stopped: it may be over
    rows = told(exits("bert-1", (0, 1, 3), 100, "exit/1"), [*gone, *others], window=later)
    assert ("host:h3", "silent", "host", "bert-1") in short(rows)
    went_on = told([], [*gone, *steps("bert-1", (0, 1, 3), 0, 115)], window=later)
    assert [(*short([row])[0], row["start_ns"]) for row in went_on] == [("host:h3", "silent", "host", "bert-1", at(30))]
    back = replace(WINDOW, from_ns=at(120), to_ns=at(180))
    closed = told([event(130, "host:h3", "log", None, "h3")], [], known=went_on, window=back)
    assert [row["end_ns"] for row in closed] == [at(130)]


def test_a_host_that_told_of_an_end_is_not_silent_when_its_job_begins_again_elsewhere() -> None:
    before, again = steps("bert-1", range(4), 0, 30), steps("bert-1", (0, 1, 3), 75, 170)
    ended = exits("bert-1", range(4), 30, "exit/1")
    for from_s in (60, 120):
        later = replace(WINDOW, from_ns=at(from_s), to_ns=at(from_s + 60))
        given = [*before, *(each for each in again if each["end_ns"] <= later.to_ns)]
        assert ("host:h3", "silent", "host", "bert-1") not in short(told(ended, given, window=later)), from_s


def test_a_host_on_which_its_job_began_again_may_fall_silent() -> None:
    ended, again = exits("bert-1", range(4), 10, "exit/1"), steps("bert-1", (2,), 20, 50)
    others = steps("bert-1", (0, 1, 3), 20, 118)
    later = replace(WINDOW, from_ns=at(60), to_ns=at(120))
    rows = told(ended, [*steps("bert-1", range(4), 0, 10), *again, *others], window=later)
    assert ("host:h3", "silent", "host", "bert-1") in short(rows)


def test_maintenance_is_of_operators_and_no_silence() -> None:
    step = [*steps("bert-1", (2,), 0, 30), *steps("bert-1", (0, 1, 3), 0, 115)]
    first = told([event(28, "host:h3", "maintenance", None, "h3", severity="info")], step)
    assert short(first) == [("host:h3", "maintenance", "operator", None)]
    later = replace(WINDOW, from_ns=at(60), to_ns=at(120))
    assert told([], step, known=[{**first[0], "end_ns": None}], window=later) == []


def test_windows_one_after_the_other_say_what_one_that_holds_all_would() -> None:
    """Judged minute by minute through the runner, rows read back; the newest row of each failure counts."""
    later = [*exits("bert-1", range(4), 130, "exit/1"), event(58, "port:h1/eth0", "link-down", None, "h1"),
             event(200, "port:h1/eth0", "link-up", None, "h1", severity="info")]  # fmt: skip
    tables = failing_job()
    tables["event"] = pa.concat_tables([tables["event"], rows_of("event", later)])
    tables["step"] = pa.concat_tables([tables["step"], rows_of("step", steps("bert-1", range(4), 150, 170))])
    tables.pop("failure")
    rows = judge_rows(tables, WINDOW.from_ns, WINDOW.from_ns + 5 * MINUTE, [failures], InProcess())[
        "failure"
    ].to_pylist()
    spans = {(row["entity"], row["kind"]): (row["start_ns"], row["end_ns"], row["job"]) for row in rows}
    assert spans == {
        ("gpu:GPU-2", "xid"): (at(10), at(40), "bert-1"),
        ("port:h9/eth0", "link-down"): (at(20), at(23), None),
        ("rank:moe-2/5", "oom-kill"): (at(30), None, "moe-2"),
        ("rank:gone-3/7", "process-exit"): (at(31), None, "gone-3"),
        ("port:h1/eth0", "link-down"): (at(58), at(200), "bert-1"),
    }


def test_a_window_that_is_judged_again_says_the_same() -> None:
    known = told([event(50, "port:h2/eth0", "link-down", None, "h2")])
    later = replace(WINDOW, from_ns=at(60), to_ns=at(120))
    events = [event(75, "port:h2/eth0", "link-up", severity="info"), *exits("moe-2", (0,), 80, "exit/1")]
    once = told(events, known=known, window=later)
    assert len(once) == 2
    assert told(events, known=once, window=later) == once


def of_tenant(rows: Iterable[Mapping[str, Any]], tenant: str) -> list[dict[str, Any]]:
    return [{**row, "tenant": tenant} for row in rows]


def test_jobs_of_two_tenants_that_share_a_name_fail_apart() -> None:
    both = [row for tenant in "ab" for row in of_tenant(places("bert-1", 4), tenant)]
    ends = of_tenant(exits("bert-1", (0,), 10, "exit/1"), "a") + of_tenant(
        exits("bert-1", (1,), 12, "signal/SIGSEGV"), "b"
    )
    goes_on = of_tenant(steps("bert-1", (0,), 0, 50), "b")
    rows = told(ends, goes_on, relation=both)
    assert [(row["tenant"], row["entity"], row["job"], row["gpus"]) for row in rows] == [
        ("a", "rank:bert-1/0", "bert-1", 4), ("b", "rank:bert-1/1", "bert-1", 4)
    ]  # fmt: skip
    assert rows[0]["end_ns"] is None  # the steps are the other's
    assert not any("followed" in row["evidence"] or "\x1f" in row["evidence"] for row in rows)


def test_a_known_failure_of_one_of_two_jobs_of_a_name_ends_with_its_own_steps() -> None:
    both = [row for tenant in "ab" for row in of_tenant(places("bert-1", 4), tenant)]
    (first,) = told(of_tenant(exits("bert-1", (0,), 10, "exit/1"), "a"), relation=both)
    later = replace(WINDOW, from_ns=WINDOW.to_ns, to_ns=WINDOW.to_ns + 60 * 10**9)
    for whose, ends in (("a", 1), ("b", 0)):
        stepping = of_tenant(steps("bert-1", range(4), 70, 100), whose)
        assert len([row for row in told([], stepping, [first], later, both) if row["end_ns"]]) == ends


def test_a_link_that_comes_back_at_the_time_at_which_it_went_is_back() -> None:
    (row,) = told([event(10, "port:h1/eth0", "link-down"), event(10, "port:h1/eth0", "link-up")])
    assert (row["start_ns"], row["end_ns"]) == (at(10), at(10))


def test_what_befell_nothing_that_is_known_is_no_failure() -> None:
    assert told([event(10, "", "link-down"), event(11, "", "xid", "79"), event(12, "", "process-exit", "exit/1")]) == []


def test_of_many_alike_errors_the_last_before_the_end_is_its_cause() -> None:
    lines = [event(second / 10, "host:h1", "storage-error", host="h1") for second in range(300)]
    (row,) = told([*lines, *exits("bert-1", (1,), 20, "exit/1")])
    assert (row["kind"], row["start_ns"]) == ("storage-error", at(25))  # up to 5 s late by another clock


def test_places_that_the_provider_tells_are_those_of_its_tenants_job() -> None:
    ends = of_tenant(exits("bert-1", (0,), 10, "exit/1"), "a")
    (row,) = told(ends, of_tenant(steps("bert-1", (0,), 20, 30), "a"))
    assert (row["tenant"], row["gpus"], row["end_ns"]) == ("a", 4, at(20))
