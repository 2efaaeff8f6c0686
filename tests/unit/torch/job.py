"""A small job of real processes: gloo over loopback, one process per rank, rings in a directory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.wire.ring.format import read_segment
from leadline.wire.ring.segments import decode_ring

HEAD = """
import os, sys, time, datetime
import torch, torch.distributed as dist
import leadline.torch as leadline_torch
torch.set_num_threads(1)
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def join(timeout_s=10):
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout_s))
"""

# Not through the interpreter's end: gloo's threads abort there now and then, with Leadline or without.
TAIL = """
watch.close()
sys.stdout.flush()
os._exit(0)
"""


def run_job(
    program: str, rings: Path, *, ranks: int = 2, timeout_s: float = 60, codes: Sequence[int] | None = None
) -> list[str]:
    """Run HEAD, `program`, TAIL in `ranks` processes; their output. Fails if an exit code is not the expected one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = []
    for rank in range(ranks):
        environ = os.environ | {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
            "LEADLINE_JOB": "test-1",
            "LEADLINE_RING_DIR": str(rings),
            "CUDA_VISIBLE_DEVICES": f"GPU-{rank}",
        }
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", HEAD + program + TAIL],
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = []
    try:
        outputs = [one.communicate(timeout=timeout_s)[0] for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()
    expected = list(codes) if codes is not None else [0] * ranks
    assert [one.returncode for one in started] == expected, "\n".join(outputs)
    return outputs


def rows_of(rings: Path) -> dict[str, list[dict[str, Any]]]:
    """What all rings of a directory tell, by table, in the order of their time."""
    found: dict[str, list[dict[str, Any]]] = {"collective": [], "step": [], "event": [], "relation": []}
    for path in sorted(rings.glob("*.ring")):
        reading = read_segment(path.read_bytes(), 0, 1 << 24)
        assert not reading.more
        if not reading.segment:
            continue
        for name, table in decode_ring(reading.segment).tables.items():
            found.setdefault(name, []).extend(table.to_pylist())
    for name, time in (("collective", "enqueued_ns"), ("step", "start_ns"), ("event", "time_ns")):
        found[name].sort(key=lambda row: row[time])
    return found
