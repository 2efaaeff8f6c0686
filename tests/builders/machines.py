"""Rows of `clock_fit` and `delay` of a small fleet, some hosts of which share a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from evals.mesh.oscillators import START_NS, Scene, readings
from tests.builders.incident import Names, rows_of

from leadline.analysis.spec import Window
from leadline.model.tables.fabric import CLOCK_FIT, COLOCATION, DELAY
from leadline.model.units import S

SCENE = Scene(hosts=10, machines=7, seconds=180, step_s=1.0)
WINDOW = Window(START_NS + 170 * S, START_NS + 180 * S)
VERDICT = {"tenant": "default", "cluster": "default", "version": 1, "revision": 0}


def fits(scene: Scene = SCENE, seed: int = 1, tenant: str = "default") -> list[dict[str, Any]]:
    """A fit of each host a second; a daemon steers what each host shows."""
    told, rng = readings(scene, seed), np.random.default_rng(seed)
    steered_HT = np.rint(rng.normal(0, 1e3, told.offset_HT.shape)).astype(np.int64)
    return [
        {
            **VERDICT, "tenant": tenant, "analysis": "clock", "host": host, "clock": f"{host}/1", "end_ns": at_ns - 1,
            "offset_ns": int(steered_HT[h, t]), "ahead_ns": int(steered_HT[h, t] - told.offset_HT[h, t]) + 10**18,
            "rate_ppb": 0.0, "bound_ns": 200, "noise_ns": 10.0, "island": 0, "state": "fitted",
        }
        for h, host in enumerate(told.hosts) for t, at_ns in enumerate(told.time_T.tolist())
    ]  # fmt: skip


def pairs(scene: Scene = SCENE, seed: int = 1) -> set[frozenset[str]]:
    """Hosts that truly share a machine."""
    told = readings(scene, seed)
    return {
        frozenset((f"host:{one}", f"host:{other}"))
        for a, one in enumerate(told.hosts) for b, other in enumerate(told.hosts)
        if a < b and told.machine_H[a] == told.machine_H[b]
    }  # fmt: skip


def delay(dst: str, end_ns: int, queue_ns: int) -> dict[str, Any]:
    """A row of `delay`."""
    return {
        **VERDICT, "analysis": "clock", "src": "h01", "dst": dst, "src_port": 8446, "class": 0, "end_ns": end_ns,
        "window_ns": 5 * S, "min_ns": 2_000, "p50_ns": 3_000, "p99_ns": 9_000, "queue_p99_ns": queue_ns, "lost": 0.0,
        "count": 100, "bound_ns": 400, "state": "",
    }  # fmt: skip


def tables(
    fit_rows: Sequence[dict[str, Any]], delays: Sequence[dict[str, Any]] = (), told: Sequence[dict[str, Any]] = ()
) -> dict[str, pa.Table]:
    """As the analysis reads them."""
    given = ((CLOCK_FIT, fit_rows), (DELAY, delays), (COLOCATION, told))
    return {table.name: rows_of(table, list(rows), Names()) for table, rows in given}


def small_fleet() -> dict[str, pa.Table]:
    """Ten hosts on seven machines."""
    delays = [delay(f"h{h:02}", WINDOW.to_ns - k * 5 * S, 100 * h + k) for h in range(1, 4) for k in range(1, 4)]
    return tables(fits(), delays)
