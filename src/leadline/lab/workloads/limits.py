"""What the numbers of a workload may be, by their names, which mean the same in every kind of job.

A typing error is to be told before a cluster is up and eight ranks have loaded PyTorch, with its line; and none of them
is to fill the machine.
"""

from __future__ import annotations

SECONDS_MAX = 3e7  # a year
COUNT_MAX = 1_000_000_000

# Lowest and highest.
LIMITS: dict[str, tuple[float, float]] = {
    "world_size": (0, 4096),
    "gpus_per_host": (1, 64),
    "steps": (0, COUNT_MAX),
    "seconds": (0, SECONDS_MAX),
    "seed": (0, 2**31),
    "batch": (1, 4096),
    "evaluate_every": (0, COUNT_MAX),
    "checkpoint_every": (0, COUNT_MAX),
    "timeout_s": (0.1, 3600),
    "hidden": (1, 8192),
    "layers": (0, 128),
    "width": (1, 1024),
    "side": (4, 256),
    "history": (1, 1024),
    "stages": (0, 4096),
    "replicas": (1, 4096),
    "micro_batches": (1, 1024),
    "device_ms": (0, 60_000),
    "servers": (1, 4096),
    "batch_wait_ms": (0, 60_000),
    "queue_max": (1, 100_000),
    "channels": (1, 32),
    "min_bytes": (1, 1 << 30),
    "max_bytes": (1, 1 << 30),
    "factor": (1.01, 1 << 30),
    "iterations": (1, COUNT_MAX),
    "warmup": (0, COUNT_MAX),
    "cycles": (0, COUNT_MAX),
    "pause_s": (0, 3600),
    "payload_bytes": (4, 1 << 30),
    "flows": (1, 1024),
    "rate_mbit": (0, 400_000),
    "port": (1, 65_535),
}


def beyond(name: str, value: object) -> str:
    """What was expected of a number that is none of these; "" where it is one, or no number is asked for."""
    if name not in LIMITS or not isinstance(value, int | float):
        return ""
    low, high = LIMITS[name]
    return "" if low <= value <= high else f"{low:g} to {high:.10g}"  # nan is nowhere
