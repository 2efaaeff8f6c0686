"""PetShop: what a scenario folder holds, and which component explains the symptom of each of its cases.

    SCENARIO/graph.csv.gz               who calls whom (row calls column)
    SCENARIO/noissue/metrics.csv.gz     normal operation: three header rows (component, metric, statistic)
    SCENARIO/SPLIT/ISSUE/metrics.csv.gz the same columns around an issue
    SCENARIO/labels.csv                 split, issue, target node, metric and statistic, and the truth;
                                        or, as published, target.json beside the metrics of each issue

Files may be plain .csv too. Who is named is what `leadline diagnose --metrics` names of the same readings (`named`).
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.analysis.rootcause.question import Question, Span
from leadline.analysis.rootcause.ranking import Ranking, ranked_causes
from leadline.analysis.rootcause.readings import Pair, readings

Matrix = NDArray[np.float64]
Column = tuple[str, str, str]  # component, metric, statistic

S = 10**9
STEP_S = 300  # a reading in five minutes
PUBLISHED = {
    "low_traffic": {"latency": (0.571, 0.571, 0.167), "availability": (0.833, 1.0, 1.0)},
    "high_traffic": {"latency": (0.571, 0.786, 0.333), "availability": (0.667, 1.0, 1.0)},
}
"""Top-1, top-3 and specificity of the best method in Hardt et al. (CLeaR 2024)."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Metrics of components over time."""

    time_T: NDArray[np.int64]  # s since the epoch
    columns: tuple[Column, ...]
    values_TF: Matrix  # NaN where missing

    def part(self, begin: int, end: int) -> Readings:
        """Some of the intervals."""
        return Readings(self.time_T[begin:end], self.columns, self.values_TF[begin:end])

    def of(self, names: Sequence[str], metric: str, statistic: str) -> Matrix:
        """One metric of components, (T, N); NaN for those that do not have it."""
        place = {column: each for each, column in enumerate(self.columns)}
        out_TN = np.full((len(self.values_TF), len(names)), np.nan)
        for n, name in enumerate(names):
            at = place.get((name, metric, statistic))
            if at is not None:
                out_TN[:, n] = self.values_TF[:, at]
        return out_TN


@dataclass(frozen=True, slots=True)
class Symptom:
    """Where it hurts."""

    node: str
    metric: str
    statistic: str


@dataclass(frozen=True, slots=True)
class Issue:
    """A case: what was seen around it, and the truth."""

    name: str
    symptom: Symptom
    window: Readings
    truth: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A folder."""

    name: str
    nodes: tuple[str, ...]
    calls: tuple[Pair, ...]
    normal: Readings
    issues: tuple[Issue, ...]

    @property
    def symptoms(self) -> list[Symptom]:
        """Those that occur, each once."""
        return list(dict.fromkeys(issue.symptom for issue in self.issues))


def named(scenario: Scenario, symptom: Symptom, normal: Readings, window: Readings) -> list[str]:
    """Components that explain the symptom in a window, the most first; none if the cause is not known."""
    return [cause.entity for cause in ranking(scenario, symptom, normal, window).causes]


def ranking(scenario: Scenario, symptom: Symptom, normal: Readings, window: Readings) -> Ranking:
    """What is shipped, asked about a window after learning from normal operation."""
    table = pa.concat_tables([long_table(each, scenario.nodes, symptom) for each in (normal, window)])
    question = Question(_span(window), (_span(normal),), symptom.node)
    return ranked_causes(readings(table, step_ns=STEP_S * S), scenario.calls, question)


def long_table(of: Readings, nodes: Sequence[str], symptom: Symptom) -> pa.Table:
    """Readings as `leadline diagnose --metrics` takes them: the symptom's metric, and requests."""
    name = "failed_ratio" if symptom.metric == "availability" else "latency_s"
    found = {name: bad_readings(of, nodes, symptom), "requests": of.of(nodes, "requests", "Sum")}
    rows = len(of.time_T) * len(nodes)
    tables = [
        pa.table({
            "time": np.repeat(of.time_T * S, len(nodes)), "entity": pa.array(list(nodes) * len(of.time_T), pa.string()),
            "metric": pa.array([metric] * rows, pa.string()), "value": value_TN.ravel(),
        })
        for metric, value_TN in found.items()
    ]  # fmt: skip
    return pa.concat_tables(tables)


def _span(of: Readings) -> Span:
    return Span(int(of.time_T[0]) * S, (int(of.time_T[-1]) + STEP_S) * S)


def bad_readings(of: Readings, nodes: Sequence[str], symptom: Symptom) -> Matrix:
    """The symptom's metric of all components, so that up is bad: seconds, or the share of requests that failed."""
    found_TN = of.of(nodes, symptom.metric, symptom.statistic)
    return (100.0 - found_TN) / 100.0 if symptom.metric == "availability" else found_TN


def scenarios(directory: Path) -> list[Scenario]:
    """The scenario folders in a directory, or the directory itself if it is one."""
    found = [directory, *sorted(path for path in directory.iterdir() if path.is_dir())]
    return [read_scenario(folder) for folder in found if (folder / "noissue").is_dir()]


def read_scenario(folder: Path) -> Scenario:
    """One folder. OSError, ValueError or KeyError if a file is missing or not as described above."""
    nodes, pairs = _graph(folder)
    issues = [
        Issue(f"{place.parent.name}/{place.name}", symptom, _readings(place), truth)
        for place, symptom, truth in _labels(folder)
    ]
    return Scenario(folder.name, nodes, tuple(pairs), _readings(folder / "noissue"), tuple(issues))


def _labels(folder: Path) -> list[tuple[Path, Symptom, str]]:
    """Folder of the issue, symptom and truth: of labels.csv, or of a target.json in every folder, as published."""
    if (folder / "labels.csv").exists():
        with open(folder / "labels.csv", newline="") as file:
            return [
                (
                    folder / row["split"] / row["issue"],
                    Symptom(row["target_node"], row["target_metric"], row["target_agg"]),
                    row["root_cause_node"],
                )
                for row in csv.DictReader(file)
            ]
    out = []
    for path in sorted(folder.glob("*/*/target.json")):
        told = json.loads(path.read_text())
        target = told["target"]
        out.append((path.parent, Symptom(target["node"], target["metric"], target["agg"]), told["root_cause"]["node"]))
    return out


def _graph(folder: Path) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    rows = _rows(folder / "graph.csv")
    callees = rows[0][1:]
    pairs = [
        (row[0], callee) for row in rows[1:] for callee, calls in zip(callees, row[1:], strict=True) if float(calls) > 0
    ]
    return tuple(dict.fromkeys([row[0] for row in rows[1:]] + callees)), pairs


def _readings(folder: Path) -> Readings:
    rows = _rows(folder / "metrics.csv")
    component, metric, statistic = (row[1:] for row in rows[:3])
    columns = tuple(zip(component, metric, statistic, strict=True))
    # A fourth row names the index and has no values.
    body = [row[1:] for row in rows[3:] if row[0].replace(".", "", 1).isdigit()]
    values = [[float(cell) if cell else np.nan for cell in row] for row in body]
    time_T = np.array(
        [round(float(row[0])) for row in rows[3:] if row[0].replace(".", "", 1).isdigit()], dtype=np.int64
    )
    return Readings(time_T, columns, np.array(values, dtype=np.float64).reshape(len(body), len(columns)))


def _rows(path: Path) -> list[list[str]]:
    packed = path.with_suffix(".csv.gz")
    if packed.exists():
        with gzip.open(packed, "rt", newline="") as file:
            return list(csv.reader(file))
    with open(path, newline="") as file:
        return list(csv.reader(file))
