"""What is known when causes are looked for: where everything is, the evidence, and which rules speak of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.cause.evidence import Face, Piece
from leadline.analysis.cause.reach import Ground
from leadline.analysis.cause.rules.rule import Rule, Sign
from leadline.model.ids import kind_of

# kinds of rows that are known by heart, since metrics and codes repeat and messages do not count. Source: bound.
FACES_MAX = 100_000


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
    nameable: frozenset[str] = frozenset()  # jobs without a symptom that may be named all the same
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
