"""Which worker of which job is a straggler, and since which iteration, on times of real jobs.

    python -m evals.onset [--data DIR] [--quick] [--json]

DIR holds `job_<n>_norm.csv` (columns worker, time = number of the iteration, batch_time_norm), maybe `labels.csv` with
what the publishers see in each job, in words, and `coefficient_variation.csv.gz`. Without DIR the cut that the tests
keep is judged. As a floor, the same change points on the coefficient of variation over the workers: it can tell that
something began, and not who.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.figures import Figure, conditions, tell

from evals.stored import append, asked, empty_store
from leadline.analysis.columns import Floats, Ints
from leadline.analysis.ledger.onset.changes import segments
from leadline.analysis.ledger.onset.onset import LENGTH_MIN, PENALTY
from leadline.model.errors import DataError
from leadline.model.tables.training import STEP
from leadline.views.compare.sides import Reader
from leadline.views.compare.slow_workers import slow_workers

SMALL = Path(__file__).resolve().parent.parent / "tests" / "golden" / "alibaba_minibatch"
HOW_TO_GET = "public repository alibaba/clusterdata, cluster-trace-gpu-v2020/mini-batch-time"
COLUMNS = ("worker", "time", "batch_time_norm")
END_NS = 1_750_000_000 * 10**9  # where runs are placed in time; any will do
UNIT_NS = 10**6  # of the published times, whose unit is not told; any will do
EDGE_SHARE = 0.1  # "in the middle": neither in the first nor in the last tenth
RISE_MIN = 0.5  # of the coefficient of variation over its first level, to be told as rising


@dataclass(frozen=True, slots=True)
class Run:
    """Times of one job's workers: arrays (N,), and what its publishers say of it."""

    number: int
    worker_N: Ints
    iteration_N: Ints
    time_N: Floats
    said: str


def runs(directory: Path) -> Iterator[Run]:
    """The jobs in a directory, by number. Errors: DataError, naming file and line."""
    said = _observations(directory / "labels.csv")
    files = {
        int(match[1]): path
        for path in directory.iterdir()
        if (match := re.fullmatch(r"job_(\d+)_norm\.csv", path.name))
    }
    if not files:
        raise DataError(str(directory), f"files job_<n>_norm.csv, from {HOW_TO_GET}", "none")
    for number, path in sorted(files.items()):
        yield Run(number, *_columns(path), said.get(number, ""))


def _columns(path: Path) -> tuple[Ints, Ints, Floats]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise DataError(str(path), f"columns {', '.join(COLUMNS)}", f"none called {', '.join(missing)}")
        rows = []
        for row in reader:
            try:
                rows.append(
                    (int(float(row["worker"])), int(float(row["time"])), float(row["batch_time_norm"] or "nan"))
                )
            except (TypeError, ValueError, OverflowError):
                raise DataError(f"{path}, line {reader.line_num}", "numbers", f"{row}") from None
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


def _observations(path: Path) -> dict[int, str]:
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {int(row["job"]): row["observation"] or "" for row in csv.DictReader(file)}


@dataclass(frozen=True, slots=True)
class Found:
    """What `leadline diagnose JOB` says of slow ranks, as `SlowWorker` of the API; `missing`: why nobody is named."""

    stragglers: tuple[Mapping[str, Any], ...]
    missing: str = ""


def found_in(run: Run) -> Found:
    """What ships says of a job: its times are stored as steps, then the job is asked for."""
    usable = np.isfinite(run.time_N) & (run.time_N > 0)
    worker_N, iteration_N = run.worker_N[usable], run.iteration_N[usable]
    took_N = np.rint(run.time_N[usable] * UNIT_NS).astype(np.int64)
    iteration_T, of_N = np.unique(iteration_N, return_inverse=True)
    longest_T = np.zeros(len(iteration_T), np.int64)
    np.maximum.at(longest_T, of_N, took_N)
    start_N = END_NS - longest_T.sum() + (np.cumsum(longest_T) - longest_T)[of_N]
    job = f"job-{run.number}"
    rows = pa.table(
        {"job": [job] * len(of_N), "rank": worker_N, "step": iteration_N, "start_ns": start_N,
         "end_ns": start_N + took_N, "metrics": pa.array([[]] * len(of_N), pa.map_(pa.string(), pa.float64()))}
    )  # fmt: skip
    with empty_store() as store:
        append(store, STEP, rows)
        told = slow_workers(Reader(store, asked(END_NS)), job, int(start_N.min(initial=0)), END_NS)
    return Found(tuple(told["workers"]), told["missing"])


def first_of(found: Found) -> Mapping[str, Any] | None:
    """The straggler that is named first: one that began within the run before one that always was slow."""
    return found.stragglers[0] if found.stragglers else None


def named_right(run: Run, found: Found) -> tuple[bool | None, str]:
    """Whether what is told is what the publishers say; None where they do not say it firmly, and why."""
    said = run.said.lower()
    told = first_of(found)
    if not said:
        return None, "the publishers say nothing"
    if "possibl" in said or "maybe" in said:
        return None, f"not said firmly: {run.said}"
    workers = [int(number) for number in re.findall(r"worker (\d+)", said)]
    if workers:
        hit = told is not None and told["rank"] in workers
        if hit and "middle" in said:
            hit = is_in_the_middle(run, told)
        return hit, run.said
    if re.search(r"\bno\b.*straggler", said):
        return not any(not each["from_start"] for each in found.stragglers), run.said
    if "several" in said:
        return len({each["rank"] for each in found.stragglers}) > 1, run.said
    return None, f"not understood: {run.said}"


def is_in_the_middle(run: Run, told: Mapping[str, Any] | None) -> bool:
    """Whether a straggler's first iteration is neither in the first nor in the last tenth of the run."""
    if told is None or told["from_start"]:
        return False
    first, last = int(run.iteration_N.min()), int(run.iteration_N.max())
    since = int(told["since_step"])
    return EDGE_SHARE < (since - first) / max(1, last - first) < 1 - EDGE_SHARE


def variation_onset(run: Run) -> int | None:
    """The floor: since when the coefficient of variation over the workers is highest, if it rose at all."""
    iteration_T, column_N = np.unique(run.iteration_N, return_inverse=True)
    by_column = [run.time_N[column_N == place] for place in range(len(iteration_T))]
    variation_T = np.array([np.nanstd(each) / np.nanmean(each) if len(each) > 1 else np.nan for each in by_column])
    place = rise(variation_T)
    return None if place is None else int(iteration_T[place])


def rise(variation_T: Floats) -> int | None:
    """First place of the segment in which a coefficient of variation is highest, if it rose by `RISE_MIN`."""
    seen = np.flatnonzero(np.isfinite(variation_T) & (variation_T > 0))
    values = np.log(variation_T[seen])
    places = segments(values[None, :], length_min=LENGTH_MIN, penalty=PENALTY)[0]
    levels = [float(np.median(part)) for part in np.split(values, places[1:]) if len(part)]
    if len(levels) < 2:
        return None
    highest = int(np.argmax(levels))
    return int(seen[places[highest]]) if levels[highest] - levels[0] >= np.log1p(RISE_MIN) else None


def variations(path: Path) -> list[Floats]:
    """The published coefficients of variation: one array for each job."""
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [np.array([float(value) if value else np.nan for value in row[1:]]) for row in rows]


def figures_of(run: Run, found: Found) -> list[Figure]:
    """What is told of one job."""
    told, n = first_of(found), run.number
    why = _words(found) or found.missing or "no worker stands out"
    hit, said = named_right(run, found)
    right = None if hit is None else float(hit)
    floor = variation_onset(run)
    return [
        Figure(f"straggler_job_{n}", None if told is None else told["rank"], "worker", reason=why),
        Figure(f"onset_job_{n}", None if told is None else told["since_step"], "iteration", reason=why),
        Figure(f"stragglers_job_{n}", len({each["rank"] for each in found.stragglers}), "workers"),
        Figure(f"named_right_job_{n}", right, "1", None if right is None else 1.0, reason=said),
        Figure(f"variation_onset_job_{n}", floor, "iteration", reason="floor: by the coefficient of variation alone"),
    ]  # fmt: skip


def _words(found: Found) -> str:
    return "; ".join(map(_spell, found.stragglers))


def _spell(each: Mapping[str, Any]) -> str:
    since = "always" if each["from_start"] else f"since {each['since_step']}"
    until = "" if each["until_step"] is None else f" until {each['until_step']}"
    return f"worker {each['rank']} {since}{until}, +{each['slowdown']:.0%}"


def judged(directory: Path) -> tuple[list[Figure], dict[str, Any]]:
    """Figures of all jobs in a directory, and every straggler that is told of each."""
    told: list[Figure] = []
    detail: dict[str, list[Mapping[str, Any]]] = {}
    rights: list[float] = []
    for run in runs(directory):
        found = found_in(run)
        told += figures_of(run, found)
        right, _ = named_right(run, found)
        rights += [] if right is None else [float(right)]
        detail[f"job_{run.number}"] = [dict(each) for each in found.stragglers]
    why = None if rights else "of no job it is said firmly who the straggler is"
    told.append(Figure("named_right", sum(rights) / len(rights) if rights else None, "ratio", 1.0, reason=why))
    published = directory / "coefficient_variation.csv.gz"
    if published.exists():
        rising = [rise(each) is not None for each in variations(published)]
        told.append(Figure("variation_rises", sum(rising) / len(rising), "ratio", reason=f"of {len(rising)} jobs"))
    return told, detail


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=SMALL, help=f"directory of job_<n>_norm.csv; {HOW_TO_GET}")
    parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    told, detail = judged(given.data)
    under = conditions(jobs=len(detail))
    tell("onset", {**under, "stragglers": detail} if given.json else under, told, given.json)


if __name__ == "__main__":
    main()
