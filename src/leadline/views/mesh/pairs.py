"""`GET /api/v1/mesh`, `/api/v1/mesh/pair`: one-way delays between hosts as a matrix; one pair over time.

delay ──> newest window of each pair and class ──> matrix (row: sender, column: receiver) ──> one pair over time
"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.mesh.routers import unplaced_routers
from leadline.views.mesh.types import MeshWindow
from leadline.views.mesh.windows import (
    COLUMN,
    LOOK_NS,
    NO_DELAY,
    Measure,
    Row,
    most_probed,
    pairs_sql,
    rows_of,
    silent,
    unit_of,
    window_told,
)
from leadline.views.natural import natural
from leadline.views.rows import SCHEMA_VERSION

HOSTS_MAX = 256  # 65,000 cells: half a megabyte, and two pixels a cell


def mesh_answer(store: Store, asked: Asked, measure: Measure, traffic_class: int | None = None) -> Row:
    """What `/api/v1/mesh` says: of the class that was asked for, else of the one with most pairs."""
    rows = rows_of(store, asked, pairs_sql(asked, asked.at_ns - LOOK_NS, newest=True))
    counted: dict[int, int] = {}
    for row in rows:
        counted[row["class"]] = counted.get(row["class"], 0) + 1
    chosen = most_probed(counted) if traffic_class is None else traffic_class
    column = COLUMN[measure]
    shown = [_without_delay(row, column) if silent(row) else row for row in rows if row["class"] == chosen]
    hosts, total = _hosts(shown, column)
    answered, unplaced = unplaced_routers(store, asked)
    values, bounds = _matrix(shown, hosts, column)
    place = {host: at for at, host in enumerate(hosts)}
    return {
        "schema": SCHEMA_VERSION, "at_ns": asked.at_ns,
        "from_ns": min((row["end_ns"] - row["window_ns"] for row in shown), default=None),
        "measure": measure, "unit": unit_of(measure), "traffic_class": chosen,
        "classes": [{"value": each, "pairs": counted[each]} for each in sorted(counted)],
        "hosts": hosts, "hosts_total": total, "values": values, "bounds_ns": bounds,
        "silent": sorted((place[row["src"]], place[row["dst"]]) for row in shown
                         if silent(row) and row["src"] in place and row["dst"] in place),
        "routers_total": answered, "routers_unplaced": unplaced,
        "why": "" if shown else NO_DELAY,
    }  # fmt: skip


def _without_delay(row: Row, column: str) -> Row:
    """Of a pair of which nothing arrived: its loss is known, a delay is not."""
    return {**row, column: row[column] if column == "lost" else None}


def pair_answer(store: Store, asked: Asked, from_ns: int, src: str, dst: str, traffic_class: int | None) -> Row:
    """What `/api/v1/mesh/pair` says of the span from `from_ns` to `asked.at_ns`."""
    only = "src IN ({src:String}, {dst:String}) AND dst IN ({src:String}, {dst:String}) AND src != dst"
    sql = pairs_sql(asked, from_ns, newest=False, only=only)
    rows = [row for row in rows_of(store, asked, sql, src=src, dst=dst) if traffic_class in (None, row["class"])]
    shortest_ns = min((row["window_ns"] for row in rows), default=0)
    windows = [row for row in reversed(rows) if row["window_ns"] == shortest_ns]
    fields = tuple(MeshWindow.model_fields)
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": asked.at_ns, "src": src, "dst": dst,
        "traffic_class": traffic_class,
        "there": [window_told(row, fields) for row in windows if row["src"] == src],
        "back": [window_told(row, fields) for row in windows if row["src"] == dst],
        "why": "" if rows else "nothing was measured between them in this span",
    }  # fmt: skip


def _hosts(rows: Sequence[Row], column: str) -> tuple[list[str], int]:
    """Hosts by name, at most `HOSTS_MAX`, and how many there are; those with the largest values are kept."""
    largest: dict[str, float] = {}
    for row in rows:
        for host in (row["src"], row["dst"]):
            largest[host] = max(largest.get(host, 0.0), row[column] or 0.0)
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
