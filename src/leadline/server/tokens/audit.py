"""Who did what: two append-only files beside the token file, one JSON object a line, for their owner only.

    tokens.json.acts       what changed something, or needed a right that not everybody has
    tokens.json.refused    what was refused; the same again within a minute is counted, not repeated

Two, so that whoever is refused often enough to fill one cannot push the acts out. A file that reaches its bound becomes
`.1`, and the one before that is gone: at most 4 x FILE_BYTES_MAX on disk.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

log = logging.getLogger("leadline")

FILE_BYTES_MAX = 16 << 20  # 250 bytes a row: 60,000 rows, a year of acts at 160 a day
REPEAT_NS = 60 * 10**9  # an agent that is refused tries every 10 s; one row a minute tells that
KINDS_MAX = 1000  # different refusals held for counting; more of them within a minute share one row
TEXT_MAX = 300  # characters of each field
FAILED_EVERY_S = 60.0

Row = Mapping[str, object]


class Audit:
    """The two files. Safe for many threads; several processes may append."""

    def __init__(self, token_file: Path, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._acts = token_file.with_name(f"{token_file.name}.acts")
        self._refused = token_file.with_name(f"{token_file.name}.refused")
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._again: dict[tuple[object, ...], tuple[int, int]] = {}  # since when, how often since
        self._failed = -FAILED_EVERY_S

    def act(self, row: Row) -> None:
        """Somebody does what not everybody may."""
        with self._lock:
            self._append(self._acts, row, 1)

    def refuse(self, row: Row) -> None:
        """Somebody was refused; the first time at once, then once a minute with how often."""
        with self._lock:
            now_ns = self._now_ns()
            key = tuple(row.values())
            if key not in self._again and len(self._again) >= KINDS_MAX:
                row = {"why": "more kinds of refusals than are counted separately"}
                key = tuple(row.values())
            since_ns, times = self._again.get(key, (None, 0))
            if since_ns is not None and 0 <= now_ns - since_ns < REPEAT_NS:
                self._again[key] = since_ns, times + 1
                return
            self._append(self._refused, row, times + 1)
            self._again[key] = now_ns, 0
            self._tell_ended(now_ns)

    def close(self) -> None:
        """Tell what was counted and not told."""
        with self._lock:
            self._tell_ended(self._now_ns() + REPEAT_NS)

    def _tell_ended(self, now_ns: int) -> None:
        """Rows of what came again and then no more."""
        for key, (since_ns, times) in list(self._again.items()):
            if now_ns - since_ns >= REPEAT_NS:
                del self._again[key]
                if times:
                    self._append(self._refused, {"again": " ".join(str(part) for part in key)}, times)

    def _append(self, path: Path, row: Row, times: int) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now_ns() / 1e9))
        told = {name: value[:TEXT_MAX] if isinstance(value, str) else value for name, value in row.items()}
        line = json.dumps({"time": at, **told, **({"times": times} if times > 1 else {})}).encode() + b"\n"
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(file, line)
                full = os.fstat(file).st_size >= FILE_BYTES_MAX
            finally:
                os.close(file)
            if full:
                os.rename(path, path.with_name(f"{path.name}.1"))
        except OSError as error:  # who must mend a full disk must be able to act on it
            if time.monotonic() - self._failed >= FAILED_EVERY_S:
                self._failed = time.monotonic()
                log.error("the audit cannot be written: %s: %s; row: %s", path, error.strerror, line.decode().strip())
