"""The wall clock of an emulated machine: what its hosts' programs read as the time of day may be wrong.

A kernel has one wall clock for all its namespaces, so a host's own is made in the programs: libfaketime (Debian:
libfaketime), preloaded, adds an offset to CLOCK_REALTIME and leaves CLOCK_MONOTONIC alone. The offset stands in one
file per machine, because the hosts of a machine share its oscillator; whoever replaces the file moves them all at once.

    <state>/machines/<machine>/clock      +0.250000000      seconds, as libfaketime reads them

Only labs in which a clock is to go wrong have these files, and only their programs are slower for it: the file is
read whenever somebody asks for the time (some 4 us instead of 0.05; with libfaketime's cache it would be 0.5, but then
each process would learn of a step up to a second after the others). What the kernel stamps itself (packets, files)
stays true.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from leadline.model.errors import UsageError

_NAME = "libfaketimeMT.so.1"  # MT: the variant for programs with threads
_PLACES = (
    "/usr/lib/x86_64-linux-gnu/faketime",
    "/usr/lib/aarch64-linux-gnu/faketime",
    "/usr/lib/faketime",
    "/usr/lib64/faketime",
    "/usr/local/lib/faketime",
)
_START = Path(__file__).parent / "clock_start"  # holds a sitecustomize.py, see there


def faketime() -> Path | None:
    """Where libfaketime is, or None."""
    return next((path for place in _PLACES if (path := Path(place) / _NAME).exists()), None)


def require() -> None:
    """Errors: UsageError if libfaketime is not installed."""
    if faketime() is None:
        raise UsageError("a wrong clock needs libfaketime (Debian: apt install libfaketime); leave that fault out")


def variables(state: Path, host: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a program of this host needs in its environment to read its clock: nothing where no clock goes wrong."""
    clock, found = state / "hosts" / host / "clock", faketime()
    if found is None or not clock.exists():
        return {}
    return {
        "LD_PRELOAD": " ".join(each for each in (str(found), environment.get("LD_PRELOAD", "")) if each),
        "PYTHONPATH": os.pathsep.join(each for each in (str(_START), environment.get("PYTHONPATH", "")) if each),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",  # times of files are the kernel's
    }


def write_offset(path: Path, seconds: float) -> None:
    """Replace the file of a machine's clock: at any moment it holds the old or the new offset."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_file = path.with_name(path.name + ".part")
    partial_file.write_text(f"{seconds:+.9f}\n")
    partial_file.replace(path)


def clock_file(state: Path, machine: str) -> Path:
    """Where the offset of a machine's clock stands."""
    return state / "machines" / machine / "clock"
