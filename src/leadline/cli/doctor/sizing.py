"""`leadline doctor --size HOSTS`: how large a server a fleet needs, and what of it was measured."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from leadline.cli.options import Output
from leadline.cli.output import console, emit, size, table
from leadline.model.errors import UsageError
from leadline.views.sizing import GPUS_OF_LIVE, LIVE, MACHINE, Fleet, Need, Size, size_of

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
HOSTS_MAX = 1_000_000


def sizing(hosts: int, gpus_per_host: int, interval: str, retention: str, output: Output) -> int:
    """Print it; needs no server. Returns the exit code. Errors: UsageError."""
    for name, value in (("--size", hosts), ("--gpus-per-host", gpus_per_host)):
        if not 1 <= value <= HOSTS_MAX:
            raise UsageError(f"{name}: expected a number from 1 to {HOSTS_MAX:,}, got {value}")
    interval_s = seconds("--interval", interval, 0.1, 3600.0)
    retention_d = seconds("--retention", retention, 3600.0, 3650 * 86_400.0) / 86_400.0
    found = size_of(Fleet(hosts, gpus_per_host, interval_s, retention_d))
    if not emit(as_json(found), output, "needs"):
        show(found)
    return 0


def seconds(name: str, text: str, low: float, high: float) -> float:
    """A length of time: `15s`, `2m`, `1h`, `30d`. Errors: UsageError."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|m|min|h|d)", text.strip())
    value = float(match[1]) * _UNITS[match[2]] if match else -1.0
    if not low <= value <= high:
        raise UsageError(
            f"{name}: expected a length of time such as 15s, 5m, 1h or 30d, from {low:g} to {high:g} s, got {text!r}"
        )
    return value


def as_json(found: Size) -> dict[str, Any]:
    """For programs."""
    return {
        "schema": 1,
        "fleet": asdict(found.fleet),
        "load_hosts": found.load_hosts,
        "needs": [{**asdict(each), "basis": each.basis.value} for each in found.needs],
        "notes": list(found.notes),
        "measured": [each._asdict() for each in LIVE],
        "machine": MACHINE,
    }


def show(found: Size) -> None:
    """For a person: what to have, what will be used, and what that stands on."""
    out = console()
    fleet = found.fleet
    out.print(
        f"A server for {fleet.hosts:,} hosts of {fleet.gpus_per_host} GPUs; exporters are read every "
        f"{fleet.interval_s:g} s, rows kept for {fleet.retention_d:g} d"
    )
    if round(found.load_hosts) != fleet.hosts:
        out.print(f"They send as much as {found.load_hosts:,.0f} hosts of the measured fleet do.")
    rows = [
        {
            "need": each.name,
            "used": amount(each, each.value),
            "have": "" if each.advice is None else amount(each, each.advice),
            "is": each.basis.value,
        }
        for each in found.needs
    ]
    out.print(table(rows, ["need", "used", "have", "is"], right=["used", "have"]))
    out.print()
    for note in found.notes:
        out.print(f"- {note}")
    sizes = " and ".join(f"{each.hosts}" for each in LIVE if each.cores is not None)
    out.print(
        f"\nMeasured live: simulated fleets of {sizes} hosts of {GPUS_OF_LIVE} GPUs, on a {MACHINE}. All constants and "
        "where each is from: docs/sizing.md"
    )


def amount(need: Need, value: float) -> str:
    """A value with its unit: `1.3 cores`, `4.0 GB`, `2.6 MB/s`."""
    if need.unit.startswith("bytes"):
        return size(value) + need.unit.removeprefix("bytes")
    return f"{value:.3g} {need.unit}"
