"""A thread beside an embedded store that sees to it that what was acknowledged stays readable.

    each 0.1 s  free space ──> space.py ──> ballast let go, merges stopped, made small, started
    each 10 s   definitions whole? (`definitions.py`)
                new parts ──> whole? newest readable? ──no──> appends refused, table loaded anew
    at start    parts put aside ──> lost or read from their sources ──> findings

A table is loaded anew by DETACH and ATTACH, a quarter of a second: the engine puts a part that it cannot read aside and
takes the parts that it was merged from, as long as they are there (`schema.OLD_PARTS_S`). Until that is done nothing is
appended to the table, so nobody is told that rows are stored which cannot be read.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from leadline.model.counters import Counter, counter
from leadline.model.errors import LeadlineError
from leadline.store.client import Store
from leadline.store.connect import error_code
from leadline.store.disk.ballast import Ballast
from leadline.store.disk.parts import ASIDE_SQL, PARTS_SQL, UNREADABLE, AsidePart, DataPart, put_aside, sizes
from leadline.store.disk.space import SMALL_MERGE_BYTES, Space, space
from leadline.store.disk.whole import lacking
from leadline.store.schema import DATABASE, MERGE_LIMIT

log = logging.getLogger("leadline.store")

FREE_EVERY_S = 0.1  # statvfs costs 2 us; a merge writes some 10 MB in between
FAILED_WAIT_S = 1.0  # a look that failed is not done again at once
CANARY_EVERY_S = 10.0
CANARY_SHORT_S = 1.0  # while space is short
RECENT_S = 600.0  # for so long it is told what was mended, as errors of senders are
KNOWN = "disk-known.json"

Count = Callable[[Counter, int], None]


@dataclass(frozen=True, slots=True)
class Spoilt:
    """A part that could not be read. `lost`: rows that are gone with it, once it was put aside."""

    table: str
    part: str
    why: str
    at_s: float
    mended: bool = False
    lost: int = 0


class DiskWatch:
    """The thread. Construction is inert; of a store on a server there is none."""

    def __init__(self, store: Store, count: Count, ballast: Ballast | None = None) -> None:
        self._store, self._count, self._config = store, count, store.config
        self._path = Path(store.config.path)
        self._ballast = ballast or Ballast(self._path)
        self.space = Space.ROOMY
        self.spoilt: dict[str, Spoilt] = {}  # by table, the last one
        self.aside: list[AsidePart] = []
        self._seen: set[tuple[str, str]] = set()
        self._rows: dict[str, int] = {}  # of merged parts, by table/part
        self._limited: set[str] = set()
        self._merge_bytes = 0
        self._canary_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)

    def start(self) -> None:
        """Look at what was put aside, then begin. Errors: StoreError, at the first look."""
        if self._config.url:
            return
        self._rows = self._known()
        self.look_aside()
        self._thread.start()

    def stop(self) -> None:
        """End; the ballast is let go."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if not self._config.url:
            self._ballast.release()

    def _run(self) -> None:
        while not self._stop.wait(FREE_EVERY_S):
            try:
                self.look()
            except Exception as error:
                self._count(counter("background_failed", "disk"), 1)
                log.error("looking after the disk failed and goes on: %s", error, exc_info=error)
                self._stop.wait(FAILED_WAIT_S)

    def look(self) -> None:
        """One look at the space, and if it is time at the parts. Errors: StoreError; the next look does it again."""
        self.look_at_space()
        every_s = CANARY_EVERY_S if self.space is Space.ROOMY else CANARY_SHORT_S
        if time.monotonic() - self._canary_s >= every_s or self._store.doubted:
            self._canary_s = time.monotonic()
            self._store.doubted = False
            self.look_at_parts()

    # --- space ---

    def look_at_space(self) -> None:
        """Let go of the ballast, stop, limit and start merges as the space goes and comes."""
        floor_bytes = self._config.free_bytes_min
        if not floor_bytes:
            return
        now = space(shutil.disk_usage(self._path).free, floor_bytes, self._merge_bytes, self.space)
        if now is self.space:
            if now is Space.ROOMY:
                self._ballast.take(floor_bytes + self._merge_bytes)
            return
        if now is Space.FULL:
            self._ballast.release()  # first, and before anything is asked of the engine
        log.warning("space on the disk of %s: %s, was %s", self._path, now, self.space)
        self._store.command("SYSTEM STOP MERGES")  # those that run are given up too
        self.space = now
        self._canary_s = 0.0  # a merge may have met it
        if now is Space.FULL:
            self._count(counter("store_disk", "full"), 1)
            return
        self._limit(now is Space.SHORT)
        self._store.command("SYSTEM START MERGES")

    def _limit(self, limited: bool) -> None:
        """Have tables with more in a partition than SMALL_MERGE_BYTES make small merges only, or any again."""
        names = set(self._limited)
        if limited:
            sums = sizes(self._parts())
            names = {table for (table, _), size_bytes in sums.items() if size_bytes > SMALL_MERGE_BYTES}
        for name in sorted(names):
            change = (
                f"MODIFY SETTING {MERGE_LIMIT} = {SMALL_MERGE_BYTES}" if limited else f"RESET SETTING {MERGE_LIMIT}"
            )
            self._store.command(f"ALTER TABLE {DATABASE}.{name} {change}")
            self._store.keep_definitions()
        self._limited = names if limited else set()

    # --- parts ---

    def look_at_parts(self) -> None:
        """Check the parts that are new, and load tables anew that have one which cannot be read."""
        self._store.keep_definitions()
        self._store.drop_refused()
        # What belongs to a refused append is no loss, and will be dropped.
        parts = [part for part in self._parts() if not self._store.is_refused(part.table, part.name)]
        new = [part for part in parts if (part.table, part.name) not in self._seen]
        self._seen = {(part.table, part.name) for part in parts}
        self._merge_bytes = max(sizes(parts).values(), default=0)
        newest = {part.table: part for part in new}
        refused = {name for name in self._store.unreadable if name not in newest and name in self.spoilt}
        found: dict[str, tuple[str, str]] = {}
        for part in new:
            if why := lacking(Path(part.path)):
                found[part.table] = part.name, why
        for name, part in newest.items():
            if name not in found and (why := self._unreadable(part)):
                found[name] = part.name, why
        for name, (part_name, why) in found.items():
            self._mend(name, part_name, why, sum(part.rows for part in parts if part.table == name))
        for name in refused - found.keys():
            before = self.spoilt[name]
            self._mend(name, before.part, before.why, before.lost)
        self._remember(parts)

    def _parts(self) -> list[DataPart]:
        return [DataPart(**row) for row in self._store.query(PARTS_SQL).to_pylist()]

    def _unreadable(self, part: DataPart) -> str:
        """Why a row of a part cannot be read with all its columns; empty if it can."""
        sql = f"SELECT * FROM {DATABASE}.{part.table} WHERE _part = {{part:String}} LIMIT 1 SETTINGS final = 0"
        try:
            self._store.query(sql, {"part": part.name})
        except LeadlineError as error:
            if error.__cause__ is not None and error_code(error.__cause__) in UNREADABLE:
                return str(error)
        return ""

    def _mend(self, table: str, part: str, why: str, rows: int) -> None:
        """Refuse appends, load the table anew, and take appends again if all of it can be read then."""
        text = f"part {part} of {table} cannot be read: {why}"
        if table not in self._store.unreadable:
            self._count(counter("store_disk", "spoilt"), 1)
            log.error("%s; nothing is appended to it until it was loaded anew", text)
        self._store.unreadable[table] = text
        self.spoilt[table] = Spoilt(table, part, why, time.monotonic(), lost=rows)
        self._store.reload(table)
        self._seen = {each for each in self._seen if each[0] != table}  # merged again, a part has the name it had
        parts = [each for each in self._parts() if each.table == table]
        bad = next((each for each in parts if lacking(Path(each.path))), None) or next(
            (each for each in parts[-1:] if self._unreadable(each)), None
        )
        if bad is not None:
            self.spoilt[table] = Spoilt(table, bad.name, why, time.monotonic(), lost=rows)
            return
        lost = max(0, rows - sum(each.rows for each in parts))
        self._count(counter("store_disk", "lost"), lost)
        self.spoilt[table] = Spoilt(table, part, why, time.monotonic(), mended=True, lost=lost)
        self._store.unreadable.pop(table, None)
        log.error("%s: it was loaded anew, %d of %d rows are gone", text, lost, rows)
        self.look_aside()

    # --- what was put aside ---

    def look_aside(self) -> None:
        """Tell parts that the engine put aside, once. Errors: StoreError."""
        rows = self._store.query(ASIDE_SQL).to_pylist()
        parts = self._parts()
        told = self._told()
        self.aside = [
            AsidePart(each.table, each.name, each.path, *told[each.path]) if each.path in told else each
            for each in put_aside(rows, parts, self._rows)
        ]
        for each in self.aside:
            if each.lost and each.path not in told:
                self._count(counter("store_disk", "aside"), 1)
                log.error("part %s of %s was put aside, and no other part has its rows (%s)", each.name, each.table,
                          "nobody knows how many" if each.rows is None else each.rows)  # fmt: skip
        self._remember(parts, always=True)

    def _known(self) -> dict[str, int]:
        found = self._read().get("rows")
        return {str(name): int(rows) for name, rows in found.items()} if isinstance(found, dict) else {}

    def _told(self) -> dict[str, tuple[int | None, bool]]:
        found = self._read().get("aside")
        return {path: (rows, lost) for path, (rows, lost) in found.items()} if isinstance(found, dict) else {}

    def _read(self) -> dict[str, object]:
        try:
            found = json.loads((self._path / KNOWN).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _remember(self, parts: list[DataPart], *, always: bool = False) -> None:
        """Keep how many rows merged parts have, and what was told, for the next start. Where there is no room for that,
        what was kept before stays."""
        rows = {f"{part.table}/{part.name}": part.rows for part in parts if part.level}
        if rows == self._rows and not always:
            return
        self._rows = rows
        text = json.dumps({"rows": rows, "aside": {each.path: (each.rows, each.lost) for each in self.aside}})
        partial = self._path / f"{KNOWN}.partial"
        try:
            partial.write_text(text)
            os.replace(partial, self._path / KNOWN)
        except OSError:
            partial.unlink(missing_ok=True)


def findings(watch: DiskWatch) -> Iterator[dict[str, str]]:
    """What is wrong with what is stored, for `leadline doctor`."""
    for name, why in list(watch._store.unreadable.items()):
        yield {
            "state": "critical",
            "text": f"table {name} cannot be read, and nothing is appended to it: {why}",
            "do": "Make room on the disk of store.path; it is loaded anew each second until it can be read.",
        }
    for each in list(watch.spoilt.values()):
        if each.mended and (each.lost or time.monotonic() - each.at_s < RECENT_S):
            yield {
                "state": "critical" if each.lost else "warning",
                "text": f"{'data_loss: ' if each.lost else ''}part {each.part} of {each.table} was spoilt and the "
                f"table loaded anew, {each.lost} rows are gone",
                "do": "See what fills the disk of store.path; give the store a file system of its own.",
            }
    for part in watch.aside:
        if part.lost and Path(part.path).exists():
            rows = "an unknown number of" if part.rows is None else str(part.rows)
            yield {
                "state": "critical",
                "text": f"data_loss: part {part.name} of {part.table} could not be read and was put aside, with {rows} "
                "rows that no other part has",
                "do": f"Restore those rows from a back-up or have them sent again, then remove {part.path}.",
            }
    if watch.space is not Space.ROOMY:
        yield {
            "state": "warning" if watch.space is Space.SHORT else "critical",
            "text": f"space on the disk of store.path is {watch.space}: "
            + (
                "only small parts are merged"
                if watch.space is Space.SHORT
                else "appends are refused, nothing is merged"
            ),
            "do": "Make room there, or set store.path to a larger disk.",
        }
