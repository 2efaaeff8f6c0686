"""Small analyses for tests of what runs them: sums, a job's seconds, one that reads verdicts, one that does harm."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import codes, ids, ints
from leadline.analysis.spec import Analysis, Part, Read, Verdicts, Window, analysis
from leadline.model.tables.accounts import LEDGER
from leadline.model.tables.fabric import FLOW_SAMPLE, RELATION
from leadline.model.tables.paths import ECMP_GROUP, FLOW_VOLUME
from leadline.model.tables.training import STEP


@analysis(
    name="toy-volume",
    version=1,
    reads=(Read(FLOW_SAMPLE, ("flow", "rate", "frame_bytes")), Read(RELATION, ("child", "to_ns"), valid=True)),
    writes=(FLOW_VOLUME,),
    window_s=10,
    grace_s=2,
    late_s=60,
    seconds_max=20,
)
def volumes(samples: pa.Table, relation: pa.Table, *, window: Window) -> Verdicts:
    """Bytes of each flow; `low` is the number of edges that hold at the end of the window."""
    flow_G2, group_N = np.unique(ids(samples, "flow"), axis=0, return_inverse=True)
    bytes_N = ints(samples, "rate") * ints(samples, "frame_bytes")
    sum_G = np.bincount(group_N, bytes_N, len(flow_G2))
    groups = len(flow_G2)
    return {
        "flow_volume": {
            "flow": flow_G2,
            "link": ["link:toy"] * groups,
            "job": [None] * groups,
            "end_ns": np.full(groups, window.to_ns),
            "window_ns": np.full(groups, window.window_ns),
            "bytes": sum_G,
            "low": np.full(groups, float(relation["to_ns"].null_count)),
            "high": sum_G,
        }
    }


@analysis(
    name="toy-busiest",
    version=1,
    reads=(Read(FLOW_VOLUME, ("link", "bytes"), look_back_ns=20 * 10**9),),
    writes=(ECMP_GROUP,),
    window_s=10,
    grace_s=0,
    late_s=60,
)
def busiest(volume: pa.Table, *, window: Window) -> Verdicts:
    """Bytes of all flows in this window and the two before."""
    if not volume.num_rows:
        return {}
    return {
        "ecmp_group": {
            "switch": ["toy"], "group": ["all"], "end_ns": [window.to_ns], "window_ns": [window.window_ns],
            "links": [["link:toy"]], "flows": [volume.num_rows], "bytes": [float(np.sum(volume["bytes"].to_numpy()))],
            "efficiency": [1.0], "busiest": ["link:toy"], "busiest_bytes": [0.0], "colliding": [[]], "jobs": [[]],
        }
    }  # fmt: skip


@analysis(
    name="toy-seconds", version=1, reads=(Read(STEP, ("job", "start_ns", "end_ns")),), writes=(LEDGER,),
    window_s=20, grace_s=2, late_s=60, part=Part.JOB,
)  # fmt: skip
def seconds(step: pa.Table, *, window: Window) -> Verdicts:
    """Seconds of a job's steps; `confidence` is the share of steps whose clock has a bound."""
    if not step.num_rows:
        return {}
    took_N = ints(step, "end_ns") - ints(step, "start_ns")
    return {
        "ledger": {
            "job": [window.job], "end_ns": [window.to_ns], "window_ns": [window.window_ns], "category": ["compute"],
            "owner": [None], "seconds": [float(took_N.sum() / 1e9)], "gpu_seconds": [float(step.num_rows)],
            "confidence": [1 - step["bound_ns"].null_count / step.num_rows], "lost_seconds": [0.0],
            "lost_gpu_seconds": [0.0], "depth": ["steps"],
        }
    }  # fmt: skip


@analysis(
    name="toy-trouble", version=1, reads=(Read(FLOW_SAMPLE, ("switch",)),), writes=(FLOW_VOLUME,),
    window_s=10, grace_s=2, late_s=60, seconds_max=1.0,
)  # fmt: skip
def trouble(samples: pa.Table, *, window: Window) -> Verdicts:
    """What the name of a switch asks for: raise, its process, die, hang, another table."""
    asked = codes(samples, "switch").names
    if "raise" in asked:
        raise ValueError("asked to raise")
    if "process" in asked:
        raise ValueError(f"process {os.getpid()}")
    if "die" in asked:
        os.kill(os.getpid(), signal.SIGKILL)
    if "hang" in asked:
        time.sleep(60)
    return {"event": {}} if "other" in asked else {}


TOYS: Sequence[Analysis] = (volumes, busiest, seconds)
ALL: Sequence[Analysis] = (*TOYS, trouble)
REGISTRY = "leadline.testing.analyses:ALL"
