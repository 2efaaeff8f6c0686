"""Draw docs/img/calibration.svg and write the table of docs/lab/calibration.md from the kept measurement.

Usage: `.venv/bin/python docs/calibration.py`, after `python bench/simulator.py --keep` has measured anew (needs root).
"""

from __future__ import annotations

import math
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.calibration import calibration  # noqa: E402
from bench.calibration.calibration import Row  # noqa: E402
from bench.simulator import RECORDED  # noqa: E402

PICTURE = ROOT / "docs" / "img" / "calibration.svg"
PAGE = ROOT / "docs" / "lab" / "calibration.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
SIDE, LEFT, TOP, GAP = 250, 62, 44, 84
BAND = 0.10
PANELS = (
    ("step time", "time of a step or collective, s"),
    ("queue", "queueing delay, ms"),
    ("volume", "bytes of a port"),
)


def main() -> None:
    """Both, from one reading."""
    records, under = calibration.read_records(RECORDED)
    fitted = calibration.fit(records, int(under["cores"]))
    rows = calibration.compare(records, fitted)
    PICTURE.write_text(picture(rows))
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    constants = ", ".join(f"{name} {value:g}" for name, value in calibration.fitted_as_json(fitted).items())
    taken = f"Taken with {under['cores']} cores at a load of {under['load']} before the run. Fitted: {constants}.\n\n"
    if note := under.get("note"):
        taken = f"Of this record: {note}.\n\n{taken}"
    PAGE.write_text(head + BEGIN + taken + calibration.as_markdown(rows) + END + tail)


def picture(rows: list[Row]) -> str:
    """Three panels, lab against simulator, logarithmic, with the band of a tenth."""
    width, height = LEFT + len(PANELS) * (SIDE + GAP) - GAP + 20, TOP + SIDE + 78
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="ui-sans-serif, sans-serif" font-size="11" fill="#333">'
        ),
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="600">The simulator beside the namespace lab</text>',
    ]
    for number, (quantity, title) in enumerate(PANELS):
        chosen = [row for row in rows if row.quantity.startswith(quantity) and row.told]
        if chosen:
            parts += _panel(LEFT + number * (SIDE + GAP), title, chosen)
    y = TOP + SIDE + 64
    parts.append(f'<circle cx="{LEFT + 6}" cy="{y - 4}" r="4" fill="#1f6feb" fill-opacity="0.75"/>')
    parts.append(f'<text x="{LEFT + 16}" y="{y}">only checked</text>')
    parts.append(f'<circle cx="{LEFT + 116}" cy="{y - 4}" r="4" fill="none" stroke="#b35900" stroke-width="1.5"/>')
    parts.append(f'<text x="{LEFT + 126}" y="{y}">a constant was fitted to it</text>')
    parts.append(f'<rect x="{LEFT + 280}" y="{y - 10}" width="14" height="10" fill="#dfe9f7"/>')
    parts.append(f'<text x="{LEFT + 300}" y="{y}">within 10 %</text></svg>\n')
    return "\n".join(parts)


def _panel(x0: float, title: str, rows: list[Row]) -> list[str]:
    values = [value for row in rows for value in (row.lab, row.simulator)]
    low, high = math.log10(min(values)) - 0.15, math.log10(max(values)) + 0.15

    def x(value: float) -> float:
        return x0 + (math.log10(value) - low) / (high - low) * SIDE

    def y(value: float) -> float:
        return TOP + SIDE - (math.log10(value) - low) / (high - low) * SIDE

    shift = math.log10(1 + BAND) / (high - low) * SIDE
    band = (
        f"{x0},{TOP + SIDE - shift} {x0},{TOP + SIDE} {x0 + shift},{TOP + SIDE} "
        f"{x0 + SIDE},{TOP + shift} {x0 + SIDE},{TOP} {x0 + SIDE - shift},{TOP}"
    )
    parts = [
        f'<polygon points="{band}" fill="#dfe9f7"/>',
        f'<line x1="{x0}" y1="{TOP + SIDE}" x2="{x0 + SIDE}" y2="{TOP}" stroke="#8aa"/>',
        f'<rect x="{x0}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>',
        f'<text x="{x0}" y="{TOP - 6}">{escape(title)}</text>',
        f'<text x="{x0 + SIDE / 2}" y="{TOP + SIDE + 32}" text-anchor="middle">lab</text>',
        f'<text transform="translate({x0 - 48} {TOP + SIDE / 2}) rotate(-90)" text-anchor="middle">simulator</text>',
    ]
    for value in _ticks(low, high):
        told = f"{value:g}" if 1e-5 < value < 1e5 else f"1e{math.log10(value):.0f}"
        at_x, at_y = x(value), y(value)
        parts.append(f'<line x1="{at_x:.1f}" y1="{TOP + SIDE}" x2="{at_x:.1f}" y2="{TOP + SIDE + 4}" stroke="#999"/>')
        parts.append(f'<text x="{at_x:.1f}" y="{TOP + SIDE + 16}" text-anchor="middle">{told}</text>')
        parts.append(f'<line x1="{x0 - 4}" y1="{at_y:.1f}" x2="{x0}" y2="{at_y:.1f}" stroke="#999"/>')
        parts.append(f'<text x="{x0 - 7}" y="{at_y + 4:.1f}" text-anchor="end">{told}</text>')
    for row in rows:
        fill = (
            'fill="#1f6feb" fill-opacity="0.75"'
            if row.use == "check"
            else 'fill="none" stroke="#b35900" stroke-width="1.5"'
        )
        name = escape(f"{row.case}: {row.error_ratio:.1%}")
        parts.append(
            f'<circle cx="{x(row.lab):.1f}" cy="{y(row.simulator):.1f}" r="4" {fill}><title>{name}</title></circle>'
        )
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Values of an axis from 10**low to 10**high: powers of ten, and 2 and 5 between them where there are few."""
    steps = (1, 2, 5) if high - low < 2.0 else (1,)
    found = [step * 10.0**exponent for exponent in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [value for value in found if low <= math.log10(value) <= high]


if __name__ == "__main__":
    main()
