"""Draw docs/img/path-calibration.svg and write the tables of docs/analyses/path-evals.md from the kept measurement.

Usage: `.venv/bin/python docs/path_calibration.py`, after `python -m evals.paths --keep` has judged anew.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from evals.path.report import COVERAGE_TARGET, RECORDED  # noqa: E402

PICTURE = ROOT / "docs" / "img" / "path-calibration.svg"
PAGE = ROOT / "docs" / "analyses" / "path-evals.md"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"
SIDE, LEFT, TOP, GAP_X, GAP_Y, COLUMNS = 200, 70, 66, 62, 72, 3
BLUE, RED, GREY = "#1f6feb", "#c4320a", "#999"
NINES_MAX = 3.6  # 1 and what is nearer to it than 0.00025 is drawn here
TICKS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
COVERED_LOW = 0.8  # where the axis of coverage begins

Json = Mapping[str, Any]
Scale = Callable[[float], float]


def main() -> None:
    """Both, from one reading."""
    told = json.loads(RECORDED.read_text())
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(told))
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + BEGIN + tables(told) + END + tail)


# --- the picture ------------------------------------------------------------------------------------------------


def picture(told: Json) -> str:
    """A panel of stated and found probability for each group of conditions, and one of volumes by sampling rate."""
    groups = [name for name in told["reliability"] if name != "all"]
    rows = -(-(len(groups) + 1) // COLUMNS)
    width = LEFT + COLUMNS * (SIDE + GAP_X) - GAP_X + 24
    height = TOP + rows * (SIDE + GAP_Y)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="ui-sans-serif, sans-serif" font-size="11" fill="#333">'
        ),
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        (
            f'<text x="{LEFT}" y="22" font-size="14" font-weight="600">'
            "Stated probability of a path, and how often it is right</text>"
        ),
        (
            f'<text x="{LEFT}" y="38">each point: paths in one range of stated probability; bars: 95 % interval; '
            "below the line too much was promised</text>"
        ),
    ]
    for number, group in enumerate(groups):
        parts += _reliability(*_corner(number), group, told["reliability"][group])
    parts += _coverage(*_corner(len(groups)), told["judged"].values())
    return "\n".join((*parts, "</svg>\n"))


def _corner(number: int) -> tuple[float, float]:
    row, column = divmod(number, COLUMNS)
    return LEFT + column * (SIDE + GAP_X), TOP + row * (SIDE + GAP_Y)


def _reliability(x0: float, y0: float, group: str, bins: Sequence[Json]) -> list[str]:
    """Both axes by nines: 0.9 and 0.99 are as far apart as 0 and 0.9."""

    def x(probability: float) -> float:
        return x0 + _nines(probability) / NINES_MAX * SIDE

    def y(probability: float) -> float:
        return y0 + SIDE - _nines(probability) / NINES_MAX * SIDE

    paths = sum(each["flows"] for each in bins)
    parts = _frame(x0, y0, f"{group}: {paths:,} paths")
    parts.append(
        f'<polygon points="{x0},{y0 + SIDE} {x0 + SIDE},{y0} {x0 + SIDE},{y0 + SIDE}" fill="{RED}" opacity="0.06"/>'
    )
    parts.append(f'<line x1="{x0}" y1="{y0 + SIDE}" x2="{x0 + SIDE}" y2="{y0}" stroke="#8aa"/>')
    for tick in TICKS:
        parts += _tick_x(x(tick), y0, f"{tick:g}" if tick != 0.95 else "")
        parts += _tick_y(x0, y(tick), f"{tick:g}" if tick != 0.95 else "")
    parts += [*_tick_x(x(1.0), y0, "1"), *_tick_y(x0, y(1.0), "1")]
    for each in bins:
        low, high = each["interval"]
        colour = RED if high < each["stated"] else BLUE
        name = f"stated {each['stated']:.4f}, right {each['right']:.4f} of {each['flows']:,}"
        parts += _point(x(each["stated"]), y(each["right"]), y(low), y(high), colour, name, each["flows"])
    parts.append(f'<text x="{x0 + SIDE / 2}" y="{y0 + SIDE + 30}" text-anchor="middle">stated</text>')
    parts.append(_turned(x0 - 44, y0 + SIDE / 2, "right"))
    return parts


def _nines(probability: float) -> float:
    return min(NINES_MAX, -math.log10(max(1.0 - probability, 1e-9)))


def _coverage(x0: float, y0: float, judged: Sequence[Json]) -> list[str]:
    """Share of the volumes whose interval has the truth, by sampling rate, where everything is told."""
    plain = [each for each in judged if each["rate"] and each["group"].endswith("-tier")]
    rates = sorted({each["rate"] for each in plain})

    def y(share: float) -> float:
        return y0 + SIDE - (max(share, COVERED_LOW) - COVERED_LOW) / (1 - COVERED_LOW) * SIDE

    parts = _frame(x0, y0, "true volume within its interval")
    parts.append(
        f'<line x1="{x0}" y1="{y(COVERAGE_TARGET):.1f}" x2="{x0 + SIDE}" y2="{y(COVERAGE_TARGET):.1f}" stroke="#8aa"/>'
    )
    for share in (0.8, 0.85, 0.9, 0.95, 1.0):
        parts += _tick_y(x0, y(share), f"{share:g}")
    for place, rate in enumerate(rates):
        at_x = x0 + SIDE * (place + 0.5) / len(rates)
        parts += _tick_x(at_x, y0, f"{rate:,}")
        for each in (each for each in plain if each["rate"] == rate):
            share = each["figures"]["volume_coverage"]
            if share["value"] is None:
                continue
            low, high = share["interval"]
            colour, shift = (BLUE, -5) if each["group"].startswith("2") else ("#8250df", 5)
            name = f"{each['name']}: {share['value']:.4f} of {share['of']:,}"
            parts += _point(at_x + shift, y(share["value"]), y(low), y(high), colour, name, share["of"])
    parts.append(f'<text x="{x0 + SIDE / 2}" y="{y0 + SIDE + 30}" text-anchor="middle">one packet sampled in</text>')
    parts.append(f'<circle cx="{x0 + 12}" cy="{y0 + SIDE - 26}" r="4" fill="{BLUE}"/>')
    parts.append(f'<text x="{x0 + 21}" y="{y0 + SIDE - 22}">2 tiers</text>')
    parts.append(f'<circle cx="{x0 + 12}" cy="{y0 + SIDE - 10}" r="4" fill="#8250df"/>')
    parts.append(f'<text x="{x0 + 21}" y="{y0 + SIDE - 6}">3 tiers</text>')
    return parts


def _frame(x0: float, y0: float, title: str) -> list[str]:
    return [
        f'<rect x="{x0}" y="{y0}" width="{SIDE}" height="{SIDE}" fill="none" stroke="{GREY}"/>',
        f'<text x="{x0}" y="{y0 - 6}" font-weight="600">{escape(title)}</text>',
    ]


def _tick_x(x: float, y0: float, text: str) -> list[str]:
    bottom = y0 + SIDE
    return [
        f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}" stroke="{GREY}"/>',
        f'<text x="{x:.1f}" y="{bottom + 15}" font-size="9" text-anchor="middle">{text}</text>',
    ]


def _tick_y(x0: float, y: float, text: str) -> list[str]:
    return [
        f'<line x1="{x0 - 4}" y1="{y:.1f}" x2="{x0}" y2="{y:.1f}" stroke="{GREY}"/>',
        f'<text x="{x0 - 7}" y="{y + 3:.1f}" font-size="9" text-anchor="end">{text}</text>',
    ]


def _point(x: float, y: float, y_low: float, y_high: float, colour: str, name: str, count: int) -> list[str]:
    """A point as large as what it stands for is numerous, with its interval."""
    radius = min(6.0, 2.0 + math.log10(max(count, 1)))
    return [
        f'<line x1="{x:.1f}" y1="{y_low:.1f}" x2="{x:.1f}" y2="{y_high:.1f}" stroke="{colour}" stroke-width="1.5"/>',
        (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.75">'
            f"<title>{escape(name)}</title></circle>"
        ),
    ]


def _turned(x: float, y: float, text: str) -> str:
    return f'<text transform="translate({x} {y}) rotate(-90)" text-anchor="middle">{text}</text>'


# --- the tables -------------------------------------------------------------------------------------------------

_COLUMNS = (
    ("right", "path_right_share"),
    ("wrong", "path_wrong_share"),
    ("unknown", "path_unknown_share"),
    ("sprayed found", "sprayed_told_share"),
    ("moved found", "moved_told_share"),
    ("owner right", "owner_right_share"),
    ("volumes covered", "volume_coverage"),
)


def tables(told: Json) -> str:
    """What was measured under which conditions, then every condition, then the reliability of all together."""
    under = told["conditions"]
    versions = ", ".join(f"{name} {number}" for name, number in under["versions"].items())
    head = f"Taken with seed {under['seed']} on {under['cores']} cores at a load of {under['load']}; {versions}.\n\n"
    rows = [["condition", "flows", *(title for title, _ in _COLUMNS), "Brier", "width p50"]]
    rows += [_condition_row(each) for each in told["judged"].values()]
    bins = [["stated from", "to", "mean", "right", "95 % interval", "paths"]]
    bins += [_bin_row(each) for each in told["reliability"]["all"]]
    return head + markdown(rows) + "\nStated and observed probability, all conditions together:\n\n" + markdown(bins)


def _condition_row(each: Json) -> list[str]:
    found = each["figures"]
    width = found["volume_width_ratio_p50"]["value"]
    brier = found["path_brier"]["value"]
    return [
        each["name"],
        f"{each['flows']:,}",
        *(_percent(found[name]["value"]) for _, name in _COLUMNS),
        "-" if brier is None else f"{brier:.4f}",
        "-" if width is None else f"{width:.0%}",
    ]


def _bin_row(each: Json) -> list[str]:
    low, high = each["interval"]
    return [
        f"{each['from']:g}",
        f"{each['to']:g}",
        f"{each['stated']:.4f}",
        f"{each['right']:.4f}",
        f"{low:.4f} to {high:.4f}",
        f"{each['flows']:,}",
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head; figures to the right."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"|{'---|' + '---:|' * (len(rows[0]) - 1)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
