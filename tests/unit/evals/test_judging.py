"""Windows judged in the order in which they close."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from evals.judging import Judging, rows_that_count

from leadline.analysis import ANALYSES
from leadline.lab.incidents import incident
from leadline.runner.execute import InProcess, Task
from leadline.runner.offline import judge_rows
from leadline.store.bundle import read_bundle

S = 10**9
WAITING = [each for each in ANALYSES if each.name in ("usual", "failures")]


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


def test_where_everything_waits_the_verdicts_are_those_of_an_offline_run() -> None:
    tables, from_ns, to_ns = recorded("step", "event", "relation")
    noting = Noting()
    judging = Judging(WAITING, from_ns, noting)
    judging.add(rows_that_count(tables))
    judging.until(to_ns, ended=True)
    assert judging.told() == judge_rows(tables, from_ns, to_ns, WAITING, InProcess())
    assert len(judging.told()) > 0
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


def test_an_analysis_that_fails_is_told_and_the_others_go_on() -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by zero")

    tables, from_ns, to_ns = recorded("step", "event", "relation")
    judging = Judging([replace(WAITING[0], judge=fails), WAITING[1]], from_ns)
    judging.add(tables)
    judging.until(to_ns, ended=True)
    assert set(judging.told()) <= {table.name for table in WAITING[1].writes}
    assert "by zero" in judging.failures[0]
