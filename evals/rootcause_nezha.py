"""Nezha: what a day's folder holds, and which service each of its faults is in.

    DAY/pod_metrics.csv.gz   readings of pods, one a minute
    DAY/fault_list.csv       when which fault was put into which pod: the truth
    DAY/dependency.csv       who calls whom; may be missing
    DAY/source_50.csv, destination_50.csv   median latency of each call, as caller and callee see it; may be missing

There is no symptom to start from: small services fail without the front noticing. So every service is told by how much
of what it has is eaten: of its processor and memory, of its own time beyond its callees', and of the way to it. The
last is what the caller waits beyond what the callee sees, which is where a slow network shows, and nowhere else.
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
from numpy.typing import NDArray

from leadline.analysis.cause.deviation import baseline, excess, headroom_eaten, rise
from leadline.analysis.cause.propagation import Calls, own_losses

Matrix = NDArray[np.float64]
Ints = NDArray[np.int64]

FAULT_S = 300  # judged from the injection on
AFTER_S = 600  # and so long nothing is learned from what was seen
STEP_S = 60
FAR_S = 2 * 86400  # a folder holds a day
WINDOW = FAULT_S // STEP_S
QUIET = 0.95  # of quiet windows: what speaks against a service in as many of them is no evidence
LATENCY_FLOOR_S = 0.001
USE_FLOOR = 1.0  # percent
USES = ("CpuUsageRate(%)", "MemoryUsageRate(%)")
SERVED = "PodServerLatencyP90(s)"
CALLED = "PodClientLatencyP90(s)"
LOAD = "PodWorkload(Ops)"
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
class Evidence:
    """What speaks against each service in each interval: kinds K of evidence, 0 (as usual) to 1 (all is eaten)."""

    day: Day
    share_KTN: NDArray[np.float64]
    usual_KN: Matrix  # in a window: up to here it is there on quiet minutes as well

    @classmethod
    def of(cls, day: Day) -> Evidence:
        """What is usual is learned from the day's quiet minutes."""
        quiet_T = day.quiet_T
        kinds = []
        for name in USES:
            use_TN = day.metric(name)
            kinds.append(headroom_eaten(use_TN, baseline(use_TN[quiet_T], floor=USE_FLOOR), 100.0))
        kinds += _late(day) if day.pairs else _late_alone(day)
        share_KTN = np.nan_to_num(np.array(kinds))  # an unknown reading counts as a usual one
        quiet_KTN = share_KTN[:, quiet_T]
        whole = quiet_KTN.shape[1] // WINDOW * WINDOW
        windows_KWN = quiet_KTN[:, :whole].reshape(len(kinds), -1, WINDOW, len(day.services)).mean(axis=2)
        nothing_KN = np.zeros((len(kinds), len(day.services)))
        return cls(day, share_KTN, np.quantile(windows_KWN, QUIET, axis=1) if whole else nothing_KN)

    def strength(self, fault: Fault) -> NDArray[np.float64]:
        """How much speaks against each service in the fault's window, (N,), 0 to 1.

        Kinds of evidence are independent witnesses: 1 - product(1 - each). One counts where it is more than usual.
        """
        inside_KTN = self.share_KTN[:, self.day.window_T(fault)]
        if not inside_KTN.shape[1]:
            return np.zeros(len(self.day.services))
        found_KN = inside_KTN.mean(axis=1)
        clean_KN = 1.0 - np.where(found_KN > self.usual_KN, found_KN, 0.0)
        left_N: NDArray[np.float64] = clean_KN.prod(axis=0)
        return 1.0 - left_N

    def named(self, fault: Fault) -> list[str]:
        """Services by strength, the strongest first; without those against which nothing speaks."""
        strength_N = self.strength(fault)
        order = sorted(range(len(strength_N)), key=lambda n: (-strength_N[n], n))
        return [self.day.services[n] for n in order if strength_N[n] > 0]


def _late(day: Day) -> list[Matrix]:
    """Which shares of the time that services take, and of the way to them, are unusual and their own: (T, N) each.

    Caller -> the way to the callee -> callee: what the caller waits contains the way, the way what the callee takes.
    """
    count, quiet_T = len(day.services), day.quiet_T
    load_TN = day.metric(LOAD)
    load_TN = np.fmax(load_TN, baseline(load_TN[quiet_T]).middle_N)  # a service that stands still serves nobody
    served_TN = day.metric(SERVED)
    callee_E = np.array([day.services.index(callee) for _, callee in day.pairs], dtype=np.int64)
    inner_TN, inner_late_TN = _worst(callee_E, count, day.by_callee_TE, _rise(day.by_callee_TE, quiet_T))
    outer_TN, outer_late_TN = _worst(callee_E, count, day.by_caller_TE, _rise(day.by_caller_TE, quiet_T))
    # Calls are told at the median, pods at the ninetieth percentile: of one service only one of them may count.
    told_TN = np.isfinite(inner_TN)
    inner_late_TN = np.where(told_TN, inner_late_TN, _rise(served_TN, quiet_T))
    inner_TN = np.where(told_TN, inner_TN, served_TN)
    calls = _with_ways(day)
    own_TN = own_losses(np.concatenate([inner_late_TN * load_TN, outer_late_TN * load_TN], axis=1), calls)
    share_TN = _over(own_TN, np.concatenate([inner_TN * load_TN, outer_TN * load_TN], axis=1))
    return [share_TN[:, :count], share_TN[:, count:]]


def _late_alone(day: Day) -> list[Matrix]:
    """The same where nothing is told of calls: of the time that pods take, and that they wait for others.

    While nobody asks anything of a pod, its waiting harms nobody: connections that are kept open wait for hours.
    """
    asked_TN = day.metric(LOAD) > 0
    found = [np.where(asked_TN, day.metric(name), 0.0) for name in (SERVED, CALLED)]
    return [_over(_beyond(found_TN, asked_TN & day.quiet_T[:, None]), found_TN) for found_TN in found]


def _beyond(found_TN: Matrix, learn_TN: NDArray[np.bool_]) -> Matrix:
    return excess(found_TN, baseline(np.where(learn_TN, found_TN, np.nan), floor=LATENCY_FLOOR_S))


def _with_ways(day: Day) -> Calls:
    """Services and, after them, the way to each."""
    count, at = len(day.services), {name: each for each, name in enumerate(day.services)}
    caller_E = [at[caller] for caller, _ in day.pairs] + list(range(count, 2 * count))
    callee_E = [count + at[callee] for _, callee in day.pairs] + list(range(count))
    return Calls(2 * count, np.array(caller_E, dtype=np.int64), np.array(callee_E, dtype=np.int64))


def _rise(found_TN: Matrix, quiet_T: NDArray[np.bool_]) -> Matrix:
    return rise(found_TN, baseline(found_TN[quiet_T], floor=LATENCY_FLOOR_S))


def _over(part_TN: Matrix, whole_TN: Matrix) -> Matrix:
    return np.divide(part_TN, whole_TN, out=np.zeros_like(part_TN), where=whole_TN > 0)


def _worst(callee_E: Ints, count: int, seen_TE: Matrix, late_TE: Matrix) -> tuple[Matrix, Matrix]:
    """Of the calls of each service the one that is latest: what was seen of it and by how much it is late, (T, N)."""
    seen_TN, late_TN = np.full((2, len(seen_TE), count), np.nan)
    for each, callee in enumerate(callee_E):
        better_T = np.isfinite(late_TE[:, each]) & ~(late_TN[:, callee] >= late_TE[:, each])
        seen_TN[better_T, callee], late_TN[better_T, callee] = seen_TE[better_T, each], late_TE[better_T, each]
    return seen_TN, late_TN


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
