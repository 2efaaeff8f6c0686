"""PetShop: what a scenario folder holds, and which component explains the symptom of each of its cases.

    SCENARIO/graph.csv.gz               who calls whom (row calls column)
    SCENARIO/noissue/metrics.csv.gz     normal operation: three header rows (component, metric, statistic)
    SCENARIO/SPLIT/ISSUE/metrics.csv.gz the same columns around an issue
    SCENARIO/labels.csv                 split, issue, target node, metric and statistic, and the truth;
                                        or, as published, target.json beside the metrics of each issue

Files may be plain .csv too. A loss is counted in seconds (latency x requests) or in failed requests per interval.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.cause.deviation import Baseline, baseline, rise
from leadline.analysis.cause.propagation import Calls, Explained, explained

Matrix = NDArray[np.float64]
Column = tuple[str, str, str]  # component, metric, statistic

QUIET = 0.95  # of the learned windows: what they explain by chance is no verdict
LATENCY_FLOOR_S = 0.0005
FAILED_FLOOR = 0.001  # three nines: below, availability is a matter of single requests
PUBLISHED = {
    "low_traffic": {"latency": (0.571, 0.571, 0.167), "availability": (0.833, 1.0, 1.0)},
    "high_traffic": {"latency": (0.571, 0.786, 0.333), "availability": (0.667, 1.0, 1.0)},
}
"""Top-1, top-3 and specificity of the best method in Hardt et al. (CLeaR 2024)."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Metrics of components over time."""

    columns: tuple[Column, ...]
    values_TF: Matrix  # NaN where missing

    def part(self, begin: int, end: int) -> Readings:
        """Some of the intervals."""
        return Readings(self.columns, self.values_TF[begin:end])

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
    calls: Calls
    normal: Readings
    issues: tuple[Issue, ...]

    @property
    def symptoms(self) -> list[Symptom]:
        """Those that occur, each once."""
        return list(dict.fromkeys(issue.symptom for issue in self.issues))


@dataclass(frozen=True, slots=True)
class Learned:
    """What is usual for the components of a scenario, as one symptom's metric sees it."""

    scenario: Scenario
    symptom: Symptom
    bad: Baseline  # of latency, or of the share of requests that failed
    requests_N: NDArray[np.float64]
    least: float  # explained per interval: up to here it happens by chance

    @classmethod
    def of(cls, scenario: Scenario, symptom: Symptom, normal: Readings, intervals: int) -> Learned:
        """From normal operation. `intervals`: of the windows that will be judged, for the threshold of `unknown`."""
        floor = LATENCY_FLOOR_S if symptom.metric == "latency" else FAILED_FLOOR
        bad = baseline(bad_readings(normal, scenario.nodes, symptom), floor=floor)
        requests = baseline(normal.of(scenario.nodes, "requests", "Sum"))
        first = cls(scenario, symptom, bad, requests.middle_N, 0.0)
        count = len(normal.values_TF)
        windows = [normal.part(at, at + intervals) for at in range(0, count - intervals + 1, intervals)]
        most = [first.explain(window).most / intervals for window in windows]
        return cls(scenario, symptom, bad, requests.middle_N, float(np.quantile(most, QUIET)) if most else 0.0)

    def explain(self, window: Readings) -> Explained:
        """How much of the symptom each component explains."""
        nodes, target = self.scenario.nodes, self.scenario.nodes.index(self.symptom.node)
        bad_TN = bad_readings(window, nodes, self.symptom)
        told_TN = window.of(nodes, "requests", "Sum")
        requests_TN = np.where(np.isfinite(told_TN), told_TN, self.requests_N)
        lost_TN = rise(bad_TN, self.bad) * requests_TN
        symptom_T = (bad_TN[:, target] - self.bad.middle_N[target]) * requests_TN[:, target]
        silent_N = (told_TN == 0).all(axis=0)
        return explained(lost_TN, symptom_T, self.scenario.calls, target, silent_N=silent_N)

    def named(self, window: Readings) -> list[str]:
        """Components that explain the symptom, the most first; none (unknown) if chance explains as much."""
        found = self.explain(window)
        if found.most / max(len(window.values_TF), 1) <= self.least:
            return []
        return [self.scenario.nodes[n] for n in found.ranked()]


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
    return Scenario(folder.name, nodes, Calls.of(nodes, pairs), _readings(folder / "noissue"), tuple(issues))


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
    return Readings(columns, np.array(values, dtype=np.float64).reshape(len(body), len(columns)))


def _rows(path: Path) -> list[list[str]]:
    packed = path.with_suffix(".csv.gz")
    if packed.exists():
        with gzip.open(packed, "rt", newline="") as file:
            return list(csv.reader(file))
    with open(path, newline="") as file:
        return list(csv.reader(file))
