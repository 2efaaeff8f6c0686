"""What is to be sent and when: bodies in one file, and an index in order of time that a sender maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HTTP, UDP, PAGE = 0, 1, 2
# due_ns: of the wall clock. who: the host, Prometheus or switch that sends. path: into `Schedule.paths`; a page has the
# number of its target.
ENTRY = np.dtype([
    ("due_ns", "<i8"), ("at", "<i8"), ("size", "<i4"), ("who", "<i4"), ("path", "<i2"), ("how", "u1"), ("after", "u1"),
])  # fmt: skip
WATERMARKS = "/api/v1/rows/watermark"
PATHS = {
    "/api/v1/ring": "application/octet-stream",
    WATERMARKS: "application/x-ndjson",
    "/api/v1/rows/relation": "application/x-ndjson",
    "/api/v1/rows/edge_fit": "application/x-ndjson",
    "/api/v1/rows/probe_hop": "application/x-ndjson",
    "/v1/metrics": "application/x-protobuf",
    "/api/v1/write": "application/x-protobuf",
}
NUMBER = {path: number for number, path in enumerate(PATHS)}


@dataclass
class Writer:
    """Collects bodies. `close` writes the index."""

    folder: Path
    entries: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)  # sent, by what they are
    _at: int = 0

    def __post_init__(self) -> None:
        self._file: Any = (self.folder / "bodies").open("wb")

    def add(
        self, due_ns: int, body: bytes, who: int, path: int, how: int, what: str, rows: int, after: bool = False
    ) -> None:
        """One body. `after`: it is sent when the sender's body before it was answered, as a watermark is."""
        self.entries.append((due_ns, self._at, len(body), who, path, how, after))
        self.rows[what] = self.rows.get(what, 0) + rows
        self._file.write(body)
        self._at += len(body)

    def close(self) -> None:
        """Write what a sender reads."""
        self._file.close()
        index = np.array(self.entries, ENTRY)
        np.save(self.folder / "index.npy", index[np.argsort(index["due_ns"], kind="stable")])
