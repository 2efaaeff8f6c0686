"""Steps of this machine's own clock, told by a clock that nobody sets. Pure: the caller brings both times.

    real (CLOCK_REALTIME)     ──┬──> real - elapsed ──changed by more than STEP_NS──> ClockStep
    elapsed (CLOCK_BOOTTIME)  ──┘

Not CLOCK_MONOTONIC, which stands still while a machine sleeps: that a laptop was closed for an hour is no step of its
clock. Slewing (adjtimex, at most 500 ppm) is no step either: in the quarter of a second between two looks it moves the
clock by 0.1 ms.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from leadline.model.principal import Principal
from leadline.model.tables.verdicts import EVENT
from leadline.model.units import S
from leadline.store.schema import arrow_table

STEP_NS = 5 * S
"""A step of less is within what windows wait for rows (2 s of grace and more), and NTP's own (it steps from 0.128 s on)
are told by nobody."""
DOUBT_NS = 60 * S
"""So long nothing is judged after a step forward: set right within it, a clock that was wrong for a moment (a first
answer of a bad time server) has judged nothing. A correction costs verdicts that are a minute late, once."""
LOOK_NS = S
"""Both clocks are read within this, or the look does not count: the thread was put aside between them."""


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The clock was set. `wrong_ns`: for how long it may have been wrong before that, by the other clock."""

    by_ns: int  # positive: forward
    at_ns: int  # real time after it
    elapsed_ns: int
    wrong_ns: int


def boot_ns() -> int:
    """Time since the machine was started, its sleep included, ns."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class ClockSteps:
    """Looks at both clocks and tells the steps of the one. Not thread-safe."""

    def __init__(self, now_ns: Callable[[], int], elapsed_ns: Callable[[], int]) -> None:
        self._now_ns, self._elapsed_ns = now_ns, elapsed_ns
        self._apart_ns: int | None = None
        self._since_ns = 0  # elapsed time since which the real one has run as it does now, or was wrong
        self._seen_ns = 0  # elapsed time of the last look
        self._doubt_until_ns = 0

    def look(self) -> ClockStep | None:
        """The step that happened since the last look, if one did."""
        before_ns, real_ns, elapsed_ns = self._elapsed_ns(), self._now_ns(), self._elapsed_ns()
        if elapsed_ns - before_ns > LOOK_NS:
            return None
        apart_ns, seen_ns = real_ns - elapsed_ns, self._seen_ns
        last_ns, self._seen_ns = self._apart_ns, elapsed_ns
        if last_ns is None:
            self._apart_ns, self._since_ns = apart_ns, elapsed_ns
            return None
        by_ns = apart_ns - last_ns
        if abs(by_ns) <= STEP_NS:
            # Slewed: followed, so that a day of it is no step. Small steps are followed too, one after the other.
            self._apart_ns = apart_ns
            return None
        step = ClockStep(by_ns, real_ns, elapsed_ns, elapsed_ns - self._since_ns)
        self._apart_ns = apart_ns
        self._since_ns = seen_ns if by_ns > 0 else elapsed_ns
        self._doubt_until_ns = elapsed_ns + DOUBT_NS if by_ns > 0 else 0
        return step

    @property
    def in_doubt(self) -> bool:
        """Whether the clock was set forward so lately that it may be set back at once."""
        return self._elapsed_ns() < self._doubt_until_ns


def clock_event(steps: Sequence[ClockStep], tenant: str) -> pa.Table:
    """Rows of `event` for steps: of this host, so that what its job did at that time can be understood."""
    host, cluster, rows = socket.gethostname(), Principal().cluster, range(len(steps))
    given = {
        "tenant": tenant, "cluster": cluster, "host": host, "clock": f"{host}/server", "entity_kind": "host",
        "entity": f"host:{host}", "kind": "clock-step", "severity": "warning", "code": None, "source": "leadline",
    }  # fmt: skip
    return arrow_table(
        EVENT,
        {name: [value for _ in rows] for name, value in given.items()}
        | {
            "time_ns": [step.at_ns for step in steps],
            "message": [f"the clock of {host}, where Leadline runs, was set {step.by_ns / S:+.1f} s" for step in steps],
            "attributes": [{"by_ns": str(step.by_ns)} for step in steps],
            "batch": [step.elapsed_ns + (step.at_ns << 64) for step in steps],
            "batch_row": [0 for _ in rows],
        },
    )
