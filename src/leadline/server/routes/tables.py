"""Rows as they are stored: `GET /api/v1/tables`, `/api/v1/series`, `POST /api/v1/sql`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, Field

from leadline.model.counters import counter
from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables import BY_NAME, TABLES, renamed
from leadline.server.asking import PROBLEMS, Reading, answers
from leadline.server.health_answers import SeriesAnswer, TableAnswer, TablesAnswer
from leadline.server.table_schema import row_schema
from leadline.server.tokens.rights import guarded_router
from leadline.views.rows import LIMIT_MAX, SCHEMA_VERSION, PageQuery, json_rows, page_rows, page_sql
from leadline.views.times import SHORT_FORMS, parse_time

router = guarded_router()


class Sql(BaseModel):
    """One query in ClickHouse's SQL over Leadline's tables."""

    sql: str = Field(max_length=100_000, examples=["SELECT name, count() FROM series GROUP BY name"])


class RowsAnswer(BaseModel):
    """Rows; `cursor` is empty on the last page."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    columns: list[str]
    rows: list[dict[str, Any]]
    cursor: str = ""


@router.get("/api/v1/tables", tags=["tables"], **answers(TablesAnswer))
def tables(reader: Reading) -> dict[str, Any]:
    """Every table with its columns and, to an operator, how full it is."""
    of_all = reader.principal.may(OPERATE)
    facts = {fact.table: fact for fact in reader.parts.store.facts()} if of_all else {}
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


@router.get("/api/v1/tables/{table}", tags=["tables"], responses=PROBLEMS)
def rows(
    reader: Reading,
    table: Annotated[str, Path(description="name of a table, as `/api/v1/tables` lists them")],
    since: Annotated[str | None, Query(alias="from", description=f"{SHORT_FORMS}; included")] = None,
    until: Annotated[str | None, Query(alias="to", description="the same; not included")] = None,
    entity: Annotated[str, Query(description="rows about this entity, `gpu:GPU-5c1e`")] = "",
    columns: Annotated[str, Query(description="names with commas between; all if empty")] = "",
    cursor: Annotated[str, Query(description="from the page before")] = "",
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="rows of a page")] = 1000,
) -> RowsAnswer:
    """Rows of one table by time, oldest first, a page at a time."""
    principal = reader.principal
    spec = BY_NAME.get(table)
    if spec is None:
        hint = renamed(table) or f"there are {', '.join(BY_NAME)}"
        raise RefusedError("unknown_table", f"no table {table!r}; {hint}")
    now_ns = reader.parts.now_ns()
    query = PageQuery(
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        from_ns=None if since is None else parse_time(since, now_ns),
        to_ns=None if until is None else parse_time(until, now_ns, end=True),
        entity=entity,
        cursor=cursor,
        limit=limit,
    )
    sql, parameters = page_sql(spec, query, principal)
    with reader.turn():
        found = reader.parts.store.query(sql, parameters)
    got, following = page_rows(spec, query, found)
    names = list(query.columns) or [column.name for column in spec.columns]
    return RowsAnswer(schema=SCHEMA_VERSION, columns=names, rows=got, cursor=following)


@router.get("/api/v1/series", tags=["tables"], **answers(SeriesAnswer))
def series(
    reader: Reading,
    match: Annotated[str, Query(description="part of the metric name", max_length=200)] = "",
    entity: Annotated[str, Query(description="only streams of this entity")] = "",
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="names at most")] = 1000,
) -> dict[str, Any]:
    """Metric names with how many streams, entities and label values each has: most streams first."""
    principal = reader.principal
    sql, parameters = _series_sql(principal, match, entity, limit)
    with reader.turn():
        found = reader.parts.store.query(sql, parameters)
    return {"schema": SCHEMA_VERSION, "columns": found.column_names, "rows": json_rows(found), "cursor": ""}


@router.post("/api/v1/sql", tags=["tables"], responses=PROBLEMS)
def sql_query(reader: Reading, query: Sql) -> RowsAnswer:
    """Run one SELECT over one's own tables. Reads only, within store.query_rows_max, _seconds_max, _bytes_max."""
    principal = reader.principal
    try:
        with reader.turn():
            found = reader.parts.store.query_as(principal, query.sql)
    except UsageError:
        reader.parts.intake.counts.add(counter("query_refused", "not_allowed"))
        raise
    except RefusedError:
        reader.parts.intake.counts.add(counter("query_refused", "limit"))
        raise
    return RowsAnswer(schema=SCHEMA_VERSION, columns=found.column_names, rows=json_rows(found))


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
