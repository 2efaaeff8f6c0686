"""Which metric streams make which line: of the entity, of the ports that a switch or link has, and of its peers.

series of the entity ──> lines of its plots (catalogue) ──> names ──> series of its peers ──> the same lines
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from leadline.model.metric_words import is_state, metric_name, rank_of
from leadline.model.tables.metrics import SERIES
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.entity.catalogue import OWN_METRICS_MAX, As, Line, Plot, Source, Sum
from leadline.views.rows import json_rows
from leadline.views.samples import metric_unit

# Labels that say who tells of a host, and nothing of what is told.
TELLER = frozenset({
    "job", "instance", "nodename", "node", "host", "hostname", "Hostname", "host.name", "k8s.node.name",
    "kubernetes_node", "service.name", "service.instance.id",
})  # fmt: skip
OWN_MAX = 4000  # streams of one entity, the newest: a host of 256 CPUs has 2,560 of its CPUs alone
COLUMNS = (
    "toString(series) AS number, toString(name) AS name, toString(entity) AS entity, toString(tenant) AS tenant, "
    "toString(cluster) AS cluster, labels, toString(type) AS type, toString(unit) AS unit, first_ns, last_ns"
)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stored stream. `spelled`: its name with dots as underscores."""

    number: int
    name: str
    entity: str
    labels: Mapping[str, str]
    counter: bool
    unit: str
    first_ns: int

    @property
    def spelled(self) -> str:
        """As the catalogue writes names."""
        return self.name.replace(".", "_")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line that has streams: whose (an entity), and which."""

    line: Line
    entity: str
    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class PlotStreams:
    """A plot with the lines that have streams; none: nothing of it is stored."""

    plot: Plot
    lines: tuple[Drawn, ...]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose streams are drawn: ids of streams are unique within one tenant and cluster."""

    tenant: str
    cluster: str


def own_streams(store: Store, asked: Asked, which: str, **parameters: object) -> tuple[Owner | None, list[Stream]]:
    """Streams under a condition, of the tenant that has most of them (an operator sees several)."""
    where = " AND ".join([*asked.conditions(), which])
    sql = f"SELECT {COLUMNS} FROM leadline.{SERIES.name} WHERE {where} ORDER BY last_ns DESC LIMIT {OWN_MAX}"
    rows = json_rows(store.query(sql, {**asked.parameters(sql), **parameters}))
    counts: dict[Owner, int] = {}
    for row in rows:
        owner = Owner(row["tenant"], row["cluster"])
        counts[owner] = counts.get(owner, 0) + 1
    if not counts:
        return None, []
    owner = max(counts, key=lambda each: (counts[each], each.tenant))
    return owner, [_stream(row) for row in rows if Owner(row["tenant"], row["cluster"]) == owner]


def peer_streams(
    store: Store, owner: Owner, names: Sequence[str], entities: Sequence[str], own: Iterable[str], kind: str, most: int
) -> list[Stream]:
    """Streams of these names: of `entities`, or of as many others of the kind as fit, always the same ones."""
    which = "entity IN {entities:Array(String)}" if entities else "entity_kind = {kind:String} AND entity != ''"
    sql = (
        f"SELECT {COLUMNS} FROM leadline.{SERIES.name} "
        "WHERE tenant = {tenant:String} AND cluster = {cluster:String} "
        f"AND name IN {{names:Array(String)}} AND {which} AND entity NOT IN {{own:Array(String)}} "
        f"ORDER BY cityHash64(entity), name LIMIT {most}"
    )
    given = {"tenant": owner.tenant, "cluster": owner.cluster, "names": list(names), "own": sorted(own)}
    given |= {"entities": list(entities)} if entities else {"kind": kind}
    return [_stream(row) for row in json_rows(store.query(sql, given))]


def _stream(row: Mapping[str, Any]) -> Stream:
    counter = row["type"] == "counter" or (row["type"] is None and row["name"].endswith("_total"))
    return Stream(
        int(row["number"]), row["name"], row["entity"], row["labels"], counter, row["unit"] or "", int(row["first_ns"])
    )


# --- lines --------------------------------------------------------------------------------------------------------


def drawn_plots(plots: Iterable[Plot], streams: Sequence[Stream], entities: Sequence[str]) -> list[PlotStreams]:
    """Plots with the streams of their lines; of several entities (a link's ends) each line once for each."""
    by_entity: dict[str, list[Stream]] = {}
    for each in streams:
        by_entity.setdefault(each.entity, []).append(each)
    return [
        PlotStreams(plot, tuple(one for entity in entities for one in _lines(plot, entity, by_entity.get(entity, ()))))
        for plot in plots
    ]


def _lines(plot: Plot, entity: str, streams: Sequence[Stream]) -> list[Drawn]:
    """The lines of one entity; of several with one label the first that there is."""
    found: dict[str, Drawn] = {}
    for line in plot.lines:
        if line.label not in found and (some := fitting(line, streams)):
            found[line.label] = Drawn(line, entity, some)
    return list(found.values())


def fitting(line: Line, streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """The streams that are this line: of the first of its metrics that there are any of."""
    for metric in line.metrics:
        found = tuple(each for each in streams if _fits(metric, each.spelled) and _has(line.where, each.labels))
        if found:
            return _told_once(found)
    return ()


def _told_once(found: tuple[Stream, ...]) -> tuple[Stream, ...]:
    """The same without what several senders tell: an agent and a node_exporter on one host would count twice. Of those
    that tell the same the one that tells most of the line, else that was heard last (streams come in that order)."""
    of: dict[object, list[Stream]] = {}
    for each in found:
        labels = frozenset(pair for pair in each.labels.items() if pair[0] not in TELLER)
        of.setdefault((each.name, labels), []).append(each)
    if len(of) == len(found):
        return found
    tellers = [_teller(each) for each in found]
    order = sorted(dict.fromkeys(tellers), key=lambda teller: -tellers.count(teller))
    best = [min((_teller(each) for each in some), key=order.index) for some in of.values()]
    return tuple(each for some, one in zip(of.values(), best, strict=True) for each in some if _teller(each) == one)


def _teller(stream: Stream) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in stream.labels.items() if pair[0] in TELLER)


def is_of(line: Line, spelled: str) -> bool:
    """Whether a metric of this name, dots as underscores, may be the line."""
    return any(_fits(metric, spelled) for metric in line.metrics)


def _has(where: Iterable[tuple[str, str]], labels: Mapping[str, str]) -> bool:
    return all(
        _fits(value, told)
        for label, value in where
        if (told := labels.get(label, labels.get(label.replace("_", ".")))) is not None
    )


@lru_cache(maxsize=32_768)  # names and label values of a fleet, not streams
def _fits(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def plots_by_name(streams: Iterable[Stream]) -> list[Plot]:
    """Plots of a kind that has no table: a metric each, what people understand at once first."""
    found: dict[str, Stream] = {}
    for each in streams:
        found.setdefault(each.name, each)
    names = sorted(found, key=lambda name: (rank_of(name), name))[:OWN_METRICS_MAX]
    return [_plain_plot(found[name]) for name in names]


def _plain_plot(stream: Stream) -> Plot:
    how = As.STATE if is_state(stream.name) else As.RATE if stream.counter else As.VALUE
    unit = "state" if how is As.STATE else metric_unit(stream.unit, stream.name, stream.counter)
    title = metric_name(stream.name)
    line = Line(stream.name, (re.escape(stream.spelled),), sum=Sum.ADD if stream.counter else Sum.LARGEST)
    return Plot(title[:1].upper() + title[1:] if title != stream.name else title, unit, (line,), Source.ANY, how)
