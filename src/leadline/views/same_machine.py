"""One machine under two names: what different senders call it, where something says that it is the same.

    series ── hosts that are told of now ──────────────┐
    node_uname_info ── what the system calls itself ───┼──> Double: two names, and what says so
    relation ── addresses that an agent's ports hold ──┘

A name is taken for another's only where a third thing says so: the system's own name, an address, or one name that is
the beginning of the other (`n12`, `n12.example.com`) where no second such machine is there. Names that merely look
alike (`n1`, `n12`) are two machines.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from leadline.model.ids import EntityId
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.units import S
from leadline.store import Store
from leadline.store.asking.behind import Behind
from leadline.views.asked import Asked
from leadline.views.sources import WARNING, Finding

KNOWN_NS = 7200 * S  # a series' `last_ns` is written once an hour
NOW_NS = 600 * S  # a name that nobody used for so long was mended
KEPT_NS = 60 * S  # an answer stands so long: names change by hand
NAMED = 3  # machines told by name; more are one line
TENANTS_MAX = 1000  # whose answers are kept
AGENT = "leadline_agent_info"


class Double(NamedTuple):
    """A machine of two names. `keep`: the one to keep; `by`: what says that they are one."""

    keep: str
    other: str
    by: str


@dataclass(frozen=True, slots=True)
class Told:
    """What one tenant's senders say in one cluster."""

    hosts: frozenset[str]
    agents: frozenset[str]  # hosts that an agent speaks for
    system_names: Mapping[str, str]  # by host: what its system calls itself
    holders: Mapping[str, str]  # by address: the host whose port holds it


class SameMachines:
    """Looks for doubles, and keeps what was found for a minute. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], Behind[tuple[int, list[Finding]]]] = {}

    def findings(self, store: Store, asked: Asked, now_ns: int, wait_s: float | None = None) -> list[Finding]:
        """What `leadline doctor` says of them; what it said last where the store takes longer than `wait_s`.

        Errors: StoreError.
        """
        key = (asked.principal.tenant, asked.principal.role.value)
        with self._lock:
            if len(self._kept) > TENANTS_MAX:
                self._kept.clear()
            kept = self._kept.setdefault(key, Behind("machines"))

        def read() -> tuple[int, list[Finding]]:
            return now_ns, findings_of([one for told in told_now(store, asked, now_ns) for one in doubles(told)])

        held = kept.value
        if held is None or not 0 <= now_ns - held[0] < KEPT_NS:
            held = kept.told(read, wait_s).value
        return held[1] if held else []


# --- pure -----------------------------------------------------------------------------------------------------------


def doubles(told: Told) -> list[Double]:
    """Every machine of two names, in order of the name to keep."""
    found: dict[frozenset[str], Double] = {}

    def add(one: str, other: str, by: str) -> None:
        pair = frozenset({one, other})
        if len(pair) == 2 and pair <= told.hosts and pair not in found:
            keep, drop = _ordered(one, other, told.agents)
            found[pair] = Double(keep, drop, by)

    claims = Counter(told.system_names.values())
    for host, name in sorted(told.system_names.items()):
        if claims[name] > 1 or name.partition(".")[0] == "localhost":
            continue  # machines made from one image: none of them is the one of that name
        for called in (name, name.partition(".")[0]):
            add(called, host, f"{host} calls itself {name} in node_uname_info")
    for address, host in sorted(told.holders.items()):
        add(host, address, f"{host} has the address {address}")
    for short, longer in _begun(told.hosts).items():
        if len(longer) == 1:
            add(short, longer[0], f"{longer[0]} is {short} with its domain")
    return sorted(found.values())


def _begun(hosts: Iterable[str]) -> dict[str, list[str]]:
    """By short name that is itself a host: the full names that begin with it."""
    known = set(hosts)
    found: dict[str, list[str]] = defaultdict(list)
    for host in sorted(known):
        short, dot, _ = host.partition(".")
        if dot and short in known and not _is_address(host):
            found[short].append(host)
    return found


def _ordered(one: str, other: str, agents: frozenset[str]) -> tuple[str, str]:
    """The name to keep, and the other: an agent's, whose name cannot be wrong by a scrape; a name before an address."""

    def worth(name: str) -> tuple[bool, bool, bool, str]:
        return name not in agents, _is_address(name) or name == "localhost", "." in name, name

    keep, drop = sorted((one, other), key=worth)
    return keep, drop


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def findings_of(found: Sequence[Double]) -> list[Finding]:
    """A warning for each of a few machines; one for many."""
    if len(found) <= NAMED:
        return [
            {
                "state": WARNING,
                "text": f"{one.keep} and {one.other} are one machine under two names ({one.by}); its data is split "
                "between two hosts",
                "do": f"Give the scrape target {one.other} the label `nodename: {one.keep}`; where an agent reports as "
                f"{one.other}, set its agent.host to {one.keep} (docs/how-to/connect-prometheus.md).",
            }
            for one in found
        ]
    pairs = ", ".join(f"{one.keep} and {one.other}" for one in found[:NAMED])
    return [
        {
            "state": WARNING,
            "text": f"{len(found)} machines have two names each ({pairs}, ...); the data of each is split between two "
            "hosts",
            "do": "Give each scrape target the label `nodename` with the name that its agent has (relabel_configs), or "
            "set agent.host (docs/how-to/connect-prometheus.md).",
        }
    ]


# --- from the store -------------------------------------------------------------------------------------------------


def told_now(store: Store, asked: Asked, now_ns: int) -> list[Told]:
    """What each tenant's senders say in each cluster. Errors: StoreError."""
    given = {"known_ns": now_ns - KNOWN_NS, "now_ns": now_ns - NOW_NS}
    ask = _asker(store, asked, given)
    hosts = ask(
        "SELECT tenant, cluster, toString(host) AS host, countIf(name = {agent:String}) > 0 AS has_agent, "
        "anyIf(coalesce(nullIf(labels['exported_nodename'], ''), labels['nodename']), name = 'node_uname_info') "
        "AS system "
        f"FROM leadline.{SERIES.name} WHERE last_ns > {{known_ns:Int64}} AND host != '' (mine) "
        "GROUP BY tenant, cluster, host",
        agent=AGENT,
    )
    addresses = sorted({row["host"] for row in hosts if _is_address(row["host"])})
    holders = ask(
        f"SELECT tenant, cluster, child, parent FROM leadline.{RELATION.name} WHERE kind = 'in' AND isNull(to_ns) "
        "AND child IN {addresses:Array(String)} (mine)",
        addresses=[f"address:{each}" for each in addresses],
    ) if addresses else []  # fmt: skip
    found = [_told(key, hosts, holders) for key in sorted({(row["tenant"], row["cluster"]) for row in hosts})]
    maybe = sorted({name for told in found for one in doubles(told) for name in (one.keep, one.other)})
    if not maybe:
        return []
    alive = ask(
        f"SELECT DISTINCT tenant, cluster, toString(host) AS host FROM leadline.{SERIES.name} "
        f"WHERE host IN {{maybe:Array(String)}} AND last_ns > {{known_ns:Int64}} AND series IN (SELECT series FROM "
        f"leadline.{METRIC_SAMPLE.name} WHERE time_ns > {{now_ns:Int64}} (mine)) (mine)",
        maybe=maybe,
    )
    hosts = [row for row in hosts if {name: row[name] for name in ("tenant", "cluster", "host")} in alive]
    return [_told(key, hosts, holders) for key in sorted({(row["tenant"], row["cluster"]) for row in hosts})]


def _asker(store: Store, asked: Asked, given: Mapping[str, object]) -> Callable[..., list[dict[str, Any]]]:
    mine = "".join(f" AND {each}" for each in asked.conditions())

    def ask(sql: str, **more: object) -> list[dict[str, Any]]:
        text = sql.replace("(mine)", mine)
        values = {name: value for name, value in {**given, **more}.items() if f"{{{name}:" in text}
        rows: list[dict[str, Any]] = store.query(text, {**asked.parameters(text), **values}).to_pylist()
        return rows

    return ask


def _told(key: tuple[object, object], hosts: Iterable[Mapping[str, Any]], holders: Iterable[Mapping[str, Any]]) -> Told:
    mine = [row for row in hosts if (row["tenant"], row["cluster"]) == key]
    held: dict[str, set[str]] = defaultdict(set)
    for row in holders:
        if (row["tenant"], row["cluster"]) == key:
            address = str(row["child"]).removeprefix("address:")
            held[address].add(EntityId.of(str(row["parent"])).first)
    return Told(
        frozenset(str(row["host"]) for row in mine),
        frozenset(str(row["host"]) for row in mine if row["has_agent"]),
        {str(row["host"]): str(row["system"]) for row in mine if row["system"]},
        {address: hosts.pop() for address, hosts in held.items() if len(hosts) == 1},  # others share theirs
    )
