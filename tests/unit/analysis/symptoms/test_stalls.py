"""Stalls and crashes: who is waited for, and what is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import blamed, both, crashed_job, stuck_job, symptom, tables, window, working
from tests.builders.slow_jobs import told as told_by
from tests.builders.small_job import COMM, JOB, MS, RANKS, collective, event, relations, step, table

from leadline.analysis.spec import Window
from leadline.analysis.symptoms.stalls import stalls


def told(given: Mapping[str, pa.Table], of: Window) -> list[dict[str, Any]]:
    return told_by(stalls, given, of)


def with_calls(given: Mapping[str, pa.Table], calls: list[dict[str, Any]]) -> dict[str, pa.Table]:
    return {**given, "collective": pa.concat_tables([given["collective"], table("collective", calls)])}


def test_who_does_not_come_to_a_collective_is_blamed() -> None:
    (row,) = told(stuck_job(absent=(2,)), window(4, 2))
    assert (row["symptom"], row["entity"], row["end_ns"]) == ("stall", f"job:{JOB}", None)
    assert blamed(row) == [(f"rank:{JOB}/2", "never-entered", "decision:2")]
    assert row["start_ns"] == T0 + 213 * MS  # when the last of those that came did
    assert row["reported_ns"] == T0 + 4 * S
    assert row["lost_gpu_seconds"] == (4 - 0.213) * RANKS


def test_a_collective_is_given_two_seconds() -> None:
    assert told(stuck_job(), window(2, 2)) == []


def test_a_collective_that_usually_takes_long_is_given_three_times_as_long() -> None:
    steps, calls = working(-60, 0, length_s=3.0)  # its first collective takes 2.3 s of it
    calls += [row for rank in (0, 1, 3) for row in both(rank, 40, T0 + 210 * MS, None)]
    assert told(tables(steps, calls), window(6, 2)) == []
    assert len(told(tables(steps, calls), window(8, 2))) == 1


def test_a_stopped_process_is_frozen() -> None:
    (row,) = told(stuck_job((1,), events=[event(T0 + 100 * MS, 1, "process-stopped", "error")]), window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/1", "frozen", "decision:2")]


def test_a_process_that_goes_on_is_not_frozen() -> None:
    events = [event(T0 - 9 * S, 1, "process-stopped", "error"), event(T0 - 8 * S, 1, "process-continued")]
    (row,) = told(stuck_job((2,), events=events), window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/2", "never-entered", "decision:2")]


def test_who_stood_still_when_it_began_is_why_it_lasts_until_it_has_come() -> None:
    events = [event(T0 + 100 * MS, 1, "process-stopped", "error"), event(T0 + 3 * S, 1, "process-continued")]
    given = stuck_job((1,), events=events)
    known = table("symptom", [symptom(0.213, "stall")])
    (row,) = told({**given, "symptom": known}, window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/1", "frozen", "decision:2")]
    (row,) = told(given, window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/1", "never-entered", "decision:2")], "a stall that begins after it went on"


def link_down(port: str, at_ns: int) -> dict[str, Any]:
    told = event(at_ns, 0, "link-down", "error")
    return {**told, "entity_kind": "port", "entity": port}


def test_of_a_collective_that_does_not_end_whose_port_lost_its_carrier_is_blamed() -> None:
    given = stuck_job(absent=(), events=[link_down("port:h1/eth0", T0)])
    (row,) = told(given, window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/1", "stuck", "decision:4")]
    assert row["evidence"][0]["text"].endswith("; port:h1/eth0 lost its carrier")
    everybody = [link_down(f"port:h{host}/eth0", T0) for host in range(RANKS)]
    long_ago = [link_down("port:h1/eth0", T0 - 60 * S)]
    for events in (everybody, long_ago):
        (row,) = told(stuck_job(absent=(), events=events), window(4, 2))
        assert blamed(row) == [(f"comm:{COMM}", "stuck", "decision:4")]


def test_all_came_and_it_does_not_end_is_of_the_communicator() -> None:
    (row,) = told(stuck_job(absent=()), window(4, 2))
    assert blamed(row) == [(f"comm:{COMM}", "stuck", "decision:4")]


def test_a_rank_that_called_something_else_diverged() -> None:
    given = stuck_job(absent=(1,))
    odd = both(1, 40, T0 + 211 * MS, None, bytes=512)
    (row,) = told(
        {**given, "collective": pa.concat_tables([given["collective"], table("collective", odd)])}, window(4, 2)
    )
    assert blamed(row) == [(f"rank:{JOB}/1", "diverged", "decision:3")]
    assert "512 B" in row["evidence"][0]["text"]


def test_the_earliest_group_decides_and_later_ones_are_victims() -> None:
    """Rank 3 waits in another group, which rank 2 does not come to; nobody else waits there."""
    given = stuck_job(absent=(2, 3))
    other = {"comm": f"{JOB}/0xaa", "ranks": 2}
    pair = [
        row for at in (-8, -6) for rank in (2, 3) for row in both(rank, 8 + at, T0 + at * S, T0 + at * S + MS, **other)
    ]
    pair += both(3, 9, T0 + 100 * MS, None, **other)
    (row,) = told(
        {**given, "collective": pa.concat_tables([given["collective"], table("collective", pair)])}, window(4, 2)
    )
    assert blamed(row) == [(f"rank:{JOB}/2", "never-entered", "decision:2")]


def replicas(*events: dict[str, Any], second_ms: int = 110) -> dict[str, pa.Table]:
    """Ranks 0 and 1 compute one replica, 2 and 3 the other; each pair of the same place reduces by itself. Nobody of
    the second replica comes."""
    given = stuck_job(absent=(0, 1, 2, 3), events=list(events))
    calls = []
    for place, comm in enumerate((f"{JOB}/0xaa", f"{JOB}/0xbb")):
        of = {"comm": comm, "ranks": 2}
        for at in (-8, -6, -4):
            for rank in (place, place + 2):
                calls += both(rank, 8 + at, T0 + at * S, T0 + at * S + MS, **of)
        calls += both(place, 9, T0 + (100, second_ms)[place] * MS, None, **of)
    return with_calls(given, calls)


def test_ranks_of_one_replica_are_missing_together_each_in_its_own_group() -> None:
    (row,) = told(replicas(), window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/{rank}", "never-entered", "decision:2") for rank in (2, 3)]
    assert "and what others wait in since then" in row["evidence"][0]["text"]


def test_the_one_that_stands_still_holds_up_its_replica_whichever_group_was_first() -> None:
    stopped = event(T0 + 50 * MS, 3, "process-stopped", "error")
    (row,) = told(replicas(stopped), window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/3", "frozen", "decision:2")]


def test_who_is_missing_in_a_group_that_began_to_wait_much_later_is_another_matter() -> None:
    (row,) = told(replicas(second_ms=1600), window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/2", "never-entered", "decision:2")]


def test_it_is_over_when_a_call_ends() -> None:
    given = stuck_job(absent=(2,))
    late = [row for rank in range(RANKS) for row in both(rank, 40, T0 + (210 + rank) * MS, T0 + 5 * S)]
    given = {**given, "collective": table("collective", [*given["collective"].to_pylist(), *late])}
    known = symptom(0.213, "stall")
    (row,) = told({**given, "symptom": table("symptom", [known])}, window(6, 2))
    assert (row["start_ns"], row["end_ns"]) == (known["start_ns"], T0 + 5 * S)
    assert told(given, window(8, 2)) == []


@pytest.mark.parametrize(("wrote_s", "category"), [(4.5, "checkpoint"), (1.0, "never-entered")])
def test_who_was_missing_while_it_wrote_a_checkpoint_is_told_so_when_it_is_over(wrote_s: float, category: str) -> None:
    given = stuck_job(absent=(2,))
    late = [row for rank in range(RANKS) for row in both(rank, 40, T0 + (210 + rank) * MS, T0 + 5 * S)]
    written = step(2, 19, T0 - S, 6 * S, checkpoint=round(wrote_s * 1000))
    known = symptom(0.213, "stall")
    known["blamed"] = json.dumps([{"owner": f"rank:{JOB}/2", "category": "never-entered", "how": "decision:2",
                                   "lost_gpu_seconds": 1.0, "since_ns": T0}])  # fmt: skip
    given = {
        **given, "collective": table("collective", [*given["collective"].to_pylist(), *late]),
        "step": table("step", [*given["step"].to_pylist(), written]), "symptom": table("symptom", [known]),
    }  # fmt: skip
    (row,) = told(given, window(6, 2))
    assert row["end_ns"] == T0 + 5 * S
    assert [each[1] for each in blamed(row)] == [category]


def test_a_stall_keeps_its_key_while_it_lasts() -> None:
    first = told(stuck_job(), window(4, 2))[0]
    again = {**symptom(0.213, "stall"), "reported_ns": first["reported_ns"]}
    (row,) = told({**stuck_job(), "symptom": table("symptom", [again])}, window(6, 2))
    assert (row["start_ns"], row["reported_ns"]) == (first["start_ns"], first["reported_ns"])
    assert row["lost_gpu_seconds"] > first["lost_gpu_seconds"]


def test_a_job_that_comes_up_does_not_stall() -> None:
    steps, calls = working(-2, 0)
    calls += [row for rank in (0, 1) for row in both(rank, 40, T0 + 210 * MS, None)]
    assert told(tables(steps, calls), window(6, 2)) == []


def test_an_evaluation_is_no_stall() -> None:
    events = [event(T0 + 10 * MS, 2, "evaluation-begin")]
    assert told(stuck_job((2,), events=events), window(6, 2)) == []


def test_a_job_whose_ranks_left_does_not_stall() -> None:
    steps, calls = working(-20, 0)
    places = relations(T0 - 600 * S, T0 + S)
    assert told(tables(steps, calls, places=places), window(20, 2)) == []


def test_a_job_that_tells_steps_and_then_nothing_stalls() -> None:
    steps, _ = working(-20, 0)
    assert told(tables(steps), window(30, 2)) == []  # its first evaluation, or checkpoint
    (row,) = told(tables(steps), window(32, 2))
    assert (row["symptom"], row["blamed"], row["missing"]) == ("stall", [], "collectives")
    assert row["start_ns"] == T0


def test_the_first_that_died_is_blamed_for_a_crash() -> None:
    (row,) = told(crashed_job(), window(2, 2))
    assert (row["symptom"], row["start_ns"]) == ("crash", T0 + 500 * MS)
    assert blamed(row) == [(f"rank:{JOB}/2", "died", "decision:1")]
    assert row["evidence"][1]["entity"] == f"rank:{JOB}/2"


@pytest.mark.parametrize(("port_s", "blames"), [(-0.3, (2,)), (-60.0, (0, 1, 2, 3)), (None, (0, 1, 2, 3))])
def test_of_ranks_that_end_with_an_error_at_once_who_lost_its_port_is_blamed(
    port_s: float | None, blames: tuple[int, ...]
) -> None:
    """Agents see ends each second, so that nobody can say which was the first."""
    events = [event(T0 + (500 + 20 * rank) * MS, rank, "process-exit", "error", "exit/1") for rank in range(4)]
    if port_s is not None:
        events.append(link_down("port:h2/eth0", T0 + round(port_s * S)))
    (row,) = told(tables(*working(-20, 0), events), window(2, 2))
    assert row["symptom"] == "crash"
    assert blamed(row) == [(f"rank:{JOB}/{rank}", "died", "decision:1") for rank in blames]


def test_who_lost_its_port_is_told_so_after_its_job_began_again_elsewhere() -> None:
    events = [event(T0 + 500 * MS, rank, "process-exit", "error", "exit/1") for rank in range(4)]
    steps, calls = working(-20, 0)
    again, more = working(8, 12, number=20, seq=100)
    begun = [{**each, "parent": "host:h9", "from_ns": T0 + 7 * S} for each in relations(T0 - 600 * S)
             if each["child"] == f"rank:{JOB}/2" and str(each["parent"]).startswith("host:")]  # fmt: skip
    given = tables(steps + again, calls + more, [*events, link_down("port:h2/eth0", T0)],
                   places=[*relations(T0 - 600 * S), *begun],
                   symptom=[symptom(0.5, "crash")])  # fmt: skip
    (row,) = told(given, window(12, 2))
    assert (row["symptom"], row["end_ns"]) == ("crash", T0 + 8 * S)
    assert blamed(row) == [(f"rank:{JOB}/2", "died", "decision:1")]


def test_a_collective_that_timed_out_is_of_whom_it_waited_for() -> None:
    """All who gave up are victims: rank 2 never came, and is alive."""
    steps, calls = working(-20, 0)
    events = []
    for rank in (0, 1, 3):
        calls += [
            *both(rank, 40, T0 + 210 * MS, None),
            collective(rank, 40, T0 + 210 * MS, T0 + 12 * S, state="failed"),
        ]
        events.append(event(T0 + 12 * S + (9 + rank) * MS, rank, "process-exit", "error", "exit/1"))
    (row,) = told(tables(steps, calls, events), window(14, 2))
    assert row["symptom"] == "crash"
    assert blamed(row) == [(f"rank:{JOB}/2", "never-entered", "decision:2")]


def test_who_is_told_to_end_does_not_crash() -> None:
    steps, calls = working(-20, 0)
    events = [event(T0 + MS, 0, "process-exit", "error", "signal/SIGTERM")]
    events += [event(T0 + (205 + rank) * MS, rank, "process-exit", "error", "exit/1") for rank in (1, 2, 3)]
    assert told(tables(steps, calls, events), window(2, 2)) == []


def ended_at_once(*more: dict[str, Any]) -> list[dict[str, Any]]:
    """A launcher ends rank 0 because rank 1 failed; a busy agent saw rank 0 first. What is told of it."""
    steps, calls = working(-20, 0)
    events = [event(T0 + MS, 0, "process-exit", "error", "signal/SIGTERM")]
    events += [event(T0 + 17 * MS, 1, "process-exit", "error", "exit/1"), *more]
    return told(tables(steps, calls, events), window(2, 2))


def test_of_ends_that_were_seen_together_the_failure_counts_whichever_was_seen_first() -> None:
    (row,) = ended_at_once()
    assert row["symptom"] == "crash"
    assert blamed(row)[0][:2] == (f"rank:{JOB}/1", "died")


def test_of_ends_that_were_seen_together_who_lost_a_peer_did_not_fail() -> None:
    gave_up = event(T0 + 15 * MS, 1, "rank-failed", "error", "RuntimeError")
    assert ended_at_once({**gave_up, "message": "RuntimeError: Connection closed by peer"}) == []


def test_who_gave_up_before_it_was_ended_is_no_sign_that_somebody_ended_the_job() -> None:
    """Rank 1 fails and takes long to end; rank 0 loses it meanwhile, says so, and is ended by the launcher."""
    steps, calls = working(-20, 0)
    lost = event(T0 + 700 * MS, 0, "rank-failed", "error", "RuntimeError")
    events = [{**lost, "message": "RuntimeError: Connection closed by peer"}]
    events += [event(T0 + 1000 * MS, 0, "process-exit", "error", "signal/SIGTERM")]
    events += [event(T0 + 1000 * MS, 1, "process-exit", "error", "exit/1")]
    (row,) = told(tables(steps, calls, events), window(4, 2))
    assert blamed(row)[0][:2] == (f"rank:{JOB}/1", "died")


def test_of_ends_that_were_seen_together_it_does_not_count_when_others_lost_the_one_that_was_killed() -> None:
    steps, calls = working(-20, 0)
    lost = event(T0 + 80 * MS, 2, "rank-failed", "error", "RuntimeError")
    events = [{**lost, "message": "RuntimeError: Read error: Connection reset by peer"}]
    events += [event(T0 + 263 * MS, rank, "process-exit", "error", "signal/SIGTERM") for rank in (0, 2, 3)]
    events += [event(T0 + 263 * MS, 1, "process-exit", "error", "signal/SIGKILL")]
    (row,) = told(tables(steps, calls, events), window(4, 2))
    assert blamed(row)[0][:2] == (f"rank:{JOB}/1", "died")


def test_a_rank_whose_end_nobody_saw_failed_when_it_said_so() -> None:
    steps, calls = working(-20, 0)
    events = [{**event(T0 + MS, 1, "rank-failed", "error", "ValueError"), "message": "ValueError: a label"}]
    (row,) = told(tables(steps, calls, events), window(2, 2))
    assert (row["symptom"], row["start_ns"]) == ("crash", T0 + MS)
    assert blamed(row)[0][:2] == (f"rank:{JOB}/1", "died")
    later = event(T0 + 3 * S, 1, "process-exit", "error", "exit/1")
    (again,) = told(tables(steps, calls, [*events, later]), window(6, 2))
    assert again["start_ns"] == row["start_ns"], "one crash, whenever the process is gone"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ConnectionResetError", "ConnectionResetError: [Errno 104] Connection reset by peer"),
        ("ReadTimeout", "ReadTimeout: HTTPSConnectionPool(host='hub', port=443): Read timed out."),
        ("RuntimeError", "RuntimeError: DataLoader timed out after 30 seconds"),
    ],
)
def test_a_rank_that_lost_its_storage_or_loader_failed_of_its_own(code: str, message: str) -> None:
    steps, calls = working(-20, 0)
    lost = event(T0 + 40 * MS, 0, "rank-failed", "error", "RuntimeError")
    events = [{**event(T0 + MS, 2, "rank-failed", "error", code), "message": message}]
    events += [{**lost, "message": "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer"}]
    events += [event(T0 + (50 + rank) * MS, rank, "process-exit", "error", "exit/1") for rank in (0, 2)]
    (row,) = told(tables(steps, calls, events), window(2, 2))
    assert blamed(row)[0][:2] == (f"rank:{JOB}/2", "died")


def test_a_rank_that_failed_and_was_killed_before_it_had_ended_failed() -> None:
    """Its end takes 5 s; rank 0 gives up because of it, and the launcher ends the rest."""
    steps, calls = working(-20, 0)
    lost = event(T0 + 40 * MS, 0, "rank-failed", "error", "RuntimeError")
    events = [{**event(T0 + MS, 1, "rank-failed", "error", "ValueError"), "message": "ValueError: a label"}]
    events += [{**lost, "message": "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer"}]
    events += [event(T0 + 90 * MS, 0, "process-exit", "error", "exit/1")]
    events += [event(T0 + 500 * MS, 1, "process-exit", "error", "signal/SIGTERM")]
    (row,) = told(tables(steps, calls, events), window(2, 2))
    assert blamed(row)[0][:2] == (f"rank:{JOB}/1", "died")


def test_what_a_rank_said_in_an_earlier_crash_tells_nothing_of_this_one() -> None:
    steps, calls = working(-20, 0)
    before = event(T0 - 300 * S, 1, "rank-failed", "error", "RuntimeError")
    events = [{**before, "message": "RuntimeError: Connection closed by peer"}]
    events += [event(T0 + MS, 1, "process-exit", "error", "exit/1")]
    events += [event(T0 + 90 * MS, 0, "process-exit", "error", "signal/SIGTERM")]
    (row,) = told(tables(steps, calls, events), window(2, 2))
    assert blamed(row)[0][:2] == (f"rank:{JOB}/1", "died")


def test_a_crash_is_over_when_the_job_steps_again() -> None:
    given = crashed_job()
    steps, calls = working(30, 40, number=20, seq=100)
    given["step"] = table("step", [*given["step"].to_pylist(), *steps])
    given["collective"] = table("collective", [*given["collective"].to_pylist(), *calls])
    given["symptom"] = table("symptom", [symptom(0.5, "crash")])
    rows = told(given, window(40, 2))
    assert [(row["symptom"], row["end_ns"]) for row in rows] == [("crash", T0 + 30 * S)]


def test_a_crash_is_told_once() -> None:
    given = {**crashed_job(), "symptom": table("symptom", [symptom(0.5, "crash", end_s=30)])}
    assert told(given, window(60, 2)) == []


def test_oom_kill_is_told_before_who_was_seen_first() -> None:
    steps, calls = working(-20, 0)
    events = [event(T0 + 200 * MS, 0, "process-exit", "error", "exit/1")]
    events.append(event(T0 + 300 * MS, 3, "process-exit", "error", "signal/SIGKILL", reason="oom-kill"))
    (row,) = told(tables(steps, calls, events), window(2, 2))
    assert blamed(row) == [(f"rank:{JOB}/3", "died", "decision:1")]


def test_the_first_checkpoint_is_no_stall() -> None:
    """Rank 0 writes it, and tells so only when it is over; no pause of the job was seen before."""
    assert told(stuck_job(absent=(0,)), window(28, 2)) == []
    (row,) = told(stuck_job(absent=(0,)), window(32, 2))
    assert blamed(row) == [(f"rank:{JOB}/0", "never-entered", "decision:2")]


def test_a_checkpoint_of_a_job_that_writes_them_is_given_three_times_as_long() -> None:
    events = [event(T0 - 9 * S, 0, "checkpoint", seconds="2.5")]
    assert told(stuck_job(absent=(0,), events=events), window(6, 2)) == []
    assert len(told(stuck_job(absent=(0,), events=events), window(8, 2))) == 1


def test_a_rank_that_is_missing_within_a_step_does_not_pause() -> None:
    """All came to the first collective of the step; rank 0 does not come to the second."""
    steps, calls = working(-20, 0)
    for rank in range(RANKS):
        calls += both(rank, 40, T0 + (210 + rank) * MS, T0 + 500 * MS)
        calls += [] if rank == 0 else both(rank, 41, T0 + (550 + rank) * MS, None, bytes=8192)
    (row,) = told(tables(steps, calls), window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/0", "never-entered", "decision:2")]


@pytest.mark.parametrize("absent", [0, 3])
def test_of_a_job_that_marks_no_steps_who_writes_may_pause_within_one(absent: int) -> None:
    """With one line of the hook a step ends at `optimizer.step()`, so that what comes after it is of the next."""
    steps, calls = working(-20, 0)
    unmarked = [{**row, "forward_ns": None} for row in steps]
    for rank in range(RANKS):
        calls += both(rank, 40, T0 + (210 + rank) * MS, T0 + 500 * MS)
        calls += [] if rank == absent else both(rank, 41, T0 + (550 + rank) * MS, None, bytes=8192)
    assert len(told(tables(unmarked, calls), window(4, 2))) == (0 if absent == 0 else 1)
    assert len(told(tables(unmarked, calls), window(28, 2))) == (0 if absent == 0 else 1)
    assert len(told(tables(unmarked, calls), window(32, 2))) == 1
    # A pause of 3 s was seen: so is its length, and 9 s are waited for.
    longer = [{**row, "end_ns": row["end_ns"] + (3 * S if row["step"] == 19 else 0)} for row in unmarked]
    moved = [{**row, **{name: row[name] - 3 * S for name in ("start_ns", "end_ns")}} for row in longer]
    assert len(told(tables(moved, calls), window(8, 2))) == (0 if absent == 0 else 1)
    assert len(told(tables(moved, calls), window(12, 2))) == 1


def test_a_disk_that_hangs_ends_all_patience() -> None:
    hung = {**event(T0 + S, 0, "hung-task", "error"), "entity": "host:h0", "entity_kind": "host"}
    (row,) = told(stuck_job(absent=(0,), events=[hung]), window(4, 2))
    assert blamed(row) == [(f"rank:{JOB}/0", "never-entered", "decision:2")]
    assert any(each["what"] == "hung-task" for each in row["evidence"])


def test_all_pause_together_for_the_first_time() -> None:
    """A new epoch: three ranks of four are still at it."""
    assert told(stuck_job(absent=(0, 1, 2)), window(28, 2)) == []


def test_the_first_collective_of_its_kind_is_given_longer() -> None:
    steps, calls = working(-20, 0)
    calls += [row for rank in range(RANKS) for row in both(rank, 40, T0 + 210 * MS, None, op="all_gather", bytes=10**9)]
    assert told(tables(steps, calls), window(10, 2)) == []
    assert len(told(tables(steps, calls), window(12, 2))) == 1


def test_a_stall_longer_than_the_look_back_goes_on_as_it_was() -> None:
    known = symptom(0.213, "stall", blamed=json.dumps([_blame(2)]))
    (row,) = told({**tables(), "symptom": table("symptom", [known])}, window(300, 2))
    assert (row["start_ns"], row["end_ns"]) == (known["start_ns"], None)
    assert blamed(row) == [(f"rank:{JOB}/2", "never-entered", "decision:2")]
    assert row["lost_gpu_seconds"] == (300 - 0.213) * RANKS


def test_a_long_stall_is_over_when_the_job_moves_or_nobody_can_wait_any_more() -> None:
    known = table("symptom", [symptom(0.213, "stall")])
    (row,) = told({**tables(*working(298, 302)), "symptom": known}, window(302, 2))
    assert T0 + 298 * S < row["end_ns"] <= T0 + 302 * S
    (row,) = told({**tables(), "symptom": known}, window(3602, 2))
    assert row["end_ns"] == T0 + 3602 * S
    (row,) = told({**tables(places=relations(T0 - 600 * S, T0 + 200 * S)), "symptom": known}, window(300, 2))
    assert row["end_ns"] == T0 + 200 * S


def test_ranks_that_were_begun_anew_are_there_again() -> None:
    """All died and were begun anew; then one does not come."""
    steps, calls = working(-20, 0)
    events = [event(T0 - 30 * S, rank, "process-exit", "error", "exit/1") for rank in range(RANKS)]
    calls += [row for rank in (0, 1, 3) for row in both(rank, 40, T0 + 210 * MS, None)]
    rows = told({**tables(steps, calls, events), "symptom": table("symptom", [symptom(-30, "crash", end_s=-20)])},
                window(4, 2))  # fmt: skip
    assert [blamed(row) for row in rows] == [[(f"rank:{JOB}/2", "never-entered", "decision:2")]]


def test_who_was_stopped_is_blamed_also_when_it_ended_after_the_others_gave_up() -> None:
    steps, calls = working(-20, 0)
    events = [event(T0 + 100 * MS, 2, "process-stopped", "error")]
    for rank in (0, 1, 3):
        calls += [*both(rank, 40, T0 + 210 * MS, None),
                  collective(rank, 40, T0 + 210 * MS, T0 + 12 * S, state="failed")]  # fmt: skip
    events += [event(T0 + (12_010 + rank) * MS, rank, "process-exit", "error", "exit/1") for rank in range(RANKS)]
    (row,) = told(tables(steps, calls, events), window(14, 2))
    assert blamed(row) == [(f"rank:{JOB}/2", "frozen", "decision:2")]


def _blame(rank: int) -> dict[str, Any]:
    return {"owner": f"rank:{JOB}/{rank}", "category": "never-entered", "how": "decision:2", "lost_gpu_seconds": 1.0,
            "since_ns": T0 + 213 * MS}  # fmt: skip
