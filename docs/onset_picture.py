"""Draw docs/img/onset.svg: times of the workers of a real job, and which of them is told as a straggler since when.

Usage: `.venv/bin/python docs/onset_picture.py [DIR]`; DIR as for `python -m evals.onset`, else what the tests keep.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from evals.onset import SMALL, Run, runs  # noqa: E402

from leadline.analysis.ledger.onset.onset import Straggler, stragglers  # noqa: E402

PICTURE = ROOT / "docs" / "img" / "onset.svg"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 860, 280, 64, 58, 46, 20
COLOURS = ("#c4320a", "#1f6feb", "#8250df", "#9a6700", "#0a7c42", "#bf3989")
GREY = "#b8b8b8"


def main() -> None:
    """A panel for each job."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else SMALL
    jobs = list(runs(directory))
    height = HEIGHT * len(jobs)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="ui-sans-serif, sans-serif" font-size="11" fill="#333">'
        ),
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for place, run in enumerate(jobs):
        parts += panel(run, place * HEIGHT)
    PICTURE.write_text("\n".join((*parts, "</svg>\n")))


def panel(run: Run, y0: int) -> list[str]:
    """The times of one job's workers: stragglers in colour, with their spells shaded."""
    told = stragglers(run.worker_N, run.iteration_N, run.time_N).stragglers
    low, high = int(run.iteration_N.min()), int(run.iteration_N.max())
    top = float(np.nanmax(run.time_N)) * 1.05
    floor = float(np.nanmin(run.time_N)) * 0.9

    def x(iteration: float) -> float:
        return LEFT + (iteration - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(time: float) -> float:
        return y0 + HEIGHT - BOTTOM - (time - floor) / (top - floor) * (HEIGHT - TOP - BOTTOM)

    colour_of: dict[int, str] = {}
    for each in told:
        colour_of.setdefault(each.worker, COLOURS[len(colour_of) % len(COLOURS)])
    parts = [
        (
            f'<text x="{LEFT}" y="{y0 + 20}" font-size="14" font-weight="600">'
            f"Job {run.number}: time of a mini-batch by worker</text>"
        ),
        f'<text x="{LEFT}" y="{y0 + 36}">{escape(words(told))}</text>',
    ]
    for each in told:
        if not each.from_start:
            begin, end = x(each.since), x(high if each.until is None else each.until)
            colour = colour_of[each.worker]
            parts.append(
                f'<rect x="{begin:.1f}" y="{y0 + TOP}" width="{max(end - begin, 1):.1f}" '
                f'height="{HEIGHT - TOP - BOTTOM}" fill="{colour}" opacity="0.08"/>'
            )
            parts.append(f'<path d="M{begin:.1f} {y0 + TOP}V{y0 + HEIGHT - BOTTOM}" stroke="{colour}"/>')
    for worker in sorted(set(run.worker_N.tolist()), key=lambda each: each in colour_of):
        mine = np.flatnonzero((run.worker_N == worker) & np.isfinite(run.time_N))
        mine = mine[np.argsort(run.iteration_N[mine])]
        points = " ".join(f"{x(run.iteration_N[at]):.1f},{y(run.time_N[at]):.1f}" for at in mine)
        colour = colour_of.get(worker, GREY)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1"/>')
    return [*parts, *axes(y0, low, high, floor, top, x, y)]


def words(told: tuple[Straggler, ...]) -> str:
    """The stragglers in a line, in the order in which they are told."""
    if not told:
        return "no worker stands out"
    return "; ".join(
        f"worker {each.worker} {'slow from the start' if each.from_start else f'since {each.since}'}"
        f"{'' if each.until is None else f' until {each.until}'}, {each.slowdown:+.0%}"
        for each in told[:4]
    ) + (f"; and {len(told) - 4} more" if len(told) > 4 else "")


def axes(y0, low, high, floor, top, x, y) -> list[str]:  # type: ignore[no-untyped-def]
    """Iterations below, times at the left."""
    bottom = y0 + HEIGHT - BOTTOM
    parts = [
        f'<path d="M{LEFT} {y0 + TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="#333"/>',
        f'<text x="{(LEFT + WIDTH) / 2}" y="{bottom + 34}" text-anchor="middle">iteration</text>',
        f'<text x="8" y="{y0 + TOP - 8}">scaled time</text>',
    ]
    for tick in range(-(-low // 500) * 500, high + 1, 500):
        parts.append(f'<text x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick}</text>')
    for tick in range(int(-(-floor // 100)) * 100, int(top) + 1, 100):
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.0f}</text>')
    return parts


if __name__ == "__main__":
    main()
