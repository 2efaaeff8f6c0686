"""What a job stands on: the dependency graph of each cluster in memory, kept up to date, and what is asked of it.

    relation, colocation ── first request of a cluster ──> Graph ── rows stored since then ──> Graph.updated ──> answer

All relations of the store are in memory, those that no longer hold too (they are kept 400 days; about 135 bytes each,
so a million takes some 135 MB): a question about a past time is answered like one about now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from leadline.analysis.colocation import edges
from leadline.analysis.graph.answers import changes, neighbourhood
from leadline.analysis.graph.graph import Graph, graph
from leadline.analysis.graph.lasting import Lasting, lasting
from leadline.analysis.graph.near import near
from leadline.model.errors import UsageError
from leadline.model.ids import parse_entity_id
from leadline.model.principal import OPERATE
from leadline.model.tables.fabric import COLOCATION, RELATION
from leadline.model.tables.paths import FLOW_PATH, FLOW_VOLUME, PATH_HOP
from leadline.store import Store
from leadline.store.asking.behind import Behind
from leadline.views.asked import Asked, only_cluster, plain_job, time_text
from leadline.views.graph.heard import COLUMNS, Batch, Heard
from leadline.views.graph.states import NOT_ASKED, Conditions
from leadline.views.paths.flows import Verdicts
from leadline.views.rows import SCHEMA_VERSION, rows_where

CLUSTERS_MAX = 16  # graphs held; the one asked least recently goes
RELOAD_S = 300.0  # after that the store is read again, for rows that others wrote into it
WAIT_S = 2.0  # so long a request waits where appends went unseen and the store is read again, then takes what is there
STALE_NS = 120 * 10**9  # paths of a window that ended longer ago are not taken for those of the time asked for
LINKS_MAX = 20_000  # crossed by a job's flows in a window


@dataclass(frozen=True, slots=True)
class Held:
    """The graph of a cluster, up to an append."""

    graph: Graph
    seen: int  # number of the last append that is in it
    as_of_ns: int
    read_s: float  # when the store was read, on the monotonic clock


class Graphs:
    """The graphs of all clusters. Thread-safe. The first request of a cluster waits until the store is read."""

    def __init__(
        self, store: Store, now_ns: Callable[[], int], clock_s: Callable[[], float] = time.monotonic,
        heard: Heard | None = None,
    ) -> None:  # fmt: skip
        self._store, self._now_ns, self._clock_s = store, now_ns, clock_s
        self._heard = heard or Heard(store)
        self._lock = threading.Lock()  # of the two below, never held while anything is read
        self._held: dict[str, Held] = {}
        self._reading: dict[str, Behind[None]] = {}

    def of(self, cluster: str) -> Held:
        """The graph of a cluster as it is now, or as it was a moment ago while the store is read again.

        Errors: StoreError if the store cannot be read.
        """
        with self._lock:
            held = self._held.get(cluster)
        if held is not None:
            fresh = self._followed(held, cluster)
            if fresh is not None:
                if self._clock_s() - held.read_s >= RELOAD_S:
                    self._read(cluster).begin(partial(self._anew, cluster))  # nobody waits for it: it is all here
                kept = self._keep(cluster, fresh)
                return kept if kept.seen >= fresh.seen else fresh
        self._read(cluster).told(partial(self._anew, cluster), None if held is None else WAIT_S)
        with self._lock:
            return self._held[cluster]

    def _followed(self, held: Held, cluster: str) -> Held | None:
        """With what was stored since; None if some of it is not held any more."""
        newer = self._heard.since(held.seen)
        if newer is None:
            return None
        seen = newer[-1].number if newer else held.seen
        return Held(followed(held.graph, newer, cluster), seen, self._now_ns(), held.read_s)

    def _keep(self, cluster: str, fresh: Held) -> Held:
        with self._lock:
            now = self._held.pop(cluster, fresh)
            # What was read last wins even if a request saw later rows meanwhile: the next one follows them again.
            newest = fresh if (fresh.read_s, fresh.seen) >= (now.read_s, now.seen) else now
            self._held[cluster] = newest
            while len(self._held) > CLUSTERS_MAX:
                del self._held[next(iter(self._held))]
        return newest

    def _read(self, cluster: str) -> Behind[None]:
        with self._lock:
            return self._reading.setdefault(cluster, Behind("graph", self._clock_s))

    def _anew(self, cluster: str) -> None:
        self._keep(cluster, self._whole(cluster))

    def _whole(self, cluster: str) -> Held:
        # The number first: what is stored while the store is read is perhaps in the answer, and followed once more.
        seen, as_of_ns, read_s = self._heard.number, self._now_ns(), self._clock_s()
        sql = f"SELECT {', '.join(COLUMNS)} FROM leadline.{RELATION.name} WHERE cluster = {{cluster:String}}"
        relations = self._store.query(sql, {"cluster": cluster})
        sharing = rows_where(COLOCATION, f"cluster = {{cluster:String}} AND kind = '{edges.SHARES}'")
        sql = f"SELECT {', '.join(('tenant', *edges.COLUMNS))} FROM ({sharing})"
        shared = self._store.query(sql, {"cluster": cluster})
        return Held(graph(edges.with_machines(relations, shared)), seen, as_of_ns, read_s)


def followed(made: Graph, batches: Iterable[Batch], cluster: str) -> Graph:
    """A graph with what was stored since, oldest first."""
    rows = [rows for batch in batches if (rows := batch.of(cluster)).num_rows]
    return made.updated(pa.concat_tables(rows)) if rows else made


def graph_answer(graphs: Graphs, store: Store, asked: Asked, job: str, of: str, states: bool = False) -> dict[str, Any]:
    """What `/api/v1/graph` says: what `job` (or the entity `of`) stands on at a time, and who shares that.

    `states`: also how each part does, and what happened while it was there.

    Errors: UsageError for neither or no entity id; StoreError.
    """
    if bool(job) == bool(of):
        raise UsageError("give `job`, or `of` with an entity such as switch:leaf1, and not both")
    cluster = asked.cluster or only_cluster(store, asked.principal)
    held = graphs.of(cluster)
    mine = None if asked.principal.may(OPERATE) else [asked.principal.tenant]
    entity = f"job:{plain_job(job)}" if job else entity_of(held.graph, of, mine)
    told = lasting(held.graph, entity, mine)
    at_ns, note = shown_at(entity, told, asked)
    shown = replace(asked, cluster=cluster, at_ns=at_ns)
    verdicts = Verdicts(store, shown)
    crossed, carried = crossed_links(verdicts)
    answer = neighbourhood(held.graph, entity, at_ns, crossed or None, mine).as_answer()
    if mine is not None:
        everybody = neighbourhood(held.graph, entity, at_ns, crossed or None, None)
        answer["shared"] = hidden_names(answer, everybody.as_answer()["shared"])
        if told is None:  # another tenant's job would stand here as its own, and so be told from one that is not there
            answer["nodes"] = [{**node, "jobs": []} for node in answer["nodes"]]
    for each in answer["shared"]:
        each.setdefault("others", 0)
    for edge in answer["edges"]:
        edge["bytes"] = carried.get(edge["link"]) if edge["link"] else None
    name = held.graph.shown(entity)
    if told is None:
        answer["missing"] = [never_told(held.graph, entity, mine)]
    elif not any(name in (edge["child"], edge["parent"], edge["link"]) for edge in answer["edges"]):
        answer["missing"] += when_it_was(entity, told, at_ns)
    answer |= {
        "schema": SCHEMA_VERSION, "as_of_ns": held.as_of_ns, "note": note, "moments": [],
        "carried_ns": verdicts.window.window_ns if verdicts.window is not None and carried else None,
        "span": None if told is None else {"from_ns": told.from_ns, "to_ns": told.to_ns},
    }  # fmt: skip
    found = Conditions(store, shown, answer) if states else None
    parts = found.of_parts() if found is not None else {}
    for node in answer["nodes"]:
        node.update(parts[node["entity"]].as_answer() if parts else NOT_ASKED)
    for edge in answer["edges"]:
        edge.update(parts[edge["link"]].as_answer() if parts and edge["link"] else NOT_ASKED)
    if found is not None and told is not None:
        span = (told.from_ns, told.to_ns or held.as_of_ns)
        # Whose edges came and went is not told apart by tenant.
        changed = changes(held.graph, name, *span) if mine is None else ()
        answer["moments"] = found.moments(name, changed, span)
    return answer


def entity_of(graph: Graph, text: str, tenants: Sequence[str] | None) -> str:
    """The entity that a person names. Errors: UsageError for no id, with those that may be meant."""
    try:
        return str(parse_entity_id(text))
    except UsageError as error:
        meant = near(graph, text, tenants)
        raise UsageError(f"{error}; there is {' and '.join(meant)}" if meant else str(error)) from None


def shown_at(entity: str, told: Lasting | None, asked: Asked) -> tuple[int, str]:
    """The time that is shown: where none was asked for and the thing is over, when it last was whole; with words."""
    if not asked.latest or told is None or told.to_ns is None or told.to_ns > asked.at_ns:
        return asked.at_ns, ""
    return told.whole_ns, f"{entity} ended at {time_text(told.to_ns)}: shown as it was at {time_text(told.whole_ns)}"


def never_told(graph: Graph, entity: str, tenants: Sequence[str] | None) -> str:
    """That nobody (whom the caller may hear) tells of an entity, and what it may have been meant for."""
    meant = near(graph, entity, tenants)
    return f"no data about {entity}" + (f"; did you mean {' or '.join(meant)}?" if meant else "")


def crossed_links(verdicts: Verdicts) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Links that traced flows cross in the window with the jobs that own them, and what links carried, in bytes.

    Nothing where the newest window is too old to speak for the time asked for.
    """
    if verdicts.window is None or verdicts.window.end_ns < verdicts.asked.at_ns - STALE_NS:
        return {}, {}
    hops = f"SELECT flow, link FROM {verdicts.source(PATH_HOP)} WHERE alternative = 0 AND probability >= 0.5"
    rows = verdicts.rows(
        "SELECT toString(hop.link) AS link, groupUniqArray(toString(flow.job)) AS jobs "
        f"FROM ({hops}) AS hop "
        f"INNER JOIN (SELECT flow, job FROM {verdicts.source(FLOW_PATH)} WHERE isNotNull(job)) AS flow "
        f"ON hop.flow = flow.flow GROUP BY link ORDER BY link LIMIT {LINKS_MAX}"
    )
    loads = verdicts.rows(
        f"SELECT toString(link) AS link, sum(bytes) AS bytes FROM {verdicts.source(FLOW_VOLUME)} GROUP BY link"
    )
    crossed = {row["link"]: sorted(f"job:{plain_job(job)}" for job in row["jobs"]) for row in rows}
    return crossed, {row["link"]: row["bytes"] for row in loads}


def hidden_names(answer: Mapping[str, Any], everybody: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a tenant's job shares: other tenants' jobs are counted in `others`, never named.

    Only things that the tenant's own rows tell of are listed.
    """
    known = {node["entity"] for node in answer["nodes"]} | {edge["link"] for edge in answer["edges"] if edge["link"]}
    own_jobs = {job for node in answer["nodes"] for job in node["jobs"]}
    if answer["job"]:
        own_jobs.add(answer["job"])
    shared = []
    for each in everybody:
        if each["entity"] in known:
            own = [job for job in each["jobs"] if job in own_jobs]
            shared.append({**each, "jobs": own, "others": len(each["jobs"]) - len(own)})
    return shared


def when_it_was(entity: str, told: Lasting, at_ns: int) -> list[str]:
    """Of an entity that nothing holds at a time: since when and until when something did."""
    if at_ns < told.from_ns:
        return [f"{entity} is first seen at {time_text(told.from_ns)}; use a later `at`"]
    if told.to_ns is not None and at_ns >= told.to_ns:
        span = f"from {time_text(told.from_ns)} to {time_text(told.to_ns)}"
        return [f"{entity} was there {span}: ask with an earlier `at`"]
    return [f"{entity} is known before and after that time, but not at it; use another `at`"]
