"""The cells of a matrix. Pure: from names to cells, from a cell to the scenario that it runs.

A cell is one fault of one magnitude on one kind of job with one seed. Each is a run of its own, on a cluster and a
Leadline of its own: nothing of one cell can be seen in the bundle of another.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml

from leadline.lab.faults import BY_NAME, FAULTS
from leadline.lab.scenarios.parts import can_befall
from leadline.lab.truth import MAGNITUDES, Magnitude
from leadline.lab.workloads import WORKLOADS
from leadline.model.errors import UsageError

SEEDS_MAX, CELLS_MAX = 10_000, 100_000  # 100,000 cells of half a minute are a month
HEALTHY = "none"  # a cell without a fault: what must not alarm
PRESET = "quad"  # the smallest fabric with two ways between any two hosts

# What a job is given so that a cell is short: small models, checkpoints and evaluations within its time.
SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {"hidden": 128, "layers": 2, "evaluate_every": 25, "checkpoint_every": 20},
    "vision": {"evaluate_every": 25, "checkpoint_every": 20},
    "recommendation": {"evaluate_every": 25, "checkpoint_every": 20},
    "finetune": {"steps": 0, "hidden": 128, "layers": 2, "evaluate_every": 25, "checkpoint_every": 20},
    "pipeline": {"micro_batches": 4},
    "serve": {"rate_per_s": 30.0},
    "bulk": {"src": "h1", "dst": "h2", "flows": 4, "rate_mbit": 20.0},
    "rings": {"max_bytes": 1 << 20, "iterations": 2, "seconds": 600.0, "pause_s": 0.05, "timeout_s": 12.0},
}


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a cell's time line: the job settles, the fault, the job recovers."""

    before_s: float = 45.0  # so much of a past detectors need (docs/analyses/anomaly.md)
    during_s: float = 15.0
    after_s: float = 8.0

    @property
    def total_s(self) -> float:
        """The whole time line."""
        return self.before_s + self.during_s + self.after_s


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the matrix."""

    fault: str  # "none": a healthy run
    magnitude: Magnitude
    workload: str
    seed: int
    decoy: bool = False

    @property
    def name(self) -> str:
        """Its name, and that of its files: `slow-link-medium-rings-s3`, with `-decoy` where one comes along."""
        return f"{self.fault}-{self.magnitude}-{self.workload}-s{self.seed}" + ("-decoy" if self.decoy else "")


def cells(
    faults: Sequence[str],
    magnitudes: Sequence[Magnitude],
    workloads: Sequence[str],
    seeds: Sequence[int],
    decoys: Collection[bool] = (False,),
) -> list[Cell]:
    """All cells that can be; a fault that none of the workloads can suffer gets the first kind that it can.

    They come seed by seed and magnitude by magnitude, so that a matrix that is stopped early has seen every fault.
    Errors: UsageError for more cells than anybody can run.
    """
    if (asked := len(seeds) * len(decoys) * len(magnitudes) * len(faults) * len(workloads)) > CELLS_MAX:
        raise UsageError(f"a matrix has at most {CELLS_MAX} cells, got {asked}; take fewer seeds, faults or workloads")
    found: dict[Cell, None] = {}
    for seed in seeds:
        for decoy in sorted(decoys):
            for magnitude in magnitudes:
                for fault in faults:
                    for workload in _fitting(fault, workloads):
                        found[Cell(fault, magnitude, workload, seed, decoy)] = None
    return list(found)


def quick(seed: int = 1) -> list[Cell]:
    """A slice for every test run: one fault of the network, of the host, of the GPU; and nothing wrong."""
    return [
        Cell("slow-link", "large", "rings", seed),
        Cell("sigstop", "small", "rings", seed),
        Cell("gpu-throttle", "medium", "rings", seed),
        Cell(HEALTHY, "medium", "rings", seed),
    ]


def _fitting(fault: str, workloads: Sequence[str]) -> list[str]:
    if fault == HEALTHY:
        return list(workloads)
    kind = BY_NAME[fault]
    fitting = [each for each in workloads if can_befall(kind, each)]
    return fitting or [next(each for each in WORKLOADS if can_befall(kind, each))]


def scenario_text(cell: Cell, times: Times, preset: str = "") -> str:
    """The scenario of a cell, as YAML: it lies beside the bundle, and `leadline lab run` runs it again.

    `preset` goes before the fault's own and the usual one.
    """
    kind = BY_NAME.get(cell.fault)
    scenario: dict[str, Any] = {
        "name": cell.name,
        "doc": f"A cell of a matrix: {cell.fault}, {cell.magnitude}, on {cell.workload}.",
        "topology": preset or (kind.preset if kind else "") or PRESET,
        "duration_s": times.total_s,
        "workloads": [{"workload": cell.workload, "name": f"{cell.workload}-1", **SETTINGS.get(cell.workload, {})}],
    }
    if kind is not None:
        fault: dict[str, Any] = {"fault": cell.fault, "magnitude": cell.magnitude, "at_s": times.before_s}
        if kind.lasts:
            fault["for_s"] = times.during_s
        if cell.decoy:
            fault["with_decoy"] = True
        scenario["faults"] = [fault]
    return yaml.safe_dump(scenario, sort_keys=False)


def chosen_faults(given: str) -> list[str]:
    """Names from `a,b`, `all`, or `all,none`. Errors: UsageError."""
    known = [each.name for each in FAULTS]
    return _chosen(given, known, "fault", [*known, HEALTHY])


def chosen_workloads(given: str) -> list[str]:
    """Kinds of jobs from `a,b` or `all`. Errors: UsageError."""
    return _chosen(given, list(WORKLOADS), "workload", list(WORKLOADS))


def chosen_magnitudes(given: str) -> list[Magnitude]:
    """Magnitudes from `small,large` or `all`. Errors: UsageError."""
    wanted = _chosen(given, list(MAGNITUDES), "magnitude", list(MAGNITUDES))
    return [each for each in MAGNITUDES if each in wanted]


def chosen_seeds(given: str) -> list[int]:
    """Numbers from `1`, `1,5` or `1-3`. Errors: UsageError."""
    found: list[int] = []
    for part in given.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise UsageError(f"--seeds: expected numbers like 1 or 1-3 or 1,5, got {given!r}")
        if int(last or first) - int(first) >= SEEDS_MAX:
            raise UsageError(f"--seeds: expected at most {SEEDS_MAX} numbers, got {part.strip()}")
        found.extend(range(int(first), int(last or first) + 1))
    return list(dict.fromkeys(found))


def _chosen(given: str, all_of_them: Iterable[str], what: str, known: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in (part.strip() for part in given.split(",")):
        if name == "all":
            found.extend(all_of_them)
        elif name in known:
            found.append(name)
        else:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}, or all"
            raise UsageError(f"no {what} {name!r}; {hint}")
    return list(dict.fromkeys(found))


def shuffled(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """The cells in another order: a slice of a large matrix that favours nothing."""
    out = list(cells)
    random.Random(seed).shuffle(out)
    return out
