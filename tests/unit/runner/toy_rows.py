"""Rows that the toy analyses read: flows, steps on clocks that are off, edges; a minute of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from tests.builders.incident import Names, rows_of

from leadline.model.tables import BY_NAME

S = 10**9
BEGIN_NS = 1_750_000_020 * S  # a whole number of 20 s windows
SECONDS = 60
OFFSET_NS = {"h1/1": 3 * S, "h2/1": -2 * S}  # of the clocks; h3/1 has no fit


def flows(
    seconds: range = range(SECONDS),
    switch: str = "leaf1",
    tenant: str = "acme",
    seed: int = 1,
    begin_ns: int = BEGIN_NS,
) -> pa.Table:
    """Ten samples in each of the seconds from `begin_ns` on."""
    rows: list[dict[str, Any]] = []
    for second in seconds:
        rng = np.random.default_rng([seed, second])
        for number in range(10):
            rows.append(
                {
                    "switch": switch, "time_ns": BEGIN_NS + second * S + number * S // 10, "rate": 1000,
                    "frame_bytes": int(rng.integers(64, 1500)), "flow": int(rng.integers(1, 5)), "tenant": tenant,
                    "src_ip": "10.0.0.1", "dst_ip": "10.0.0.2", "batch": second * 100 + seed, "batch_row": number,
                }
            )  # fmt: skip
    return rows_of(BY_NAME["flow_sample"], rows, Names())


def steps(seconds: range = range(SECONDS)) -> pa.Table:
    """A step of half a second of each of three ranks each second, stamped by clocks that are off."""
    rows: list[dict[str, Any]] = []
    for second in seconds:
        for rank, job in enumerate(["bert", "bert", "llama"]):
            clock = f"h{rank + 1}/1"
            start_ns = BEGIN_NS + second * S + OFFSET_NS.get(clock, 0)
            rows.append(
                {
                    "job": job, "rank": rank, "step": second, "start_ns": start_ns, "end_ns": start_ns + S // 2,
                    "host": f"h{rank + 1}", "clock": clock, "batch": 7, "batch_row": second * 3 + rank,
                }
            )  # fmt: skip
    return rows_of(BY_NAME["step"], rows, Names())


def fits(seconds: range = range(-600, SECONDS, 10)) -> pa.Table:
    """Fits of the clocks that have one."""
    rows = [
        {
            "host": clock.split("/")[0], "clock": clock, "end_ns": BEGIN_NS + second * S, "offset_ns": offset_ns,
            "rate_ppb": 0.0, "bound_ns": 1000, "state": "fitted", "analysis": "coarse-clock", "version": 1,
            "revision": 0,
        }
        for second in seconds
        for clock, offset_ns in OFFSET_NS.items()
    ]  # fmt: skip
    return rows_of(BY_NAME["clock_fit"], rows, Names())


def edges(closed_s: int | None = None) -> pa.Table:
    """Two edges; the second is closed after so many seconds."""
    row = {"kind": "in", "from_ns": BEGIN_NS - 3600 * S, "source": "test", "confidence": 1.0}
    ends = [None, None if closed_s is None else BEGIN_NS + closed_s * S]
    rows = [{**row, "child": f"port:h{n}/eth0", "parent": f"host:h{n}", "to_ns": end} for n, end in enumerate(ends)]
    return rows_of(BY_NAME["relation"], rows, Names())


def story() -> dict[str, pa.Table]:
    """All of them, by table name."""
    return {"flow_sample": flows(), "step": steps(), "clock_fit": fits(), "relation": edges(25)}
