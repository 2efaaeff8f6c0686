"""The two sides of a comparison: a run of a job, a host or a GPU, or the peers of one; which hosts, from when to when.

    bert-7            its newest run         bert-7@-2h                 the run at that time
    host:h3           the last hour          bert-7@T1..T2              exactly that span

A run ends where a job tells nothing for a minute, or where its steps are counted from an earlier number again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.errors import LeadlineError, UnknownNameError, UsageError
from leadline.model.ids import parse_entity_id
from leadline.store import Store
from leadline.views.asked import Asked, time_text
from leadline.views.names import Kind, unknown_text
from leadline.views.rows import json_rows
from leadline.views.times import parse_time

HOUR_NS = 3600 * 10**9
PAUSE_NS = 60 * 10**9  # a job that tells nothing for so long has ended
BUCKET_NS = 5 * 10**9
STEPS_BACK_MIN = 2  # ranks are a step apart; a restart goes back further, or to 0
HOSTS_MAX = 64  # of one side; a median of so many peers is as good as of all
KINDS = ("job", "host", "gpu")


@dataclass(frozen=True, slots=True)
class Side:
    """One side. `hosts` and `gpus` are names; `gpus` empty: all of the hosts."""

    kind: str
    name: str
    from_ns: int
    to_ns: int
    hosts: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    peers_of: str = ""
    note: str = ""

    @property
    def title(self) -> str:
        """How it is called: `bert-7`, `host:h3`, `7 peers of host:h3`."""
        if self.peers_of:
            count = len(self.gpus if self.kind == "gpu" else self.hosts)
            return f"{count} peer{'' if count == 1 else 's'} of {self.peers_of}"
        return self.name if self.kind == "job" else f"{self.kind}:{self.name}"

    def as_answer(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "title": self.title, "kind": self.kind, "from_ns": self.from_ns, "to_ns": self.to_ns,
            "hosts": list(self.hosts), "gpus": list(self.gpus), "jobs": list(self.jobs), "note": self.note,
        }  # fmt: skip


class Reader:
    """Queries over the rows that somebody may see, of one cluster."""

    def __init__(self, store: Store, asked: Asked) -> None:
        self.store, self.asked = store, asked

    def rows(self, table: str, what: str, where: str, behind: str = "", **parameters: object) -> list[dict[str, Any]]:
        """SELECT `what` FROM the table WHERE `where` and the rows are theirs; `behind`: GROUP BY and so on."""
        conditions = " AND ".join([*self.asked.conditions(), where])
        return self.query(f"SELECT {what} FROM {table} WHERE {conditions} {behind}", **parameters)

    def query(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Rows of a statement that has the conditions in it."""
        given = {name: value for name, value in parameters.items() if f"{{{name}:" in sql}
        return json_rows(self.store.query(sql, {**self.asked.parameters(sql), **given}))


def side_of(reader: Reader, text: str) -> Side:
    """The side that a person names. Errors: UsageError for what is none, or of which nothing is stored."""
    named, _, at = text.partition("@")
    entity = parse_entity_id(named) if ":" in named else parse_entity_id(f"job:{named}")
    if entity.kind not in KINDS:
        raise UsageError(f"compared are jobs (bert-7), hosts (host:h3) and GPUs (gpu:GPU-5c1e); got {named[:100]!r}")
    if entity.kind == "job":
        return _run(reader, entity.name, at)
    from_ns, to_ns = _span(reader, entity.kind, entity.name, at)
    side = Side(entity.kind, entity.name, from_ns, to_ns)
    if entity.kind == "host":
        side = replace(side, hosts=(entity.name,))
    else:
        side = replace(side, hosts=_hosts_of_gpu(reader, entity.name), gpus=(entity.name,))
    return replace(side, jobs=_jobs_on(reader, side))


def peers_of(reader: Reader, side: Side) -> Side:
    """What a host or GPU is held against by itself: the other ones of its jobs, or of its cluster if it has none.

    Errors: UsageError for a job, and where there are no peers.
    """
    if side.kind == "job":
        raise UsageError(f"give two runs: `compare {side.name} OTHER`, or `compare {side.name}@-2h {side.name}`")
    found = _hosts_of_jobs(reader, side) if side.jobs else _hosts_of_cluster(reader, side)
    note = f"of {', '.join(side.jobs)}" if side.jobs else "of the cluster: no job was seen on it"
    others = tuple(sorted(set(found) - (set(side.hosts) if side.kind == "host" else set())))[:HOSTS_MAX]
    peers = replace(side, hosts=others, gpus=(), peers_of=side.title, note=note)
    if side.kind == "gpu":
        gpus = tuple(gpu for gpu in _gpus_on(reader, peers) if gpu not in side.gpus)
        peers = replace(peers, gpus=gpus)
    if not (peers.gpus if side.kind == "gpu" else peers.hosts):
        raise UsageError(f"{side.title} has no peers {note}; name what to compare it with: `compare {side.title} B`")
    return peers


# --- runs of a job ---


def _run(reader: Reader, job: str, at: str) -> Side:
    if ".." in at:
        return _with_hosts(reader, Side("job", job, *_told_span(reader, at), jobs=(job,)))
    runs = runs_of(_activity(reader, job))
    if not runs:
        raise _nothing(reader, job, Kind.JOB)
    if not at:
        return _with_hosts(reader, Side("job", job, *runs[-1], jobs=(job,)))
    at_ns = parse_time(at, reader.asked.at_ns)
    before = [run for run in runs if run[0] <= at_ns]
    if not before:
        raise UsageError(f"job {job} did not run at {time_text(at_ns)}; its first run begins {time_text(runs[0][0])}")
    over = "" if at_ns <= before[-1][1] else f"it did not run at {time_text(at_ns)}: this is the run before"
    return _with_hosts(reader, Side("job", job, *before[-1], jobs=(job,), note=over))


def _activity(reader: Reader, job: str) -> list[dict[str, Any]]:
    """When a job told something, in buckets: begin, end, and the range of step numbers where there are steps."""
    bucket = f"intDiv(start_ns, {BUCKET_NS})"
    steps = reader.rows(
        "leadline.step",
        "min(start_ns) AS begin_ns, max(end_ns) AS end_ns, min(step) AS low, max(step) AS high",
        "job = {job:String}", f"GROUP BY {bucket}", job=job,
    )  # fmt: skip
    collectives = reader.rows(
        "leadline.collective",
        "min(enqueued_ns) AS begin_ns, max(ifNull(finished_ns, enqueued_ns)) AS end_ns, NULL AS low, NULL AS high",
        "job = {job:String}", f"GROUP BY intDiv(enqueued_ns, {BUCKET_NS})", job=job,
    )  # fmt: skip
    return sorted(steps + collectives, key=lambda row: (row["begin_ns"], row["end_ns"]))


def runs_of(activity: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """Spans of the runs of a job, oldest first, from its activity in order of time; ends are exclusive."""
    runs: list[tuple[int, int]] = []
    highest: int | None = None
    for each in activity:
        restarted = highest is not None and each["low"] is not None and each["low"] < highest - STEPS_BACK_MIN
        if not runs or restarted or each["begin_ns"] > runs[-1][1] + PAUSE_NS:
            runs.append((each["begin_ns"], each["end_ns"] + 1))
            highest = each["high"]
            continue
        runs[-1] = (runs[-1][0], max(runs[-1][1], each["end_ns"] + 1))
        if each["high"] is not None:
            highest = each["high"] if highest is None else max(highest, each["high"])
    return runs


def _with_hosts(reader: Reader, side: Side) -> Side:
    return replace(side, hosts=tuple(sorted(_hosts_of_jobs(reader, side)))[:HOSTS_MAX])


def _hosts_of_jobs(reader: Reader, side: Side) -> list[str]:
    return _distinct(reader, side, "host", "job IN ({jobs:Array(String)})", jobs=list(side.jobs))


def _jobs_on(reader: Reader, side: Side) -> tuple[str, ...]:
    return tuple(_distinct(reader, side, "job", "host IN ({hosts:Array(String)})", hosts=list(side.hosts)))


def _distinct(reader: Reader, side: Side, column: str, where: str, **parameters: object) -> list[str]:
    found: set[str] = set()
    for table, time in (("step", "start_ns"), ("collective", "enqueued_ns")):
        span = f"{time} >= {{from_ns:Int64}} AND {time} < {{to_ns:Int64}}"
        rows = reader.rows(
            f"leadline.{table}", f"DISTINCT toString({column}) AS name", f"{where} AND {span}", "",
            from_ns=side.from_ns, to_ns=side.to_ns, **parameters,
        )  # fmt: skip
        found |= {row["name"] for row in rows if row["name"]}
    return sorted(found)


def _told_span(reader: Reader, at: str) -> tuple[int, int]:
    """FROM..TO in ns. Errors: UsageError for a time that is none, and a span that ends first."""
    first, _, last = at.partition("..")
    from_ns, to_ns = parse_time(first, reader.asked.at_ns), parse_time(last, reader.asked.at_ns, end=True)
    if from_ns >= to_ns:
        raise UsageError(f"a span is FROM..TO with FROM before TO; got {at[:100]!r}")
    return from_ns, to_ns


def _nothing(reader: Reader, name: str, kind: Kind) -> LeadlineError:
    """Why there is nothing to compare: nobody knows the name, or it told nothing by then."""
    text = unknown_text(reader.store, reader.asked, name, kind)
    return UnknownNameError(text) if text else UsageError(f"no step and no metric of {name} is stored by then")


# --- hosts and GPUs ---


def _span(reader: Reader, kind: str, name: str, at: str) -> tuple[int, int]:
    if ".." in at:
        return _told_span(reader, at)
    to_ns = parse_time(at, reader.asked.at_ns) if at else reader.asked.at_ns
    about = "host = {name:String}" if kind == "host" else "entity = {gpu:String}"
    theirs = f"series IN (SELECT series FROM leadline.series WHERE {about})"
    newest = reader.rows(
        "leadline.metric_sample", "max(time_ns) AS newest, count() AS n", f"{theirs} AND time_ns < {{to_ns:Int64}}",
        name=name, gpu=f"gpu:{name}", to_ns=to_ns,
    )[0]  # fmt: skip
    steps = reader.rows(
        "leadline.step", "max(end_ns) AS newest, count() AS n", "host = {name:String} AND start_ns < {to_ns:Int64}",
        name=name, to_ns=to_ns,
    )[0]  # fmt: skip
    seen = [int(each["newest"]) for each in (newest, steps) if each["n"]]
    if not seen:
        raise _nothing(reader, f"{kind}:{name}", Kind.ENTITY)
    to_ns = min(to_ns, max(seen) + 1)
    return to_ns - HOUR_NS, to_ns


def _hosts_of_gpu(reader: Reader, gpu: str) -> tuple[str, ...]:
    rows = reader.rows(
        "leadline.series", "DISTINCT toString(host) AS name", "entity = {gpu:String} AND ifNull(host, '') != ''",
        gpu=f"gpu:{gpu}",
    )  # fmt: skip
    return tuple(sorted(row["name"] for row in rows))


def _gpus_on(reader: Reader, side: Side) -> list[str]:
    rows = reader.rows(
        "leadline.series", "DISTINCT toString(entity) AS name",
        "entity_kind = 'gpu' AND host IN ({hosts:Array(String)}) AND last_ns >= {from_ns:Int64}",
        hosts=list(side.hosts), from_ns=side.from_ns - HOUR_NS,
    )  # fmt: skip
    return sorted(row["name"].removeprefix("gpu:") for row in rows)


def _hosts_of_cluster(reader: Reader, side: Side) -> list[str]:
    rows = reader.rows(
        "leadline.series", "DISTINCT toString(host) AS name",
        "entity_kind IN ('host', 'gpu', 'port') AND ifNull(host, '') != '' AND last_ns >= {from_ns:Int64}",
        from_ns=side.from_ns - HOUR_NS,  # `last_ns` is brought up to date once an hour
    )  # fmt: skip
    return sorted(row["name"] for row in rows)
