"""Published operation traces and what was published of them, read from a directory.

    trace-X.csv.gz   operations, one a row; also trace-X.csv
    meta-X.json      parallel sizes
    result-X.json    S and its decompositions; mw-X.json, ms-X.json: Mw, Ms
    labels.csv       root cause of each trace, in words

Only the trace must be there. What is cut or damaged is read as far as it goes, and what was left out is told.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.analysis.ledger.operations.cause import Cause
from leadline.model.errors import DataError
from leadline.wire.traces.read import read_trace_file
from leadline.wire.traces.trace_file import TraceFile

WORDS: tuple[tuple[str, Cause], ...] = (
    ("sequence", Cause.SEQUENCE),
    ("garbage", Cause.GARBAGE),
    ("stage", Cause.STAGE),
    ("network", Cause.COMMUNICATION),
    ("communication", Cause.COMMUNICATION),
    ("nic", Cause.COMMUNICATION),
    ("link", Cause.COMMUNICATION),
    ("worker", Cause.WORKER),
    ("none", Cause.NONE),
)
"""Words of labels, and the class that they mean; the first that occurs counts."""


@dataclass(frozen=True, slots=True)
class Published:
    """What the authors found in a trace; None where it was not published."""

    slowdown: float | None = None
    by_workers: float | None = None
    by_last_stage: float | None = None
    dp_rank: int | None = None  # that slows most by itself
    stage: int | None = None
    cause: Cause | None = None
    label: str | None = None


@dataclass(slots=True)
class Told:
    """One trace of the directory, and notes on what could not be read."""

    name: str
    found: TraceFile | None  # as `leadline import trace` reads it; None if it cannot be used
    published: Published
    sizes: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def traces(directory: Path) -> list[Path]:
    """Files of traces in a directory, in order of their names."""
    return sorted([*directory.glob("trace-*.csv.gz"), *directory.glob("trace-*.csv")])


def read(path: Path) -> Told:
    """One trace with what was published of it. Errors: OSError if the trace itself cannot be opened."""
    name = path.name.removeprefix("trace-").removesuffix(".gz").removesuffix(".csv")
    notes: list[str] = []
    found = _found(path, notes)
    meta = _object(path.parent / f"meta-{name}.json", notes)
    sizes = {key: value for key, value in meta.items() if key.endswith("_size") and isinstance(value, int)}
    return Told(name, found, _published(path.parent, name, notes), sizes, notes)


def _found(path: Path, notes: list[str]) -> TraceFile | None:
    try:
        found = read_trace_file(path.name, path.read_bytes())
    except DataError as error:
        notes.append(str(error))
        return None
    notes += found.notes
    return found


def _object(path: Path, notes: list[str]) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return {}
    return found if isinstance(found, dict) else {}


def _published(directory: Path, name: str, notes: list[str]) -> Published:
    result = _object(directory / f"result-{name}.json", notes)
    label = _labels(directory, notes).get(name)
    return Published(
        _number(result.get("blocking_slowdown")),
        _number(_object(directory / f"mw-{name}.json", notes).get("Mw")),
        _number(_object(directory / f"ms-{name}.json", notes).get("Ms")),
        _top(result.get("blocking_decompose_by_dp_rank")),
        _top(result.get("blocking_decompose_by_stage")),
        None if label is None else cause_of(label),
        label,
    )


def cause_of(label: str) -> Cause | None:
    """The class that a label means; None if it says nothing that is known."""
    return next((cause for word, cause in WORDS if word in label.lower()), None)


def _labels(directory: Path, notes: list[str]) -> dict[str, str]:
    path = directory / "labels.csv"
    if not path.exists():
        return {}
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return {row["trace"]: row["root_cause"] or "" for row in csv.DictReader(file)}
    except (OSError, KeyError, csv.Error) as error:
        notes.append(f"labels.csv cannot be read: {error!r}")
        return {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _top(slowdowns: object) -> int | None:
    """The one that slows most, of a decomposition."""
    if not isinstance(slowdowns, dict) or not slowdowns:
        return None
    best = max(slowdowns, key=lambda key: _number(slowdowns[key]) or 0.0)
    return int(best) if str(best).isdigit() else None
