"""What was broken in a lab run, when, and what it cost: the truth that verdicts are held against.

    steps of rank 0   |--|--|--|--|----|----|-----|--|--|         usual: the median before the fault
    fault                       |=============|                   lost: what its steps took longer than that
                                ^onset ^first lost second

Faults that overlap in time are one trouble: whose a second was that two made longer nobody can say. Method:
docs/analyses/lab-evals.md.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from leadline.lab.loss import USUAL_MIN, Span, Step, losses
from leadline.model.errors import LeadlineError
from leadline.model.tables import BY_NAME as TABLES
from leadline.store.bundle import Bundle

S = 10**9
Row = Mapping[str, Any]

COST_SHARE_MIN = 0.05  # of its job's GPU time, while it lasts: what costs less need not be found
SLOWER_MIN = 1.25  # a step so much longer than usual is lost time; steps of a healthy lab vary by 5 to 8 %
STALL_S, STALL_TIMES = 2.0, 5.0  # a step that takes so much longer, and so many times as long, stands still


@dataclass(frozen=True, slots=True)
class Work:
    """One job of a run: its steps (one rank's stand for all, they wait for each other) and its ranks."""

    job: str
    steps: tuple[Step, ...]  # or from the end of a collective to the next, where it tells no steps
    gpus: int
    ranks: int

    @property
    def rounds(self) -> list[Step]:
        """From the end of a step to the next: a job may stand still between two of them."""
        ends = sorted(end for _, end in self.steps)
        return [*self.steps[:1], *pairwise(ends)]


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a truth file with what it cost. Times ns."""

    name: str
    components: frozenset[str]
    layer: str
    fault_class: str
    onset_ns: int
    end_ns: int
    magnitude: str
    lost: float  # GPU-seconds; of all jobs
    share: float  # of the GPU time that its worst job held meanwhile, less what that job loses when nothing is broken
    decoy: bool = False

    @property
    def costs(self) -> bool:
        """Whether it has to be found."""
        return self.share >= COST_SHARE_MIN


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault, or several that overlap in time."""

    faults: tuple[Fault, ...]
    first_lost_ns: int  # when the first round begins that takes longer, not before the onset
    stalled: bool  # a job stood still, or died

    @property
    def name(self) -> str:
        return " + ".join(dict.fromkeys(each.name for each in self.faults))

    @property
    def onset_ns(self) -> int:
        return min(each.onset_ns for each in self.faults)

    @property
    def end_ns(self) -> int:
        return max(each.end_ns for each in self.faults)

    @property
    def costing(self) -> tuple[Fault, ...]:
        """Those that have to be found."""
        return tuple(each for each in self.faults if each.costs)

    @property
    def magnitude(self) -> str:
        """Of those that have to be found; `mixed` where they differ."""
        words = {each.magnitude for each in self.costing or self.faults}
        return words.pop() if len(words) == 1 else "mixed"


@dataclass(frozen=True, slots=True)
class Truth:
    """A run: what went wrong, what was harmless, and how long it was watched."""

    troubles: tuple[Trouble, ...]
    decoys: tuple[Fault, ...]
    from_ns: int
    to_ns: int


def read_truth(path: Path) -> list[Row]:
    """The entries of a truth file. Errors: LeadlineError."""
    try:
        found = json.loads(path.read_text())["faults"]
        known = all({"fault", "component", "layer", "class", "onset_ns", "end_ns"} <= each.keys() for each in found)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise LeadlineError(
            f"{path}: expected a truth file of the lab (docs/lab/scenarios.md), got {error!r}"
        ) from error
    if not known:
        raise LeadlineError(
            f"{path}: expected faults with component, layer, class, onset_ns and end_ns (docs/lab/scenarios.md)"
        )
    return [dict(each) for each in found]


def truth_of(entries: Sequence[Row], works: Sequence[Work], from_ns: int, to_ns: int) -> Truth:
    """What a truth file says of a run, with costs measured on the steps of its jobs."""
    spans = [Span(each["onset_ns"], each["end_ns"] or to_ns, bool(each.get("decoy"))) for each in entries]
    costs = [_costs(work, spans, to_ns) for work in works]  # by job, then by fault
    faults = [
        _fault(entry, span, [cost[at] for cost in costs])
        for at, (entry, span) in enumerate(zip(entries, spans, strict=True))
    ]
    broken = sorted((each for each in faults if not each.decoy), key=lambda each: each.onset_ns)
    groups: list[list[Fault]] = []
    for each in broken:
        if groups and each.onset_ns < max(one.end_ns for one in groups[-1]):
            groups[-1].append(each)
        else:
            groups.append([each])
    troubles = tuple(_trouble(group, works, to_ns) for group in groups)
    return Truth(troubles, tuple(each for each in faults if each.decoy), from_ns, to_ns)


def _fault(entry: Row, span: Span, costs: Sequence[tuple[float, float]]) -> Fault:
    return Fault(
        name=entry["fault"],
        components=frozenset(entry["component"]),
        layer=entry["layer"],
        fault_class=entry["class"],
        onset_ns=span.onset_ns,
        end_ns=span.end_ns,
        magnitude=entry.get("magnitude") or "unnamed",
        lost=sum(lost for lost, _ in costs),
        share=max((share for _, share in costs), default=0.0),
        decoy=span.decoy,
    )


def _costs(work: Work, spans: Sequence[Span], to_ns: int) -> list[tuple[float, float]]:
    """Of each fault, what it cost one job: GPU-seconds, and the share of its GPU time that is beyond the usual loss."""
    steps = with_open_end(with_gaps(work.steps), to_ns)
    out = []
    for span, loss in zip(spans, losses(steps, spans, work.gpus), strict=True):
        held = work.gpus * (span.end_ns - span.onset_ns) / S
        if loss is None or held <= 0:
            out.append((0.0, 0.0))
        else:
            out.append((loss.gpu_seconds, min(1.0, loss.gpu_seconds / held) - _usual_loss(steps, span.onset_ns)))
    return out


def _usual_loss(steps: Sequence[Step], before_ns: int) -> float:
    """The share of its time that a job loses by that measure while nothing is broken: steps vary, and only those that
    are longer than the median count."""
    lengths = [end - start for start, end in steps if end <= before_ns]
    if len(lengths) < USUAL_MIN:
        return 0.0
    usual = statistics.median(lengths)
    return sum(max(0.0, each - usual) for each in lengths) / sum(lengths)


def with_gaps(steps: Sequence[Step]) -> list[Step]:
    """The steps of a job, and as one more each what lies between two of them while it stands still: it died and began
    again, or something held it up between two steps."""
    if len(steps) < USUAL_MIN:
        return list(steps)
    usual = statistics.median(end - start for start, end in steps)
    gaps = [(end, start) for (_, end), (start, _) in pairwise(steps) if stands_still(start - end, usual)]
    return sorted([*steps, *gaps])


def with_open_end(steps: Sequence[Step], to_ns: int) -> list[Step]:
    """The steps of a job and one more until the end of the recording, if the job stands still or died in it."""
    out = list(steps)
    if len(out) < USUAL_MIN:
        return out
    usual = statistics.median(end - start for start, end in out)
    last = out[-1][1]
    return [*out, (last, to_ns)] if stands_still(to_ns - last, usual) else out


def stands_still(length_ns: float, usual_ns: float) -> bool:
    """Whether a step of this length is no slow step any more."""
    return length_ns >= usual_ns + STALL_S * S and length_ns >= STALL_TIMES * usual_ns


def _trouble(faults: Sequence[Fault], works: Sequence[Work], to_ns: int) -> Trouble:
    onset, end = min(each.onset_ns for each in faults), max(each.end_ns for each in faults)
    first, stalled = [], False
    for work in works:
        rounds = with_open_end(work.rounds, to_ns)
        before = [b - a for a, b in rounds if b <= onset]
        if len(before) < USUAL_MIN:
            continue
        usual = statistics.median(before)
        meets = [(a, b) for a, b in rounds if a < end and b > onset]
        first += [max(onset, a) for a, b in meets if b - a >= SLOWER_MIN * usual][:1]
        stalled = stalled or any(stands_still(b - a, usual) for a, b in meets)
    return Trouble(tuple(faults), min(first, default=onset), stalled)


# --- the jobs of a bundle ---------------------------------------------------------------------------------------


def works_of(bundle: Bundle) -> list[Work]:
    """The jobs of a bundle that tell steps; of those that tell none, what lies between their collectives."""
    found = _by_job(_rows(bundle, "step", ("job", "rank", "start_ns", "end_ns")))
    out = [
        _work(job, rows, sorted((row["start_ns"], row["end_ns"]) for row in _lowest(rows)))
        for job, rows in found.items()
    ]
    told = _rows(bundle, "collective", ("job", "rank", "finished_ns"))
    for job, rows in _by_job(row for row in told if row["finished_ns"]).items():
        if job not in found:
            out.append(_work(job, rows, list(pairwise(sorted({row["finished_ns"] for row in _lowest(rows)})))))
    return sorted(out, key=lambda each: each.job)


def _by_job(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["job"], []).append(row)
    return found


def _lowest(rows: Sequence[Row]) -> list[Row]:
    """Those of the lowest rank that tells as much as any: one that died early does not stand for the job."""
    counts = Counter(row["rank"] for row in rows)
    most = max(counts.values())
    rank = min(rank for rank, count in counts.items() if count >= 0.9 * most)
    return [row for row in rows if row["rank"] == rank]


def _work(job: str, rows: Sequence[Row], steps: Sequence[Step]) -> Work:
    ranks = len({row["rank"] for row in rows})
    return Work(job, tuple(steps), ranks, ranks)


def _rows(bundle: Bundle, name: str, columns: Sequence[str]) -> list[Row]:
    if not any(table.name == name for table in bundle.tables):
        return []
    rows = pa.concat_tables([each.select(list(columns)) for each in bundle.groups(TABLES[name])])
    return [dict(row) for row in rows.to_pylist()]
