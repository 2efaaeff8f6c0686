"""Where all jobs stand: open incidents, GPU time held and lost, error budgets. What `/metrics` says of verdicts.

incident, cause ──> how many are open, by job and rule     ledger ──> GPU time by job, growing; goodput of an hour
sle ──> budgets and burn rates of a month, the worst first

A counter of Prometheus must never fall, and a fall is taken for a restart; but a verdict about a window may change
when rows arrive late. So windows are added up from the start of the server on: those that ended longer ago than
`REVISED_NS` for good, the newer ones anew each time, and no sum is told lower than it was told before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from leadline.model.incidents import Verdict
from leadline.model.principal import Principal
from leadline.model.tables.accounts import LEDGER, SLE
from leadline.model.tables.verdicts import CAUSE, INCIDENT
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.incident import OPEN
from leadline.views.ledger.view import goodput
from leadline.views.rows import json_rows, rows_where
from leadline.views.sle.view import Wanted, budgets

GOODPUT_NS = 3600 * S  # of the ratio: long enough for checkpoints and restarts to be in it, short enough to alert on
REVISED_NS = 3600 * S  # how long the ledger of a window may still change: rows later than this change little
FORGOTTEN_NS = 24 * 3600 * S  # sums of a job without a window for so long are dropped: it would begin at 0 again
CLUSTERS_MAX = 16  # whose budgets are read, each with a query of its own
BUDGET_SPAN = "30d"  # of the budgets; the burn rates of `views.sle` are meant for a budget of 30 days
JobKey = tuple[str, str, str]  # tenant, cluster, job


@dataclass(frozen=True, slots=True)
class OpenIncidents:
    """How many incidents of one kind are open. `rule`: of the likeliest cause; unknown: none is named yet."""

    tenant: str
    cluster: str
    job: str  # empty: of no job
    rule: str
    symptom: str
    suppressed: str  # why they alert nobody; empty: they do
    count: int


@dataclass(frozen=True, slots=True)
class JobTime:
    """GPU-seconds of a job since the server started, and its goodput over the last hour."""

    tenant: str
    cluster: str
    job: str
    held: float
    lost: Mapping[str, float]  # by category
    ratio: float | None
    ratio_max: float | None  # had all that is unknown been productive


@dataclass(frozen=True, slots=True)
class Budget:
    """How well one entity meets one expectation over 30 days. None: no second of it is known."""

    tenant: str
    cluster: str
    expectation: str
    layer: str
    entity: str
    good_ratio: float | None
    left_ratio: float | None  # of the error budget; below 0: overspent
    burn: Mapping[str, float | None]  # rate by window: 5m, 1h, 24h


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything as it was at `at_ns`: each list with what matters most first."""

    at_ns: int
    incidents: tuple[OpenIncidents, ...] = ()
    jobs: tuple[JobTime, ...] = ()
    budgets: tuple[Budget, ...] = ()


# --- incidents ----------------------------------------------------------------------------------------------------


def open_incidents(store: Store) -> tuple[OpenIncidents, ...]:
    """The open incidents of all tenants, counted; the most numerous first. Errors: StoreError."""
    named = (
        "SELECT tenant, cluster, incident, argMax(toString(rule), (seen_ns, -position)) AS named "
        f"FROM ({rows_where(CAUSE, 'chosen')}) GROUP BY tenant, cluster, incident"
    )
    is_open = rows_where(INCIDENT, f"state = '{OPEN}'")
    rows = json_rows(store.query(
        "SELECT toString(open.tenant) AS tenant, toString(open.cluster) AS cluster, ifNull(toString(job), '') AS job, "
        f"if(verdict = '{Verdict.KNOWN}' AND named != '', named, 'unknown') AS rule, toString(symptom) AS symptom, "
        "ifNull(toString(suppressed), '') AS suppressed, count() AS count "
        f"FROM ({is_open}) AS open LEFT JOIN ({named}) AS causes "
        "ON open.tenant = causes.tenant AND open.cluster = causes.cluster AND open.incident = causes.incident "
        "GROUP BY tenant, cluster, job, rule, symptom, suppressed ORDER BY count DESC, tenant, cluster, job, rule"
    ))  # fmt: skip
    return tuple(OpenIncidents(**{**row, "count": int(row["count"])}) for row in rows)


# --- GPU time -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sum:
    """GPU-seconds of one category of a job: of windows that do not change any more, and as told last."""

    held: float = 0.0
    lost: float = 0.0
    told_held: float = 0.0
    told_lost: float = 0.0

    def tell(self, held: float, lost: float) -> None:
        """`held`, `lost`: of the windows that may still change."""
        self.told_held = max(self.told_held, self.held + held)
        self.told_lost = max(self.told_lost, self.lost + lost)


@dataclass(slots=True)
class GpuTime:
    """GPU time of all jobs, added up from `from_ns` on. One thread at a time."""

    from_ns: int
    _settled_ns: int = field(init=False)
    _sums: dict[JobKey, dict[str, _Sum]] = field(default_factory=dict)
    _seen_ns: dict[JobKey, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._settled_ns = self.from_ns

    def at(self, store: Store, now_ns: int) -> tuple[JobTime, ...]:
        """The jobs that have a window within the last hour, those with most GPU time first. Errors: StoreError."""
        cut_ns = max(self._settled_ns, now_ns - REVISED_NS)
        rows = self._rows(store, now_ns, cut_ns)
        hour: dict[JobKey, list[dict[str, Any]]] = {}
        for row in rows:
            key = row["tenant"], row["cluster"], row["job"]
            self._add(key, row)
            if row["hour_held"]:
                hour.setdefault(key, []).append(
                    {"category": row["category"], "gpu_seconds": row["hour_held"], "lost_gpu_seconds": row["hour_lost"]}
                )
        self._settled_ns = cut_ns
        self._forget(now_ns)
        found = [self._job(key, some) for key, some in hour.items()]
        return tuple(sorted(found, key=lambda each: (-each.held, each.tenant, each.cluster, each.job)))

    def _rows(self, store: Store, now_ns: int, cut_ns: int) -> list[dict[str, Any]]:
        """Sums by job and category: of windows that settled since last time, of newer ones, and of the last hour."""
        since_ns = min(self._settled_ns, now_ns - GOODPUT_NS)
        spans = {
            "settled": (self._settled_ns, cut_ns),
            "recent": (cut_ns, now_ns),
            "hour": (now_ns - GOODPUT_NS, now_ns),
        }
        sums = ", ".join(
            f"sumIf({column}, end_ns > {low} AND end_ns <= {high}) AS {name}_{short}"
            for name, (low, high) in spans.items()
            for short, column in (("held", "gpu_seconds"), ("lost", "lost_gpu_seconds"))
        )
        return json_rows(store.query(
            "SELECT toString(tenant) AS tenant, toString(cluster) AS cluster, toString(job) AS job, "
            f"toString(category) AS category, max(end_ns) AS seen, {sums} "
            f"FROM ({rows_where(LEDGER, f'end_ns > {since_ns} AND end_ns <= {now_ns}')}) "
            "GROUP BY tenant, cluster, job, category ORDER BY tenant, cluster, job, category"
        ))  # fmt: skip

    def _add(self, key: JobKey, row: Mapping[str, Any]) -> None:
        one = self._sums.setdefault(key, {}).setdefault(row["category"], _Sum())
        one.held += row["settled_held"]
        one.lost += row["settled_lost"]
        one.tell(row["recent_held"], row["recent_lost"])
        self._seen_ns[key] = max(self._seen_ns.get(key, 0), int(row["seen"]))

    def _forget(self, now_ns: int) -> None:
        for key in [key for key, seen_ns in self._seen_ns.items() if seen_ns < now_ns - FORGOTTEN_NS]:
            del self._seen_ns[key], self._sums[key]

    def _job(self, key: JobKey, hour: Iterable[Mapping[str, Any]]) -> JobTime:
        sums, total = self._sums[key], goodput(hour)
        lost = {category: one.told_lost for category, one in sums.items()}
        held = sum(one.told_held for one in sums.values())
        return JobTime(*key, held, lost, total["ratio"], total["ratio_max"])


# --- error budgets ------------------------------------------------------------------------------------------------


def all_budgets(store: Store, now_ns: int) -> tuple[Budget, ...]:
    """Budgets of all tenants and clusters, the worst of each cluster first. Errors: StoreError."""
    clusters = store.query(
        f"SELECT DISTINCT toString(cluster) AS name FROM leadline.{SLE.name} "
        f"WHERE end_ns > {now_ns - FORGOTTEN_NS} ORDER BY name LIMIT {CLUSTERS_MAX}"
    )
    found: list[Budget] = []
    for cluster in clusters.column("name").to_pylist():
        asked = Asked(Principal(), str(cluster), now_ns, latest=True)
        found += (_budget(str(cluster), row) for row in budgets(store, asked, Wanted(BUDGET_SPAN)))
    return tuple(found)


def _budget(cluster: str, row: Mapping[str, Any]) -> Budget:
    return Budget(
        row["tenant"], cluster, row["expectation"], row["layer"], row["entity"], row["sle"], row["budget_left"],
        row["burn"],
    )  # fmt: skip
