"""The answers about Leadline itself, as OpenAPI tells them: `doctor`, tables, series."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from leadline.server.routes.analyses import StateAnswer
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.sources import Refusal, SourceState


class Finding(BaseModel):
    """Something that wants attention, and what to do."""

    state: str = Field(description="warning or critical")
    text: str
    do: str


class SenderAnswer(BaseModel):
    """How far the data of one sender has come, by its own word."""

    tenant: str
    cluster: str
    host: str
    name: str = Field(description="agent, or what else sends of the host")
    state: str = Field(description="ok, late (5 s behind), lost (not heard for 15 s), ended")
    behind_s: float = Field(description="age of the newest data of which nothing is missing")
    last_heard_s: float
    clock_off_s: float = Field(description="clock of the host minus the server's, right to within a second")
    jobs: dict[str, int] = Field(description="ranks on the host by job; these jobs are analysed up to its data")
    problems: list[str] = Field(description="what is wrong with it, in sentences")
    do: str = Field(description="about the first of these")


class SendersAnswer(BaseModel):
    """Every sender that says how far its data has come, the worst first."""

    schema_version: int = Field(alias="schema")
    senders: list[SenderAnswer]


class TableFact(BaseModel):
    """How full one table is."""

    table: str
    rows: int
    bytes: int
    oldest_ns: int | None
    newest_ns: int | None


class DoctorAnswer(BaseModel):
    """How Leadline is; what is of all tenants is null or left out unless an operator asks."""

    schema_version: int = Field(alias="schema")
    state: str = Field(description="ok, warning, critical")
    findings: list[Finding]
    version: str
    now_ns: int
    up_s: float
    private_bytes: int | None
    sources: list[SourceState]
    senders: list[SenderAnswer]
    refused: list[Refusal]
    accepted: dict[str, int]
    waiting_rows: dict[str, int]
    series_known: int | None
    analyses: list[StateAnswer]
    tables: list[TableFact]
    last_store_error: str


class TableAnswer(BaseModel):
    """One table: what it is, and how full (told to operators, since it is the same table for all tenants)."""

    name: str
    doc: str
    written_by: str
    kept_hours: int
    identity: str
    columns: list[dict[str, Any]]
    rows: int | None
    bytes: int | None
    oldest_ns: int | None
    newest_ns: int | None


class TablesAnswer(BaseModel):
    """Every table."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    tables: list[TableAnswer]


class SeriesName(BaseModel):
    """One metric name: how many streams it has, and what makes them many."""

    name: str
    streams: int
    entities: int
    entity_kind: str | None
    type: str | None
    unit: str | None
    last_ns: int
    most_values: str = Field(description="the labels with most values: `mode=8, cpu=4`")


class SeriesAnswer(BaseModel):
    """Metric names, most streams first."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    columns: list[str]
    rows: list[SeriesName]
    cursor: str = ""
