"""One expectation, second by second: which bound each bad second broke first, which seconds are good, which unknown.

bound ──> rows: value against threshold ──> broken_RC, known_RC, silent_RC
      ──> of each entity and second the worst row that broke the first broken bound: classifier, metric, culprit
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.sle.expectations import Bound, Expectation, Test, Threshold
from leadline.analysis.sle.readings import LOOK_BACK_S, Held, Readings, Values
from leadline.analysis.sle.seconds import ends_of, held_for, medians
from leadline.model.units import S

PAST_STEP_S = 10  # the own past is looked at every so many seconds
PAST_MIN = 6  # and is one if it was known at so many of these moments: 1 min
PEERS_MIN = 3  # of two that differ nobody knows which is right
_BLOCK = 4096  # rows of which pasts are sorted at a time, so that they stay in the cache


@dataclass(frozen=True, slots=True)
class Loss:
    """Bad seconds of one classifier."""

    bound: Bound
    metric: str
    culprit: int


@dataclass(slots=True)
class Account:
    """The seconds of one entity."""

    good: int = 0
    bad: int = 0
    missing: int = 0
    losses: list[tuple[Loss, int]] = field(default_factory=list)  # with their seconds; one may come more than once
    why: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """A test by row and column: whether its threshold is crossed, whether that is known, and by how much."""

    values: Values
    broken_RC: Bools
    known_RC: Bools
    excess_RC: Floats
    lacks: str  # what makes it unknown where there are values: past or peers


def accounts(expectation: Expectation, tenant: str, readings: Readings) -> dict[int, Account]:
    """The seconds of every entity that is there and that something is known of, by its number.

    Good: at least one bound is known to hold, and nothing that was told before is silent. Bad: a bound is broken. The
    rest is missing. An entity of which no bound applies at any time of the window (no such metric, no peers) has none.
    """
    columns = readings.window.window_ns // S
    held = Held.by(expectation, tenant)
    bounds = [(bound, _judged(bound, held, readings, columns)) for bound in expectation.bounds]
    found = [part for part in bounds if len(part[1].values.held_R)]
    if not found:
        return {}
    entity_E = np.unique(np.concatenate([told.values.held_R for _, told in found]))
    there_EC: Bools = np.zeros((len(entity_E), columns), bool)
    known_EC, silent_EC, applies_EC = there_EC.copy(), there_EC.copy(), there_EC.copy()
    first_EC = np.full((len(entity_E), columns), -1, np.int64)
    marks: list[tuple[Bound, Values, Ints]] = []
    reasons: list[tuple[str, Bools]] = []
    for bound, told in found:
        row_E = np.searchsorted(entity_E, told.values.held_R)
        np.logical_or.at(there_EC, row_E, told.values.begun_RC)
        np.logical_or.at(known_EC, row_E, told.known_RC)
        mute_EC = _silent(told, row_E, len(entity_E))
        silent_EC |= mute_EC
        lacks_EC = np.zeros_like(there_EC)
        if told.lacks == "past":
            unknown_RC = told.values.begun_RC & ~told.known_RC & ~np.isnan(told.values.value_RC)
            np.logical_or.at(lacks_EC, row_E, unknown_RC)
        applies_EC |= mute_EC | lacks_EC
        reasons += [(told.values.metric_R[0], mute_EC), (f"past of {told.values.metric_R[0]}", lacks_EC)]
        marks.append((bound, told.values, _worst(told, row_E, first_EC, len(marks), readings)))
    there_EC = there_EC & _alive(entity_E, readings, columns)
    bad_EC = (first_EC >= 0) & there_EC
    good_EC = there_EC & ~bad_EC & known_EC & ~silent_EC
    missing_EC = there_EC & ~bad_EC & ~good_EC
    judged_E: Bools = np.any(bad_EC | good_EC | (missing_EC & applies_EC), axis=1)
    sums = [part.sum(axis=1).tolist() for part in (good_EC, bad_EC, missing_EC)]
    out = {
        int(entity_E[place]): Account(sums[0][place], sums[1][place], sums[2][place])
        for place in np.flatnonzero(judged_E).tolist()
    }
    _classify(out, entity_E, bad_EC, first_EC, marks)
    _reason(out, entity_E, missing_EC, reasons)
    return out


def _classify(
    out: dict[int, Account], entity_E: Ints, bad_EC: Bools, first_EC: Ints, marks: list[tuple[Bound, Values, Ints]]
) -> None:
    """Each bad second to the bound that it broke first, and the row that broke it most."""
    entity_K, column_K = np.nonzero(bad_EC)
    first_K = first_EC[entity_K, column_K]
    for place in np.unique(first_K).tolist():
        bound, values, worst_EC = marks[place]
        own_K = first_K == place
        row_K = worst_EC[entity_K[own_K], column_K[own_K]]
        pair_P2, count_P = np.unique(np.column_stack([entity_K[own_K], row_K]), axis=0, return_counts=True)
        for (entity, row), count in zip(pair_P2.tolist(), count_P.tolist(), strict=True):
            key = Loss(bound, values.metric_R[row], int(values.culprit_R[row]))
            out[int(entity_E[entity])].losses.append((key, count))


def _reason(out: dict[int, Account], entity_E: Ints, missing_EC: Bools, reasons: list[tuple[str, Bools]]) -> None:
    """What most of the missing seconds of each entity lack; of equals the first."""
    most_E = np.zeros(len(entity_E), np.int64)
    why_E = np.full(len(entity_E), -1, np.int64)
    for place, (_, lacks_EC) in enumerate(reasons):
        count_E = (lacks_EC & missing_EC).sum(axis=1)
        more_E = count_E > most_E
        why_E[more_E], most_E[more_E] = place, count_E[more_E]
    for place, entity in enumerate(entity_E.tolist()):
        if entity in out and out[entity].missing:
            out[entity].why = reasons[why_E[place]][0] if why_E[place] >= 0 else "peers"


def _alive(entity_E: Ints, readings: Readings, columns: int) -> Bools:
    """Seconds in which jobs and ranks were there; other things are while something is told of them."""
    ends_C = ends_of(readings.window.to_ns, columns)
    found_EC = np.ones((len(entity_E), columns), bool)
    for place, entity in enumerate(entity_E.tolist()):
        if life := readings.lives.get(entity):
            found_EC[place] = (ends_C > life.born_ns) & (ends_C - S < life.died_ns)
    return found_EC


def _silent(told: Told, row_E: Ints, entities: int) -> Bools:
    """Entities of which a part is silent: all that a bound's metric tells of the part has stopped, (E, C).

    Not one series of several: exporters make a new one when a label changes, and the old one stops.
    """
    values = told.values
    pair_R2 = np.column_stack([row_E, values.culprit_R])
    _, first_P, part_R = np.unique(pair_R2, axis=0, return_index=True, return_inverse=True)
    heard_PC = np.zeros((len(first_P), values.value_RC.shape[1]), bool)
    begun_PC = heard_PC.copy()
    part_R = part_R.reshape(-1)
    np.logical_or.at(heard_PC, part_R, ~np.isnan(values.value_RC))
    np.logical_or.at(begun_PC, part_R, values.begun_RC)
    found_EC = np.zeros((entities, values.value_RC.shape[1]), bool)
    np.logical_or.at(found_EC, row_E[first_P], begun_PC & ~heard_PC)
    return found_EC


def _worst(told: Told, row_E: Ints, first_EC: Ints, place: int, readings: Readings) -> Ints:
    """Of each entity and second that no earlier bound has: the row that broke this one most; -1 where none did.

    Marks them in `first_EC` with the bound's place. Of equals the one whose culprit and metric come first by name.
    """
    worst_EC = np.full(first_EC.shape, -1, np.int64)
    row_K, column_K = np.nonzero(told.broken_RC)
    if not len(row_K):
        return worst_EC
    names = readings.scope.entities.names
    rows = np.unique(row_K).tolist()
    ranked = sorted(rows, key=lambda row: (names[told.values.culprit_R[row]], told.values.metric_R[row], row))
    rank_R = np.zeros(len(row_E), np.int64)
    rank_R[ranked] = np.arange(len(ranked))
    # The last that is written stays: so the worst comes last.
    order_K = np.lexsort((-rank_R[row_K], told.excess_RC[row_K, column_K]))
    row_K, column_K = row_K[order_K], column_K[order_K]
    entity_K = row_E[row_K]
    free_K = first_EC[entity_K, column_K] < 0
    worst_EC[entity_K[free_K], column_K[free_K]] = row_K[free_K]
    first_EC[worst_EC >= 0] = place
    return worst_EC


# --- bounds -------------------------------------------------------------------------------------------------------


def _judged(bound: Bound, held: Held, readings: Readings, columns: int) -> Told:
    """A bound in the seconds of the window: those before it only say for how long it has been broken."""
    run = max(1, round(bound.for_s))
    told = _told(bound.test, held, readings, columns + run - 1)
    for test in bound.when:
        other = _told(test, held, readings, columns + run - 1)
        told = _while(told, other)
    broken_RC = held_for(told.broken_RC & told.known_RC, run)[:, run - 1 :]
    values = told.values
    cut = Values(
        values.held_R, values.culprit_R, values.metric_R,
        values.value_RC[:, run - 1 :], values.begun_RC[:, run - 1 :],
    )  # fmt: skip
    return Told(cut, broken_RC, told.known_RC[:, run - 1 :], told.excess_RC[:, run - 1 :], told.lacks)


def _while(told: Told, other: Told) -> Told:
    """A test together with a condition: that of the same culprit, or else of any part of the same entity.

    Where the condition is known not to hold, so is the whole; where nothing of it is told at all, nothing is known.
    """
    met_RC, known_RC = other.broken_RC & other.known_RC, other.known_RC
    by_part, by_whole = (
        _any_of(other.values.culprit_R, met_RC, known_RC),
        _any_of(other.values.held_R, met_RC, known_RC),
    )
    part_R, whole_R = by_part.rows(told.values.culprit_R), by_whole.rows(told.values.held_R)
    met_RC = np.where(part_R[:, None] >= 0, by_part.met_KC[part_R], by_whole.met_KC[whole_R])
    known_RC = np.where(part_R[:, None] >= 0, by_part.known_KC[part_R], by_whole.known_KC[whole_R])
    some_R = (part_R >= 0) | (whole_R >= 0)
    value_RC = np.where(known_RC | ~some_R[:, None], told.values.value_RC, np.nan)  # its metric has stopped
    values = Values(told.values.held_R, told.values.culprit_R, told.values.metric_R, value_RC, told.values.begun_RC)
    return Told(values, told.broken_RC & met_RC, told.known_RC & known_RC, told.excess_RC, told.lacks)


@dataclass(frozen=True, slots=True)
class _Any:
    """Whether any row of K entities meets a condition, and whether that is known; one more row for none."""

    entity_K: Ints
    met_KC: Bools
    known_KC: Bools

    def rows(self, entity_R: Ints) -> Ints:
        """Row of each entity; -1 for those that are not there, which is the row of none."""
        if not len(self.entity_K):
            return np.full(len(entity_R), -1, np.int64)
        place_R = np.minimum(np.searchsorted(self.entity_K, entity_R), len(self.entity_K) - 1)
        return np.where(self.entity_K[place_R] == entity_R, place_R, -1)


def _any_of(entity_R: Ints, met_RC: Bools, known_RC: Bools) -> _Any:
    entity_K, row_R = np.unique(entity_R, return_inverse=True)
    met_KC = np.zeros((len(entity_K) + 1, met_RC.shape[1]), bool)
    known_KC = met_KC.copy()
    np.logical_or.at(met_KC, row_R.reshape(-1), met_RC)
    np.logical_or.at(known_KC, row_R.reshape(-1), known_RC)
    return _Any(entity_K, met_KC, known_KC)


def _told(test: Test, held: Held, readings: Readings, columns: int) -> Told:
    """A test against its threshold, in that many seconds up to the end of the window."""
    window = readings.window
    values = readings.values(test.indicator, held, ends_of(window.to_ns, columns))
    limit = test.threshold
    if limit.kind == "absolute":
        middle_RC, spread_RC = np.full((1, 1), limit.value), np.zeros((1, 1))
        lacks = ""
    elif limit.kind == "past":
        ends_P = ends_of(window.from_ns, LOOK_BACK_S // PAST_STEP_S, PAST_STEP_S * S)
        past_RP = readings.values(test.indicator, held, ends_P).value_RC
        middle_RC, spread_RC = _past(past_RP)
        lacks = "past"
    else:
        middle_RC, spread_RC = _peers(values, limit, readings)
        lacks = "peers"
    known_RC = ~np.isnan(values.value_RC) & ~np.isnan(middle_RC)
    broken_RC, excess_RC = _crossed(values.value_RC, middle_RC, spread_RC, limit)
    return Told(values, broken_RC & known_RC, known_RC, excess_RC, lacks)


def _crossed(value_RC: Floats, middle_RC: Floats, spread_RC: Floats, limit: Threshold) -> tuple[Bools, Floats]:
    """Whether values are beyond the threshold, and how far, in units of what they are held against."""
    sign = 1.0 if limit.side == "above" else -1.0
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if limit.kind == "absolute":
            edge_RC = middle_RC
            broken_RC = sign * (value_RC - edge_RC) > 0
        elif limit.mads:
            edge_RC = middle_RC + sign * np.maximum(limit.value * spread_RC, limit.least)
            broken_RC = sign * (value_RC - edge_RC) > 0
        else:
            edge_RC = middle_RC * limit.value
            far_RC = sign * (value_RC - middle_RC) >= limit.least
            broken_RC = (sign * (value_RC - edge_RC) > 0) & far_RC
        excess_RC = sign * (value_RC - edge_RC) / np.maximum(np.abs(edge_RC), 1e-9)
    return broken_RC, np.clip(np.nan_to_num(excess_RC, nan=0.0), -1e300, 1e300)


def _past(past_RP: Floats) -> tuple[Floats, Floats]:
    """Median of each row's own past, and its MAD, (R, 1); NaN where too little of it is known."""
    middle_R, spread_R = np.full(len(past_RP), np.nan), np.full(len(past_RP), np.nan)
    for begin in range(0, len(past_RP), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        middle_R[part], spread_R[part], count_R = medians(past_RP[part].T)
        middle_R[part][count_R < PAST_MIN] = np.nan
    return middle_R[:, None], spread_R[:, None]


def _peers(values: Values, limit: Threshold, readings: Readings) -> tuple[Floats, Floats]:
    """Median over each row's peers in each column, itself included, and its MAD, (R, C); NaN where there are few."""
    middle_RC, spread_RC = np.full(values.value_RC.shape, np.nan), np.full(values.value_RC.shape, np.nan)
    groups: dict[tuple[str, str], list[int]] = {}
    for row, (culprit, metric) in enumerate(zip(values.culprit_R.tolist(), values.metric_R, strict=True)):
        if name := readings.scope.group(culprit, limit.group):
            groups.setdefault((name, metric), []).append(row)
    for rows in groups.values():
        middle_C, spread_C, count_C = medians(values.value_RC[rows])
        enough_C = count_C >= PEERS_MIN
        middle_RC[rows] = np.where(enough_C, middle_C, np.nan)
        spread_RC[rows] = spread_C
    return middle_RC, spread_RC
