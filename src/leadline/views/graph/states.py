"""How the parts of a graph do at a time, and what happened to it: for each node and link a state with its reason.

incidents ──> causes (bad), the job with symptoms (bad)      anomalies ──> parts far outside (watch)
samples, steps, collectives ──> who was heard of (good); who was not is unknown
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.analysis.graph.neighbourhood import Change
from leadline.model.ids import EntityId, kind_of, name_of
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import ANOMALY, CAUSE, INCIDENT
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.fleet.states import BAD, GOOD, SCORE_MIN, SEEN_NS, STATES, SUPPRESSED, UNKNOWN, WATCH, odd_words
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.view import incidents_of
from leadline.views.rows import json_rows, rows_where

HEARD_NS = 120 * S
"""Of a part that nothing came of for so long its state is not known."""
MOMENTS_MAX = 200
_TOGETHER_NS = 5 * S  # parts of one thing come and go one by one within such a time
_VICTIMS = "'job', 'rank', 'comm'"  # steps that last long say that a job suffers, not who makes it
_BY_OTHERS = ("process", "pod", "comm", "switch")  # tell nothing themselves: what stands on them, or their ports, do


@dataclass(frozen=True, slots=True)
class Condition:
    """How something does, and why."""

    state: str
    why: str = ""
    since_ns: int | None = None
    incident: str | None = None

    @property
    def urgency(self) -> tuple[int, int]:
        """The larger the worse; of the same state what began first."""
        return STATES.index(self.state), -(self.since_ns or 0)

    def as_answer(self) -> dict[str, Any]:
        """As JSON."""
        return {"state": self.state, "why": self.why, "since_ns": self.since_ns, "incident": self.incident}


NOT_ASKED = {"state": None, "why": "", "since_ns": None, "incident": None}
SILENT = "no data about it in the two minutes before"


class Conditions:
    """The state of everything in a graph's answer at the time that it shows."""

    def __init__(self, store: Store, asked: Asked, answer: Mapping[str, Any]) -> None:
        self._store, self._asked, self._answer = store, asked, answer
        # What is known of that time today, not only what was known then; symptoms and hosts are not asked for.
        mine = " AND ".join(asked.conditions())
        told = self._rows(rows_where(INCIDENT, mine))
        self._incidents = incidents_of(told, self._rows(rows_where(CAUSE, mine)), ()) if told else []

    def of_parts(self) -> dict[str, Condition]:
        """By entity: nodes and links."""
        found: dict[str, Condition] = {}
        for entity, condition in [*self._of_causes(), *self._of_anomalies()]:
            if entity not in found or condition.urgency > found[entity].urgency:
                found[entity] = condition
        heard = self._heard()
        parts = [node["entity"] for node in self._answer["nodes"]]
        parts += [edge["link"] for edge in self._answer["edges"] if edge["link"]]
        quiet, silent = Condition(GOOD), Condition(UNKNOWN, SILENT)
        return {part: found.get(part) or (quiet if part in heard else silent) for part in parts}

    def moments(self, name: str, changes: Sequence[Change], span: tuple[int, int]) -> list[dict[str, Any]]:
        """What happened to `name` in a span, oldest first: incidents of the job or by a part, what came and went."""
        told = [self._moment(one) for one in self._incidents if self._concerned(one)]
        told += list(_came_and_went(changes, name))
        within = [one for one in told if one["start_ns"] <= span[1] and (one["end_ns"] or one["start_ns"]) >= span[0]]
        within.sort(key=lambda one: (one["what"] != "incident", one["start_ns"]))
        return sorted(within[:MOMENTS_MAX], key=lambda one: one["start_ns"])

    def _concerned(self, one: Incident) -> bool:
        if self._answer["job"]:
            return one.concerns(self._answer["job"].removeprefix("job:"))
        return any(cause.entity == self._answer["of"] for cause in one.chosen)

    def _moment(self, one: Incident) -> dict[str, Any]:
        cause = one.chosen[0] if one.chosen else None
        text = f"{one.job or one.entity} {one.symptom}" + (f": {cause.rule} at {cause.entity}" if cause else "")
        return {
            "start_ns": one.start_ns, "end_ns": one.end_ns, "what": "incident", "text": text,
            "state": SUPPRESSED if one.suppressed else BAD if cause else WATCH,
            "entity": cause.entity if cause else one.entity, "incident": one.incident,
        }  # fmt: skip

    def _of_causes(self) -> Iterator[tuple[str, Condition]]:
        at_ns = self._asked.at_ns
        for one in self._incidents:
            if one.end_ns is not None and one.end_ns <= at_ns:
                continue
            state = SUPPRESSED if one.suppressed else BAD
            if one.start_ns <= at_ns:
                # What it lost is the ledger's to say, on its card; the row has an estimate only.
                part = f"job:{one.job}" if one.job else one.entity
                yield part, Condition(state, str(one.symptom), one.start_ns, one.incident)
            for cause in one.chosen:
                if cause.start_ns <= at_ns:
                    does = "is dead until it is reset; it stopped" if one.held else "slows"
                    text = f"{cause.rule}: {does} {one.job or one.entity} (p {min(cause.probability, 0.99):.2f})"
                    yield cause.entity, Condition(state, text, cause.start_ns, one.incident)

    def _of_anomalies(self) -> Iterator[tuple[str, Condition]]:
        links = self._links_of_ports()
        nodes = [node["entity"] for node in self._answer["nodes"]]
        # Spans end after an hour, or when they are in again: whatever lasts was told within two.
        at_ns = self._asked.at_ns
        where = [f"start_ns <= {at_ns}", f"start_ns > {at_ns - 7200 * S}", *self._asked.conditions()]
        sql = (
            "SELECT toString(told.entity) AS part, toString(argMax(metric, score)) AS worst, max(score) AS far, "
            "min(start_ns) AS since_ns, argMax(toString(direction), score) AS way, argMax(seen, score) AS seen_value, "
            "argMax(expected, score) AS expected_value, argMax(toString(witness), score) AS beside "
            f"FROM ({rows_where(ANOMALY, ' AND '.join(where))}) AS told "
            f"WHERE score >= {SCORE_MIN} AND metric != 'up' AND entity_kind NOT IN ({_VICTIMS}) "
            f"AND ifNull(end_ns, {1 << 62}) > {{at_ns:Int64}} "
            f"AND seen_ns > {{at_ns:Int64}} - {SEEN_NS} AND told.entity IN {{parts:Array(String)}} GROUP BY part"
        )
        for row in self._rows(sql, parts=sorted({*nodes, *links})):
            text = odd_words(
                row["worst"], row["way"], row["far"], row["seen_value"], row["expected_value"], row["beside"]
            )
            yield row["part"], Condition(WATCH, text, row["since_ns"])
            if row["part"] in links:
                yield links[row["part"]], Condition(WATCH, f"{row['part']}: {text}", row["since_ns"])

    def _links_of_ports(self) -> dict[str, str]:
        """The link of each switch port: those are drawn as links."""
        return {
            edge[end]: edge["link"]
            for edge in self._answer["edges"]
            for end in ("child_port", "parent_port")
            if edge["link"] and kind_of(edge[end] or "") == "swport"
        }

    def _heard(self) -> set[str]:
        """What something came of in the two minutes before."""
        nodes = [node["entity"] for node in self._answer["nodes"]]
        edges = self._answer["edges"]
        ports = {edge[end] for edge in edges for end in ("child_port", "parent_port") if edge[end]}
        heard = {*self._measured(sorted({*nodes, *ports})), *self._worked(nodes)}
        links = [edge for edge in edges if edge["link"]]
        # Of a link that carried something a switch told samples.
        heard |= {edge[end] for edge in links if edge["bytes"] is not None for end in ("link", "parent_port")}
        heard |= {edge["link"] for edge in links if {edge["child_port"], edge["parent_port"]} & heard}
        heard |= {f"switch:{EntityId.of(port).first}" for port in heard if kind_of(port) == "swport"}
        silent = {node["entity"] for node in self._answer["nodes"] if node["kind"] in _BY_OTHERS} - heard
        heard |= {edge["parent"] for edge in edges if edge["parent"] in silent and edge["child"] in heard}
        return heard

    def _measured(self, parts: list[str]) -> Iterator[str]:
        mine = "".join(f" AND {each}" for each in self._asked.conditions())
        streams = f"SELECT series FROM leadline.{SERIES.name} WHERE entity IN {{parts:Array(String)}}{mine}"
        fresh = (
            f"SELECT DISTINCT series FROM leadline.{METRIC_SAMPLE.name} WHERE series IN ({streams}) "
            f"AND time_ns > {{at_ns:Int64}} - {HEARD_NS} AND time_ns <= {{at_ns:Int64}}{mine}"
        )
        sql = (
            f"SELECT DISTINCT toString(entity) AS part FROM leadline.{SERIES.name} "
            f"WHERE entity IN {{parts:Array(String)}} AND series IN ({fresh}){mine}"
        )
        return (row["part"] for row in self._rows(sql, parts=parts))

    def _worked(self, nodes: Iterable[str]) -> Iterator[str]:
        """Jobs and ranks that ended a step or began a collective."""
        jobs = {EntityId.of(node).holder for node in nodes if kind_of(node) == "rank"}
        jobs |= {name_of(node) for node in nodes if kind_of(node) == "job"}
        if not jobs:
            return
        mine = "".join(f" AND {each}" for each in self._asked.conditions())
        sql = " UNION DISTINCT ".join(
            f"SELECT DISTINCT toString(job) AS job, rank FROM leadline.{table} WHERE job IN {{jobs:Array(String)}} "
            f"AND {time} > {{at_ns:Int64}} - {HEARD_NS} AND {time} <= {{at_ns:Int64}}{mine}"
            for table, time in ((STEP.name, "end_ns"), (COLLECTIVE.name, "enqueued_ns"))
        )
        for row in self._rows(sql, jobs=sorted(jobs)):
            yield f"job:{row['job']}"
            yield f"rank:{row['job']}/{row['rank']}"

    def _rows(self, sql: str, **given: object) -> list[dict[str, Any]]:
        return json_rows(self._store.query(sql, {**self._asked.parameters(sql), **given}))


def _came_and_went(changes: Sequence[Change], name: str) -> Iterator[dict[str, Any]]:
    """Edges that came or went, those of a few seconds together."""
    found: list[list[Change]] = []
    for each in sorted(changes, key=lambda one: (one.what, one.at_ns)):
        if found and found[-1][0].what == each.what and each.at_ns - found[-1][0].at_ns < _TOGETHER_NS:
            found[-1].append(each)
        else:
            found.append([each])
    for own in found:
        what = own[0].what
        ends = [each.edge.parent if each.edge.child == name else each.edge.child for each in own]
        kinds = Counter(kind_of(end) for end in ends)
        words = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(kinds.items()))
        yield {
            "start_ns": own[0].at_ns, "end_ns": None, "what": what, "text": f"{words} {what}", "state": GOOD,
            "entity": ends[0], "incident": None,
        }  # fmt: skip
