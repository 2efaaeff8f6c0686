"""The picture of `leadline show ledger`: bands of categories over time, what of them was lost, who costs most."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leadline.cli.picture.svg import SMALL, Drawing, shortened, text_width
from leadline.cli.words.ledger import CATEGORY_WORDS, money, owner_words, share, span
from leadline.model.units import gpu_time

WIDTH, LEFT, RIGHT = 1280.0, 72.0, 24.0
TOP, BANDS, LOST, ROW = 118.0, 220.0, 110.0, 24.0
OWNERS_MAX = 8
# From the ground up, useful time first; unknown is hatched: order tells them apart, too.
FILLS: Mapping[str, str] = {
    **{name: f"fill-took-{name}" for name in
       ("compute", "communication", "input", "straggler", "checkpoint", "restart", "idle")},
    "unknown": "hatched",
}  # fmt: skip
OTHER = "fill-job4"
MISSING = "fill-box stroke-rule"


def ledger_picture(answer: Mapping[str, Any], when: Callable[[int | None], str]) -> str:
    """The SVG of an answer of `/api/v1/ledger`; `when` words a time."""
    return _Picture(answer, when).svg()


class _Picture:
    def __init__(self, answer: Mapping[str, Any], when: Callable[[int | None], str]) -> None:
        self._answer, self._when = answer, when
        self._bins: Sequence[Mapping[str, Any]] = answer["timeline"]
        self._owners = [owner for owner in answer["owners"] if owner["lost_gpu_seconds"] > 0][:OWNERS_MAX]
        self._lost_y = TOP + BANDS + 62
        self._owners_y = self._lost_y + LOST + 66
        height = self._owners_y + ROW * max(1, len(self._owners)) + 24 if self._bins else TOP + 40
        self._drawing = Drawing(WIDTH, math.ceil(height), f"Ledger of {answer['job']}")
        self._scale = (WIDTH - LEFT - RIGHT) / max(1, (answer["to_ns"] or 0) - (answer["from_ns"] or 0))

    def svg(self) -> str:
        drawing, answer = self._drawing, self._answer
        drawing.text(16, 30, shortened(f"Where the time of job {answer['job']} went", WIDTH - 32, 17),
                     "fill-text strong", 17)  # fmt: skip
        if not self._bins:
            drawing.text(16, 56, shortened(answer["why"] or "no data", WIDTH - 32), "fill-dim")
            return drawing.svg()
        drawing.text(16, 52, shortened(self._summary(), WIDTH - 32), "fill-dim")
        self._legend()
        self._chart(TOP, BANDS, "seconds", 1.0, "share of time")
        most = max((self._share(one, sum(one["lost"].values())) for one in self._bins), default=0.0)
        top = _round_up(most)
        drawing.text(16, self._lost_y - 12, "of it lost: what a run without trouble would not have taken",
                     "fill-text strong")  # fmt: skip
        self._chart(self._lost_y, LOST, "lost", top, "share of time")
        self._costs()
        return drawing.svg()

    def _summary(self) -> str:
        answer, cost = self._answer, self._answer["cost"]
        length_s = (answer["to_ns"] - answer["from_ns"]) / 1e9
        lost = f"lost {gpu_time(answer['total']['lost_gpu_seconds'])}"
        if cost["lost"] is not None:
            lost += f", {money(cost['lost'], cost['currency'])}"
        return (
            f"{span(length_s)} to {self._when(answer['to_ns'])} · {answer['gpus']:.3g} GPUs · "
            f"goodput {share(answer['goodput']['ratio'])} · {lost} · ETTR {share(answer['ettr']['ratio'])}"
        )

    def _present(self) -> list[str]:
        told = {name for one in self._bins for name in one["seconds"]}
        return [*(name for name in FILLS if name in told), *sorted(told - FILLS.keys())]

    def _legend(self) -> None:
        drawing, x, y = self._drawing, 16.0, 82.0
        names = self._present() + (["missing"] if self._answer["missing"]["windows"] else [])
        for name in names:
            words = CATEGORY_WORDS.get(name, name)
            drawing.rect(x, y - 10, 18, 12, MISSING if name == "missing" else FILLS.get(name, OTHER), 0)
            drawing.text(x + 24, y, words)
            x += 24 + text_width(words) + 20

    @staticmethod
    def _share(one: Mapping[str, Any], seconds: float) -> float:
        length_s: float = (one["to_ns"] - one["from_ns"]) / 1e9
        return seconds / length_s

    def _x(self, time_ns: int) -> float:
        begin_ns: int = self._answer["from_ns"]
        return LEFT + (time_ns - begin_ns) * self._scale

    def _chart(self, y: float, height: float, what: str, top: float, label: str) -> None:
        """Stacked bands, bin by bin; the axis goes to `top` of the time."""
        drawing = self._drawing
        for part in (0.0, 0.5, 1.0):
            at = y + height * (1 - part)
            drawing.line([(LEFT, at), (WIDTH - RIGHT, at)], "stroke-rule", 1)
            drawing.text(LEFT - 8, at + 4, f"{100 * part * top:.3g} %", "fill-dim", SMALL, "end")
        for name in self._present():
            drawing.begin(f"{CATEGORY_WORDS.get(name, name)}, {label}", category=name)
            for one in self._bins:
                self._band(one, what, name, y, height, top)
            drawing.end()
        if what == "seconds":
            for one in self._bins:
                self._missing(one, y, height)
        self._times(y + height + 18)

    def _band(self, one: Mapping[str, Any], what: str, name: str, y: float, height: float, top: float) -> None:
        """One band of one bin, on those below it. Bins touch: half a pixel more hides the seams."""
        below = 0.0
        for other in self._present():
            if other == name:
                break
            below += one[what].get(other, 0.0)
        tall = self._share(one, one[what].get(name, 0.0)) / top * height
        if tall <= 0.05:
            return
        ground = y + height - self._share(one, below) / top * height
        left, right = self._x(one["from_ns"]), self._x(one["to_ns"])
        self._drawing.rect(left, ground - tall, right - left + 0.3, tall, FILLS.get(name, OTHER), 0)

    def _missing(self, one: Mapping[str, Any], y: float, height: float) -> None:
        tall = self._share(one, one["missing"]) * height
        if tall > 0.5:
            left, right = self._x(one["from_ns"]), self._x(one["to_ns"])
            self._drawing.rect(left, y, right - left, tall, MISSING, 0)

    def _times(self, y: float) -> None:
        begin_ns, end_ns = self._answer["from_ns"], self._answer["to_ns"]
        for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
            at_ns = begin_ns + round((end_ns - begin_ns) * part)
            words = self._when(at_ns)
            self._drawing.text(self._x(at_ns), y, words if part == 0 else words[11:], "fill-dim", SMALL, anchor)

    def _costs(self) -> None:
        drawing, y = self._drawing, self._owners_y
        drawing.text(16, y - 12, "who costs most", "fill-text strong")
        if not self._owners:
            drawing.text(16, y + 14, "nothing was lost, as far as it is known", "fill-dim")
        most = max((owner["lost_gpu_seconds"] for owner in self._owners), default=1.0)
        for place, owner in enumerate(self._owners):
            at = y + place * ROW
            name = f"{_who(owner, self._answer['hosts'])}, {CATEGORY_WORDS.get(owner['category'], owner['category'])}"
            drawing.begin(f"{owner['owner']}: {gpu_time(owner['lost_gpu_seconds'])}", owner=owner["owner"] or "")
            drawing.text(16, at + 13, shortened(name, 384))
            width = owner["lost_gpu_seconds"] / most * (WIDTH - 410 - 330)
            drawing.rect(410, at + 3, max(width, 1.0), 12, FILLS.get(owner["category"], OTHER), 0)
            words = f"{gpu_time(owner['lost_gpu_seconds'])} since {self._when(owner['lost_since_ns'])[11:]}"
            if owner["lost_cost"] is not None:
                words += f" · {money(owner['lost_cost'], self._answer['cost']['currency'])}"
            drawing.text(420 + max(width, 1.0), at + 13, shortened(words, 310, SMALL), "fill-text", SMALL)
            drawing.end()


def _who(owner: Mapping[str, Any], hosts: Mapping[str, str]) -> str:
    """An owner, with its host where it is a rank whose host is told."""
    host = hosts.get(owner["owner"] or "", "").removeprefix("host:")
    return f"{owner_words(owner)} ({host})" if host else owner_words(owner)


def _round_up(ratio: float) -> float:
    """The end of an axis that holds a ratio: 1, 2 or 5 times a power of ten; 0.01 for nothing."""
    if ratio <= 0:
        return 0.01
    power = 10.0 ** math.floor(math.log10(ratio))
    return min(1.0, next(step * power for step in (1, 2, 5, 10) if step * power >= ratio * (1 - 1e-9)))
