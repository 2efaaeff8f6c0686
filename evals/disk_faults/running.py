"""One run after the other on one server: rows are sent, a fault strikes, it is lifted, all is looked for, twice.

    clean server ── senders ── fault armed, merges provoked ── lifted ── senders end ── looks ── restart ── look
                                  └ it struck nothing: another is drawn

A store is used for some runs, so that parts are merged that older runs made; one that a fault left a mark on is not
used again.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from evals.disk_faults.control import Control, Site, Stage
from evals.disk_faults.drawing import Drawn, drawn
from evals.disk_faults.judging import GRACE_S, Look, Outcome
from evals.disk_faults.product import TABLES, Server
from evals.disk_faults.sending import Senders
from leadline.model.errors import WorldError
from leadline.store.schema import MERGE_LIMIT

LEAD_S = 1.5  # of sending before the fault, so that there are parts to merge
TAIL_S = 1.0  # and after it
PROVOKE_EVERY_S = 0.3
LOOK_EVERY_S = 1.0
SETTLE_S_MAX = GRACE_S + 8.0  # then what is not good counts as it is
RUNS_OF_A_STORE = 12
REDRAWN_MAX = 8


class StoppedError(Exception):
    """The harness was asked to end."""


@dataclass
class Lane:
    """One server at a time, in a directory of its own."""

    directory: Path
    preload: Path
    seed: int
    stopping: threading.Event
    seen: Tally[Site] = field(default_factory=Tally)
    struck: Tally[Site] = field(default_factory=Tally)
    _server: Server | None = None
    _control: Control | None = None
    _used: int = 0
    _stores: int = 0

    def run(self, number: int) -> Outcome:
        """One run with a fault that struck. Errors: StoppedError; WorldError if a healthy server does not start."""
        for again in range(REDRAWN_MAX):
            outcome = self._one(number, again, drawn(self.seed, number, again))
            if outcome.struck:
                return outcome
        raise WorldError(f"run {number}: of {REDRAWN_MAX} faults drawn none struck anything")

    def close(self) -> None:
        """End the server, and remove its directory."""
        if self._server is not None:
            self._server.close()
            shutil.rmtree(self._server.directory, ignore_errors=True)
            self._server = None
        if self._control is not None:
            self.seen.update(self._control.seen())
            self.struck.update(self._control.struck())
            self._control.close()
            self._control = None

    def _ready(self) -> tuple[Server, Control]:
        """A server that runs on a store without a mark."""
        if self._server is None or self._control is None or self._used >= RUNS_OF_A_STORE:
            self.close()
            self._stores += 1
            place = self.directory / f"{self._stores}"
            place.mkdir(parents=True)
            self._used = 0
            self._control = Control(self.preload, place / "store", place / "control")
            self._server = Server(place, self._control.environ)
            self._server.start()
        self._used += 1
        return self._server, self._control

    def _one(self, number: int, again: int, fault: Drawn) -> Outcome:
        server, control = self._ready()
        before, aside, crashes = server.says(), set(server.aside()), server.crashes
        struck = control.struck()
        senders = Senders(server.port, f"run-{number}-{again}")
        with contextlib.suppress(WorldError):
            _shape(server, fault)
        senders.start()
        try:
            self._wait(LEAD_S)
            self._suffer(server, control, fault)
            self._wait(TAIL_S)
        finally:
            control.lift()
            senders.stop()
        outcome = Outcome(number, str(fault), again)
        if not control.made:
            return outcome
        outcome.struck = {str(site): times - struck.get(site, 0) for site, times in control.struck().items()}
        outcome.struck = {site: times for site, times in outcome.struck.items() if times}
        outcome.strikes = [f"{site} {path}" for site, path in control.strikes()[:3]]
        outcome.acknowledged, outcome.refused = senders.rows, senders.refused
        self._judged(outcome, server, senders, fault, before)
        outcome.crashes = server.crashes - crashes
        outcome.aside = sorted(set(server.aside()) - aside)
        if outcome.lost or outcome.aside or outcome.said or outcome.restarted is None:
            self._used = RUNS_OF_A_STORE
        return outcome

    def _suffer(self, server: Server, control: Control, fault: Drawn) -> None:
        """Have the fault strike, and the engine do what it strikes."""
        statements = _provoking(fault)
        control.arm(fault.site, fault.fault, skip=fault.skip, strikes=fault.strikes, seconds=fault.seconds)
        end = time.monotonic() + fault.seconds
        while time.monotonic() < end and (fault.lasts or not control.made):
            if statements is not None:
                with contextlib.suppress(WorldError):  # it fails, or the server is gone: that is the point
                    server.engine(next(statements))
            self._wait(min(PROVOKE_EVERY_S, max(0.0, end - time.monotonic())))

    def _judged(self, outcome: Outcome, server: Server, senders: Senders, fault: Drawn, before: list[str]) -> None:
        """Look until all is good, restart, look again."""
        try:
            server.revived()
            outcome.looks = self._looks(server, senders, before)
            server.stop(signal.SIGKILL if fault.kill else signal.SIGTERM)
            server.start()
            outcome.restarted = self._looks(server, senders, before)[-1]
        except WorldError as error:
            outcome.strikes.append(f"not started: {error}")

    def _looks(self, server: Server, senders: Senders, before: list[str]) -> list[Look]:
        """Until one is good, or SETTLE_S_MAX is over; at least one."""
        looks: list[Look] = []
        end = time.monotonic() + SETTLE_S_MAX
        while not looks or (not looks[-1].good and time.monotonic() < end):
            if looks:
                self._wait(LOOK_EVERY_S)
                server.revived()
            looks.append(_look(server, senders, before))
        return looks

    def _wait(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise StoppedError


def _look(server: Server, senders: Senders, before: list[str]) -> Look:
    at_s = time.monotonic()
    found = senders.missing_and_doubled(server)
    try:
        spoilt = server.spoilt()
    except WorldError as error:
        spoilt = (str(error)[:200],)
    said = tuple(text for text in server.says() if text not in before)
    missing, doubled = found if found is not None else (None, 0)
    return Look(at_s, missing, doubled, spoilt, said)


def _shape(server: Server, fault: Drawn) -> None:
    """What parts are like in this run. The settings of tables are as the product has them after the restart."""
    settings = {"min_bytes_for_wide_part": 0 if fault.wide else 10 << 20}
    if fault.fsync:  # as with store.fsync
        settings |= {"fsync_after_insert": 1, "fsync_part_directory": 1}
    text = ", ".join(f"{name} = {value}" for name, value in settings.items())
    for table in TABLES:
        server.engine(f"ALTER TABLE leadline.{table} MODIFY SETTING {text}")


def _provoking(fault: Drawn) -> Iterator[str] | None:
    """Statements by which the engine comes to the site of a fault; None where senders are enough."""
    if fault.site is None or fault.site.stage is Stage.MERGE:
        return cycle(f"OPTIMIZE TABLE leadline.{table} FINAL" for table in TABLES)
    if fault.site.stage is Stage.METADATA:  # as `disk.watch` does when space is short
        changes = (f"MODIFY SETTING {MERGE_LIMIT} = {32 << 20}", f"RESET SETTING {MERGE_LIMIT}")
        return cycle(f"ALTER TABLE leadline.{table} {change}" for table in TABLES for change in changes)
    return None
