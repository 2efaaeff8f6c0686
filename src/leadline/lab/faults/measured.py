"""What a job does as the kernel and its own log tell it: what a fault is measured by, and what proves it.

Not by way of Leadline's telemetry: the truth must not depend on what is judged by it.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.lab.workloads.base import RankProcess, Workload

WINDOW_S = 3.0  # several steps of what the lab trains; CPU time is told in hundredths of a second
RECENT_NS = 10_000_000_000  # how far back "now" reaches when a step's length is told
LOG_END_BYTES = 1 << 16  # what is looked for stands near the end
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads, as /proc/<pid>/stat counts it; 0.0 when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(words[11]) + int(words[12])) / _TICKS_PER_S  # utime and stime


def cores_used(ranks: Sequence[RankProcess], window_s: float | None = None) -> list[float]:
    """Cores that each of them used over the next `window_s` (default `WINDOW_S`); it takes as long as that."""
    window_s = WINDOW_S if window_s is None else window_s
    before = [cpu_seconds(one.process.pid) for one in ranks]
    began = time.monotonic()
    time.sleep(window_s)
    passed = max(time.monotonic() - began, 1e-3)
    return [
        max(0.0, cpu_seconds(one.process.pid) - earlier) / passed for one, earlier in zip(ranks, before, strict=True)
    ]


def step_s(job: Workload) -> float | None:
    """Median of the job's latest steps (of 10 s, or the last one), seconds, as its rank 0 wrote them down, or None."""
    steps = job.steps_done()
    since_ns = time.time_ns() - RECENT_NS
    recent = [step for step in steps if step[1] >= since_ns] or steps[-1:]
    return round(statistics.median(end - start for start, end in recent) / 1e9, 4) if recent else None


def told(log: Path, event: str) -> list[Mapping[str, Any]]:
    """The last lines of JSON in a log whose `event` is that; a line that is not whole is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_END_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        if line.startswith("{") and line.endswith("}") and f'"event": "{event}"' in line:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def work(one: RankProcess) -> Mapping[str, Any]:
    """What a training rank last told of a step's work: tokens, seconds of data and compute, which batch; or nothing."""
    lines = told(one.log, "work")
    return lines[-1] if lines else {}


def same_batches(one: RankProcess) -> int:
    """How many steps of a rank, one after the other until now, had the same batch, by its own log; 0: none told."""
    batches = [line.get("batch") for line in reversed(told(one.log, "work"))]
    return len(list(itertools.takewhile(lambda batch: batch == batches[0], batches)))
