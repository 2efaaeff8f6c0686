"""Rows of `edge_fit` and `delay` of a small fleet, some hosts of which share a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from evals.mesh.lines import START_NS, Mesh, machines_of, names_of, rows_of_edges
from tests.builders.incident import Names, rows_of

from leadline.analysis.spec import Window
from leadline.model.tables.fabric import COLOCATION, DELAY, EDGE_FIT
from leadline.model.units import S

MESH = Mesh(hosts=10, machines=7, degree=6)
WINDOW = Window(START_NS + 90 * S, START_NS + 120 * S)
VERDICT = {"tenant": "default", "cluster": "default", "version": 1, "revision": 0}


def edges(mesh: Mesh = MESH, seed: int = 1) -> list[dict[str, Any]]:
    """A line of each edge a second; a daemon steers what each host shows, and nobody its prober's clock."""
    found: list[dict[str, Any]] = rows_of_edges(mesh, seed).to_pylist()
    return found


def pairs(mesh: Mesh = MESH, seed: int = 1) -> set[frozenset[str]]:
    """Hosts that truly share a machine."""
    machine, names = machines_of(mesh, seed).tolist(), names_of(mesh.hosts)
    return {
        frozenset((f"host:{names[a]}", f"host:{names[b]}"))
        for b in range(mesh.hosts) for a in range(b) if machine[a] == machine[b]
    }  # fmt: skip


def delay(dst: str, end_ns: int, queue_ns: int) -> dict[str, Any]:
    """A row of `delay`."""
    return {
        **VERDICT, "analysis": "clock", "src": "h01", "dst": dst, "src_port": 8446, "class": 0, "end_ns": end_ns,
        "window_ns": 5 * S, "min_ns": 2_000, "p50_ns": 3_000, "p99_ns": 9_000, "queue_p99_ns": queue_ns, "lost": 0.0,
        "count": 100, "bound_ns": 400, "state": "",
    }  # fmt: skip


def tables(
    edge_rows: Sequence[dict[str, Any]], delays: Sequence[dict[str, Any]] = (), told: Sequence[dict[str, Any]] = ()
) -> dict[str, pa.Table]:
    """As the analysis reads them."""
    given = ((EDGE_FIT, edge_rows), (DELAY, delays), (COLOCATION, told))
    return {table.name: rows_of(table, list(rows), Names()) for table, rows in given}


def small_fleet() -> dict[str, pa.Table]:
    """Ten hosts on seven machines."""
    delays = [delay(f"h{h:02}", WINDOW.to_ns - k * 5 * S, 100 * h + k) for h in range(1, 4) for k in range(1, 4)]
    return tables(edges(), delays)
