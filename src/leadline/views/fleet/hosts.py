"""The hosts of a cluster at a time: their NIC ports and leaves, GPUs, tags, and the ranks on them.

Hosts are those that relations or metric streams tell of. A port counts as a NIC port where it is (or within a day was)
linked to a switch; of a host without any such link, all its ports count.

The store counts here, since a fleet has more rows of `relation` than a view can carry. Where rows disagree the rule is
that of `analysis.graph.topology`: the cable plugged in last, of those since one time the first by name; of ranks all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.paths import ECMP_GROUP
from leadline.store import Store
from leadline.views.asked import Asked

Ints = NDArray[np.int64]
DAY_NS = 86_400 * 10**9
ECMP, RACK = "ecmp", "rack"
_INFO = "leadline_agent_info"  # its labels are what a site says of a host: rack, pod, ...
_NO_TAGS = {"host.name", "host_name", "service.name", "service_name", "version", "instance", "job", "nodename"}
_FOREVER = 1 << 62


@dataclass(frozen=True)
class Ports:
    """P NIC ports, by host and name. `swport_P` is the other end, empty if none is told."""

    name_P: pa.StringArray  # `h3/eth0`
    host_P: Ints
    swport_P: pa.StringArray  # `leaf1/Ethernet3`

    @cached_property
    def place_P(self) -> Ints:
        """Place of each among its host's ports."""
        first = np.searchsorted(self.host_P, self.host_P)
        return np.arange(len(self.host_P)) - first


@dataclass(frozen=True)
class FleetHosts:
    """H hosts by name, in the order that people count in: h2 before h10."""

    hosts: list[str]
    ports: Ports
    gpus_H: Ints
    tags: dict[str, tuple[list[str], Ints]]  # name: values, and of each host which; -1: not told
    jobs: list[dict[str, Any]]  # job, tenant, hosts, ranks, running
    jobs_of: list[list[int]]

    @cached_property
    def index(self) -> dict[str, int]:
        """Place of a host by its name."""
        return {name: at for at, name in enumerate(self.hosts)}

    @cached_property
    def below(self) -> dict[str, list[int]]:
        """Hosts by the switch that they are linked to."""
        found: dict[str, list[int]] = {}
        for swport, host in zip(self.ports.swport_P.to_pylist(), self.ports.host_P.tolist(), strict=True):
            if swport:
                found.setdefault(swport.partition("/")[0], []).append(host)
        return found


def fleet_hosts(store: Store, asked: Asked, from_ns: int) -> FleetHosts:
    """Who was there at some time in [from_ns, asked.at_ns]. Errors: StoreError."""
    told_ports, ranks, gpus, streams = (_rows(store, asked, from_ns, sql) for sql in (_PORTS, _RANKS, _GPUS, _STREAMS))
    names = _in_order(pc.unique(pa.chunked_array([
        *told_ports.column("host").chunks, *ranks.column("host").chunks, *gpus.column("host").chunks,
        *streams.column("host").chunks], pa.string())))  # fmt: skip
    of = pa.array(names, pa.string())
    ports = _ports(told_ports, of)
    gpus_H = np.zeros(len(names), np.int64)
    gpus_H[_codes(gpus.column("host"), of)] = gpus.column("gpus").to_numpy()
    tags = _tags(store, asked, from_ns, of)
    tags[ECMP] = _leaves(ports, len(names), _choosers(store, asked))
    jobs, jobs_of = _jobs(ranks, of, asked.at_ns)
    return FleetHosts(names, ports, gpus_H, {name: tag for name, tag in tags.items() if tag[0]}, jobs, jobs_of)


def hosts_at_address(store: Store, asked: Asked, found: FleetHosts, address: str) -> list[int]:
    """Places of the hosts that have an address with these characters in it; by relation, and by scrape address."""
    sql = (
        f"SELECT DISTINCT splitByChar('/', substring(toString(parent), 6))[1] AS host FROM leadline.{RELATION.name} "
        "WHERE startsWith(toString(child), 'address:') AND startsWith(toString(parent), 'port:') "
        "AND position(child, {address:String}) > 0 {mine} UNION DISTINCT "
        f"SELECT DISTINCT toString(host) AS host FROM leadline.{SERIES.name} "
        "WHERE position(labels['instance'], {address:String}) > 0 AND host != '' {mine}"
    ).replace("{mine}", "".join(f" AND {each}" for each in asked.conditions()))
    rows = store.query(sql, {**asked.parameters(sql), "address": address})
    return sorted(found.index[name] for name in rows.column("host").to_pylist() if name in found.index)


_HELD = "from_ns <= {at_ns:Int64} AND ifNull(to_ns, 4611686018427387904) > {since_ns:Int64}"
_OF_PORT = "splitByChar('/', substring(toString(child), 6))[1]"
_PORTS = (
    f"SELECT host, port, anyLast(swport) AS swport, max(linked) AS linked FROM (SELECT {_OF_PORT} AS host, "
    "substring(toString(child), 6) AS port, kind = 'linked' AS linked, from_ns, "
    "if(kind = 'linked', substring(toString(parent), 8), '') AS swport "
    f"FROM leadline.{RELATION.name} WHERE kind IN ('in', 'linked') AND startsWith(toString(child), 'port:') "
    "AND (kind = 'in' OR startsWith(toString(parent), 'swport:')) "
    f"AND {_HELD} {{mine}} ORDER BY linked, from_ns, toString(parent) DESC) GROUP BY host, port"
)
_RANKS = (
    "SELECT host, job, tenant, count() AS ranks, max(until_ns) AS until_ns FROM (SELECT toString(tenant) AS tenant, "
    "substring(toString(parent), 6) AS host, substring(toString(child), 6) AS rank, max(ifNull(to_ns, "
    f"{_FOREVER})) AS until_ns, arrayStringConcat(arrayPopBack(splitByChar('/', rank)), '/') AS job "
    f"FROM leadline.{RELATION.name} WHERE kind = 'runs-on' AND startsWith(toString(child), 'rank:') "
    "AND startsWith(toString(parent), 'host:') AND from_ns <= {at_ns:Int64} "
    "AND ifNull(to_ns, 4611686018427387904) > {from_ns:Int64} {mine} GROUP BY tenant, host, rank, job) "
    "GROUP BY host, job, tenant ORDER BY job, tenant"
)
_GPUS = (
    "SELECT substring(toString(parent), 6) AS host, uniqExact(child) AS gpus "
    f"FROM leadline.{RELATION.name} WHERE kind = 'in' AND startsWith(toString(child), 'gpu:') "
    f"AND startsWith(toString(parent), 'host:') AND {_HELD} {{mine}} GROUP BY host"
)
# `last_ns` is brought up to date once an hour.
_STREAMS = (
    f"SELECT DISTINCT toString(host) AS host FROM leadline.{SERIES.name} "
    "WHERE entity_kind IN ('host', 'gpu', 'port') AND host != '' "
    "AND first_ns <= {at_ns:Int64} AND last_ns > {since_ns:Int64} {mine}"
)


def _rows(store: Store, asked: Asked, from_ns: int, sql: str) -> pa.Table:
    sql = sql.replace("{mine}", "".join(f" AND {each}" for each in asked.conditions()))
    spans = {"from_ns": from_ns, "since_ns": from_ns - DAY_NS, "at_ns": asked.at_ns}
    asked_for = asked.parameters(sql) | {name: value for name, value in spans.items() if f"{{{name}:" in sql}
    return store.query(sql, asked_for)


def _in_order(names: pa.Array) -> list[str]:
    """Names by their text, numbers in them by size."""
    padded = pc.replace_substring_regex(names, r"(\d+)", r"00000000\1")
    keys = pc.replace_substring_regex(padded, r"0*(\d{9})(\D|$)", r"\1\2")
    return [str(name) for name in names.take(pc.array_sort_indices(keys)).to_pylist() if name]


def _codes(of: pa.ChunkedArray, names: pa.Array) -> Ints:
    return np.asarray(pc.index_in(of.cast(pa.string()), names).to_numpy(), np.int64)


def _ports(told: pa.Table, hosts: pa.Array) -> Ports:
    host_N = _codes(told.column("host"), hosts)
    linked_N = told.column("linked").to_numpy().astype(bool)
    has_link_H = np.zeros(len(hosts), bool)
    has_link_H[host_N[linked_N]] = True
    kept = np.flatnonzero(linked_N | ~has_link_H[host_N])
    rank = pc.rank(told.column("port").combine_chunks()).to_numpy()
    kept = kept[np.lexsort((rank[kept], host_N[kept]))]
    take = pa.array(kept)
    return Ports(
        told.column("port").combine_chunks().cast(pa.string()).take(take),
        host_N[kept],
        told.column("swport").combine_chunks().cast(pa.string()).take(take),
    )


def _tags(store: Store, asked: Asked, from_ns: int, hosts: pa.Array) -> dict[str, tuple[list[str], Ints]]:
    """Labels of the agents: what a site says of its hosts."""
    sql = (
        "SELECT toString(host) AS host, labels FROM leadline.series "
        f"WHERE name = '{_INFO}' AND host != '' AND last_ns > {{since_ns:Int64}} {{mine}} ORDER BY last_ns"
    )
    rows = _rows(store, asked, from_ns, sql)
    said: dict[str, list[str]] = {}
    for at, labels in zip(_codes(rows.column("host"), hosts).tolist(), rows.column("labels").to_pylist(), strict=True):
        for name, value in dict(labels).items():
            if name not in _NO_TAGS and value:
                said.setdefault(str(name), [""] * len(hosts))[at] = str(value)
    return {name: _coded(value_H) for name, value_H in sorted(said.items())}


def _coded(value_H: Sequence[str]) -> tuple[list[str], Ints]:
    """Values in order, and of each host which; -1 where it is empty."""
    values = _in_order(pc.unique(pa.array(value_H, pa.string())))
    code = {value: at for at, value in enumerate(values)}
    return values, np.array([code.get(value, -1) for value in value_H], np.int64)


def _leaves(ports: Ports, hosts: int, choosers: frozenset[str]) -> tuple[list[str], Ints]:
    """The ECMP group of each host: the switches that its NICs hang on, of these those that have paths to choose among.

    Hosts of one group reach all others by the same choices. Where it is not known who chooses, all of them count.
    """
    of: list[list[str]] = [[] for _ in range(hosts)]
    for host, swport in zip(ports.host_P.tolist(), ports.swport_P.to_pylist(), strict=True):
        switch = swport.partition("/")[0]
        if switch and switch not in of[host]:
            of[host].append(switch)
    wanted = [tuple([each for each in some if each in choosers] or some) for some in of]
    names = {some: group_name(some) for some in set(wanted)}
    return _coded([names[some] for some in wanted])


def group_name(switches: Sequence[str]) -> str:
    """`leaf1`, `leaf1 leaf2`, `leaf1 … leaf8`."""
    some = _in_order(pa.array(switches, pa.string())) if switches else []
    return f"{some[0]} … {some[-1]}" if len(some) > 2 else " ".join(some)


def _choosers(store: Store, asked: Asked) -> frozenset[str]:
    """Switches of which an ECMP group was judged in the last day."""
    where = " AND ".join(["end_ns <= {at_ns:Int64}", "end_ns > {at_ns:Int64} - 86400000000000", *asked.conditions()])
    sql = f"SELECT DISTINCT toString(switch) AS switch FROM leadline.{ECMP_GROUP.name} WHERE {where}"
    return frozenset(str(each) for each in store.query(sql, asked.parameters(sql)).column("switch").to_pylist())


def _jobs(ranks: pa.Table, hosts: pa.Array, at_ns: int) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """Jobs with ranks in the span, and those of each host. A job runs where one of its ranks has not ended."""
    jobs_of: list[list[int]] = [[] for _ in range(len(hosts))]
    index: dict[tuple[str, str], int] = {}
    jobs: list[dict[str, Any]] = []
    rows: list[Mapping[str, Any]] = ranks.to_pylist()
    for at, row in zip(_codes(ranks.column("host"), hosts).tolist(), rows, strict=True):
        key = row["job"], row["tenant"]
        if key not in index:
            index[key] = len(jobs)
            jobs.append({"job": row["job"], "tenant": row["tenant"], "hosts": 0, "ranks": 0, "running": False})
        job = jobs[index[key]]
        job["hosts"] += 1
        job["ranks"] += int(row["ranks"])
        job["running"] = job["running"] or int(row["until_ns"]) > at_ns
        jobs_of[at].append(index[key])
    return jobs, jobs_of
