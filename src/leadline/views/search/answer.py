"""`GET /api/v1/search`: one search over entities, metrics, incidents, expectations and rules.

words ──> Known (entities, in memory) ──┐
      ──> series: names of metrics ─────┤
      ──> incident, cause ──────────────┼──> found, ranked ──> of each kind the best `limit`
      ──> expectations, rules ──────────┤
      ──> a MAC address: its port ──────┘
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import BaseModel, Field

from leadline.analysis.cause.rules import RULES
from leadline.model.ids import EntityId
from leadline.model.metric_words import metric_name
from leadline.model.tables.fabric import FLOW_SAMPLE, RELATION
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.verdicts import CAUSE, INCIDENT
from leadline.store import Store
from leadline.views.asked import Asked, time_text
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.title import title
from leadline.views.incidents.view import Incidents as StoredIncidents
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where
from leadline.views.search.known import Known
from leadline.views.search.match import Found, Item, found, words_of

LIMIT, LIMIT_MAX = 5, 50  # of each kind
METRICS_MAX = 20_000  # names looked through: large sites have some 5,000
INCIDENTS_MAX = 2000  # the newest, looked through: half a year of ten a day
# Two to six bytes of a MAC address as people copy them. Their colons tell them from all names but those of entities.
_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]){2,5}(?:[0-9a-f]{0,2})")
_IP = re.compile(r"\d{1,3}(?:\.\d{0,3}){1,3}")
FLOWS_MAX = 200_000  # samples of flows that addresses are looked for in: 20 ms; a large fleet has as many a second
_MAC_METRIC = "node_network_info"  # of node_exporter: its label `address` is the MAC address of the port


class Hit(BaseModel):
    """Something found. `title`: what to call it; `why`: how it fits; `detail`: what else tells it from others; `link`:
    its view of the page, as a path; `cluster`: empty where there is only one."""

    kind: str
    id: str
    title: str
    why: str
    detail: str
    link: str
    cluster: str


class SearchAnswer(BaseModel):
    """What was found, the best first; `totals`: how many fit, by kind, shown or not."""

    schema_version: int = Field(alias="schema")
    q: str
    hits: list[Hit]
    totals: dict[str, int]


@dataclass(frozen=True, slots=True)
class Incidents:
    """Incidents as items of a search, as long as nothing is appended to their tables."""

    version: tuple[int, ...]
    items: Sequence[tuple[Item, Incident]]


class Search:
    """Searches of one store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        """Inert: names are read when somebody searches."""
        self._store, self._known = store, Known(store)
        self._incidents: dict[tuple[object, ...], Incidents] = {}  # by who asks; a few of them, see `_items`

    def answer(
        self, asked: Asked, query: str, from_ns: int | None, limit: int, expectations: Iterable[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """What `/api/v1/search` says. `expectations`: those that apply, as `/api/v1/expectations` tells them.

        `from_ns`: only incidents that lasted then or later. Errors: StoreError.
        """
        words = words_of(query)
        best: list[Found] = []
        totals: Counter[str] = Counter()
        if words:
            entities, counts = self._known.entities().find(asked, words, limit)
            more = (*self._of_mac(asked, words), *self._of_flows(asked, words))
            best = [fit for item in (*entities, *more) if (fit := found(item, words))]
            totals.update(counts)
            others = (*self._metrics(asked), *self._incident_items(asked, from_ns), *_rules(), *_promises(expectations))
            for fit in (fit for item in others if (fit := found(item, words))):
                totals[fit.item.kind] += 1
                best.append(fit)
        shown = _of_each_kind(sorted(best, key=lambda each: each.order), limit)
        inside = self._inside(asked, [each.item for each in shown])
        hits = [_hit(each, inside) for each in shown]
        return {"schema": SCHEMA_VERSION, "q": query, "hits": hits, "totals": dict(totals)}

    # --- what is looked through ---

    def _query(self, asked: Asked, sql: str, **more: object) -> list[dict[str, Any]]:
        return json_rows(self._store.query(sql, {**asked.parameters(sql), **more}))

    def _metrics(self, asked: Asked) -> list[Item]:
        sql = (
            "SELECT toString(name) AS name, toString(any(entity_kind)) AS kind, count() AS streams "
            f"FROM leadline.{SERIES.name} {_mine(asked)} GROUP BY name ORDER BY name LIMIT {METRICS_MAX} "
            "SETTINGS final = 0"
        )
        return [_metric(row) for row in self._query(asked, sql)]

    def _incident_items(self, asked: Asked, from_ns: int | None) -> list[Item]:
        """Those that somebody may see; read again when there are new ones."""
        version = tuple(self._store.written(table) for table in (INCIDENT.name, CAUSE.name))
        mine = tuple(asked.conditions())
        key = (mine, *asked.parameters(" ".join(mine)).values())
        held = self._incidents.get(key)
        if held is None or held.version != version:
            held = Incidents(version, [(_incident(one), one) for one in self._read_incidents(asked)])
            if len(self._incidents) >= _ASKERS_MAX:
                self._incidents = {}
            self._incidents[key] = held
        return [
            item
            for item, one in held.items
            if one.start_ns < asked.at_ns or asked.latest
            if from_ns is None or one.open or (one.end_ns or one.seen_ns) >= from_ns
        ]

    def _read_incidents(self, asked: Asked) -> list[Incident]:
        where = " AND ".join(asked.conditions())
        newest = f"{rows_where(INCIDENT, where)} ORDER BY start_ns DESC LIMIT {INCIDENTS_MAX}"
        rows = self._query(asked, newest)
        if not rows:
            return []
        first_ns = min(row["start_ns"] for row in rows)
        since = " AND ".join([*asked.conditions(), "seen_ns >= {first_ns:Int64}"])
        causes = self._query(asked, rows_where(CAUSE, since), first_ns=first_ns)
        return StoredIncidents(self._store, asked).of_rows(rows, causes, with_losses=False)

    def _of_mac(self, asked: Asked, words: Sequence[str]) -> list[Item]:
        """Ports whose MAC address has a word that looks like one."""
        macs = [word.replace("-", ":") for word in words if _MAC.fullmatch(word)]
        if not macs:
            return []
        where = [*asked.conditions(), "name = {name:String}", "position(lower(labels['address']), {mac:String}) > 0"]
        sql = (
            "SELECT DISTINCT toString(entity) AS entity, lower(labels['address']) AS mac "
            f"FROM leadline.{SERIES.name} WHERE {' AND '.join(where)} AND entity != '' ORDER BY entity "
            f"LIMIT {LIMIT_MAX} SETTINGS final = 0"
        )
        rows = self._query(asked, sql, name=_MAC_METRIC, mac=macs[0])
        return [_port_of_mac(EntityId.of(row["entity"]), row["mac"]) for row in rows]

    def _of_flows(self, asked: Asked, words: Sequence[str]) -> list[Item]:
        """Addresses between which packets were sampled: what sends them may have told nothing of itself."""
        wanted = [word for word in words if _IP.fullmatch(word)]
        if not wanted:
            return []
        some = f"SELECT src_ip, dst_ip FROM leadline.{FLOW_SAMPLE.name} {_mine(asked)} LIMIT {FLOWS_MAX}"
        sql = (
            f"SELECT DISTINCT arrayJoin([src_ip, dst_ip]) AS address FROM ({some}) "
            f"WHERE position(address, {{part:String}}) > 0 ORDER BY length(address), address LIMIT {LIMIT_MAX} "
            "SETTINGS final = 0"
        )
        rows = self._query(asked, sql, part=wanted[0])
        return [Item("address", row["address"], row["address"]) for row in rows]

    def _inside(self, asked: Asked, items: Iterable[Item]) -> dict[str, str]:
        """What addresses, GPUs and ranks are in or on, as it was told last."""
        wanted = [f"{item.kind}:{item.id}" for item in items if item.kind in _IN_SOMETHING]
        if not wanted:
            return {}
        where = " AND ".join([*asked.conditions(), "child IN {wanted:Array(String)}", "kind IN ('in', 'runs-on')"])
        sql = (
            "SELECT toString(child) AS child, toString(argMax(parent, (kind = 'runs-on', from_ns))) AS parent "
            f"FROM leadline.{RELATION.name} WHERE {where} GROUP BY child"
        )
        return {row["child"]: row["parent"] for row in self._query(asked, sql, wanted=wanted)}


_IN_SOMETHING = frozenset({"address", "gpu", "rank"})
_ASKERS_MAX = 16  # whose incidents are kept in memory, a few megabytes each; more are read each time


def _mine(asked: Asked) -> str:
    where = asked.conditions()
    return f"WHERE {' AND '.join(where)}" if where else ""


def _metric(row: Mapping[str, Any]) -> Item:
    name, kind = row["name"], row["kind"]
    words = metric_name(name)
    streams = f"{row['streams']:,} stream{'' if row['streams'] == 1 else 's'}"
    of = f" of {kind} entities" if kind else ""
    return Item("metric", name, name, text=words, detail=f"{'' if words == name else f'{words}, '}{streams}{of}")


def _incident(one: Incident) -> Item:
    named = [word for cause in one.chosen for word in (cause.rule, cause.entity, cause.text.partition(": ")[0])]
    return Item(
        "incident", one.incident, title(one),
        text=" ".join([one.entity, *one.jobs, one.symptom, one.state, *named]),
        detail=f"{one.state}, began {time_text(one.start_ns)}{'' if one.chosen else ', cause unknown'}",
        newest_ns=one.start_ns,
    )  # fmt: skip


def _rules() -> list[Item]:
    """Rules of the analysis `cause`: each leads to the incidents of its layer."""
    return [
        Item("rule", rule.name, rule.words, detail=f"rule {rule.name}, fault of a {' or '.join(rule.kinds)}",
             link=f"/incidents?{urlencode({'layer': rule.layer})}")
        for rule in RULES
    ]  # fmt: skip


def _promises(told: Iterable[Mapping[str, Any]]) -> list[Item]:
    return [
        Item("expectation", each["expectation"], each["expectation"],
             text=" ".join([each["layer"], each["of"], *(bound["classifier"] for bound in each["bounds"])]),
             detail=f"layer {each['layer']}, of each {each['of']}",
             link=f"/expectations?{urlencode({'layer': each['layer']})}")
        for each in told
    ]  # fmt: skip


def _port_of_mac(entity: EntityId, mac: str) -> Item:
    both = f"{mac} {mac.replace(':', '-')}"  # as Linux and as Windows and switches write it
    return Item(entity.kind, entity.name, entity.name, text=both, detail=f"MAC address {mac}")


# --- what is told -----------------------------------------------------------------------------------------------------


def _of_each_kind(best: Iterable[Found], limit: int) -> list[Found]:
    """The first `limit` of each kind, each thing once, in their order."""
    seen: set[tuple[str, str, str]] = set()
    shown: Counter[str] = Counter()
    out = []
    for each in best:
        key = each.item.kind, each.item.id, each.item.cluster
        if key not in seen and shown[each.item.kind] < limit:
            seen.add(key)
            shown[each.item.kind] += 1
            out.append(each)
    return out


def _hit(each: Found, inside: Mapping[str, str]) -> dict[str, Any]:
    item = each.item
    parent = inside.get(f"{item.kind}:{item.id}", "")
    detail = item.detail or (f"{'on' if item.kind == 'rank' else 'in'} {parent}" if parent else "")
    return {
        "kind": item.kind, "id": item.id, "title": item.title, "why": each.why, "detail": detail,
        "link": item.link or link_of(item.kind, item.id, parent), "cluster": item.cluster,
    }  # fmt: skip


# As in web/src/lib/entity.ts: kinds with a page of their own; the rest has only a place in the graph.
_OWN_PAGE = frozenset({
    "host", "gpu", "port", "switch", "swport", "link", "storage", "xcvr", "nvlink", "process", "pod", "service",
})  # fmt: skip


def link_of(kind: str, name: str, parent: str = "") -> str:
    """The path of the page that shows something. An address is shown by what has it
    (`parent`), else it is looked for among the hosts."""
    match kind:
        case "job":
            return f"/jobs/{quote(name, safe='')}"
        case "rank":
            rank = EntityId(kind, name)
            return f"/jobs/{quote(rank.job, safe='')}?{urlencode({'rank': rank.part})}"
        case "incident":
            return f"/incidents/{quote(name, safe='')}"
        case "metric":
            return f"/explore?{urlencode({'name': name})}"
    if kind == "address" and not parent:
        return f"/fleet?{urlencode({'find': name})}"
    entity = parent if kind == "address" else f"{kind}:{name}"
    own = EntityId.of(entity).kind in _OWN_PAGE
    return f"/entity?{urlencode({'of': entity})}" if own else f"/graph?{urlencode({'at': entity})}"
