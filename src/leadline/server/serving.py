"""What the end points of one server share: its parts, its gate, turns to query. `create_api` puts it together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from prometheus_client import CollectorRegistry

from leadline.explain.explain import Explainer
from leadline.model.errors import BusyError
from leadline.model.principal import OPERATE, Principal
from leadline.server.changes import Changes
from leadline.server.health import Parts
from leadline.server.mesh.roster import Roster
from leadline.server.shared import SharedAnswers
from leadline.server.tokens.gate import Gate
from leadline.views.graph.view import Graphs
from leadline.views.search.answer import Search

# Queries at a time, waiting ones included. Each takes one of the 40 threads that answer requests, and the engine
# runs store.readers of them at once; whoever comes later is told to come again rather than kept.
QUERIES_MAX = 16
QUERIES_OF_A_TENANT_MAX = 6  # of those; a page of a job asks up to six things at once
QUERIES_KEPT = 4  # of those for operators: they must see what is going on when tenants take all the rest


class Turns:
    """Turns to query: some for each tenant, some kept for operators. Taking one never waits."""

    def __init__(
        self, turns: int = QUERIES_MAX, of_a_tenant: int = QUERIES_OF_A_TENANT_MAX, kept: int = QUERIES_KEPT
    ) -> None:
        assert 0 < of_a_tenant <= turns - kept
        self._turns, self._of_a_tenant, self._kept = turns, of_a_tenant, kept
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()  # by tenant; an operator's under no name

    @contextmanager
    def turn(self, principal: Principal) -> Iterator[None]:
        """A turn of `principal` for the time of a `with`. Errors: BusyError if none is left for them."""
        name = "" if principal.may(OPERATE) else f"tenant {principal.tenant}"
        with self._lock:
            taken = self._taken.total()
            if name and self._taken[name] >= self._of_a_tenant:
                raise BusyError(f"{self._of_a_tenant} queries of the tenant are running; ask again in a second")
            if taken >= self._turns - (self._kept if name else 0):
                raise BusyError(f"{taken} queries are running or waiting; ask again in a second")
            self._taken[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[name] -= 1
                if not self._taken[name]:
                    del self._taken[name]


@dataclass(frozen=True, slots=True)
class Serving:
    """One server, as its end points see it. `config_view` gives the effective settings with their origins,
    `config_text` is what a bundle keeps of them."""

    parts: Parts
    gate: Gate
    changes: Changes
    graphs: Graphs
    search: Search
    explainer: Explainer
    registry: CollectorRegistry
    config_view: Callable[[], list[dict[str, Any]]]
    config_text: str
    turns: Turns = field(default_factory=Turns)
    shared: SharedAnswers = field(default_factory=SharedAnswers)
    roster: Roster = field(default_factory=Roster)
    recording: threading.Lock = field(default_factory=threading.Lock)  # one bundle at a time
    freezing: threading.Lock = field(default_factory=threading.Lock)  # one back-up begins at a time


def serving_of(request: Request) -> Serving:
    """The server that a request came to."""
    found: Serving = request.app.state.serving
    return found
