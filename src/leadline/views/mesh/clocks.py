"""`GET /api/v1/clock`: the newest fit of each clock, which of them can be compared, and which are not to be trusted.

clock_fit ──> newest fit of each clock ──┬──> doubts (lost, lying, carried, set, another island, a bound too wide,
edge_fit ──> what its daemon says of it ─┘            a daemon that is wrong)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median_high
from typing import Any

from leadline.model.tables.fabric import CLOCK_FIT, EDGE_FIT
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.mesh.windows import LOOK_NS, Row, rows_of, where_of
from leadline.views.rows import SCHEMA_VERSION, rows_where

NO_CLOCK = "No clock was fitted within ten minutes, so times of different hosts are compared as each host reports them"
WIDE_NS = 2_000
"""A bound from here on is told: with stamps taken in user space it is smaller, and so are few delays in a rack."""
STALE_NS = 5 * S  # fits come four times a second; this is twenty in a row that did not
SAID = {
    "carried": "carried on from an older fit: its bound grows until probes come back",
    "stepped": "it was set: times before and after that are of two clocks",
    "asymmetric": "many of its ways are longer in one direction than in the other: its bound says by how much",
    "re-anchored": "cluster time moved, because hosts came, went or were set",
}
DAEMON_NS = 30 * S  # before the newest fit: each second a host says what its daemon does
FAST_PPB = 100_000.0  # crystals drift less than 100 ppm: beyond it the clock, or its fit, is broken
NO_BOUND_NS = 3600 * S  # as `clock_fit` tells the bound of a clock whose offset may be anything
UNTRUSTED = ("lost", "lying")
Island = tuple[str, str, int]


def clock_answer(store: Store, asked: Asked) -> Row:
    """What `/api/v1/clock` says."""
    where = where_of(asked, asked.at_ns - LOOK_NS)
    names = ("tenant", "cluster", "host", "clock")
    told = ", ".join(f"toString({name}) AS {name}" for name in names)
    sql = (
        f"SELECT {told}, end_ns, offset_ns, bound_ns, rate_ppb, noise_ns, island, toString(state) AS state "
        f"FROM ({rows_where(CLOCK_FIT, where)}) ORDER BY end_ns DESC LIMIT 1 BY {', '.join(names)}"
    )
    clocks = sorted(rows_of(store, asked, sql), key=lambda row: (is_held(row), -row["bound_ns"], row["host"]))
    newest_ns = max((row["end_ns"] for row in clocks), default=0)
    kept = _kept(store, asked, newest_ns) if clocks else {}
    clocks = [{**row, "daemon_bound_ns": kept.get(_host(row))} for row in clocks]
    held = [row for row in clocks if is_held(row)]
    usual = _usually_kept(held)
    sizes = Counter(_island(row) for row in held)
    return {
        "schema": SCHEMA_VERSION, "at_ns": asked.at_ns,
        "clocks": [
            {**row, "doubts": doubts(row, _largest(sizes, row), newest_ns, usual.get(_island(row)))} for row in clocks
        ],
        "islands": len(sizes),
        "island_sizes": [
            {"tenant": tenant, "cluster": cluster, "island": island, "clocks": count}
            for (tenant, cluster, island), count in sorted(sizes.items(), key=lambda each: (-each[1], each[0]))
        ],
        "worst_bound_ns": max((row["bound_ns"] for row in held), default=None),
        "why": "" if clocks else NO_CLOCK,
    }  # fmt: skip


def is_held(fit: Mapping[str, Any]) -> bool:
    """Whether the clock is known to within a bound."""
    return fit["state"] not in UNTRUSTED and fit["bound_ns"] < NO_BOUND_NS


def _kept(store: Store, asked: Asked, newest_ns: int) -> Mapping[tuple[str, str, str], int]:
    """Within what hosts' clocks are right as their daemons say, by tenant, cluster and host."""
    where = f"{where_of(asked, newest_ns - DAEMON_NS)} AND state = 'self'"
    sql = (
        "SELECT toString(tenant) AS tenant, toString(cluster) AS cluster, toString(host) AS host, "
        f"argMax(bound_ns, end_ns) AS stated_ns FROM ({rows_where(EDGE_FIT, where)}) "
        "WHERE bound_ns IS NOT NULL GROUP BY tenant, cluster, host"
    )
    return {_host(row): row["stated_ns"] for row in rows_of(store, asked, sql)}


def _usually_kept(held: Sequence[Row]) -> Mapping[Island, int]:
    """The median bound that daemons of an island state; none where fewer than three do: of two, who is wrong?"""
    bounds: dict[Island, list[int]] = {}
    for row in held:
        if row["daemon_bound_ns"] is not None:
            bounds.setdefault(_island(row), []).append(row["daemon_bound_ns"])
    return {island: median_high(each) for island, each in bounds.items() if len(each) >= 3}


def doubts(
    fit: Mapping[str, Any], main: int | None, newest_ns: int, kept_ns: int | None = None
) -> Sequence[str]:  # fmt: skip
    """Why times of a clock are not to be trusted, in words; none: they are, to within its bound.

    `main`: the largest island of its cluster; `newest_ns`: end of the newest fit of any clock; `kept_ns`: the
    median bound that daemons of its island state: cluster time is right to about that.
    """
    if fit["state"] == "lost":
        return ["lost: no probe of it came back, so its times are compared as the host reports them"]
    if fit["state"] == "lying":
        return ["lying: its probes contradict those of the others for seconds, so its times are not to be trusted"]
    if not is_held(fit):
        return [f"{fit['state']}: it was set, and no probe has told since how far it is off"]
    found = [SAID[fit["state"]]] if fit["state"] in SAID else []
    if fit["state"] != "carried" and newest_ns - fit["end_ns"] >= STALE_NS:
        found.append(f"last fitted {(newest_ns - fit['end_ns']) / S:.0f} s before the newest of the others")
    if main is not None and fit["island"] != main:
        found.append(f"on island {fit['island']}: not comparable with clocks of island {main}")
    if fit["bound_ns"] >= WIDE_NS:
        found.append(f"its bound is {fit['bound_ns'] / 1000:.3g} µs: events closer than that are not ordered")
    stated_ns = fit["daemon_bound_ns"]
    known = kept_ns is not None and stated_ns is not None
    if known and abs(fit["offset_ns"]) > stated_ns + kept_ns + fit["bound_ns"]:
        found.append(
            f"its clock daemon says that it is right within {stated_ns / 1000:.3g} µs; by the others it is "
            f"{abs(fit['offset_ns']) / 1000:.3g} µs off"
        )
    if abs(fit["rate_ppb"]) >= FAST_PPB:
        found.append(f"drifts by {fit['rate_ppb'] / 1000:.3g} ppm: more than a sound oscillator does")
    return found


def _host(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["tenant"], row["cluster"], row["host"]


def _island(row: Mapping[str, Any]) -> Island:
    return row["tenant"], row["cluster"], row["island"]


def _largest(sizes: Mapping[Island, int], row: Mapping[str, Any]) -> int | None:
    """Of the islands of its cluster; of those as large the first."""
    own = {island: count for (*whose, island), count in sizes.items() if whose == [row["tenant"], row["cluster"]]}
    return min(own, key=lambda island: (-own[island], island)) if own else None
