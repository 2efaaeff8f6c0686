"""What the product says while jobs run, asked each second as a page does: newest steps, incidents and their causes.

Nothing is concluded here; `healthy_scores` and `stranger_scores` do that from what was seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

from evals.jobs.place import Place

EVERY_S = 1.0
S = 10**9
NEWEST = "SELECT job, rank, max(end_ns) AS end_ns FROM step GROUP BY job, rank"
Rank = tuple[str, int]


@dataclass(slots=True)
class Seen:
    """One incident as it was told over time. Times: when we saw it, ns, by the clock of the host."""

    incident: str
    first_ns: int
    last_ns: int
    row: dict[str, Any]  # as it was told last
    causes: list[tuple[int, str, str]] = field(default_factory=list)  # when it changed, entity and rule told first

    @property
    def jobs(self) -> tuple[str, ...]:
        """Jobs that it says suffer."""
        return tuple(self.row.get("jobs") or ([self.row["job"]] if self.row.get("job") else []))


def first_cause(row: Mapping[str, Any]) -> tuple[str, str]:
    """Entity and rule of the likeliest cause that an incident names; empty if it names none."""
    named = [each for each in row.get("causes", ()) if each["chosen"]]
    first = min(named, key=lambda each: int(each["position"]), default=None)
    return (first["entity"], first["rule"]) if first else ("", "")


class Watching:
    """Asks until it is closed. What was seen may be read at any time: it only grows."""

    def __init__(self, place: Place) -> None:
        self.seen: dict[str, Seen] = {}
        self.newest: list[tuple[int, dict[Rank, int]]] = []  # when asked, and the end of each rank's newest step, ns
        self.away = 0  # times that nobody answered
        self._place = place
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(60)

    def of_job(self, job: str) -> list[Seen]:
        """Incidents that this job is said to suffer from, or to be."""
        return [each for each in list(self.seen.values()) if job in each.jobs or each.row["entity"] == f"job:{job}"]

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                # The moment before the question: what is stored meanwhile is not yet asked of it.
                at_ns = time.time_ns()
                rows = self._place.sql(NEWEST)
                self.newest.append((at_ns, {(row["job"], int(row["rank"])): int(row["end_ns"]) for row in rows}))
                answer = self._place.http.get("/api/v1/incidents")
                answer.raise_for_status()
                for row in answer.json()["incidents"]:
                    self._note(row, time.time_ns())
            except httpx.HTTPError:
                self.away += 1

    def _note(self, row: dict[str, Any], now_ns: int) -> None:
        seen = self.seen.setdefault(row["incident"], Seen(row["incident"], now_ns, now_ns, row))
        seen.last_ns, seen.row = now_ns, row
        cause = first_cause(row)
        if not seen.causes or seen.causes[-1][1:] != cause:
            seen.causes.append((now_ns, *cause))
