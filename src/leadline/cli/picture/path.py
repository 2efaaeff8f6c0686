"""The picture of `leadline show path`: two hosts, what lies between them, the ways their flows take."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.cli.picture.svg import SMALL, Drawing, shortened, text_width
from leadline.cli.ranges import counted, natural, ranges
from leadline.cli.words.flows import bytes_words, nodes_along, path_words, percent, rank_words, tuple_words
from leadline.model.ids import EntityId, name_of

WIDTH, TOP, BOX_WIDTH, BOX = 1280.0, 92.0, 108.0, 34.0
STEP = 62.0  # px from one switch of a column to the next
SIDE = 24.0
COLUMN_MAX = 10  # switches of a column one by one; those that no flow crosses are told together beyond that
NOTES_MAX = 8
MEAN_PROBABILITY = 0.01  # an alternative below it is not drawn


@dataclass(frozen=True, slots=True)
class Way:
    """One hop of one alternative of a flow, from node to node by name."""

    begin: str
    end: str
    there: bool  # from a to b
    alternative: int
    probability: float
    main: bool  # of the direction's largest flow: its probabilities are written


def path_picture(answer: Mapping[str, Any], when: str) -> str:
    """The SVG of an answer of `/api/v1/path`."""
    return _Picture(answer, when).svg()


def ways_of(answer: Mapping[str, Any]) -> list[Way]:
    """All hops of all flows; each alternative of a flow whose links are a chain."""
    ways = []
    seen: set[bool] = set()
    for flow in sorted(answer["flows"], key=lambda each: -each["bytes"]):
        there = flow["src_rank"] is not None and rank_words(flow["src_rank"]) == rank_words(answer["a"])
        main = there not in seen
        for path in flow["paths"]:
            nodes = nodes_along([hop["link"] for hop in path["hops"]])
            if nodes and _backwards(nodes, flow):
                nodes.reverse()
            for begin, end, hop in zip(nodes, nodes[1:], path["hops"], strict=False):
                ways.append(Way(begin, end, there, path["alternative"], hop["probability"], main))
            if nodes:
                seen.add(there)
    return [way for way in ways if not way.alternative or way.probability >= MEAN_PROBABILITY]


def _backwards(nodes: Sequence[str], flow: Mapping[str, Any]) -> bool:
    """Whether a single link was read from its other end: a path begins at the sender."""
    src = EntityId.of(flow.get("src") or "").first
    return bool(src) and nodes[0] != src and nodes[-1] == src


def columns_of(answer: Mapping[str, Any], ways: Sequence[Way]) -> list[list[str]]:
    """Nodes by their distance from the first host: by the topology where it is known, else by the paths themselves."""
    place: dict[str, int] = {}
    for link in answer["possible"]["links"]:
        place.setdefault(name_of(link["from"]), link["hop"])
        end = name_of(link["to"])
        place[end] = max(place.get(end, 0), link["hop"] + 1)
    pairs = [(way.begin, way.end) if way.there else (way.end, way.begin) for way in ways]
    reached = {end for _, end in pairs}
    for begin, _ in pairs:
        if not place or begin not in reached:
            place.setdefault(begin, 0)
    for _ in range(len(pairs)):  # what is not on a shortest path stands behind what leads to it
        for begin, end in pairs:
            if begin in place:
                place.setdefault(end, place[begin] + 1)
    for node in (node for pair in pairs for node in pair):
        place.setdefault(node, 0)  # a loop that nothing leads to
    columns: dict[int, list[str]] = defaultdict(list)
    for node, column in place.items():
        columns[column].append(node)
    return [sorted(columns[column], key=natural) for column in sorted(columns)]


class _Picture:
    def __init__(self, answer: Mapping[str, Any], when: str) -> None:
        self._answer, self._when = answer, when
        self._ways = ways_of(answer)
        self._taken = {node for way in self._ways for node in (way.begin, way.end)}
        self._at: dict[str, tuple[float, float]] = {}
        self._folded: dict[str, list[str]] = {}  # first of the folded: all of them
        columns = [self._short(column) for column in columns_of(answer, self._ways)]
        tallest = max((len(column) for column in columns), default=1)
        self._height = tallest * STEP
        for number, column in enumerate(columns):
            x = SIDE + BOX_WIDTH / 2 + number * (WIDTH - 2 * SIDE - BOX_WIDTH) / max(len(columns) - 1, 1)
            for place, node in enumerate(column):
                y = TOP + (self._height - len(column) * STEP) / 2 + place * STEP + 14
                for each in self._folded.get(node, [node]):
                    self._at[each] = (x, y)
        self._columns = columns
        self._notes = self._told()
        height = TOP + self._height + 44 + 18 * len(self._notes) + 12
        self._drawing = Drawing(WIDTH, math.ceil(height), f"Paths between {answer['a']} and {answer['b']}, {when}")

    def _short(self, column: list[str]) -> list[str]:
        """A column that fits: switches that no flow crosses become one box."""
        idle = [node for node in column if node not in self._taken]
        if len(column) <= COLUMN_MAX or len(idle) < 2:
            return column
        self._folded[idle[0]] = idle
        return [node for node in column if node in self._taken] + [idle[0]]

    def svg(self) -> str:
        drawing, answer = self._drawing, self._answer
        title = f"Paths between {rank_words(answer['a'])} and {rank_words(answer['b'])}"
        drawing.text(16, 30, shortened(title, WIDTH - 32, 17), "fill-text strong", 17)
        drawing.text(16, 52, shortened(self._summary(), WIDTH - 32), "fill-dim")
        self._possible()
        for way in sorted(self._ways, key=lambda each: (each.main, -each.alternative, each.there)):
            self._way(way)
        for way in self._ways:
            self._probability(way)
        for column in self._columns:
            for node in column:
                self._box(node)
        self._legend()
        return drawing.svg()

    def _summary(self) -> str:
        possible = self._answer["possible"]
        said = {True: "there and back differ", False: "there and back are the same"}
        parts = [self._when, counted({"flow": len(self._answer["flows"])})]
        if possible["paths"]:
            parts.append(f"{possible['paths']:,} equally short paths of {possible['hops']} hops")
        if self._answer["asymmetric"] is not None:
            parts.append(said[self._answer["asymmetric"]])
        return " · ".join(parts)

    def _possible(self) -> None:
        drawn = set()
        for link in self._answer["possible"]["links"]:
            ends = self._at[name_of(link["from"])], self._at[name_of(link["to"])]
            if ends not in drawn:
                drawn.add(ends)
                self._drawing.curve(_right(ends[0]), _left(ends[1]), "stroke-rule", 1.0, upright=False)

    def _ends(self, way: Way) -> tuple[tuple[float, float], tuple[float, float]]:
        """Where a way begins and ends, from left to right; ways there lie above those back."""
        left, right = (way.begin, way.end) if way.there else (way.end, way.begin)
        aside = -4 if way.there else 4
        (x0, y0), (x1, y1) = self._at[left], self._at[right]
        if x0 == x1:
            return (x0, y0 + aside), (x1, y1 + aside)
        if x0 > x1:
            (x0, y0), (x1, y1) = (x1, y1), (x0, y0)
        begin, end = _right((x0, y0)), _left((x1, y1))
        return (begin[0], begin[1] + aside), (end[0], end[1] + aside)

    def _way(self, way: Way) -> None:
        begin, end = self._ends(way)
        width = 3.0 if way.main and not way.alternative else 1.4
        words = f"{way.begin} to {way.end}: {percent(way.probability)}, alternative {way.alternative}"
        self._drawing.begin(words, hop=f"{way.begin}>{way.end}", alternative=way.alternative)
        colour = "stroke-job0" if way.there else "stroke-job1"
        self._drawing.curve(begin, end, colour, width, "4 4" if way.alternative else "", upright=False)
        self._drawing.end()

    def _probability(self, way: Way) -> None:
        """The probability beside the line, nearer to where the way comes from; only of the largest flow."""
        if not way.main or (way.alternative and way.probability < 0.05):
            return
        begin, end = self._ends(way)
        share = self._share(way)
        bend = 3 * share**2 - 2 * share**3  # the height of the curve there
        x, y = begin[0] + (end[0] - begin[0]) * share, begin[1] + (end[1] - begin[1]) * bend
        text = f"{percent(way.probability)} →" if way.there else f"← {percent(way.probability)}"
        width = text_width(text, SMALL)
        y += -6 if way.there else 14
        self._drawing.rect(x - width / 2 - 2, y - 10, width + 4, 13, "fill-surface", 2)
        self._drawing.text(x, y, text, "fill-job0" if way.there else "fill-job1", SMALL, "middle")

    def _share(self, way: Way) -> float:
        """Where on the line its probability stands: towards the side where lines fan out, so that it is told whose."""
        left, right = (way.begin, way.end) if way.there else (way.end, way.begin)
        height = {round(self._at[column[0]][0]): len(column) for column in self._columns}
        one, other = (height[round(self._at[node][0])] for node in (left, right))
        if one == other:
            return 0.30 if way.there else 0.70
        return 0.28 if one > other else 0.72

    def _box(self, node: str) -> None:
        x, y = self._at[node]
        nodes = self._folded.get(node, [node])
        taken = node in self._taken or node in self._ends_named()
        words = ranges(nodes, 1) if len(nodes) > 1 else node
        self._drawing.begin(ranges(nodes, 20), node=words, count=len(nodes))
        self._drawing.rect(
            x - BOX_WIDTH / 2, y - BOX / 2, BOX_WIDTH, BOX, f"fill-box stroke-{'text' if taken else 'rule'}"
        )
        label = f"{len(nodes)} others" if len(nodes) > 1 else shortened(node, BOX_WIDTH - 10)
        self._drawing.text(x, y + 4, label, "fill-text" if taken else "fill-dim", anchor="middle")
        self._drawing.end()

    def _ends_named(self) -> set[str]:
        possible = self._answer["possible"]
        return {name_of(possible[end] or "") for end in ("a", "b")}

    def _legend(self) -> None:
        drawing, y, x = self._drawing, TOP + self._height + 22, 16.0
        a, b = rank_words(self._answer["a"]), rank_words(self._answer["b"])
        samples = (
            (f"→ {a} to {b}", "stroke-job0", 3.0, ""),
            (f"← {b} to {a}", "stroke-job1", 3.0, ""),
            ("alternatives", "stroke-text", 1.4, "4 4"),
            ("allowed by the topology", "stroke-rule", 1.0, ""),
        )
        for told, colour, width, dashes in samples:
            drawing.line([(x, y), (x + 30, y)], colour, width, dashes)
            words = shortened(told, 260, SMALL)
            drawing.text(x + 36, y + 4, words, "fill-text", SMALL)
            x += 36 + text_width(words, SMALL) + 24
        for note in self._notes:
            y += 18
            drawing.text(16, y + 6, shortened(note, WIDTH - 32), "fill-dim")

    def _told(self) -> list[str]:
        notes = []
        for flow in self._answer["flows"]:
            there = rank_words(flow["src_rank"]) == rank_words(self._answer["a"])
            links = [hop["link"] for hop in flow["paths"][0]["hops"]] if flow["paths"] else []
            why = f" · {flow['why']}" if flow["why"] else ""
            notes.append(
                f"{'→' if there else '←'} {tuple_words(flow)} · {flow['state']}, {percent(flow['probability'])} · "
                f"{path_words(links)} · {bytes_words(flow)}{why}"
            )
        if len(notes) > NOTES_MAX:
            notes = [*notes[:NOTES_MAX], f"... and {len(notes) - NOTES_MAX} more flows; see --output json"]
        notes += [f"not known: {text}" for text in self._answer["possible"]["missing"]]
        return [*notes, self._answer["why"]] if self._answer["why"] else notes


def _right(at: tuple[float, float]) -> tuple[float, float]:
    return at[0] + BOX_WIDTH / 2, at[1]


def _left(at: tuple[float, float]) -> tuple[float, float]:
    return at[0] - BOX_WIDTH / 2, at[1]
