"""Rows of one job as somebody may see them, from when to when: what every view of a job begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from leadline.model.errors import UsageError
from leadline.model.principal import OPERATE
from leadline.model.tables.accounts import LEDGER
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, plain_job, time_text
from leadline.views.near import near_jobs
from leadline.views.rows import json_rows

SPAN_NS = 3600 * S  # looked at, where nothing else is asked for
SPAN_NS_MAX = 400 * 24 * 3600 * S
FIGURES = 5  # of a number that is drawn
RANKS_MAX = 20_000
# How long a step took, s; as the analysis `baseline` counts it, without writing its checkpoint.
STEP_S = "(end_ns - start_ns - ifNull(checkpoint_ns, 0)) / 1e9"


def from_or_hour(from_ns: int | None, to_ns: int) -> int:
    """Since when to look: an hour, if nobody says. Errors: UsageError for a span that is too long."""
    if from_ns is not None and from_ns < to_ns - SPAN_NS_MAX:
        raise UsageError(f"`from` must be at most 400 days before `to`; got {from_ns} and {to_ns} ns")
    return to_ns - SPAN_NS if from_ns is None else from_ns


@dataclass(frozen=True, slots=True)
class JobRows:
    """Rows of one job of one tenant in [from_ns, to_ns)."""

    store: Store
    asked: Asked
    job: str
    tenant: str
    from_ns: int
    note: str = ""

    @staticmethod
    def of(store: Store, asked: Asked, job: str, from_ns: int | None = None) -> JobRows:
        """The job as it is named; of several tenants with one of this name, the one that told something last."""
        name = plain_job(job)
        tenant, note = owner(store, asked, name)
        return JobRows(store, asked, name, tenant, from_or_hour(from_ns, asked.at_ns), note)

    @property
    def to_ns(self) -> int:
        """The end of the span, exclusive."""
        return self.asked.at_ns

    def in_cluster(self) -> str:
        """The condition that a row is of the cluster asked for, to be added to others; empty where none was."""
        return " AND cluster = {cluster:String}" if self.asked.cluster else ""

    def mine(self, time: str = "") -> str:
        """The condition that a row is the job's, and its `time` within the span."""
        span = f" AND {time} >= {self.from_ns} AND {time} < {self.to_ns}" if time else ""
        return f"tenant = {{owner:String}} AND job = {{job:String}}{self.in_cluster()}{span}"

    def columns(self, sql: str, **parameters: object) -> pa.Table:
        """The answer of a statement, in columns."""
        every = {**self.asked.parameters(sql), "owner": self.tenant, "job": self.job, **parameters}
        return self.store.query(sql, {name: value for name, value in every.items() if f"{{{name}:" in sql})

    def query(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """The answer of a statement, in rows."""
        return json_rows(self.columns(sql, **parameters))

    def places(self) -> dict[int, str]:
        """The host on which each rank was last in the span: by its steps, by its collectives where it tells none."""
        for table, time in ((STEP, "end_ns"), (COLLECTIVE, "enqueued_ns")):
            found = self.query(
                f"SELECT rank, toString(argMax(host, {time})) AS place FROM leadline.{table.name} "
                f"WHERE {self.mine(time)} GROUP BY rank ORDER BY rank LIMIT {RANKS_MAX} SETTINGS final = 0"
            )
            if found:
                return {int(row["rank"]): row["place"] for row in found}
        return {}

    def why_none(self, what: str, how: str) -> str:
        """Why there is nothing of the job: nobody tells `what` (see `how`), or not in this span."""
        where = f"WHERE {self.mine()} SETTINGS final = 0"
        sql = f"SELECT max(end_ns) AS last, count() AS n FROM leadline.{STEP.name} {where}"
        found = self.query(sql)[0]
        if not found["n"]:
            near = near_jobs(self.store, self.asked, self.job, STEP, LEDGER)
            return f"no {what} of {self.job} was ever received: {how}{near}"
        return f"no {what} of {self.job} in this span; its newest step ended at {time_text(int(found['last']))}"


def owner(store: Store, asked: Asked, job: str) -> tuple[str, str]:
    """The tenant whose job this is, and words where several have one of this name: the one that was there last.

    By the ledger, which has few rows of a job; by steps where nothing was judged yet.
    """
    if not asked.principal.may(OPERATE):
        return asked.principal.tenant, ""
    cluster = " AND cluster = {cluster:String}" if asked.cluster else ""
    for table in (LEDGER, STEP):
        sql = (
            "SELECT toString(tenant) AS name, maxIf(end_ns, end_ns <= {at_ns:Int64}) AS last "
            f"FROM leadline.{table.name} WHERE job = {{job:String}}{cluster} GROUP BY tenant ORDER BY last DESC, name"
        )
        found = store.query(f"{sql} SETTINGS final = 0", {**asked.parameters(sql), "job": job})
        names = [str(name) for name in found.column("name").to_pylist()]
        if names:
            break
    else:
        return asked.principal.tenant, ""
    note = (
        f"{len(names)} tenants have a job of this name; this is {names[0]}'s (ask as another with the header "
        "leadline-tenant)"
    )
    return names[0], note if len(names) > 1 else ""


def plain(value: Any) -> float | None:
    """A number as it is drawn; None for what is none."""
    if value is None or isinstance(value, str) or value != value:
        return None
    return float(f"{float(value):.{FIGURES}g}")
