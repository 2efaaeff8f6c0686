"""`GET /api/v1/mesh/flows`: which queue pairs and sockets are slow, and whose, as the messages of jobs tell.

edge ──> newest window of each edge with a one-way delay ──┐
flow_path ──> addresses, ports and queue pair of its flow ─┴──> the slowest first
"""

from __future__ import annotations

from leadline.model.tables.paths import FLOW_PATH
from leadline.model.tables.training import EDGE
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.mesh.types import SlowFlow
from leadline.views.mesh.windows import LOOK_NS, Row, rows_of, where_of, window_told
from leadline.views.rows import SCHEMA_VERSION, rows_where

FLOWS_MAX = 200  # told; `flows_total` counts all
NO_MESSAGES = (
    "No job reported the two ends of its messages within ten minutes (NCCL plug-in, ring benchmark, torch hook), so no "
    "delay is known by queue pair or socket"
)
NO_FIT = "Messages were seen, and the clocks of their ends tell no one-way delay: it needs fitted clocks on both hosts"


def flows_answer(store: Store, asked: Asked, job: str = "") -> Row:
    """What `/api/v1/mesh/flows` says, of all jobs or one."""
    more = ["job = {job:String}"] if job else []
    edges = rows_where(EDGE, where_of(asked, asked.at_ns - LOOK_NS, "messages > 0", *more))
    names = "tenant, cluster, job, comm, src_rank, dst_rank"
    newest = f"SELECT * FROM ({edges}) ORDER BY end_ns DESC, window_ns LIMIT 1 BY {names}"
    paths = (
        "SELECT tenant, cluster, flow, protocol, src_ip, dst_ip, src_port, dst_port, dst_qp, toString(src) AS leaves, "
        f"toString(dst) AS arrives FROM ({rows_where(FLOW_PATH, where_of(asked, asked.at_ns - LOOK_NS))}) "
        "ORDER BY end_ns DESC LIMIT 1 BY tenant, cluster, flow"
    )
    known = "path.protocol != 0"  # where nothing is joined every column is empty
    host = "nullIf(splitByChar('/', replaceRegexpOne(ifNull(path.{end}, ''), '^port:', ''))[1], '')"
    told = ", ".join(
        f"if({known}, path.{name}, NULL) AS {name}" for name in ("protocol", "src_ip", "dst_ip", "src_port", "dst_port")
    )
    sql = (
        "SELECT toString(edge.job) AS job, toString(edge.tenant) AS tenant, src_rank, dst_rank, "
        f"{host.format(end='leaves')} AS src_host, {host.format(end='arrives')} AS dst_host, edge.end_ns AS end_ns, "
        "messages, delay_p50_ns, delay_p99_ns, bound_ns, edge.flow AS flow, flows, "
        f"{told}, if({known}, path.dst_qp, NULL) AS dst_qp, count() OVER () AS total, "
        "countIf(delay_p99_ns IS NULL) OVER () AS without "
        f"FROM ({newest}) AS edge LEFT JOIN ({paths}) AS path "
        "ON edge.tenant = path.tenant AND edge.cluster = path.cluster AND edge.flow = path.flow "
        f"ORDER BY delay_p99_ns DESC NULLS LAST, job, src_rank, dst_rank LIMIT {FLOWS_MAX}"
    )
    rows = rows_of(store, asked, sql, **({"job": job} if job else {}))
    without = rows[0]["without"] if rows else 0
    slow = [window_told(row, tuple(SlowFlow.model_fields)) for row in rows if row["delay_p99_ns"] is not None]
    return {
        "schema": SCHEMA_VERSION, "at_ns": asked.at_ns, "flows": slow,
        "flows_total": (rows[0]["total"] if rows else 0) - without, "without_delay": without,
        "why": "" if slow else NO_FIT if rows else NO_MESSAGES,
    }  # fmt: skip
