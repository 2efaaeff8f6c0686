"""Metrics of a member that differ from those of its peers in the same span."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.views.compare.settings import BLANK_FROM, GAUGES, INFO, members_sql
from leadline.views.compare.sides import HOUR_NS, Reader, Side
from leadline.views.compare.statistics import PEERS_MIN, against_peers

TOLD_MAX = 20
SPREAD_SHARE = 0.01  # of a value: peers that agree exactly still may differ by so much
KEPT_LABELS = ("mode", "device", "direction", "state", "type")
# Of the agent itself, or a clock: they differ, and nobody wants to know.
LEFT_OUT = ("leadline_", "scrape_", "node_boot_time", "node_time", "process.pid")

Values = dict[str, dict[str, tuple[float, float]]]  # metric: member: value, least standard deviation that is believed


def metrics_of(reader: Reader, side: Side) -> Values:
    """What each member of a side measured: the median of a gauge, the rate of a counter. Members are hosts or GPUs."""
    wanted, parameters = members_sql(side)
    theirs = " AND ".join([*reader.asked.conditions(), wanted, "last_ns >= {seen_ns:Int64}"])
    sql = f"""
        SELECT toString(s.name) AS name, toString(s.entity) AS entity, toString(ifNull(s.host, '')) AS host,
            toString(ifNull(s.type, '')) AS type, s.labels AS labels,
            v.middle AS middle, v.rise AS rise, v.seconds AS seconds
        FROM (SELECT * FROM leadline.series WHERE {theirs}) AS s
        INNER JOIN (
            SELECT series, quantileExact(0.5)(value) AS middle, argMax(value, time_ns) - argMin(value, time_ns) AS rise,
                (max(time_ns) - min(time_ns)) / 1e9 AS seconds
            FROM leadline.metric_sample
            WHERE time_ns >= {{from_ns:Int64}} AND time_ns < {{to_ns:Int64}} AND isFinite(value)
                AND series IN (SELECT series FROM leadline.series WHERE {theirs})
            GROUP BY series
        ) AS v ON s.series = v.series
        ORDER BY name, entity, s.series"""
    rows = reader.query(sql, from_ns=side.from_ns, to_ns=side.to_ns, seen_ns=side.from_ns - HOUR_NS, **parameters)
    return gathered(rows, by_gpu=side.kind == "gpu")


def gathered(rows: Sequence[Mapping[str, Any]], by_gpu: bool) -> Values:
    """Values by metric and member: counters of a member are added, gauges averaged."""
    parts: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    counters: set[tuple[str, str]] = set()
    for row in rows:
        member = row["entity"] if by_gpu else f"host:{row['host']}"
        if row["name"].startswith(LEFT_OUT) or INFO.fullmatch(row["name"]) or GAUGES.fullmatch(row["name"]):
            continue
        labels = "".join(f" {row['labels'][name]}" for name in KEPT_LABELS if row["labels"].get(name))
        key = (row["name"] + ("" if by_gpu else labels), member)
        if row["type"] == "counter" or row["name"].endswith("_total"):
            if row["seconds"] > 0 and row["rise"] >= 0:  # one that went back was reset
                counters.add(key)
                parts[key].append((row["rise"] / row["seconds"], max(row["rise"], 1.0) ** 0.5 / row["seconds"]))
        elif abs(row["middle"]) < BLANK_FROM:
            parts[key].append((row["middle"], 0.0))
    found: Values = defaultdict(dict)
    for (name, member), values in parts.items():
        count = 1 if (name, member) in counters else len(values)
        found[name][member] = (
            sum(value for value, _ in values) / count,
            sum(error**2 for _, error in values) ** 0.5 / count,  # a count of n has an error of about its root
        )
    return dict(found)


def outstanding(values: Values, members: Sequence[str], peers: Sequence[str]) -> list[dict[str, Any]]:
    """Metrics in which one of `members` differs from `peers` beyond what these differ, the surest first.

    A member that is among its own peers is not held against itself.
    """
    found: list[dict[str, Any]] = []
    tests = len(values) * max(1, len(members))
    for name, by_member in values.items():
        for member in members:
            if member not in by_member:
                continue
            value, error = by_member[member]
            others = [by_member[peer] for peer in peers if peer != member and peer in by_member]
            floor = max([error, SPREAD_SHARE * abs(value), *(each[1] for each in others)])
            told = against_peers(value, [each[0] for each in others], floor, tests)
            if told is not None:
                found.append({"metric": name, "member": member, "value": value, "peers": told[1],
                              "peers_count": len(others), "sigmas": told[0]})  # fmt: skip
    return sorted(found, key=lambda each: (-abs(each["sigmas"]), each["metric"], each["member"]))[:TOLD_MAX]


def metric_answer(reader: Reader, a: Side, b: Side) -> dict[str, Any]:
    """Metrics that stand out: of a host or GPU against B, of the hosts of a run against each other."""
    values_a = metrics_of(reader, a)
    values_b = metrics_of(reader, b)
    if a.kind == "job" or b.kind == "job":
        told = [{"side": name, **each} for name, side, values in (("a", a, values_a), ("b", b, values_b))
                for each in outstanding(values, _members(side), _members(side))]  # fmt: skip
        fewest = min(len(_members(side)) for side in (a, b)) - 1
    else:
        both: Values = {name: {**values_b.get(name, {}), **values_a.get(name, {})} for name in values_a}
        told = [{"side": "a", **each} for each in outstanding(both, _members(a), _members(b))]
        fewest = len(_members(b))
    missing = (
        "" if fewest >= PEERS_MIN else f"{PEERS_MIN} peers are needed to know what they differ by; there are {fewest}"
    )
    return {"different": told, "missing": missing}


def _members(side: Side) -> list[str]:
    return [f"gpu:{gpu}" for gpu in side.gpus] if side.kind == "gpu" else [f"host:{host}" for host in side.hosts]
