"""`GET /api/v1/now`: what costs GPU-hours at this moment, ranked, and what was watched to be able to say so.

diagnosis ──> incidents, state, why      ledger, lost ──> lost, goodput, of a day earlier      step ──> a line each
relation, sources ──> watched, and what was not
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from leadline.ingest.sources import Source
from leadline.model.tables.accounts import LEDGER
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import STEP
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.diagnosis import OVER_NS, diagnosis_answer
from leadline.views.incidents.types import DiagnosedIncident
from leadline.views.ledger.config import LedgerConfig
from leadline.views.ledger.view import goodput
from leadline.views.lost import Losses, losses_of
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where
from leadline.views.sources import OK, state_of_source

SPAN_NS_MAX = 7 * 24 * 3600 * S
DAY_NS = 24 * 3600 * S
POINTS = 120  # of a line
NAMED_MAX = 3  # sources of a line that are named
LINES_MAX = 20  # incidents that get one
_SUMS = ("gpu_seconds", "lost_gpu_seconds")
BEFORE_NS = 300 * S  # of a line before the first incident: what was usual
# What a table of telemetry is for, and how it is had: told where none came for an hour.
WITHOUT: Mapping[str, tuple[str, str]] = {
    "step": ("steps of jobs", "docs/how-to/watch-a-pytorch-job.md"),
    "collective": ("collectives: who waits for whom", "docs/how-to/watch-a-pytorch-job.md"),
    "metric_sample": ("metrics of hosts, GPUs and switches", "docs/how-to/connect-prometheus.md"),
    "event": ("events: links, XIDs, OOM kills", "docs/how-to/run-the-agent.md"),
    "flow_sample": ("flows: who uses which link", "docs/how-to/send-sflow.md"),
}


class Line(BaseModel):
    """Step time of the job that suffers: mean of all its ranks, s."""

    t_ns: list[int]
    step_s: list[float]


class Costing(DiagnosedIncident):
    """An incident with a line of its job's step time, and what of its loss falls into the span."""

    line: Line | None
    lost_within_gpu_seconds: float


class Goodput(BaseModel):
    """Share of held GPU time that was productive; `ratio_max`: had all that is unknown been so too."""

    ratio: float | None
    ratio_max: float | None
    day_before: float | None


class WatchedCounts(BaseModel):
    """What was watched. `sources` that send by themselves, of which `fresh` are not late."""

    jobs: list[str]
    jobs_total: int
    hosts: int
    gpus: int
    links: int
    sources: int
    fresh: int


class NotWatched(BaseModel):
    """Something without data: no news of it is no good news."""

    what: str
    why: str
    todo: str


class NowAnswer(BaseModel):
    """Open incidents first, of these what lost most; those that alert nobody apart."""

    schema_version: int = Field(alias="schema")
    from_ns: int
    at_ns: int
    state: str
    why: str
    recorded: bool
    price: float | None
    currency: str
    lost_gpu_seconds: float | None
    estimated_gpu_seconds: float
    held_gpu_seconds: float | None
    goodput: Goodput
    incidents: list[Costing]
    incidents_total: int
    suppressed: list[DiagnosedIncident]
    watched: WatchedCounts
    not_watched: list[NotWatched]


def now_answer(
    store: Store,
    asked: Asked,
    from_ns: int,
    price: LedgerConfig,
    senders: Iterable[Source],
    *,
    recorded: bool = False,
    ended_ns: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """What `/api/v1/now` says of the span from `from_ns` to `asked.at_ns`.

    `senders`: those that the asker may know of; `recorded`: a recording is replayed; `ended_ns`: as of
    `sources.findings_of`.
    """
    found = diagnosis_answer(store, asked, "", price, max(OVER_NS, asked.at_ns - from_ns))
    rows = _Rows(store, asked)
    costing = [each for each in found["incidents"] if not each["suppressed"] and _within(each, from_ns)]
    apart = [each for each in found["incidents"] if each["suppressed"] and each["state"] == "open"]
    drawn = [each for each in costing[:LINES_MAX] if each["job"]]
    since_ns = min((each["start_ns"] for each in drawn), default=from_ns) - BEFORE_NS
    lines = rows.lines([each["job"] for each in drawn], max(from_ns, since_ns))
    now, before = rows.ledger(from_ns)
    total = goodput(now) if now else {}
    lost = losses_of(store, asked, (from_ns, asked.at_ns))
    estimated = sum(lost.jobs.values())
    known = bool(now) or estimated > 0
    sources = _states(senders, ended_ns)
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "at_ns": asked.at_ns,
        **{name: found[name] for name in ("state", "why", "price", "currency")},
        "recorded": recorded,
        "lost_gpu_seconds": sum(row["lost_gpu_seconds"] for row in now) + estimated if known else None,
        "estimated_gpu_seconds": estimated,
        "held_gpu_seconds": total.get("held_gpu_seconds"),
        "goodput": {
            "ratio": total.get("ratio"), "ratio_max": total.get("ratio_max"),
            "day_before": goodput(before)["ratio"] if before else None,
        },
        "incidents": [
            {**each, "line": lines.get((each["tenant"], each["job"])), "lost_within_gpu_seconds": _lost_of(lost, each)}
            for each in costing
        ],
        "incidents_total": len(costing), "suppressed": apart,
        "watched": {
            "jobs": [each["job"] for each in found["watched"]["jobs"]][:LINES_MAX],
            "jobs_total": len(found["watched"]["jobs"]), **rows.counts(),
            "sources": len(sources), "fresh": sum(1 for each in sources if each["state"] == OK),
        },
        "not_watched": [*late(sources), *_without(found["watched"]["until_ns"])],
    }  # fmt: skip


def _lost_of(lost: Losses, incident: Mapping[str, Any]) -> float:
    """What an incident lost within the span."""
    key = incident["tenant"], incident["cluster"], incident["incident"]
    return lost.within[key].gpu_seconds if key in lost.within else 0.0


def _within(incident: Mapping[str, Any], from_ns: int) -> bool:
    return bool(incident["state"] == "open" or (incident["end_ns"] or incident["seen_ns"]) >= from_ns)


def _states(senders: Iterable[Source], ended_ns: Mapping[str, int] | None) -> list[dict[str, Any]]:
    """How each sender does."""
    now_ns = time.time_ns()  # senders are heard by our clock, whatever time a replay has reached
    findings: list[dict[str, str]] = []
    return [state_of_source(source, now_ns, findings, ended_ns) for source in senders]


def late(sources: Sequence[Mapping[str, Any]]) -> Iterable[dict[str, str]]:
    """Sources that are not well; those of one protocol that say the same are one line: `scrape, 21 times: a, ...`."""
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in sources:
        if each["state"] != OK:
            said = each["last_error"].replace(each["name"], "it") if each["last_error"] else ""
            alike.setdefault((each["way"], said), []).append(each)
    for (way, said), some in alike.items():
        names = ", ".join(each["name"] for each in some[:NAMED_MAX])
        more = ", ..." if len(some) > NAMED_MAX else ""
        what = f"{way} {names}" if len(some) == 1 else f"{way}, {len(some)} times: {names}{more}"
        yield {"what": what, "why": said or _silence(some), "todo": "leadline doctor"}


def _silence(sources: Iterable[Mapping[str, Any]]) -> str:
    spans = sorted(each["last_heard_s"] for each in sources)
    to = f" to {spans[-1]:.0f}" if len(spans) > 1 else ""
    return f"silent for {spans[0]:.0f}{to} s"


def _without(until_ns: Mapping[str, int]) -> Iterable[dict[str, str]]:
    for table, (what, todo) in WITHOUT.items():
        if table not in until_ns:
            yield {"what": what, "why": "no data in the last hour", "todo": todo}


class _Rows:
    """What a store has, as somebody may see it."""

    def __init__(self, store: Store, asked: Asked) -> None:
        self._store, self._asked = store, asked

    def _rows(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        every = {**self._asked.parameters(sql), **parameters}
        given = {name: each for name, each in every.items() if f"{{{name}:" in sql}
        return json_rows(self._store.query(sql, given))

    def _where(self, *conditions: str) -> str:
        return " AND ".join([*self._asked.conditions(), *conditions])

    def ledger(self, from_ns: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Sums by category over all jobs: of the span, and of the same span a day earlier."""
        to_ns = self._asked.at_ns
        spans = {"now": (from_ns, to_ns), "before": (from_ns - DAY_NS, to_ns - DAY_NS)}
        within = {name: f"(end_ns > {low} AND end_ns <= {high})" for name, (low, high) in spans.items()}
        where = self._where(f"({' OR '.join(within.values())})")
        sums = ", ".join(
            f"sumIf({column}, {span}) AS {name}_{column}" for name, span in within.items() for column in _SUMS
        )
        rows = self._rows(
            f"SELECT toString(category) AS category, {sums} "
            f"FROM ({rows_where(LEDGER, where)}) GROUP BY category ORDER BY category"
        )
        now, before = (
            [{"category": row["category"], **{each: row[f"{name}_{each}"] for each in _SUMS}} for row in rows]
            for name in spans
        )
        return [row for row in now if row["gpu_seconds"]], [row for row in before if row["gpu_seconds"]]

    def lines(self, jobs: Sequence[str], from_ns: int) -> dict[tuple[str, str], dict[str, Any]]:
        """Step time of these jobs over the span, by tenant and job."""
        if not jobs:
            return {}
        bin_ns = max(1, (self._asked.at_ns - from_ns) // POINTS)
        where = self._where("job IN {jobs:Array(String)}", f"end_ns > {from_ns}", f"end_ns <= {self._asked.at_ns}")
        rows = self._rows(
            f"SELECT toString(tenant) AS tenant, toString(job) AS job, intDiv(ended - {from_ns}, {bin_ns}) AS bin, "
            "max(ended) AS t_ns, avg(took) / 1e9 AS step_s FROM (SELECT tenant, job, max(end_ns) AS ended, "
            f"avg(end_ns - start_ns) AS took FROM (SELECT * FROM leadline.{STEP.name} WHERE {where}) "
            f"GROUP BY tenant, job, step, intDiv(end_ns, {60 * S})) GROUP BY tenant, job, bin ORDER BY bin "
            "SETTINGS final = 0",
            jobs=sorted(set(jobs)),
        )
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in rows:
            line = found.setdefault((row["tenant"], row["job"]), {"t_ns": [], "step_s": []})
            line["t_ns"].append(int(row["t_ns"]))
            line["step_s"].append(float(f"{row['step_s']:.4g}"))
        return found

    def counts(self) -> dict[str, int]:
        """Hosts, GPUs and links that relations tell of now (links: by the port at one end)."""
        where = self._where("from_ns <= {at_ns:Int64}", "(to_ns IS NULL OR to_ns > {at_ns:Int64})")
        row = self._rows(
            "SELECT uniqExactIf(each, startsWith(each, 'host:')) AS hosts, "
            "uniqExactIf(each, startsWith(each, 'gpu:')) AS gpus, uniqExactIf(each, link) AS links FROM ("
            "SELECT arrayJoin([toString(child), toString(parent)]) AS each, kind = 'linked' AND each = child AS link "
            f"FROM leadline.{RELATION.name} WHERE {where}) SETTINGS final = 0"
        )[0]
        return {name: int(row[name]) for name in ("hosts", "gpus", "links")}
