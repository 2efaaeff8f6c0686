"""Settings of the runner."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """What is judged, from what, and what that may take. `leadline replay` sets the first two."""

    replay_file: str = field(
        default="",
        metadata={
            "doc": "Incident bundle to replay; then no telemetry is taken and nothing ages. Empty: live telemetry."
        },
    )
    replay_speed: float = field(
        default=1.0,
        metadata={"doc": "How many recorded seconds pass in one second; 0: as fast as the store takes them.", "min": 0},
    )
    enabled: bool = field(default=True, metadata={"doc": "Whether analyses run at all."})
    disabled: tuple[str, ...] = field(
        default=(), metadata={"doc": "Analyses that do not run, by name; see `leadline show analyses`."}
    )
    workers: int = field(
        default=0,
        metadata={
            "doc": "Worker processes for analyses: so many calls are judged at a time. Each holds 160 MB of private "
            "memory, and more while it works. 0: two, so that short windows do not wait for a long one; one where this "
            "process may use only one core.",
            "unit": "processes",
            "min": 0,
            "max": 64,
        },
    )
    executor: Literal["local", "ray"] = field(
        default="local",
        metadata={"doc": "Where calls of analyses run: in worker processes beside the server, or on a Ray cluster."},
    )
    ray_address: str = field(
        default="auto",
        metadata={
            "doc": "Ray cluster that runs already, as Ray writes it: `auto` (the one on this machine), `host:port`, "
            "`ray://host:port`."
        },
    )
    nice: int = field(
        default=5,
        metadata={"doc": "How far these step back behind what takes telemetry in.", "min": 0, "max": 19},
    )
    backfill_s_max: int = field(
        default=3600,
        metadata={
            "doc": "After a start, windows that closed meanwhile are judged if they are no older than this; older "
            "ones by `leadline backfill`.",
            "unit": "s",
            "min": 0,
        },
    )
    provider: str = field(
        default="default",
        metadata={
            "doc": "Tenant that runs the machines: it may speak of everything, says who holds which host, and verdicts "
            "on links, switches and hosts are its own. Others' verdicts follow from their own rows and its."
        },
    )

    @property
    def calls_max(self) -> int:
        """How many calls are judged at a time: `workers`, or what 0 stands for."""
        return self.workers or min(2, len(os.sched_getaffinity(0)))
