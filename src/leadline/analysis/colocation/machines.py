"""The analysis `colocation`: which virtual hosts share a machine, by what the clocks did of late.

    edge_fit ── lines ──> offsets of probers' clocks by block ──> colocated ──> colocation
    delay ────── queues before each host ─────────────────────────────┘

It keeps no state: each window reads the last minutes anew, so what it says follows from rows alone, live or in a
replay. Only since when something is told comes from what the windows before told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.colocation.colocation import Colocated, colocated, reference
from leadline.analysis.colocation.edges import SHARES, UNKNOWN
from leadline.analysis.colocation.lines import COLUMNS, series_of
from leadline.analysis.colocation.queueing import queues_of
from leadline.analysis.columns import codes, ints
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.tables.fabric import COLOCATION, DELAY, EDGE_FIT
from leadline.model.units import S

# ns of clocks that one window compares, its own 30 s included: at 50 ns of noise 120 s are needed. Source: measured
# (docs/analyses/colocation.md). 1,000 hosts with 5 edges each, each once a second: 600,000 rows.
COMPARED_NS = 120 * S
WINDOW_S = 30  # hosts move between machines by the hour, and what is compared is read anew each time. Source: judgement
LOOK_BACK_NS = COMPARED_NS - WINDOW_S * S
KNOWN_NS = 120 * S  # what was told within so long still holds; older: nobody has looked since
_TOLD = ("tenant", "entity", "others", "probability", "kind", "start_ns", "end_ns", "evidence", "seen_ns")


@analysis(
    name="colocation",
    version=1,
    reads=(
        Read(EDGE_FIT, COLUMNS, LOOK_BACK_NS),
        Read(DELAY, ("tenant", "dst", "end_ns", "queue_p99_ns"), LOOK_BACK_NS, waits=False, calls=False),
        Read(COLOCATION, _TOLD, KNOWN_NS, valid=True, waits=False, calls=False),
    ),
    writes=(COLOCATION,),
    window_s=WINDOW_S,
    grace_s=7,
    late_s=60,
)
def colocation(edge_fit: pa.Table, delay: pa.Table, earlier: pa.Table, *, window: Window) -> Verdicts:
    """Which virtual hosts share a machine, by their clocks and by what queues at once; unknown where neither can tell.

    Offsets are those of probers' clocks, which nobody in the guest steers. Accuracy: docs/analyses/colocation.md.
    """
    tenants = codes(edge_fit, "tenant")
    of_delay, of_earlier = codes(delay, "tenant"), codes(earlier, "tenant")
    out: dict[str, list[Any]] = {name: [] for name in _TOLD}
    for tenant in sorted({*tenants.names, *of_earlier.names}):
        mine, waits, before = (
            table.filter(pa.array(each.code_N == (each.names.index(tenant) if tenant in each.names else -2)))
            for table, each in ((edge_fit, tenants), (delay, of_delay), (earlier, of_earlier))
        )
        found = _found(mine, waits)
        for row in _rows(found, before.to_pylist(), window):
            for name, value in (row | {"tenant": tenant}).items():
                out[name].append(value)
    return {COLOCATION.name: out}


def _found(edge_fit: pa.Table, delay: pa.Table) -> list[Colocated]:
    """What one tenant's clocks say."""
    told, span_ns = series_of(edge_fit)
    queues = queues_of(codes(delay, "dst"), ints(delay, "end_ns"), ints(delay, "queue_p99_ns"))
    return colocated(told, span_ns=span_ns, witness=queues.odds)


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
