"""What `cause` weighed of a case: the candidates for each part of what was lost, with what speaks for them, by group.

A candidate's score is a sum of groups of terms (`score`), each a weight of the table times what it is multiplied with
here: how many priors, how much blame, how many signs of each weight, those of a rule after the first counted half.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from evals.runs.scores import is_component
from evals.runs.truth import Trouble
from leadline.analysis.cause.cause import OVER_NS
from leadline.analysis.cause.choose import rivals_of
from leadline.analysis.cause.explain import explain
from leadline.analysis.cause.gather import Beside, context_of
from leadline.analysis.cause.known import known_of
from leadline.analysis.cause.score import HALVING, WIDE_MIN, Candidate, score
from leadline.analysis.cause.signs import wide_share
from leadline.analysis.cause.symptoms import groups_of, symptoms_of
from leadline.analysis.cause.weights import BY_HAND, WEIGHTS
from leadline.analysis.colocation.edges import with_machines
from leadline.model.errors import LeadlineError
from leadline.runner.execute import InProcess, Task
from leadline.runner.worker import Outcome

SETTLE_NS = 8 * 10**9  # after its end a trouble's evidence is complete
GROUPS = tuple(name for name in BY_HAND if name != "unknown")
SIGNS = ("proof", "telling", "fitting", "weak")


@dataclass(frozen=True, slots=True)
class Weighed:
    """One candidate for one part of what was lost: `groups` as `GROUPS`, and `fixed`, which no weight multiplies."""

    entity: str
    rule: str
    groups: tuple[float, ...]
    fixed: float
    right: bool


@dataclass(frozen=True, slots=True)
class PartWeighed:
    """One part of what was lost, with its share of the case; `candidates` are rivals."""

    share: float
    candidates: tuple[Weighed, ...]


@dataclass(slots=True)
class Keeping:
    """Runs calls in this process and keeps those of `cause`, by the end of their window."""

    kept: dict[int, Task] = field(default_factory=dict)
    _inner: InProcess = field(default_factory=InProcess)

    def start(self) -> None:
        """Nothing to make ready."""

    def close(self) -> None:
        """Nothing to end."""

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        if task.analysis.name == "cause":
            self.kept[task.window.to_ns] = task
        return self._inner.submit(task)


def calls_of(trouble: Trouble, kept: Mapping[int, Task]) -> Iterator[Task]:
    """The calls of `cause` until the evidence of a trouble is complete, the last first."""
    asked = [at for at in kept if trouble.first_lost_ns < at <= trouble.end_ns + SETTLE_NS]
    return (kept[at] for at in sorted(asked, reverse=True))


def tables_of(task: Task) -> dict[str, pa.Table]:
    """What a call of `cause` was given, by name, as `gather` wants it: machines among the relations."""
    given: dict[str, pa.Table] = {}
    for read, rows in zip(task.analysis.reads, task.tables, strict=True):
        given.setdefault(read.table.name, rows)  # incidents come twice, the second time with what waits for them
    return {**given, "relation": with_machines(given["relation"], given["colocation"])}


def weighed(trouble: Trouble, task: Task) -> list[PartWeighed]:
    """What was weighed of a trouble in a call of `cause`: none where it had no symptom."""
    given = tables_of(task)
    symptoms = symptoms_of(given["symptom"].to_pylist(), task.window.to_ns, OVER_NS)
    symptoms = [each for each in symptoms if each.until_ns(task.window.to_ns) > trouble.onset_ns]
    known = known_of(given["incident"].to_pylist(), given["cause"].to_pylist())
    context = context_of(symptoms, known, Beside(*(given[name] for name in Beside._fields)), task.window)
    groups = groups_of(symptoms, task.window.to_ns)
    lost = [sum(max(each.lost_gpu_s, 1e-3) for each in group) for group in groups]
    found = []
    for group, much in zip(groups, lost, strict=True):
        scored = score(explain(group, context), context)
        for place, part in enumerate(scored.parts):
            rivals = rivals_of(scored, place, context.ground.topology)
            wide = {id(each): wide_share(each.entity, context, each.told) for each in rivals if each.rule.wide}
            rows = tuple(_weighed(each, place, wide.get(id(each), 1.0), trouble) for each in rivals)
            found.append(PartWeighed(part.weight * much / sum(lost), rows))
    return found


def _weighed(candidate: Candidate, place: int, wide: float, trouble: Trouble) -> Weighed:
    rule = candidate.rule
    much = dict.fromkeys(GROUPS, 0.0)
    much["common" if rule.prior == WEIGHTS.common else "rare"] = 1.0
    for number, each in enumerate(candidate.told):
        strongest = max(one.weight for one in rule.signs if one.fits(*each.piece.face))
        counted = HALVING**number * (1.0 if wide >= WIDE_MIN else wide)
        much[class_of(strongest)] += each.weight / strongest * counted
    parts = candidate.parts(place)
    much["blame"] = parts.get("blame", 0.0) / WEIGHTS.blame
    much["breadth"] = parts.get("breadth", 0.0) / WEIGHTS.breadth
    much["alone"] = parts.get("alone", 0.0) / WEIGHTS.alone
    told = sum(getattr(WEIGHTS, name) * value for name, value in much.items())
    right = any(is_component(candidate.entity, fault.components) for fault in trouble.faults)
    groups = tuple(much[name] for name in GROUPS)
    return Weighed(candidate.entity, rule.name, groups, candidate.logit(place) - told, right)


def class_of(weight: float) -> str:
    """The class of signs that have this weight."""
    return min(SIGNS, key=lambda name: abs(getattr(WEIGHTS, name) - weight))


def rows_of(parts: Iterable[PartWeighed]) -> list[Any]:
    """As they are kept in a file."""
    return [
        [part.share, [[one.entity, one.rule, list(one.groups), one.fixed, one.right] for one in part.candidates]]
        for part in parts
    ]


def parts_from(rows: Sequence[Any], where: str) -> list[PartWeighed]:
    """What `rows_of` told. Errors: LeadlineError for what it did not."""
    try:
        return [PartWeighed(float(share), tuple(_read(each) for each in told)) for share, told in rows]
    except (TypeError, ValueError) as error:
        raise LeadlineError(f"{where}: expected parts with candidates, as evals.learned keeps them; {error}") from error


def _read(row: Sequence[Any]) -> Weighed:
    entity, rule, groups, fixed, right = row
    if len(groups) != len(GROUPS):
        raise ValueError(f"groups of another version, expected {', '.join(GROUPS)}")
    return Weighed(str(entity), str(rule), tuple(map(float, groups)), float(fixed), bool(right))
