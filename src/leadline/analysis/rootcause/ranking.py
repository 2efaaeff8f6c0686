"""Which entities of a graph are the likeliest causes, by their metrics and relations alone."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.rootcause import symptom as symptoms
from leadline.analysis.rootcause.deviation import LEAST
from leadline.analysis.rootcause.evidence import Evidence, evidence, strength
from leadline.analysis.rootcause.propagation import Calls
from leadline.analysis.rootcause.question import Question
from leadline.analysis.rootcause.readings import Pair, Readings
from leadline.analysis.rootcause.roles import Role, roles
from leadline.model.errors import UnknownNameError, UsageError

Flags = NDArray[np.bool_]
Roles = dict[Role, list[str]]

FLOORS = {Role.FAILED: symptoms.FAILED_FLOOR, Role.LATENCY: symptoms.LATENCY_FLOOR_S}
"""Least spread of a baseline, by the role of the symptom's metric; in the order in which a symptom is looked for."""


class State(StrEnum):
    """What is known, in the words of `leadline diagnose`."""

    OK = "ok"  # nothing is unusual
    WARNING = "warning"  # the symptom is there, its cause is not known
    CRITICAL = "critical"  # causes are named
    UNKNOWN = "unknown"  # too little was read to tell


@dataclass(frozen=True, slots=True)
class Witness:
    """One piece of evidence of a cause."""

    what: str  # a metric, or what is late
    share: float  # 0 to 1: of the symptom that is explained, or of what the entity has that is eaten
    found: float | None = None  # mean of the judged intervals, in the unit of the metric
    baseline: float | None = None  # up to here a reading is usual


@dataclass(frozen=True, slots=True)
class Cause:
    """An entity that explains the symptom, or against which most speaks."""

    entity: str
    share: float  # 0 to 1: of the symptom; without one, how much speaks against the entity
    inferred: bool  # nothing was measured of it: its caller cannot account for what it loses
    path: tuple[str, ...]  # from the symptom to the cause, along relations; the entity alone without a symptom
    evidence: tuple[Witness, ...]  # the strongest first


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answer: causes, the likeliest first."""

    state: State
    why: str  # of ok, warning and unknown
    causes: tuple[Cause, ...]
    metric: str  # of the symptom; empty without one
    judged: int  # intervals
    normal: int  # intervals that were learned from
    missing: tuple[str, ...]  # entities between symptom and causes, or anywhere, of which nothing was read
    unused: tuple[str, ...]  # metrics without a role


def ranked_causes(of: Readings, relations: Sequence[Pair], question: Question) -> Ranking:
    """Which entities are the likeliest causes of what happened in the judged span.

    Inputs: readings; relations, (from, to): `from` depends on `to`, as a caller on whom it calls, or a service on the
    host that it runs on. With a symptom, entities that it reaches by relations are ranked by how much of the symptom
    they explain (`symptom`); without, all entities by how much speaks against them (`evidence`).
    Returns: `Ranking`. Nothing is named that happens by chance in normal operation; then the state says why.
    Errors: UnknownNameError for a symptom of which nothing was told; UsageError for metrics that do not say enough, or
    roles that cannot be.
    """
    metrics_of = roles(of.metrics, question.roles)
    pairs = [pair for pair in dict.fromkeys(relations) if pair[0] != pair[1]]
    entities = tuple(sorted(of.entities | {name for pair in pairs for name in pair}))
    asked = _Asked(of, metrics_of, entities, pairs, question.judged_T(of), question.normal_T(of))
    if question.symptom:
        metrics = asked.metrics_of_symptom(question)
        return asked.too_little() or asked.of_symptom(question.symptom, metrics)
    asked.require_evidence()
    return asked.too_little() or asked.without_symptom()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is there to answer with."""

    of: Readings
    roles: Roles
    entities: tuple[str, ...]
    pairs: list[Pair]
    judged_T: Flags
    normal_T: Flags

    def answer(
        self, state: State, why: str, causes: Sequence[Cause] = (), metric: str = "", missing: Sequence[str] = ()
    ) -> Ranking:
        """With what is the same in every answer."""
        used = {name for names in self.roles.values() for name in names}
        unused = tuple(name for name in self.of.metrics if name not in used)
        counts = int(self.judged_T.sum()), int(self.normal_T.sum())
        return Ranking(state, why, tuple(causes), metric, *counts, tuple(missing), unused)

    def too_little(self) -> Ranking | None:
        """The answer, if nothing can be told from so few readings."""
        if not self.judged_T.any():
            return self.answer(State.UNKNOWN, "nothing was read in the time that is judged")
        if self.normal_T.sum() < LEAST:
            got = int(self.normal_T.sum())
            return self.answer(
                State.UNKNOWN, f"{got} intervals of normal operation were read; {LEAST} are the least to learn from"
            )
        return None

    def metrics_of_symptom(self, question: Question) -> list[tuple[str, Role]]:
        """The metrics that may show the symptom. Errors: UnknownNameError, UsageError."""
        name = question.symptom
        if name not in self.entities:
            near = difflib.get_close_matches(name, self.entities, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UnknownNameError(f"no reading and no relation is of {name!r}{hint}")
        read = {each.metric for each in self.of.series if (each.entity, each.to) == (name, "")}
        found = [(metric, role) for role in FLOORS for metric in self.roles.get(role, []) if metric in read]
        wanted = [each for each in found if question.metric in ("", each[0])]
        if not wanted:
            raise UsageError(
                f"a symptom is a metric with the role {' or '.join(FLOORS)}, and {name} has "
                f"{'none called ' + question.metric if found else 'none'}; of it were read: "
                f"{', '.join(sorted(read)) or 'nothing'}"
            )
        return wanted

    def of_symptom(self, name: str, metrics: Sequence[tuple[str, Role]]) -> Ranking:
        """By the first of the metrics that rose; if none did, by the last."""
        for metric, role in metrics:
            found = self._explained(name, metric, role)
            if found.rose:
                break
        missing = [self.entities[n] for n in found.found.missing]
        if not np.isfinite(found.mean_N[found.found.target]):
            return self.answer(State.UNKNOWN, f"{metric} of {name} was not read in that time", (), metric, missing)
        if not np.isfinite(found.bad.middle_N[found.found.target]):
            why = f"{metric} of {name} was read in too few intervals of normal operation, fewer than {LEAST}"
            return self.answer(State.UNKNOWN, why, (), metric, missing)
        causes = [self._cause(found, metric, n) for n in found.ranked]
        if causes:
            return self.answer(State.CRITICAL, "", causes, metric, missing)
        if found.rose:
            why = f"{metric} of {name} rose, and no other entity explains more of it than happens by chance"
            return self.answer(State.WARNING, why, (), metric, missing)
        return self.answer(State.OK, f"{metric} of {name} is as usual", (), metric, missing)

    def _explained(self, name: str, metric: str, role: Role) -> symptoms.Symptom:
        calls, target = Calls.of(self.entities, self.pairs), self.entities.index(name)
        bad_TN = self.of.of_entities(metric, self.entities)
        return symptoms.explain(
            bad_TN, self._requests(bad_TN), calls, target,
            judged_T=self.judged_T, normal_T=self.normal_T, floor=FLOORS[role],
        )  # fmt: skip

    def _requests(self, bad_TN: NDArray[np.float64]) -> NDArray[np.float64]:
        """Requests to each entity; one in each interval where no metric tells of them, so that seconds still add up."""
        names = self.roles.get(Role.REQUESTS)
        return self.of.of_entities(names[0], self.entities) if names else np.ones_like(bad_TN)

    def _cause(self, found: symptoms.Symptom, metric: str, n: int) -> Cause:
        bad, target = found.bad, found.found.target
        chain = Calls.of(self.entities, self.pairs).chain(target, n)
        mean, baseline = float(found.mean_N[n]), float(bad.middle_N[n] + bad.baseline_N[n])
        share = float(found.found.share_N[n])
        witness = Witness(metric, share, _number(mean), _number(baseline))
        inferred = bool(found.found.inferred_N[n])
        path = tuple(self.entities[place] for place in chain)
        return Cause(self.entities[n], share, inferred, path, () if inferred else (witness,))

    def require_evidence(self) -> None:
        """Errors: UsageError if no metric says anything without a symptom."""
        saying = {Role.USE, Role.LATENCY, Role.WAITING, Role.CALLER_LATENCY, Role.CALLEE_LATENCY}
        if not saying & set(self.roles):
            raise UsageError(
                f"without a symptom a metric is needed with the role {', '.join(sorted(saying))}; there are "
                f"{', '.join(self.of.metrics)}: assign one, or name the entity that is slow or fails"
            )

    def without_symptom(self) -> Ranking:
        """By how much speaks against each entity."""
        told = evidence(self.of, self.roles, self.entities, self.pairs, self.normal_T)
        found_KN = told.found(self.judged_T, self.normal_T)
        strength_N = strength(found_KN)
        order = sorted(range(len(self.entities)), key=lambda n: (-strength_N[n], n))
        read = self.of.entities
        missing = [name for name in self.entities if name not in read]
        causes = [
            Cause(
                self.entities[n], float(strength_N[n]), False, (self.entities[n],), self._witnesses(told, found_KN, n)
            )
            for n in order
            if strength_N[n] > 0
        ]
        if causes:
            return self.answer(State.CRITICAL, "", causes, missing=missing)
        return self.answer(State.OK, "no entity deviates more than it does on quiet days", missing=missing)

    def _witnesses(self, told: Evidence, found_KN: NDArray[np.float64], n: int) -> tuple[Witness, ...]:
        out = []
        for kind, share in zip(told.kinds, found_KN[:, n], strict=True):
            if share > 0:
                out.append(Witness(kind, float(share), *(told.reading(kind, n, self.judged_T) or ())))
        return tuple(sorted(out, key=lambda each: -each.share))


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
