"""Labelled recordings of servers, and what others published about them."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from leadline.analysis.columns import Bools, Floats
from leadline.model.errors import DataError

HOW_TO_GET = {
    "smd": "public repository NetManAIOps/OmniAnomaly, as machine-<name>_test.csv.gz: m00, m01, ..., label",
    "asd": "public repository zhhlee/InterFusion, as <server>_test.csv.gz: m00, m01, ..., label",
    "nab": "public repository numenta/NAB: folders of <file>.csv, and windows.json as labels/combined_windows.json",
}
_HERE = Path(__file__).resolve().parent
PUBLISHED = {"smd": _HERE / "tsb_ad_smd.csv", "nab": _HERE / "tsb_ad_nab.csv"}
"""VUS-PR of each method on each series, from TheDatumOrg/TSB-AD (benchmark_exp/benchmark_eval_results, Apache-2.0), to
four decimals; the rows of these two suites."""
PAST_SHARE = 0.25  # of a recording that is in no published table: what TSB-AD takes as training part in most cases
_NO_METHOD = (
    "file", "ts_len", "anomaly_len", "num_anomaly", "avg_anomaly_len", "anomaly_ratio", "point_anomaly", "seq_anomaly",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published:
    """One series of TSB-AD: VUS-PR by method, and how many samples at the beginning were for training."""

    file: str
    past: int
    first: int  # first anomalous sample
    samples: int
    value_of: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Recording:
    """N samples of M metrics; which are odd; the spans of which it is told which metrics are at fault."""

    name: str
    value_NM: Floats
    label_N: Bools
    told: tuple[tuple[int, int, frozenset[int]], ...]  # first and last sample, metrics from 0
    published: Published | None

    def part(self, first: int, until: int) -> Recording:
        """Some of its samples, and the spans that lie in them."""
        told = tuple((begin - first, end - first, metrics) for begin, end, metrics in self.told
                     if first <= begin and end < until)  # fmt: skip
        return Recording(self.name, self.value_NM[first:until], self.label_N[first:until], told, self.published)

    @property
    def past(self) -> int:
        """How many samples at the beginning are the training part."""
        return self.published.past if self.published else int(len(self.value_NM) * PAST_SHARE)


def recordings(suite: str, directory: Path) -> Iterator[Recording]:
    """The recordings of a suite in a directory, by name. Errors: DataError, naming the file."""
    tables = published(PUBLISHED[suite]) if suite in PUBLISHED else []
    told = nab(directory) if suite == "nab" else servers(suite, directory)
    for name, value_NM, label_N, spans in told:
        yield Recording(name, value_NM, label_N, spans, _same(tables, label_N))


def published(path: Path) -> list[Published]:
    """A published table, one row each."""
    with path.open(newline="") as file:
        return [_published_row(row) for row in csv.DictReader(file)]


def _published_row(row: Mapping[str, str]) -> Published:
    match = re.search(r"_tr_(\d+)_1st_(\d+)", row["file"])
    if match is None:
        raise DataError(row["file"], "a name with _tr_<samples>_1st_<sample>", "none")
    values = {method: float(value) for method, value in row.items() if method not in _NO_METHOD and value}
    return Published(row["file"], int(match[1]), int(match[2]), int(row["ts_len"]), values)


def _same(tables: list[Published], label_N: Bools) -> Published | None:
    """The published series that a recording is: as long (one sample may be cut), and odd for the first time where it
    is. (Files there have numbers, not names; which number is which machine is told nowhere else. `1st` is the first
    anomaly after the training part or, in two files, within it.)"""
    odd = np.flatnonzero(np.diff(np.concatenate([[False], label_N]).astype(np.int8)) == 1)
    same = [each for each in tables if abs(each.samples - len(label_N)) <= 1 and np.any(np.abs(odd - each.first) <= 1)]
    return same[0] if len(same) == 1 else None


_Told = tuple[str, Floats, Bools, tuple[tuple[int, int, frozenset[int]], ...]]


def servers(suite: str, directory: Path) -> Iterator[_Told]:
    """SMD and ASD: `<name>_test.csv.gz` with a column `label`, maybe `<name>_interpretation.csv`."""
    paths = sorted(directory.glob("*_test.csv.gz"))
    if not paths:
        raise DataError(str(directory), f"files *_test.csv.gz, from {HOW_TO_GET[suite]}", "none")
    for path in paths:
        with gzip.open(path, "rt", newline="") as file:
            head = file.readline().strip().split(",")
            if head[-1] != "label":
                raise DataError(str(path), "a last column called label", head[-1])
            table = np.array(_numbers(path, file, len(head))).reshape(-1, len(head))
        name = path.name.removesuffix("_test.csv.gz")
        yield name, table[:, :-1], table[:, -1] > 0, _spans(directory / f"{name}_interpretation.csv")


def _numbers(path: Path, lines: Iterator[str], columns: int) -> list[list[float]]:
    rows = []
    for number, line in enumerate(lines, 2):
        try:
            rows.append([float(value or "nan") for value in line.split(",")])
        except ValueError:
            raise DataError(f"{path}, line {number}", "numbers", line.strip()[:80]) from None
        if len(rows[-1]) != columns:
            raise DataError(f"{path}, line {number}", f"{columns} values", f"{len(rows[-1])}")
    return rows


def _spans(path: Path) -> tuple[tuple[int, int, frozenset[int]], ...]:
    if not path.exists():
        return ()
    with path.open(newline="") as file:
        return tuple(
            (int(row["start"]), int(row["end"]), frozenset(int(metric) - 1 for metric in row["metrics"].split()))
            for row in csv.DictReader(file)
        )


def nab(directory: Path) -> Iterator[_Told]:
    """NAB: the files that `windows.json` names, and its windows as labels."""
    labels = directory / "windows.json"
    if not labels.exists():
        raise DataError(str(directory), f"a file windows.json, from {HOW_TO_GET['nab']}", "none")
    for file, windows in sorted(json.loads(labels.read_text()).items()):
        with (directory / file).open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        time_N = np.array([datetime.fromisoformat(row["timestamp"]) for row in rows])
        label_N = np.zeros(len(rows), np.bool_)
        for first, last in windows:
            label_N |= (time_N >= datetime.fromisoformat(first)) & (time_N <= datetime.fromisoformat(last))
        yield Path(file).stem, np.array([[float(row["value"])] for row in rows]), label_N, ()
