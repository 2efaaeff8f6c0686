"""Rows of `edge_fit`, as the agents of a small mesh send them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.builders.incident import Names, rows_of

from leadline.analysis.spec import Window
from leadline.model.tables.fabric import EDGE_FIT
from leadline.model.units import S

FROM = 1_790_000_000 * S
WINDOW = Window(FROM, FROM + 5 * S)
REAL = {"h0": 0, "h1": 2_000_000, "h2": -3_000_000, "h3": 500}  # what each host's clock is ahead, ns
BASE = {"h0": 10**9, "h1": -(10**9), "h2": 7, "h3": 0}  # what each prober's clock is ahead
WAY_NS = 2_000  # of each direction


ALL = [("h0", "h1"), ("h0", "h2"), ("h1", "h2"), ("h3", "h0"), ("h3", "h1"), ("h2", "h3")]


def rows(
    edges: list[tuple[str, str]], rate_ppb: float = 0.0, biased_ns: dict[tuple[str, str], int] | None = None
) -> list[dict[str, Any]]:
    """What agents send in the window: each edge and each host once a second."""
    found = []
    for second in range(1, 5):
        at_ns = FROM + second * S
        for one, other in edges:
            off_ns = BASE[other] - BASE[one] + (biased_ns or {}).get((one, other), 0)
            found.append(edge(one, other, at_ns, off_ns, rate_ppb))
        for host in {each for pair in edges for each in pair}:
            found.append(row(host, host, at_ns) | {"state": "self", "src_port": 0})
    return found


def row(one: str, other: str, at_ns: int) -> dict[str, Any]:
    names = (f"{way}_{what}_ns" for way in ("there", "back") for what in ("min", "p50", "p99", "queue"))
    nothing = dict.fromkeys(names)
    return {
        "tenant": "default", "cluster": "default", "host": one, "clock": f"{one}/1", "src": one, "dst": other,
        "dst_clock": f"{other}/1", "src_port": 8446, "class": 0, "end_ns": at_ns + REAL[one],
        "probe_ns": at_ns + BASE[one], "ahead_ns": REAL[one] - BASE[one],
        "window_ns": 2 * S, "report_ns": S, "offset_ns": None, "rate_ppb": None,
        "bound_ns": None, "width_ns": None, "noise_ns": None, "probes": 0, "stamp": "kernel", "stall_ns": None,
        "there_sent": 0, "there_lost": 0, "back_sent": 0, "back_lost": 0, **nothing,
    }  # fmt: skip


def edge(one: str, other: str, at_ns: int, offset_ns: int, rate_ppb: float) -> dict[str, Any]:
    told = row(one, other, at_ns) | {"state": "valid", "probes": 200, "offset_ns": offset_ns, "rate_ppb": rate_ppb}
    told |= {"bound_ns": 3000, "width_ns": 2000.0, "noise_ns": 10.0}
    for way in ("there", "back"):
        told |= {f"{way}_min_ns": WAY_NS, f"{way}_p50_ns": WAY_NS + 500, f"{way}_p99_ns": WAY_NS + 9000,
                 f"{way}_queue_ns": 9000, f"{way}_sent": 100, f"{way}_lost": 1}  # fmt: skip
    return told


def fitted_mesh() -> dict[str, pa.Table]:
    """Four hosts that all probe each other."""
    return {EDGE_FIT.name: rows_of(EDGE_FIT, rows(ALL), Names())}
