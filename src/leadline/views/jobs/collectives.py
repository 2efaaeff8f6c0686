"""`GET /api/v1/jobs/{job}/collectives`: each kind of collective of a job, how long it takes, who comes last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.views.compare.times import bus_bytes
from leadline.views.jobs.lateness import HOW, PAIRWISE, calls_sql, one_in
from leadline.views.jobs.rows import JobRows, plain
from leadline.views.rows import SCHEMA_VERSION

KINDS_MAX = 50  # told, those with most time; `kinds_total` counts all
_KIND = "any(op) AS what, any(bytes) AS size, any(ranks) AS members, "


def collectives_answer(rows: JobRows) -> dict[str, Any]:
    """What the end point says. A collective takes as long as the rank that came last is in it, by its own clock."""
    every = one_in(rows)
    each_one = (
        "SELECT what, size, members, comm, min(left_ns - came_ns) / 1e9 AS took, "
        "argMin(rank, left_ns - came_ns) AS last, "
        f"countIf(isNotNull(left_ns)) AS ended, count() AS came FROM ({calls_sql(rows, every, _KIND)}) "
        "GROUP BY what, size, members, comm, seq"
    )
    kinds = (
        "SELECT toString(what) AS op, size AS bytes, members AS ranks, uniqExact(comm) AS comms, count() AS n, "
        "countIf(ended = 0) AS open, countIf(came < members) AS partly, sum(took) AS whole, "
        "quantileExactIf(0.5)(took, ended > 0) AS p50, quantileExactHighIf(0.99)(took, ended > 0) AS p99, "
        "sumMapIf([toInt64(last)], [toUInt64(1)], ended > 1) AS lasts "
        f"FROM ({each_one}) GROUP BY what, size, members"
    )
    found = rows.query(
        "SELECT * EXCEPT lasts, lasts.2 AS often_each, arrayMax(often_each) AS often, arraySum(often_each) AS known, "
        f"lasts.1[indexOf(often_each, often)] AS last_one FROM ({kinds}) "
        "ORDER BY whole DESC, op, bytes SETTINGS final = 0"
    )
    return {
        "schema": SCHEMA_VERSION, "job": rows.job, "tenant": rows.tenant, "from_ns": rows.from_ns,
        "to_ns": rows.to_ns, "one_in": every, "kinds_total": len(found),
        "kinds": [_kind(row, every) for row in found[:KINDS_MAX]],
        "why": "" if found else rows.why_none(f"collective (other than {PAIRWISE[1:-1]})", HOW), "note": rows.note,
    }  # fmt: skip


def _kind(row: Mapping[str, Any], every: int) -> dict[str, Any]:
    """Counts and sums are of all, where one in `every` was looked at.

    `last_share`: of the collectives that at least two ranks left, those to which `last_rank` came last.
    """
    p50, size, ranks = plain(row["p50"]), int(row["bytes"]), int(row["ranks"])
    known = int(row["known"])
    return {
        "op": row["op"], "bytes": size, "ranks": ranks, "comms": int(row["comms"]), "count": int(row["n"]) * every,
        "unfinished": int(row["open"]) * every, "partly_told": int(row["partly"]) * every,
        "seconds": plain((row["whole"] or 0.0) * every), "took_p50_s": p50, "took_p99_s": plain(row["p99"]),
        "bus_bytes_s": plain(bus_bytes(row["op"], size, ranks) / p50) if p50 and size else None,
        "last_rank": int(row["last_one"]) if known else None,
        "last_share": plain(int(row["often"]) / known) if known else None,
    }  # fmt: skip
