"""Incidents and their causes, held against what was broken. Pure: rows and truth in, scores out.

    trouble          |==========|                       a fault, or several that overlap
    incidents          |-----------|     |--|           the first is its; the second meets nothing: false
    its list         1 port:h3/eth0 (chosen)  2 host:h3 (chosen)  3 rank:j/2 (considered, and not it)

What counts as right, and what each figure is: docs/analyses/lab-evals.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.ledger_scores import Trouble as Place
from evals.ledger_scores import is_right as is_on
from evals.runs.truth import Fault, Trouble, Truth

S = 10**9
Row = Mapping[str, Any]

EARLY_NS = 2 * S  # an incident may begin so long before a fault: with the step that the fault hits
SETTLE_NS = 15 * S  # and so long after its end: what had gathered by then goes on for a while (a time-out of 12 s, too)
LISTED = 3

# What the truth calls a layer, by what we call it. An order of collectives that differs is the program's mistake.
LAYERS: Mapping[str, str] = {
    "application": "application", "collective": "application", "gpu": "gpu", "host": "host", "time": "host",
    "nic": "network", "fabric": "network", "storage": "storage", "telemetry": "telemetry",
}  # fmt: skip

# The eight causes of a stall (docs/analyses/stalls.md), and the faults of the lab that are one.
STALLS: Mapping[str, str] = {
    "oom-kill": "out of memory", "sigstop": "frozen", "sigsegv": "crash", "dead-nic": "link down",
    "flapping-link": "link down", "blackhole": "loss", "lossy-link": "loss", "dead-spine": "loss",
    "slow-storage": "storage", "checkpoint-storm": "storage", "divergence": "divergence",
    "slow-worker": "slow", "gpu-throttle": "slow", "memory-pressure": "slow",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What was concluded of a run."""

    incidents: Sequence[Row]  # the newest row of each
    causes: Sequence[Row]
    symptoms: Sequence[Row]
    told: Sequence[Row]  # each window's: incident, first (the entity named first, or null), reported_ns (end and grace)
    places: Mapping[str, set[str]] = field(default_factory=dict)  # what ranks and ports are on


@dataclass(frozen=True, slots=True)
class Named:
    """One line of the list of causes."""

    entity: str
    rule: str
    layer: str
    fault_class: str
    chosen: bool
    probability: float


@dataclass(frozen=True, slots=True)
class Score:
    """One trouble of one run."""

    run: str
    trouble: Trouble
    decoys: tuple[Fault, ...]  # that were there meanwhile
    incidents: int
    listed: tuple[Named, ...]
    wanted: tuple[Fault, ...]  # what has to be found
    missing: tuple[str, ...]  # what incidents say they lack
    told_s: float | None  # from the first lost second until an incident was told
    verdict_s: float | None  # until what is named first in the end was named first, and stayed so
    symptom_s: float | None  # until a stall or crash was told
    worker: bool | None  # whether that blames a worker on what was broken; None: nothing was told, or there is none

    @property
    def named(self) -> tuple[Named, ...]:
        """The causes that were named."""
        return tuple(each for each in self.listed if each.chosen)

    def right(self, named: Named) -> Fault | None:
        """The fault that a cause is, or None."""
        found = [each for each in self.trouble.faults if is_component(named.entity, each.components)]
        return max(found, key=lambda each: each.share) if found else None

    def _covers(self, listed: Sequence[Named]) -> bool:
        return all(any(is_component(one.entity, each.components) for one in listed) for each in self.wanted)

    @property
    def top1(self) -> bool:
        """As many as were broken are named first, and they are those."""
        first = self.named[: len(self.wanted)]
        return bool(first) and self._covers(first)

    @property
    def top3(self) -> bool:
        """All that was broken is in the list's first three (two more than were broken)."""
        return bool(self.listed) and self._covers(self.listed[: len(self.wanted) + LISTED - 1])

    @property
    def exact(self) -> bool:
        """All that was broken is named, and nothing else."""
        return self.top1 and not self.wrong

    @property
    def wrong(self) -> bool:
        """Something is named that was not broken."""
        return any(self.right(each) is None for each in self.named)

    @property
    def outcome(self) -> str:
        """In one word, the worst that holds; of a missed one nothing was told at all."""
        if not self.incidents:
            return "missed"
        if not self.named:
            return "unknown"
        if self.wrong:
            return "right and more" if self.top1 else "wrong"
        return "right" if self.top1 else "part"

    @property
    def layer_right(self) -> bool | None:
        """Whether the first cause is told in a layer of what was broken; None: nothing is named."""
        if not self.named:
            return None
        return LAYERS.get(self.named[0].layer) in {each.layer for each in self.trouble.faults}

    @property
    def class_right(self) -> bool | None:
        """Whether the first cause has the class of the fault that it is; None: it is none, or `unknown` is told."""
        fault = self.right(self.named[0]) if self.named else None
        if fault is None or self.named[0].fault_class == "unknown":
            return None
        return self.named[0].fault_class == fault.fault_class

    @property
    def stall(self) -> str | None:
        """Which of the eight causes of a stall it is; None: nothing stood still, or it is another."""
        return (
            next((STALLS[each.name] for each in self.wanted if each.name in STALLS), None)
            if self.trouble.stalled
            else None
        )


def is_component(entity: str, components: Iterable[str]) -> bool:
    """Whether an entity is one of those that were broken.

    It is listed; or it is the link of a listed port, or an end of a listed link; or the transceiver of a listed port
    or the port of a listed transceiver: whoever is sent there stands before the same plug.
    """
    parts = set(components)
    return entity in parts or any(_plug(entity) & _plug(each) and _may(entity, each) for each in parts)


def _plug(entity: str) -> set[str]:
    """The ends `node/port` of a link, or that of a port."""
    kind, _, name = entity.partition(":")
    if kind == "link":
        return set(name.split("~"))
    return {name} if kind in ("port", "swport", "xcvr") else set()


def _may(entity: str, other: str) -> bool:
    """Links that share an end are one link."""
    kinds = {entity.partition(":")[0], other.partition(":")[0]}
    return kinds != {"link"}


def scored(run: str, truth: Truth, verdicts: Verdicts) -> tuple[list[Score], list[Row]]:
    """The scores of a run's troubles, and the incidents that meet none of them: false ones."""
    mine: list[list[Row]] = [[] for _ in truth.troubles]
    false = []
    for incident in verdicts.incidents:
        places = [at for at, each in enumerate(truth.troubles) if _meets(incident, each, truth.to_ns)]
        if not places:
            false.append(incident)
        for at in _of(incident, places, truth.troubles):
            mine[at].append(incident)
    return [_score(run, each, rows, truth, verdicts) for each, rows in zip(truth.troubles, mine, strict=True)], false


def _meets(incident: Row, trouble: Trouble, to_ns: int) -> bool:
    end = incident["end_ns"] if incident["end_ns"] is not None else to_ns
    return incident["start_ns"] < trouble.end_ns + SETTLE_NS and end > trouble.onset_ns - EARLY_NS


def _of(incident: Row, places: Sequence[int], troubles: Sequence[Trouble]) -> list[int]:
    """The troubles that an incident is of: one that settles while the next begins is not of that as well, unless the
    incident began in neither of them."""
    began = [at for at in places if troubles[at].onset_ns - EARLY_NS <= incident["start_ns"]]
    return began[-1:] or list(places)


def _score(run: str, trouble: Trouble, incidents: Sequence[Row], truth: Truth, verdicts: Verdicts) -> Score:
    ordered = sorted(
        incidents, key=lambda row: (-(row["lost_gpu_seconds"] or 0.0), row["reported_ns"], row["incident"])
    )
    listed = [each for row in ordered for each in _listed(row["incident"], verdicts.causes)]
    ids = {row["incident"] for row in ordered}
    told = sorted((row for row in verdicts.told if row["incident"] in ids), key=lambda row: row["reported_ns"])
    reported_ns = told[0]["reported_ns"] if told else None
    symptom = _stall(trouble, truth, verdicts.symptoms)
    return Score(
        run=run,
        trouble=trouble,
        decoys=tuple(
            each for each in truth.decoys if each.onset_ns < trouble.end_ns and each.end_ns > trouble.onset_ns
        ),
        incidents=len(ordered),
        listed=tuple(sorted(listed, key=lambda each: not each.chosen)),
        wanted=trouble.costing or trouble.faults,
        missing=tuple(dict.fromkeys(row["missing"] for row in ordered if row["missing"])),
        told_s=_since(trouble, reported_ns),
        verdict_s=_since(trouble, _settled_ns(ordered[0]["incident"], told) if ordered else None),
        symptom_s=_since(trouble, symptom["reported_ns"] if symptom else None),
        worker=_worker(trouble, symptom, verdicts.places),
    )


def _since(trouble: Trouble, reported_ns: int | None) -> float | None:
    return None if reported_ns is None else (reported_ns - trouble.first_lost_ns) / S


def _listed(incident: str, causes: Sequence[Row]) -> list[Named]:
    """Its list as the newest window tells it: an earlier one may have had more positions."""
    mine = sorted((row for row in causes if row["incident"] == incident), key=lambda row: row["position"])
    newest = max((row["seen_ns"] for row in mine), default=0)
    return [
        Named(row["entity"], row["rule"], row["layer"], row["class"], bool(row["chosen"]), row["probability"])
        for row in mine
        if row["seen_ns"] == newest
    ]


def _settled_ns(incident: str, told: Sequence[Row]) -> int | None:
    """Since when an incident names first what it names first in the end; None: it names nothing."""
    mine = [row for row in told if row["incident"] == incident]
    if not mine or mine[-1]["first"] is None:
        return None
    since = mine[-1]
    for row in reversed(mine):
        if row["first"] != since["first"]:
            break
        since = row
    return int(since["reported_ns"])


def _stall(trouble: Trouble, truth: Truth, symptoms: Sequence[Row]) -> Row | None:
    """The first stall or crash that was told of a trouble."""
    wanted = [row for row in symptoms if row["symptom"] in ("stall", "crash") and _meets(row, trouble, truth.to_ns)]
    return min(wanted, key=lambda row: (row["reported_ns"], row["start_ns"]), default=None)


def _worker(trouble: Trouble, symptom: Row | None, places: Mapping[str, set[str]]) -> bool | None:
    """Whether the first that a stall blames is, or runs on, what was broken. A fault within the fabric has none."""
    parts = frozenset(part for each in trouble.faults for part in each.components)
    if symptom is None or not any(part.startswith(("rank:", "host:", "gpu:", "port:")) for part in parts):
        return None
    if not symptom["blamed"]:
        return False
    place = Place(trouble.name, parts, frozenset(), trouble.onset_ns, trouble.end_ns, 0.0)
    # The category whose owners may be a rank that is cut off by the port of its host.
    return is_on("communication", symptom["blamed"][0]["owner"], place, places)


# --- probabilities ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bin:
    """Causes that came first with a probability in [low, high)."""

    low: float
    high: float
    count: int
    said: float  # mean probability
    was: float  # share that was right


EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)


def forecasts(scores: Iterable[Score]) -> list[tuple[float, bool]]:
    """What the first of each list was said to be likely, and whether it was right; also where it was not named."""
    return [(each.listed[0].probability, each.right(each.listed[0]) is not None) for each in scores if each.listed]


def brier(said: Sequence[tuple[float, bool]]) -> float | None:
    """Mean squared difference of probability and outcome; 0 is best. Source: Brier, Mon. Weather Rev. 78 (1950)."""
    return sum((chance - was) ** 2 for chance, was in said) / len(said) if said else None


def reliability(said: Sequence[tuple[float, bool]]) -> list[Bin]:
    """The table that says whether nine in ten of those at 0.9 are right; bins without any are left out."""
    out = []
    for at, low in enumerate(EDGES[:-1]):
        high = EDGES[at + 1]
        mine = [(chance, was) for chance, was in said if low <= chance < high or (high == 1.0 and chance == 1.0)]
        if mine:
            means = (sum(column) / len(mine) for column in zip(*mine, strict=True))
            out.append(Bin(low, high, len(mine), *means))
    return out
