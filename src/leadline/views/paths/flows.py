"""The flows of a job in one window: whose, by which path, how many bytes; who else is on their links.

Everything shown was concluded by the analysis `path`; a request only reads its tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.ids import EntityId
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables import Table
from leadline.model.tables.fabric import CONFLICT
from leadline.model.tables.paths import ECMP_GROUP, FLOW_PATH, FLOW_VOLUME, PATH_HOP
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.store import Store
from leadline.views.asked import Asked, plain_job, time_text
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

FLOWS_MAX = 1000  # told of a job, the largest; `flows_total` counts all of them
LINKS_MAX = 2000  # told, the busiest; `links_total` counts all of them
GROUPS_MAX = 500
UNOWNED_TOP = 5
CONFLICTS_MAX = 100
ANALYSIS = "path"
NOBODY = "(nobody)"
_HIDDEN = {"tenant", "cluster", "analysis", "version", "revision"}


@dataclass(frozen=True, slots=True)
class Judged:
    """One window that was judged."""

    end_ns: int
    window_ns: int


class Verdicts:
    """Rows of one window of the analysis `path`, as somebody may see them."""

    def __init__(self, store: Store, asked: Asked) -> None:
        self._store, self.asked = store, asked
        self.window = self._latest_window()

    def _latest_window(self) -> Judged | None:
        """The newest window that ended by the time asked for; by the runner's book, else by the rows themselves."""
        cluster = "AND cluster = {cluster:String}" if self.asked.cluster else ""
        done = f"leadline.{ANALYSIS_RUN.name} WHERE analysis = '{ANALYSIS}' AND state = 'done' AND"
        before = f"end_ns <= {{at_ns:Int64}} {cluster}"
        sql = (
            f"SELECT end_ns, window_ns FROM {done} {before} AND end_ns = "
            f"(SELECT max(end_ns) FROM {done} {before}) ORDER BY window_ns LIMIT 1"
        )
        runs = self._store.query(sql, self.asked.parameters(sql)).to_pylist()
        if runs:
            return Judged(**runs[0])
        # Rows without a run (imported): a tenant's own, or it would learn when others' flows were seen last.
        mine = " AND ".join([*self.asked.conditions(), "end_ns <= {at_ns:Int64}"])
        sql = f"SELECT end_ns, window_ns FROM leadline.{FLOW_PATH.name} WHERE {mine} ORDER BY end_ns DESC, window_ns"
        found = self._store.query(f"{sql} LIMIT 1", self.asked.parameters(sql)).to_pylist()
        return Judged(**found[0]) if found else None

    def source(self, table: Table, of_all_tenants: bool = False) -> str:
        """The sub-query of the window's rows. `of_all_tenants`: for sums in which nobody is named."""
        assert self.window is not None, "nothing was analysed"
        where = [f"end_ns = {self.window.end_ns}", f"window_ns = {self.window.window_ns}", f"analysis = '{ANALYSIS}'"]
        where += [each for each in self.asked.conditions() if not (of_all_tenants and each.startswith("tenant"))]
        return f"({rows_where(table, ' AND '.join(where))})"

    def rows(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Rows of a statement over `source`s."""
        return json_rows(self._store.query(sql, {**self.asked.parameters(sql), **parameters}))

    def flow_columns(self) -> str:
        """The columns of flows as they may be seen: what a link carried of everybody is for operators."""
        names = [column.name for column in FLOW_PATH.columns if column.name not in _HIDDEN]
        return ", ".join(FLOW_PATH.shown(names, to_operator=self.asked.principal.may(OPERATE)))

    def last_seen_ns(self, condition: str, **parameters: object) -> int | None:
        """End of the newest window with flows that fit `condition`, at or before the time asked for."""
        where = " AND ".join([*self.asked.conditions(), "end_ns <= {at_ns:Int64}", condition])
        sql = f"SELECT max(end_ns) AS newest_ns, count() AS n FROM leadline.{FLOW_PATH.name} WHERE {where}"
        found = self.rows(sql, **parameters)[0]
        return int(found["newest_ns"]) if found["n"] else None


def verdicts_with(store: Store, asked: Asked, what: str, condition: str, **parameters: object) -> tuple[Verdicts, str]:
    """The newest window; where no time was asked for, the newest with flows that fit `condition`, and words on that."""
    verdicts = Verdicts(store, asked)
    if not asked.latest or verdicts.window is None:
        return verdicts, ""
    fitting = f"SELECT count() AS n FROM {verdicts.source(FLOW_PATH)} WHERE {condition}"
    if verdicts.rows(fitting, **parameters)[0]["n"]:
        return verdicts, ""
    last_ns = verdicts.last_seen_ns(condition, **parameters)
    if last_ns is None or last_ns >= verdicts.window.end_ns:
        return verdicts, ""
    note = (
        f"no flow of {what} was sampled in the newest window, to {time_text(verdicts.window.end_ns)}: this is the "
        f"newest one with some, to {time_text(last_ns)}"
    )
    return Verdicts(store, replace(asked, at_ns=last_ns)), note


def flows_answer(store: Store, asked: Asked, job: str) -> dict[str, Any]:
    """What `/api/v1/flows` says: see `docs/how-to/see-what-a-job-stands-on.md`."""
    verdicts, note = verdicts_with(store, asked, plain_job(job), "job = {job:String}", job=plain_job(job))
    answer: dict[str, Any] = {
        "schema": SCHEMA_VERSION, "job": plain_job(job), "end_ns": None, "window_ns": None,
        "flows": [], "flows_total": 0, "links": [], "links_total": 0, "groups": [],
        "unowned": {"flows": 0, "bytes": 0.0, "top": []}, "conflicts": [], "why": "", "note": note,
    }  # fmt: skip
    if verdicts.window is None:
        return answer | {"why": NOTHING_JUDGED}
    answer |= {"end_ns": verdicts.window.end_ns, "window_ns": verdicts.window.window_ns}
    found, tenants = _flows(verdicts, plain_job(job))
    answer |= found
    if answer["flows"]:
        answer |= _links(verdicts, plain_job(job))
        answer["groups"] = _groups(verdicts, plain_job(job))
        answer["why"] = several_tenants(tenants)
    else:
        answer["why"] = _why_none(verdicts, plain_job(job))
    answer["unowned"] = _unowned(verdicts)
    answer["conflicts"] = _conflicts(verdicts)
    return answer


NOTHING_JUDGED = (
    "no window was analysed by then: are packet headers sampled (`leadline show tables flow_sample`), and does the "
    "analysis `path` run (`leadline doctor`)?"
)


def _flows(verdicts: Verdicts, job: str) -> tuple[dict[str, Any], list[str]]:
    """The largest flows of the job, and whose they all are."""
    flows = verdicts.rows(
        f"SELECT {verdicts.flow_columns()}, {OF_ALL} FROM {verdicts.source(FLOW_PATH)} WHERE job = {{job:String}} "
        f"ORDER BY bytes DESC, flow LIMIT {FLOWS_MAX}",
        job=job,
    )
    total, tenants = of_all(flows)
    links = {
        row["flow"]: row["links"]
        for row in verdicts.rows(
            "SELECT flow, arrayMap(each -> each.2, arraySort(groupArray((hop, toString(link))))) AS links "
            f"FROM {verdicts.source(PATH_HOP)} WHERE alternative = 0 AND flow IN "
            f"(SELECT flow FROM {verdicts.source(FLOW_PATH)} WHERE job = {{job:String}} "
            f"ORDER BY bytes DESC, flow LIMIT {FLOWS_MAX}) GROUP BY flow",
            job=job,
        )
    }
    told = [{**row, "links": links.get(row["flow"], [])} for row in flows]
    return {"flows": told, "flows_total": total}, tenants


OF_ALL = "count() OVER () AS total, arraySort(groupUniqArray(toString(tenant)) OVER ()) AS tenants"
"""Of all rows of a statement, those beyond its limit too: how many there are, and whose."""


def of_all(rows: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """What `OF_ALL` told; the rows lose it."""
    found = [(row.pop("total"), row.pop("tenants")) for row in rows]
    return found[0] if found else (0, [])


def several_tenants(tenants: list[str]) -> str:
    """Says so where flows are of jobs of one name that different tenants run; else empty."""
    if len(tenants) < 2:
        return ""
    return (
        f"these are flows of {len(tenants)} tenants' jobs of one name ({', '.join(tenants[:5])}): ask as one of them "
        "(header leadline-tenant) to have them apart"
    )


def _links(verdicts: Verdicts, job: str) -> dict[str, Any]:
    """The links that the job's flows cross, both directions together, the busiest first."""
    theirs = f"SELECT DISTINCT link FROM {verdicts.source(FLOW_VOLUME)} WHERE job = {{job:String}}"
    rows = verdicts.rows(
        "SELECT toString(link) AS link, toString(ifNull(job, '')) AS job, toString(tenant) AS tenant, "
        "count() AS flows, sum(bytes) AS carried, "
        "sum(pow(bytes - low, 2)) AS below, sum(pow(high - bytes, 2)) AS above "
        f"FROM {verdicts.source(FLOW_VOLUME, of_all_tenants=True)} WHERE link IN ({theirs}) "
        "GROUP BY link, job, tenant ORDER BY link, job, tenant",
        job=job,
    )
    found = links_of(rows, verdicts.asked.principal)
    return {"links": found[:LINKS_MAX], "links_total": len(found)}


def links_of(rows: Iterable[Mapping[str, Any]], principal: Principal) -> list[dict[str, Any]]:
    """Links with their load and whose it is, from sums by link, job and tenant; the busiest first.

    The interval of a sum: errors of different flows are independent, so their squares add up. Jobs of another tenant
    are counted in `others`, and neither their names nor their bytes are told.
    """
    links: dict[str, dict[str, Any]] = {}
    for row in rows:
        link = links.setdefault(
            row["link"],
            {"link": row["link"], "carried": 0.0, "below": 0.0, "above": 0.0, "flows": 0, "jobs": {}, "others": set()},
        )
        if not principal.may(OPERATE) and row["tenant"] != principal.tenant:
            if row["job"]:
                link["others"].add((row["tenant"], row["job"]))
            continue
        for name in ("carried", "below", "above", "flows"):
            link[name] += row[name]
        name = row["job"] or NOBODY
        link["jobs"][name] = link["jobs"].get(name, 0.0) + row["carried"]
    told = [_told(link) for link in links.values()]
    return sorted(told, key=lambda link: (-link["bytes"], link["link"]))


def _told(link: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "link": link["link"],
        "bytes": link["carried"],
        "low": max(0.0, link["carried"] - math.sqrt(link["below"])),
        "high": link["carried"] + math.sqrt(link["above"]),
        "flows": link["flows"],
        "jobs": dict(sorted(link["jobs"].items(), key=lambda each: (-each[1], each[0]))),
        "others": len(link["others"]),
    }


def _groups(verdicts: Verdicts, job: str) -> list[dict[str, Any]]:
    """Equal-cost groups with a link that the job's flows cross, the least even first."""
    theirs = f"SELECT groupUniqArray(toString(link)) FROM {verdicts.source(FLOW_VOLUME)} WHERE job = {{job:String}}"
    columns = ", ".join(f"`{column.name}`" for column in ECMP_GROUP.columns if column.name not in _HIDDEN)
    groups = verdicts.rows(
        f"SELECT {columns} FROM {verdicts.source(ECMP_GROUP)} "
        f"WHERE hasAny(arrayMap(each -> toString(each), links), ({theirs})) "
        f"ORDER BY efficiency, bytes DESC, switch, `group` LIMIT {GROUPS_MAX}",
        job=job,
    )
    sent = _sent(verdicts, {link for group in groups for link in group["links"]})
    return [{**group, "sent": _sent_by(group, sent)} for group in groups]


def _sent(verdicts: Verdicts, links: set[str]) -> dict[tuple[str, str], dict[str, float]]:
    """Bytes of each job by link and the switch that sent them into it, by flows whose way is traced."""
    if not links:
        return {}
    hops = (
        "SELECT flow, toString(link) AS link, lagInFrame(toString(link)) OVER (PARTITION BY flow ORDER BY hop "
        f"ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS before FROM {verdicts.source(PATH_HOP)} "
        "WHERE alternative = 0"
    )
    rows = verdicts.rows(
        "SELECT hop.link AS link, hop.before AS before, toString(ifNull(volume.job, '')) AS job, "
        "sum(volume.bytes) AS carried "
        f"FROM (SELECT * FROM ({hops}) WHERE link IN {{links:Array(String)}} AND before != '') AS hop "
        f"INNER JOIN (SELECT flow, toString(link) AS link, job, bytes FROM {verdicts.source(FLOW_VOLUME)}) AS volume "
        "ON hop.flow = volume.flow AND hop.link = volume.link GROUP BY link, before, job",
        links=sorted(links),
    )
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        for switch in nodes_of(row["link"]) & nodes_of(row["before"]):
            jobs = found.setdefault((switch, row["link"]), {})
            jobs[row["job"] or NOBODY] = jobs.get(row["job"] or NOBODY, 0.0) + row["carried"]
    return found


def _sent_by(group: Mapping[str, Any], sent: Mapping[tuple[str, str], Mapping[str, float]]) -> list[dict[str, Any]]:
    """What the switch of a group sent by each of its links, most first."""
    jobs = {link: dict(sent.get((group["switch"], link), {})) for link in group["links"]}
    told = [{"link": link, "bytes": sum(of.values()), "jobs": of} for link, of in jobs.items()]
    return sorted(told, key=lambda each: (-each["bytes"], each["link"]))


def nodes_of(link: str) -> set[str]:
    """Names of the two nodes that a link joins: `link:h3/eth0~leaf1/Ethernet3` those of h3 and leaf1."""
    return {end.partition("/")[0] for end in EntityId.of(link).ends}


def _unowned(verdicts: Verdicts) -> dict[str, Any]:
    """Flows that nobody owns: how many, and the largest."""
    top = verdicts.rows(
        "SELECT flow, src, dst, src_ip, dst_ip, protocol, src_port, dst_port, dst_qp, state, bytes, low, high, "
        "count() OVER () AS flows, sum(bytes) OVER () AS carried "
        f"FROM {verdicts.source(FLOW_PATH)} WHERE isNull(job) ORDER BY bytes DESC, flow LIMIT {UNOWNED_TOP}"
    )
    total = [(row.pop("flows"), row.pop("carried")) for row in top]
    flows, carried = total[0] if total else (0, 0.0)
    return {"flows": flows, "bytes": carried, "top": top}


def _conflicts(verdicts: Verdicts) -> list[dict[str, Any]]:
    """What samples of the window said against the topology or against each other, what most of them say first."""
    assert verdicts.window is not None, "nothing was analysed"
    where = [f"seen_ns = {verdicts.window.end_ns}", f"analysis = '{ANALYSIS}'", *verdicts.asked.conditions()]
    columns = ", ".join(column.name for column in CONFLICT.columns if column.name not in _HIDDEN)
    return verdicts.rows(
        f"SELECT {columns} FROM ({rows_where(CONFLICT, ' AND '.join(where))}) "
        f"ORDER BY count DESC, entity, kind LIMIT {CONFLICTS_MAX}"
    )


def _why_none(verdicts: Verdicts, job: str) -> str:
    last_ns = verdicts.last_seen_ns("job = {job:String}", job=job)
    if last_ns is None:
        return (
            f"no flow of {job} was ever sampled: are its flows owned (`owns` in the table relation), do the switches "
            "on its way sample, and is the name right?"
        )
    return f"no flow of {job} was sampled in this window; the newest with some ended at {time_text(last_ns)}: use `at`"
