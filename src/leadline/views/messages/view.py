"""The messages of a job: who sends to whom in which order, and what collectives waited for, edge by edge.

Everything shown was concluded by the analysis `messages`; a request reads its tables and adds windows up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.errors import UsageError
from leadline.model.tables import Table
from leadline.model.tables.training import EDGE, MESSAGE
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, plain_job, time_text
from leadline.views.messages.collisions import collisions
from leadline.views.messages.rings import Channel, around_ns, channel_of, in_ring_order
from leadline.views.near import near_jobs
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

ANALYSIS = "messages"
SPAN_NS_MAX = 3600 * S
AGE_NS = 60 * S  # a window that ended longer before the time asked for is told to be old
COMMS_MAX = 50  # told of a job, those with most time in collectives first; `communicators_total` counts all
EDGES_MAX = 1000  # told of a communicator, those that held most; `edges_total` counts all
LINKS_MAX = 50_000  # (channel, sender, receiver) looked at to find rings
CHANNELS_MAX = 64  # told of a communicator
_SUMS = ("held_s", "messages", "unpaired", "conflicting", "bytes")
_UNITS = {"s": S, "m": 60 * S, "h": 3600 * S}
NEVER = (
    "no message of {job} was ever analysed: do its ranks report message ends (NCCL plug-in, ring benchmark, and the "
    "torch hook for send and receive; `leadline show tables message_end`), does the analysis `messages` run "
    "(`leadline doctor`), and is the name right"
)


def span_of(text: str) -> int:
    """Length of time in ns: `60s`, `5m`, `1h`; 0 if empty. Errors: UsageError."""
    if not text:
        return 0
    found = re.fullmatch(r"([0-9]{1,6})(s|m|h)", text)
    span_ns = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < span_ns <= SPAN_NS_MAX:
        raise UsageError(f"window: expected a length of time up to 1h, such as 60s or 5m, got {text[:100]!r}")
    return span_ns


def messages_answer(store: Store, asked: Asked, job: str, window: str = "") -> dict[str, Any]:
    """What `/api/v1/messages` says: the newest window with messages of the job by the time asked for, or, with
    `window`, all windows of that length up to it added up. Errors: UsageError."""
    span_ns = span_of(window)
    name = plain_job(job)
    answer: dict[str, Any] = {
        "schema": SCHEMA_VERSION, "job": name, "end_ns": None, "window_ns": None, "communicators": [],
        "communicators_total": 0, "why": "", "note": "",
    }  # fmt: skip
    rows = _Rows.newest(store, asked, name, span_ns)
    if rows is None:
        return answer | {"why": NEVER.format(job=name) + (near_jobs(store, asked, name, EDGE) or "?")}
    every = communicators(rows.edges(), rows.wholes(), rows.links())
    found = every[:COMMS_MAX]
    flows_of = rows.flows()
    collide = collisions(
        store, rows.asked, rows.end_ns - rows.span_ns, {flow for each in flows_of.values() for flow in each}
    )
    for comm in found:
        for edge in comm["edges"]:
            mine = flows_of.get((comm["comm"], edge["src_rank"], edge["dst_rank"]), [])
            edge["collision"] = next((collide[flow] for flow in mine if flow in collide), None)
    return answer | {
        "end_ns": rows.end_ns, "window_ns": rows.span_ns, "communicators": found,
        "communicators_total": len(every), "note": rows.note,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the windows of one job that end in (end_ns - span_ns, end_ns]."""

    store: Store
    asked: Asked
    job: str
    tenant: str
    end_ns: int
    span_ns: int
    one: bool  # it is one window
    note: str

    @staticmethod
    def newest(store: Store, asked: Asked, job: str, span_ns: int) -> _Rows | None:
        """The newest window with messages of the job, of the tenant whose job it was last; None if there is none."""
        where = " AND ".join([*asked.conditions(), "job = {job:String}", "end_ns <= {at_ns:Int64}"])
        sql = (
            "SELECT toString(tenant) AS tenant, max(end_ns) AS newest_ns, argMax(window_ns, end_ns) AS length_ns "
            f"FROM leadline.{EDGE.name} WHERE {where} GROUP BY tenant ORDER BY newest_ns DESC, tenant"
        )
        found = json_rows(store.query(sql, {**asked.parameters(sql), "job": job}))
        if not found:
            return None
        end_ns, length_ns = found[0]["newest_ns"], found[0]["length_ns"]
        notes = []
        if len(found) > 1:
            others = ", ".join(row["tenant"] for row in found[1:5])
            notes.append(
                f"tenant {found[0]['tenant']}'s; a job of this name is also run by {others}: ask as one of them"
            )
        if asked.at_ns - end_ns > AGE_NS:
            notes.append(f"no later messages of {job} by then: this is its newest window, to {time_text(end_ns)}")
        one = span_ns <= length_ns
        return _Rows(
            store, replace(asked, at_ns=end_ns), job, found[0]["tenant"], end_ns, max(span_ns, length_ns), one,
            "; ".join(notes),
        )  # fmt: skip

    def _source(self, table: Table) -> str:
        where = [
            "job = {job:String}", "tenant = {owner:String}", f"analysis = '{ANALYSIS}'",
            f"end_ns > {self.end_ns - self.span_ns}", f"end_ns <= {self.end_ns}",
        ]  # fmt: skip
        if self.asked.cluster:
            where.append("cluster = {cluster:String}")
        return f"({rows_where(table, ' AND '.join(where))})"

    def _query(self, sql: str) -> list[dict[str, Any]]:
        parameters = {**self.asked.parameters(sql), "job": self.job, "owner": self.tenant}
        return json_rows(self.store.query(sql, parameters))

    def edges(self) -> list[dict[str, Any]]:
        """Sums by edge. Percentiles of one window are those that were judged, of several those of all messages."""
        rows = self._query(
            "SELECT toString(comm) AS of, src_rank AS src, dst_rank AS dst, sum(messages) AS n, "
            "sum(unpaired) AS alone, sum(conflicting) AS odd, sum(bytes) AS carried, sum(held_s) AS held, "
            "max(transfer_p50_ns) AS t50, max(transfer_p99_ns) AS t99, max(delay_p50_ns) AS d50, "
            "max(delay_p99_ns) AS d99, max(bound_ns) AS bound, max(flow) AS one_flow, uniqExact(flow) AS known, "
            f"max(flows) AS candidates FROM {self._source(EDGE)} GROUP BY of, src, dst ORDER BY of, src, dst"
        )
        if self.one:
            return rows
        over_all = {(row["of"], row["src"], row["dst"]): row for row in self._percentiles()}
        empty = dict.fromkeys(("t50", "t99", "d50", "d99"))
        return [{**row, **empty, **over_all.get((row["of"], row["src"], row["dst"]), {})} for row in rows]

    def _percentiles(self) -> list[dict[str, Any]]:
        taken = "greatest(received_ns - greatest(send_posted_ns, recv_posted_ns), 0)"
        return self._query(
            f"SELECT toString(comm) AS of, src_rank AS src, dst_rank AS dst, quantileExactLow(0.5)({taken}) AS t50, "
            f"quantileExactHigh(0.99)({taken}) AS t99, quantileExactLow(0.5)(delay_ns) AS d50, "
            f"quantileExactHigh(0.99)(delay_ns) AS d99 FROM {self._source(MESSAGE)} WHERE state = 'paired' "
            "GROUP BY of, src, dst"
        )

    def wholes(self) -> dict[str, float]:
        """Seconds in collectives by communicator: each window tells them once, with each of its edges."""
        rows = self._query(
            "SELECT of, sum(whole) AS total FROM (SELECT toString(comm) AS of, end_ns, max(collectives_s) AS whole "
            f"FROM {self._source(EDGE)} GROUP BY of, end_ns) GROUP BY of"
        )
        return {row["of"]: row["total"] for row in rows}

    def flows(self) -> dict[tuple[str, int, int], list[str]]:
        """The flows that messages rode, by communicator, sender and receiver."""
        rows = self._query(
            "SELECT DISTINCT toString(comm) AS of, src_rank AS src, dst_rank AS dst, flow "
            f"FROM {self._source(MESSAGE)} WHERE isNotNull(flow) ORDER BY of, src, dst, flow LIMIT {LINKS_MAX}"
        )
        found: dict[tuple[str, int, int], list[str]] = defaultdict(list)
        for row in rows:
            found[row["of"], row["src"], row["dst"]].append(row["flow"])
        return found

    def links(self) -> list[dict[str, Any]]:
        """Who sent to whom on which channel, and of how many messages clocks contradicted each other."""
        return self._query(
            "SELECT toString(comm) AS of, channel, src_rank AS src, dst_rank AS dst, "
            "countIf(isNull(delay_ns) AND isNotNull(bound_ns)) AS backwards "
            f"FROM {self._source(MESSAGE)} GROUP BY of, channel, src, dst ORDER BY of, channel, src, dst "
            f"LIMIT {LINKS_MAX}"
        )


def communicators(
    edges: Iterable[Mapping[str, Any]], wholes: Mapping[str, float], links: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Communicators with their rings and edges; the one with most time in collectives first."""
    edges_of, links_of = defaultdict(list), defaultdict(list)
    for edge in edges:
        edges_of[edge["of"]].append(edge)
    for link in links:
        links_of[link["of"]].append(link)
    found = [_communicator(comm, edges_of[comm], wholes.get(comm, 0.0), links_of[comm]) for comm in edges_of]
    return sorted(found, key=lambda each: (-each["collectives_s"], each["comm"]))


def _communicator(
    comm: str, rows: Sequence[Mapping[str, Any]], whole_s: float, links: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    channels = _channels(links)
    on: dict[tuple[int, int], list[int]] = defaultdict(list)
    backwards: dict[tuple[int, int], int] = defaultdict(int)
    for link in links:
        on[link["src"], link["dst"]].append(link["channel"])
        backwards[link["src"], link["dst"]] += link["backwards"]
    edges = [_edge(row, whole_s, on[row["src"], row["dst"]], backwards[row["src"], row["dst"]]) for row in rows]
    told = sorted(edges, key=lambda each: (-each["held_s"], each["src_rank"], each["dst_rank"]))[:EDGES_MAX]
    sums = {name: sum(edge[name] for edge in edges) for name in _SUMS}
    delay_of = {(edge["src_rank"], edge["dst_rank"]): edge["delay_p50_ns"] for edge in edges}
    return {
        "comm": comm,
        "ranks": len({rank for edge in edges for rank in (edge["src_rank"], edge["dst_rank"])}),
        "collectives_s": whole_s,
        **sums,
        "held_s": min(sums["held_s"], whole_s),  # beyond it by what rounding adds
        "channels": [
            {
                "channel": each.channel,
                "shape": each.shape,
                "order": list(each.order),
                "edges": each.edges,
                "around_ns": around_ns(each, delay_of),
            }
            for each in channels[:CHANNELS_MAX]
        ],
        "channels_total": len(channels),
        "edges": in_ring_order(told, channels),
        "edges_total": len(edges),
    }


def _channels(links: Sequence[Mapping[str, Any]]) -> list[Channel]:
    by_channel: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for link in links:
        by_channel[link["channel"]].append((link["src"], link["dst"]))
    return [channel_of(channel, pairs) for channel, pairs in sorted(by_channel.items())]


def _edge(row: Mapping[str, Any], whole_s: float, channels: list[int], backwards: int) -> dict[str, Any]:
    flows = max(row["known"], row["candidates"])
    return {
        "src_rank": row["src"], "dst_rank": row["dst"], "channels": channels, "messages": row["n"],
        "unpaired": row["alone"], "conflicting": row["odd"], "bytes": row["carried"], "held_s": row["held"],
        "share": min(row["held"] / whole_s, 1.0) if whole_s > 0 else None,
        "transfer_p50_ns": row["t50"], "transfer_p99_ns": row["t99"], "delay_p50_ns": row["d50"],
        "delay_p99_ns": row["d99"], "bound_ns": row["bound"], "backwards": backwards,
        "flow": row["one_flow"] if row["known"] == 1 and flows == 1 else None, "flows": flows,
    }  # fmt: skip
