"""Windows judged in the order in which they close."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.fabrics import T0
from tests.builders.slow_jobs import stuck_job, working
from tests.builders.small_job import table

from leadline.analysis import ANALYSES
from leadline.lab.incidents import incident
from leadline.runner.execute import InProcess, Task
from leadline.runner.judging import Judging, failures
from leadline.runner.offline import JudgementError, judge_rows, without_failures
from leadline.store.bundle import read_bundle

S = 10**9
WAITING = [each for each in ANALYSES if each.name in ("baseline", "failures")]


class Noting(InProcess):
    """Remembers what was judged, and when it closed."""

    def __init__(self) -> None:
        self.closed: list[int] = []

    def submit(self, task: Task) -> Any:
        self.closed.append(task.window.to_ns + task.analysis.grace_ns)
        return super().submit(task)


def recorded(*names: str) -> tuple[dict[str, pa.Table], int, int]:
    with read_bundle(incident("healthy")) as bundle:
        tables = {each.name: pa.concat_tables(bundle.groups(each)) for each in bundle.tables if each.name in names}
        return tables, bundle.manifest.from_ns, bundle.manifest.to_ns


def test_windows_are_judged_in_the_order_in_which_they_close() -> None:
    tables, from_ns, to_ns = recorded("step", "event", "relation")
    noting = Noting()
    assert judge_rows(tables, from_ns, to_ns, WAITING, noting)
    assert len(set(noting.closed)) > 2
    assert noting.closed == sorted(noting.closed)


def test_rows_may_come_minute_by_minute_and_old_ones_be_forgotten() -> None:
    tables, from_ns, to_ns = recorded("step", "event", "relation")
    whole, parts = (Judging(WAITING, from_ns) for _ in range(2))
    whole.add(tables)
    whole.until(to_ns, ended=True)
    step = tables.pop("step").sort_by("end_ns")
    parts.add(tables)
    ends = step["end_ns"].to_numpy()
    for at_ns in range(from_ns, to_ns, 20 * S):
        parts.add({"step": step.filter(pa.array((ends >= at_ns) & (ends < at_ns + 20 * S)))})
        parts.until(at_ns + 20 * S)
        parts.forget(at_ns + 20 * S)
    parts.until(to_ns, ended=True)
    assert parts.told() == whole.told()


def test_a_window_that_fails_is_told_and_the_others_go_on() -> None:
    tables, from_ns, to_ns = recorded("step", "event", "relation")
    whole = judge_rows(tables, from_ns, to_ns, WAITING)
    assert without_failures(whole) is whole
    ends: list[int] = []

    def fails_once(*rows: Any, window: Any) -> Any:
        ends.append(window.to_ns)
        if len(ends) == 2:
            raise ZeroDivisionError("by zero")
        return WAITING[0](*rows, window=window)

    found = judge_rows(tables, from_ns, to_ns, [replace(WAITING[0], judge=fails_once), WAITING[1]])
    assert len(ends) > 2
    [failed] = found["analysis_run"].to_pylist()
    assert (failed["analysis"], failed["end_ns"], failed["state"]) == (WAITING[0].name, ends[1], "failed")
    assert "by zero" in failed["error"]
    assert [WAITING[0].name in each and str(ends[1]) in each for each in failures(found)] == [True]
    with pytest.raises(JudgementError, match="by zero"):
        without_failures(found)
    mine = {table.name for table in WAITING[0].writes}
    for name in set(whole) - mine:
        assert found[name].equals(whole[name]), name
    for name in mine & set(whole):
        assert 0 < found[name].num_rows < whole[name].num_rows


def test_rows_that_cannot_be_loaded_fail_their_window(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, from_ns, to_ns = recorded("step", "event", "relation")

    def breaks(*_: Any) -> Any:
        raise ValueError("no such column")

    monkeypatch.setattr("leadline.runner.judge.given", breaks)
    found = judge_rows(tables, from_ns, to_ns, WAITING)
    assert set(found) == {"analysis_run"}
    assert set(found["analysis_run"]["analysis"].to_pylist()) == {each.name for each in WAITING}


def test_a_job_that_stalls_and_tells_nothing_more_still_stalls() -> None:
    """Long after its last row went out of sight, and until something moves."""
    [stalls] = [each for each in ANALYSES if each.name == "stalls"]
    # Of what it reads at most two minutes back: as it stands it asks ten minutes about each stall that is over.
    near = tuple(replace(read, look_back_ns=min(read.look_back_ns, 120 * S)) for read in stalls.reads)
    rows = stuck_job(absent=(2,))
    judging = Judging([replace(stalls, reads=near)], T0 - 60 * S)
    judging.add(rows)
    judging.until(T0 + 200 * S, ended=True)
    [row] = judging.told()["symptom"].to_pylist()
    assert (row["symptom"], row["end_ns"], row["seen_ns"]) == ("stall", None, T0 + 200 * S)
    assert row["lost_gpu_seconds"] > 190
    windows = judging.windows
    _, calls = working(201, 206)
    judging.add({"collective": table("collective", calls)})
    judging.until(T0 + 500 * S, ended=True)
    [row] = judging.told()["symptom"].to_pylist()
    assert T0 + 200 * S < row["end_ns"] < T0 + 210 * S
    assert judging.windows - windows < 100, "a stall that is over is not asked about for ever"
