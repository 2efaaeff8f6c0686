"""Numbers as people read them, as the page writes them (web/src/lib/units.ts): a value, its unit, three figures."""

from __future__ import annotations

import math

_SECONDS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s"), (7200.0, 1 / 60, "min"))
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


def figures(value: float) -> str:
    """Three significant figures, no exponent: `0.0123`, `12.3`, `1,230`."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "unknown"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    decimals = min(20, max(0, 2 - math.floor(math.log10(abs(value)))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float) -> str:
    """`210 ms`, `1.3 s`, `4 min`, `2 h 5 min`."""
    if seconds == 0:
        return "0 s"
    for below, factor, unit in _SECONDS:
        if abs(seconds) < below:
            return f"{round(seconds * factor) if unit == 'min' else figures(seconds * factor)} {unit}"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def in_unit(value: float, unit: str) -> str:
    """A value of this unit: `210 ms`, `1.9 kB/s`, `3,120 tokens/s`."""
    if unit == "s":
        return duration(value)
    if unit == "GB/s":
        return f"{_size(value * 1e9)}/s"
    return f"{figures(value)} {unit}".rstrip()


def _size(count: float) -> str:
    place = 0
    while abs(count) >= 1000 and place < len(_SIZES) - 1:
        count, place = count / 1000, place + 1
    return f"{figures(count)} {_SIZES[place]}"
