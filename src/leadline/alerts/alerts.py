"""Alerts: incidents that begin, change and end are told to receivers. A part of the server process.

    incident, cause (store) ── every 2 s ──> board: how each incident stands now ──> one task per receiver ──> HTTP
                                                                          └── what it was told (alerts.sqlite)

Nothing here is called by what takes telemetry in. A look at the store that fails, an incident that cannot be put in
words, a receiver that is gone: each is counted, and the next look goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline.alerts.config import AlertsConfig
from leadline.alerts.delivery import Count, Delivery, ReceiverState
from leadline.alerts.due import late
from leadline.alerts.notice import Key, Notice, notice
from leadline.alerts.sent import KEEP_NS, Sent
from leadline.model.counters import counter
from leadline.model.errors import ConfigError, LeadlineError
from leadline.model.incidents import Symptom
from leadline.model.principal import Principal
from leadline.model.tables.verdicts import CAUSE, INCIDENT
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.view import Incidents, incidents_of
from leadline.views.rows import json_rows, rows_where

log = logging.getLogger(__name__)

MARGIN_NS = 600 * S  # windows are not judged in order, and some are behind
CAUSES_AT_ONCE = 500  # incidents whose causes one query asks for
STATE_FILE = "alerts.sqlite"


class Alerts:
    """All receivers and the board. Built inert; `open`, then `run` until cancelled, then `close`."""

    def __init__(
        self,
        config: AlertsConfig,
        store: Store,
        count: Count,
        url: str,
        environ: Mapping[str, str] = os.environ,
        now_ns: Callable[[], int] = time.time_ns,
        late_jobs: Callable[[], Collection[Key]] = tuple,
    ) -> None:
        """`late_jobs`: (tenant, cluster, job) whose data is late: alerts on them wait for it. Errors: ConfigError for
        receivers that cannot be."""
        names = [each.name for each in config.receivers]
        for name in names:
            if not name or names.count(name) > 1:
                raise ConfigError(f"alerts.receivers: each needs a name of its own, got {name!r}; give it another")
        self._config, self._store, self._count, self._now_ns, self._url = config, store, count, now_ns, url
        self._late_jobs = late_jobs
        self._sent = Sent(Path(config.state) if config.state else Path(store.config.path) / STATE_FILE)
        self.deliveries = [Delivery(each, config, url, environ, self._sent, count, now_ns) for each in config.receivers]
        self.board: dict[Key, Notice] = {}
        self._seen: dict[Key, tuple[object, ...]] = {}  # the row that each notice was made of
        self._passed: dict[Key, None] = {}  # found too late, or no room for them: counted once
        self._looked = False

    def states(self) -> list[ReceiverState]:
        """How each receiver does."""
        return [each.state() for each in self.deliveries]

    def open(self) -> None:
        """Learn what was told before. Errors: WorldError."""
        if self.deliveries:
            self._sent.open()
            for each in self.deliveries:
                each.restore()

    def close(self) -> None:
        """Close the file of what was told; twice is harmless."""
        self._sent.close()

    async def run(self) -> None:
        """Look for incidents and tell of them until cancelled. Without receivers: wait."""
        if not self.deliveries:
            await asyncio.Event().wait()
        tasks = [asyncio.create_task(self._kept(each)) for each in self.deliveries]
        loop = asyncio.get_running_loop()
        try:
            while True:
                await loop.run_in_executor(None, self.look)
                await asyncio.sleep(self._config.every_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _kept(self, delivery: Delivery) -> None:
        """One receiver; a mistake of ours with it stops neither the others nor the server."""
        while True:
            try:
                await delivery.run(self.board)
            except Exception:
                self._count(counter("alert_failed", "broken"), 1)
                log.exception("alerts: internal error while alerting %s; continuing", delivery.receiver.name)
                await asyncio.sleep(self._config.retry_s_max)

    def look(self) -> None:
        """Bring the board up to date with the store. Never raises."""
        try:
            rows = self._changed()
            self._take(rows)
            self._hold()
            self._tidy()
            self._looked = True
        except LeadlineError as error:
            self._count(counter("alert_failed", "look"), 1)
            log.error("alerts: incidents could not be read and are read again: %s", error)
        except Exception:
            self._count(counter("alert_failed", "broken"), 1)
            log.exception("alerts: looking for incidents failed by a mistake of ours; it goes on")

    def _changed(self) -> list[dict[str, Any]]:
        """Rows of incidents that are not on the board as they are. Errors: StoreError."""
        back_ns = self._back_ns()
        since_ns = self._now_ns() - (back_ns if self._looked else max(back_ns, KEEP_NS))
        rows = json_rows(self._store.query(rows_where(INCIDENT, "seen_ns >= {since:Int64}"), {"since": since_ns}))
        return [row for row in rows if self._seen.get(_key(row)) != _stamp(row)]

    def _back_ns(self) -> int:
        """How far back a look goes: what was seen last before is no news."""
        return round(max(self._config.late_s, self._config.stale_s) * S) + MARGIN_NS

    def _take(self, rows: list[dict[str, Any]]) -> None:
        now_ns = self._now_ns()
        for one in self._incidents(rows):
            try:
                each = notice(one, self._url)
            except Exception:
                self._count(counter("alert_failed", "broken"), 1)
                log.exception("alerts: incident %s cannot be put in words", one.incident[:200])
                continue
            if self._room_for(each, now_ns):
                self.board[each.key] = each
        self._seen |= {_key(row): _stamp(row) for row in rows if _key(row) in self.board}

    def _incidents(self, rows: list[dict[str, Any]]) -> list[Incident]:
        found: list[Incident] = []
        for first in range(0, len(rows), CAUSES_AT_ONCE):
            some = rows[first : first + CAUSES_AT_ONCE]
            names = sorted({row["incident"] for row in some})
            sql = rows_where(CAUSE, "incident IN {incidents:Array(String)}")
            causes = json_rows(self._store.query(sql, {"incidents": names}))
            asked = Asked(Principal(), "", self._now_ns())
            hosts = Incidents(self._store, asked).hosts({row["entity"] for row in causes})
            found += incidents_of(some, causes, (), hosts)
        return found

    def _room_for(self, each: Notice, now_ns: int) -> bool:
        """Whether it goes on the board; where it does not, that is counted once."""
        if each.key in self.board:
            return True
        if all(one.told.get(each.key) is None and late(each, None, one.rhythm, now_ns) for one in self.deliveries):
            return self._pass(each, "late")
        if len(self.board) >= self._config.waiting_max:
            return self._pass(each, "full")
        return True

    def _pass(self, each: Notice, reason: str) -> bool:
        if each.key not in self._passed:
            self._count(counter("alert_skipped" if reason == "late" else "alert_failed", reason), 1)
        self._passed[each.key] = None
        while len(self._passed) > self._config.waiting_max:
            del self._passed[next(iter(self._passed))]
        return False

    def _hold(self) -> None:
        """Have what is told of jobs whose data is late wait for it; that telemetry is lost does not wait."""
        late_jobs = frozenset(self._late_jobs())
        for key, each in list(self.board.items()):
            tenant, cluster, _ = key
            of = {(tenant, cluster, job) for job in each.incident.get("jobs") or ()}
            waits = bool(of & late_jobs) and each.incident.get("symptom") != Symptom.TELEMETRY_LOST
            if waits != each.waits:
                self.board[key] = replace(each, waits=waits)

    def _tidy(self) -> None:
        """Let go of what is over and of which every receiver knows, once no look finds it any more."""
        now_ns = self._now_ns()
        unseen_ns = now_ns - self._back_ns()

        def gone(each: Notice) -> bool:
            if each.lasts:  # nobody has spoken of it for a week
                return each.seen_ns < now_ns - KEEP_NS
            return each.seen_ns < unseen_ns and all(one.done(each, now_ns) for one in self.deliveries)

        for key in (over := [key for key, each in list(self.board.items()) if gone(each)]):
            del self.board[key]
            self._seen.pop(key, None)
        for one in self.deliveries:
            one.forget(over)


def _key(row: Mapping[str, Any]) -> Key:
    return row["tenant"], row["cluster"], row["incident"]


def _stamp(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["seen_ns"], row["version"], row["revision"]


def findings(states: Iterable[ReceiverState]) -> list[dict[str, str]]:
    """What is wrong with receivers, for `leadline doctor`."""
    return [
        {
            "state": "warning",
            "text": f"alerts do not reach {each.name} ({each.url}): {each.last_error}; {each.waiting} wait",
            "do": "See whether it runs there and takes what is sent; correct alerts.receivers where it does not.",
        }
        for each in states
        if each.state == "failing"
    ]
