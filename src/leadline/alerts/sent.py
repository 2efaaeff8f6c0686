"""What each receiver was told, on disk: after a restart nobody is told the news of yesterday again.

One SQLite file beside the store, a row per receiver and incident. Rows of what is over are dropped after `KEEP_NS`; an
incident is not looked at any more by then.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leadline.alerts.notice import Key
from leadline.model.errors import WorldError

log = logging.getLogger(__name__)

KEEP_NS = 7 * 86400 * 10**9
_TABLE = """CREATE TABLE IF NOT EXISTS told (
    receiver TEXT, tenant TEXT, cluster TEXT, incident TEXT,
    state TEXT NOT NULL, version TEXT NOT NULL, labels TEXT NOT NULL, at_ns INTEGER NOT NULL,
    PRIMARY KEY (receiver, tenant, cluster, incident))"""


@dataclass(frozen=True, slots=True)
class Told:
    """The newest that a receiver was told of an incident."""

    state: str
    version: str
    labels: Mapping[str, str]
    at_ns: int


class Sent:
    """The file. Thread-safe; opened by `open`. A file that is spoilt is put aside and a new one begun."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def open(self) -> None:
        """Errors: WorldError if the file can neither be read nor made."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._db = self._opened()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                aside = self.path.with_suffix(".spoilt")
                log.error("%s is no SQLite file (%s): it is kept as %s, a new one is begun", self.path, error, aside)
                self.path.replace(aside)
                self._db = self._opened()
        except (OSError, sqlite3.Error) as error:
            raise WorldError(
                f"{self.path}: cannot save the delivery state of alerts there: {error}; set alerts.state to a "
                "file that can be written"
            ) from error

    def _opened(self) -> sqlite3.Connection:
        # Calls come from several threads, one at a time.
        made = sqlite3.connect(self.path, timeout=5.0, check_same_thread=False, isolation_level=None)
        try:
            made.execute("PRAGMA journal_mode=WAL")
            made.execute("PRAGMA synchronous=NORMAL")
            made.execute(_TABLE)
        except sqlite3.Error:
            made.close()
            raise
        return made

    def close(self) -> None:
        """Twice is harmless."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def all_of(self, receiver: str) -> dict[Key, Told]:
        """What a receiver was told, by incident. Errors: sqlite3.Error."""
        with self._lock:
            assert self._db is not None, "not opened"
            rows = self._db.execute(
                "SELECT tenant, cluster, incident, state, version, labels, at_ns FROM told WHERE receiver = ?",
                (receiver,),
            ).fetchall()
        return {
            (tenant, cluster, incident): Told(state, version, json.loads(labels), at_ns)
            for tenant, cluster, incident, state, version, labels, at_ns in rows
        }

    def save(self, receiver: str, told: Mapping[Key, Told], now_ns: int) -> None:
        """Keep what a receiver was told; what is long over goes. All or nothing. Errors: sqlite3.Error."""
        rows = [
            (receiver, *key, each.state, each.version, json.dumps(dict(each.labels)), each.at_ns)
            for key, each in told.items()
        ]
        with self._lock:
            assert self._db is not None, "not opened"
            with self._db:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
                self._db.execute("DELETE FROM told WHERE state != 'open' AND at_ns < ?", (now_ns - KEEP_NS,))
