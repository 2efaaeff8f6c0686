"""`GET /api/v1/mesh/hosts`, `/api/v1/mesh/host`: every host by place with its delays; one host against its peers.

delay ──> newest window of each pair ──> median over peers, inbound and outbound ──┐
relation, series ──> the fleet: places, jobs, NICs ────────────────────────────────┼──> board
colocation ──> hosts on one machine ───────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_high
from typing import Any

from leadline.model.tables.fabric import COLOCATION
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.fleet.view import SPAN_NS as FLEET_SPAN_NS
from leadline.views.fleet.view import fleet_answer
from leadline.views.mesh.types import MeshWindow
from leadline.views.mesh.windows import (
    COLUMN,
    LOOK_NS,
    NO_DELAY,
    SILENT,
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
from leadline.views.rows import SCHEMA_VERSION, rows_where

STATES = ("probed", "dark", "unprobed")
PROBED, DARK, UNPROBED = range(3)
DARK_NS = 30 * S  # and three windows: of whom nothing was heard for so long, while others are, is dark
IN, OUT = "in", "out"
HOST_POINTS_MAX = 20_000  # windows of pairs that one host's lines are made of: an hour of 10 s, with 20 peers
Ends = dict[tuple[str, str], Row]  # by host and way


def board_answer(
    store: Store, asked: Asked, measure: Measure, traffic_class: int | None = None, address: str = ""
) -> Row:
    """What `/api/v1/mesh/hosts` says. Errors: UsageError where there are several clusters."""
    fleet = fleet_answer(store, asked, asked.at_ns - FLEET_SPAN_NS, address)
    rows = rows_of(store, asked, _ends_sql(asked, COLUMN[measure]))
    pairs: dict[int, int] = defaultdict(int)
    for row in rows:
        pairs[row["class"]] += row["peers"] if row["way"] == IN else 0
    chosen = most_probed(pairs) if traffic_class is None else traffic_class
    ends: Ends = {(row["host"], row["way"]): row for row in rows if row["class"] == chosen}
    hosts = sorted({*fleet["hosts"], *(host for host, _ in ends)}, key=natural)
    told = [_of_host(ends.get((host, IN)), ends.get((host, OUT)), _newest_ns(ends)) for host in hosts]
    return {
        "schema": SCHEMA_VERSION, "at_ns": asked.at_ns,
        "from_ns": min((row["oldest_ns"] for row in ends.values()), default=None),
        "measure": measure, "unit": unit_of(measure), "traffic_class": chosen,
        "classes": [{"value": each, "pairs": pairs[each]} for each in sorted(pairs)],
        "hosts": hosts, "states": list(STATES), **_columns(told), **_of_fleet(fleet, hosts),
        **_machines(store, asked, hosts), "why": "" if ends else NO_DELAY,
    }  # fmt: skip


def _ends_sql(asked: Asked, column: str) -> str:
    """By class, host and way: the median over its peers, and of how many nothing arrived. Counted in the store: a
    fleet of 100,000 hosts has a million pairs."""
    pairs = pairs_sql(asked, asked.at_ns - LOOK_NS, newest=True)
    counts = "1" if column == "lost" else f"NOT {SILENT}"
    return (
        "SELECT class, ends.1 AS way, replaceRegexpOne(ends.2, '^host:', '') AS host, count() AS peers, "
        f"countIf({SILENT}) AS silent, countIf({counts}) AS known, "
        f"quantileExactIf(0.5)(toFloat64({column}), {counts}) AS value, "
        f"if(countIf({counts} AND bound_ns IS NULL) > 0, NULL, maxIf(bound_ns, {counts})) AS bound_ns, "
        f"maxIf(end_ns, NOT {SILENT}) AS heard_ns, min(end_ns) AS oldest_ns, max(window_ns) AS longest_ns "
        f"FROM ({pairs}) ARRAY JOIN [('{IN}', dst), ('{OUT}', src)] AS ends GROUP BY class, way, host"
    )


def _newest_ns(ends: Ends) -> int:
    return max((row["heard_ns"] for row in ends.values()), default=0)


def _of_host(inbound: Row | None, outbound: Row | None, newest_ns: int) -> Row:
    """The columns of one host."""
    words = _darkness(inbound, outbound, newest_ns)
    ways = [each for each in (inbound, outbound) if each is not None]
    found: Row = {"state": UNPROBED if not ways else DARK if words else PROBED, "words": words}
    found["heard_ns"] = max((row["heard_ns"] for row in ways), default=0) or None
    for name, row in (("inbound", inbound), ("outbound", outbound)):
        known = row is not None and row["known"] > 0
        found[name] = row["value"] if row is not None and known else None
        found[f"{name}_bound_ns"] = row["bound_ns"] if row is not None and known else None
        found[f"{name}_peers"] = row["peers"] if row is not None else 0
        found[f"{name}_silent"] = row["silent"] if row is not None else 0
    return found


def _darkness(inbound: Row | None, outbound: Row | None, newest_ns: int) -> str:
    """What of a host does not arrive, in words; empty: something does, both ways."""
    deaf, mute = (row is not None and row["silent"] == row["peers"] for row in (inbound, outbound))
    ways = [row for row in (inbound, outbound) if row is not None]
    if ways and (deaf or inbound is None) and (mute or outbound is None):
        return "no probe from or to it arrives"
    if deaf and inbound is not None:
        return f"no probe of {_peers_words(inbound)} arrives at it"
    if mute and outbound is not None:
        return f"no probe from it arrives at {_peers_words(outbound)}"
    heard_ns = max((row["heard_ns"] for row in ways), default=newest_ns)
    patience_ns = max([DARK_NS, *(3 * row["longest_ns"] for row in ways)])
    if newest_ns - heard_ns >= patience_ns:
        return f"nothing measured from or to it for {(newest_ns - heard_ns) / S:.0f} s"
    return ""


def _peers_words(row: Row) -> str:
    return f"{row['peers']} {'peer' if row['peers'] == 1 else 'peers'}"


def _columns(told: Sequence[Mapping[str, Any]]) -> Row:
    names = _of_host(None, None, 0)
    return {name: [each[name] for each in told] for name in names}


def _of_fleet(fleet: Mapping[str, Any], hosts: Sequence[str]) -> Row:
    """What the fleet tells, for `hosts`: of those that it does not know, nothing."""
    place = {host: at for at, host in enumerate(fleet["hosts"])}
    at = [place.get(host, -1) for host in hosts]
    own = {host: index for index, host in enumerate(hosts)}

    def of(values: Sequence[Any], missing: Any) -> list[Any]:
        return [values[each] if each >= 0 else missing for each in at]

    return {
        "tags": [{"name": tag["name"], "values": tag["values"], "of": of(tag["of"], -1)} for tag in fleet["tags"]],
        "jobs": fleet["jobs"], "jobs_of": of(fleet["jobs_of"], []),
        **{name: of(fleet[name], 0) for name in ("nics_total", "nics_healthy", "nics_unknown")},
        "at_address": None if fleet["at_address"] is None
        else [own[fleet["hosts"][each]] for each in fleet["at_address"]],
    }  # fmt: skip


def _machines(store: Store, asked: Asked, hosts: Sequence[str]) -> Row:
    """Hosts that share a machine now, the likeliest first, each set once; those of which it is unknown, by reason."""
    conditions = [*asked.conditions(), f"seen_ns > {asked.at_ns - LOOK_NS}", f"start_ns <= {asked.at_ns}",
                  f"ifNull(end_ns, {asked.at_ns} + 1) > {asked.at_ns}"]  # fmt: skip
    sql = (
        "SELECT toString(entity) AS entity, arrayMap(each -> toString(each), others) AS others, probability, "
        "toString(kind) AS kind, JSONExtractString(evidence, 1, 'text') AS why "
        f"FROM ({rows_where(COLOCATION, ' AND '.join(conditions))}) ORDER BY probability DESC, entity"
    )
    place = {host: at for at, host in enumerate(hosts)}
    found: dict[tuple[int, ...], float] = {}
    unknown: dict[str, list[int]] = defaultdict(list)
    for row in rows_of(store, asked, sql):
        names = [name.removeprefix("host:") for name in (row["entity"], *row["others"])]
        places = tuple(sorted({place[name] for name in names if name in place}))
        if row["kind"] != "unknown":
            found.setdefault(places, row["probability"])
        elif names[0] in place:
            unknown[row["why"]].append(place[names[0]])
    return {
        "machines": [{"hosts": list(some), "probability": sure} for some, sure in found.items() if len(some) > 1],
        "machines_unknown": [{"hosts": sorted(some), "why": why} for why, some in sorted(unknown.items())],
    }


def host_answer(store: Store, asked: Asked, from_ns: int, host: str, traffic_class: int | None) -> Row:
    """What `/api/v1/mesh/host` says of the span from `from_ns` to `asked.at_ns`."""
    names = "({host:String}, concat('host:', {host:String}))"
    only = f"(src IN {names}) != (dst IN {names})"
    sql = pairs_sql(asked, from_ns, newest=False, only=only, most=HOST_POINTS_MAX)
    rows = rows_of(store, asked, sql, host=host)
    counted: dict[int, int] = defaultdict(int)
    for row in rows:
        counted[row["class"]] += 1
    chosen = most_probed(counted) if traffic_class is None else traffic_class
    rows = [row for row in rows if row["class"] == chosen]
    shortest_ns = min((row["window_ns"] for row in rows), default=0)
    rows = [row for row in rows if row["window_ns"] == shortest_ns]
    here = {host, f"host:{host}"}
    inbound = [row for row in rows if row["dst"] in here]
    outbound = [row for row in rows if row["src"] in here]
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": asked.at_ns, "host": host, "traffic_class": chosen,
        "inbound": _over_time(inbound), "outbound": _over_time(outbound), "peers": _peers(inbound, outbound),
        "why": "" if rows else "nothing was measured from or to it in this span",
    }  # fmt: skip


def _over_time(rows: Iterable[Row]) -> list[Row]:
    by_end: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_end[row["end_ns"]].append(row)
    return [_over_peers(some) for _, some in sorted(by_end.items())]


def _over_peers(rows: Sequence[Row]) -> Row:
    """One window. Of pairs of which nothing arrived only the loss counts, unless there are no others.
    The median is one that was measured, as in the store: of an even number the upper."""
    heard = [row for row in rows if not silent(row)] or rows
    bounds = [row["bound_ns"] for row in heard]
    middle = {name: median_high(row[name] for row in heard) for name in ("min_ns", "p50_ns", "p99_ns")}
    return {
        "end_ns": rows[0]["end_ns"], "window_ns": rows[0]["window_ns"], **middle,
        "lost": sum(row["lost"] for row in rows) / len(rows), "peers": len(rows),
        "bound_ns": None if None in bounds else max(bounds),
    }  # fmt: skip


def _peers(inbound: Sequence[Row], outbound: Sequence[Row]) -> list[Row]:
    """The newest window of each peer and way (rows come newest first); the slowest peer first."""
    fields = tuple(MeshWindow.model_fields)
    found: dict[str, Row] = {}
    for way, end, rows in (("inbound", "src", inbound), ("outbound", "dst", outbound)):
        for row in rows:
            name = row[end].removeprefix("host:")
            peer = found.setdefault(name, {"host": name, "inbound": None, "outbound": None})
            peer[way] = peer[way] or window_told(row, fields)
    return sorted(found.values(), key=lambda peer: (-_slowest_ns(peer), natural(peer["host"])))


def _slowest_ns(peer: Mapping[str, Any]) -> float:
    ways = [each for each in (peer["inbound"], peer["outbound"]) if each is not None]
    return max(float("inf") if silent(each) else float(each["p99_ns"]) for each in ways)
