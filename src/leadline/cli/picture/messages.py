"""The picture of `leadline show messages`: each communicator's ranks in the order of its ring, edges as wide as what
they held of the collectives.

    0 ══> 1 ──> 2      a circle of ranks; an arrow bows to the right of its way, so that both directions are seen
    ^           │
    └── 3 <─────┘
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.cli.output import size
from leadline.cli.picture.svg import SMALL, Drawing, shortened
from leadline.cli.ranges import counted
from leadline.cli.words.flows import percent
from leadline.cli.words.messages import order_words, span_words

WIDTH, TOP = 1080.0, 84.0
PANEL = 400.0  # height of a communicator
RADIUS, RANK = 140.0, 15.0
COMMS_MAX, RANKS_MAX, LISTED_MAX = 4, 24, 12
WIDE, THIN = 14.0, 1.5  # px of an edge that held everything, and of one that held nothing


def messages_picture(answer: Mapping[str, Any], when: str) -> str:
    """The SVG of an answer of `/api/v1/messages`."""
    comms = answer["communicators"][:COMMS_MAX]
    height = TOP + PANEL * max(len(comms), 1) + 30
    drawing = Drawing(WIDTH, height, f"Messages of {answer['job']}, {when}")
    drawing.text(16, 30, shortened(f"Messages of job {answer['job']}", WIDTH - 32, 17), "fill-text strong", 17)
    span = f"{answer['window_ns'] / 1e9:g} s to {when}" if answer["end_ns"] else "no window"
    drawing.text(16, 52, shortened(f"{span} · wide: collectives waited for this edge", WIDTH - 32), "fill-dim")
    if not comms:
        drawing.text(16, TOP + 16, shortened(answer["why"] or "no messages are known", WIDTH - 32), "fill-dim")
    for place, comm in enumerate(comms):
        _communicator(drawing, comm, TOP + place * PANEL)
    more = answer["communicators_total"] - len(comms)
    if more > 0:
        drawing.text(16, height - 12, f"and {more} more communicators", "fill-dim", SMALL)
    return drawing.svg()


def _communicator(drawing: Drawing, comm: Mapping[str, Any], top: float) -> None:
    words = f"{comm['comm']}: {span_words(comm['collectives_s'] * 1e9)} in collectives, {size(comm['bytes'])}"
    drawing.text(16, top + 16, shortened(words, WIDTH - 32), "fill-text strong")
    ordered = next((each for each in comm["channels"] if each["order"]), None)
    ranks = ranks_shown(comm, ordered)
    middle = (16 + RADIUS + 70, top + 40 + RADIUS + 30)
    at = {
        rank: (
            middle[0] + RADIUS * math.sin(2 * math.pi * place / len(ranks)),
            middle[1] - RADIUS * math.cos(2 * math.pi * place / len(ranks)),
        )
        for place, rank in enumerate(ranks)
    }
    edges = [edge for edge in comm["edges"] if edge["src_rank"] in at and edge["dst_rank"] in at]
    for edge in sorted(edges, key=lambda each: each["held_s"]):
        _edge(drawing, edge, at[edge["src_rank"]], at[edge["dst_rank"]], middle)
    for rank, (x, y) in at.items():
        drawing.rect(x - RANK, y - RANK, 2 * RANK, 2 * RANK, "fill-box stroke-rule", RANK)
        drawing.text(x, y + 4, shortened(str(rank), 2 * RANK), "fill-text", SMALL, "middle")
    _list(drawing, comm, ordered, top + 44)


def ranks_shown(comm: Mapping[str, Any], ordered: Mapping[str, Any] | None) -> Sequence[int]:
    """Ranks on the circle, in the order of the ring; of many those at the edges that held most."""
    every = {rank for edge in comm["edges"] for rank in (edge["src_rank"], edge["dst_rank"])}
    order = list(ordered["order"]) if ordered else []
    order += sorted(every - set(order))
    if len(order) <= RANKS_MAX:
        return order
    kept: set[int] = set()
    for edge in sorted(comm["edges"], key=lambda each: (-each["held_s"], each["src_rank"], each["dst_rank"])):
        if len(kept | {edge["src_rank"], edge["dst_rank"]}) <= RANKS_MAX:
            kept |= {edge["src_rank"], edge["dst_rank"]}
    return [rank for rank in order if rank in kept]


def _edge(
    drawing: Drawing, edge: Mapping[str, Any], begin: tuple[float, float], end: tuple[float, float],
    middle: tuple[float, float],
) -> None:  # fmt: skip
    """An arrow that bows to its right, from the rim of one rank to that of the other."""
    share = edge["share"] or 0.0
    width = THIN + (WIDE - THIN) * share
    length = math.dist(begin, end)
    told = (
        f"{edge['src_rank']} > {edge['dst_rank']}: {percent(edge['share'])}, p99 {span_words(edge['transfer_p99_ns'])}"
    )
    drawing.begin(told, src=edge["src_rank"], dst=edge["dst_rank"])
    kind = "stroke-bad" if share >= 0.25 else "stroke-job0" if share else "stroke-rule"
    if length < 1:  # a message to itself
        drawing.line([(begin[0] - RANK, begin[1] - RANK - 4), (begin[0] + RANK, begin[1] - RANK - 4)], kind, width)
    else:
        along = ((end[0] - begin[0]) / length, (end[1] - begin[1]) / length)
        aside = (-along[1], along[0])
        bow = min(0.12 * length, 22.0)
        points = []
        for step in range(9):
            part = (RANK + (length - 2 * RANK) * step / 8) / length
            out = bow * 4 * part * (1 - part)
            points.append((begin[0] + along[0] * length * part + aside[0] * out,
                           begin[1] + along[1] * length * part + aside[1] * out))  # fmt: skip
        drawing.line(points, kind, width)
        tip, head = points[-1], 5 + width / 2
        for turn in (2.6, -2.6):
            way = math.atan2(points[-1][1] - points[-2][1], points[-1][0] - points[-2][0]) + turn
            drawing.line([tip, (tip[0] + head * math.cos(way), tip[1] + head * math.sin(way))], kind, 2)
    drawing.end()


def _list(drawing: Drawing, comm: Mapping[str, Any], ordered: Mapping[str, Any] | None, top: float) -> None:
    """Beside the circle: the order of the ring, then the edges that held most."""
    x = 16 + 2 * RADIUS + 180
    room = WIDTH - x - 16
    words = f"channel {ordered['channel']}, {order_words(ordered)}" if ordered else "neither ring nor chain"
    drawing.text(x, top, shortened(words, room), "fill-dim")
    held = sorted(comm["edges"], key=lambda each: (-each["held_s"], each["src_rank"], each["dst_rank"]))
    for place, edge in enumerate(held[:LISTED_MAX]):
        words = (
            f"{edge['src_rank']} > {edge['dst_rank']}: {percent(edge['share'])} · {size(edge['bytes'])} in "
            f"{counted({'message': edge['messages']})} · "
            f"p50 {span_words(edge['transfer_p50_ns'])}, p99 {span_words(edge['transfer_p99_ns'])}"
        )
        if edge["unpaired"]:
            words += f" · {edge['unpaired']} unpaired"
        drawing.text(x, top + 26 + 22 * place, shortened(words, room, SMALL), "fill-text", SMALL)
    if comm["edges_total"] > LISTED_MAX:
        more = comm["edges_total"] - LISTED_MAX
        drawing.text(x, top + 26 + 22 * LISTED_MAX, f"and {more} edges that held less", "fill-dim", SMALL)
