"""What of a matrix is done: one line of JSON for each cell that ended, appended as it ends.

    {"cell": "slow-link-medium-rings-s3", "state": "done", "workload": "rings", "took_s": 41.2, "bytes": 1203456, ...}

A cell counts as done when its line says so and its bundle and its truth are there; so a matrix that was interrupted,
killed, or whose files somebody removed goes on with exactly what is missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from leadline.lab.matrix.plan import Cell
from leadline.model.errors import DataError, UsageError, WorldError

FILE, LOCK = "matrix.jsonl", "matrix.lock"
BUNDLE, TRUTH, SCENARIO, LOG = ".leadline", ".truth.json", ".yaml", ".log"
LOOK_EVERY_S = 0.2


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
            for number, line in enumerate(self._file.read_text(errors="replace").splitlines(), start=1):
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

    @contextmanager
    def claim(self, wait_s: float, stopping: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """The directory is ours until the end, and until every process that inherits the file descriptor has ended.

        So cells that outlive a killed matrix still hold it; for those it waits, `wait_s` at most. Errors: UsageError
        if another matrix is at work in it, WorldError if it cannot be made.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise WorldError(f"expected a directory that can be written, got {error}; give another one") from error
        try:
            deadline = time.monotonic() + wait_s
            while not _locked(descriptor):
                owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
                if owner.isdigit() and Path(f"/proc/{owner}").exists():
                    raise UsageError(
                        f"{self.directory}: another matrix (process {owner}) is at work in it; wait for its end, or "
                        "give another directory"
                    )
                if stopping() or time.monotonic() > deadline:
                    raise UsageError(
                        f"{self.directory}: cells of a matrix that was killed are still at work in it; see "
                        "`leadline lab status`, and try again when they have ended"
                    )
                time.sleep(LOOK_EVERY_S)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield descriptor
        finally:
            os.close(descriptor)

    def require_same(self, texts: Mapping[Cell, str]) -> None:
        """Errors: UsageError where a cell that is done had another topology or time line than it would have now."""
        for cell, text in texts.items():
            found, path = self.ended(cell), self.path(cell, SCENARIO)
            if found is None or found.state != "done" or not path.exists():
                continue
            was, now = _settings(path.read_text(errors="replace")), _settings(text)
            if differs := [name for name in now if was.get(name) != now[name]]:
                name = differs[0]
                raise UsageError(
                    f"{path}: cell {cell.name} is there with {name} {was.get(name)}, and would have {now[name]} now: "
                    "one matrix has one time line; give another directory, or the options of before"
                )

    def write(self, ended: Ended) -> None:
        """Remember how a cell ended; on disk when the call returns. Errors: WorldError if the disk does not take it."""
        try:
            self._write(ended)
        except OSError as error:
            raise WorldError(
                f"{self._file}: how cell {ended.cell} ended could not be written ({error}); make room, then run the "
                "same command: that cell is run again"
            ) from error

    def _write(self, ended: Ended) -> None:
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


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _settings(text: str) -> dict[str, Any]:
    """Topology and times of a cell's scenario: what may not differ within one matrix."""
    given = yaml.safe_load(text) or {}
    faults = given.get("faults") or [{}]
    return {
        "topology": given.get("topology"),
        "duration_s": given.get("duration_s"),
        "at_s": faults[0].get("at_s"),
        "for_s": faults[0].get("for_s"),
    }


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long the rest will take: low and high if every cell were as its workload's lower or upper quartile.

    The sum of many cells lies well within the two, so they err on the wide side.
    """

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
