"""The analysis `clock`: how far each host's clock is from the others', and how long packets take each way.

    edge_fit ── lines of the last half minute, step by step ──> live clock ──> clock_fit
        └────── delays by the edge's own line ──────────────────────┴──> by the mesh ──> delay

The live clock keeps no state between windows: it is followed anew over the rows of the last `LOOK_BACK_NS`, in which it
settles. So what is said of a window follows from rows alone, whether it is judged live, again because rows came late,
after a restart, or in a replay.
"""

from __future__ import annotations

import pyarrow as pa

from leadline.analysis.clock.delays import COUNTS, NUMBERS, delays
from leadline.analysis.clock.delays import DELAY as DELAYS
from leadline.analysis.clock.follow import FIT, Columns, followed
from leadline.analysis.clock.told import STEP_NS, told_of
from leadline.analysis.columns import codes
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.tables.fabric import CLOCK_FIT, DELAY, EDGE_FIT
from leadline.model.units import S

# Rows before a window from which the live clock is followed, because it is within its figure after 10 s of a cold
# start, and a step of a clock costs 3. Source: measured (docs/log.md).
LOOK_BACK_NS = 25 * S
COLUMNS = (
    "tenant", "clock", "src", "dst", "dst_clock", "src_port", "class", "end_ns", "probe_ns", "ahead_ns", "window_ns",
    "offset_ns", "rate_ppb", "bound_ns", "width_ns", "noise_ns", "state", *NUMBERS, *COUNTS,
)  # fmt: skip


@analysis(
    name="clock", version=3, reads=(Read(EDGE_FIT, COLUMNS, look_back_ns=LOOK_BACK_NS),), writes=(CLOCK_FIT, DELAY),
    window_s=5.0, grace_s=7.0, late_s=60.0,
)  # fmt: skip
def clock(edge_fit: pa.Table, *, window: Window) -> Verdicts:
    """How far each host's clock is from cluster time, and one-way delays between hosts, from probes."""
    if not edge_fit.num_rows:
        return {}
    fits: Columns = {column: [] for column in (*FIT, "tenant")}
    waits: Columns = {column: [] for column in (*DELAYS, "tenant")}
    begin_ns = window.from_ns - LOOK_BACK_NS
    before, steps = LOOK_BACK_NS // STEP_NS, (window.to_ns - begin_ns) // STEP_NS
    tenants = codes(edge_fit, "tenant")
    for number, tenant in enumerate(tenants.names):
        mine = edge_fit.filter(pa.array(tenants.code_N == number)) if len(tenants.names) > 1 else edge_fit
        told = told_of(mine, begin_ns)
        found = followed(told, steps, before)
        _add(fits, found.fits, tenant)
        _add(waits, delays(found, told, mine, window), tenant)
    return {CLOCK_FIT.name: fits, DELAY.name: waits}


def _add(whole: Columns, part: Columns, tenant: str) -> None:
    for name, values in part.items():
        whole[name] += values
    whole["tenant"] += [tenant] * len(next(iter(part.values())))
