"""Senders of acknowledged rows, and how they are looked for: samples, events and relations, over HTTP, until taken."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.abuse import remote_write

from evals.disk_faults.judging import Found, missing_and_doubled
from leadline.model.ids import canonical_labels

EVERY_S = 0.2  # between two batches of one sender
AGAIN_S = 0.2  # after a refusal
ASK_S_MAX = 30.0
EVENTS = RELATIONS = 20  # rows of a batch
FEW, MANY = 50, 2_000  # samples of a batch of each of the two senders
BEGAN_BEFORE_MS = 1_200_000  # samples are of the 20 minutes before: none is of the future, however many are sent
NDJSON = {"content-type": "application/x-ndjson"}
REMOTE_WRITE = {"content-type": "application/x-protobuf", "content-encoding": "snappy"}


class Asked(Protocol):
    """A server that answers SELECTs; None: it does not."""

    def sql(self, query: str) -> list[dict[str, Any]] | None: ...


@dataclass(frozen=True, slots=True)
class Body:
    """One batch as it is sent."""

    batch: str
    rows: int
    path: str
    content: bytes
    headers: dict[str, str]


@dataclass
class Senders:
    """Four threads that send to a server. `run`: tells the rows of this run from those of others."""

    port: int
    run: str
    acknowledged: dict[str, int] = field(default_factory=dict)  # rows of each batch
    statuses: Tally[int] = field(default_factory=Tally)  # of all tries; 0 for one without an answer
    began_ms: int = field(default_factory=lambda: time.time_ns() // 10**6 - BEGAN_BEFORE_MS)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Send from now on."""
        bodies = (self._samples("few", FEW), self._samples("many", MANY), self._events(), self._relations())
        for each in bodies:
            self._threads.append(threading.Thread(target=self._send, args=(each,), daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """No more: what was not taken yet is given up, and counts as not acknowledged."""
        self._stop.set()
        for each in self._threads:
            each.join(ASK_S_MAX + 5)

    @property
    def rows(self) -> int:
        """Rows acknowledged."""
        with self._lock:
            return sum(self.acknowledged.values())

    @property
    def refused(self) -> int:
        """Requests that were answered with anything but success."""
        return sum(times for status, times in self.statuses.items() if not 200 <= status < 300)

    def _send(self, bodies: Iterator[Body]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ASK_S_MAX)
        for body in bodies:
            while not self._stop.is_set():
                status = _post(connection, body)
                with self._lock:
                    self.statuses[status] += 1
                    if 200 <= status < 300:
                        self.acknowledged[body.batch] = body.rows
                        break
                self._stop.wait(AGAIN_S)
            if self._stop.wait(EVERY_S):
                break
        connection.close()

    # --- what is sent ---

    def _labels(self, name: str) -> dict[str, str]:
        return {"__name__": "disk_faults_value", "run": self.run, "sender": name}

    def _samples(self, name: str, count: int) -> Iterator[Body]:
        labels = canonical_labels(self._labels(name))
        for number in range(1 << 30):
            content = remote_write(labels, self.began_ms + number * count, count)
            yield Body(f"{name}/{number}", count, "/api/v1/write", content, REMOTE_WRITE)

    def _events(self) -> Iterator[Body]:
        for number in range(1 << 30):
            rows = [
                {"time_ns": time.time_ns(), "entity_kind": "host", "entity": "host:disk", "kind": "bench",
                 "severity": "info", "code": str(row), "message": f"{number}", "attributes": {"row": str(row)},
                 "source": self.run}
                for row in range(EVENTS)
            ]  # fmt: skip
            yield Body(f"event/{number}", EVENTS, "/api/v1/rows/event", _lines(rows), NDJSON)

    def _relations(self) -> Iterator[Body]:
        for number in range(1 << 30):
            rows = [
                {"child": f"host:{self.run}-{number}", "parent": f"storage:{row}", "kind": "mounts",
                 "from_ns": time.time_ns(), "source": self.run, "confidence": 1.0}
                for row in range(RELATIONS)
            ]  # fmt: skip
            yield Body(f"relation/{number}", RELATIONS, "/api/v1/rows/relation", _lines(rows), NDJSON)

    # --- what is found of it ---

    def missing_and_doubled(self, server: Asked) -> tuple[int, int] | None:
        """Acknowledged rows that a user does not find, or finds twice; None if a table cannot be read."""
        found: dict[str, tuple[int, int]] = {}
        with self._lock:
            acknowledged = dict(self.acknowledged)
        for sql, prefix in self._questions():
            rows = server.sql(sql)
            if rows is None:
                return None
            found |= {f"{prefix}/{row['batch']}": (int(row["n"]), int(row["different"])) for row in rows}
        looked: Found = found
        return missing_and_doubled(acknowledged, looked)

    def _questions(self) -> Iterator[tuple[str, str]]:
        """Of each sender. All columns that hold what was sent are read, so that a broken one is met."""
        for name, count in (("few", FEW), ("many", MANY)):
            series = f"SELECT series FROM series WHERE labels['run'] = '{self.run}' AND labels['sender'] = '{name}'"
            batch = f"intDiv(intDiv(time_ns, 1000000) - {self.began_ms}, {count})"
            columns = f"{batch} AS batch, count() AS n, uniqExact(time_ns) AS different, sum(value) AS read"
            yield f"SELECT {columns} FROM metric_sample WHERE series IN ({series}) GROUP BY batch", name
        columns = "message AS batch, count() AS n, uniqExact(code) AS different, uniqExact(attributes['row']) AS read"
        yield f"SELECT {columns} FROM event WHERE source = '{self.run}' GROUP BY batch", "event"
        batch = f"replaceOne(child, 'host:{self.run}-', '')"
        columns = f"{batch} AS batch, count() AS n, uniqExact(parent) AS different, sum(confidence) AS read"
        yield f"SELECT {columns} FROM relation WHERE source = '{self.run}' GROUP BY batch", "relation"


def _lines(rows: list[dict[str, object]]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows)


def _post(connection: http.client.HTTPConnection, body: Body) -> int:
    try:
        connection.request("POST", body.path, body.content, body.headers)
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        connection.close()  # it is made again by the next request
        return 0
    return answer.status
