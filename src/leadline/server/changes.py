"""`GET /api/v1/changes`: server-sent events that say which tables got rows, so that a page asks again for what it has.

    store.append ──> store.written(table) ──(once a second)──> event: now_ns, {table: version}

An event carries no data: what changed is asked for through the views, which know who may see it. A version only says
"not as before". To a tenant nothing is told of when others write: its versions change with the time.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from leadline.model.errors import BusyError
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables import TABLES
from leadline.server.health import Parts

EVERY_S = 1.0
TENANT_EVERY_S = 2.0  # how often a tenant's page asks again
LISTENERS_MAX = 64  # pages that follow at a time; each costs one small message a second
TENANT_LISTENERS_MAX = 16  # of these, pages of one tenant
TENANTS_LISTENERS_MAX = 48  # of these, pages of all tenants; the rest is kept for the operator


class Changes:
    """The pages that follow. `close` ends their streams, so that nobody waits for them when the server stops."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._listeners: Counter[str] = Counter()  # by tenant; "" is the operator
        self._closed = False

    def close(self) -> None:
        """End every stream within a second; new ones end at once."""
        self._closed = True

    def versions(self, principal: Principal) -> dict[str, int]:
        """A number per table that changes when it got rows that `principal` might see."""
        if principal.may(OPERATE):
            return {table.name: self._parts.store.written(table.name) for table in TABLES}
        turn = int(self._parts.now_ns() / 1e9 // TENANT_EVERY_S)
        return {table.name: turn for table in TABLES}

    async def events(self, principal: Principal) -> AsyncIterator[str]:
        """The stream of one page: everything at first, then what changed, at least the time once a second.

        Errors: BusyError if too many pages follow, of this tenant or in all.
        """
        whose = "" if principal.may(OPERATE) else principal.tenant
        self._require_room(whose)
        self._listeners[whose] += 1
        try:
            known: dict[str, int] = {}
            while not self._closed:
                now = self.versions(principal)
                news = {table: version for table, version in now.items() if known.get(table) != version}
                known = now
                yield _event({"now_ns": self._parts.now_ns(), "tables": news})
                await asyncio.sleep(EVERY_S)
        finally:
            self._listeners[whose] -= 1
            self._listeners += Counter()  # drops those at zero

    def _require_room(self, whose: str) -> None:
        """Errors: BusyError."""
        every = self._listeners.total()
        if every >= LISTENERS_MAX:
            raise BusyError(f"{LISTENERS_MAX} pages follow this server; close some")
        if whose and self._listeners[whose] >= TENANT_LISTENERS_MAX:
            raise BusyError(f"{TENANT_LISTENERS_MAX} pages of tenant {whose} follow this server; close some")
        if whose and every - self._listeners[""] >= TENANTS_LISTENERS_MAX:
            raise BusyError(f"{TENANTS_LISTENERS_MAX} pages of tenants follow this server; try again later")


def _event(said: dict[str, Any]) -> str:
    return f"data: {json.dumps(said, separators=(',', ':'))}\n\n"
