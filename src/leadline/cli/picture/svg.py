"""A small writer of SVG: shapes and escaped texts, colours by class, light and dark, no dependencies.

Colours carry the same meaning in both schemes, and never alone: a job has a letter and a pattern of strokes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

FONT = 12.0  # px of labels
SMALL = 11.0  # the least that is readable on a laptop
JOBS = 4  # told apart by hue and stroke; others share one grey

# class: (light, dark). Job hues are told apart by colour-blind people (blue, orange, green, violet) and differ from the
# colours of states. `took-X`: what a category of the ledger took, the same as on the page (web/src/app.css).
_COLOURS = {
    "surface": ("#fbfbfa", "#15181c"),
    "text": ("#1b1f24", "#e8eaed"),
    "dim": ("#5d636b", "#a4aab2"),
    "rule": ("#c3c7cc", "#3d434b"),
    "box": ("#f0f1f2", "#22272d"),
    "bad": ("#b83a4b", "#f0707f"),
    "job0": ("#2f6fdb", "#7aa7ff"),
    "job1": ("#b35c00", "#f0a050"),
    "job2": ("#1f7a5c", "#63c29f"),
    "job3": ("#7b4fc4", "#b794f6"),
    "job4": ("#6b7178", "#9aa1a9"),
    "took-compute": ("#7ba394", "#55806f"),
    "took-communication": ("#8fb0e6", "#48699f"),
    "took-input": ("#b0a2d4", "#6d5f94"),
    "took-checkpoint": ("#8ea2b8", "#566a80"),
    "took-restart": ("#c4b08f", "#7d6c4d"),
    "took-straggler": ("#d3a37a", "#8f6a45"),
    "took-idle": ("#c9ccd1", "#4d5259"),
}
DASHES = ("", "7 3", "2 3", "9 3 2 3", "1 4")  # of job 0, 1, ...: told apart without colour

# Widths of characters in parts of the font size, after DejaVu Sans, which is wider than other sans fonts: a label that
# fits by this fits everywhere.
_NARROW, _WIDE = set("iljtfrI.,:;'|!()[]/ "), set("mwMW@%~+=<>")


def text_width(text: str, size: float = FONT) -> float:
    """Width of a line in px; rather too much than too little."""
    return size * sum(0.4 if each in _NARROW else 0.86 if each in _WIDE else 0.65 for each in text)


def shortened(text: str, width: float, size: float = FONT) -> str:
    """The text, or as much of its begin and end as fits into `width` px with an ellipsis between."""
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 1, 1, -1):
        head = (kept + 1) // 2
        short = f"{text[:head]}…{text[len(text) - (kept - head) :]}"
        if text_width(short, size) <= width:
            return short
    return "…"


class Drawing:
    """One picture. Shapes are drawn in the order of the calls; x goes right, y goes down, in px."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        self._title = title
        self._parts: list[str] = []

    def begin(self, title: str = "", **data: object) -> None:
        """Begin a group. `title` is shown when the pointer rests on it; `data` become data- attributes."""
        told = "".join(f" data-{name.replace('_', '-')}={_attribute(value)}" for name, value in data.items())
        self._parts.append(f"<g{told}>" + (f"<title>{_clean(title)}</title>" if title else ""))

    def end(self) -> None:
        """End the group."""
        self._parts.append("</g>")

    def rect(self, x: float, y: float, width: float, height: float, kind: str, radius: float = 4) -> None:
        """A box of classes `kind`: `fill-NAME`, `stroke-NAME`."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}" class="{kind}"/>'
        )

    def line(self, points: Sequence[tuple[float, float]], kind: str, width: float = 1.0, dashes: str = "") -> None:
        """A line through points."""
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._path(path, kind, width, dashes)

    def curve(
        self, begin: tuple[float, float], end: tuple[float, float], kind: str, width: float = 1.0, dashes: str = "",
        upright: bool = True,
    ) -> None:  # fmt: skip
        """A line that leaves and arrives upright (or level), so that bundles of them are read easily."""
        (x0, y0), (x1, y1) = begin, end
        if upright:
            middle = (y0 + y1) / 2
            path = f"M{x0:.1f} {y0:.1f}C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        else:
            middle = (x0 + x1) / 2
            path = f"M{x0:.1f} {y0:.1f}C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        self._path(path, kind, width, dashes)

    def _path(self, path: str, kind: str, width: float, dashes: str) -> None:
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._parts.append(f'<path d="{path}" class="line {kind}" stroke-width="{width:.1f}"{dashed}/>')

    def text(
        self, x: float, y: float, text: str, kind: str = "fill-text", size: float = FONT, anchor: str = "start"
    ) -> None:
        """A line of text whose base line is at `y`; `anchor`: start, middle, end."""
        turned = "" if anchor == "start" else f' text-anchor="{anchor}"'
        sized = "" if size == FONT else f' font-size="{size:g}"'
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{turned}{sized}>{_clean(text)}</text>')

    def svg(self) -> str:
        """The whole file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{self.height:g}" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" font-size="{FONT:g}" role="img">\n'
            f"<title>{_clean(self._title)}</title>\n<style>{_style()}</style>\n{_HATCH}\n"
            f'<rect width="{self.width:g}" height="{self.height:g}" class="fill-surface"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )


# What is unknown is hatched: never mistaken for a state.
_HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="fill-box"/><path d="M1 0L1 6" class="line stroke-job4" stroke-width="2"/>'
    "</pattern></defs>"
)


def _style() -> str:
    light = "".join(_rules(name, colours[0]) for name, colours in _COLOURS.items())
    dark = "".join(_rules(name, colours[1]) for name, colours in _COLOURS.items())
    return (
        "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;"
        "font-variant-numeric:tabular-nums}"
        ".strong{font-weight:600}.line{fill:none}.pale{opacity:.45}.hatched{fill:url(#hatch)}"
        f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
    )


def _rules(name: str, colour: str) -> str:
    return f".fill-{name}{{fill:{colour}}}.stroke-{name}{{stroke:{colour}}}"


def _clean(text: str) -> str:
    """Escaped, without the control characters that XML cannot hold."""
    return escape("".join(each if _may_stand(ord(each)) else "�" for each in text))


def _may_stand(code: int) -> bool:
    return code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code >= 0x10000


def _attribute(value: object) -> str:
    return quoteattr("".join(each if _may_stand(ord(each)) else "�" for each in str(value)))
