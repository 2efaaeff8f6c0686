"""Verdicts and second opinions held against what was broken. Pure.

Each incident of a trouble that costs 5 % or more counts once. The ranking is right if the first cause that it names is
of the trouble; the model is if its choice is. Unknown is neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.figures import Figure

from evals.runs.judged import Judged
from evals.runs.scores import is_component, scored
from leadline.explain.opinion import Opinion
from leadline.explain.states import OK
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.view import incidents_of


@dataclass(frozen=True, slots=True)
class Case:
    """One incident, and the components that were broken."""

    run: str
    incident: Incident
    broken: frozenset[str]

    def right(self, entity: str) -> bool:
        """Whether that is what was broken."""
        return is_component(entity, self.broken)


@dataclass(frozen=True, slots=True)
class Held:
    """A case with what the model made of it. `kept`, `said`: its sentences that held, and all."""

    case: Case
    opinion: Opinion
    kept: int
    said: int

    @property
    def ranked(self) -> str:
        """What the ranking names first; empty: it says that the cause is unknown."""
        one = self.case.incident
        return one.chosen[0].entity if one.known else ""

    @property
    def both(self) -> bool:
        """Whether both name the same component."""
        return self.opinion.state == OK and bool(self.ranked) and self.opinion.entity == self.ranked

    @property
    def possible(self) -> bool:
        """Whether what was broken is among the candidates."""
        return any(self.case.right(each.entity) for each in self.case.incident.causes)


def cases_of(judged: Judged) -> Iterator[Case]:
    """The incidents of a run that are of a trouble which had to be found."""
    rows = judged.verdicts
    for row in rows.incidents:
        scores, _ = scored(judged.run, judged.truth, replace(rows, incidents=[row]))
        mine = [each for each in scores if each.incidents and each.trouble.costing]
        if not mine:
            continue
        parts = frozenset(part for each in mine[0].trouble.faults for part in each.components)
        (incident,) = incidents_of([row], rows.causes, rows.symptoms)
        if incident.causes:
            yield Case(judged.run, incident, parts)


def figures(held: Sequence[Held]) -> list[Figure]:
    """Shares of all cases, unless the name says otherwise."""
    agree = [each for each in held if each.both]
    differ = [each for each in held if each.opinion.state == OK and not each.both]
    named_wrong = _share(held, lambda each: bool(each.ranked) and not _ranking_right(each))
    chose_wrong = _share(held, lambda each: bool(each.opinion.entity) and not _model_right(each))
    return [
        Figure("ranking_right", _share(held, _ranking_right), "ratio"),
        Figure("ranking_wrong", named_wrong, "ratio", better="lower"),
        Figure("model_right", _share(held, _model_right), "ratio"),
        Figure("model_wrong", chose_wrong, "ratio", better="lower"),
        Figure("both_right", _share(held, lambda each: each.both and _model_right(each)), "ratio"),
        Figure("agree_share", _of(len(agree), len(held)), "ratio"),
        Figure("right_where_they_agree", _share(agree, _ranking_right), "ratio"),
        Figure("ranking_right_where_not", _share(differ, _ranking_right), "ratio"),
        Figure("model_right_where_not", _share(differ, _model_right), "ratio"),
        Figure("candidate_right", _share(held, lambda each: each.possible), "ratio"),
        Figure("reason_held", _share(held, lambda each: bool(each.opinion.reason)), "ratio"),
        Figure("sentences_held", _of(sum(each.kept for each in held), sum(each.said for each in held)), "ratio"),
        Figure("chance_right", _of(sum(map(_chance, held)), len(held)), "ratio"),
    ]  # fmt: skip


def _ranking_right(each: Held) -> bool:
    return bool(each.ranked) and each.case.right(each.ranked)


def _model_right(each: Held) -> bool:
    return bool(each.opinion.entity) and each.case.right(each.opinion.entity)


def _chance(each: Held) -> float:
    """How likely a candidate drawn by lot would be right."""
    causes = each.case.incident.causes
    return sum(each.case.right(one.entity) for one in causes) / (len(causes) + 1)  # it may say unknown


def _share(of: Sequence[Held], is_so: Callable[[Held], bool]) -> float | None:
    return _of(sum(map(is_so, of)), len(of))


def _of(part: float, whole: float) -> float | None:
    return part / whole if whole else None
