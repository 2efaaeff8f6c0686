"""How odd live windows call each sample of a recording: the registered analysis, driven as the runner drives it.

    recording ── a sample each 5 s, as metrics of one host ──> runner.judging: window after window, rows and profiles
    that earlier windows wrote among what they read ── rows of `anomaly` that each window tells ──> score_N, share_NM

One host has no peers, and nobody knows what its metrics mean, so all of them are loads. The rows are what a user has: a
sample counts for nothing in whose window nothing is told, and what is told counts from that window on, not from the
`start_ns` that it tells. Beside them, how odd the same window found its newest bin, told or not: published methods are
scored by such a number, which has no threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.anomaly.anomaly import Looked, anomalies, looked_at
from leadline.analysis.anomaly.detector import SAMPLES_MIN
from leadline.analysis.anomaly.scores import GUARD, PAST
from leadline.analysis.anomaly.together import METRIC as TOGETHER
from leadline.analysis.anomaly.together import METRICS_MIN, distances
from leadline.analysis.columns import Bools, Floats
from leadline.analysis.spec import S
from leadline.model.tables import BY_NAME
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.tables.verdicts import ANOMALY
from leadline.runner.execute import InProcess, Task
from leadline.runner.judging import Judging
from leadline.runner.worker import DONE, Outcome
from leadline.store.schema import arrow_table

BIN_NS = anomalies.window_ns
T0 = 1_700_000_000 * S  # any whole number of windows
AT_ONCE = 100  # samples that are added before their windows are judged: rows that no window needs are let go of
HOST = "recorded"


@dataclass(frozen=True, slots=True)
class Live:
    """Of N samples of M metrics, what the window that ends after each tells, and what it sees."""

    told_N: Floats  # the largest score of what is told to be odd now; 0: nothing is
    share_NM: Floats  # of each metric in what is told to be odd
    seen_N: Floats  # how odd the newest bin is: all metrics together or one alone, whichever is more


@dataclass(slots=True)
class Kept:
    """An executor that keeps the rows of `anomaly`, and how odd the newest bin was, by the end of the window."""

    rows: dict[int, list[Mapping[str, Any]]] = field(default_factory=dict)
    seen: dict[int, float] = field(default_factory=dict)
    inner: InProcess = field(default_factory=InProcess)

    def start(self) -> None:
        """Nothing to make ready."""

    def submit(self, task: Task) -> Future[Outcome]:
        """Run a call here. Errors: RuntimeError for a window that cannot be judged: it would count as calm."""
        done = self.inner.submit(task)
        outcome = done.result()
        if outcome.state != DONE:
            raise RuntimeError(outcome.error)
        if ANOMALY.name in outcome.tables:
            rows = outcome.tables[ANOMALY.name].select(["metric", "label", "end_ns", "score", "share"])
            self.rows[task.window.to_ns] = rows.to_pylist()
        self.seen[task.window.to_ns] = seen(looked_at(*task.tables, window=task.window))
        return done

    def close(self) -> None:
        """Nothing to end."""


def live(value_NM: Floats) -> Live:
    """Judge the windows of all samples, one after the other."""
    samples, metrics = value_NM.shape
    kept = Kept()
    judging = Judging([anomalies], T0, kept)
    judging.add({SERIES.name: series(metrics, samples)})
    for first in range(0, samples, AT_ONCE):
        until_ns = T0 + min(first + AT_ONCE, samples) * BIN_NS
        judging.add({METRIC_SAMPLE.name: samples_of(value_NM[first : first + AT_ONCE], first)})
        judging.until(until_ns, ended=until_ns == T0 + samples * BIN_NS)
        judging.forget(until_ns)
    return told(kept, samples, metrics)


def told(kept: Kept, samples: int, metrics: int) -> Live:
    """What the windows told, by the sample that each ends with."""
    told_N, share_NM, seen_N = np.zeros(samples), np.zeros((samples, metrics)), np.zeros(samples)
    for to_ns, odd in kept.seen.items():
        seen_N[(to_ns - T0) // BIN_NS - 1] = odd
    number = {_name(metric): metric for metric in range(metrics)}
    for to_ns, rows in kept.rows.items():
        sample = (to_ns - T0) // BIN_NS - 1
        for row in rows:
            if row["end_ns"] is None:
                told_N[sample] = max(told_N[sample], row["score"])
                for name, share in _shares(row):
                    share_NM[sample, number[name]] += share
    return Live(told_N, share_NM, seen_N)


def seen(looked: Looked | None) -> float:
    """How odd the newest bin of the one host is, in standard deviations, as the window scores it."""
    if looked is None:
        return 0.0
    odd = [0.0]
    for tier in looked.scored.tiers:
        odd.append(float(np.nan_to_num(np.abs(tier.score_WKB[PAST, :, 0])).max(initial=0.0)))
        every = np.ones(1, bool)
        known_E, known = looked.profiles.judged(looked.streams, tier, every, every, 0.0)
        if known_E.any():
            odd += [float(np.nan_to_num(scores.score[-1])) for _, _, scores in known]
        elif len(tier.row_K) >= METRICS_MIN and tier.grid_KB.shape[1] >= SAMPLES_MIN + GUARD:
            odd.append(float(np.nan_to_num(distances(tier.lesser_KB[None]).score[0, -1])))
    return max(odd)


def _shares(row: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Of what is odd, the part of each metric that a row names. What is odd together names the first few in order."""
    if row["metric"] != TOGETHER:
        return [(row["metric"], row["share"])]
    names = row["label"].split(", ")
    whole = sum(1 / place for place in range(1, len(names) + 1))
    return [(name, row["share"] / place / whole) for place, name in enumerate(names, 1)]


def series(metrics: int, samples: int) -> pa.Table:
    """The metrics of a recording, as one host tells them until its end: what is told no more would be let go of."""
    said = {"entity_kind": "host", "entity": f"host:{HOST}", "labels": {}, "type": "gauge", "host": HOST,
            "source": "recorded", "first_ns": T0, "last_ns": T0 + samples * BIN_NS}  # fmt: skip
    return _table(SERIES.name, [said | {"series": _id(metric), "name": _name(metric)} for metric in range(metrics)])


def samples_of(value_NM: Floats, first: int) -> pa.Table:
    """Samples from number `first` on, each in the middle of its window; missing ones are no rows."""
    there_NM: Bools = np.isfinite(value_NM)
    sample_R, metric_R = np.nonzero(there_NM)
    return arrow_table(METRIC_SAMPLE, {
        "tenant": ["default"] * len(sample_R), "cluster": ["default"] * len(sample_R),
        "series": [_id(int(metric)) for metric in metric_R],
        "time_ns": T0 + (first + sample_R) * BIN_NS + BIN_NS // 2, "value": value_NM[there_NM],
    })  # fmt: skip


def _table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    spec, owner = BY_NAME[name], {"tenant": "default", "cluster": "default"}
    return arrow_table(spec, {column.name: [(owner | row).get(column.name) for row in rows] for column in spec.columns})


def _id(metric: int) -> int:
    return metric + 1


def _name(metric: int) -> str:
    return f"recorded_m{metric:02d}"
