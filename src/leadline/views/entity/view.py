"""`GET /api/v1/entity`: everything that the page of one entity shows, in few queries.

series ──> its streams by plot ─┬─> metric_sample, one query ──> lines, bands of peers, states
graph in memory ──> neighbours, jobs, peers ──┘
event, incident, cause ──> moments          failure ──> failures
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leadline.analysis.anomaly.kinds import metric_kind
from leadline.model.ids import EntityId, kind_of
from leadline.model.principal import OPERATE
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.entity.around import JOBS_MAX, RANKS_TOLD, Around, JobOn, Near
from leadline.views.entity.catalogue import HOW, LINK, PLOTS, As, Plot, Sum, states_of
from leadline.views.entity.facts import Fact, called, facts, host_in, told_facts
from leadline.views.entity.happened import About, failures, moments
from leadline.views.entity.streams import (
    Drawn,
    Owner,
    PlotStreams,
    Stream,
    drawn_plots,
    fitting,
    own_streams,
    peer_streams,
    plots_by_name,
)
from leadline.views.entity.values import Sampled, Span, Values, band, drawn, states, together
from leadline.views.graph.view import Graphs, entity_of
from leadline.views.jobs.overlays import marks_json
from leadline.views.rows import SCHEMA_VERSION

SPAN_NS = 3600 * S  # looked at, where nothing else is asked for
SPAN_NS_MIN = 60 * S  # shown of something that has only begun
STREAMS_MAX = 3000  # read for one page: with a sample every 15 s for an hour that is 720,000 of them
PEERS_MAX = 64  # a 10th percentile of so many is within 4 % of that of a large fleet's, nine times in ten
PEERS_MIN = 8  # however long the span
BUSIEST = 3  # ports of a switch that are drawn by themselves
WHOLE = ("switch", "storage")  # kinds drawn as the sum of their parts


def entity_answer(
    store: Store, graphs: Graphs, asked: Asked, entity: str, from_ns: int | None = None, points: int = 300
) -> dict[str, Any]:
    """What the end point says of one entity of one cluster. Errors: UsageError for what is no entity id."""
    return _Page(store, graphs, asked, entity, asked.at_ns - SPAN_NS if from_ns is None else from_ns, points).answer()


@dataclass(frozen=True, slots=True)
class _Own:
    """Its streams, with those of its parts."""

    owner: Owner | None
    streams: tuple[Stream, ...]


class _Page:
    def __init__(self, store: Store, graphs: Graphs, asked: Asked, entity: str, from_ns: int, points: int) -> None:
        self._store, self._asked, self._points = store, asked, points
        graph = graphs.of(asked.cluster).graph
        mine = None if asked.principal.may(OPERATE) else [asked.principal.tenant]
        self._entity = graph.shown(entity_of(graph, entity, mine))
        self._kind = kind_of(self._entity)
        self._around = Around(graph, from_ns, asked.at_ns, mine)
        self._parts = self._around.parts(self._entity)
        self._own = _Own(*self._read())
        if self._kind == "switch":
            self._parts = sorted({*self._parts, *(each.entity for each in self._own.streams)})
        self._from_ns = self._begin(from_ns)

    def answer(self) -> dict[str, Any]:
        near, near_total = self._around.near(self._parts)
        jobs = self._around.jobs(self._parts)
        host = host_in(self._entity, self._own.streams, near)
        told = told_facts(self._store, self._asked, self._entity)
        known = facts(self._entity, self._own.streams, near, told, self._parts)
        plots, span, peers_of = self._plots(jobs)
        about = self._about(near, jobs, host)
        marks, marks_total = moments(self._store, self._asked, about, self._from_ns)
        failed, failed_total = failures(self._store, self._asked, about.entities)
        return {
            "schema": SCHEMA_VERSION, "entity": self._entity, "kind": self._kind,
            "name": called(self._entity, self._own.streams, host), "cluster": self._asked.cluster,
            "tenant": self._own.owner.tenant if self._own.owner else "", "from_ns": span.from_ns,
            "to_ns": span.to_ns, "bin_ns": span.bin_ns, "t_ns": span.t_ns, "facts": [_fact(each) for each in known],
            "near": [_near(each) for each in near], "near_total": near_total,
            "jobs": [_job(each) for each in jobs[:JOBS_MAX]],
            "plots": plots, "peers_of": peers_of, "moments": marks_json(marks), "moments_total": marks_total,
            "failures": failed, "failures_total": failed_total, "others": self._others(plots),
            "why": "" if self._own.streams or near else _why(self._entity),
        }  # fmt: skip

    # --- streams ---

    def _read(self) -> tuple[Owner | None, tuple[Stream, ...]]:
        given: dict[str, object] = {"entities": self._parts}
        which = "entity IN {entities:Array(String)}"
        if self._kind == "storage":  # of what is mounted only its clients tell, by the server's name
            which = (
                f"({which} OR (startsWith(name, 'node_mountstats_nfs_') "
                "AND arrayExists(x -> position(x, {name:String}) > 0, mapValues(labels))))"
            )
            given["name"] = EntityId.of(self._entity).name
        if self._kind == "switch":  # ports that nothing is linked to are in no relation
            which = f"({which} OR startsWith(entity, {{ports:String}}))"
            given["ports"] = f"swport:{EntityId.of(self._entity).name}/"
        owner, found = own_streams(self._store, self._asked, which, **given)
        return owner, tuple(found)

    def _begin(self, from_ns: int) -> int:
        """Where plots begin: of the present no earlier than its first sample."""
        first = min((each.first_ns for each in self._own.streams), default=from_ns)
        if not self._asked.latest or first <= from_ns:
            return from_ns
        return max(from_ns, min(first, self._asked.at_ns - SPAN_NS_MIN))

    def _catalogue(self) -> tuple[Plot, ...]:
        plots = PLOTS.get(self._kind, ()) or tuple(plots_by_name(self._own.streams))
        return tuple(each for each in plots if each.how is not As.STATE) if self._kind in WHOLE else plots

    def _lines(self) -> list[PlotStreams]:
        streams, entities = list(self._own.streams), self._parts
        if self._kind == "link":
            return [*self._of_both_ends(streams), *self._states_of_ends(streams)]
        if self._kind in WHOLE:
            streams, entities = [replace(each, entity=self._entity) for each in streams], [self._entity]
        return drawn_plots(self._catalogue(), streams, entities)

    def _of_both_ends(self, streams: Sequence[Stream]) -> list[PlotStreams]:
        found = []
        for title in LINK:
            plots = [
                drawn_plots([each], streams, [part])[0]
                for part in self._parts
                for each in PLOTS[kind_of(part)]
                if each.title == title
            ]
            if plots:
                found.append(PlotStreams(plots[0].plot, tuple(line for each in plots for line in each.lines)))
        return found

    def _states_of_ends(self, streams: Sequence[Stream]) -> list[PlotStreams]:
        found = []
        for part in self._parts:
            for each in drawn_plots(states_of(kind_of(part)), streams, [part]):
                title = f"{EntityId.of(part).name}: {each.plot.title[0].lower()}{each.plot.title[1:]}"
                found.append(replace(each, plot=replace(each.plot, title=title)))
        return found

    # --- plots ---

    def _plots(self, jobs: Sequence[JobOn]) -> tuple[list[dict[str, Any]], Span, str]:
        span = Span.of(self._from_ns, self._asked.at_ns, self._points)
        found, owner = self._lines(), self._own.owner
        if owner is None:
            return [_missing(each.plot) for each in found], span, ""
        used = [stream for each in found for line in each.lines for stream in line.streams]
        peers, words = self._peers(owner, found, jobs, len(used))
        sampled = Sampled(self._store, owner, [*used, *(stream for some in peers.values() for stream in some)], span)
        plots = [_Drawing(each, sampled, peers, self._kind == "link").answer() for each in found]
        # What there is comes first: a page of empty plots says nothing.
        return sorted(plots, key=lambda plot: bool(plot["source"])), span, words

    def _peers(
        self, owner: Owner, found: Sequence[PlotStreams], jobs: Sequence[JobOn], used: int
    ) -> tuple[dict[str, list[Stream]], str]:
        """Streams of peers by peer: what the first line of each plot is made of."""
        if self._kind == "switch":
            return _by_entity(self._own.streams), "the ports of this switch"
        if self._kind not in PLOTS or self._kind == "storage":
            return {}, ""
        names = sorted({each.name for plot in found if (line := _leading(plot)) for each in line.streams})
        entities, words = self._around.peers(self._entity, jobs)
        hours = max(1.0, (self._asked.at_ns - self._from_ns) / SPAN_NS)
        count = max(PEERS_MIN, round(PEERS_MAX / hours))
        if not names:
            return {}, ""
        most = min(
            max(0, STREAMS_MAX - used),
            count * max(1, sum(len(line.streams) for plot in found if (line := _leading(plot)))),
        )
        streams = peer_streams(self._store, owner, names, entities, self._parts, self._kind, most)
        peers = _by_entity(streams)
        if len(streams) == most and len(peers) > 1:
            del peers[streams[-1].entity]  # perhaps not all of it was read
        return dict(list(peers.items())[:count]), words or "others of its kind, of the whole fleet"

    def _others(self, plots: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        shown = {line["metric"] for plot in plots for line in plot["lines"]}
        counts: dict[str, int] = {}
        for each in self._own.streams:
            counts[each.name] = counts.get(each.name, 0) + 1
        return [{"name": name, "streams": count} for name, count in sorted(counts.items()) if name not in shown]

    # --- what happened ---

    def _about(self, near: Iterable[Near], jobs: Iterable[JobOn], host: str) -> About:
        """Its parts count as it; of a host all that is in it, of a port also the other end of its link."""
        entities = {self._entity, *self._parts}
        if self._kind == "host":
            entities |= {each.entity for each in near if kind_of(each.entity) in ("gpu", "port", "nvlink", "storage")}
        if self._kind in ("port", "swport"):
            entities |= {part for each in near if each.link for part in (each.link, each.entity)}
        name = EntityId.of(host).name if self._kind == "host" else ""
        return About(frozenset(entities), name, frozenset(each.job for each in jobs))


# --- drawing ------------------------------------------------------------------------------------------------------


class _Drawing:
    """One plot as the answer tells it."""

    def __init__(self, plot: PlotStreams, sampled: Sampled, peers: dict[str, list[Stream]], ends: bool) -> None:
        self._plot, self._lines, self._sampled, self._peers, self._ends = plot.plot, plot.lines, sampled, peers, ends

    def answer(self) -> dict[str, Any]:
        if not self._lines:
            return _missing(self._plot)
        base: dict[str, Any] = {
            "title": self._plot.title, "unit": self._plot.unit, "about": self._plot.about, "states": [], "peers": None,
            "source": "", "page": "", "command": "",
        }  # fmt: skip
        if self._plot.how is As.STATE:
            return base | {"lines": [self._told(each) for each in self._lines], "states": self._states()}
        told = [self._told(each) for each in self._lines]
        leading = _leading(PlotStreams(self._plot, self._lines))
        if leading is None or not self._peers:
            return base | {"lines": told}
        values_PB, names = self._of_peers(leading)
        return base | {
            "lines": [*told, *self._busiest(leading, values_PB, names)],
            "peers": _band(leading.line.label, values_PB),
        }

    def _told(self, one: Drawn) -> dict[str, Any]:
        """One line; of several entities (ends of a link) with the one it is of."""
        label = f"{EntityId.of(one.entity).name} {one.line.label}" if self._ends else one.line.label
        mean, low, high = self._values(one.streams, "mean"), None, None
        if self._plot.how is As.VALUE and len(one.streams) == 1:
            low, high = (self._sampled.of(one.streams, name)[0] * one.line.scale for name in ("low", "high"))
        if self._plot.how is not As.STATE:
            mean = together(mean, one.line)
        else:
            mean = self._sampled.of(one.streams, "last")[0]
        return {
            "label": label, "metric": one.streams[0].name, "bound": one.line.bound, "streams": len(one.streams),
            "mean": drawn(mean), "low": None if low is None else drawn(low),
            "high": None if high is None else drawn(high),
        }  # fmt: skip

    def _values(self, streams: Sequence[Stream], name: str) -> Values:
        return self._sampled.of(streams, "rate" if self._plot.how is As.RATE else name)

    def _of_peers(self, leading: Drawn) -> tuple[Values, list[str]]:
        """What each peer measured of the leading line (P, B), and who they are."""
        rows, names = [], []
        for peer, streams in self._peers.items():
            if found := fitting(leading.line, streams):
                rows.append(together(self._values(found, "mean"), leading.line))
                names.append(peer)
        return np.stack(rows) if rows else np.zeros((0, self._sampled.span.bins)), names

    def _busiest(self, leading: Drawn, values_PB: Values, names: Sequence[str]) -> list[dict[str, Any]]:
        """Of a switch the ports with most of it, a line each."""
        if kind_of(leading.entity) != "switch" or not len(names) or self._plot.how is not As.RATE:
            return []
        sums = np.nansum(values_PB, axis=1)
        chosen = [place for place in np.argsort(-sums, kind="stable")[:BUSIEST].tolist() if sums[place] > 0]
        return [
            {"label": f"{EntityId.of(names[place]).part} {leading.line.label}", "metric": leading.streams[0].name,
             "bound": False, "streams": 1, "mean": drawn(values_PB[place]), "low": None, "high": None}
            for place in chosen
        ]  # fmt: skip

    def _states(self) -> list[dict[str, Any]]:
        """Spans of the codes of all streams: of several (exporters that label the code) one after the other."""
        streams = self._lines[0].streams
        metric = streams[0].name
        kind = metric_kind(metric)
        column = "bits" if kind is not None and kind.bits else "last"
        value_KB = self._sampled.of(streams, column)
        value_B = together(value_KB, replace(self._lines[0].line, sum=Sum.LARGEST))
        return [
            {"from_ns": each.from_ns, "to_ns": each.to_ns, "value": each.value, "text": each.text,
             "state": state_of(metric, each.value)}
            for each in states(value_B, self._sampled.span, metric)
        ]  # fmt: skip


def state_of(metric: str, value: float) -> str:
    """Whether a code is good or bad, by what the analysis `anomaly` takes for health; states of ports: 1, or active."""
    kind = metric_kind(metric)
    if kind is not None and kind.bits:
        return "bad" if int(value) & kind.bits else "good"
    if kind is not None and kind.healthy is not None:
        return "good" if value == kind.healthy else "bad"
    return "good" if value == (4 if metric.endswith("infiniband_state_id") else 1) else "bad"


def _leading(plot: PlotStreams) -> Drawn | None:
    """The line whose peers are drawn: the first that is no limit. None of a link, whose ends are no peers."""
    if plot.plot.how is As.STATE or len({each.entity for each in plot.lines}) > 1:
        return None
    return next((each for each in plot.lines if not each.line.bound), None)


def _by_entity(streams: Iterable[Stream]) -> dict[str, list[Stream]]:
    found: dict[str, list[Stream]] = {}
    for each in streams:
        found.setdefault(each.entity, []).append(each)
    return found


def _band(label: str, values_PB: Values) -> dict[str, Any] | None:
    if not len(values_PB):
        return None
    median, low, high = band(values_PB)
    return {"line": label, "count": len(values_PB), "median": drawn(median), "low": drawn(low), "high": drawn(high)}


def _missing(plot: Plot) -> dict[str, Any]:
    """A plot of which nothing is stored: what would tell it, and how to add that."""
    page, command = HOW[plot.source]
    return {
        "title": plot.title, "unit": plot.unit, "about": plot.about, "lines": [], "peers": None, "states": [],
        "source": plot.source.value, "page": page, "command": command,
    }  # fmt: skip


# --- rows of the answer -------------------------------------------------------------------------------------------


def _fact(one: Fact) -> dict[str, Any]:
    return {"name": one.name, "value": one.value, "entity": one.entity}


def _near(one: Near) -> dict[str, Any]:
    return {
        "entity": one.entity, "relation": one.relation, "above": one.above, "from_ns": one.from_ns, "to_ns": one.to_ns,
        "link": one.link,
    }  # fmt: skip


def _job(one: JobOn) -> dict[str, Any]:
    return {"job": one.job, "ranks": list(one.ranks[:RANKS_TOLD]), "ranks_total": len(one.ranks)}


def _why(entity: str) -> str:
    return (
        f"nothing is stored about {entity} in this span: no metric stream, no relation. `leadline show series` lists "
        "what is measured, `leadline doctor` who sends"
    )
