"""Nezha: what a day's folder holds, and which service each of its faults is in.

    DAY/pod_metrics.csv.gz   readings of pods, one a minute
    DAY/fault_list.csv       when which fault was put into which pod: the truth
    DAY/dependency.csv       who calls whom; may be missing
    DAY/source_50.csv, destination_50.csv   median latency of each call, as caller and callee see it; may be missing

There is no symptom to start from: small services fail without the front noticing. Who is named is what
`leadline diagnose --metrics` names of the same readings, without a symptom (`Asked`).
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.analysis.rootcause.question import Question, Span
from leadline.analysis.rootcause.ranking import Ranking, ranked_causes
from leadline.analysis.rootcause.readings import Readings, readings

Matrix = NDArray[np.float64]
Ints = NDArray[np.int64]

FAULT_S = 300  # judged from the injection on
AFTER_S = 600  # and so long nothing is learned from what was seen
STEP_S = 60
FAR_S = 2 * 86400  # a folder holds a day
S = 10**9
PERCENT = 100.0  # of the limit of a pod, as uses are given
METRICS = {
    "CpuUsageRate(%)": ("cpu_use_ratio", PERCENT),
    "MemoryUsageRate(%)": ("memory_use_ratio", PERCENT),
    "PodServerLatencyP90(s)": ("latency_s", 1.0),
    "PodClientLatencyP90(s)": ("waiting_s", 1.0),
    "PodWorkload(Ops)": ("requests", 1.0),
}
"""What `leadline diagnose --metrics` calls them, and what to divide by."""
KINDS = {
    "cpu_contention": "cpu",
    "cpu_consumed": "cpu",
    "network_delay": "delay",
    "exception": "code",
    "return": "code",
}
SYSTEMS = {"ts-": "train_ticket"}  # how the names of its services begin; without any: online_boutique


@dataclass(frozen=True, slots=True)
class Fault:
    """One case."""

    name: str
    at_s: int
    service: str
    kind: str


@dataclass(frozen=True, slots=True)
class Day:
    """A folder: readings of services on a grid of minutes."""

    name: str
    time_T: Ints  # s since the epoch
    services: tuple[str, ...]
    metrics: tuple[str, ...]
    value_TNM: NDArray[np.float64]
    pairs: tuple[tuple[str, str], ...]
    by_caller_TE: Matrix  # s, beside `pairs`; NaN where there is none
    by_callee_TE: Matrix
    faults: tuple[Fault, ...]

    @property
    def system(self) -> str:
        """Which of the two applications."""
        found = [system for begin, system in SYSTEMS.items() if any(name.startswith(begin) for name in self.services)]
        return found[0] if found else "online_boutique"

    def metric(self, name: str) -> Matrix:
        """One metric of all services, (T, N)."""
        found_TN: Matrix = self.value_TNM[:, :, self.metrics.index(name)]
        return found_TN

    @property
    def quiet_T(self) -> NDArray[np.bool_]:
        """Intervals outside all faults: what is known as normal, to every method."""
        out_T = np.ones(len(self.time_T), dtype=bool)
        for fault in self.faults:
            out_T &= (self.time_T < fault.at_s - STEP_S) | (self.time_T >= fault.at_s + AFTER_S)
        return out_T

    def window_T(self, fault: Fault) -> NDArray[np.bool_]:
        """Intervals in which a fault is judged."""
        return (self.time_T >= fault.at_s) & (self.time_T < fault.at_s + FAULT_S)


@dataclass(frozen=True, slots=True)
class Asked:
    """A day, as `leadline diagnose --metrics` takes it."""

    day: Day
    readings: Readings
    normal: tuple[Span, ...]

    @classmethod
    def of(cls, day: Day) -> Asked:
        """The same readings; normal are the day's quiet minutes."""
        return cls(day, readings(long_table(day), step_ns=STEP_S * S), _spans(day.time_T, day.quiet_T))

    def ranking(self, fault: Fault) -> Ranking:
        """What is shipped, asked about the fault's window."""
        question = Question(Span(fault.at_s * S, (fault.at_s + FAULT_S) * S), self.normal)
        return ranked_causes(self.readings, self.day.pairs, question)

    def named(self, fault: Fault) -> list[str]:
        """Services against which something speaks, the strongest first."""
        return [cause.entity for cause in self.ranking(fault).causes]


def long_table(day: Day) -> pa.Table:
    """Readings of services, and of the calls between them."""
    tables = [
        _long(day.time_T, name, [(service, "") for service in day.services], day.metric(metric) / unit)
        for metric, (name, unit) in METRICS.items()
    ]
    for name, value_TE in (("caller_latency_s", day.by_caller_TE), ("callee_latency_s", day.by_callee_TE)):
        tables.append(_long(day.time_T, name, day.pairs, value_TE))
    return pa.concat_tables(tables)


def _long(time_T: Ints, metric: str, series: Sequence[tuple[str, str]], value_TS: Matrix) -> pa.Table:
    rows = value_TS.size
    return pa.table({
        "time": np.repeat(time_T * S, len(series)),
        "entity": pa.array([entity for entity, _ in series] * len(time_T), pa.string()),
        "to": pa.array([to for _, to in series] * len(time_T), pa.string()),
        "metric": pa.array([metric] * rows, pa.string()),
        "value": value_TS.ravel(),
    })  # fmt: skip


def _spans(time_T: Ints, inside_T: NDArray[np.bool_]) -> tuple[Span, ...]:
    """The runs of intervals that are inside."""
    edge = np.diff(np.concatenate([[0], inside_T.astype(np.int8), [0]]))
    begins, ends = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1) - 1
    return tuple(
        Span(int(time_T[begin]) * S, (int(time_T[end]) + STEP_S) * S) for begin, end in zip(begins, ends, strict=True)
    )


def days(directory: Path) -> list[Day]:
    """The folders of days in a directory, or the directory itself if it is one."""
    if (directory / "fault_list.csv").exists():
        return [read_day(directory)]
    return [read_day(path.parent) for path in sorted(directory.glob("*/fault_list.csv"))]


def read_day(folder: Path) -> Day:
    """One folder. OSError or ValueError if a file is missing or not as described above."""
    with open(folder / "fault_list.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    # The column of seconds is off by eight hours for some faults; the written time agrees with the readings.
    faults = tuple(
        Fault(
            f"{folder.name}/{row['inject_time']}",
            _seconds(row["inject_time"]),
            service_of(row["pod"]),
            row["fault_type"],
        )
        for row in rows
    )
    time_T, services, metrics, value_TNM = _pods(folder)
    pairs, tables = _pairs(folder, services), {}
    for name in ("source_50", "destination_50"):
        tables[name] = _calls_told(folder / f"{name}.csv", time_T, pairs)
    return Day(
        folder.name, time_T, services, metrics, value_TNM, pairs, tables["source_50"], tables["destination_50"], faults
    )


def service_of(pod: str) -> str:
    """The service of a pod: its name without the two marks that the orchestrator appends."""
    return pod.rsplit("-", 2)[0]


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _pods(folder: Path) -> tuple[Ints, tuple[str, ...], tuple[str, ...], NDArray[np.float64]]:
    header, *rows = csv.reader(io.StringIO(_text(folder / "pod_metrics.csv")))
    stamp, pod = header.index("TimeStamp"), header.index("PodName")
    metrics = tuple(name for name in header if name not in ("TimeStamp", "PodName"))
    places = [header.index(name) for name in metrics]
    services = tuple(sorted({service_of(row[pod]) for row in rows}))
    at = {name: each for each, name in enumerate(services)}
    service_R = np.array([at[service_of(row[pod])] for row in rows], dtype=np.int64)
    time_R = _aligned(np.array([int(row[stamp]) for row in rows], dtype=np.int64), service_R)
    first, last = int(time_R[time_R >= 0].min()), int(time_R.max())
    time_T = np.arange(first, last + STEP_S, STEP_S, dtype=np.int64)
    value_TNM = np.full((len(time_T), len(services), len(metrics)), np.nan)
    for row, seconds in zip(rows, time_R, strict=True):
        if seconds >= 0:
            cells = [float(row[place]) if row[place] else np.nan for place in places]
            value_TNM[(seconds - first) // STEP_S, at[service_of(row[pod])]] = cells
    return time_T, services, metrics, value_TNM


def _aligned(time_R: Ints, service_R: Ints) -> Ints:
    """Times; a service whose clock is years off begins when the others do.

    That is how it is in the files: of one day all times of one pod have a wrong digit.
    """
    out_R = time_R.copy()
    for service in np.unique(service_R):
        mine_R = service_R == service
        if abs(np.median(time_R[mine_R]) - np.median(time_R)) > FAR_S:
            out_R[mine_R] += time_R[np.abs(time_R - np.median(time_R)) < FAR_S].min() - time_R[mine_R].min()
    return _plausible(out_R)


def _plausible(time_R: Ints) -> Ints:
    """Times, or -1 for those days away from the others."""
    return np.where(np.abs(time_R - np.median(time_R)) < FAR_S, time_R, -1).astype(np.int64)


def _pairs(folder: Path, services: Sequence[str]) -> tuple[tuple[str, str], ...]:
    if not (folder / "dependency.csv").exists():
        return ()
    with open(folder / "dependency.csv", newline="") as file:
        found = [(row["Source"], row["Target"]) for row in csv.DictReader(file)]
    return tuple(dict.fromkeys((a, b) for a, b in found if a in services and b in services and a != b))


def _calls_told(path: Path, time_T: Ints, pairs: Sequence[tuple[str, str]]) -> Matrix:
    out_TE = np.full((len(time_T), len(pairs)), np.nan)
    if not path.exists() and not path.with_suffix(".csv.gz").exists():
        return out_TE
    header, *rows = csv.reader(io.StringIO(_text(path)))
    times = _plausible(np.array([int(row[header.index("timestamp")]) for row in rows], dtype=np.int64))
    places = {name: each for each, name in enumerate(header)}
    for row, seconds in zip(rows, times, strict=True):
        at = (int(seconds) - int(time_T[0])) // STEP_S
        if not 0 <= at < len(time_T):
            continue
        for each, (caller, callee) in enumerate(pairs):
            cell = row[places[f"{caller}_{callee}"]] if f"{caller}_{callee}" in places else ""
            out_TE[at, each] = float(cell) if cell else np.nan
    return out_TE


def _text(path: Path) -> str:
    packed = path.with_suffix(".csv.gz")
    return gzip.decompress(packed.read_bytes()).decode() if packed.exists() else path.read_text()
