"""`GET /api/v1/jobs/{job}/calls`: single collectives of one rank in a short span, with the arrival of every rank.

What a cell of the heat map is made of. Lateness is by each rank's own clock, as the heat map has it: the median rank
waits in the collective for longer than this one, by so much. `after_s` is by the clocks as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from leadline.model.tables.training import COLLECTIVE
from leadline.model.units import S
from leadline.views.jobs.lateness import HOW, PAIRWISE
from leadline.views.jobs.rows import JobRows, plain
from leadline.views.rows import SCHEMA_VERSION

CALLS_MAX = 200  # told, those to which the rank came latest; in order of time
ARRIVALS_MAX = 64  # told of one collective, the last to come; a median rank is among few or many
AROUND_NS = 10 * S  # others may come to a call of the span so long before or after


def calls_answer(rows: JobRows, rank: int) -> dict[str, Any]:
    """What the end point says."""
    found = [_call(row, rank) for row in _rows(rows, rank)]
    worst = sorted(found, key=lambda call: -(call["late_s"] or 0.0))[:CALLS_MAX]
    return {
        "schema": SCHEMA_VERSION, "job": rows.job, "tenant": rows.tenant, "rank": rank, "from_ns": rows.from_ns,
        "to_ns": rows.to_ns, "calls": sorted(worst, key=lambda call: (call["at_ns"], call["comm"], call["seq"])),
        "calls_total": len(found), "note": rows.note,
        "why": "" if found else f"rank {rank} began no collective in this span: {rows.why_none('collective', HOW)}",
    }  # fmt: skip


def _rows(rows: JobRows, rank: int) -> list[dict[str, Any]]:
    span = f"enqueued_ns >= {rows.from_ns - AROUND_NS} AND enqueued_ns < {rows.to_ns + AROUND_NS}"
    each = (
        "SELECT comm, seq, rank, any(op) AS kind, max(bytes) AS payload, any(ranks) AS ranks, "
        f"min(enqueued_ns) AS came_ns, max(finished_ns) AS left_ns FROM leadline.{COLLECTIVE.name} "
        f"WHERE {rows.mine()} AND {span} "
        f"AND op NOT IN {PAIRWISE} GROUP BY comm, seq, rank"
    )
    return rows.query(
        "SELECT toString(comm) AS comm, seq, toString(any(kind)) AS op, max(payload) AS bytes, max(ranks) AS size, "
        f"groupArray((rank, came_ns, left_ns)) AS arrivals FROM ({each}) GROUP BY comm, seq "
        f"HAVING countIf(rank = {{rank:Int64}} AND came_ns >= {rows.from_ns} AND came_ns < {rows.to_ns}) > 0 "
        "SETTINGS final = 0",
        rank=rank,
    )


def _call(row: Mapping[str, Any], rank: int) -> dict[str, Any]:
    told = ((int(who), int(came), left) for who, came, left in map(_parts, row["arrivals"]))
    arrivals = sorted(told, key=lambda one: (one[1], one[0]))
    first_ns = arrivals[0][1]
    own = next(each for each in arrivals if each[0] == rank)
    return {
        "comm": row["comm"], "seq": int(row["seq"]), "op": row["op"], "bytes": int(row["bytes"]),
        "size": int(row["size"]), "at_ns": own[1], "late_s": _late(arrivals, own), "last_rank": arrivals[-1][0],
        "spread_s": plain((arrivals[-1][1] - first_ns) / S),
        "took_s": None if own[2] is None else plain((int(own[2]) - own[1]) / S), "told": len(arrivals),
        "arrivals": [
            {"rank": who, "after_s": plain((came - first_ns) / S)} for who, came, _ in arrivals[-ARRIVALS_MAX:]
        ],
    }  # fmt: skip


def _parts(told: Any) -> Sequence[Any]:
    """One tuple of the engine: an array, or an object with its places as names."""
    return list(told.values()) if isinstance(told, Mapping) else told


def _late(arrivals: Sequence[Sequence[Any]], own: Sequence[Any]) -> float | None:
    """By how much longer the median rank was in it; by the clocks where one did not leave it."""
    if all(left is not None for _, _, left in arrivals):
        return plain((median(int(left) - came for _, came, left in arrivals) - (int(own[2]) - own[1])) / S)
    return plain((own[1] - median(came for _, came, _ in arrivals)) / S)
