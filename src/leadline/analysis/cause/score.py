"""How likely each candidate is: a sum of documented log-odds, told part by part.

    logit = prior of the rule + blame + signs (+ alone) (+ wide) (+ before)

    prior   COMMON or RARE
    blame   log-odds of the share of the lost seconds that it explains, from -3 (none) to +3 (all)
    signs   weights of the rule, each times how near in time, how specific (peers that show the same) and how far out it
            is; the strongest counts whole, each further one half as much as the one before: signs of one fault are not
            independent
    alone   what the blame by itself tells, for rules that need no other row
    wide    for components that fail as a whole: minus where few of their parts show it
    before  it was named by the window before: verdicts should not flicker

Probabilities are a softmax over the best rule of each component and `unknown`, whose logit is a constant. Source: naive
Bayes in log-odds (Good, "Weight of Evidence", 1985); the discount is ours. Calibration: docs/analyses/cause.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leadline.analysis.cause.evidence import Face, Piece
from leadline.analysis.cause.hurts import Blame, Hurt
from leadline.analysis.cause.places import kind_of
from leadline.analysis.cause.reach import Ground, Reach, explained
from leadline.analysis.cause.rule import Rule, Sign
from leadline.analysis.cause.timing import nearness_in_time

S = 10**9
UNKNOWN_LOGIT = 3.0
"""Of `unknown`: where blame explains all and one weak sign speaks for a rule, the odds are even."""
BLAME_EDGE = 0.05  # keeps the log-odds of blame within +-3.04
HALVING = 0.5
SCORE_WHOLE = 10.0  # robust standard deviations from which on an anomaly counts whole
SCORE_LEAST = 0.6  # what counts of one that is just told: it has passed a threshold already
FACES_MAX = 100_000  # kinds of rows that are known by heart: messages do not count, metrics and codes do
WIDE_MISSES = -4.0  # of what fails as a whole and shows it on less than `WIDE_MIN` of its parts
WIDE_MIN = 0.5
BEFORE = 0.5
UNSEEN = 0.3  # what is left of `alone` where a rule says where, not why, and nobody could see why


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of evidence with what it tells for one rule, nats."""

    piece: Piece
    weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One component with one rule, and what speaks for it."""

    entity: str
    rule: Rule
    parts: Mapping[str, float]  # of the logit, by name
    told: tuple[Told, ...]
    explains: float  # share of the lost seconds, 0 to 1
    late: tuple[Piece, ...] = ()  # what would fit and began after it hurt

    @property
    def logit(self) -> float:
        """Its score."""
        return math.fsum(self.parts.values())

    @property
    def order(self) -> tuple[object, ...]:
        """The likeliest first; ties by name."""
        return (-self.logit, self.entity, self.rule.name)


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
class Matter:
    """All that is known when the causes of one trouble are looked for."""

    ground: Ground
    pieces: Sequence[Piece]
    book: Book
    now_ns: int
    before: frozenset[tuple[str, str]] = frozenset()  # (entity, rule) that the last window named
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
        """Ends of one link show the same thing once."""
        return self.ground.places.link(entity) or entity if kind_of(entity) in ("port", "swport") else entity

    def specific(self, piece: Piece) -> float:
        """How specific a piece is, 0 to 1: 1 if no peer shows the same, 0 if all do as much.

        ln(n / k) over its largest value, where of n peers k show it; one that shows half as much counts half.
        """
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
            self._counts[kind] = self.ground.places.count(kind)
        peers = max(self._counts[kind], len(others) + 1, 2)
        return min(1.0, max(0.0, math.log(peers / shown) / math.log(peers / 0.5)))


def candidates_of(hurts: Sequence[Hurt], matter: Matter, blames: Mapping[int, Sequence[Blame]]) -> list[Candidate]:
    """All candidates of one trouble, the likeliest first. `blames`: of each symptom, by its place in `hurts`."""
    asked = {hurt.symptom for hurt in hurts}
    rules = {rule.name: rule for rule in matter.book.rules if rule.symptoms & asked}
    shown = _shown(rules, matter)
    found = []
    for name, rule in rules.items():
        entities = shown.get(name, set()) | (_blamed(rule, hurts, matter, blames) if rule.alone else set())
        for entity in sorted(entities):
            one = _candidate(entity, rule, hurts, matter, blames)
            found += [one] if one is not None else []
    return sorted(found, key=lambda each: each.order)


def _shown(rules: Mapping[str, Rule], matter: Matter) -> dict[str, set[str]]:
    """Components on which signs stand, by the name of the rule."""
    found: dict[str, set[str]] = defaultdict(set)
    for entity, pieces in matter.by_entity.items():
        names = {name for piece in pieces for name in matter.book.signs(piece.face) if name in rules}
        wholes = matter.ground.places.wholes(entity) if names else ()
        for name in names:
            found[name].update(whole for whole in wholes if kind_of(whole) in rules[name].kinds)
    return found


def _blamed(rule: Rule, hurts: Sequence[Hurt], matter: Matter, blames: Mapping[int, Sequence[Blame]]) -> set[str]:
    """What is blamed, for rules that need nothing else."""
    reaches = (
        (matter.ground.reach(blame.owner, hurt.job), hurt)
        for place, hurt in enumerate(hurts)
        for blame in blames[place]
    )
    return {entity for reach, hurt in reaches for entity in _named(rule, reach, hurt)}


def _named(rule: Rule, reach: Reach, hurt: Hurt) -> set[str]:
    """What a blame names for a rule that needs nothing else."""
    if rule.where == "storage":
        return set(reach.storage) if len(reach.storage) == 1 else set()
    job = {f"job:{hurt.job}"} if hurt.job else set()
    return {each for each in reach.own | job if kind_of(each) in rule.kinds}


def _candidate(
    entity: str, rule: Rule, hurts: Sequence[Hurt], matter: Matter, blames: Mapping[int, Sequence[Blame]]
) -> Candidate | None:
    share, alone = shares(entity, rule, hurts, matter, blames)
    if share <= 0:
        return None
    onset = min(hurts, key=lambda hurt: hurt.start_ns)
    told, late = _signs(entity, rule, onset, matter)
    needs = any(sign.needed for sign in rule.signs)
    proven = any(matter.book.signs(each.piece.face)[rule.name].needed for each in told)
    if (needs and not proven) or (not told and not (rule.alone and alone > 0)):
        return None
    parts = {"prior": rule.prior, "blame": math.log((share + BLAME_EDGE) / (1 - share + BLAME_EDGE))}
    for place, each in enumerate(told):
        name = f"{each.piece.face.table} {each.piece.face.what} {each.piece.entity}"
        parts[name] = parts.get(name, 0.0) + each.weight * HALVING**place
    if rule.alone:
        parts["alone"] = rule.strength * alone * (UNSEEN if rule.fallback and not _seen(entity, matter) else 1.0)
    if rule.wide and told:
        parts["wide"] = 0.0 if _wide(entity, rule, matter, told) >= WIDE_MIN else WIDE_MISSES
    if (entity, rule.name) in matter.before:
        parts["before"] = BEFORE
    rounded = {name: round(value, 3) for name, value in parts.items() if value}
    return Candidate(entity, rule, rounded, told, share, late)


def _seen(entity: str, matter: Matter) -> bool:
    """Whether metrics tell of the host of a component: else nothing below it could have shown why."""
    host = matter.ground.places.host(entity)
    return not host or host in matter.ground.measured


def shares(
    entity: str, rule: Rule, hurts: Sequence[Hurt], matter: Matter, blames: Mapping[int, Sequence[Blame]]
) -> tuple[float, float]:
    """Share of what was lost that a rule explains of a component; and of what was blamed in its own words."""
    weight, share, alone = 0.0, 0.0, 0.0
    for place, hurt in enumerate(hurts):
        lost = max(hurt.lost_gpu_s, 1e-3)
        weight += lost
        own = blames[place]
        share += lost * sum(blame.share * explained(blame, hurt, entity, rule, matter.ground) for blame in own)
        if rule.alone:
            alone += lost * sum(blame.share for blame in own if _says(rule, blame, hurt, entity, matter.ground))
    return min(1.0, share / weight), min(1.0, alone / weight)


def _says(rule: Rule, blame: Blame, hurt: Hurt, entity: str, ground: Ground) -> bool:
    fits = not rule.categories or blame.category in rule.categories
    how = rule.fits_how(blame.how)
    return (
        hurt.symptom in rule.symptoms
        and fits
        and how
        and entity in _named(rule, ground.reach(blame.owner, hurt.job), hurt)
    )


def _signs(entity: str, rule: Rule, onset: Hurt, matter: Matter) -> tuple[tuple[Told, ...], tuple[Piece, ...]]:
    """The signs of a rule on a component, the most telling first; and those that came too late."""
    told: list[Told] = []
    late: list[Piece] = []
    for part in matter.ground.places.parts(entity):
        for piece in matter.by_entity.get(part, ()):
            sign = matter.book.signs(piece.face).get(rule.name)
            if sign is None:
                continue
            near = nearness_in_time(piece, onset)
            if near <= 0 or (sign.within_s and abs(piece.time_ns - onset.start_ns) > sign.within_s * S):
                late.append(piece)
                continue
            height = min(1.0, max(SCORE_LEAST, piece.score / SCORE_WHOLE)) if piece.face.table == "anomaly" else 1.0
            specific = 1.0 if rule.wide else matter.specific(piece)
            weight = sign.weight * near * specific * height
            if weight > 0:
                told.append(Told(piece, weight))
    told.sort(key=lambda each: (-each.weight, each.piece.order))
    return _once(told), tuple(sorted(late, key=lambda piece: piece.order))


def _once(told: Iterable[Told]) -> tuple[Told, ...]:
    """Rows that say the same count once: a link that flaps ten times, a job of which all ranks tell their version."""
    found: dict[tuple[str, str], Told] = {}
    for each in told:
        found.setdefault((each.piece.face.table, each.piece.face.what), each)
    return tuple(found.values())


def _wide(entity: str, rule: Rule, matter: Matter, told: Sequence[Told]) -> float:
    """Share of a component's parts that show signs; 1 if the component itself does."""
    shown = {each.piece.entity for each in told}
    if entity in shown:
        return 1.0
    places = matter.ground.places
    if kind_of(entity) == "switch":
        ports = places.ports_of(entity)
        shows = sum(bool(places.parts(port) & shown or places.far(port) in shown) for port in ports)
        return shows / max(1, len(ports))
    members = {part for part in places.parts(entity) if part != entity}
    return len(members & shown) / max(1, len(members))


def probabilities(candidates: Sequence[Candidate]) -> tuple[list[float], float]:
    """Of each candidate, and of `unknown`: a softmax."""
    logits = [each.logit for each in candidates]
    top = max([UNKNOWN_LOGIT, *logits])
    odds = [math.exp(each - top) for each in logits]
    unknown = math.exp(UNKNOWN_LOGIT - top)
    whole = math.fsum([*odds, unknown])
    return [each / whole for each in odds], unknown / whole
