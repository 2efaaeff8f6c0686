"""What really happened in a lab, written down before it happens.

`NAME.truth.json` (contracts, section 7) lies beside a bundle, never in it. A fault's entry is written with its
planned times before the fault starts, and again with the real ones when it has started and ended; so a lab that is
killed in between leaves a file that says what was about to happen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from leadline.model.errors import DataError

FaultClass = Literal["persistent", "gray", "transient"]
Layer = Literal["application", "host", "gpu", "network", "storage", "telemetry"]
Magnitude = Literal["small", "medium", "large"]
MAGNITUDES: tuple[Magnitude, ...] = ("small", "medium", "large")
SeenIn = Literal["lab", "replay", "simulated"]
"""Really broken in the lab's kernel; counters and log lines of real hardware played back; or only computed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One fault, or one harmless thing that looks like one (`decoy`)."""

    fault: str
    component: tuple[str, ...]  # entity ids: what is broken, not what suffers
    layer: Layer
    fault_class: FaultClass
    onset_ns: int
    end_ns: int | None  # None: it lasts longer than the scenario
    lost_gpu_seconds: float | None = None  # None: nobody measured it
    decoy: bool = False
    magnitude: Magnitude | None = None  # None: its parameters were given one by one
    parameters: Mapping[str, object] | None = None  # all of them, as a scenario would give them
    seen_in: SeenIn = "lab"
    shared: bool = False  # slow steps were those of another fault too: each has an equal part in what they lost
    seen: Mapping[str, object] | None = None  # what the raw counters said before and after; for people

    def as_json(self) -> dict[str, object]:
        """As it stands in the file; the class is called `class` there."""
        out = asdict(self)
        out["component"] = list(self.component)
        out["class"] = out.pop("fault_class")
        return out


class TruthFile:
    """The file of one run. Every change is on disk when the call returns."""

    def __init__(self, path: Path, scenario: str, seed: int) -> None:
        self.path = path
        self._scenario = scenario
        self._seed = seed
        self._entries: list[Entry] = []
        self._told: dict[str, object] = {}

    @property
    def entries(self) -> Sequence[Entry]:
        """All faults so far, in the order in which they were planned."""
        return tuple(self._entries)

    def tell(self, more: Mapping[str, object]) -> None:
        """Write down what is no fault: `machines` that hosts share, `placement` (hosts of jobs by rank), `clocks`."""
        self._told.update(more)
        self.save()

    def plan(self, entry: Entry) -> int:
        """Write a fault down before it starts; returns its number."""
        self._entries.append(entry)
        self.save()
        return len(self._entries) - 1

    def change(
        self,
        number: int,
        *,
        onset_ns: int | None = None,
        end_ns: int | None = None,
        seen: Mapping[str, object] | None = None,
        lost_gpu_seconds: float | None = None,
        shared: bool | None = None,
    ) -> None:
        """Write what became of a fault."""
        entry = self._entries[number]
        self._entries[number] = replace(
            entry,
            onset_ns=entry.onset_ns if onset_ns is None else onset_ns,
            end_ns=entry.end_ns if end_ns is None else end_ns,
            seen=entry.seen if seen is None else {**(entry.seen or {}), **seen},
            lost_gpu_seconds=entry.lost_gpu_seconds if lost_gpu_seconds is None else lost_gpu_seconds,
            shared=entry.shared if shared is None else shared,
        )
        self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        text = json.dumps(
            {
                "faults": [entry.as_json() for entry in self._entries],
                "seed": self._seed,
                "scenario": self._scenario,
                **self._told,
            },
            indent=1,
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(self.path.name + ".part")
        with partial.open("w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)


def read_truth(path: Path) -> tuple[list[Entry], int, str]:
    """Entries, seed and scenario of a truth file. Errors: DataError; OSError if it cannot be read."""
    try:
        found = json.loads(path.read_text())
        entries = [_entry(each) for each in found["faults"]]
        return entries, int(found["seed"]), str(found["scenario"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(str(path), "a truth file with faults, seed and scenario", repr(error)) from error


def _entry(given: Mapping[str, object]) -> Entry:
    fields = dict(given)
    fields["fault_class"] = fields.pop("class")
    fields["component"] = tuple(fields["component"])  # type: ignore[arg-type]
    return Entry(**fields)  # type: ignore[arg-type]
