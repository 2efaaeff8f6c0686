"""Settings of the store, and the limits of one query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20


def _setting(default: Any, doc: str, unit: str | None = None) -> Any:
    """One setting: its default, what it does, its unit. `docs/` is generated from this metadata."""
    return field(default=default, metadata={"doc": doc, "unit": unit})


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the rows live and how they are kept."""

    url: str = _setting(
        "",
        "ClickHouse server, `http://user:password@host:8123/leadline` or `https://...`; "
        "empty: the embedded engine keeps the rows under `path`.",
    )
    path: str = _setting("leadline-data/store", "Directory of the embedded store; one process owns it.")
    cluster: str = _setting(
        "",
        "Name of the cluster in the server's `remote_servers`; empty: a single server. With a name, tables are "
        "made sharded and replicated (needs `url`).",
    )
    fsync: bool = _setting(
        False,
        "Acknowledge only what the disk has confirmed. Without it acknowledged rows survive the death of the "
        "process, with it the loss of power too; appends take several times longer.",
    )
    free_bytes_min: int = _setting(
        1024 * MIB,
        "Space that must be free on the disk of `path`; with less, appends are refused (and senders try again). "
        "The embedded engine does not notice a write that fails, so it must never come to one: best is a file "
        "system that nobody else fills.",
        "bytes",
    )
    ttl: bool = _setting(True, "Drop rows at the age their table declares; false keeps everything.")
    writers: int = _setting(2, "Appends that run at once; more wait.", "clients")
    readers: int = _setting(2, "Queries that run at once, of our own and of users each; more wait.", "clients")
    query_rows_max: int = _setting(100_000, "Rows one user query may return; more is an error.", "rows")
    query_seconds_max: int = _setting(30, "Seconds one user query may run.", "s")
    query_bytes_max: int = _setting(2048 * MIB, "Memory one user query may take.", "bytes")
    load_seconds_max: int = _setting(300, "Seconds a query of Leadline itself may run.", "s")
    load_bytes_max: int = _setting(8192 * MIB, "Memory a query of Leadline itself may take.", "bytes")
    connect_seconds_max: int = _setting(10, "Seconds to wait for a server to take a connection.", "s")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may take. 0 means no limit. Over a limit the query fails; nothing is cut off silently."""

    rows: int = 0  # of the result
    seconds: int = 0
    bytes: int = 0  # memory while running

    def settings(self) -> dict[str, str]:
        """The engine's settings that hold these limits."""
        return {
            "max_result_rows": str(self.rows),
            "result_overflow_mode": "throw",
            "max_execution_time": str(self.seconds),
            "timeout_overflow_mode": "throw",
            "max_memory_usage": str(self.bytes),
        }
