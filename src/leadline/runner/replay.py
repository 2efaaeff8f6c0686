"""Replay of an incident bundle: its rows go to the store in the order of their times.

    Bundle ── groups ──> TableFeed (one slice in memory, by time) ── due(until) ──> store.append, runner
                                       ^ Pace: which recorded time is reached, from a clock that is handed in

Stored times stay as they are, so that what is concluded from a replay is what was concluded then. Streams (`series`)
come first, since samples mean nothing without them; so does what began before the span (the graph).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.errors import LeadlineError, StoreError
from leadline.model.tables import Table
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.store import Store
from leadline.store.bundle import Bundle, read_bundle
from leadline.store.bundle_format import Manifest

StoredSink = Callable[[str, str, Table, Mapping[str, object], int], None]
"""Takes (tenant, cluster, table, columns, rows)."""

# An append makes a part on disk, so rows are fed twice a second at most; at full speed a recorded minute at a time,
# which keeps tables in step with each other to a minute.
FEED_EVERY_S = 0.5
FULL_SPEED_STEP_NS = 60 * 10**9
APPEND_TRIES = 4
RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class Pace:
    """Which recorded time a replay has reached. Pure: the caller brings the clock.

    `speed` is recorded seconds per second; 0 means that every look is a step of `FULL_SPEED_STEP_NS`, or to where the
    next row is: a span of years in which little happened is over at once.
    """

    from_ns: int
    to_ns: int
    speed: float
    started_ns: int  # of the caller's clock

    def reached(self, at_ns: int, now_ns: int, next_ns: int = 0) -> int:
        """The recorded time reached at `now_ns`, when `at_ns` was before: never earlier, never after the end.

        `next_ns` is the time of the next row.
        """
        if self.speed:
            wanted = self.from_ns + int((now_ns - self.started_ns) * self.speed)
        else:
            wanted = max(at_ns, next_ns) + FULL_SPEED_STEP_NS
        return min(max(wanted, at_ns), self.to_ns)


class TableFeed:
    """The rows of one table in the order of their times, from groups that follow each other in time."""

    def __init__(self, table: Table, groups: Iterator[pa.Table]) -> None:
        self.table = table
        self._groups = groups
        self._next: pa.Table | None = None
        self._times = np.zeros(0, np.int64)
        self._at = 0
        self._load()

    def due(self, until_ns: int | None) -> Iterator[pa.Table]:
        """The rows not yet given with a time before `until_ns` (None: all of them). Errors: DataError."""
        while self._next is not None:
            end = due(self._times, self._at, until_ns)
            if end > self._at:
                yield self._next.slice(self._at, end - self._at)
            self._at = end
            if end < len(self._times):
                return
            self._load()

    @property
    def next_ns(self) -> int | None:
        """The time of the next row; None when all were given."""
        return int(self._times[self._at]) if self._next is not None and self._at < len(self._times) else None

    def _load(self) -> None:
        self._next, self._at = next(self._groups, None), 0
        if self._next is not None:
            # Stable: rows of one time stay in the order of the bundle.
            times = self._next.column(self.table.time).to_numpy()
            order = np.argsort(times, kind="stable")
            self._next, self._times = self._next.take(pa.array(order)), times[order]


def due(times_N: np.ndarray[tuple[int], np.dtype[np.int64]], begin: int, until_ns: int | None) -> int:
    """Where the rows that are due end: those from `begin` with a time before `until_ns`; times are in order."""
    if until_ns is None:
        return len(times_N)
    return max(begin, int(np.searchsorted(times_N, until_ns, side="left")))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is. `state`: waiting, running, done, stopped, failed."""

    state: str
    bundle: str
    from_ns: int
    to_ns: int
    at_ns: int
    speed: float
    rows: int
    rows_total: int
    error: str = ""


class Replay:
    """Feeds one bundle in a thread of its own. Construction checks the bundle; `start` begins."""

    def __init__(
        self,
        path: Path,
        speed: float,
        store: Store,
        stored: StoredSink,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Errors: DataError for a file that is no bundle, WorldError if it cannot be read."""
        self.bundle: Bundle = read_bundle(path)
        self._speed, self._store, self._stored, self._clock_ns = speed, store, stored, clock_ns
        manifest = self.manifest
        self._lock = threading.Lock()
        self._progress = Progress(
            "waiting",
            path.name,
            manifest.from_ns,
            manifest.to_ns,
            manifest.from_ns,
            speed,
            0,
            sum(manifest.rows().values()),
        )
        self._left_out: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.run, name="replay", daemon=True)

    @property
    def manifest(self) -> Manifest:
        """What the bundle says about itself."""
        return self.bundle.manifest

    @property
    def progress(self) -> Progress:
        """How far it is."""
        with self._lock:
            return self._progress

    def leave_out(self, tables: Collection[str]) -> None:
        """Do not feed these tables, by name: verdicts that are concluded again. To be called before `start`."""
        self._left_out = frozenset(tables)
        rows = sum(rows for name, rows in self.manifest.rows().items() if name not in self._left_out)
        self._tell(rows_total=rows)

    def ended_ns(self) -> int | None:
        """The end of the recording once all of it was played, None before."""
        return self.manifest.to_ns if self.progress.state == "done" else None

    def now_ns(self) -> int:
        """The recorded time that is reached: what "now" means while a recording plays."""
        return self.progress.at_ns

    def start(self) -> None:
        """Begin to feed."""
        self._thread.start()

    def stop(self) -> None:
        """Feed no more; waits for the append that runs."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.bundle.close()

    def run(self) -> None:
        """Feed everything, at the pace. What fails is told by `progress`; nothing is raised."""
        try:
            self._tell(state="running")
            self._feed_all()
            self._tell(state="stopped" if self._stop.is_set() else "done")
        except LeadlineError as error:
            self._tell(state="failed", error=str(error))
        except Exception as error:
            self._tell(state="failed", error=f"{type(error).__name__}: {error}; this is a bug of Leadline")
            raise

    def _feed_all(self) -> None:
        manifest = self.manifest
        pace = Pace(manifest.from_ns, manifest.to_ns, self._speed, self._clock_ns())
        tables = [table for table in self.bundle.tables if table.name not in self._left_out]
        feeds = [TableFeed(table, self.bundle.groups(table)) for table in tables]
        for feed in feeds:
            self._feed(feed, None if feed.table is SERIES else manifest.from_ns)
        at_ns = manifest.from_ns
        while not self._stop.is_set():
            next_ns = min((at for feed in feeds if (at := feed.next_ns) is not None), default=manifest.to_ns)
            at_ns = pace.reached(at_ns, self._clock_ns(), next_ns)
            over = at_ns >= manifest.to_ns
            for feed in feeds:
                self._feed(feed, None if over else at_ns)
            if self._stop.is_set():
                return
            self._tell(at_ns=at_ns)
            if over:
                return
            if self._speed:
                self._stop.wait(FEED_EVERY_S)

    def _feed(self, feed: TableFeed, until_ns: int | None) -> None:
        for rows in feed.due(until_ns):
            if self._stop.is_set():
                return
            self._append(feed.table, rows)
            for tenant, cluster, part in _by_owner(rows):
                self._stored(tenant, cluster, feed.table, _told_columns(feed.table, part), part.num_rows)
            self._tell(rows=self.progress.rows + rows.num_rows)

    def _append(self, table: Table, rows: pa.Table) -> None:
        """Repeating an append is harmless, so a store that fails is asked again. Errors: StoreError."""
        for left in range(APPEND_TRIES - 1, -1, -1):
            try:
                self._store.append(table, rows)
                return
            except StoreError:
                if not left or self._stop.wait(RETRY_S):
                    raise

    def _tell(self, **changed: object) -> None:
        with self._lock:
            self._progress = replace(self._progress, **changed)  # type: ignore[arg-type]


def _by_owner(rows: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
    """(tenant, cluster, rows) for each owner of rows; nearly always there is one."""
    owners = rows.select(["tenant", "cluster"]).cast(pa.schema([("tenant", pa.string()), ("cluster", pa.string())]))
    found = owners.group_by(["tenant", "cluster"]).aggregate([]).to_pylist()
    if len(found) == 1:
        yield found[0]["tenant"], found[0]["cluster"], rows
        return
    for owner in found:
        mine = pc.and_(pc.equal(owners["tenant"], owner["tenant"]), pc.equal(owners["cluster"], owner["cluster"]))
        yield owner["tenant"], owner["cluster"], rows.filter(mine)


def _told_columns(table: Table, rows: pa.Table) -> dict[str, object]:
    """Columns as the ways in tell of them once they are stored: samples as arrays, other rows as they are."""
    if table is not METRIC_SAMPLE:
        return {"rows": rows}
    ids = np.frombuffer(b"".join(rows["series"].to_pylist()), np.uint64).reshape(-1, 2)
    return {"series": ids, "time_ns": rows["time_ns"].to_numpy(), "value": rows["value"].to_numpy()}
