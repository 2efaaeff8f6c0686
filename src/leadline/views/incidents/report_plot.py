"""Small plots for a report, as SVG within it: lines over time, the onset, hatching where nothing was told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from leadline.model.units import S

WIDTH, HEIGHT = 640, 150
LEFT, RIGHT, TOP, BOTTOM = 84, 8, 8, 20  # room around the lines, for the words of the axes
GAP_INTERVALS = 3.5  # a stream that was silent for longer than this many of its own intervals was missing
GAP_MIN_NS = 3 * S // 2
_TICKS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
TICKS_MAX = 8


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plot in numbers for the template; coordinates are of an SVG of WIDTH x HEIGHT."""

    paths: tuple[tuple[str, str, str], ...]  # label, class, path
    gaps: tuple[tuple[float, float], ...]  # x, width
    onset_x: float | None
    marks: tuple[tuple[float, str], ...]  # x and words of what the evidence says
    times: tuple[tuple[float, str], ...]
    values: tuple[tuple[float, str], ...]
    words: str


def drawn(
    times: Sequence[int], lines: Sequence[tuple[str, Sequence[float | None]]], span: tuple[int, int], unit: str,
    onset_ns: int, marks: Sequence[tuple[int, str]] = (),
) -> Drawn:  # fmt: skip
    """Lines (label, values at `times`; the first is what it is about, others are its peers) from span[0] to span[1]."""
    known = [each for _, values in lines for each in values if each is not None]
    low, high = _range(known)
    silence_ns = gap_after(times, [values for _, values in lines])

    def x(time_ns: int) -> float:
        share = (time_ns - span[0]) / max(1, span[1] - span[0])
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, share)), 1)

    def y(value: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low)), 1)

    def path(values: Sequence[float | None]) -> str:
        parts, last = [], None
        for time_ns, value in zip(times, values, strict=True):
            if value is not None:
                pen = "M" if last is None or time_ns - last > silence_ns else "L"
                parts.append(f"{pen}{x(time_ns)} {y(value)}")
                last = time_ns
        return "".join(parts)

    any_T = [time_ns for place, time_ns in enumerate(times) if any(v[place] is not None for _, v in lines)]
    blind = [(a, b) for a, b in zip([span[0], *any_T], [*any_T, span[1]], strict=True) if b - a > silence_ns]
    inside = span[0] <= onset_ns <= span[1]
    first = [each for each in lines[0][1] if each is not None] if lines else []
    words = f"{figure(min(first), unit)} to {figure(max(first), unit)}" if first else "no values"
    return Drawn(
        tuple((label, "own" if not place else "peer", path(values)) for place, (label, values) in enumerate(lines)),
        tuple((x(a), round(x(b) - x(a), 1)) for a, b in blind), x(onset_ns) if inside else None,
        tuple((x(time_ns), text) for time_ns, text in marks if span[0] <= time_ns <= span[1]),
        tuple((x(each), clock(each)) for each in _moments(*span)),
        tuple((y(each), figure(each, unit)) for each in _levels(low, high)), words,
    )  # fmt: skip


def gap_after(times: Sequence[int], lines: Sequence[Sequence[float | None]]) -> int:
    """How far apart two values may be before what is between them counts as missing, ns."""
    apart: list[int] = []
    for values in lines:
        told = [time_ns for time_ns, value in zip(times, values, strict=True) if value is not None]
        apart += [b - a for a, b in pairwise(told)]
    middle = sorted(apart)[len(apart) // 2] if apart else 0
    return max(GAP_MIN_NS, int(GAP_INTERVALS * middle))


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From zero where that does not hide the change."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        low, high = (0.0, high or 1.0) if high >= 0 else (low, 0.0)
    if 0 <= low < 0.6 * high:
        return 0.0, high * 1.05
    room = (high - low) * 0.1
    return low - room, high + room


def _moments(from_ns: int, to_ns: int) -> list[int]:
    """Round moments of the span, at most TICKS_MAX."""
    step_s = next((each for each in _TICKS_S if (to_ns - from_ns) / S / each <= TICKS_MAX), 7 * 86_400)
    first = -(-from_ns // (step_s * S)) * step_s * S
    return list(range(first, to_ns + 1, step_s * S))[: TICKS_MAX + 1]


def _levels(low: float, high: float) -> list[float]:
    """Round values between the ends, two to five of them."""
    size = 10.0 ** math.floor(math.log10((high - low) / 2))
    step = next(size * each for each in (5, 2, 1) if (high - low) / (size * each) >= 2)
    return [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


def clock(time_ns: int) -> str:
    """`13:41:07`, UTC."""
    return datetime.fromtimestamp(time_ns // S, UTC).strftime("%H:%M:%S")


_SMALLER = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_LARGER = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def figure(value: float, unit: str) -> str:
    """A value and its unit, three figures: `210 ms`, `39.8 Gbit/s`, `0.5 /s`."""
    if not math.isfinite(value):
        return "unknown"
    if unit == "s" and 0 < abs(value) < 1:
        scale, word = next(((size, word) for size, word in _SMALLER if abs(value) >= size), _SMALLER[-1])
        return f"{value / scale:.3g} {word}"
    if unit == "By/s":
        value, unit = value * 8, "bit/s"
    unit = {"1": "", "By": "B", "1/s": "/s", "Cel": "°C"}.get(unit, unit)
    scale, prefix = next(((size, word) for size, word in _LARGER if abs(value) >= size), (1.0, ""))
    if unit in ("s", "°C", "") and prefix:
        return f"{value:,.0f} {unit}".strip()
    return f"{value / scale:.3g} {prefix}{unit}".strip()
