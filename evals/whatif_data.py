"""Published operation traces and what was published of them, read from a directory.

    trace-X.csv.gz   operations, one a row; also trace-X.csv
    meta-X.json      parallel sizes
    result-X.json    S and its decompositions; mw-X.json, ms-X.json: Mw, Ms
    labels.csv       root cause of each trace, in words

Only the trace must be there. What is cut or damaged is read as far as it goes, and what was left out is told.
"""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.ledger.operations.cause import Cause

NUMBERS = ("dp_rank", "stage", "rank", "step", "seq_id", "mc", "mb_id")
SECONDS = ("start_ts", "duration")

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
    """One trace of the directory: its rows as table `operation`, and notes on what could not be read."""

    name: str
    operation: pa.Table
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
    operation = _operation(_text(path, notes), notes)
    meta = _object(path.parent / f"meta-{name}.json", notes)
    sizes = {key: value for key, value in meta.items() if key.endswith("_size") and isinstance(value, int)}
    return Told(name, operation, _published(path.parent, name, notes), sizes, notes)


def _text(path: Path, notes: list[str]) -> str:
    packed = path.read_bytes()
    if not packed.startswith(b"\x1f\x8b"):
        return packed.decode("utf-8", "replace")
    unpacked, left = bytearray(), zlib.decompressobj(wbits=31)
    try:
        unpacked += left.decompress(packed)
    except zlib.error as error:
        # What came before the damage is found bit by bit: whole pieces first, so that one error costs one piece.
        notes.append(f"{path.name} is damaged: {error}")
        unpacked, left = bytearray(), zlib.decompressobj(wbits=31)
        for at in range(0, len(packed), 512):
            try:
                unpacked += left.decompress(packed[at : at + 512])
            except zlib.error:
                break
    if not left.eof:
        notes.append(f"{path.name} is cut: its last row is left out")
        unpacked = unpacked[: unpacked.rfind(b"\n") + 1]
    return unpacked.decode("utf-8", "replace")


def _operation(text: str, notes: list[str]) -> pa.Table:
    """Rows of a CSV as table `operation`. A row that lacks a number that it must have is left out and counted."""
    reader = csv.DictReader(io.StringIO(text))
    wanted = {*NUMBERS, *SECONDS, "optype"}
    lacking = sorted(wanted - set(reader.fieldnames or ()))
    if lacking:
        notes.append(f"columns are missing: {', '.join(lacking)}")
    kept: dict[str, list[Any]] = {name: [] for name in wanted}
    bad = 0
    for row in reader:
        try:
            numbers = {name: int(float(row.get(name) or -1)) for name in ("seq_id", "mc", "mb_id")}
            numbers |= {name: int(float(row[name])) for name in ("dp_rank", "stage", "rank", "step")}
            times = {name: round(float(row[name]) * 1e9) for name in SECONDS}
            if max(map(abs, (*numbers.values(), *times.values()))) >= 2**62:
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError):
            bad += 1
            continue
        for name, value in {**numbers, **times, "optype": row.get("optype") or ""}.items():
            kept[name].append(value)
    if bad:
        notes.append(f"{bad} rows could not be read")
    return _as_table(kept)


def _as_table(kept: dict[str, list[Any]]) -> pa.Table:
    column = {name: pa.array(np.array(kept[name], np.int64)) for name in (*NUMBERS, *SECONDS)}
    kinds: Sequence[str] = kept["optype"]
    return pa.table(
        {
            "job": pa.array(["trace"] * len(kinds), pa.string()),
            "rank": column["rank"],
            "stage": column["stage"],
            "dp_rank": column["dp_rank"],
            "step": column["step"],
            "kind": pa.array(kinds, pa.string()),
            "start_ns": column["start_ts"],
            "duration_ns": column["duration"],
            "seq": column["seq_id"],
            "micro_batch": column["mb_id"],
            "chunk": column["mc"],
        }
    )


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
