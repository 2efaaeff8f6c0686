"""`GET /api/v1/mesh`, `/api/v1/clock`: one-way delays between hosts as a matrix; how each clock is fitted.

delay ──> newest window of each pair and class ──> matrix (row: sender, column: receiver) ──> one pair over time
clock_fit ──> newest fit of each host's clock

Both tables are written by the probe mesh's analyses; without rows the answers are empty and say why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from leadline.model.tables.fabric import CLOCK_FIT, DELAY
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.natural import natural
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

LOOK_NS = 600 * S  # a pair whose newest window is older than this is not known now
SPAN_NS = 3600 * S  # of one pair, if no time is asked for
HOSTS_MAX = 256  # 65,000 cells: half a megabyte, and two pixels a cell
POINTS_MAX = 2000  # windows of one pair, both ways
NO_DELAY = "No one-way delay was measured within ten minutes"
NO_CLOCK = "No clock was fitted within ten minutes, so times of different hosts are compared as each host reports them"

Measure = Literal["p50", "p99", "min", "queue", "lost"]
COLUMN: Mapping[Measure, str] = {
    "p50": "p50_ns", "p99": "p99_ns", "min": "min_ns", "queue": "queue_p99_ns", "lost": "lost",
}  # fmt: skip
Row = dict[str, Any]


class MeshClass(BaseModel):
    """A traffic class that was probed, and how many pairs."""

    value: int
    pairs: int


class MeshAnswer(BaseModel):
    """The newest of one measure between all hosts: rows send, columns receive; null: not measured."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    at_ns: int
    from_ns: int | None = Field(description="begin of the oldest window that is shown")
    measure: str
    unit: str = Field(description="ns or ratio")
    traffic_class: int | None
    classes: list[MeshClass]
    hosts: list[str]
    hosts_total: int = Field(description="more than `hosts`: those with the largest values are shown")
    values: list[list[float | None]]
    bounds_ns: list[list[int | None]] = Field(description="values are right to within this; null: unknown")
    why: str


class MeshWindow(BaseModel):
    """One way of one pair in one window; all source ports together."""

    end_ns: int
    window_ns: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    queue_p99_ns: int
    lost: float
    count: int
    bound_ns: int | None


class PairAnswer(BaseModel):
    """Both ways of one pair over time, oldest window first."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    from_ns: int
    to_ns: int
    src: str
    dst: str
    traffic_class: int | None
    there: list[MeshWindow]
    back: list[MeshWindow]
    why: str


class ClockRow(BaseModel):
    """How one clock of one host maps to cluster time."""

    tenant: str
    cluster: str
    host: str
    clock: str
    end_ns: int
    offset_ns: int
    bound_ns: int
    rate_ppb: float
    noise_ns: float
    island: int
    state: str = Field(description="fitted, carried, lost")


class ClockAnswer(BaseModel):
    """The newest fit of every clock; the least certain first."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    at_ns: int
    clocks: list[ClockRow]
    islands: int
    worst_bound_ns: int | None
    why: str


def mesh_answer(store: Store, asked: Asked, measure: Measure, traffic_class: int | None = None) -> Row:
    """What `/api/v1/mesh` says: of the class that was asked for, else of the one with most pairs."""
    rows = _rows(store, asked, _pairs_sql(asked, asked.at_ns - LOOK_NS, newest=True))
    counted: dict[int, int] = {}
    for row in rows:
        counted[row["class"]] = counted.get(row["class"], 0) + 1
    chosen = traffic_class
    if chosen is None and counted:
        chosen = min(counted, key=lambda each: (-counted[each], each))
    shown = [row for row in rows if row["class"] == chosen]
    hosts, total = _hosts(shown, COLUMN[measure])
    values, bounds = _matrix(shown, hosts, COLUMN[measure])
    return {
        "schema": SCHEMA_VERSION, "at_ns": asked.at_ns,
        "from_ns": min((row["end_ns"] - row["window_ns"] for row in shown), default=None),
        "measure": measure, "unit": "ratio" if measure == "lost" else "ns", "traffic_class": chosen,
        "classes": [{"value": each, "pairs": counted[each]} for each in sorted(counted)],
        "hosts": hosts, "hosts_total": total, "values": values, "bounds_ns": bounds, "why": "" if shown else NO_DELAY,
    }  # fmt: skip


def pair_answer(store: Store, asked: Asked, from_ns: int, src: str, dst: str, traffic_class: int | None) -> Row:
    """What `/api/v1/mesh/pair` says of the span from `from_ns` to `asked.at_ns`."""
    only = "src IN ({src:String}, {dst:String}) AND dst IN ({src:String}, {dst:String}) AND src != dst"
    sql = _pairs_sql(asked, from_ns, newest=False, only=only)
    rows = [row for row in _rows(store, asked, sql, src=src, dst=dst) if traffic_class in (None, row["class"])]
    shortest_ns = min((row["window_ns"] for row in rows), default=0)
    windows = [row for row in reversed(rows) if row["window_ns"] == shortest_ns]
    there = [_window(row) for row in windows if row["src"] == src]
    back = [_window(row) for row in windows if row["src"] == dst]
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": asked.at_ns, "src": src, "dst": dst,
        "traffic_class": traffic_class, "there": there, "back": back,
        "why": "" if rows else "nothing was measured between them in this span",
    }  # fmt: skip


def clock_answer(store: Store, asked: Asked) -> Row:
    """What `/api/v1/clock` says."""
    where = _where(asked, asked.at_ns - LOOK_NS)
    names = ("tenant", "cluster", "host", "clock")
    told = ", ".join(f"toString({name}) AS {name}" for name in names)
    sql = (
        f"SELECT {told}, end_ns, offset_ns, bound_ns, rate_ppb, noise_ns, island, toString(state) AS state "
        f"FROM ({rows_where(CLOCK_FIT, where)}) ORDER BY end_ns DESC LIMIT 1 BY {', '.join(names)}"
    )
    clocks = sorted(_rows(store, asked, sql), key=lambda row: (row["state"] != "lost", -row["bound_ns"], row["host"]))
    held = [row for row in clocks if row["state"] != "lost"]
    return {
        "schema": SCHEMA_VERSION, "at_ns": asked.at_ns, "clocks": clocks,
        "islands": len({(row["tenant"], row["cluster"], row["island"]) for row in held}),
        "worst_bound_ns": max((row["bound_ns"] for row in held), default=None),
        "why": "" if clocks else NO_CLOCK,
    }  # fmt: skip


def _where(asked: Asked, from_ns: int, *more: str) -> str:
    return " AND ".join([*asked.conditions(), f"end_ns > {from_ns}", f"end_ns <= {asked.at_ns}", *more])


def _pairs_sql(asked: Asked, from_ns: int, *, newest: bool, only: str = "1") -> str:
    """Windows of pairs, source ports put together; the newest (of these the shortest) of each pair, or all by time.

    A row without a source port speaks of all of them and counts alone. Where there is none, the ports' rows do:
    smallest of the smallest, worst 99th percentile and bound, medians weighted by probes, loss by port (each port is
    probed as often; a port that lost all has no probes to weigh).
    """
    rows = rows_where(DELAY, _where(asked, from_ns, only))
    whole = "countIf(src_port IS NULL) > 0"
    of_all = "src_port IS NULL"

    def put(of_whole: str, of_ports: str) -> str:
        return f"if({whole}, {of_whole}, {of_ports})"

    merged = ", ".join([
        put(f"minIf(min_ns, {of_all})", "min(min_ns)") + " AS least_ns",
        put(f"anyIf(p50_ns, {of_all})", "toInt64(round(ifNotFinite(sum(p50_ns * toFloat64(`count`)) / "
            "sum(toFloat64(`count`)), avg(p50_ns))))") + " AS median_ns",
        put(f"maxIf(p99_ns, {of_all})", "max(p99_ns)") + " AS late_ns",
        put(f"maxIf(queue_p99_ns, {of_all})", "max(queue_p99_ns)") + " AS queued_ns",
        put(f"avgIf(lost, {of_all})", "avg(lost)") + " AS share_lost",
        put(f"sumIf(`count`, {of_all})", "sum(`count`)") + " AS probes",
        put(f"maxIf(bound_ns, {of_all})", "if(countIf(bound_ns IS NULL) > 0, NULL, max(bound_ns))") + " AS right_ns",
    ])  # fmt: skip
    windows = (
        f"SELECT tenant, cluster, src, dst, class, end_ns, window_ns, {merged} FROM ({rows}) "
        "GROUP BY tenant, cluster, src, dst, class, end_ns, window_ns"
    )
    named = (
        "toString(src) AS src, toString(dst) AS dst, class, end_ns, window_ns, least_ns AS min_ns, "
        "median_ns AS p50_ns, late_ns AS p99_ns, queued_ns AS queue_p99_ns, share_lost AS lost, "
        "probes AS `count`, right_ns AS bound_ns"
    )
    last = "ORDER BY end_ns DESC, window_ns LIMIT 1 BY src, dst, class" if newest else ""
    every = "" if newest else f" ORDER BY end_ns DESC LIMIT {POINTS_MAX}"
    return f"SELECT {named} FROM ({windows}) {last}{every}"


def _rows(store: Store, asked: Asked, sql: str, **parameters: object) -> list[Row]:
    return json_rows(store.query(sql, {**asked.parameters(sql), **parameters}))


def _hosts(rows: Sequence[Row], column: str) -> tuple[list[str], int]:
    """Hosts by name, at most `HOSTS_MAX`, and how many there are; those with the largest values are kept."""
    largest: dict[str, float] = {}
    for row in rows:
        for host in (row["src"], row["dst"]):
            largest[host] = max(largest.get(host, 0.0), row[column])
    kept = sorted(largest, key=lambda host: (-largest[host], host))[:HOSTS_MAX]
    return sorted(kept, key=natural), len(largest)


def _matrix(
    rows: Sequence[Row], hosts: Sequence[str], column: str
) -> tuple[list[list[float | None]], list[list[int | None]]]:
    place = {host: at for at, host in enumerate(hosts)}
    values: list[list[float | None]] = [[None] * len(hosts) for _ in hosts]
    bounds: list[list[int | None]] = [[None] * len(hosts) for _ in hosts]
    for row in rows:
        if row["src"] in place and row["dst"] in place:
            values[place[row["src"]]][place[row["dst"]]] = row[column]
            bounds[place[row["src"]]][place[row["dst"]]] = row["bound_ns"]
    return values, bounds


def _window(row: Row) -> Row:
    return {name: row[name] for name in MeshWindow.model_fields}


Host = Annotated[str, Query(description="a host, as the mesh names it", min_length=1, max_length=1000)]
Class = Annotated[int | None, Query(alias="class", description="traffic class; by default the one probed most")]
