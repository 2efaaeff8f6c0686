"""For every analysis an input in which it has something to say about everything that it writes. Add one here.

A case is a function, so that a mistake in one fails its own tests only. Tables are whole (`arrow_table`, all columns);
what the analysis did not ask for is cut off by the suite. Prefer few rows that look like a real sender's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pyarrow as pa
from tests.builders.anomalies import WINDOW as ODD_WINDOW
from tests.builders.anomalies import odd_site
from tests.builders.causes import throttled_host
from tests.builders.expectation_hours import HOUR, minutes
from tests.builders.expectations import MINUTE, hot_gpu
from tests.builders.fabrics import T0, S, relation_table, sample_table, tiny_claims, tiny_samples
from tests.builders.failures import WINDOW as MINUTE_WINDOW
from tests.builders.failures import failing_job
from tests.builders.lossy_links import SPINE1_LEAF2, edge, lossy_link
from tests.builders.lossy_links import WINDOW as LOSSY_WINDOW
from tests.builders.machines import WINDOW as MACHINES_WINDOW
from tests.builders.machines import small_fleet
from tests.builders.mesh import WINDOW as MESH_WINDOW
from tests.builders.mesh import fitted_mesh
from tests.builders.messages import WINDOW as RING_WINDOW
from tests.builders.messages import ring_job
from tests.builders.probed_links import Probed, up
from tests.builders.slow_jobs import burning_host, lost_senders, slow_job, stalled_and_crashed
from tests.builders.slow_jobs import window as suffering_window
from tests.builders.small_job import slow_rank_job
from tests.common.analysis_laws import Case

from leadline.analysis.spec import Analysis, Window

WINDOW = Window(T0, T0 + 10 * S, tenant="provider")

JOB_WINDOW = replace(WINDOW, tenant="default", cluster="default", job="bert-1")


@cache
def tiny_site() -> Case:
    """Two jobs on a small Clos: contradicting cables, flows known, sprayed, partly seen, lied about, of nobody."""
    return Case({"relation": relation_table(tiny_claims()), "flow_sample": sample_table(tiny_samples())}, WINDOW)


@cache
def lossy_and_probed() -> dict[str, pa.Table]:
    """A link that flows suffer from; for probes one that is slow, one dead, a host that stalls."""
    probed = Probed(
        {(SPINE1_LEAF2, "leaf2"): 0.05},
        {(up(1, 2), "spine2"): 40_000},
        (edge(3),),
        since_s=1,
        stalls={"h5": 40_000_000},
        seconds=8,
    )
    return {**lossy_link(vanishes={"leaf2": 400.0}).tables(), **probed.tables()}


CASES: dict[str, Callable[[], Case]] = {
    "graph": tiny_site,
    "clock": lambda: Case(fitted_mesh(), MESH_WINDOW),
    "colocation": lambda: Case(small_fleet(), MACHINES_WINDOW),
    "path": tiny_site,
    "messages": lambda: Case(ring_job(), RING_WINDOW),
    "anomaly": lambda: Case(odd_site(), ODD_WINDOW),
    "failures": lambda: Case(failing_job(), MINUTE_WINDOW),
    "baseline": lambda: Case(slow_rank_job(), replace(MINUTE_WINDOW, job="bert-1")),
    "ledger": lambda: Case(slow_rank_job(), JOB_WINDOW),
    "sle": lambda: Case(hot_gpu(), MINUTE),
    "cause": throttled_host,
    "sle-hours": lambda: Case(minutes(), HOUR),
    "localise": lambda: Case(lossy_and_probed(), LOSSY_WINDOW),
    "stalls": lambda: Case(stalled_and_crashed(), suffering_window(2, 2)),
    "slowdowns": lambda: Case(slow_job(), suffering_window(10, 2)),
    "burning": lambda: Case(burning_host(), MINUTE),
    "telemetry": lambda: Case(lost_senders({"h1": 20.0, "h2": 40.0}), suffering_window(0, 5)),
}


def case_of(item: Analysis) -> Case:
    """The case of a registered analysis. Errors: AssertionError that says what to write."""
    assert item.name in CASES, (
        f"the analysis {item.name} has no case: add a function to CASES in tests/common/analysis_cases.py that gives "
        f"rows of {', '.join(read.table.name for read in item.reads)}, of which it writes at least one row of "
        f"{' and '.join(table.name for table in item.writes)}"
    )
    case = _made(item.name)
    missing = [read.table.name for read in item.reads if read.table.name not in case.tables]
    assert not missing, f"the case of {item.name} gives no {', '.join(missing)}, which it reads"
    assert case.window.window_ns == item.window_ns, f"the case of {item.name} judges {case.window.window_ns} ns"
    return case


@cache  # some take a second to make, and every law and every example of chance asks for one
def _made(name: str) -> Case:
    return CASES[name]()
