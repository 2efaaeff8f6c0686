"""Jobs as lists and plots show them: what they lost, their steps, who is late, what happened; nobody else's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.jobs.calls import calls_answer
from leadline.views.jobs.collectives import collectives_answer
from leadline.views.jobs.lateness import _carried, lateness_answer
from leadline.views.jobs.overlays import Mark, joined, overlays_answer, together
from leadline.views.jobs.rows import JobRows
from leadline.views.jobs.steps import steps_answer
from leadline.views.jobs.trace import trace_answer
from leadline.views.jobs.types import (
    CallsAnswer,
    CollectivesAnswer,
    JobAnswer,
    JobsAnswer,
    LatenessAnswer,
    OverlaysAnswer,
    StepsAnswer,
)
from leadline.views.jobs.view import job_answer, jobs_answer

S = 10**9
T0 = 1_750_000_000 * S
END = T0 + 100 * S
RANKS = 4
STEPS = 9
OPERATOR = Principal()
ACME = Principal("acme", "default", Role.TENANT_READ)
BETA = Principal("beta", "default", Role.TENANT_READ)
VERDICT = {"analysis": "ledger", "version": 1, "revision": 0}


def step(rank: int, number: int, seconds: float, job: str = "bert-1", **more: Any) -> dict[str, Any]:
    start_ns = T0 + number * 10 * S
    told = {"start_ns": start_ns, "end_ns": start_ns + round(seconds * S), "host": f"h{rank}", "tokens": 100.0}
    told |= {"loss": 5.0 - number / 10, "data_ns": S // 2, "batch_row": number * RANKS + rank}
    return row("step", **{**told, "job": job, "rank": rank, "step": number, "clock": f"h{rank}/1", "batch": 1, **more})


def call(rank: int, seq: int, came_s: float, left_s: float | None, clock_s: float = 0.0, **more: Any) -> dict[str, Any]:
    """A call by the clock of its rank, which may be wrong."""
    at_ns = T0 + seq * 10 * S + round(clock_s * S)
    return row(
        "collective", **{
            "job": "bert-1", "comm": "bert-1/0x9c", "rank": rank, "seq": seq, "ranks": RANKS, "op": "all_reduce",
            "bytes": 1000, "enqueued_ns": at_ns + round(came_s * S), "host": f"h{rank}", "clock": f"h{rank}/1",
            "finished_ns": None if left_s is None else at_ns + round(left_s * S), "batch": 2,
            "state": "finished", "source": "torch-hook", "batch_row": seq * RANKS + rank, **more,
        }
    )  # fmt: skip


def event(kind: str, entity: str, at_s: float, **more: Any) -> dict[str, Any]:
    return row(
        "event", **{
            "kind": kind, "entity": entity, "entity_kind": entity.partition(":")[0], "time_ns": T0 + round(at_s * S),
            "severity": "error", "batch": 3, "batch_row": round(at_s * 1000), **more,
        }
    )  # fmt: skip


def ledger(window: int, category: str, seconds: float, lost: float = 0.0, **more: Any) -> dict[str, Any]:
    return row(
        "ledger", **{
            **VERDICT, "job": "bert-1", "end_ns": T0 + (window + 1) * 10 * S, "window_ns": 10 * S,
            "category": category, "seconds": seconds, "gpu_seconds": seconds * RANKS, "lost_seconds": lost,
            "lost_gpu_seconds": lost * RANKS, "confidence": 0.8, "depth": "collectives", **more,
        }
    )  # fmt: skip


LATE = 0.4  # of rank 2, in each collective
ROWS = {
    "step": [
        *(step(rank, number, 2.0 + 0.2 * (rank == 3)) for rank in range(RANKS) for number in range(STEPS)),
        step(0, STEPS, 5.0, checkpoint_ns=3 * S),
        step(0, 3, 7.0, tenant="beta"),  # another's job of this name
        step(0, 3, 1.0, job="small-2", tenant="beta"),
        step(0, STEPS, 1.0, job="done-3", tenant="done"),
    ],
    "collective": [
        *(
            call(rank, seq, LATE * (rank == 2), 1.0, clock_s=5.0 * (rank == 1))
            for rank in range(RANKS) for seq in range(STEPS)
        ),
        *(call(rank, STEPS, 0.1 * rank, None, state="enqueued") for rank in range(3)),  # nobody left it
    ],
    "event": [
        event("link-down", "port:h2/eth0", 20, host="h2"),
        event("link-up", "port:h2/eth0", 23, host="h2", severity="info"),
        *(event("evaluation-begin", f"rank:bert-1/{rank}", 40 + rank / 100, severity="info") for rank in range(RANKS)),
        event("xid", "gpu:GPU-1", 50, host="h1", code="79"),
        event("oom-kill", "rank:other-1/0", 55, host="h1"),  # of another job on the same host
        event("link-down", "port:h9/eth0", 60, host="h9"),  # of a host that it does not run on
        event("link-down", "swport:leaf1/Ethernet2", 62, host="leaf1"),  # linked to a port of its host
        event("xid", "gpu:GPU-1", 64, host="h1", tenant="beta", severity="fatal"),
        event("run-info", "rank:bert-1/0", 1, severity="info",
              attributes={"user": "ann", "project": "nlp", "slurm_job": "811", "NCCL_ALGO": "Ring", "image": "bert:7"}),
    ],
    "relation": [
        *(
            row("relation", child=f"rank:done-3/{rank}", parent=f"host:h{rank}", kind="runs-on", from_ns=T0,
                to_ns=END - rank * S, source="x", tenant="done") for rank in range(2)
        ),
        row("relation", child="port:h2/eth0", parent="swport:leaf1/Ethernet2", kind="linked", from_ns=T0, source="x"),
        row("relation", child="rank:bert-1/2", parent="gpu:GPU-2", kind="runs-on", from_ns=T0, source="x"),
    ],
    "ledger": [
        ledger(0, "compute", 8.0), ledger(0, "straggler", 2.0, 2.0, owner="rank:bert-1/2"),
        ledger(1, "communication", 10.0, 1.0), ledger(0, "compute", 10.0, tenant="beta", job="small-2"),
    ],
    "baseline": [
        row("baseline", job="bert-1", what="step", end_ns=T0 + 60 * S, window_ns=60 * S, count=6, low_s=1.9,
            median_s=2.0, analysis="baseline", version=1),
    ],
    "incident": [
        row("incident", incident="bert-1-slow", entity="job:bert-1", job="bert-1", jobs=["bert-1"], symptom="slow",
            start_ns=T0 + 30 * S, reported_ns=T0 + 40 * S, seen_ns=T0 + 90 * S, state="open", verdict="unknown",
            lost_gpu_seconds=8.0, symptoms=json.dumps([]), analysis="cause", version=1),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    rows = {name: [{**each, "tenant": "acme"} if each["tenant"] == "default" else each for each in some]
            for name, some in ROWS.items()}  # fmt: skip
    with filled(tmp_path_factory.mktemp("jobs"), rows) as store:
        yield store


def asked(who: Principal = ACME) -> Asked:
    return Asked(who, "", END, latest=True)


def rows_of(store: Store, who: Principal = ACME, job: str = "bert-1", from_ns: int = T0) -> JobRows:
    return JobRows.of(store, asked(who), job, from_ns)


# --- the list ---


def test_a_job_is_told_with_what_it_lost_and_how_fast_it_goes(store: Store) -> None:
    found = jobs_answer(store, asked(), T0)
    JobsAnswer.model_validate(found)
    (one,) = found["jobs"]
    assert (one["job"], one["ranks"], one["hosts"], one["step"]) == ("bert-1", RANKS, RANKS, STEPS)
    assert (one["step_s"], one["baseline_s"]) == (2.0, 2.0)
    assert one["lost_gpu_seconds"] - one["estimated_gpu_seconds"] == 12.0
    assert one["estimated_gpu_seconds"] == 8.0  # the incident is of a time that the ledger has no window of
    assert one["spent"] == []
    assert one["goodput"] == pytest.approx(17 / 20)
    assert (one["running"], one["incidents_open"], one["incidents_known"]) == (True, 1, 0)
    assert len(one["line"]["t_ns"]) >= STEPS


def test_a_job_says_who_runs_it_and_what_its_scheduler_calls_it(store: Store) -> None:
    one = next(each for each in jobs_answer(store, asked(), T0)["jobs"] if each["job"] == "bert-1")
    assert (one["user"], one["project"]) == ("ann", "nlp")
    assert one["about"] == [
        {"name": "user", "value": "ann"}, {"name": "project", "value": "nlp"}, {"name": "Slurm job", "value": "811"},
        {"name": "image", "value": "bert:7"},
    ]  # fmt: skip


def test_jobs_are_their_owners_and_an_operator_sees_all_apart(store: Store) -> None:
    assert [one["job"] for one in jobs_answer(store, asked(BETA), T0)["jobs"]] == ["bert-1", "small-2"]
    found = jobs_answer(store, asked(OPERATOR), T0)["jobs"]
    assert [(one["tenant"], one["job"]) for one in found] == [
        ("acme", "bert-1"),
        ("beta", "bert-1"),
        ("beta", "small-2"),
        ("done", "done-3"),
    ]
    assert [one["incidents"] for one in found] == [1, 0, 0, 0]


def test_a_job_whose_ranks_all_left_is_over_before_its_silence_says_so(store: Store) -> None:
    done = Principal("done", "default", Role.TENANT_READ)
    (one,) = jobs_answer(store, asked(done), T0)["jobs"]
    assert (one["job"], one["running"]) == ("done-3", False)
    (one,) = jobs_answer(store, replace(asked(done), at_ns=END - S // 2), T0)["jobs"]
    assert one["running"]  # one of its ranks is still there


def test_a_job_without_a_ledger_says_so_and_is_no_loss_of_zero(store: Store) -> None:
    one = next(each for each in jobs_answer(store, asked(BETA), T0)["jobs"] if each["job"] == "bert-1")
    assert one["lost_gpu_seconds"] is None
    assert one["goodput"] is None
    assert "no window of it was analysed" in one["why"]


def test_the_list_is_cut_to_what_is_asked_for(store: Store) -> None:
    found = jobs_answer(store, asked(OPERATOR), T0, match="SMALL")
    assert [one["job"] for one in found["jobs"]] == ["small-2"]
    cut = jobs_answer(store, asked(OPERATOR), T0, limit=1)
    assert (len(cut["jobs"]), cut["jobs_total"]) == (1, 4)
    assert jobs_answer(store, asked(), END - S)["jobs"] == []
    with pytest.raises(UsageError, match="400 days"):
        jobs_answer(store, asked(), T0 - 500 * 24 * 3600 * S)


# --- one job ---


def test_one_job_has_its_places_communicators_and_runs(store: Store) -> None:
    found = job_answer(rows_of(store))
    JobAnswer.model_validate(found)
    assert found["now"]["job"] == "bert-1"
    assert found["ranks"][2] == {"rank": 2, "host": "h2", "gpu": "gpu:GPU-2"}
    assert found["communicators"] == [{"comm": "bert-1/0x9c", "size": RANKS, "told": RANKS, "collectives": STEPS + 1}]
    assert found["runs"][0]["from_ns"] == T0


def test_of_two_jobs_of_one_name_an_operator_is_told_which_one_it_is(store: Store) -> None:
    found = job_answer(rows_of(store, OPERATOR))
    assert found["tenant"] == "acme"  # of the two the one that has a ledger
    assert job_answer(rows_of(store, BETA))["now"]["ranks"] == 1


def test_a_job_that_nobody_tells_of_says_what_to_do(store: Store) -> None:
    found = job_answer(rows_of(store, job="bert-9"))
    assert found["now"] is None
    assert "did you mean bert-1?" in found["why"]
    late = job_answer(rows_of(store, from_ns=END - S))
    assert "in this span; its newest step ended" in late["why"]


# --- its plots ---


def test_steps_are_binned_with_their_spread_over_ranks(store: Store) -> None:
    found = steps_answer(rows_of(store), 10)
    StepsAnswer.model_validate(found)
    assert found["bin_ns"] == 10 * S
    assert found["step"] == list(range(STEPS + 1))
    assert [found["step_s"][name][0] for name in ("p50", "low", "high")] == [2.0, 2.0, 2.2]
    assert found["step_s"]["p50"][-1] == 2.0  # writing a checkpoint is no part of a step
    assert found["phases"]["checkpoint"][-1] == 3.0
    assert found["phases"]["forward"] == [None] * (STEPS + 1)
    assert found["loss"][:2] == [5.0, 4.9]
    assert found["tokens_per_s"][0] == pytest.approx(100 * RANKS / 2.05, rel=1e-4)
    assert found["baseline_s"] == 2.0


def test_steps_of_others_are_not_among_them(store: Store) -> None:
    assert steps_answer(rows_of(store, BETA), 10)["step"] == [3]
    assert "no step of bert-1 in this span" in steps_answer(rows_of(store, from_ns=END - S), 10)["why"]


def test_lateness_is_told_by_each_ranks_own_clock(store: Store) -> None:
    found = lateness_answer(rows_of(store), 10)
    LatenessAnswer.model_validate(found)
    assert found["ranks"] == ["0", "1", "2", "3"]
    assert found["late_s"][2][:STEPS] == [pytest.approx(LATE)] * STEPS
    assert found["late_s"][0][:STEPS] == [0.0] * STEPS
    assert found["late_s"][1][:STEPS] == [0.0] * STEPS  # its clock is 5 s ahead
    assert found["sum_s"] == pytest.approx([0, 0, LATE * STEPS + 0.1, 0])


def test_of_a_collective_that_nobody_left_the_clocks_tell_who_came_late(store: Store) -> None:
    found = lateness_answer(rows_of(store), 10)
    assert [row[-1] for row in found["late_s"]] == [0.0, 0.0, pytest.approx(0.1), None]


def test_bins_are_as_wide_as_collectives_are_apart(store: Store) -> None:
    found = lateness_answer(rows_of(store), 400)
    assert found["bin_ns"] < 10 * S
    assert len(found["t_ns"]) * found["bin_ns"] >= 100 * S
    assert lateness_answer(rows_of(store, job="bert-9"), 10)["ranks"] == []


def test_between_two_calls_nothing_is_missing_but_in_a_long_silence() -> None:
    nan = float("nan")
    found = _carried([nan, 1.0, nan, 3.0, nan, nan, nan, nan, 5.0, nan])
    assert [None if each != each else each for each in found] == [None, 1.0, 3.0, 3.0, *[None] * 4, 5.0, None]


def test_collectives_take_as_long_as_the_last_is_in_them(store: Store) -> None:
    found = collectives_answer(rows_of(store))
    CollectivesAnswer.model_validate(found)
    (one,) = found["kinds"]
    assert (one["op"], one["count"], one["unfinished"], one["partly_told"]) == ("all_reduce", STEPS + 1, 1, 1)
    assert one["took_p50_s"] == pytest.approx(0.6)
    assert one["bus_bytes_s"] == pytest.approx(1000 * 1.5 / 0.6)
    assert (one["last_rank"], one["last_share"]) == (2, 1.0)
    assert collectives_answer(rows_of(store, BETA))["kinds"] == []


# --- what happened ---


def test_a_cell_opens_into_single_collectives_with_every_arrival(store: Store) -> None:
    told = calls_answer(rows_of(store, from_ns=T0), 2)
    CallsAnswer.model_validate(told)
    first = told["calls"][0]
    assert (first["seq"], first["op"], first["late_s"], first["told"]) == (0, "all_reduce", LATE, RANKS)
    assert [each["rank"] for each in first["arrivals"]] == [0, 3, 2, 1]  # rank 1's clock is 5 s ahead
    assert told["calls"][-1]["took_s"] is None  # nobody left it
    cell = JobRows(store, replace(asked(), at_ns=T0 + 20 * S), "bert-1", "acme", T0 + 10 * S)
    assert [each["seq"] for each in calls_answer(cell, 2)["calls"]] == [1]


def test_a_trace_is_what_perfetto_reads(store: Store) -> None:
    told = json.loads(json.dumps(trace_answer(rows_of(store)), allow_nan=False))
    events = told["traceEvents"]
    for each in events:  # what the format requires of each phase
        assert {"ph", "pid", "tid", "ts", "name"} <= each.keys()
        assert each["ph"] in "MXi"
        assert each["ph"] != "X" or each["dur"] >= 0
        assert each["ph"] != "i" or each["s"] in "gpt"
    names = {each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert {"rank 0 on h0", "rank 3 on h3", "job bert-1: events and incidents"} <= names
    step = next(each for each in events if each["name"] == "step 1" and each["pid"] == 3)
    assert (step["ts"], step["dur"]) == (10e6, 2.2e6)  # us from the begin of the span
    data = next(each for each in events if each["name"] == "data" and each["ts"] == 10e6 and each["pid"] == 3)
    assert data["dur"] == 0.5e6
    assert {each["name"] for each in events if each.get("cat") == "collective"} == {"all_reduce"}
    assert [each["s"] for each in events if each["name"].startswith("xid 79")] == ["g"]


def test_slices_of_one_thread_of_a_trace_nest(store: Store) -> None:
    ends: dict[tuple[int, int], float] = {}
    slices = [each for each in trace_answer(rows_of(store))["traceEvents"] if each["ph"] == "X"]
    assert slices
    for each in sorted(slices, key=lambda one: one["ts"]):
        thread = (each["pid"], each["tid"])
        assert each["ts"] >= ends.get(thread, 0.0)
        ends[thread] = each["ts"] + each["dur"]


def test_what_happened_to_it_and_below_it_is_told_and_nothing_else(store: Store) -> None:
    found = overlays_answer(rows_of(store))
    OverlaysAnswer.model_validate(found)
    told = {(each["text"], each["end_ns"] is not None) for each in found["overlays"]}
    assert told == {
        ("link-down of port:h2/eth0", True),
        ("evaluation-begin of 4 ranks", False),
        ("xid 79 of gpu:GPU-1", False),
        ("link-down of swport:leaf1/Ethernet2", False),
        (f"checkpoint in step {STEPS}", True),
        ("bert-1 is slow and lost 8 GPU-s, cause unknown", False),
    }
    assert [each["incident"] for each in found["overlays"] if each["kind"] == "incident"] == ["bert-1-slow"]


def mark(kind: str, at: int, entity: str = "port:h1/eth0") -> Mark:
    return Mark(at, None, kind, entity, 1, "error", kind, 1)


def test_what_ends_again_is_one_mark_and_the_same_soon_after_too() -> None:
    found = joined(
        [mark("link-down", 1), mark("link-up", 3), mark("link-down", 5), mark("link-up", 9), mark("link-up", 11)]
    )
    assert [(each.kind, each.time_ns, each.end_ns) for each in found] == [
        ("link-down", 1, 3), ("link-down", 5, 9), ("link-up", 11, None),
    ]  # fmt: skip
    one, *rest = together(found, 6)
    assert (one.time_ns, one.end_ns, one.text) == (1, 9, "link-down of port:h1/eth0, 2 times")
    assert len(rest) == 1
    assert len(together(found, 1)) == 3
