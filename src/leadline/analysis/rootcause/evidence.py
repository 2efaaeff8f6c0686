"""Without a symptom: how much of what each entity has is eaten.

Small services fail without the front noticing, so there may be no symptom to start from. Then every entity is told by
how much of its resources is eaten (processor, memory, ...), how much of the time it takes is unusual and its own, and
how much of the way to it. The last is what a caller waits beyond what the callee sees, which is where a slow network
shows, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.rootcause.deviation import Baseline, baseline, excess, headroom_eaten, rise
from leadline.analysis.rootcause.propagation import Calls, own_losses
from leadline.analysis.rootcause.question import QUIET, window_length
from leadline.analysis.rootcause.readings import Pair, Readings
from leadline.analysis.rootcause.roles import Role

Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]

LATENCY_FLOOR_S = 0.001  # spread: the resolution in which latencies of services are usually given
USE_FLOOR = 0.01  # spread: one percent of the resource
OWN, WAY, WAITING = "its own time", "the way to it", "its waiting for others"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks against N entities in T intervals: kinds K of evidence, 0 (as usual) to 1 (all is eaten)."""

    kinds: tuple[str, ...]  # names of use metrics, or what is late
    share_KTN: NDArray[np.float64]
    use: Mapping[
        str, tuple[Matrix, NDArray[np.float64]]
    ]  # by use metric: readings (T, N), and what they are up to usually

    def found(self, judged_T: Flags, normal_T: Flags) -> Matrix:
        """How much of each kind speaks against each entity in the judged intervals, (K, N): 0 where it is usual.

        Usual is what a kind of evidence reaches in `QUIET` of the normal windows.
        """
        count = int(judged_T.sum())
        if not count:
            return np.zeros((len(self.kinds), self.share_KTN.shape[2]))
        found_KN = self.share_KTN[:, judged_T].mean(axis=1)
        kept_KN: Matrix = np.where(found_KN > self._baseline(normal_T, count), found_KN, 0.0)
        return kept_KN

    def reading(self, kind: str, n: int, judged_T: Flags) -> tuple[float, float] | None:
        """Of a use metric of an entity: the mean of the judged intervals, and up to where it is usual."""
        if kind not in self.use:
            return None
        use_TN, baseline_N = self.use[kind]
        return float(np.nanmean(use_TN[judged_T, n])), float(baseline_N[n])

    def _baseline(self, normal_T: Flags, judged: int) -> Matrix:
        quiet_KTN = self.share_KTN[:, normal_T]
        kinds, count, entities = quiet_KTN.shape
        length = window_length(judged, count)
        whole = count // length * length
        if not whole:
            return np.zeros((kinds, entities))
        windows_KWN = quiet_KTN[:, :whole].reshape(kinds, -1, length, entities).mean(axis=2)
        baseline_KN: Matrix = np.quantile(windows_KWN, QUIET, axis=1)
        return baseline_KN


def strength(found_KN: Matrix) -> NDArray[np.float64]:
    """How much speaks against each entity, (N,), 0 to 1: kinds are independent witnesses, 1 - product(1 - each)."""
    left_N: NDArray[np.float64] = (1.0 - found_KN).prod(axis=0)
    return 1.0 - left_N


def evidence(
    of: Readings, roles: dict[Role, list[str]], entities: Sequence[str], pairs: Sequence[Pair], normal_T: Flags
) -> Evidence:
    """What speaks against each of N entities, by the roles that the metrics have.

    An unknown reading counts as a usual one. Sources: utilisation and saturation, Gregg, CACM 56 (2013); own time as in
    `propagation.own_losses`.
    """
    told = _Told(of, roles, entities, pairs, normal_T)
    use = {name: told.used(name) for name in roles.get(Role.USE, [])}
    kinds = [(name, headroom_eaten(use_TN, of_use, 1.0)) for name, (use_TN, of_use) in use.items()]
    if told.of_relations:
        kinds += told.late_with_ways()
    elif pairs and Role.LATENCY in roles:
        kinds.append((OWN, told.late_of_its_own()))
    else:
        kinds += told.late_alone()
    names = tuple(name for name, _ in kinds)
    shape = (len(kinds), len(of.first_T), len(entities))
    share_KTN = np.nan_to_num(np.array([share_TN for _, share_TN in kinds]).reshape(shape))
    baseline = {name: (use_TN, of_use.middle_N + of_use.baseline_N) for name, (use_TN, of_use) in use.items()}
    return Evidence(names, share_KTN, baseline)


@dataclass(frozen=True, slots=True)
class _Told:
    """Readings by role."""

    of: Readings
    roles: dict[Role, list[str]]
    entities: Sequence[str]
    pairs: Sequence[Pair]
    normal_T: Flags

    @property
    def of_relations(self) -> bool:
        """Whether relations have latencies of their own."""
        return bool(self.pairs) and (Role.CALLER_LATENCY in self.roles or Role.CALLEE_LATENCY in self.roles)

    def entity(self, role: Role) -> Matrix:
        """(T, N); NaN if no metric has the role."""
        return self.of.of_entities(self._name(role), self.entities)

    def relation(self, role: Role) -> Matrix:
        """(T, E); NaN if no metric has the role."""
        return self.of.of_relations(self._name(role), self.pairs)

    def used(self, metric: str) -> tuple[Matrix, Baseline]:
        """How much of a resource is in use, (T, N), and what is usual."""
        use_TN = self.of.of_entities(metric, self.entities)
        return use_TN, baseline(use_TN[self.normal_T], floor=USE_FLOOR)

    def load(self) -> Matrix:
        """Requests; where fewer than usual, as many as usual: an entity that stands still serves nobody."""
        told_TN = self.entity(Role.REQUESTS)
        if Role.REQUESTS not in self.roles:
            return np.ones_like(told_TN)
        return np.fmax(told_TN, baseline(told_TN[self.normal_T]).middle_N)

    def late_with_ways(self) -> list[tuple[str, Matrix]]:
        """Which shares of the time that entities take, and of the way to them, are unusual and their own.

        Caller -> the way to the callee -> callee: the caller waits for the way, and the way for the callee.
        """
        count, load_TN, served_TN = len(self.entities), self.load(), self.entity(Role.LATENCY)
        inner_TN, inner_late_TN = self._latest(Role.CALLEE_LATENCY)
        outer_TN, outer_late_TN = self._latest(Role.CALLER_LATENCY)
        # Relations and entities may be told at different percentiles: of one entity only one of them may count.
        told_TN = np.isfinite(inner_TN)
        inner_late_TN = np.where(told_TN, inner_late_TN, self._rise(served_TN))
        inner_TN = np.where(told_TN, inner_TN, served_TN)
        late_TN = np.concatenate([inner_late_TN * load_TN, outer_late_TN * load_TN], axis=1)
        taken_TN = np.concatenate([inner_TN * load_TN, outer_TN * load_TN], axis=1)
        share_TN = _over(own_losses(late_TN, self._with_ways()), taken_TN)
        return [(OWN, share_TN[:, :count]), (WAY, share_TN[:, count:])]

    def late_of_its_own(self) -> Matrix:
        """The share of the time that entities take which is unusual, and none of those whom they call."""
        served_TN, load_TN = self.entity(Role.LATENCY), self.load()
        calls = Calls.of(self.entities, self.pairs)
        return _over(own_losses(self._rise(served_TN) * load_TN, calls), served_TN * load_TN)

    def late_alone(self) -> list[tuple[str, Matrix]]:
        """The same where relations are not known: of the time that entities take, and that they wait for others.

        While nobody asks anything of one, its waiting harms nobody: connections that are kept open wait for hours.
        """
        asked_TN = self.entity(Role.REQUESTS) > 0
        asked_TN |= Role.REQUESTS not in self.roles
        late = []
        for kind, role in ((OWN, Role.LATENCY), (WAITING, Role.WAITING)):
            if role in self.roles:
                found_TN = np.where(asked_TN, self.entity(role), 0.0)
                late.append((kind, _over(self._beyond(found_TN, asked_TN), found_TN)))
        return late

    def _name(self, role: Role) -> str:
        return self.roles.get(role, [""])[0]

    def _latest(self, role: Role) -> tuple[Matrix, Matrix]:
        """Of the calls of each entity the latest: what was seen of it, and by how much it is late, (T, N)."""
        seen_TE = self.relation(role)
        late_TE = self._rise(seen_TE)
        at = {name: place for place, name in enumerate(self.entities)}
        seen_TN, late_TN = np.full((2, len(seen_TE), len(self.entities)), np.nan)
        for each, (_, callee) in enumerate(self.pairs):
            n = at[callee]
            better_T = np.isfinite(late_TE[:, each]) & ~(late_TN[:, n] >= late_TE[:, each])
            seen_TN[better_T, n], late_TN[better_T, n] = seen_TE[better_T, each], late_TE[better_T, each]
        return seen_TN, late_TN

    def _with_ways(self) -> Calls:
        """Entities and, after them, the way to each."""
        count, at = len(self.entities), {name: place for place, name in enumerate(self.entities)}
        caller_E = [at[caller] for caller, _ in self.pairs] + list(range(count, 2 * count))
        callee_E = [count + at[callee] for _, callee in self.pairs] + list(range(count))
        return Calls(2 * count, np.array(caller_E, dtype=np.int64), np.array(callee_E, dtype=np.int64))

    def _rise(self, found_TN: Matrix) -> Matrix:
        return rise(found_TN, baseline(found_TN[self.normal_T], floor=LATENCY_FLOOR_S))

    def _beyond(self, found_TN: Matrix, learn_TN: Flags) -> Matrix:
        learned_TN = np.where(learn_TN & self.normal_T[:, None], found_TN, np.nan)
        return excess(found_TN, baseline(learned_TN, floor=LATENCY_FLOOR_S))


def _over(part_TN: Matrix, whole_TN: Matrix) -> Matrix:
    return np.divide(part_TN, whole_TN, out=np.zeros_like(part_TN), where=whole_TN > 0)
