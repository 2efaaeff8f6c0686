"""The cells of a matrix, what is left of it, how long that takes, and what proves a fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.faults import FAULTS
from leadline.lab.matrix import plan
from leadline.lab.matrix.journal import BUNDLE, FILE, LOCK, SCENARIO, TRUTH, Ended, Journal, estimate
from leadline.lab.matrix.plan import Cell, Times
from leadline.lab.matrix.report import as_markdown, moved_signals, report
from leadline.lab.matrix.whole import lacks
from leadline.lab.run import plan_for
from leadline.lab.scenarios.spec import parse
from leadline.lab.topology import load
from leadline.lab.truth import MAGNITUDES, Entry, TruthFile
from leadline.lab.workloads import WORKLOADS
from leadline.model.errors import DataError, UsageError, WorldError
from leadline.simulator.write import bundle_sink

A = Cell("slow-link", "small", "rings", 1)
B = Cell("slow-link", "large", "rings", 1)


def test_all_faults_of_all_magnitudes_are_scenarios_that_can_be_run() -> None:
    everything = plan.cells(plan.chosen_faults("all,none"), MAGNITUDES, ["rings", "bert"], [1, 2])
    assert {cell.fault for cell in everything} == {each.name for each in FAULTS} | {"none"}
    assert len({cell.name for cell in everything}) == len(everything)
    for cell in everything:
        scenario = parse(plan.scenario_text(cell, Times()), cell.name)
        assert scenario.name == cell.name
        assert [each.fault.name for each in scenario.faults if not each.decoy] == [cell.fault] * (cell.fault != "none")
        assert all(each.magnitude == cell.magnitude for each in scenario.faults if not each.decoy)


def test_a_matrix_that_is_stopped_early_has_seen_every_fault_first() -> None:
    names = plan.chosen_faults("all")
    everything = plan.cells(names, MAGNITUDES, ["rings"], [1, 2])
    assert {cell.fault for cell in everything[: len(names)]} == set(names)


def test_a_fault_gets_a_workload_that_can_suffer_it() -> None:
    for kind in FAULTS:
        for cell in plan.cells([kind.name], ["medium"], ["rings"], [1]):
            assert not kind.workloads or cell.workload in kind.workloads


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: plan.chosen_faults("slow-lnk"), "did you mean slow-link"),
        (lambda: plan.chosen_workloads("berd"), "did you mean bert"),
        (lambda: plan.chosen_magnitudes("huge"), "small, medium, large"),
        (lambda: plan.chosen_seeds("3-1"), "got '3-1'"),
        (lambda: plan.chosen_seeds("x"), "numbers like 1 or 1-3"),
        (lambda: plan.chosen_seeds("1-99999999999"), "--seeds: expected at most 10000 numbers, got 1-99999999999"),
        (lambda: plan.cells(["none"] * 50, MAGNITUDES, ["rings"], range(9000)), "at most 100000 cells, got 1350000"),
    ],
)
def test_what_is_not_known_is_refused_with_what_there_is(ask: object, told: str) -> None:
    assert callable(ask)
    with pytest.raises(UsageError, match=told):
        ask()


def test_seeds_are_ranges_and_lists() -> None:
    assert plan.chosen_seeds("1-3,7,2") == [1, 2, 3, 7]


def finish(journal: Journal, cell: Cell, took_s: float = 30.0) -> None:
    """As a run that ended well leaves it."""
    journal.directory.mkdir(exist_ok=True)
    journal.path(cell, BUNDLE).write_bytes(b"x" * 10)
    TruthFile(journal.path(cell, TRUTH), cell.name, cell.seed).save()
    journal.write(Ended(cell.name, "done", cell.workload, took_s, 10, "0"))


def test_a_matrix_goes_on_with_exactly_what_is_missing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.left([A, B]) == [A, B]
    finish(journal, A)
    journal.write(Ended(B.name, "failed", "rings", 5.0, 0, "0", "exit code 3"))
    again = Journal(tmp_path)
    assert again.left([A, B]) == []
    assert again.left([A, B], again=True) == [B]
    again.path(A, TRUTH).unlink()
    assert Journal(tmp_path).left([A, B]) == [A]
    finish(again, A)
    again.path(A, BUNDLE).write_bytes(b"cut")
    assert Journal(tmp_path).left([A, B]) == [A]


def test_a_journal_whose_writer_was_killed_is_read_and_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    finish(journal, A)
    whole = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(whole + whole[: len(whole) // 2])
    half = Journal(tmp_path)
    assert half.left([A, B]) == [B]
    finish(half, B)
    assert Journal(tmp_path).left([A, B]) == []


def test_a_directory_has_one_matrix_at_a_time(tmp_path: Path) -> None:
    with (
        Journal(tmp_path).claim(5.0),
        pytest.raises(UsageError, match=rf"another matrix \(process {os.getpid()}\) is at work in it"),
        Journal(tmp_path).claim(5.0),
    ):
        pass
    with Journal(tmp_path).claim(0.0):  # the one before has let go
        pass


def test_cells_that_outlive_their_matrix_are_waited_for(tmp_path: Path) -> None:
    """The cell inherits the claim; its matrix is dead, as the process number in the file says."""
    with Journal(tmp_path).claim(0.0) as claimed:
        cell = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(claimed,))
    try:
        (tmp_path / LOCK).write_text("4194305\n")  # above the largest process number that Linux gives
        with pytest.raises(UsageError, match="cells of a matrix that was killed are still at work"):
            Journal(tmp_path).claim(0.0).__enter__()
    finally:
        cell.communicate(b"\n", timeout=20)
    began = time.monotonic()
    with Journal(tmp_path).claim(20.0):
        assert time.monotonic() - began < 20


def test_a_directory_that_cannot_be_is_told() -> None:
    with pytest.raises(WorldError, match=r"expected a directory that can be written, got .*/dev/null/x"):
        Journal(Path("/dev/null/x")).claim(0.0).__enter__()


def test_a_matrix_has_one_time_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    finish(journal, A)
    journal.path(A, SCENARIO).write_text(plan.scenario_text(A, Times()))
    journal.require_same({A: plan.scenario_text(A, Times()), B: plan.scenario_text(B, Times(3.0))})
    with pytest.raises(UsageError, match=r"is there with duration_s 68\.0, and would have 73\.0 now"):
        journal.require_same({A: plan.scenario_text(A, Times(50.0))})
    with pytest.raises(UsageError, match="with topology quad, and would have clos8 now"):
        journal.require_same({A: plan.scenario_text(A, Times(), "clos8")})


def test_a_cell_of_every_workload_can_be_planned() -> None:
    for workload in WORKLOADS:
        text = plan.scenario_text(Cell(plan.HEALTHY, "medium", workload, 1), Times())
        jobs = plan_for(parse(text, workload), load(plan.PRESET), 1).jobs
        # A cell lasts half a minute: whoever has done all before has no fault then.
        assert getattr(jobs[0], "steps", 0) == 0


def test_a_bundle_without_what_it_was_run_for_is_not_done(tmp_path: Path) -> None:
    bundle, truth = tmp_path / f"a{BUNDLE}", tmp_path / f"a{TRUTH}"
    assert "a.leadline" in lacks(A, bundle, truth)
    bundle.write_bytes(b"half of it")
    assert "a.leadline" in lacks(A, bundle, truth)
    bundle.unlink()
    with closing(bundle_sink(bundle, 0, 10, "server: {}\n")) as sink:
        sink.finish()
    TruthFile(truth, A.name, 1).save()
    assert lacks(A, bundle, truth) == "a.leadline has no rows of series, metric_sample, relation, collective"


def test_another_file_of_that_name_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"kind": "something else"}) + "\n")
    with pytest.raises(DataError, match="line 1"):
        Journal(tmp_path)


@given(
    st.lists(st.sampled_from(["rings", "bert"]), max_size=20),
    st.dictionaries(st.sampled_from(["rings", "bert"]), st.lists(st.floats(1, 1000), max_size=30)),
    st.integers(1, 8),
)
def test_an_estimate_lies_between_its_bounds_and_falls_with_what_is_left(
    kinds: list[str], seen: dict[str, list[float]], parallel: int
) -> None:
    left = [Cell("slow-link", "small", kind, number) for number, kind in enumerate(kinds)]
    found = estimate(left, seen, 40.0, parallel)
    assert found.low_s <= found.seconds * (1 + 1e-9)
    assert found.seconds <= found.high_s * (1 + 1e-9)
    if left:
        assert estimate(left[1:], seen, 40.0, parallel).seconds < found.seconds
    else:
        assert found.seconds == 0.0


def test_an_estimate_takes_each_workload_by_its_own_times() -> None:
    seen = {"rings": [10.0] * 5, "bert": [50.0] * 5}
    assert estimate([A, replace(A, workload="bert")], seen, 1.0, 2).seconds == 30.0
    assert estimate([replace(A, workload="vision")], seen, 1.0, 1).seconds == 30.0  # not seen: as any other


def entry(before: dict[str, object], after: dict[str, object], fault: str = "flapping-link") -> Entry:
    seen = {"before": before, "after": after}
    return Entry(fault, ("link:a~b",), "network", "transient", 1, 2, lost_gpu_seconds=4.0, seen=seen)


def test_only_the_signal_of_a_fault_proves_it() -> None:
    quiet: dict[str, object] = {"leaf1/Ethernet1": {"carrier_changes": 2, "tx_packets": 10}}
    flapped: dict[str, object] = {"leaf1/Ethernet1": {"carrier_changes": 8, "tx_packets": 99}}
    only_traffic: dict[str, object] = {"leaf1/Ethernet1": {"carrier_changes": 2, "tx_packets": 99}}
    assert moved_signals(entry(quiet, flapped)) == ["leaf1/Ethernet1 carrier_changes: 2 -> 8"]
    assert moved_signals(entry(quiet, only_traffic)) == []


def test_the_report_counts_bundles_and_says_what_has_no_proof(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    proven, unproven = Cell("flapping-link", "small", "rings", 1), Cell("flapping-link", "large", "rings", 1)
    for cell, after in ((proven, 8), (unproven, 2)):
        finish(journal, cell)
        truth = TruthFile(journal.path(cell, TRUTH), cell.name, 1)
        truth.plan(entry({"p": {"carrier_changes": 2}}, {"p": {"carrier_changes": after}}))
    found = report([proven, unproven, A], journal)
    assert [(each.fault, each.bundles, each.unproven) for each in found] == [
        ("flapping-link", 2, 1),
        ("slow-link", 0, 0),
    ]
    page = as_markdown(found)
    assert "2 bundles of 2 faults, 0 cells failed, 1 unproven." in page
    assert "| flapping-link | lab | 2 | 1/0/1 | small 4.0, large 4.0 | p carrier_changes: 2 -> 8 |" in page


def test_every_fault_says_what_proves_it() -> None:
    assert [kind.name for kind in FAULTS if not kind.signal] == []
