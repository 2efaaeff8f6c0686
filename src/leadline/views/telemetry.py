"""`GET /api/v1/telemetry`: what comes in, how fresh, what was refused, and what would not be known without it.

senders heard since the start ──────────────────────> one row each: state, rate, refused by reason, what it is good for
rows and samples of the last minutes, by kind ──────> one row each: who tells, how many, which analyses read it
streams against their limit ────────────────────────> cardinality

Senders are known to a running server only; a recording has none, and its kinds say what it holds.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from leadline.analysis import ANALYSES
from leadline.ingest.sources import Source
from leadline.model.tables import BY_NAME
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import SCHEMA_VERSION, json_rows
from leadline.views.sources import Refusal, SourceState, counter_of, refusal, state_of_source

LOOK_NS = 600 * S  # what came longer ago is not looked for: a table may be large
RATE_NS = 60 * S
LATE_NS = 60 * S  # a kind that comes steadily is late after this
TELLERS_MAX = 8  # named
METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of telemetry: the rows of a table."""

    table: str
    what: str
    teller: str  # the column that says who told a row
    without: str  # what nobody could say then
    todo: str
    steady: bool = True  # else it comes when something happens: silence is no news


AGENT, HOOK = "docs/how-to/run-the-agent.md", "docs/how-to/watch-a-pytorch-job.md"
KINDS: tuple[Kind, ...] = (
    Kind("step", "steps of jobs", "host", "how long a step takes, goodput, whether a job is slow at all", HOOK),
    Kind("collective", "collectives", "host", "who waits for whom: no rank is blamed, no stall decided", HOOK),
    Kind("relation", "topology", "source", "what hosts and links a job uses, who shares them", AGENT, False),
    Kind("event", "events", "source", "link flaps, XIDs, OOM kills, checkpoints: the hardest evidence", AGENT, False),
    Kind("flow_sample", "flow samples", "switch", "which flow takes which link, volumes, collisions",
         "docs/how-to/send-sflow.md"),
    Kind("flow_sent", "counts of senders by flow", "host", "which flows lose packets that no counter shows", AGENT),
    Kind("message_end", "ends of messages", "host", "delays of single transfers, the edges of a ring", HOOK),
    Kind("operation", "profiler traces", "host", "what ran within a step", HOOK, False),
    Kind("probe", "probes between hosts", "src", "one-way delays, and clocks of hosts to within microseconds",
         "the probe mesh"),
)  # fmt: skip
# Metrics by what they speak of: what they tell, and what nobody could say without them.
OF: Mapping[str, tuple[str, str]] = {
    "host": ("metrics of hosts", "pressure on CPU, memory and disk of hosts"),
    "port": ("counters of NIC ports", "loss, errors and load of NICs"),
    "swport": ("counters of switch ports", "where in the fabric frames are lost or wait"),
    "switch": ("metrics of switches", "the health of switches"),
    "gpu": ("metrics of GPUs", "clocks, throttling and memory errors of GPUs"),
    "process": ("metrics of processes", "quotas and threads of a job's processes"),
    "rank": ("metrics of ranks", "what a training loop reports about itself"),
    "service": ("metrics of services", "storage and services that a job reads from"),
}
OTHER = ("other metrics", "what these metrics say")
CONNECT = "docs/how-to/connect-prometheus.md"


class TelemetrySource(SourceState):
    """One sender: how fresh, how much, what was refused of it, what would not be known without it."""

    per_s: float | None = Field(description="samples and rows, mean since it was first received; null: received once")
    heard_ns: int
    refusals: list[Refusal]
    do: str = Field(description="about the last error")
    without: list[str] = Field(description="what would be unknown without it")
    alone: list[str] = Field(description="kinds that no other sender provides")
    feeds: list[str] = Field(description="analyses that read what it sends")


class TelemetryKind(BaseModel):
    """One kind of telemetry, whoever sends it."""

    kind: str
    what: str
    table: str
    state: str = Field(description="fresh, late, quiet (comes when something happens), missing (within ten minutes)")
    newest_ns: int | None
    per_s: float | None = Field(description="over the last minute")
    streams: int | None = Field(description="of metrics: streams that had a sample in the last minute")
    tellers: list[str]
    tellers_total: int
    without: str
    feeds: list[str]
    todo: str


class Cardinality(BaseModel):
    """Streams of one tenant and cluster, against their limit."""

    tenant: str
    cluster: str
    streams: int
    names: int
    limit: int


class TelemetryAnswer(BaseModel):
    """What comes in; to a tenant its own."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    at_ns: int
    recorded: bool = Field(description="a recording is replayed: no senders")
    sources: list[TelemetrySource]
    kinds: list[TelemetryKind]
    cardinality: list[Cardinality]
    refused: int = Field(description="of all senders listed here, since the start")


def telemetry_answer(
    store: Store,
    asked: Asked,
    senders: Sequence[Source],
    series_max: int,
    *,
    recorded: bool = False,
    ended_ns: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """What `/api/v1/telemetry` says. Errors: StoreError.

    `senders`: those that the asker may know of; `series_max`: streams that a tenant may have; `recorded`: a recording
    is replayed; `ended_ns`: as of `sources.findings_of`.
    """
    sources = _sources(senders, ended_ns)
    return {
        "schema": SCHEMA_VERSION, "at_ns": asked.at_ns, "recorded": recorded, "sources": sources,
        "kinds": kinds(store, asked), "cardinality": _cardinality(store, asked, series_max),
        "refused": sum(sum(each["refused"].values()) for each in sources),
    }  # fmt: skip


def feeds(table: str) -> list[str]:
    """Analyses that read a table."""
    return [each.name for each in ANALYSES if any(read.table.name == table for read in each.reads)]


def _sources(found: Sequence[Source], ended_ns: Mapping[str, int] | None) -> list[dict[str, Any]]:
    """Senders that are late or in error first, then those whose rows or samples are most."""
    now_ns = time.time_ns()  # senders are heard by our clock, whatever time a replay has reached
    told = Tally((source.sender.tenant, kind) for source in found for kind in _told(source.tells))
    rows = []
    for source in found:
        findings: list[dict[str, str]] = []
        state = state_of_source(source, now_ns, findings, ended_ns)
        heard_s = (source.last_ns - source.first_ns) / 1e9
        mine = _told(source.tells)
        refusals = [refusal(counter_of(source.sender.way, why), each) for why, each in source.refused.items()]
        rows.append({
            **state, "heard_ns": source.last_ns,
            "per_s": (source.samples + source.rows) / heard_s if source.requests > 1 and heard_s else None,
            "refusals": sorted(refusals, key=lambda each: -each["amount"]),
            "do": source.last_do if source.last_error else findings[0]["do"] if findings else "",
            "without": [WITHOUT[kind] for kind in mine],
            "alone": [kind for kind in mine if told[source.sender.tenant, kind] == 1],
            "feeds": list(dict.fromkeys(name for kind in mine for name in feeds(_table(kind)))),
        })  # fmt: skip
    return sorted(rows, key=lambda row: (row["state"] == "ok", -(row["per_s"] or 0), row["way"], row["name"]))


WITHOUT: Mapping[str, str] = {kind.table: kind.without for kind in KINDS} | {METRICS: "its metrics"}


def _told(tells: Iterable[str]) -> list[str]:
    """Kinds of telemetry of what a sender tells: tables by name; what names none is the service of a metric."""
    tables = [kind.table for kind in KINDS if kind.table in tells]
    return [*tables, METRICS] if set(tells) - set(tables) else tables


def _table(kind: str) -> str:
    return "metric_sample" if kind == METRICS else kind


def kinds(store: Store, asked: Asked) -> list[dict[str, Any]]:
    """Every kind of rows, told or not; metrics by what they speak of."""
    rows = {row["kind"]: row for row in _rows(store, asked, _tables_sql(asked))}
    metrics = _rows(store, asked, _metrics_sql(asked))
    return [*(_of_table(kind, rows.get(kind.table), asked.at_ns) for kind in KINDS), *_of_metrics(metrics, asked.at_ns)]


def _tables_sql(asked: Asked) -> str:
    # Without FINAL, which costs most: a batch that came twice counts twice until parts merge, and a rate may.
    return " UNION ALL ".join(_table_sql(kind, asked) for kind in KINDS) + " SETTINGS final = 0"


def _table_sql(kind: Kind, asked: Asked) -> str:
    """How many rows came in the last minute, when the newest, who told them; of relations those that hold."""
    time_column = BY_NAME[kind.table].time
    holding = kind.table == "relation"
    held = "(to_ns IS NULL OR to_ns > {at_ns:Int64})" if holding else f"{time_column} > {asked.at_ns - LOOK_NS}"
    where = " AND ".join([*asked.conditions(), f"{time_column} <= {{at_ns:Int64}}", held])
    teller = f"toString({kind.teller})"
    return (
        f"SELECT '{kind.table}' AS kind, count() AS n, max({time_column}) AS newest_ns, "
        f"countIf({time_column} > {asked.at_ns - RATE_NS}) AS lately, "
        f"arraySort(groupUniqArray({TELLERS_MAX})({teller})) AS tellers, uniqExact({teller}) AS tellers_total "
        f"FROM leadline.{kind.table}{' FINAL' if holding else ''} WHERE {where}"
    )


def _metrics_sql(asked: Asked) -> str:
    """Samples of the last minute by what they speak of; kinds whose streams are silent have none."""
    where = " AND ".join([*asked.conditions(), f"time_ns > {asked.at_ns - RATE_NS}", "time_ns <= {at_ns:Int64}"])
    mine = " AND ".join([*asked.conditions(), f"last_ns > {asked.at_ns - 2 * 3600 * S}", "first_ns <= {at_ns:Int64}"])
    return (
        "SELECT ifNull(toString(s.of_kind), '') AS kind, count() AS known, countIf(m.n > 0) AS streams, "
        "sum(m.n) AS lately, max(if(m.n > 0, m.newest_ns, s.reported_ns)) AS newest_ns, "
        f"arraySort(groupUniqArrayIf({TELLERS_MAX})(toString(s.way), m.n > 0)) AS tellers, "
        "uniqExactIf(toString(s.way), m.n > 0) AS tellers_total "
        "FROM (SELECT tenant, cluster, series, any(entity_kind) AS of_kind, any(source) AS way, "
        f"max(last_ns) AS reported_ns FROM leadline.series WHERE {mine} GROUP BY tenant, cluster, series) AS s "
        "LEFT JOIN (SELECT tenant, cluster, series, count() AS n, max(time_ns) AS newest_ns "
        f"FROM leadline.metric_sample WHERE {where} GROUP BY tenant, cluster, series) AS m "
        "ON s.tenant = m.tenant AND s.cluster = m.cluster AND s.series = m.series "
        "GROUP BY kind ORDER BY lately DESC, kind SETTINGS final = 0"
    )


def _rows(store: Store, asked: Asked, sql: str) -> list[dict[str, Any]]:
    return json_rows(store.query(sql, asked.parameters(sql)))


def _of_table(kind: Kind, row: Mapping[str, Any] | None, at_ns: int) -> dict[str, Any]:
    there = row is not None and row["n"] > 0
    newest_ns = row["newest_ns"] if row is not None and there else None
    return {
        "kind": kind.table, "what": kind.what, "table": kind.table,
        "state": _state(newest_ns, at_ns, kind.steady), "newest_ns": newest_ns, "streams": None,
        "per_s": row["lately"] / (RATE_NS / S) if row is not None and there else None,
        "tellers": row["tellers"] if row is not None and there else [],
        "tellers_total": row["tellers_total"] if row is not None and there else 0,
        "without": kind.without, "feeds": feeds(kind.table), "todo": kind.todo,
    }  # fmt: skip


def _of_metrics(rows: Sequence[Mapping[str, Any]], at_ns: int) -> Iterable[dict[str, Any]]:
    """Kinds of metrics that are told; those that nobody tells, of which something is lost, after them."""
    for row in rows:
        what, without = OF.get(row["kind"], OTHER)
        yield {
            "kind": f"metrics of {row['kind'] or 'nothing known'}", "what": what, "table": "metric_sample",
            "state": _state(row["newest_ns"], at_ns, True), "newest_ns": row["newest_ns"],
            "per_s": row["lately"] / (RATE_NS / S), "streams": row["streams"], "tellers": row["tellers"],
            "tellers_total": row["tellers_total"], "without": without, "feeds": feeds("metric_sample"),
            "todo": CONNECT,
        }  # fmt: skip
    told = {row["kind"] for row in rows}
    for kind in ("host", "port", "gpu", "swport"):
        if kind not in told:
            what, without = OF[kind]
            yield {
                "kind": f"metrics of {kind}", "what": what, "table": "metric_sample", "state": "missing",
                "newest_ns": None, "per_s": None, "streams": 0, "tellers": [], "tellers_total": 0,
                "without": without, "feeds": feeds("metric_sample"), "todo": CONNECT,
            }  # fmt: skip


def _state(newest_ns: int | None, at_ns: int, steady: bool) -> str:
    if newest_ns is None:
        return "missing"
    if not steady:
        return "quiet"
    return "late" if at_ns - newest_ns > LATE_NS else "fresh"


def _cardinality(store: Store, asked: Asked, series_max: int) -> list[dict[str, Any]]:
    where = " AND ".join(asked.conditions()) or "1"
    sql = (
        "SELECT toString(tenant) AS tenant, toString(cluster) AS cluster, uniqExact(series) AS streams, "
        f"uniqExact(name) AS names FROM leadline.series WHERE {where} "
        "GROUP BY tenant, cluster ORDER BY streams DESC LIMIT 100 SETTINGS final = 0"
    )
    return [{**row, "limit": series_max} for row in _rows(store, asked, sql)]
