"""When jobs began and ended, by those who saw it: not by silence, which may be that of their telemetry.

relation   rank runs-on host, from .. to          ─┐
watermark  "ended": its ranks are gone, all stored ─┼─> Life of a job: since when its ranks are there, and since when
event      process-exit of each of its ranks       ─┘   all of them are gone (None: not told)
step       one after that end: it runs again
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leadline.model.tables.fabric import RELATION, WATERMARK
from leadline.model.tables.training import STEP
from leadline.model.tables.verdicts import EVENT
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import json_rows

FOREVER_NS = 1 << 62
# A step may end so long after the end of its rank is told: an agent looks at processes every second or so, and clocks
# of hosts are milliseconds apart.
SLACK_NS = 5 * S
EXITS_NS = 24 * 3600 * S  # exits are looked for so far before the time asked for
# A rank is `rank:JOB/NUMBER`; names of jobs may have slashes.
_JOB = "arrayStringConcat(arrayPopBack(splitByChar('/', substring(toString({0}), 6))), '/')"
Key = tuple[str, str, str]  # tenant, cluster, job


@dataclass(frozen=True, slots=True)
class Life:
    """Since when ranks of a job are there, and since when all are gone; None where nobody told."""

    began_ns: int | None = None
    ended_ns: int | None = None


def lives(
    told: Iterable[tuple[Key, int | None, int | None]], last_step_ns: Mapping[Key, int], at_ns: int
) -> dict[Key, Life]:
    """Lives from what each source tells (job, begin, end), pure; a source that knows of no end gives None for it.

    The job ended when the first source says so, if its last step is not after that. Ends after `at_ns` are none yet.
    """
    found: dict[Key, Life] = {}
    for key, began_ns, ended_ns in told:
        life = found.get(key, Life())
        begins = [each for each in (life.began_ns, began_ns) if each is not None]
        over = ended_ns is not None and ended_ns <= at_ns and last_step_ns.get(key, 0) <= ended_ns + SLACK_NS
        ends = [each for each in (life.ended_ns, ended_ns if over else None) if each is not None]
        found[key] = Life(min(begins, default=None), min(ends, default=None))
    return found


def lives_of(store: Store, asked: Asked, from_ns: int, jobs: Iterable[str] = ()) -> dict[Key, Life]:
    """Lives of the jobs that were there at some time from `from_ns` to `asked.at_ns`; of these only, if named."""
    names = sorted(set(jobs))

    def rows(sql: str) -> list[dict[str, Any]]:
        given = {**asked.parameters(sql), **({"jobs": names} if "{jobs:" in sql else {})}
        return json_rows(store.query(sql, given))

    def where(*more: str) -> str:
        mine = ["name IN {jobs:Array(String)}"] if names else []
        return " AND ".join([*asked.conditions(), *more, *mine])

    told = [
        ((row["whose"], row["place"], row["name"]), _time(row["began"]), _time(row["ended"]))
        for sql in (_placed(where, from_ns, asked.at_ns), _stored(where, from_ns, asked.at_ns),
                    _exited(where, asked.at_ns))
        for row in rows(sql)
    ]  # fmt: skip
    steps = rows(
        f"SELECT {_WHOSE}, toString(job) AS name, max(end_ns) AS last FROM leadline.{STEP.name} "
        f"WHERE {where(f'end_ns > {from_ns}', f'end_ns <= {asked.at_ns}')} GROUP BY whose, place, name "
        "SETTINGS final = 0"
    )
    last = {(row["whose"], row["place"], row["name"]): int(row["last"]) for row in steps}
    return lives(told, last, asked.at_ns)


_WHOSE = "toString(tenant) AS whose, toString(cluster) AS place"


def _placed(where: Any, from_ns: int, at_ns: int) -> str:
    """By the relations of ranks to hosts."""
    there = where("kind = 'runs-on'", "startsWith(toString(child), 'rank:')", "startsWith(toString(parent), 'host:')",
                  f"from_ns <= {at_ns}", f"ifNull(to_ns, {FOREVER_NS}) > {from_ns}")  # fmt: skip
    return (
        f"SELECT {_WHOSE}, {_JOB.format('child')} AS name, min(from_ns) AS began, "
        f"max(ifNull(to_ns, {FOREVER_NS})) AS ended FROM leadline.{RELATION.name} WHERE {there} "
        "GROUP BY whose, place, name"
    )


def _stored(where: Any, from_ns: int, at_ns: int) -> str:
    """By the watermarks: the newest of each sender."""
    newest = (
        f"SELECT tenant, cluster, toString(job) AS name, host, sender, argMax(state, reported_ns) AS said, "
        f"argMax(to_ns, reported_ns) AS upto FROM leadline.{WATERMARK.name} "
        f"WHERE {where(f'reported_ns > {from_ns}', f'reported_ns <= {at_ns}')} AND name != '' "
        "GROUP BY tenant, cluster, name, host, sender"
    )
    return (
        f"SELECT {_WHOSE}, name, {FOREVER_NS} AS began, if(countIf(said != 'ended') = 0, max(upto), {FOREVER_NS}) "
        f"AS ended FROM ({newest}) GROUP BY whose, place, name"
    )


def _exited(where: Any, at_ns: int) -> str:
    """By the exits of processes: of as many ranks as told steps."""
    exits = where("kind = 'process-exit'", "startsWith(toString(entity), 'rank:')", f"time_ns <= {at_ns}",
                  f"time_ns > {at_ns - EXITS_NS}")  # fmt: skip
    steps = where(f"end_ns <= {at_ns}", f"end_ns > {at_ns - EXITS_NS}")
    return (
        f"SELECT whose, place, name, {FOREVER_NS} AS began, if(gone >= ranks, last, {FOREVER_NS}) AS ended FROM "
        f"(SELECT {_WHOSE}, {_JOB.format('entity')} AS name, uniqExact(entity) AS gone, max(time_ns) AS last "
        f"FROM leadline.{EVENT.name} WHERE {exits} GROUP BY whose, place, name) AS exits INNER JOIN "
        f"(SELECT {_WHOSE}, toString(job) AS name, uniqExact(rank) AS ranks FROM leadline.{STEP.name} WHERE {steps} "
        "GROUP BY whose, place, name) AS steps USING (whose, place, name) SETTINGS final = 0"
    )


def _time(value: Any) -> int | None:
    return None if value is None or int(value) >= FOREVER_NS else int(value)
