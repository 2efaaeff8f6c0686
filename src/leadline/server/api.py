"""The API under /api/v1, with /health, /ready and /metrics. Reads; what writes is `ingest`."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from leadline import __version__
from leadline.model.counters import counter
from leadline.model.errors import (
    BusyError,
    LeadlineError,
    RefusedError,
    StoreError,
    UnknownNameError,
    UsageError,
    WorldError,
)
from leadline.model.principal import OPERATE, READ, Principal, Role
from leadline.model.tables import BY_NAME, TABLES
from leadline.server.asking import Ways
from leadline.server.backup.api import mount_freeze
from leadline.server.bundles import MEDIA_TYPE, mount_bundles
from leadline.server.changes import Changes, mount_changes
from leadline.server.health import LeadlineCollector, Parts, doctor, require_well
from leadline.server.health_answers import DoctorAnswer, SendersAnswer, SeriesAnswer, TableAnswer, TablesAnswer
from leadline.server.page import mount_page, not_found_page
from leadline.server.routes.alerts import mount_alerts
from leadline.server.routes.analyses import mount_analyses
from leadline.server.routes.anomalies import mount_anomalies
from leadline.server.routes.compare import mount_compare
from leadline.server.routes.entities import mount_entities
from leadline.server.routes.explanation import mount_explanation
from leadline.server.routes.fleet import mount_fleet
from leadline.server.routes.graph import mount_graph
from leadline.server.routes.incidents import mount_incidents
from leadline.server.routes.jobs import mount_jobs
from leadline.server.routes.ledger import mount_ledger
from leadline.server.routes.marks import mount_marks
from leadline.server.routes.mesh import mount_mesh
from leadline.server.routes.messages import mount_messages
from leadline.server.routes.names import mount_names
from leadline.server.routes.now import mount_now
from leadline.server.routes.report import mount_report
from leadline.server.routes.samples import mount_samples
from leadline.server.routes.sle import mount_sle
from leadline.server.routes.symptoms import mount_symptoms
from leadline.server.routes.telemetry import mount_telemetry
from leadline.server.table_schema import row_schema
from leadline.server.tokens.gate import Gate
from leadline.server.tokens.rights import caller_of, guarded, require_all_listed
from leadline.server.tokens.session import mount_session
from leadline.views.rows import LIMIT_MAX, SCHEMA_VERSION, PageQuery, json_rows, page_rows, page_sql, parse_time
from leadline.views.senders import as_json, senders_of


class Sql(BaseModel):
    """One query in ClickHouse's SQL over Leadline's tables."""

    sql: str = Field(max_length=100_000, examples=["SELECT name, count() FROM series GROUP BY name"])


class Problem(BaseModel):
    """What went wrong: a reason for programs, a message for people."""

    reason: str
    message: str


class ErrorAnswer(BaseModel):
    """The body of every answer that is not a success."""

    error: Problem


class ReadyAnswer(BaseModel):
    """The server is ready; `pid` tells which process answers."""

    state: str = "ready"
    pid: int


class RowsAnswer(BaseModel):
    """Rows; `cursor` is empty on the last page."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    columns: list[str]
    rows: list[dict[str, Any]]
    cursor: str = ""


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 403, 404, 422, 429, 503)
}

# Queries at a time, waiting ones included. Each takes one of the 40 threads that answer requests, and the engine
# runs store.readers of them at once; whoever comes later is told to come again rather than kept.
QUERIES_MAX = 16
QUERIES_OF_A_TENANT_MAX = 6  # of those; a page of a job asks up to six things at once
QUERIES_KEPT = 4  # of those for operators: they must see what is going on when tenants take all the rest
PACKED_BYTES_MIN = 1000  # what is smaller fits a packet or two as it is


MOUNTS = (
    mount_analyses,
    mount_entities,
    mount_names,
    mount_fleet,
    mount_mesh,
    mount_telemetry,
    mount_graph,
    mount_compare,
    mount_messages,
    mount_jobs,
    mount_ledger,
    mount_sle,
    mount_alerts,
    mount_incidents,
    mount_anomalies,
    mount_symptoms,
    mount_explanation,
    mount_marks,
    mount_now,
    mount_report,
    mount_samples,
)

HELLO = f"""Leadline {__version__}

  /api/v1/doctor           what is connected, how fresh, what is refused and why
  /api/v1/senders          how far the data of each sender has come, who is late or lost
  /api/v1/tables           every table; /api/v1/tables/TABLE its rows
  /api/v1/series           metric names, streams, label values
  /api/v1/telemetry        every sender and kind of telemetry, and what would not be known without it
  /metrics                 Leadline's own metrics
  /openapi.json            everything that can be asked

The same on the terminal: leadline doctor | show tables | show series | sql 'SELECT ...'
"""


def create_api(
    parts: Parts,
    gate: Gate,
    config_view: Callable[[], list[dict[str, Any]]],
    changes: Changes,
    config_text: str = "",
) -> FastAPI:
    """The API of a running server. Close `changes` before the server stops.

    `config_view` gives the effective settings with their origins, `config_text` is what a bundle keeps of them.
    """
    api = FastAPI(
        title="Leadline",
        version=__version__,
        description="Tables of telemetry and verdicts. Times are ns since 1970; every answer carries `schema`.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    api.router.route_class = guarded(gate)
    # A page of 130 kB in 3 ms. Not what is packed already, and not streams of events (which it leaves out by itself).
    packed = (*DEFAULT_EXCLUDED_CONTENT_TYPES, MEDIA_TYPE)
    api.add_middleware(GZipMiddleware, minimum_size=PACKED_BYTES_MIN, compresslevel=4, exclude_content_types=packed)
    registry = CollectorRegistry()
    registry.register(LeadlineCollector(parts))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    reading = _Turns(QUERIES_MAX, QUERIES_OF_A_TENANT_MAX, QUERIES_KEPT)

    def who(request: Request) -> Principal:
        principal = gate.again(caller_of(request, READ))
        if not principal.may(READ):
            raise RefusedError("unauthorized", f"role {principal.role} may not read")
        _asking.set(principal)
        return principal

    def turn() -> AbstractContextManager[None]:
        if parts.memory:
            parts.memory.require_room()
        return reading.turn()

    ways = Ways(parts, who, turn, PROBLEMS)

    @api.exception_handler(LeadlineError)
    def told(_: Request, error: LeadlineError) -> JSONResponse:
        status, reason = _status(error)
        headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, BusyError) else None
        if status == 401 and gate.asks:
            headers = {"www-authenticate": "Bearer"}
        return _problem(status, reason, str(error), headers)

    @api.exception_handler(RequestValidationError)
    def misunderstood(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _problem(422, "bad_request", f"{where}: {first['msg']}; see /openapi.json for what is expected")

    @api.exception_handler(HTTPException)
    def not_served(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return not_found_page(request) or _problem(
                404, "not_found", f"nothing is served at {request.url.path}; see /openapi.json for what is"
            )
        if error.status_code == 405:
            text = f"{request.url.path} does not take {request.method}; see /openapi.json"
            return _problem(405, "method", text, error.headers)
        return _problem(error.status_code, "bad_request", str(error.detail), error.headers)

    @api.get("/health", tags=["process"])
    async def health() -> dict[str, str]:
        """The process answers. Waits for nobody, so it answers when all threads are busy with queries."""
        return {"state": "ok"}

    @api.get("/ready", tags=["process"], responses=PROBLEMS)
    def ready() -> ReadyAnswer:
        """The store answers, telemetry is taken, and what was taken is judged."""
        parts.store.query("SELECT 1 AS one")
        require_well(parts)
        return ReadyAnswer(pid=os.getpid())

    @api.get("/metrics", tags=["process"], response_class=PlainTextResponse, responses=PROBLEMS)
    def metrics(request: Request) -> Response:
        """Leadline's own metrics, as OpenMetrics or the Prometheus text format. For the role operator."""
        if not who(request).may(OPERATE):
            raise RefusedError("unauthorized", "what this process counts is of all tenants: for the role operator")
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    @api.get("/api/v1/doctor", tags=["state"], **ways.answers(DoctorAnswer))
    def diagnosis(request: Request) -> dict[str, Any]:
        """What is connected, how fresh, what is refused and why; to a tenant of its own senders."""
        return doctor(parts, time.time_ns(), who(request))

    @api.get("/api/v1/senders", tags=["state"], **ways.answers(SendersAnswer))
    def senders(request: Request) -> dict[str, Any]:
        """How far the data of each sender has come, by its own word; its jobs are judged as far as that. To a tenant of
        its own."""
        found = senders_of(parts.runner if parts.replay is None else None, who(request))
        return {"schema": SCHEMA_VERSION, "senders": [as_json(each) for each in found]}

    @api.get("/api/v1/config", tags=["state"], responses=PROBLEMS)
    def settings(request: Request) -> dict[str, Any]:
        """Effective settings with their origins; secrets are not shown."""
        if not who(request).may(OPERATE):
            raise RefusedError("unauthorized", "settings are for the role operator")
        return {"schema": SCHEMA_VERSION, "settings": config_view()}

    @api.get("/api/v1/tables", tags=["tables"], **ways.answers(TablesAnswer))
    def tables(request: Request) -> dict[str, Any]:
        """Every table with its columns and, to an operator, how full it is."""
        of_all = who(request).may(OPERATE)
        facts = {fact.table: fact for fact in parts.store.facts()} if of_all else {}
        found = []
        for table in TABLES:
            fact = facts.get(table.name)
            found.append(
                TableAnswer(
                    name=table.name,
                    doc=table.doc,
                    written_by=table.written_by,
                    kept_hours=table.keep_hours,
                    identity=table.identity.value,
                    columns=row_schema(table),
                    rows=fact.rows if fact else 0 if of_all else None,
                    bytes=fact.bytes if fact else 0 if of_all else None,
                    oldest_ns=fact.oldest_ns if fact else None,
                    newest_ns=fact.newest_ns if fact else None,
                ).model_dump()
            )
        return {"schema": SCHEMA_VERSION, "tables": found}

    @api.get("/api/v1/tables/{table}", tags=["tables"], responses=PROBLEMS)
    def rows(
        request: Request,
        table: str,
        since: Annotated[str | None, Query(alias="from", description="ns, ISO 8601 or -15m; included")] = None,
        until: Annotated[str | None, Query(alias="to", description="the same; not included")] = None,
        entity: Annotated[str, Query(description="rows about this entity, `gpu:GPU-5c1e`")] = "",
        columns: Annotated[str, Query(description="names with commas between; all if empty")] = "",
        cursor: Annotated[str, Query(description="from the page before")] = "",
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 1000,
    ) -> RowsAnswer:
        """Rows of one table by time, oldest first, a page at a time."""
        principal = who(request)
        spec = BY_NAME.get(table)
        if spec is None:
            raise RefusedError("unknown_table", f"no table {table!r}; there are {', '.join(BY_NAME)}")
        now_ns = parts.now_ns()
        query = PageQuery(
            columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
            from_ns=None if since is None else parse_time(since, now_ns),
            to_ns=None if until is None else parse_time(until, now_ns),
            entity=entity,
            cursor=cursor,
            limit=limit,
        )
        sql, parameters = page_sql(spec, query, principal)
        with turn():
            found = parts.store.query(sql, parameters)
        got, following = page_rows(spec, query, found)
        names = list(query.columns) or [column.name for column in spec.columns]
        return RowsAnswer(schema=SCHEMA_VERSION, columns=names, rows=got, cursor=following)

    @api.get("/api/v1/series", tags=["tables"], **ways.answers(SeriesAnswer))
    def series(
        request: Request,
        match: Annotated[str, Query(description="part of the metric name", max_length=200)] = "",
        entity: Annotated[str, Query(description="only streams of this entity")] = "",
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 1000,
    ) -> dict[str, Any]:
        """Metric names with how many streams, entities and label values each has: most streams first."""
        principal = who(request)
        sql, parameters = _series_sql(principal, match, entity, limit)
        with turn():
            found = parts.store.query(sql, parameters)
        return {"schema": SCHEMA_VERSION, "columns": found.column_names, "rows": json_rows(found), "cursor": ""}

    @api.post("/api/v1/sql", tags=["tables"], responses=PROBLEMS)
    def sql_query(request: Request, query: Sql) -> RowsAnswer:
        """Run one SELECT over one's own tables. Reads only, within store.query_rows_max, _seconds_max, _bytes_max."""
        principal = who(request)
        try:
            with turn():
                found = parts.store.query_as(principal, query.sql)
        except UsageError:
            parts.intake.counts.add(counter("query_refused", "not_allowed"))
            raise
        except RefusedError:
            parts.intake.counts.add(counter("query_refused", "limit"))
            raise
        return RowsAnswer(schema=SCHEMA_VERSION, columns=found.column_names, rows=json_rows(found))

    mount_page(api, HELLO)
    mount_changes(api, ways, changes)
    mount_bundles(api, ways, config_text)
    mount_freeze(api, ways)
    mount_session(api, gate, PROBLEMS)
    for mount in MOUNTS:
        mount(api, ways)
    require_all_listed(api)
    return api


# Who asks, in the thread that answers: noted by the check of every request, read where it takes its turn.
_NOBODY = Principal(role=Role.TENANT_READ)
_asking: ContextVar[Principal] = ContextVar("asking", default=_NOBODY)


class _Turns:
    """Turns to query: some for each tenant, some kept for operators. Taking one never waits."""

    def __init__(self, turns: int, of_a_tenant: int, kept: int) -> None:
        assert 0 < of_a_tenant <= turns - kept
        self._turns, self._of_a_tenant, self._kept = turns, of_a_tenant, kept
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()  # by tenant; an operator's under no name

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn for the time of a `with`, of whoever asks. Errors: BusyError if none is left for them."""
        principal = _asking.get()
        name = "" if principal.may(OPERATE) else f"tenant {principal.tenant}"
        with self._lock:
            taken = self._taken.total()
            if name and self._taken[name] >= self._of_a_tenant:
                raise BusyError(f"{self._of_a_tenant} queries of the tenant are running; ask again in a second")
            if taken >= self._turns - (self._kept if name else 0):
                raise BusyError(f"{taken} queries are running or waiting; ask again in a second")
            self._taken[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[name] -= 1
                if not self._taken[name]:
                    del self._taken[name]


def _problem(status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"reason": reason, "message": message}}, status, headers)


def _status(error: LeadlineError) -> tuple[int, str]:
    if isinstance(error, RefusedError):
        return {"unauthorized": 401, "forbidden": 403, "unknown_table": 404, "unknown_incident": 404}.get(
            error.reason, 400
        ), error.reason
    if isinstance(error, UnknownNameError):
        return 404, "unknown_name"
    if isinstance(error, BusyError):
        return 429, "busy"
    if isinstance(error, StoreError):
        return 503, "store"
    if isinstance(error, WorldError):
        return 503, "world"
    return 400, "bad_request"


def _series_sql(principal: Principal, match: str, entity: str, limit: int) -> tuple[str, Mapping[str, object]]:
    where: list[str] = []
    parameters: dict[str, object] = {}
    if not principal.may(OPERATE):
        where.append("tenant = {tenant:String}")
        parameters["tenant"] = principal.tenant
    if match:
        where.append("position(name, {match:String}) > 0")
        parameters["match"] = match
    if entity:
        where.append("entity = {entity:String}")
        parameters["entity"] = entity
    condition = f"WHERE {' AND '.join(where)} " if where else ""
    # The label with the most values is what to look at when a name has too many streams.
    sql = f"""
        WITH shown AS (SELECT * FROM leadline.series {condition}),
        counted AS (
            SELECT name, label, uniqExact(value) AS n
            FROM shown ARRAY JOIN mapKeys(labels) AS label, mapValues(labels) AS value
            GROUP BY name, label
        ),
        widest AS (
            SELECT name, arrayReverseSort(groupArray((n, toString(label)))) AS pairs FROM counted GROUP BY name
        )
        SELECT s.name AS name, s.streams AS streams, s.entities AS entities, s.entity_kind AS entity_kind,
            s.type AS type, s.unit AS unit, s.last_ns AS last_ns,
            arrayStringConcat(arrayMap(p -> concat(p.2, '=', toString(p.1)), arraySlice(w.pairs, 1, 3)), ', ')
                AS most_values
        FROM (
            SELECT name, count() AS streams, uniqExactIf(entity, entity != '') AS entities,
                max(entity_kind) AS entity_kind, any(type) AS type, any(unit) AS unit, max(last_ns) AS last_ns
            FROM shown GROUP BY name ORDER BY streams DESC, name LIMIT {limit}
        ) AS s LEFT JOIN widest AS w ON s.name = w.name
        ORDER BY streams DESC, name"""
    return sql, parameters


def openapi_json(api: FastAPI) -> str:
    """The OpenAPI document, as the page's types are generated from it."""
    return json.dumps(api.openapi(), indent=1, sort_keys=True)
