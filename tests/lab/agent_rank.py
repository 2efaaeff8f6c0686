"""A rank for test_agent.py: writes 500 collectives into a ring, waits for the file `go`, then sleeps or eats memory.

Announces itself as the torch hook does. Not a test.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
import uuid
from pathlib import Path

from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

directory = Path(os.environ["LEADLINE_RING_DIR"])
stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
with (directory / f"rank{os.environ['RANK']}.part").open("w+b") as file:
    file.truncate(ring_bytes(1024))
    memory = mmap.mmap(file.fileno(), 0)
    format_ring(
        memory, host=os.uname().nodename, job=os.environ["LEADLINE_JOB"], rank=int(os.environ["RANK"]), world_size=2,
        source="test", pid=os.getpid(), tid=os.getpid(), pid_start_ticks=int(stat[19]), start_ns=time.time_ns(),
        start_monotonic_ns=time.monotonic_ns(),
        boot_id=uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes,
    )  # fmt: skip
    ring = RingWriter(memory)
    Path(file.name).rename(Path(file.name).with_suffix(".ring"))
for seq in range(500):
    ring.collective_begin("bert-1/0x9c", seq, "all_reduce", "float32", 1 << 20, 2, time.time_ns())
    time.sleep(0.001)
while not (directory / "go").exists():
    time.sleep(0.05)
eaten = []
end = time.monotonic() + 60
while time.monotonic() < end:
    if sys.argv[1] == "eat":
        eaten.append(bytearray(b"x" * 2**20))
    time.sleep(0.02)
