"""What the clock daemon of a host (chrony, ntpd, PTP) says of its clock: within what it is right.

    adjtimex ──> the kernel's own bound, which the daemon renews ──┐
    chronyc -c tracking, where the kernel is told nothing ─────────┴─> Daemon.bound_ns()

A host that has one keeps it: probes are stamped by a clock that nobody steers, and what the daemon made of the host's
own clock is one witness more, with this bound. Nothing is asked of a daemon but what it says of itself.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import time

from leadline.model.errors import DataError, WorldError

STA_UNSYNC = 0x0040
TIME_ERROR = 5
BOUND_US_MAX = 16_000_000  # the kernel's own word for: it does not know. Source: linux/timex.h, NTP_PHASE_LIMIT
ASK_S = 60.0  # chrony polls its sources each 64 s and more
ANSWER_S = 0.5
TRACKING_FIELDS = 14
"""Of `chronyc -c tracking`. Source: chronyc(1), tracking."""


class _Timex(ctypes.Structure):
    """struct timex of a 64-bit Linux, up to `status`. Source: adjtimex(2)."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror_us", ctypes.c_long),
        ("esterror_us", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    ]


def kernel_bound_ns() -> int:
    """What the kernel was told, grown since by 500 ppm. Errors: WorldError where nobody keeps this clock."""
    told = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(told))
    if state < 0:
        raise WorldError(f"adjtimex: error {ctypes.get_errno()}")
    if state == TIME_ERROR or told.status & STA_UNSYNC or not 0 <= told.maxerror_us < BOUND_US_MAX:
        raise WorldError("the kernel was told by nobody that this clock is kept (adjtimex: unsynchronised)")
    return int(told.maxerror_us) * 1000


def parse_tracking(line: str) -> int:
    """The bound that chrony states, ns: what is left to correct, half the root delay, and the root dispersion.

    Errors: DataError for another line, WorldError where chrony is not synchronised. Source: chronyc(1), tracking.
    """
    fields = line.strip().split(",")
    try:
        stratum, left_s, delay_s, dispersion_s = int(fields[2]), *(float(fields[each]) for each in (4, 10, 11))
        bound_s = abs(left_s) + abs(delay_s) / 2 + dispersion_s
    except (ValueError, IndexError):
        stratum, bound_s = 0, math.nan
    if len(fields) != TRACKING_FIELDS or not 0 <= bound_s < 1e9:
        raise DataError("chronyc -c tracking", f"{TRACKING_FIELDS} fields", repr(line[:80]))
    if stratum == 0 or fields[13] == "Not synchronised":
        raise WorldError("chrony is not synchronised")
    return round(bound_s * 1e9)


def chrony_bound_ns() -> int:
    """What chrony says. Errors: WorldError where there is none, or none that answers; DataError."""
    program = shutil.which("chronyc")
    if program is None:
        raise WorldError("no chronyc on the PATH")
    try:
        asked = subprocess.run([program, "-c", "-n", "tracking"], capture_output=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise WorldError(f"chronyc does not answer: {error}") from None
    if asked.returncode:
        raise WorldError(f"chronyc: {asked.stdout.decode('utf-8', 'replace').strip()[:80]}")
    return parse_tracking(asked.stdout.decode("utf-8", "replace"))


def bound_ns() -> int:
    """Within what this host's own clock is right, as who keeps it says. Errors: WorldError, DataError."""
    try:
        return kernel_bound_ns()
    except WorldError as unknown:
        try:
            return chrony_bound_ns()
        except WorldError as error:
            raise WorldError(f"{unknown}; {error}") from None


class Daemon:
    """The bound as often as it is wanted; chrony is asked once a minute."""

    def __init__(self) -> None:
        self._asked_s = -math.inf  # monotonic
        self._chrony_ns: int | None = None

    def bound_ns(self) -> int | None:
        """Within what the host's own clock is right; None: nobody says."""
        try:
            return kernel_bound_ns()
        except WorldError:
            pass
        if time.monotonic() - self._asked_s >= ASK_S:
            self._asked_s = time.monotonic()
            try:
                self._chrony_ns = chrony_bound_ns()
            except (WorldError, DataError):
                self._chrony_ns = None
        return self._chrony_ns
