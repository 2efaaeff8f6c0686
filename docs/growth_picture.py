"""Draw docs/img/mesh-growth.svg: how error and cost of the clock grow with the size of a fleet.

Usage: `.venv/bin/python docs/growth_picture.py`; half a minute. Seeded: the same picture, but for CPU times.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from evals.clock_parts.growth import LOADS, SIZES, Grown, growth  # noqa: E402

PICTURE = ROOT / "docs" / "img" / "mesh-growth.svg"
SEED = 401
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 460, 300, 62, 50, 44, 34
COLOURS = {"idle": "#1f6feb", "busy85": "#c4320a"}
NAMES = {"idle": "idle", "busy85": "ports busy 85 %"}
Curve = tuple[str, str, str, Callable[[Grown], float]]


def main() -> None:
    """Two panels: error, cost."""
    found = growth(SEED, SIZES)
    error: list[Curve] = []
    cost: list[Curve] = []
    for load in LOADS:
        error += [
            (load, "", f"{NAMES[load]}, as a whole", lambda each: each.pair_p99_ns),
            (load, "5 4", f"{NAMES[load]}, pod by pod", lambda each: each.pods_pair_p99_ns),
        ]
        cost += [(load, "", NAMES[load], lambda each: each.solve_s * 1e3)]
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" width="{2 * WIDTH}" '
            f'height="{HEIGHT}" font-family="ui-sans-serif, sans-serif" font-size="11" fill="#333">'
        ),
        f'<rect width="{2 * WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *panel(0, "error of any two hosts, 99th percentile, ns", found, error, (10, 1000)),
        *panel(WIDTH, "CPU time of one solution, ms", found, cost, (0.1, 10_000)),
    ]
    PICTURE.write_text("\n".join((*parts, "</svg>\n")))


def panel(x0: int, title: str, found: Sequence[Grown], curves: Sequence[Curve], span: tuple[float, float]) -> list[str]:
    """One plot, both axes logarithmic."""
    low, high = math.log10(SIZES[0]), math.log10(SIZES[-1])
    floor, top = map(math.log10, span)

    def x(hosts: float) -> float:
        return x0 + LEFT + (math.log10(hosts) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - floor) / (top - floor) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{x0 + LEFT}" y="18" font-weight="600">{title}</text>']
    for power in range(round(floor), round(top) + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{x0 + LEFT} {at:.1f}H{x0 + WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x0 + LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for size in SIZES:
        parts.append(f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size:,}</text>')
    parts.append(f'<text x="{x0 + WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">hosts</text>')
    for place, (load, dashes, name, value) in enumerate(curves):
        points = [(x(each.hosts), y(value(each))) for each in found if each.load == load]
        line = "L".join(f"{one:.1f} {other:.1f}" for one, other in points)
        style = f'stroke="{COLOURS[load]}" stroke-width="2" stroke-dasharray="{dashes}"'
        parts.append(f'<path d="M{line}" fill="none" {style}/>')
        parts += [f'<circle cx="{one:.1f}" cy="{other:.1f}" r="3" fill="{COLOURS[load]}"/>' for one, other in points]
        column, row = place % 2, place // 2
        at_x, at_y = x0 + LEFT + column * 192, 32 + row * 13
        parts.append(f'<path d="M{at_x} {at_y - 4}h18" {style}/><text x="{at_x + 24}" y="{at_y}">{name}</text>')
    return parts


if __name__ == "__main__":
    main()
