"""The ledger of jobs whose truth is known because they were drawn here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.builders.fabrics import T0, S
from tests.builders.small_job import JOB, MS, RANKS, event, relations, slow_rank_job, step, steps, table
from tests.common.analysis_laws import judged

from leadline.analysis.ledger.baseline import baseline, baseline_ns
from leadline.analysis.ledger.ledger import ledger
from leadline.analysis.spec import Window

WINDOW = Window(T0, T0 + 10 * S, job=JOB)
Told = dict[tuple[str, str | None], tuple[float, float]]


def told(window: Window = WINDOW, **rows: Sequence[Mapping[str, Any]]) -> Told:
    """Seconds and lost seconds by category and owner, of a job with these rows."""
    names = ("step", "collective", "operation", "event", "relation", "edge", "baseline")
    found = judged(ledger, {name: table(name, rows.get(name, [])) for name in names}, window)["ledger"]
    columns = (found["category"].to_pylist(), found["owner"].to_pylist(), found["seconds"], found["lost_seconds"])
    out: Told = {}
    for category, owner, seconds, lost in zip(*columns, strict=True):
        before = out.get((category, owner), (0.0, 0.0))
        out[category, owner] = before[0] + float(seconds), before[1] + float(lost)
    return out


def lost(found: Told) -> dict[tuple[str, str | None], float]:
    """Only what was lost."""
    return {key: round(each[1], 2) for key, each in found.items() if each[1] > 0.005}


def baseline_of(**lengths_s: float) -> list[dict[str, Any]]:
    """What is usual: step, input, compute."""
    told_ = {"job": JOB, "end_ns": T0, "window_ns": 60 * S, "count": 50}
    return [{**told_, "what": what, "low_s": s, "median_s": s} for what, s in lengths_s.items()]


# --- presence --------------------------------------------------------------------------------------------------------


def test_a_silent_job_that_is_there_is_unknown_for_want_of_telemetry() -> None:
    assert told(relation=relations(T0 - 60 * S)) == {("unknown", "no telemetry"): (10.0, 0.0)}


def test_a_job_that_ended_well_is_gone() -> None:
    exits = [event(T0 - 2 * S, rank, "process-exit", code="exit/0") for rank in range(RANKS)]
    rows = {"step": steps(T0 - 20 * S, 18), "relation": relations(T0 - 30 * S), "event": exits}
    assert told(**rows) == {}


def test_a_job_is_there_until_its_ranks_leave() -> None:
    exits = [event(T0 + 4 * S, rank, "process-exit", code="exit/0") for rank in range(RANKS)]
    found = told(step=steps(T0 - 20 * S, 24), relation=relations(T0 - 30 * S), event=exits)
    assert sum(each[0] for each in found.values()) == 4.0


def test_without_an_inventory_the_rows_say_when_it_was_there() -> None:
    found = told(step=steps(T0 + 3 * S, 4))
    assert found["compute", None][0] == pytest.approx(4 - 4 * 0.005, abs=1e-5)
    assert sum(each[0] for each in found.values()) == 7.0  # and to the window's end: nobody says that it ended


def test_gpus_are_those_that_ranks_run_on_and_one_for_each_other_rank() -> None:
    rows = {"step": steps(T0 - 5 * S, 15), "relation": relations(T0 - 30 * S, ranks=2)}
    tables = {name: table(name, rows.get(name, [])) for name in
              ("step", "collective", "operation", "event", "relation", "edge", "baseline")}  # fmt: skip
    found = judged(ledger, tables, WINDOW)["ledger"]
    assert (found["gpu_seconds"] == found["seconds"] * RANKS).all()


# --- outages ---------------------------------------------------------------------------------------------------------


def test_an_outage_does_not_belong_to_a_rank_that_said_first_that_it_lost_another() -> None:
    lost = event(T0 + 2 * S, 0, "rank-failed", "error", "RuntimeError")
    events = [{**lost, "message": "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer"}]
    events += [event(T0 + 2 * S + 50 * MS + rank, rank, "process-exit", "error", f"exit/{rank}") for rank in (2, 3)]
    rows = {"step": steps(T0 - 20 * S, 22) + steps(T0 + 7 * S, 3, number=21), "baseline": baseline_of(step=1.0)}
    held = relations(T0 - 30 * S, T0 + 3 * S) + relations(T0 + 5 * S)
    found = told(**rows, event=events, relation=held)
    assert ("restart", f"rank:{JOB}/2") in found
    assert ("restart", f"rank:{JOB}/0") not in found


def test_coming_up_is_no_loss() -> None:
    found = told(step=steps(T0 + 4 * S, 6), relation=relations(T0 - 10 * S))
    assert found["restart", "start-up"] == (4.0, 0.0)


def test_an_outage_belongs_to_the_rank_that_was_killed_not_to_the_first_that_noticed() -> None:
    exits = [
        event(T0 + 2 * S, 0, "process-exit", "error", "exit/1"),
        event(T0 + 2 * S + MS, 2, "process-exit", "error", "signal/SIGKILL"),
    ]
    again = steps(T0 + 7 * S, 3, number=21)
    rows = {"step": steps(T0 - 20 * S, 22) + again, "event": exits, "baseline": baseline_of(step=1.0)}
    held = relations(T0 - 30 * S, T0 + 3 * S) + relations(T0 + 5 * S)
    found = told(**rows, relation=held)
    assert found["restart", f"rank:{JOB}/2"] == (5.0, 5.0)  # from the failure to the first step after
    assert found["restart", "steps done again"] == (1.0, 1.0)  # step 21; 22 and 23 are new
    assert sum(each[0] for each in found.values()) == 10.0


def test_a_new_run_under_the_same_name_does_nothing_again() -> None:
    exits = [event(T0 + 2 * S, rank, "process-exit", code="exit/0") for rank in range(RANKS)]
    held = relations(T0 - 30 * S, T0 + 2 * S) + relations(T0 + 4 * S)
    found = told(step=steps(T0 - 20 * S, 22) + steps(T0 + 5 * S, 5), event=exits, relation=held)
    assert ("restart", "steps done again") not in found
    assert found["restart", "start-up"] == (1.0, 0.0)
    assert sum(each[0] for each in found.values()) == 8.0  # two seconds it was not there


def test_asked_to_stop_is_no_failure() -> None:
    exits = [event(T0 + 2 * S, rank, "process-exit", "error", "exit/143") for rank in range(RANKS)]
    found = told(step=steps(T0 - 20 * S, 22), event=exits, relation=relations(T0 - 30 * S))
    assert not lost(found)
    assert sum(each[0] for each in found.values()) == 2.0


# --- steps alone -----------------------------------------------------------------------------------------------------


def test_a_rank_whose_own_work_is_longer_is_late_and_what_it_costs_is_lost() -> None:
    tables = slow_rank_job()
    rows = {name: tables[name].to_pylist() for name in ("step", "relation", "baseline")}
    found = told(**rows)  # five steps of 1.4 s instead of 1.0
    assert lost(found) == {("straggler", f"rank:{JOB}/1"): 2.0}


def test_input_that_one_rank_waits_for_is_its_input() -> None:
    rows = [
        step(rank, at, T0 + at * 2 * S, 2 * S, data=1005 if rank == 3 else 5, backward=750 if rank == 3 else 1750)
        for at in range(5)
        for rank in range(RANKS)
    ]
    found = told(step=rows, relation=relations(T0 - 1), baseline=baseline_of(step=1.0, input=0.005))
    assert lost(found) == {("input", f"rank:{JOB}/3"): 5.0}


def test_what_is_longer_for_everybody_is_unknown_without_collectives() -> None:
    rows = [step(rank, at, T0 + at * 2 * S, 2 * S, backward=1750) for at in range(5) for rank in range(RANKS)]
    found = told(step=rows, relation=relations(T0 - 1), baseline=baseline_of(step=1.0, input=0.005))
    assert list(lost(found).values()) == [5.0]
    assert next(iter(lost(found)))[0] == "unknown"


def test_a_checkpoint_is_no_lateness() -> None:
    rows = steps(T0, 8) + [
        step(rank, 8, T0 + 8 * S, 2 * S, **({"checkpoint": 1000} if rank == 0 else {})) for rank in range(RANKS)
    ]
    found = told(step=rows, relation=relations(T0 - 1), baseline=baseline_of(step=1.0, input=0.005))
    assert found["checkpoint", None] == (1.0, 0.0)
    assert not lost(found)


def test_ranks_that_tell_no_steps_are_named_where_nothing_is_told() -> None:
    rows = [each for each in steps(T0, 5) if each["rank"] != 2]
    found = told(step=rows, relation=relations(T0 - 1))
    assert found["unknown", f"no steps heard from rank:{JOB}/2"] == (5.0, 0.0)


# --- events ----------------------------------------------------------------------------------------------------------


def test_one_process_that_stands_still_is_waited_for_and_all_are_idle() -> None:
    one = [event(T0 + 1 * S, 2, "process-stopped", "error"), event(T0 + 3 * S, 2, "process-continued")]
    everyone = [event(T0 + 5 * S, rank, "process-stopped", "error") for rank in range(RANKS)]
    found = told(event=one + everyone, step=steps(T0 - 5 * S, 6), relation=relations(T0 - 60 * S))
    assert found["straggler", f"rank:{JOB}/2"] == (2.0, 2.0)
    assert found["idle", "all processes stopped"] == (5.0, 0.0)


def test_where_steps_are_silent_events_speak() -> None:
    events = [
        event(T0 + 2 * S, 0, "evaluation-begin"),
        event(T0 + 4 * S, 0, "evaluation-end"),
        event(T0 + 5 * S, 0, "checkpoint", seconds="0.5"),
    ]
    found = told(event=events, relation=relations(T0 - 60 * S), step=steps(T0 - 20 * S, 5))
    assert found["compute", "evaluation"] == (2.0, 0.0)
    assert found["checkpoint", None] == (0.5, 0.0)


# --- what is usual ---------------------------------------------------------------------------------------------------


def test_the_baseline_is_what_the_best_quarter_took_not_the_best_minute() -> None:
    rows = [{"job": JOB, "what": "step", "end_ns": T0 - at * 60 * S, "window_ns": 60 * S, "count": 50, "low_s": s,
             "median_s": s} for at, s in enumerate([3.0] * 12 + [1.0] * 5)]  # fmt: skip
    odd = {**rows[0], "end_ns": T0 - 3000 * S, "count": 4, "median_s": 0.1}
    assert baseline_ns(table("baseline", [*rows, odd]), "step") == S
    assert baseline_ns(table("baseline", rows), "input") is None


def test_windows_that_differ_from_the_best_by_no_more_than_repetitions_do_are_baseline_too() -> None:
    medians_s = [1.0, 1.02, 1.04, 1.06, 1.08, 1.5, 1.6, 1.7]
    rows = [
        {
            "job": JOB,
            "what": "step",
            "end_ns": T0 - at * 60 * S,
            "window_ns": 60 * S,
            "count": 50,
            "low_s": s - 0.1,
            "median_s": s,
        }
        for at, s in enumerate(medians_s)
    ]
    assert baseline_ns(table("baseline", rows), "step") == round(1.04 * S)


def test_a_minute_tells_its_steps_and_collectives() -> None:
    tables = slow_rank_job()
    window = Window(T0 - 20 * S, T0 + 40 * S, job=JOB)
    found = judged(baseline, tables, window)["baseline"]
    by_what = dict(zip(found["what"].to_pylist(), zip(found["count"], found["median_s"], strict=True), strict=True))
    assert by_what["step"] == (27, 1.0)
    assert by_what["all_reduce 4096 B on 4 of bert-1/0x9c"] == (5, pytest.approx(0.045))
