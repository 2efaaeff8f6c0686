"""A simulated fleet in which nothing breaks, judged as it goes on: what is told of it is a false alarm.

Simulation ── a chunk of minutes ──> Judging ── a minute at a time, old rows forgotten ──> incidents
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from evals.runs.judged import SOURCES, source_hash
from leadline.analysis import ANALYSES
from leadline.model.tables import Table
from leadline.runner.judging import Judging, failures
from leadline.simulator.run import Simulation
from leadline.simulator.spec import Detail, SimulationSpec

S = 10**9
SLICE_NS = 60 * S
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is simulated, and how much of it is told. The same fleet always gives the same verdicts."""

    name: str
    gpus: int
    detail: Detail
    minutes: float
    seed: int = 1
    gpus_per_host: int = 8

    @property
    def spec(self) -> SimulationSpec:
        return SimulationSpec(
            gpus=self.gpus,
            minutes=self.minutes,
            seed=self.seed,
            quiet=True,
            detail=self.detail,
            gpus_per_host=self.gpus_per_host,
        )

    @property
    def node_days(self) -> float:
        return -(-self.gpus // self.gpus_per_host) * self.minutes * 60 / DAY_S


@dataclass(slots=True)
class Quiet:
    """What was judged, and what was told of it."""

    fleet: str
    detail: str
    seed: int
    nodes: int
    judged_s: float = 0.0  # of the fleet's time
    took_s: float = 0.0
    windows: int = 0
    rows: Counter[str] = field(default_factory=Counter)  # taken, by table
    told: Counter[str] = field(default_factory=Counter)  # concluded, by table
    jobs: int = 0
    incidents: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # windows in which an analysis failed
    symptoms: list[str] = field(default_factory=list)  # what incidents would be made of
    suppressed: int = 0  # of incidents, those that do not alert

    @property
    def node_days(self) -> float:
        return self.nodes * self.judged_s / DAY_S


class _Taken:
    """Keeps what a simulation writes until it is fetched: a sink."""

    def __init__(self) -> None:
        self._tables: dict[str, list[pa.Table]] = {}

    def write(self, table: Table, rows: pa.Table) -> None:
        self._tables.setdefault(table.name, []).append(rows)

    def finish(self) -> int:
        return 0

    def close(self) -> None:
        self._tables.clear()

    def fetched(self) -> dict[str, pa.Table]:
        """What was written since the last time, by table name."""
        found = {name: pa.concat_tables(parts) for name, parts in self._tables.items()}
        self._tables.clear()
        return found


def quiet(fleet: Fleet) -> Quiet:
    """Simulate a fleet and judge it to its end."""
    began, spec = time.monotonic(), fleet.spec
    simulation = Simulation(spec)
    found = Quiet(fleet.name, fleet.detail, fleet.seed, simulation.fleet.hosts)
    judging, taken = Judging(ANALYSES, spec.start_ns), _Taken()
    jobs: set[str] = set()
    from_ns = spec.start_ns
    for share in simulation.write(taken):
        tables = taken.fetched()
        for name, rows in tables.items():
            found.rows[name] += rows.num_rows
        jobs |= set(tables["step"]["job"].unique().to_pylist()) if "step" in tables else set()
        judging.add(tables)
        to_ns = spec.start_ns + round(share * spec.seconds * S)
        for at_ns in _minutes(from_ns, to_ns):
            judging.until(at_ns)
            judging.forget(at_ns)
        from_ns = to_ns
    told = judging.told()
    found.told.update({name: rows.num_rows for name, rows in told.items()})
    _count(found, told, spec.start_ns)
    found.judged_s, found.took_s = spec.seconds, time.monotonic() - began
    found.failures = list(failures(told))
    found.windows, found.jobs = judging.windows, len(jobs)
    return found


def _minutes(from_ns: int, to_ns: int) -> Iterator[int]:
    """Ends of the slices of a span; the last one is its end."""
    while from_ns < to_ns:
        from_ns = min(from_ns + SLICE_NS, to_ns)
        yield from_ns


def _count(found: Quiet, told: Mapping[str, pa.Table], from_ns: int) -> None:
    for row in told["symptom"].to_pylist() if "symptom" in told else []:
        at_s = (row["start_ns"] - from_ns) / S
        lost, blamed = row["lost_gpu_seconds"] or 0.0, row["blamed"] or "[]"
        found.symptoms.append(
            f"{row['entity']} {row['symptom']} at {at_s:.0f} s, {lost:.1f} GPU-s, blames {blamed:.200}"
        )
    told_causes = told["cause"].to_pylist() if "cause" in told else []
    for row in told["incident"].to_pylist() if "incident" in told else []:
        if row["suppressed"]:
            found.suppressed += 1
        else:
            causes = [each for each in told_causes if each["incident"] == row["incident"]]
            first = min(causes, key=lambda each: int(each["position"]), default=None)
            found.incidents.append({
                "fleet": f"{found.fleet}-{found.seed}", "incident": row["incident"], "entity": row["entity"],
                "symptom": row["symptom"], "verdict": row["verdict"],
                "cause": f"{first['entity']} {first['rule']}" if first and first["chosen"] else None,
                "lost_gpu_seconds": round(row["lost_gpu_seconds"] or 0.0, 1),
            })  # fmt: skip


# --- kept ---------------------------------------------------------------------------------------------------------


def is_kept(fleet: Fleet, cache: Path | None) -> bool:
    """Whether a fleet was judged before, by the same source."""
    return cache is not None and _path(fleet, cache).exists()


def quiet_kept(fleet: Fleet, cache: Path | None) -> Quiet:
    """As `quiet`, or what it said the last time."""
    if cache is None:
        return quiet(fleet)
    path = _path(fleet, cache)
    try:
        given = json.loads(path.read_text())
        return Quiet(**{**given, "rows": Counter(given["rows"]), "told": Counter(given["told"])})
    except (OSError, ValueError, TypeError, KeyError):
        pass  # not there, or cut off: judged again
    found = quiet(fleet)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    # Not by `asdict`: it takes a Counter of pairs for one of words.
    partial.write_text(json.dumps({each.name: getattr(found, each.name) for each in fields(found)}))
    partial.replace(path)
    return found


def _path(fleet: Fleet, cache: Path) -> Path:
    name = f"{fleet.name}-{fleet.gpus}-{fleet.gpus_per_host}-{fleet.minutes:g}-{fleet.seed}"
    return cache / f"quiet-{name}-{source_hash((*SOURCES, 'simulator'))}.json"
