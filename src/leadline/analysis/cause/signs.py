"""Signs: what speaks for a rule on a component, and how much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.cause.context import Book, Context
from leadline.analysis.cause.evidence import ENDS, Piece
from leadline.analysis.cause.rules.rule import Rule
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.analysis.cause.timing import nearness_in_time
from leadline.model.ids import kind_of
from leadline.model.units import S

# Robust standard deviations from which on an anomaly counts whole, since there is no chance of ten in any tail. It was
# 12 at first; why that changed is not on record. Source: judgement.
SCORE_WHOLE = 10.0
# Share that counts of an anomaly that is just told: not 0, because it has passed a threshold of its own already.
# Source: judgement.
SCORE_LEAST = 0.6


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of evidence with what it tells for one rule, nats."""

    piece: Piece
    weight: float


def signs_of(
    entity: str, rule: Rule, onset: SymptomRow, context: Context
) -> tuple[tuple[Told, ...], tuple[Piece, ...]]:
    """The signs of a rule on a component, the most telling first; and those that came too late."""
    told: list[Told] = []
    late: list[Piece] = []
    for part in context.ground.components.parts(entity):
        for piece in context.by_entity.get(part, ()):
            sign = context.book.signs(piece.face).get(rule.name)
            if sign is None:
                continue
            near = nearness_in_time(piece, onset)
            if near <= 0 or (sign.within_s and abs(piece.time_ns - onset.start_ns) > sign.within_s * S):
                late.append(piece)
                continue
            height = min(1.0, max(SCORE_LEAST, piece.score / SCORE_WHOLE)) if piece.face.table == "anomaly" else 1.0
            specific = 1.0 if rule.wide else context.specific(piece)
            weight = sign.weight * near * specific * height
            if weight > 0:
                told.append(Told(piece, weight))
    told.sort(key=lambda each: (-each.weight, each.piece.order))
    once = _once(told, rule, context.book)
    counted = tuple(replace(each, piece=_counted(each.piece, onset, context)) for each in once)
    return counted, tuple(sorted(late, key=lambda piece: piece.order))


def _once(told: Iterable[Told], rule: Rule, book: Book) -> tuple[Told, ...]:
    """Rows that say the same count once: a link that flaps ten times, a job of which all ranks tell their version, two
    counters of the same drops; and what happened, told as an event and again as the failure that it was."""
    found: dict[int, Told] = {}
    for each in told:
        found.setdefault(id(book.signs(each.piece.face)[rule.name]), each)
    happened: dict[tuple[str, str], Told] = {}
    kept: list[Told] = []
    for each in found.values():
        what = each.piece.entity, each.piece.face.what
        if each.piece.face.table not in ("event", "failure"):
            kept.append(each)
        elif what not in happened:
            happened[what] = each
            kept.append(each)
        elif each.piece.face.table == "event" and happened[what].piece.face.table == "failure":
            # The event says more (its code), the failure counted more (it lasts).
            kept[kept.index(happened[what])] = happened[what] = replace(each, weight=happened[what].weight)
    return tuple(kept)


def _counted(piece: Piece, onset: SymptomRow, context: Context) -> Piece:
    """What comes and goes, with how often it did since shortly before the onset."""
    if piece.face.table != "event" or piece.face.what not in ENDS:
        return piece
    alike = [other.time_ns for other in context.by_entity[piece.entity] if other.face == piece.face]
    times = [time_ns for time_ns in alike if time_ns >= min(piece.time_ns, onset.start_ns)]
    often = max(len(times), piece.times)
    return piece if often < 2 else replace(piece, times=often, last_ns=max([*times, piece.last_ns or piece.time_ns]))


def wide_share(entity: str, context: Context, told: Sequence[Told]) -> float:
    """Share of a component's parts that show signs; 1 if the component itself does."""
    shown = {each.piece.entity for each in told}
    if entity in shown:
        return 1.0
    topology, components = context.ground.topology, context.ground.components
    if kind_of(entity) == "switch":
        ports = topology.ports_of(entity)
        shows = sum(bool(components.parts(port) & shown or topology.far(port) in shown) for port in ports)
        return shows / max(1, len(ports))
    members = {part for part in components.parts(entity) if part != entity}
    return len(members & shown) / max(1, len(members))
