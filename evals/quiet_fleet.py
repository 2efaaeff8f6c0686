"""A simulated fleet in which nothing breaks, judged as it goes on: what is told of it is a false alarm.

Simulation ── a chunk of minutes ──> Judging ── a minute at a time, old rows forgotten ──> incidents
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from evals.judging import Judging
from leadline.analysis import ANALYSES
from leadline.lab.simulate.run import Simulation
from leadline.lab.simulate.spec import Detail, SimulationSpec
from leadline.model.tables import Table

S = 10**9
SLICE_NS = 60 * S
DAY_S = 86_400.0
MINUTES = 60.0 * 24 * 7  # of a fleet's plan; how far it is judged is told


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is simulated, and how much of it is told."""

    name: str
    gpus: int
    detail: Detail
    seed: int = 1
    gpus_per_host: int = 8

    @property
    def spec(self) -> SimulationSpec:
        return SimulationSpec(
            gpus=self.gpus, minutes=MINUTES, seed=self.seed, quiet=True, detail=self.detail,
            gpus_per_host=self.gpus_per_host,
        )  # fmt: skip


@dataclass(slots=True)
class Quiet:
    """What was judged, and what was told of it."""

    fleet: str
    detail: str
    nodes: int = 0
    judged_s: float = 0.0  # of the fleet's time
    took_s: float = 0.0
    windows: int = 0
    rows: Counter[str] = field(default_factory=Counter)  # taken, by table
    told: Counter[str] = field(default_factory=Counter)  # concluded, by table
    jobs: int = 0
    incidents: list[dict[str, Any]] = field(default_factory=list)
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


def quiet(fleet: Fleet, seconds_max: float, node_days_max: float) -> Quiet:
    """Simulate and judge until so much time is over or so many node-days are judged. Errors: JudgementError."""
    began = time.monotonic()
    spec = fleet.spec
    simulation = Simulation(spec)
    found = Quiet(fleet.name, fleet.detail, nodes=simulation.fleet.hosts)
    judging, taken = Judging(ANALYSES, spec.start_ns), _Taken()
    jobs: set[str] = set()
    for share in simulation.write(taken):
        tables = taken.fetched()
        for name, rows in tables.items():
            found.rows[name] += rows.num_rows
        jobs |= set(tables["step"]["job"].unique().to_pylist()) if "step" in tables else set()
        judging.add(tables)
        end_ns = spec.start_ns + round(share * spec.seconds * S)
        if not _judge(judging, found, spec.start_ns, end_ns, began + seconds_max, node_days_max):
            break
    told = judging.told()
    found.told.update({name: rows.num_rows for name, rows in told.items()})
    _count(found, told)
    found.took_s, found.windows, found.jobs = time.monotonic() - began, judging.windows, len(jobs)
    return found


def _judge(judging: Judging, found: Quiet, from_ns: int, to_ns: int, deadline: float, node_days_max: float) -> bool:
    """Judge a chunk minute by minute. Returns: whether to go on."""
    for at_ns in _minutes(from_ns + round(found.judged_s * S), to_ns):
        judging.until(at_ns)
        judging.forget(at_ns)
        found.judged_s = (at_ns - from_ns) / S
        if time.monotonic() > deadline or found.node_days >= node_days_max:
            return False
    return True


def _minutes(from_ns: int, to_ns: int) -> Iterator[int]:
    """Ends of the slices of a span; the last one is its end."""
    while from_ns < to_ns:
        from_ns = min(from_ns + SLICE_NS, to_ns)
        yield from_ns


def _count(found: Quiet, told: Mapping[str, pa.Table]) -> None:
    for row in told["incident"].to_pylist() if "incident" in told else []:
        if row["suppressed"]:
            found.suppressed += 1
        else:
            causes = [each for each in told["cause"].to_pylist() if each["incident"] == row["incident"]]
            first = min(causes, key=lambda each: int(each["position"]), default=None)
            found.incidents.append({
                "fleet": found.fleet, "incident": row["incident"], "entity": row["entity"],
                "symptom": row["symptom"], "verdict": row["verdict"],
                "cause": f"{first['entity']} {first['rule']}" if first and first["chosen"] else None,
                "lost_gpu_seconds": round(row["lost_gpu_seconds"] or 0.0, 1),
            })  # fmt: skip
