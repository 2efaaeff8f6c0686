"""What of a matrix is done: one line of JSON for each cell that ended, appended as it ends.

    {"cell": "slow-link-medium-rings-s3", "state": "done", "workload": "rings", "took_s": 41.2, "bytes": 1203456, ...}

A cell counts as done when its line says so and its bundle and its truth are there; so a matrix that was interrupted,
killed, or whose files somebody removed goes on with exactly what is missing.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from leadline.lab.matrix.plan import Cell
from leadline.model.errors import DataError

FILE = "matrix.jsonl"
BUNDLE, TRUTH, SCENARIO, LOG = ".leadline", ".truth.json", ".yaml", ".log"


@dataclass(frozen=True, slots=True)
class Ended:
    """How one cell ended."""

    cell: str
    state: Literal["done", "failed"]
    workload: str
    took_s: float
    bytes: int  # of the bundle
    version: str  # of Leadline
    why: str = ""  # of a failure: the last line that the run printed


class Journal:
    """The directory of a matrix: its cells' files and what became of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / FILE
        self._ended: dict[str, Ended] = {}
        if self._file.exists():
            for number, line in enumerate(self._file.read_text().splitlines(), start=1):
                self._take(line, number)

    def path(self, cell: Cell, suffix: str) -> Path:
        """A file of a cell."""
        return self.directory / f"{cell.name}{suffix}"

    def ended(self, cell: Cell) -> Ended | None:
        """How a cell ended, or None: it did not yet, or its files are gone."""
        found = self._ended.get(cell.name)
        if found is not None and found.state == "done":
            bundle = self.path(cell, BUNDLE)
            if not bundle.exists() or bundle.stat().st_size != found.bytes or not self.path(cell, TRUTH).exists():
                return None
        return found

    def left(self, cells: Sequence[Cell], again: bool = False) -> list[Cell]:
        """The cells that are still to be run; with `again` also those that failed."""
        out = []
        for cell in cells:
            ended = self.ended(cell)
            if ended is None or (again and ended.state == "failed"):
                out.append(cell)
        return out

    def write(self, ended: Ended) -> None:
        """Remember how a cell ended; on disk when the call returns."""
        self._ended[ended.cell] = ended
        self.directory.mkdir(parents=True, exist_ok=True)
        whole = not self._file.exists() or self._file.read_bytes().endswith(b"\n") or not self._file.stat().st_size
        with self._file.open("a") as file:
            # A line that was cut off by a kill must not swallow the next one.
            file.write(("" if whole else "\n") + json.dumps(asdict(ended)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def seconds(self) -> dict[str, list[float]]:
        """How long cells took, by their workload."""
        found: dict[str, list[float]] = {}
        for ended in self._ended.values():
            if ended.state == "done":
                found.setdefault(ended.workload, []).append(ended.took_s)
        return found

    def _take(self, line: str, number: int) -> None:
        try:
            given = json.loads(line)
            ended = Ended(**given)
        except ValueError:
            return  # cut off by a kill: that cell is run again
        except TypeError as error:
            expected = f"lines with {', '.join(Ended.__dataclass_fields__)}"
            raise DataError(f"{self._file}, line {number}", expected, str(error)) from error
        self._ended[ended.cell] = ended


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long the rest will take: half of all cases within low and high, if the rest is like what was seen."""

    seconds: float
    low_s: float
    high_s: float
    seen: int  # cells that it rests on


def estimate(left: Sequence[Cell], seen: Mapping[str, Sequence[float]], at_least_s: float, parallel: int) -> Estimate:
    """Time left for these cells, by how long those before them took; a workload not seen yet is taken as any other.

    Without any cell seen: the time line itself, below which it cannot be, and no upper bound but twice that.
    """
    everything = [each for times in seen.values() for each in times]
    middle = low = high = 0.0
    for cell in left:
        times = sorted(seen.get(cell.workload) or everything)
        if not times:
            middle, low, high = middle + 1.5 * at_least_s, low + at_least_s, high + 2 * at_least_s
        elif len(times) < 4:
            middle, low, high = middle + statistics.median(times), low + times[0], high + times[-1]
        else:
            first, half, third = statistics.quantiles(times, n=4)
            middle, low, high = middle + half, low + first, high + third
    return Estimate(middle / parallel, low / parallel, high / parallel, len(everything))
