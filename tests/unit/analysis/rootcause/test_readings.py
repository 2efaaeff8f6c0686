"""Long tables become a grid, and names of metrics become roles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from leadline.analysis.rootcause import readings as module
from leadline.analysis.rootcause.question import Question, Span, window_length
from leadline.analysis.rootcause.readings import Series, readings
from leadline.analysis.rootcause.roles import Role, roles
from leadline.model.errors import DataError, UsageError

Row = tuple[int, str, str, float | None]


def table(*rows: Row, to: list[str | None] | None = None) -> pa.Table:
    time, entity, metric, value = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = {
        "time": pa.array(time, pa.int64()), "entity": pa.array(entity, pa.string()),
        "metric": pa.array(metric, pa.string()), "value": pa.array(value, pa.float64()),
    }  # fmt: skip
    return pa.table(columns if to is None else columns | {"to": pa.array(to, pa.string())})


def test_the_step_is_the_baseline_distance_of_readings_and_gaps_are_left_out() -> None:
    rows = [(at, "a", "x", float(at)) for at in (100, 110, 120, 500, 510)]
    found = readings(table(*rows))
    assert (found.step_ns, found.first_T.tolist()) == (10, [100, 110, 120, 500, 510])
    assert found.of_entities("x", ["a", "nobody"])[:, 0].tolist() == [100.0, 110.0, 120.0, 500.0, 510.0]
    assert np.isnan(found.of_entities("x", ["nobody"])).all()


def test_readings_of_one_interval_are_their_mean_and_series_may_be_read_at_other_times() -> None:
    rows = [(0, "a", "x", 1.0), (4, "a", "x", 3.0), (10, "a", "x", 7.0), (3, "b", "x", 5.0), (13, "b", "x", None)]
    found = readings(table(*rows), step_ns=10)
    assert found.first_T.tolist() == [0, 10]
    assert found.last_T.tolist() == [4, 10]
    value_TN = found.of_entities("x", ["a", "b"])
    assert value_TN[:, 0].tolist() == [2.0, 7.0]
    assert value_TN[0, 1] == 5.0
    assert np.isnan(value_TN[1, 1])


def test_a_relation_has_readings_of_its_own() -> None:
    found = readings(table((0, "a", "x", 1.0), (0, "a", "x", 2.0), (9, "a", "x", 3.0), to=["b", None, ""]), step_ns=9)
    assert set(found.series) == {Series("x", "a", "b"), Series("x", "a", "")}
    assert found.of_relations("x", [("a", "b")])[0, 0] == 1.0
    assert found.of_entities("x", ["a"])[:, 0].tolist() == [2.0, 3.0]
    assert found.entities == {"a", "b"}


def test_a_table_that_tells_nothing_is_refused() -> None:
    with pytest.raises(DataError, match="expected at least one row with a finite value, got none"):
        readings(table((0, "a", "x", None), (1, "a", "x", float("inf"))))
    with pytest.raises(DataError, match="at two times or more"):
        readings(table((0, "a", "x", 1.0), (1, "b", "x", 1.0)))


def test_a_grid_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELLS_MAX", 3)
    with pytest.raises(UsageError, match=r"2 intervals of 2 series are 4 cells, more than 3: take longer intervals"):
        readings(table((0, "a", "x", 1.0), (10, "b", "x", 1.0)), step_ns=10)


def test_names_say_roles_and_an_assignment_says_it_better() -> None:
    metrics = ["cpu_use_ratio", "disk_use_ratio", "latency_s", "p99"]
    assert roles(metrics, {}) == {Role.USE: ["cpu_use_ratio", "disk_use_ratio"], Role.LATENCY: ["latency_s"]}
    assert roles(metrics, {"p99": Role.LATENCY})[Role.LATENCY] == ["p99"]
    assert roles(metrics, {"p99": Role.USE})[Role.USE] == ["cpu_use_ratio", "disk_use_ratio", "p99"]
    with pytest.raises(UsageError, match=r"no metric is called 'p95'; there are cpu_use_ratio"):
        roles(metrics, {"p95": Role.LATENCY})
    with pytest.raises(UsageError, match="one metric can have the role latency, got latency_s and p99"):
        roles(metrics, {"p99": Role.LATENCY, "latency_s": Role.LATENCY})


def test_an_interval_across_an_edge_is_neither_judged_nor_normal() -> None:
    rows = [(at + late, name, "x", 1.0) for at in range(0, 60, 10) for name, late in (("a", 0), ("b", 5))]
    found = readings(table(*rows), step_ns=10)
    question = Question(Span(33, 60))
    assert question.judged_T(found).tolist() == [False] * 4 + [True] * 2
    assert question.normal_T(found).tolist() == [True] * 3 + [False] * 3
    some = Question(Span(33, 60), (Span(0, 20), Span(50, 60)))
    assert some.normal_T(found).tolist() == [True] * 2 + [False] * 4


@pytest.mark.parametrize(
    ("judged", "normal", "length"), [(5, 589, 5), (5, 100, 5), (5, 60, 3), (5, 8, 1), (300, 294, 14)]
)
def test_normal_windows_are_as_long_as_the_judged_one_or_at_least_twenty(judged: int, normal: int, length: int) -> None:
    assert window_length(judged, normal) == length
