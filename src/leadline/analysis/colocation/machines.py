"""The analysis `colocation`: which virtual hosts share a machine, by what the clocks did of late.

    clock_fit ── offsets of probers' clocks ──> History ──> Series ──> colocated ──> colocation
    delay ────── queues before each host ────────────────────────────────┘

It keeps no state: each window reads the last minutes anew, so what it says follows from rows alone, live or in a
replay. Only since when something is told comes from what the windows before told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.clock.clock import clock
from leadline.analysis.colocation.colocation import Colocated, colocated, reference
from leadline.analysis.colocation.edges import SHARES, UNKNOWN
from leadline.analysis.colocation.history import BLOCK_NS, History, fed, series
from leadline.analysis.colocation.queueing import queues_of
from leadline.analysis.columns import codes, ints
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.tables.fabric import CLOCK_FIT, COLOCATION, DELAY
from leadline.model.units import S

# ns of clocks that one window compares, its own 10 s included: at 50 ns of noise 120 s are needed. Source: measured
# (docs/analyses/colocation.md). Of 1,000 hosts, each once a second: 180,000 rows.
COMPARED_NS = 180 * S
WINDOW_S = 10
LOOK_BACK_NS = COMPARED_NS - WINDOW_S * S
KNOWN_NS = 60 * S  # what was told within so long still holds; older: nobody has looked since
# Fits that a clock's own lines were there for; a prediction is no witness.
SEEN = pa.array(["fitted", "asymmetric", "re-anchored", "lying"])
SPAN_NS = 2 * S  # over which an agent fits a line. Source: the agent's window
_FIT = ("tenant", "analysis", "host", "clock", "end_ns", "offset_ns", "ahead_ns", "island", "state", "bound_ns")
_TOLD = ("tenant", "entity", "others", "probability", "kind", "start_ns", "end_ns", "evidence", "seen_ns")


@analysis(
    name="colocation",
    version=1,
    reads=(
        Read(CLOCK_FIT, _FIT, LOOK_BACK_NS),
        Read(DELAY, ("tenant", "dst", "end_ns", "queue_p99_ns"), LOOK_BACK_NS, waits=False, calls=False),
        Read(COLOCATION, _TOLD, KNOWN_NS, valid=True, waits=False, calls=False),
    ),
    writes=(COLOCATION,),
    window_s=WINDOW_S,
    grace_s=2,
    late_s=60,
)
def colocation(clock_fit: pa.Table, delay: pa.Table, earlier: pa.Table, *, window: Window) -> Verdicts:
    """Which virtual hosts share a machine, by their clocks and by what queues at once; unknown where neither can tell.

    Offsets are those of probers' clocks, which nobody in the guest steers: what the host's own clock is ahead of it is
    taken off. Accuracy: docs/analyses/colocation.md.
    """
    by = pc.equal(clock_fit["analysis"].cast(pa.string()), clock.name)
    seen = pc.is_in(clock_fit["state"].cast(pa.string()), SEEN)
    fits = clock_fit.filter(pc.fill_null(pc.and_(by, pc.and_(seen, pc.is_valid(clock_fit["ahead_ns"]))), False))
    tenants = codes(fits, "tenant")
    of_delay, of_earlier = codes(delay, "tenant"), codes(earlier, "tenant")
    out: dict[str, list[Any]] = {name: [] for name in _TOLD}
    for tenant in sorted({*tenants.names, *of_earlier.names}):
        mine, waits, before = (
            table.filter(pa.array(each.code_N == (each.names.index(tenant) if tenant in each.names else -2)))
            for table, each in ((fits, tenants), (delay, of_delay), (earlier, of_earlier))
        )
        found = _found(mine, waits, window)
        for row in _rows(found, before.to_pylist(), window):
            for name, value in (row | {"tenant": tenant}).items():
                out[name].append(value)
    return {COLOCATION.name: out}


def _found(fits: pa.Table, delay: pa.Table, window: Window) -> list[Colocated]:
    """What one tenant's clocks say. Times count from the begin of what is compared."""
    origin_ns = window.to_ns - COMPARED_NS
    host, clock = codes(fits, "host"), codes(fits, "clock")
    end_N, offset_N = ints(fits, "end_ns"), ints(fits, "offset_ns") - ints(fits, "ahead_ns")
    # A prober that began anew has another clock, and what its first one did is past.
    newest_H = np.full(len(host.names), -1, np.int64)
    order = np.lexsort((clock.code_N, end_N))
    newest_H[host.code_N[order]] = clock.code_N[order]
    kept = (host.code_N >= 0) & (clock.code_N == newest_H[host.code_N]) & (end_N > origin_ns)
    told = fed(
        History(block_ns=BLOCK_NS), host.names, host.code_N[kept], end_N[kept] - origin_ns - 1, offset_N[kept],
        ints(fits, "island")[kept],
    )  # fmt: skip
    queues = queues_of(codes(delay, "dst"), ints(delay, "end_ns"), ints(delay, "queue_p99_ns"))
    found = colocated(series(told), span_ns=SPAN_NS, witness=queues.odds)
    return [each.moved(origin_ns) for each in found]


def _rows(found: Sequence[Colocated], earlier: Sequence[Mapping[str, Any]], window: Window) -> list[dict[str, Any]]:
    """What holds now, since when it was first told, and what no longer holds."""
    known = {
        (row["entity"], row["kind"], tuple(row["others"] or ())): row
        for row in sorted(earlier, key=lambda row: (row["start_ns"], row["seen_ns"]))
        if row["end_ns"] is None and row["seen_ns"] < window.to_ns and row["kind"] in (SHARES, UNKNOWN)
    }
    out = {}
    for each in found:
        entity, kind = f"host:{each.host}", SHARES if each.why is None else UNKNOWN
        others = tuple(f"host:{other}" for other in each.others)
        before = known.pop((entity, kind, others), None)
        changed = any(one == entity for one, *_ in known)
        start_ns = before["start_ns"] if before else window.from_ns if changed else each.since_ns
        out[entity, kind, start_ns] = {
            "entity": entity, "others": list(others), "probability": each.probability, "kind": kind,
            "start_ns": start_ns, "end_ns": None, "evidence": json.dumps([reference(each, start_ns)]),
            "seen_ns": window.to_ns,
        }  # fmt: skip
    for row in known.values():
        gone = {name: row[name] for name in _TOLD if name != "tenant"}
        gone |= {"others": list(row["others"] or ()), "end_ns": max(row["seen_ns"], row["start_ns"])}
        gone |= {"seen_ns": window.to_ns, "evidence": row["evidence"] or "[]"}
        gone["probability"] = min(max(float(np.nan_to_num(row["probability"] or 0.0)), 0.0), 1.0)
        out.setdefault((row["entity"], row["kind"], row["start_ns"]), gone)
    return [out[key] for key in sorted(out)]
