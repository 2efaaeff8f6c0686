"""The picture of `leadline show flows`: links by load, whose bytes they carry, and how even equal-cost links are."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.cli.output import size
from leadline.cli.picture.svg import JOBS, SMALL, Drawing, shortened, text_width
from leadline.cli.ranges import counted, ranges

WIDTH, TOP, NAMES, NUMBERS = 1280.0, 92.0, 280.0, 290.0
ROW, BAR = 24.0, 12.0
LINKS_MAX, GROUPS_MAX = 20, 10
NOBODY = "(nobody)"


def flows_picture(answer: Mapping[str, Any], when: str) -> str:
    """The SVG of an answer of `/api/v1/flows`."""
    return _Picture(answer, when).svg()


class _Picture:
    def __init__(self, answer: Mapping[str, Any], when: str) -> None:
        self._answer, self._when = answer, when
        self._links: Sequence[Mapping[str, Any]] = answer["links"][:LINKS_MAX]
        self._groups: Sequence[Mapping[str, Any]] = answer["groups"][:GROUPS_MAX]
        self._jobs = self._ranked()
        self._scale = (WIDTH - NAMES - NUMBERS - 16) / max((link["high"] for link in self._links), default=1.0)
        self._groups_y = TOP + ROW * (max(len(self._links), 1) + 1) + 30
        height = self._groups_y + ROW * (len(self._groups) + 1) * bool(self._groups) + 62
        self._drawing = Drawing(WIDTH, math.ceil(height), f"Flows of {answer['job']}, {when}")

    def _ranked(self) -> list[str]:
        """Jobs by letter: the one asked for, then those with the most bytes on its links; at last nobody's."""
        carried: dict[str, float] = defaultdict(float)
        for link in self._answer["links"]:
            for job, count in link["jobs"].items():
                carried[job] += count
        rest = sorted(carried.keys() - {self._answer["job"], NOBODY}, key=lambda job: (-carried[job], job))
        return [self._answer["job"], *rest[: JOBS - 1]]

    def _place(self, job: str) -> int:
        return self._jobs.index(job) if job in self._jobs else JOBS

    def svg(self) -> str:
        drawing = self._drawing
        drawing.text(16, 30, shortened(f"Flows of job {self._answer['job']}", WIDTH - 32, 17), "fill-text strong", 17)
        drawing.text(16, 52, shortened(self._summary(), WIDTH - 32), "fill-dim")
        drawing.text(16, TOP - 8, "links by load, both directions together", "fill-text strong")
        if not self._links:
            drawing.text(16, TOP + 16, shortened(self._answer["why"] or "no link is known", WIDTH - 32), "fill-dim")
        for place, link in enumerate(self._links):
            self._link(link, TOP + place * ROW)
        if len(self._answer["links"]) > len(self._links):
            more = self._answer["links_total"] - len(self._links)
            drawing.text(16, TOP + len(self._links) * ROW + 14, f"and {more} links with less", "fill-dim", SMALL)
        if self._groups:
            drawing.text(16, self._groups_y - 8, "links to choose among, the least even first: mean over busiest",
                         "fill-text strong")  # fmt: skip
        for place, group in enumerate(self._groups):
            self._group(group, self._groups_y + place * ROW)
        self._legend()
        return drawing.svg()

    def _summary(self) -> str:
        answer = self._answer
        window_s = f"{answer['window_ns'] / 1e9:g} s" if answer["window_ns"] else "no window"
        carried = sum(flow["bytes"] for flow in answer["flows"])
        nobody = answer["unowned"]
        also = f" · {nobody['flows']} flows without an owner, {size(nobody['bytes'])}" if nobody["flows"] else ""
        return f"{window_s} to {self._when} · {counted({'flow': answer['flows_total']})}, {size(carried)}{also}"

    def _link(self, link: Mapping[str, Any], y: float) -> None:
        drawing = self._drawing
        name = link["link"].removeprefix("link:").replace("~", " ~ ")
        others = ", ".join(job for job in link["jobs"] if job not in (self._answer["job"], NOBODY))
        drawing.begin(f"{link['link']}: {link['jobs']}", link=link["link"])
        drawing.text(16, y + 12, shortened(name, NAMES - 24))
        x = NAMES
        for job in sorted(link["jobs"], key=self._place):
            width = link["jobs"][job] * self._scale
            place = self._place(job)
            drawing.rect(x, y + 2, width, BAR, f"fill-job{place}", 0)
            letter = "ABCD*"[place]
            if width > 14:
                drawing.text(x + width / 2, y + 12, letter, "fill-surface", SMALL, "middle")
            x += width
        low, high = NAMES + link["low"] * self._scale, NAMES + link["high"] * self._scale
        drawing.line([(low, y + 5), (low, y + BAR - 1)], "stroke-text", 1)
        drawing.line([(low, y + 2 + BAR / 2), (high, y + 2 + BAR / 2)], "stroke-text", 1)
        drawing.line([(high, y + 5), (high, y + BAR - 1)], "stroke-text", 1)
        shared = f"shared: {others}" if others else ""
        if link.get("others"):
            shared = f"{shared} +{link['others']} of another tenant".strip()
        drawing.text(high + 10, y + 12, shortened(f"{size(link['bytes'])} {shared}", WIDTH - high - 26, SMALL),
                     "fill-text", SMALL)  # fmt: skip
        drawing.end()

    def _group(self, group: Mapping[str, Any], y: float) -> None:
        drawing = self._drawing
        drawing.begin(f"{group['switch']} {group['group']}", group=group["group"])
        drawing.text(16, y + 12, shortened(f"{group['switch']}: {ranges(group['group'].split(','), 4)}", NAMES - 24))
        width = 160.0
        drawing.rect(NAMES, y + 2, width, BAR, "fill-box stroke-rule", 0)
        drawing.rect(NAMES, y + 2, width * min(max(group["efficiency"], 0.0), 1.0), BAR, "fill-dim", 0)
        words = f"{group['efficiency']:.2f}"
        if group["colliding"]:
            words += f" · {len(group['colliding'])} flows of {', '.join(group['jobs']) or 'nobody'} collide"
        busiest = group["busiest"].removeprefix("link:").replace("~", " ~ ")
        words += f" · {size(group['busiest_bytes'])} of {size(group['bytes'])} on {busiest}"
        drawing.text(
            NAMES + width + 10, y + 12, shortened(words, WIDTH - NAMES - width - 26, SMALL), "fill-text", SMALL
        )
        drawing.end()

    def _legend(self) -> None:
        drawing, y, x = self._drawing, self._drawing.height - 34, 16.0
        named = [*self._jobs, *(["others or unowned"] if any(self._place(job) == JOBS for link in self._links
                                                               for job in link["jobs"]) else [])]  # fmt: skip
        for job in named:
            place = self._place(job)
            words = shortened(f"{'ABCD*'[place]}  {job}", 200)
            drawing.rect(x, y - 9, 18, BAR, f"fill-job{place}", 0)
            drawing.text(x + 24, y + 1, words)
            x += 24 + text_width(words) + 26
        drawing.text(16, y + 20, "thin line: 95 % interval of the sum", "fill-dim", SMALL)
