"""What a ledger says of a lab run, held against the truth of what was broken. Method: docs/analyses/ledger-evals.md.

true lost GPU time of a fault        |=====================|        the ranks' own steps, by the lab
told lost in the windows it meets    |--------------|----|--|
                                       right owner   wrong unknown
owned = min(told with an owner, true) / true        right = right owner / told with an owner
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.lab.loss import Span, losses

S = 10**9
Row = Mapping[str, Any]

# Categories that say what a fault of a layer does. A slow host is a late rank; that its messages come late, too, is
# said by communication over its edges, which names the right place and counts as the wrong category.
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "network": ("communication",),
    "host": ("straggler", "restart"),
    "gpu": ("straggler", "restart"),
    "application": ("input", "straggler", "restart"),
    "storage": ("input", "checkpoint"),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault, or several that overlap in time: how much each cost nobody can say. Times ns, lost GPU-seconds."""

    name: str
    components: frozenset[str]
    layers: frozenset[str]
    onset_ns: int
    end_ns: int
    lost: float


@dataclass(slots=True)
class Score:
    """One trouble of one job, in GPU-seconds."""

    run: str
    trouble: Trouble
    owned: float = 0.0  # told as lost, with an owner that is not unknown
    right: float = 0.0  # of these, the owner is on what was broken
    category: float = 0.0  # of these, the category is one of the fault's layer
    unknown: float = 0.0  # told as lost, unknown
    owners: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def covered(self) -> float:
        """Of the true loss; blame beyond it earns nothing."""
        return min(self.owned, self.trouble.lost)


@dataclass(slots=True)
class Healthy:
    """Windows that meet no trouble."""

    lost: float = 0.0  # GPU-seconds told as lost all the same
    gpu_seconds: float = 0.0


def places_of(relations: Iterable[Row]) -> dict[str, set[str]]:
    """What each rank runs on: host and GPU by `rank:J/r`; and whose a port is: host by `port:h3/eth0`."""
    found: dict[str, set[str]] = {}
    for row in relations:
        child, parent = row["child"], row["parent"]
        wanted = child.startswith("rank:") and row["kind"] == "runs-on" and parent.startswith(("host:", "gpu:"))
        if wanted or (child.startswith(("port:", "gpu:")) and row["kind"] == "in" and parent.startswith("host:")):
            found.setdefault(child, set()).add(parent)
    return found


def is_right(category: str, owner: str, trouble: Trouble, places: Mapping[str, set[str]]) -> bool:
    """Whether an owner is on what was broken.

    A part is: it is a component. A rank is: it is a component, or runs on a host or GPU that is; a broken port makes a
    rank of its host right for communication only, which is that of the rank's edges. An edge is: one of its ends is
    right, or the host of one has a port that is a component. A communicator or a job never is.
    """
    if owner in trouble.components:
        return True
    ranks = [end for end in owner.split(">") if end.startswith("rank:")]
    if not ranks:
        return False
    parts = trouble.components
    if any({rank, *places.get(rank, ())} & parts for rank in ranks):
        return True
    hosts = {place for rank in ranks for place in places.get(rank, ()) if place.startswith("host:")}
    ports = {part for part in parts if part.startswith("port:")}
    return category == "communication" and any(places.get(port, set()) & hosts for port in ports)


def troubles_of(truth: Mapping[str, Any], works: Sequence[tuple[int, int]], gpus: int, to_ns: int) -> list[Trouble]:
    """The faults of a truth file that hurt a job, those that overlap in time as one.

    works: the job's steps, or what stands for them, begin and end; used where the file does not say what was lost.
    """
    faults = [each for each in truth.get("faults", []) if not each.get("decoy")]
    spans = [Span(each["onset_ns"], each["end_ns"] or to_ns) for each in faults]
    measured = losses(works, spans, gpus)
    known = [
        Trouble(
            each["fault"],
            frozenset(each["component"]),
            frozenset([each["layer"]]),
            span.onset_ns,
            span.end_ns,
            each["lost_gpu_seconds"] if each["lost_gpu_seconds"] is not None else loss.gpu_seconds if loss else 0.0,
        )
        for each, span, loss in zip(faults, spans, measured, strict=True)
    ]
    found: list[Trouble] = []
    for one in sorted(known, key=lambda each: each.onset_ns):
        if found and one.onset_ns < found[-1].end_ns:
            found[-1] = _together(found[-1], one)
        else:
            found.append(one)
    return [each for each in found if each.lost > 0]


def _together(one: Trouble, other: Trouble) -> Trouble:
    return Trouble(
        f"{one.name} + {other.name}",
        one.components | other.components,
        one.layers | other.layers,
        one.onset_ns,
        max(one.end_ns, other.end_ns),
        one.lost + other.lost,
    )


def scored(
    run: str, ledger: Sequence[Row], troubles: Sequence[Trouble], places: Mapping[str, set[str]], healthy: Healthy
) -> list[Score]:
    """The scores of a run's troubles; windows that meet none go to `healthy`, but for one after each trouble."""
    found = [Score(run, each) for each in troubles]
    for row in ledger:
        begin, end = row["end_ns"] - row["window_ns"], row["end_ns"]
        met = [each for each in found if begin < each.trouble.end_ns and end > each.trouble.onset_ns]
        if met:
            _add(met[0], row, places)
        elif not any(begin < each.end_ns + row["window_ns"] and end > each.onset_ns for each in troubles):
            healthy.lost += row["lost_gpu_seconds"]
            healthy.gpu_seconds += row["gpu_seconds"]
    return found


def _add(score: Score, row: Row, places: Mapping[str, set[str]]) -> None:
    lost, owner, category = row["lost_gpu_seconds"], row["owner"] or "", row["category"]
    if not lost:
        return
    key = category, owner
    score.owners[key] = score.owners.get(key, 0.0) + lost
    if category == "unknown" or not owner:
        score.unknown += lost
        return
    score.owned += lost
    score.right += lost * is_right(category, owner, score.trouble, places)
    score.category += lost * any(category in CATEGORIES.get(layer, ()) for layer in score.trouble.layers)
