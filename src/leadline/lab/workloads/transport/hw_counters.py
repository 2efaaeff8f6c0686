"""The hw_counters directory of an emulated RoCE NIC: one small file per counter, as sysfs has them.

    <state>/hosts/<host>/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence    "12\\n"

Only counters whose quantity the emulation really has are there. They add up over the jobs of a host: each process
adds what it counted, under a lock on the directory, so two jobs on one NIC do not overwrite each other.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from pathlib import Path

# Names and meanings: drivers/infiniband/hw/mlx5/counters.c; see model/nic_counters.py.
COUNTERS = (
    # of the responder, of the requester, of the port
    "out_of_sequence", "duplicate_request", "out_of_buffer",
    "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "req_transport_retries_exceeded",
    "rx_icrc_encapsulated", "rdma_tx_packets", "rdma_rx_packets", "rdma_tx_bytes", "rdma_rx_bytes",
)  # fmt: skip


class HwCounters:
    """Adds one process's counts to the files. `counts` is shared with the queue pairs of the NIC."""

    def __init__(self, directory: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self._directory = directory
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            self._add(dict.fromkeys(COUNTERS, 0))  # a NIC shows its zeros too

    def write(self) -> None:
        """Bring the files up to date; cheap when nothing changed."""
        fresh = {name: self.counts[name] - self._written[name] for name in COUNTERS}
        if any(fresh.values()) and self._directory is not None:
            self._add(fresh)
            self._written = Counter({name: self.counts[name] for name in COUNTERS})

    def _add(self, fresh: dict[str, int]) -> None:
        assert self._directory is not None
        lock = os.open(self._directory, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name, more in fresh.items():
                path = self._directory / name
                if more or not path.exists():
                    _replace(path, _read(path) + more)
        finally:
            os.close(lock)


def _read(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _replace(path: Path, value: int) -> None:
    """Whole or not at all: a reader between truncation and write would see an empty file, which sysfs never shows."""
    part = path.with_name(f".{path.name}")
    part.write_text(f"{value}\n")
    part.replace(path)
