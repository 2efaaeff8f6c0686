"""The picture of `leadline diagnose`: the costliest incident on a line of time, its evidence, what else was considered.

                  first lost second    told
symptom                  |███████████████|████████
port:h3/eth0    ────────────────────────────────      since its own onset
  1  link-down       ◆
  2  late               ◇                             ◇: the clocks do not tell which came first
host:h6  0.04   ▏                                     considered, and not it
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.cli.diagnosis.words import chance, counting, piece_words, state_line, sure, why_not
from leadline.cli.output import when
from leadline.cli.picture.svg import SMALL, Drawing, shortened
from leadline.cli.words.ledger import span
from leadline.model.units import gpu_time

WIDTH, LEFT, TOP, ROW = 1280.0, 270.0, 108.0, 24.0
EVIDENCE_MAX, CONSIDERED_MAX, CAUSES_MAX = 6, 5, 4
TEXT_X = 760.0  # sentences of evidence begin here, right of the time line
BEFORE_S_MIN = 2.0  # of time is drawn before the first lost second, at least
LEGEND = "hollow: clocks too inaccurate to order it against the first lost second"
MARGIN = 1.08  # of time is drawn around what is shown


def diagnosis_picture(answer: Mapping[str, Any], at: str) -> str:
    """The SVG of an answer of `/api/v1/diagnosis`; `at` says of when it is."""
    now, over = counting(answer)
    some = [*now, *over][:1]
    if not some:
        drawing = Drawing(WIDTH, 80, f"Diagnosis, {at}")
        drawing.text(16, 30, shortened(state_line(answer), WIDTH - 32, 17), "fill-text strong", 17)
        drawing.text(16, 54, at, "fill-dim")
        return drawing.svg()
    return _Picture(answer, some[0], at).svg()


class _Picture:
    def __init__(self, answer: Mapping[str, Any], one: Mapping[str, Any], at: str) -> None:
        self._answer, self._one, self._at = answer, one, at
        self._causes: Sequence[Mapping[str, Any]] = one["causes"][:CAUSES_MAX]
        self._considered: Sequence[Mapping[str, Any]] = one["considered"][:CONSIDERED_MAX]
        self._until_ns = one["end_ns"] or one["seen_ns"]
        rows = 1 + sum(1 + len(each["evidence"][:EVIDENCE_MAX]) for each in self._causes) + len(self._considered)
        height = TOP + ROW * (rows + 1 + bool(self._considered)) + 60
        self._drawing = Drawing(WIDTH, math.ceil(height), f"Diagnosis of {answer['about'] or 'every job'}, {at}")
        times = [piece["after_s"] for each in self._causes for piece in each["evidence"][:EVIDENCE_MAX]]
        times += [(each["start_ns"] - one["start_ns"]) / 1e9 for each in self._causes]
        known: list[float] = [each for each in times if each is not None]
        self._from_s: float = MARGIN * min([-BEFORE_S_MIN, *known])
        self._to_s: float = MARGIN * max([1.0, (self._until_ns - one["start_ns"]) / 1e9, *known])

    def _x(self, after_s: float) -> float:
        return LEFT + (TEXT_X - 20 - LEFT) * (after_s - self._from_s) / (self._to_s - self._from_s)

    def svg(self) -> str:
        drawing, one = self._drawing, self._one
        drawing.text(16, 30, shortened(state_line(self._answer), WIDTH - 32, 17), "fill-text strong", 17)
        lasted = f"lasts {span((self._until_ns - one['start_ns']) / 1e9)}"
        words = (
            f"{one['incident']} · first lost second {when(one['start_ns'])} · {lasted} · {self._lost()} · {self._at}"
        )
        drawing.text(16, 52, shortened(words, WIDTH - 32), "fill-dim")
        self._times()
        y = TOP
        self._band(y, 0.0, (self._until_ns - one["start_ns"]) / 1e9, f"{one['job'] or one['entity']} {one['symptom']}",
                   "fill-bad")  # fmt: skip
        y += ROW
        for each in self._causes:
            y = self._cause(each, y)
        if self._considered:
            drawing.text(16, y + 30, "considered, and not it", "fill-text strong")
            y += ROW
        for each in self._considered:
            y += ROW
            self._other(each, y)
        drawing.text(16, drawing.height - 16, LEGEND, "fill-dim", SMALL)
        return drawing.svg()

    def _times(self) -> None:
        """Upright lines at the first lost second and where it was told; the end of the line of time."""
        drawing = self._drawing
        bottom = TOP + ROW * (1 + sum(1 + len(each["evidence"][:EVIDENCE_MAX]) for each in self._causes))
        reported = f"reported, {self._told_s():.1f} s"
        for after_s, name, dashes in ((0.0, "first lost second", ""), (self._told_s(), reported, "3 3")):
            drawing.line([(self._x(after_s), TOP - 18), (self._x(after_s), bottom)], "stroke-text", 1, dashes)
            drawing.text(self._x(after_s), TOP - 22, name, "fill-dim", SMALL, "end" if after_s == 0 else "start")
        end_s = (self._until_ns - self._one["start_ns"]) / 1e9
        if self._x(end_s) - self._x(self._told_s()) > 120:  # else they would write over each other
            drawing.text(self._x(end_s), TOP - 22, f"{end_s:.0f} s", "fill-dim", SMALL, "end")

    def _told_s(self) -> float:
        return float((self._one["reported_ns"] - self._one["start_ns"]) / 1e9)

    def _lost(self) -> str:
        return f"lost {gpu_time(self._one['lost_gpu_seconds'])}"

    def _band(self, y: float, from_s: float, to_s: float, name: str, kind: str) -> None:
        x = self._x(max(from_s, self._from_s))
        self._drawing.text(16, y + 13, shortened(name, LEFT - 32), "fill-text strong")
        self._drawing.rect(x, y + 3, max(2.0, self._x(min(to_s, self._to_s)) - x), 12, kind, 2)

    def _cause(self, cause: Mapping[str, Any], y: float) -> float:
        """A cause with its evidence; the y below it."""
        drawing = self._drawing
        drawing.begin(cause["text"], entity=cause["entity"])
        onset_s = (cause["start_ns"] - self._one["start_ns"]) / 1e9
        until_s = (self._until_ns - self._one["start_ns"]) / 1e9
        self._band(y, onset_s, max(until_s, onset_s), cause["entity"], "fill-job1")
        words = f"{cause['rule'].replace('-', ' ')}, {sure(cause)}; {cause['action']}"
        drawing.text(TEXT_X, y + 13, shortened(words, WIDTH - TEXT_X - 16), "fill-text strong")
        for place, piece in enumerate(cause["evidence"][:EVIDENCE_MAX], 1):
            y += ROW
            self._piece(piece, place, y, cause["entity"])
        drawing.end()
        return y + ROW

    def _piece(self, piece: Mapping[str, Any], place: int, y: float, of: str) -> None:
        drawing = self._drawing
        what = f"{place}  {piece['what'] or piece['table']}"
        drawing.text(32, y + 13, shortened(what, LEFT - 48), "fill-dim")
        if piece["after_s"] is not None:
            kind = "fill-surface stroke-text" if piece["order"] == "unknown" else "fill-text"
            drawing.rect(self._x(piece["after_s"]) - 4, y + 5, 8, 8, kind, 4)
        drawing.text(TEXT_X, y + 13, shortened(piece_words(piece, of), WIDTH - TEXT_X - 16, SMALL), "fill-text", SMALL)

    def _other(self, cause: Mapping[str, Any], y: float) -> None:
        """What was considered: how likely it is, and why it is not it."""
        drawing = self._drawing
        drawing.text(16, y + 13, shortened(cause["entity"], LEFT - 32))
        drawing.rect(LEFT, y + 3, max(1.0, 200 * cause["probability"]), 12, "fill-job4", 0)
        words = f"{chance(cause)}  {why_not(cause)}"
        drawing.text(LEFT + 210, y + 13, shortened(words, WIDTH - LEFT - 226, SMALL), "fill-dim", SMALL)
