"""What is known when causes are looked for, and what of it speaks for a rule on a component."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leadline.analysis.cause.evidence import ENDS, Face, Piece
from leadline.analysis.cause.reach import Ground
from leadline.analysis.cause.rule import Rule, Sign
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
# kinds of rows that are known by heart, since metrics and codes repeat and messages do not count. Source: bound.
FACES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of evidence with what it tells for one rule, nats."""

    piece: Piece
    weight: float


@dataclass(frozen=True, slots=True)
class Book:
    """Rules with what each kind of row is a sign of: looked up once for each `Face`, in every window the same."""

    rules: tuple[Rule, ...]
    _known: dict[Face, dict[str, Sign]] = field(default_factory=dict)

    def signs(self, face: Face) -> Mapping[str, Sign]:
        """By the name of the rule, the strongest of its signs that such a row is."""
        if face not in self._known:
            if len(self._known) >= FACES_MAX:
                self._known.clear()
            self._known[face] = self._fitting(face)
        return self._known[face]

    def speaks_of(self, table: str, what: str) -> bool:
        """Whether any rule looks at rows of a table with this metric or kind."""
        return any(sign.speaks_of(table, what) for rule in self.rules for sign in rule.signs)

    def _fitting(self, face: Face) -> dict[str, Sign]:
        found = {}
        for rule in self.rules:
            fitting = [sign for sign in rule.signs if sign.fits(*face)]
            if fitting:
                found[rule.name] = max(fitting, key=lambda sign: sign.weight)
        return found


@dataclass
class Context:
    """All that is known when the causes of one trouble are looked for."""

    ground: Ground
    pieces: Sequence[Piece]
    book: Book
    now_ns: int
    before: frozenset[tuple[str, str]] = frozenset()  # (entity, rule) that the last window named
    nameable: frozenset[str] = frozenset()  # jobs that do not hurt and may be named all the same
    by_entity: dict[str, list[Piece]] = field(init=False)
    _same: dict[object, list[tuple[str, float]]] = field(init=False)
    _counts: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        by_entity: dict[str, list[Piece]] = defaultdict(list)
        same: dict[object, list[tuple[str, float]]] = defaultdict(list)
        for piece in self.pieces:
            by_entity[piece.entity].append(piece)
            same[piece.face].append((self._component(piece.entity), piece.score))
        self.by_entity, self._same = by_entity, same

    def _component(self, entity: str) -> str:
        """Ends of one link show the same thing once, and so do an interface and its RDMA device."""
        if kind_of(entity) == "port":
            entity = self.ground.topology.interface(entity) or entity
        return self.ground.topology.link(entity) or entity if kind_of(entity) in ("port", "swport") else entity

    def specific(self, piece: Piece) -> float:
        """How specific a piece is, 0 to 1: 1 if no peer shows the same, 0 if all do as much.

        ln(n / k) over its largest value, where of n peers k show it; one that shows half as much counts half.
        """
        if piece.face.table == "traffic":  # a flow shows on all its links, and is slow where most of them meet
            return piece.score / max(score for _, score in self._same[piece.face]) if piece.score > 0 else 1.0
        if piece.face.table not in ("anomaly", "sle_loss"):
            return 1.0
        own, height = self._component(piece.entity), max(piece.score, 1e-9)
        others: dict[str, float] = {}
        for entity, score in self._same[piece.face]:
            if entity != own:
                others[entity] = max(others.get(entity, 0.0), min(1.0, score / height))
        shown = 0.5 + math.fsum(sorted(others.values()))
        kind = kind_of(own)
        if kind not in self._counts:
            self._counts[kind] = self.ground.topology.count(kind)
        peers = max(self._counts[kind], len(others) + 1, 2)
        return min(1.0, max(0.0, math.log(peers / shown) / math.log(peers / 0.5)))


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
