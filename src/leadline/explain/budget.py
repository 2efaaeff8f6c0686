"""What the language model may cost in a day, and what it has cost; kept on disk, so that a restart gives no new day.

A question reserves what it may cost at most, and gives back what it did not take. What failed keeps its reservation:
who gave no answer may have counted all the same.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from leadline.explain.config import ExplainConfig

DAY_NS = 86_400 * 10**9
KEEP_DAYS = 400
BYTES_PER_TOKEN = 2.5
"""Fewer than any tokenizer needs for English with names (some 3 to 4), so that a reservation is never too small."""
_TABLE = "CREATE TABLE IF NOT EXISTS spent (day INTEGER PRIMARY KEY, tokens INTEGER NOT NULL, money REAL NOT NULL)"


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens and money, in the currency of the prices."""

    tokens: int
    money: float


def cost(config: ExplainConfig, tokens_in: int, tokens_out: int) -> Cost:
    """What so many tokens cost by the prices of the settings."""
    money = (tokens_in * config.price_in + tokens_out * config.price_out) / 1e6
    return Cost(tokens_in + tokens_out, money)


class Budget:
    """The day's budget. Thread-safe. Errors of the file: sqlite3.Error or OSError; then nothing was reserved."""

    def __init__(self, config: ExplainConfig, path: Path) -> None:
        self._config, self._path = config, path
        self._lock = threading.Lock()

    def reserve(self, wanted: Cost, now_ns: int) -> bool:
        """Take so much of the day; False, and nothing is taken, where it does not fit."""
        day = now_ns // DAY_NS
        with self._lock:
            db = self._opened()
            try:
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    spent = self._spent(db, day)
                    fits = (
                        spent.tokens + wanted.tokens <= self._config.tokens_per_day
                        and spent.money + wanted.money <= self._config.money_per_day
                    )
                    if fits:
                        self._add(db, day, wanted)
                    db.execute("DELETE FROM spent WHERE day < ?", (day - KEEP_DAYS,))
                return fits
            finally:
                db.close()

    def settle(self, reserved: Cost, taken: Cost, now_ns: int) -> None:
        """Give back what of a reservation of that time was not taken."""
        with self._lock:
            db = self._opened()
            try:
                with db:
                    back = Cost(taken.tokens - reserved.tokens, taken.money - reserved.money)
                    self._add(db, now_ns // DAY_NS, back)
            finally:
                db.close()

    def spent(self, now_ns: int) -> Cost:
        """What the day has cost so far, reservations included."""
        with self._lock:
            db = self._opened()
            try:
                return self._spent(db, now_ns // DAY_NS)
            finally:
                db.close()

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        made = sqlite3.connect(self._path, timeout=5.0, isolation_level=None)
        try:
            made.execute(_TABLE)
        except sqlite3.Error:
            made.close()
            raise
        return made

    @staticmethod
    def _spent(db: sqlite3.Connection, day: int) -> Cost:
        row = db.execute("SELECT tokens, money FROM spent WHERE day = ?", (day,)).fetchone()
        return Cost(*row) if row else Cost(0, 0.0)

    @staticmethod
    def _add(db: sqlite3.Connection, day: int, more: Cost) -> None:
        db.execute(
            "INSERT INTO spent VALUES (?, max(0, ?), max(0, ?)) ON CONFLICT (day) DO UPDATE SET "
            "tokens = max(0, tokens + ?), money = max(0, money + ?)",
            (day, more.tokens, more.money, more.tokens, more.money),
        )
