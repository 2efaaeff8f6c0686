"""What a matrix has: bundles by fault, and for each fault the raw signal that proves that it happened.

The signal is what a fault's `seen` read from the kernel, a log or a page before the fault and at its end; a fault of
which nothing moved is told as unproven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline.lab.faults import BY_NAME
from leadline.lab.matrix.journal import BUNDLE, TRUTH, Journal
from leadline.lab.matrix.plan import HEALTHY, Cell
from leadline.lab.truth import Entry, read_truth

NAME = "matrix.md"


@dataclass(slots=True)
class FaultReport:
    """What the matrix has of one fault."""

    fault: str
    layer: str = ""
    fault_class: str = ""
    seen_in: str = ""
    bundles: int = 0
    failed: int = 0
    unproven: int = 0  # bundles in which no signal moved
    bytes: int = 0
    magnitudes: dict[str, int] = field(default_factory=dict)
    workloads: dict[str, int] = field(default_factory=dict)
    signals: dict[str, str] = field(default_factory=dict)  # magnitude -> the first that moved
    lost_gpu_seconds: dict[str, list[float]] = field(default_factory=dict)  # magnitude -> of each bundle


def report(cells: Sequence[Cell], journal: Journal) -> list[FaultReport]:
    """What is there of each fault, in the order of the cells. Errors: DataError for a broken truth file."""
    found: dict[str, FaultReport] = {}
    for cell in cells:
        one = found.setdefault(cell.fault, FaultReport(cell.fault))
        ended = journal.ended(cell)
        if ended is None:
            continue
        if ended.state == "failed":
            one.failed += 1
            continue
        one.bundles += 1
        one.bytes += journal.path(cell, BUNDLE).stat().st_size
        one.magnitudes[cell.magnitude] = one.magnitudes.get(cell.magnitude, 0) + 1
        one.workloads[cell.workload] = one.workloads.get(cell.workload, 0) + 1
        _take_truth(one, cell, journal.path(cell, TRUTH))
    return list(found.values())


def _take_truth(one: FaultReport, cell: Cell, path: Path) -> None:
    entries = [entry for entry in read_truth(path)[0] if entry.fault == cell.fault and not entry.decoy]
    if cell.fault == HEALTHY:
        return
    moved = [signal for entry in entries for signal in moved_signals(entry)]
    if not moved:
        one.unproven += 1
    for entry in entries:
        one.layer, one.fault_class, one.seen_in = entry.layer, entry.fault_class, entry.seen_in
        if entry.lost_gpu_seconds is not None:
            one.lost_gpu_seconds.setdefault(cell.magnitude, []).append(entry.lost_gpu_seconds)
    if moved:
        one.signals.setdefault(cell.magnitude, moved[0])


def moved_signals(entry: Entry) -> list[str]:
    """`name: before -> after` of what proves a fault (its `signal`) and changed; what changed most first."""
    kind = BY_NAME.get(entry.fault)
    proof = kind.signal if kind else ""
    seen = entry.seen or {}
    before, after = seen.get("before"), seen.get("after")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return []
    was, now = dict(_flat(before)), dict(_flat(after))
    moved = [(name, was.get(name), value) for name, value in now.items() if was.get(name) != value and _is(name, proof)]
    return [f"{name}: {_short(a)} -> {_short(b)}" for name, a, b in sorted(moved, key=_weight, reverse=True)]


def _is(name: str, proof: str) -> bool:
    """Whether a value is the one that proves: `queue_drops` is each port's, too: `leaf1/Ethernet3 queue_drops`."""
    return name == proof or name.split()[-1] == proof or name.split()[0] == proof


def _weight(moved: tuple[str, object, object]) -> float:
    """Words first, then what rose by the largest factor."""
    _, before, after = moved
    if not isinstance(after, int | float):
        return 2.0
    start = before if isinstance(before, int | float) else 0
    return float(abs(after - start)) / float(abs(start) + 1)


def _flat(given: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", value


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def as_markdown(found: Sequence[FaultReport]) -> str:
    """The report as a page."""
    bundles, failed, unproven = (
        sum(getattr(each, name) for each in found) for name in ("bundles", "failed", "unproven")
    )
    faults = sum(each.fault != HEALTHY for each in found)
    lines = [
        f"{bundles} bundles of {faults} faults, {failed} cells failed, {unproven} unproven.",
        "",
        "| fault | seen in | bundles | small/medium/large | GPU-seconds lost | raw signal, before -> at its end |",
        "|---|---|---|---|---|---|",
    ]
    for each in found:
        sizes = "/".join(str(each.magnitudes.get(size, 0)) for size in ("small", "medium", "large"))
        signal = each.signals.get("medium") or next(iter(each.signals.values()), "")
        told = signal.replace("|", "\\|") or ("no fault" if each.fault == HEALTHY else "none moved")
        lines.append(f"| {each.fault} | {each.seen_in} | {each.bundles} | {sizes} | {_lost(each)} | {told} |")
    return "\n".join(lines) + "\n"


def _lost(each: FaultReport) -> str:
    told = [
        f"{size} {sorted(values)[len(values) // 2]:.1f}"
        for size in ("small", "medium", "large")
        if (values := each.lost_gpu_seconds.get(size))
    ]
    return ", ".join(told) or "not measured"
