"""What a fault cost and when it hurt first, on steps whose cost is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evals.runs.truth import Work, read_truth, truth_of, with_open_end, works_of

from leadline.lab.incidents import incident
from leadline.model.errors import LeadlineError
from leadline.store.bundle import read_bundle

S = 10**9


def entry(fault: str, from_s: float, to_s: float | None, **more: Any) -> dict[str, Any]:
    end_ns = None if to_s is None else round(to_s * S)
    return {
        "fault": fault, "component": ["host:h2"], "layer": "host", "class": "gray", "onset_ns": round(from_s * S),
        "end_ns": end_ns, **more,
    }  # fmt: skip


def job(*lengths_s: float, ranks: int = 4) -> Work:
    """A job whose steps follow each other from second 0."""
    steps, at_s = [], 0.0
    for each in lengths_s:
        steps.append((round(at_s * S), round((at_s + each) * S)))
        at_s += each
    return Work("j", tuple(steps), ranks, ranks)


def test_a_fault_cost_what_its_steps_took_beyond_usual_on_all_ranks() -> None:
    work = job(*[1.0] * 10, *[2.0] * 5, *[1.0] * 10)
    (trouble,) = truth_of([entry("slow-worker", 10, 20)], [work], 0, 30 * S).troubles
    (fault,) = trouble.faults
    assert fault.lost == pytest.approx(5 * 4)
    assert fault.share == pytest.approx(0.5)
    assert fault.costs
    assert not trouble.stalled


def test_what_steps_vary_by_anyway_is_no_cost() -> None:
    work = job(*[0.9, 1.1] * 15)
    (trouble,) = truth_of([entry("loop-bug", 10, 20)], [work], 0, 30 * S).troubles
    assert trouble.faults[0].share == pytest.approx(0.0, abs=0.01)
    assert trouble.costing == ()


def test_the_first_lost_second_is_when_the_first_slow_step_begins_but_not_before_the_fault() -> None:
    steps = [*[1.0] * 10, *[1.0] * 3, *[2.0] * 3, *[1.0] * 5]
    late, at_once = (
        truth_of([entry("slow-link", begin, 19)], [job(*steps)], 0, 25 * S).troubles[0].first_lost_ns / S
        for begin in (10, 13.5)
    )
    assert (late, at_once) == (13.0, 13.5)


def test_a_job_may_stand_still_between_two_steps() -> None:
    steps = [(at * S, (at + 1) * S) for at in [*range(10), *range(16, 20)]]
    (trouble,) = truth_of([entry("flapping-link", 9.5, 18)], [Work("j", tuple(steps), 4, 4)], 0, 20 * S).troubles
    assert trouble.stalled
    assert trouble.first_lost_ns == 10 * S
    assert trouble.faults[0].lost == pytest.approx(5 * 4), "six seconds, less a step's usual one, on four GPUs"


def test_a_job_that_died_loses_until_the_end_of_the_recording() -> None:
    (trouble,) = truth_of([entry("oom-kill", 10, None)], [job(*[1.0] * 10)], 0, 30 * S).troubles
    assert trouble.stalled
    assert trouble.end_ns == 30 * S
    assert trouble.faults[0].share == pytest.approx(0.95)  # 19 of 20 s: a step of usual length is no loss


def test_a_job_whose_recording_ends_within_a_step_did_not_stall() -> None:
    steps = job(*[1.0] * 10).steps
    assert with_open_end(steps, 11 * S) == list(steps)


def test_faults_that_overlap_are_one_trouble_and_decoys_are_none() -> None:
    entries = [
        entry("slow-worker", 10, 15), entry("slow-link", 14, 18), entry("oom-kill", 18, 19),
        entry("log-noise", 11, 12, decoy=True),
    ]  # fmt: skip
    truth = truth_of(entries, [job(*[1.0] * 20)], 0, 20 * S)
    assert [each.name for each in truth.troubles] == ["slow-worker + slow-link", "oom-kill"]
    assert [each.name for each in truth.decoys] == ["log-noise"]


def test_without_steps_nothing_is_known_to_cost_anything() -> None:
    (trouble,) = truth_of([entry("stale-source", 10, 15)], [], 0, 20 * S).troubles
    assert (trouble.costing, trouble.first_lost_ns, trouble.stalled) == ((), 10 * S, False)


def test_costs_are_those_that_the_lab_wrote_down() -> None:
    path = incident("slow-loader")
    entries = read_truth(path.with_name("slow-loader.truth.json"))
    with read_bundle(path) as bundle:
        works = works_of(bundle)
        truth = truth_of(entries, works, bundle.manifest.from_ns, bundle.manifest.to_ns)
    assert [(work.job, work.ranks) for work in works] == [("bert-1", 8)]
    assert truth.troubles[0].faults[0].lost == pytest.approx(entries[0]["lost_gpu_seconds"], rel=0.01)


@pytest.mark.parametrize("text", ["", "[]", '{"faults": [{"fault": "oom-kill"}]}', '{"faults": 3}'])
def test_a_file_that_is_no_truth_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.truth.json"
    path.write_text(text)
    with pytest.raises(LeadlineError, match=r"expected (a truth file|faults with)"):
        read_truth(path)


def test_a_truth_file_of_a_healthy_run_has_no_faults(tmp_path: Path) -> None:
    path = tmp_path / "run.truth.json"
    path.write_text(json.dumps({"faults": [], "seed": 1, "scenario": "healthy"}))
    assert read_truth(path) == []
