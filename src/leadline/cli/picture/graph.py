"""The picture of `leadline show graph`: what a job stands on, in layers, and what it shares with others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.cli.output import size
from leadline.cli.picture.folding import Box, Folded, Line, Whole, folded, job_name, merged, ordered, shown_name
from leadline.cli.picture.svg import DASHES, JOBS, SMALL, Drawing, shortened, text_width
from leadline.cli.ranges import counted

LEFT, RIGHT, TOP = 104.0, 20.0, 84.0
PITCH, BOX = 92.0, 36.0  # px from row to row, and of a box
WIDTH_MIN, WIDTH_MAX = 900.0, 1480.0
SLOT, BOX_MAX = 84.0, 150.0
SIDE = 150.0  # for storage, beside the ports
STROKE_MAX = 7.0
BYTES_TOLD_MAX = 24  # lines with bytes: of more the thick ones would hide the others
NAMED = 20  # names in the text of a box that the pointer shows
NOTES = 4

KINDS = ("rank", "gpu", "host", "port", "switch", "storage")
ROW_NAMES = {0: "jobs", 1: "ranks", 2: "GPUs", 3: "hosts", 4: "NIC ports", 5: "leaf", 6: "spine", 7: "super-spine"}


def graph_picture(answers: Sequence[Mapping[str, Any]], when: str) -> str:
    """The SVG of answers of `/api/v1/graph`: the first is the one asked for, others tell of jobs that share with it."""
    whole = merged(answers)
    return _Picture(whole, ordered(folded(whole)), answers[0], when).svg()


class _Picture:
    """One picture: places of the boxes first, then lines, then boxes over them."""

    def __init__(self, whole: Whole, graph: Folded, answer: Mapping[str, Any], when: str) -> None:
        self._whole, self._graph, self._answer = whole, graph, answer
        self._letter = {job: place for place, job in enumerate(whole.jobs)}
        self._side = [number for number, box in enumerate(graph.boxes) if box.kind == "storage"]
        self._rows = {
            layer: kept
            for layer, row in graph.rows.items()
            if (kept := [each for each in row if each not in self._side])
        }
        widest = max((len(row) for row in self._rows.values()), default=1)
        side = SIDE if self._side else 0.0
        self._width = min(max(LEFT + RIGHT + widest * SLOT + side, WIDTH_MIN), max(WIDTH_MAX, widest * 70.0 + 300))
        self._right = self._width - RIGHT - side
        self._at: dict[int, tuple[float, float, float]] = {}  # box: middle x, top y, width
        self._row_y: dict[int, float] = {}
        self._place()
        self._notes = self._told_notes()
        bottom = TOP + PITCH * max(len(self._row_y), 1)
        height = bottom + 26 + 18 * (len(self._notes) + 1 + (len(self._legend_jobs()) + 3) // 4)
        self._bottom = bottom
        self._drawing = Drawing(self._width, math.ceil(height), self._title(when))

    def _place(self) -> None:
        layers = sorted({*self._rows, *(self._graph.boxes[each].layer for each in self._side)})
        for row_number, layer in enumerate(layers):
            y = TOP + row_number * PITCH
            self._row_y[layer] = y
            row = self._rows.get(layer, [])
            slot = (self._right - LEFT) / max(len(row), 1)
            for place, number in enumerate(row):
                width = min(slot - 8, BOX_MAX, max(56.0, self._wanted(self._graph.boxes[number])))
                self._at[number] = (LEFT + (place + 0.5) * slot, y, width)
        for place, number in enumerate(self._side):
            y = self._row_y[self._graph.boxes[number].layer] + place * (BOX + 10)
            self._at[number] = (self._width - RIGHT - SIDE / 2 + 8, y, SIDE - 24)

    def _wanted(self, box: Box) -> float:
        return max(text_width(box.label), text_width(self._below(box), SMALL)) + 14

    def svg(self) -> str:
        drawing = self._drawing
        what = self._answer.get("of") or f"job {job_name(self._answer['job'])}"
        drawing.text(16, 30, shortened(f"What {what} depends on", self._width - 32, 17), "fill-text strong", 17)
        drawing.text(16, 52, shortened(self._summary(), self._width - 32), "fill-dim")
        for layer, y in self._row_y.items():
            drawing.line([(16, y + BOX + (PITCH - BOX) / 2), (self._width - 16, y + BOX + (PITCH - BOX) / 2)],
                         "stroke-rule pale", 0.5)  # fmt: skip
            drawing.text(16, y + BOX / 2 + 4, ROW_NAMES.get(layer, f"tier {layer - 4}"), "fill-dim")
        told = [line.bytes for line in self._graph.lines if line.bytes]
        self._most = max(told, default=0.0)
        self._stroke_max = STROKE_MAX if len(told) <= BYTES_TOLD_MAX else STROKE_MAX / 2
        for line in self._graph.lines:
            self._line(line)
        for number, box in enumerate(self._graph.boxes):
            self._box(number, box)
        self._legend()
        return drawing.svg()

    # -- what stands where it stands -----------------------------------------------------------------------

    def _title(self, when: str) -> str:
        self._when = when
        return f"What {self._answer.get('of') or self._answer.get('job')} depends on, {when}"

    def _summary(self) -> str:
        counts = Counter(node["kind"] for node in self._answer["nodes"])
        shared = Counter(each["kind"] for each in self._answer["shared"])
        also = f" · shared with other jobs: {counted(shared)}" if shared else ""
        return f"{self._when} · {counted({kind: counts[kind] for kind in KINDS if counts[kind]})}{also}"

    def _below(self, box: Box) -> str:
        """The second line of a box."""
        letters = " ".join(_letter(self._letter[job]) for job in sorted(box.jobs, key=self._letter.__getitem__)[:JOBS])
        more = f" +{len(box.jobs) - JOBS}" if len(box.jobs) > JOBS else ""
        count = f"{len(box.members):,}  " if len(box.members) > 1 and box.kind not in ("gpu", "port") else ""
        return f"{count}{letters}{more}"

    def _line(self, line: Line) -> None:
        x0, y0, _ = self._at[line.upper]
        x1, y1, _ = self._at[line.lower]
        begin, end = (x0, y0 + BOX), (x1, y1)
        wide = 1.2 if not line.bytes else 1.0 + (self._stroke_max - 1.0) * math.sqrt(line.bytes / self._most)
        self._drawing.begin(self._line_title(line), line=f"{line.edges}", jobs=len(line.jobs))
        jobs = sorted(line.jobs, key=self._letter.__getitem__)[:3]
        for number, job in enumerate(jobs or [""]):
            place = min(self._letter.get(job, JOBS), JOBS)
            stroke = max(1.2, wide / max(len(jobs), 1))
            aside = (number - (len(jobs) - 1) / 2) * (stroke + 1.6) if jobs else 0.0
            colour = f"stroke-job{place}" if job else "stroke-rule"
            dashes = DASHES[place] if job else ""
            if line.lower in self._side:
                self._drawing.line(self._bus(line, place), colour, stroke, dashes)
            elif y1 == y0:
                points = [(x0, y0 + BOX), ((x0 + x1) / 2, y0 + BOX + 14 + aside), (x1, y1 + BOX)]
                self._drawing.line(points, colour, stroke, dashes)
            else:
                ends = (begin[0] + aside, begin[1]), (end[0] + aside, end[1])
                self._drawing.curve(*ends, colour, stroke, dashes)
        self._drawing.end()

    def _bus(self, line: Line, place: int) -> list[tuple[float, float]]:
        """The way to what stands at the side: over the row of boxes, and down beside it, so that it crosses none."""
        x0, y0, width0 = self._at[line.upper]
        x1, y1, width1 = self._at[line.lower]
        over, beside = y0 - 8 - 4 * place, self._right + 6 + 4 * place
        return [(x0 + width0 / 2 - 8, y0), (x0 + width0 / 2 - 8, over), (beside, over),
                (beside, y1 + BOX / 2), (x1 - width1 / 2, y1 + BOX / 2)]  # fmt: skip

    def _line_title(self, line: Line) -> str:
        upper, lower = self._graph.boxes[line.upper], self._graph.boxes[line.lower]
        what = f"{len(line.links)} links" if len(line.links) > 1 else (line.links or [f"{line.edges} relations"])[0]
        carried = f", {size(line.bytes)} in the window" if line.bytes is not None else ""
        return f"{upper.label} - {lower.label}: {what}{carried}; {', '.join(sorted(line.jobs)) or 'no job reported'}"

    def _box(self, number: int, box: Box) -> None:
        x, y, width = self._at[number]
        drawing = self._drawing
        drawing.begin(self._box_title(box), kind=box.kind, layer=box.layer, count=len(box.members))
        jobs = sorted(box.jobs, key=self._letter.__getitem__)
        colour = f"stroke-job{min(self._letter[jobs[0]], JOBS)}" if len(jobs) == 1 else "stroke-text"
        drawing.rect(x - width / 2, y, width, BOX, f"fill-box line-box {colour if jobs else 'stroke-rule'}")
        if len(jobs) > 1:  # shared: a second outline, so that colour is not needed to see it
            drawing.rect(x - width / 2 + 3, y + 3, width - 6, BOX - 6, "fill-box stroke-text", 2)
        mark = "! " if box.conflict else ""
        drawing.text(x, y + 16, shortened(mark + box.label, width - 8), "fill-bad" if mark else "fill-text",
                     anchor="middle")  # fmt: skip
        drawing.text(x, y + 29, shortened(self._below(box), width - 8, SMALL), "fill-dim", SMALL, "middle")
        drawing.end()

    def _box_title(self, box: Box) -> str:
        names = ", ".join(shown_name(entity) for entity in box.members[:NAMED])
        more = f" and {len(box.members) - NAMED} more" if len(box.members) > NAMED else ""
        conflict = "; sources contradict each other" if box.conflict else ""
        return f"{box.kind} {names}{more}; {', '.join(sorted(box.jobs)) or 'no job'}{conflict}"

    # -- below the picture ---------------------------------------------------------------------------------

    def _legend_jobs(self) -> list[str]:
        return self._whole.jobs[: JOBS + 1]

    def _legend(self) -> None:
        drawing, y = self._drawing, self._bottom + 8
        column = (self._width - 32) / 4
        jobs = self._legend_jobs()
        for place, job in enumerate(jobs):
            x = 16 + place % 4 * column
            row_y = y + place // 4 * 18
            drawing.line([(x, row_y), (x + 34, row_y)], f"stroke-job{min(place, JOBS)}", 2.4, DASHES[min(place, JOBS)])
            rest = len(self._whole.jobs) - JOBS
            words = f"{_letter(place)}  {job}" if place < JOBS or rest == 1 else f"{rest} more jobs"
            drawing.text(x + 42, row_y + 4, shortened(words, column - 54))
        y += 18 * ((len(jobs) + 3) // 4)
        drawing.text(16, y + 4, "double outline, parallel lines: shared by jobs · !: sources contradict each other · "
                     "width of a link: its bytes, where they are known", "fill-dim", SMALL)  # fmt: skip
        for note in self._notes:
            y += 18
            drawing.text(16, y + 4, shortened(note, self._width - 32), "fill-dim")

    def _told_notes(self) -> list[str]:
        notes = [self._answer["note"]] if self._answer.get("note") else []
        notes += [f"not known: {text}" for text in self._whole.missing]
        if self._whole.left_out:
            told = ", ".join(f"{count} {kind}" for kind, count in self._whole.left_out.items())
            notes.append(f"not drawn: {told}")
        if len(notes) > NOTES:
            notes = [*notes[: NOTES - 1], f"... and {len(notes) - NOTES + 1} more; see --output json"]
        return notes


def _letter(place: int) -> str:
    """A, B, C, D; * for all others."""
    return "ABCD"[place] if place < JOBS else "*"
