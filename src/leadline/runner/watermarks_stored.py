"""Watermarks in the store: what senders said before a start, and how the server sees each of them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from leadline.model.tables import Table
from leadline.model.tables.fabric import WATERMARK
from leadline.model.units import S
from leadline.runner.store_verdicts import StoreWriting
from leadline.runner.watermarks import COLUMNS, GIVE_UP_NS, SERVER, SenderState
from leadline.store.schema import arrow_table

STARTING_NS = 3600 * S
"""Senders heard in the hour before the server went away may have kept what they saw since; older ones count as gone."""
ENDED_NS = 60 * S  # so long a sender is still told of that has no more to send


def newest_watermarks(store: StoreWriting, now_ns: int) -> pa.Table:
    """The newest word of every sender before a start. Errors: StoreError."""
    names = ", ".join(COLUMNS)
    return store.query(
        f"SELECT {names} FROM leadline.{WATERMARK.name} WHERE reported_ns > {{since:Int64}} AND isNull(heard_ns) "
        "ORDER BY reported_ns DESC LIMIT 1 BY tenant, cluster, host, sender, job",
        {"since": now_ns - max(STARTING_NS, GIVE_UP_NS)},
    )


def keep_states(store: StoreWriting, states: Sequence[SenderState], now_ns: int) -> None:
    """Store how each sender is, stamped by the server's clock: a row for each of its jobs. Errors: StoreError."""
    host = socket.gethostname()
    rows = [
        {
            "tenant": each.sender.tenant, "cluster": each.sender.cluster, "host": each.sender.host,
            "clock": f"{host}/{SERVER}", "reported_ns": now_ns, "to_ns": each.to_ns, "sender": each.sender.name,
            "job": job, "ranks": ranks, "state": "open" if each.state == "ok" else each.state,
            "heard_ns": each.heard_ns, "took_ns": None,
        }
        for each in states
        if each.state != "ended" or now_ns - each.heard_ns <= ENDED_NS
        for job, ranks in (each.jobs or {"": 0}).items()
    ]  # fmt: skip
    keep_rows(store, WATERMARK, rows)


def keep_rows(store: StoreWriting, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows, if there are any. Errors: StoreError."""
    if rows:
        store.append(table, arrow_table(table, {name: [row[name] for row in rows] for name in rows[0]}))
