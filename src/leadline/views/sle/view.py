"""How well expectations are met: share of good seconds, error budget, burn rates, and what made seconds bad.

Everything shown was concluded by the analyses `sle` and `sle-hours`; a request sums their rows in the engine, so a
month of thousands of entities is one query and a page of rows. What the figures mean: docs/how-to/hold-expectations.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.model.accounts import Layer
from leadline.model.errors import UsageError
from leadline.model.metric_words import in_words
from leadline.model.tables import Table
from leadline.model.tables.accounts import SLE, SLE_LOSS
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.store import Store
from leadline.views.asked import Asked, time_text
from leadline.views.incidents.view import gpu_names
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where
from leadline.views.sle.spans import HOUR_NS, MINUTE_NS, SPANS_S, Sources, sources

ANALYSES = ("sle", "sle-hours")
LAYER_ROWS_MAX = 100  # told of each layer, the worst; its totals count all of them
CLASSIFIERS_MAX = 5  # told of each row, the largest; the rest in one
NEAR_NAMES_MAX = 20_000  # looked through for what somebody may have meant
STALE_NS = 300 * 10**9  # how old the newest window may be before that is said

# Burn rates of the multiwindow alerts of the SRE workbook (chapter 5, table 5-8) for a budget of 30 days: 14.4 uses 2 %
# of it in an hour; 3 over a day uses 10 %. Both windows must burn: the short one says that it still does. The workbook
# looks at 2 h beside a day, we at the next that there is, 1 h.
FAST, SLOW = 14.4, 3.0
PAIRS = {"fast": ("5m", "1h", FAST), "slow": ("1h", "24h", SLOW)}
_BURNS = ("5m", "1h", "24h")

NOTHING_JUDGED = (
    "nothing was analysed by then: does the analysis `sle` run (`leadline show analyses`), and does telemetry come in "
    "(`leadline doctor`)? The first minute is analysed about 5 s after it ends"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for; empty texts ask for everything."""

    window: str = "1h"
    layer: str = ""
    entity: str = ""
    expectation: str = ""

    def check(self) -> None:
        """Errors: UsageError for a window or a layer that there is not."""
        if self.window not in SPANS_S:
            raise UsageError(f"window: expected one of {', '.join(SPANS_S)}, got {self.window[:50]!r}")
        if self.layer and self.layer not in set(Layer):
            raise UsageError(f"layer: expected one of {', '.join(Layer)}, got {self.layer[:50]!r}")

    @property
    def chosen(self) -> dict[str, str]:
        """Columns that must have a value."""
        every = {"layer": self.layer, "entity": self.entity, "expectation": self.expectation}
        return {name: value for name, value in every.items() if value}


def sle_answer(store: Store, asked: Asked, wanted: Wanted) -> dict[str, Any]:
    """What `/api/v1/sle` says: the worst first. `asked.cluster` is one cluster. Errors: UsageError, StoreError."""
    wanted.check()
    answer: dict[str, Any] = {
        "schema": SCHEMA_VERSION, "window": wanted.window, "window_s": SPANS_S[wanted.window], "from_ns": None,
        "end_ns": None, "layers": [], "held": [], "held_total": 0, "why": "", "note": "",
    }  # fmt: skip
    rows = _Rows(store, asked, wanted)
    if rows.end_ns is None:
        return answer | {"why": NOTHING_JUDGED}
    answer |= {"from_ns": rows.sources.from_by_name[wanted.window], "end_ns": rows.end_ns, "note": _note(asked, rows)}
    found = rows.held()
    if not found:
        return answer | {"why": _why_none(rows, wanted)}
    losses = rows.losses([row for row in found if row["bad_s"]])
    names = gpu_names(store, asked, (row["entity"] for row in found))  # the worst come first
    answer["held"] = [
        _told(row, losses.get(_name(row), []), wanted) | {"name": names.get(row["entity"], "")} for row in found
    ]
    answer["layers"] = _layers(found)
    answer["held_total"] = sum(layer["held"] for layer in answer["layers"])
    return answer


def budgets(store: Store, asked: Asked, wanted: Wanted) -> list[dict[str, Any]]:
    """The same rows without what made their seconds bad: one query less. Errors: UsageError, StoreError."""
    wanted.check()
    rows = _Rows(store, asked, wanted)
    return [] if rows.end_ns is None else [_told(row, [], wanted) for row in rows.held()]


class _Rows:
    """The rows of both tables that count for what is asked."""

    def __init__(self, store: Store, asked: Asked, wanted: Wanted) -> None:
        self._store, self._asked, self._wanted = store, asked, wanted
        self.end_ns = self._newest()
        if self.end_ns is not None:
            names = dict.fromkeys((*_BURNS, wanted.window))
            first_ns = self.end_ns - max(SPANS_S[name] for name in names) * 10**9
            self.sources: Sources = sources(self.end_ns, names, self._summed(first_ns, self.end_ns))

    def asked_rows(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Rows of a statement, with the parameters of whose they may be."""
        return json_rows(self._store.query(sql, {**self._asked.parameters(sql), **parameters}))

    def where(self, *more: str) -> str:
        """Conditions on the owner of rows, and others."""
        return " AND ".join([*self._asked.conditions(), *more])

    def _newest(self) -> int | None:
        """End of the newest window that was judged by the time asked for: by the runner's book, else by the rows.

        Where no time was asked for, also of the minute that now is in: a replay judges it when its recording ends.
        """
        until_ns = self._asked.at_ns + (MINUTE_NS - 1 if self._asked.latest else 0)
        cluster = "cluster = {cluster:String}" if self._asked.cluster else "1"
        for source in (
            f"leadline.{ANALYSIS_RUN.name} WHERE analysis IN {ANALYSES} AND state = 'done' AND {cluster} AND",
            f"leadline.{SLE.name} WHERE {self.where()} {'AND' if self._asked.conditions() else ''}",
        ):
            found = self.asked_rows(f"SELECT max(end_ns) AS at, count() AS n FROM {source} end_ns <= {until_ns}")
            if found[0]["n"]:
                return int(found[0]["at"])
        return None

    def _summed(self, from_ns: int, to_ns: int) -> list[int]:
        where = self.where(f"window_ns = {HOUR_NS}", f"end_ns >= {from_ns + HOUR_NS}", f"end_ns <= {to_ns}")
        return [
            row["end_ns"] for row in self.asked_rows(f"SELECT DISTINCT end_ns FROM leadline.{SLE.name} WHERE {where}")
        ]

    def _source(self, table: Table) -> str:
        """The rows of a table that count, as a sub-query."""
        parts = [rows_where(table, self.where(self.sources.minutes()))]
        if self.sources.summed:
            parts.append(rows_where(table, self.where(self.sources.hours())))
        return "(" + " UNION ALL ".join(f"SELECT * FROM ({part})" for part in parts) + ")"

    def held(self) -> list[dict[str, Any]]:
        """One row for each expectation and entity, the worst first, and in each what its whole layer has."""
        conditions = " AND ".join(f"{name} = {{{name}:String}}" for name in self._wanted.chosen)
        sql = _held_sql(self._source(SLE), conditions or "1", self.sources, self._wanted.window)
        return self.asked_rows(sql, **self._wanted.chosen)

    def losses(self, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
        """The largest classifiers of rows, by their names."""
        if not rows:
            return {}
        sql = _losses_sql(self._source(SLE_LOSS), self.sources.counts(self._wanted.window))
        found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in self.asked_rows(
            sql,
            entities=sorted({row["entity"] for row in rows}),
            expectations=sorted({row["expectation"] for row in rows}),
        ):
            found.setdefault(_name(row), []).append(row)
        return found

    def names(self, column: str) -> list[str]:
        """Names in the span that somebody may have meant."""
        sql = (
            f"SELECT DISTINCT toString({column}) AS name FROM {self._source(SLE)} ORDER BY name LIMIT {NEAR_NAMES_MAX}"
        )
        return [row["name"] for row in self.asked_rows(sql)]


def _held_sql(source: str, conditions: str, spans: Sources, window: str) -> str:
    """Sums per expectation and entity, their state, and the totals of their layer."""
    window_s, counts = SPANS_S[window], spans.counts(window)
    burns = ", ".join(
        f"sumIf(bad_s, {spans.counts(name)}) AS bad_{name}, sumIf(missing_s, {spans.counts(name)}) AS missing_{name}"
        for name in _BURNS
    )
    summed = (
        "SELECT toString(tenant) AS whose, toString(expectation) AS name, toString(layer) AS in_layer, "
        "toString(entity) AS held_against, argMax(objective, end_ns) AS promised, "
        f"sumIf(good_s, {counts}) AS good, sumIf(bad_s, {counts}) AS bad, sumIf(missing_s, {counts}) AS missing, "
        f"sumIf(lost_gpu_seconds, {counts}) AS lost, "
        f"sumMapIf(map(ifNull(toString(why_missing), ''), missing_s), missing_s > 0 AND {counts}) AS why, {burns} "
        f"FROM {source} WHERE {conditions} GROUP BY whose, name, in_layer, held_against "
        "HAVING good + bad + missing > 0"
    )
    rates = ", ".join(
        f"if(promised < 1 AND missing_{name} < {SPANS_S[name]}, "
        f"bad_{name} / (({SPANS_S[name]} - missing_{name}) * (1 - promised)), NULL) AS burn_{name}"
        for name in _BURNS
    )
    # No objective lets time burn faster than if all of it were bad: for a low one that is the most to ask for.
    over = {
        word: " AND ".join(
            f"ifNull(burn_{name}, 0) >= least({rate}, 0.999999 / greatest(1 - promised, 1e-9))"
            for name in (short, long)
        )
        for word, (short, long, rate) in PAIRS.items()
    }
    spent = f"bad > (1 - promised) * {window_s} + 1e-6"
    state = (
        "multiIf(burning = 'fast', 'critical', burning = 'slow' OR spent, 'warning', good + bad = 0, 'unknown', 'ok')"
    )
    judged = (
        f"SELECT *, {rates}, multiIf({over['fast']}, 'fast', {over['slow']}, 'slow', '') AS burning, "
        f"{spent} AS spent, {state} AS state, bad / greatest((1 - promised) * {window_s}, 1e-9) AS used FROM ({summed})"
    )
    totals = ", ".join(f"sum({name}) OVER whole AS layer_{name}" for name in ("good", "bad", "missing"))
    states = ", ".join(f"countIf(state = '{word}') OVER whole AS layer_{word}" for word in _STATES)
    return (
        "SELECT whose AS tenant, name AS expectation, in_layer AS layer, held_against AS entity, "
        "promised AS objective, good AS good_s, bad AS bad_s, missing AS missing_s, lost AS lost_gpu_seconds, why, "
        f"burn_5m, burn_1h, burn_24h, burning, spent, state, {totals}, {states} FROM ({judged}) "
        "WINDOW whole AS (PARTITION BY in_layer) "
        f"ORDER BY indexOf({list(_STATES)}, state), used DESC, missing DESC, name, held_against, whose "
        f"LIMIT {LAYER_ROWS_MAX} BY in_layer"
    )


_STATES = ("critical", "warning", "unknown", "ok")


def _losses_sql(source: str, counts: str) -> str:
    """The largest classifiers of each expectation and entity, with how many there are and what all of them sum to."""
    return (
        "SELECT *, count() OVER mine AS kinds, sum(lost_s) OVER mine AS total_s FROM ("
        "SELECT toString(tenant) AS tenant, toString(expectation) AS expectation, toString(entity) AS entity, "
        "toString(classifier) AS classifier, toString(metric) AS metric, toString(culprit) AS culprit, "
        f"toString(bound) AS bound, sumIf(seconds, {counts}) AS lost_s FROM {source} AS row "
        "WHERE row.entity IN {entities:Array(String)} AND row.expectation IN {expectations:Array(String)} "
        "GROUP BY tenant, expectation, entity, classifier, metric, culprit, bound HAVING lost_s > 0"
        ") WINDOW mine AS (PARTITION BY tenant, expectation, entity) "
        "ORDER BY lost_s DESC, classifier, metric, culprit, bound "
        f"LIMIT {CLASSIFIERS_MAX} BY tenant, expectation, entity"
    )


def _name(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["tenant"], row["expectation"], row["entity"]


def _told(row: Mapping[str, Any], losses: Sequence[Mapping[str, Any]], wanted: Wanted) -> dict[str, Any]:
    """A row as it is answered."""
    known_s = row["good_s"] + row["bad_s"]
    budget_s = (1.0 - row["objective"]) * SPANS_S[wanted.window]
    plain = {
        name: row[name]
        for name in ("tenant", "expectation", "layer", "entity", "state", "objective", "good_s", "bad_s", "missing_s")
    }
    return {
        **plain,
        "sle": row["good_s"] / known_s if known_s else None,
        "budget_s": budget_s,
        "budget_left": 1.0 - row["bad_s"] / budget_s if budget_s > 1e-9 else None,
        "burn": {name: row[f"burn_{name}"] for name in _BURNS},
        "burning": row["burning"],
        "spent": bool(row["spent"]),
        "lost_gpu_minutes": row["lost_gpu_seconds"] / 60.0,
        "classifiers": _classifiers(row["bad_s"], losses),
        "why_missing": dict(sorted(row["why"].items(), key=lambda each: (-each[1], each[0]))),
    }


def _classifiers(bad_s: float, losses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The largest classifiers, and the others in one: they add up to the bad seconds."""
    told = [
        {"classifier": in_words(row["classifier"]), "metric": row["metric"], "culprit": row["culprit"],
         "bound": row["bound"], "seconds": row["lost_s"]}
        for row in losses
    ]  # fmt: skip
    total_s = losses[0]["total_s"] if losses else 0.0
    if losses and losses[0]["kinds"] > len(told):
        text = f"({losses[0]['kinds'] - len(told)} others)"
        told.append(_rest(text, total_s - sum(each["seconds"] for each in told)))
    if bad_s != total_s:  # the two tables are written together; an import may have brought one of them alone
        told.append(_rest("(no reason given)", bad_s - total_s))
    return told


def _rest(text: str, seconds: float) -> dict[str, Any]:
    return {"classifier": text, "metric": "", "culprit": "", "bound": "", "seconds": seconds}


def _layers(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each layer has, in the order of layers; all of its rows are counted, told or not."""
    of_layer = {row["layer"]: row for row in found}
    return [
        {
            "layer": layer,
            "held": sum(row[f"layer_{word}"] for word in _STATES),
            **{word: row[f"layer_{word}"] for word in _STATES},
            **{f"{name}_s": row[f"layer_{name}"] for name in ("good", "bad", "missing")},
        }
        for layer, row in ((str(each), of_layer.get(str(each))) for each in Layer)
        if row is not None
    ]


def _note(asked: Asked, rows: _Rows) -> str:
    """Says so where the newest window is not of the time asked for."""
    assert rows.end_ns is not None, "nothing was analysed"
    if asked.at_ns - rows.end_ns <= STALE_NS:
        return ""
    return f"the newest minute analysed by then ended at {time_text(rows.end_ns)}; figures are up to there"


def _why_none(rows: _Rows, wanted: Wanted) -> str:
    """Why no row fits."""
    if not wanted.chosen:
        return "no expectation had anything to be held against in this time: `leadline show expectations` lists them"
    for column in ("entity", "expectation"):
        name = getattr(wanted, column)
        known = rows.names(column) if name else []
        if name and name not in known:
            near = difflib.get_close_matches(name, known, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            return f"no {column} {name} was analysed in this time{hint}"
    return f"nothing was analysed in this time with {', '.join(f'{n} {v}' for n, v in wanted.chosen.items())}"
