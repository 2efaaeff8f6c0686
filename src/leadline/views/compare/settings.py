"""Versions and settings of the members of a side, and which of them tell two sides apart.

They come from labels of streams (driver, firmware, model), from streams that are settings (`*_info`, port speed, power
limit), and from the events `run-info`, `host-info`, `port-info`. What names a thing (UUID, address) is no setting.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from leadline.model.ids import EntityId
from leadline.views.compare.sides import HOUR_NS, Reader, Side
from leadline.views.compare.statistics import strength

# name of the setting, then value by member (entity id)
Settings = dict[tuple[str, str], dict[str, str]]  # (kind of member, setting): member: value

INFO = re.compile(r".*_info|.*\.info")
GAUGES = re.compile(
    r"node_network_(speed|mtu)_bytes|ifSpeed|ifMtu|node_infiniband_rate_bytes_per_second|node_memory_MemTotal_bytes"
    r"|node_memory_(SwapTotal_bytes|HugePages_Total)|node_cpu_scaling_frequency_(min|max)_hertz|machine_cpu_cores"
    r"|DCGM_FI_DEV_(POWER_MGMT_LIMIT|ENFORCED_POWER_LIMIT|APP_(SM|MEM)_CLOCK|MAX_(SM|MEM)_CLOCK|PCIE_LINK_(GEN|WIDTH)"
    r"|PCIE_MAX_LINK_(GEN|WIDTH)|ECC_CURRENT|MIG_MODE|PERSISTENCE_MODE|COMPUTE_MODE)|hw_(gpu_power|power|network)_limit"
)
VERSION_LABEL = re.compile(r".*(version|firmware|vbios|modelname|product_name)", re.I)
IDENTITY = re.compile(
    r"host|host\.name|.*hostname|nodename|node|instance|job|gpu|device|uuid|gpu_uuid|.*_?serial(_number)?|pci_bus_id"
    r"|bdf|service\..*|server|rank|pod|rack|namespace|container|.*address|mac|ip|ifalias|machine_id|boot_id"
    r"|slurm_job|nodes|system_uuid|asset_tag|domainname|broadcast|operstate|adminstate|duplex_seen|err_code|err_msg|pid|job_id|entity",
    re.I,
)
EVENTS = ("run-info", "host-info", "port-info", "gpu-info")
START_NS = 600 * 10**9  # from the first word of a run to its first step, at most
BLANK_FROM = 9.2e18  # DCGM's "not known" and its like
LABEL_OF = {"port": "port", "swport": "port"}


def settings_of(reader: Reader, side: Side) -> Settings:
    """Every setting that is told of the members of a side in its span, as it was last."""
    found: Settings = {}
    for row in _streams(reader, side):
        labels = row["labels"]
        if INFO.fullmatch(row["name"]):
            for name, value in labels.items():
                _put(found, row["entity"] or f"host:{row['host']}", f"{_family(row['name'])} {name}", name, value)
        elif GAUGES.fullmatch(row["name"]) and row["low"] == row["high"] and abs(row["last"]) < BLANK_FROM:
            _put(found, row["entity"] or f"host:{row['host']}", row["name"], "", _number(row["name"], row["last"]))
        for name, value in labels.items():
            if VERSION_LABEL.fullmatch(name) and not INFO.fullmatch(row["name"]):
                _put(found, row["entity"] or f"host:{row['host']}", name, name, value)
    for row in _events(reader, side):
        for name, value in row["attributes"].items():
            _put(found, row["entity"], name, name, value)
    return found


def _put(found: Settings, entity: str, setting: str, label: str, value: str) -> None:
    if not value or not entity or (label and IDENTITY.fullmatch(label)):
        return
    kind, name = EntityId.of(entity)
    if kind in LABEL_OF and "/" in name:  # eth0 of one host is compared with eth0 of another
        setting = f"{name.partition('/')[2]} {setting}"
    if kind == "service":  # a program on each host, under one name
        return
    found.setdefault((kind, setting), {})[entity] = value


def _family(name: str) -> str:
    return re.sub(r"[_.]info$", "", name)


def _number(name: str, value: float) -> str:
    """A setting that is a number, as people say it; memory in GiB, because hosts of one kind differ by pages."""
    if name == "node_memory_MemTotal_bytes":
        return f"{value / 2**30:.0f} GiB"
    if name in ("node_network_speed_bytes", "node_infiniband_rate_bytes_per_second"):
        return f"{value * 8 / 1e9:g} Gbit/s"
    return f"{value:.10g}"


def _streams(reader: Reader, side: Side) -> list[dict[str, Any]]:
    """Streams of the side's members with a sample in its span: name, labels, least, greatest and last value."""
    wanted, parameters = members_sql(side)
    theirs = " AND ".join([*reader.asked.conditions(), wanted, "last_ns >= {seen_ns:Int64}"])
    sql = f"""
        SELECT toString(s.name) AS name, toString(s.entity) AS entity, ifNull(toString(s.host), '') AS host,
            s.labels AS labels, v.low AS low, v.high AS high, v.last AS last
        FROM (SELECT * FROM leadline.series WHERE {theirs}) AS s
        INNER JOIN (
            SELECT series, min(value) AS low, max(value) AS high, argMax(value, time_ns) AS last, max(time_ns) AS at_ns
            FROM leadline.metric_sample
            WHERE time_ns >= {{from_ns:Int64}} AND time_ns < {{to_ns:Int64}} AND isFinite(value)
                AND series IN (SELECT series FROM leadline.series WHERE {theirs})
            GROUP BY series
        ) AS v ON s.series = v.series
        ORDER BY v.at_ns, name, entity"""
    return reader.query(sql, from_ns=side.from_ns, to_ns=side.to_ns, seen_ns=side.from_ns - HOUR_NS, **parameters)


def members_sql(side: Side) -> tuple[str, dict[str, object]]:
    """The condition on `series` for what is about the side's members, with its parameters."""
    if side.kind == "gpu":
        return "entity IN ({gpus:Array(String)})", {"gpus": [f"gpu:{gpu}" for gpu in side.gpus]}
    return "host IN ({hosts:Array(String)})", {"hosts": list(side.hosts)}


def _events(reader: Reader, side: Side) -> list[dict[str, Any]]:
    """What members said of themselves: of each event the last one before the side's end."""
    kinds = ", ".join(f"'{kind}'" for kind in EVENTS)
    about = {
        "gpu": "entity IN ({gpus:Array(String)})",
        "host": "(host IN ({hosts:Array(String)}) AND entity_kind IN ('host', 'port', 'gpu'))",
        "job": "(host IN ({hosts:Array(String)}) AND (entity_kind IN ('host', 'port', 'gpu')"
        # A run says what it is when it begins; what an earlier one of that name said is not its own.
        " OR (startsWith(toString(entity), {ranks:String}) AND time_ns >= {begin_ns:Int64})))",
    }[side.kind]
    return reader.rows(
        "leadline.event",
        "toString(entity) AS entity, argMax(attributes, time_ns) AS attributes",
        f"kind IN ({kinds}) AND {about} AND time_ns < {{to_ns:Int64}}", "GROUP BY entity, kind ORDER BY entity, kind",
        gpus=[f"gpu:{gpu}" for gpu in side.gpus], hosts=list(side.hosts), ranks=f"rank:{side.name}/", to_ns=side.to_ns,
        begin_ns=side.from_ns - START_NS,
    )  # fmt: skip


# --- what tells two sides apart ---


def told_apart(a: Settings, b: Settings) -> dict[str, Any]:
    """Settings that differ, the strongest first; those that only one side tells; how many are equal."""
    different: list[dict[str, Any]] = []
    one_sided: list[dict[str, Any]] = []
    equal = 0
    for key in sorted(a.keys() | b.keys()):
        of_a, of_b = a.get(key, {}), b.get(key, {})
        told = {"of": key[0], "setting": key[1], "a": values(of_a.values()), "b": values(of_b.values())}
        if not of_a or not of_b:
            one_sided.append(told)
            continue
        apart = strength(of_a, of_b)
        if apart <= 0.0:
            equal += 1
            continue
        is_own = len(told["a"]) == len(of_a) > 1 and len(told["b"]) == len(of_b) > 1
        if is_own:  # each member has its own value on both sides: a name of some sort
            equal += 1
            continue
        different.append({**told, "strength": apart, "members_a": len(of_a), "members_b": len(of_b)})
    different.sort(key=lambda each: (-each["strength"], -min(each["members_a"], each["members_b"]), each["setting"]))
    return {"different": different, "one_sided": one_sided, "equal": equal}


def values(told: Iterable[str]) -> Mapping[str, int]:
    """How many members have each value, the commonest first."""
    return dict(sorted(Counter(told).items(), key=lambda each: (-each[1], each[0])))
