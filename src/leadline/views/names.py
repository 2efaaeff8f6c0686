"""Is anything known by this name, and if not, what may have been meant.

Every verb and view that takes a name asks here once it has nothing to show, so all of them agree on what is unknown.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from leadline.model.errors import RefusedError
from leadline.model.ids import ENTITY_KINDS, EntityId, kind_of
from leadline.model.tables.accounts import LEDGER, SLE
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.model.tables.verdicts import CAUSE, INCIDENT
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import SCHEMA_VERSION

NAMES_MAX = 20_000  # of each kind that are looked through: ids of 100 bytes, 2 MB
NEAR_MAX = 3
SHOWN = 5  # names told where none is near
CHARS_MAX = 200  # of what was asked for, in the answer


class Kind(StrEnum):
    """What a name is of."""

    JOB = "job"
    RANK = "rank"
    INCIDENT = "incident"
    ENTITY = "entity"
    EXPECTATION = "expectation"
    ANY = "any"  # a job, an incident or an entity


WORDS = {Kind.ANY: "job, incident or entity"}  # other kinds are words themselves


@dataclass(frozen=True, slots=True)
class Names:
    """What somebody may know the names of, the newest first where that is known."""

    jobs: Sequence[str] = ()
    incidents: Sequence[str] = ()
    entities: Sequence[str] = ()
    expectations: Sequence[str] = ()

    def of(self, kind: Kind) -> list[str]:
        """Names of one kind."""
        some = {
            Kind.JOB: self.jobs,
            Kind.INCIDENT: self.incidents,
            Kind.ENTITY: [*self.entities, *(f"job:{job}" for job in self.jobs)],
            Kind.RANK: [each.removeprefix("rank:") for each in self.entities if kind_of(each) == "rank"],
            Kind.EXPECTATION: self.expectations,
            Kind.ANY: [*self.jobs, *self.incidents, *self.entities],
        }
        return list(dict.fromkeys(some[kind]))


def said(names: Names, name: str, kind: Kind) -> dict[str, Any]:
    """What is to be said of a name, pure: `known`, names near to it, else the newest, and a sentence."""
    wanted = _plain(name, kind)
    there = names.of(kind)
    known = wanted in there or (kind is Kind.ANY and wanted.removeprefix("job:") in names.jobs)
    near = [] if known else _near(wanted, there)
    newest = [] if known or near else _newest(names, kind)
    return {
        "schema": SCHEMA_VERSION, "name": name, "kind": kind, "known": known, "near": near, "newest": newest,
        "text": "" if known else _text(names, name, kind, near, newest),
    }  # fmt: skip


def _plain(name: str, kind: Kind) -> str:
    """The name as it is listed: jobs and ranks without their kind before them."""
    return name.removeprefix(f"{kind}:") if kind in (Kind.JOB, Kind.RANK) else name


def _near(name: str, there: Iterable[str]) -> list[str]:
    """Names that somebody may have meant: spelled alike, or with this within them (`h3` is within `host:h3`)."""
    some = list(there)
    alike = difflib.get_close_matches(name, some, NEAR_MAX)
    within = [each for each in some if name and name.lower() in each.lower()]
    return list(dict.fromkeys([*alike, *within]))[:NEAR_MAX]


def _newest(names: Names, kind: Kind) -> list[str]:
    if kind is Kind.ANY:
        return [*names.jobs[: SHOWN - NEAR_MAX], *names.incidents[:NEAR_MAX]]
    return names.of(kind)[:SHOWN]


def _text(names: Names, name: str, kind: Kind, near: Sequence[str], newest: Sequence[str]) -> str:
    text = f"no {WORDS.get(kind, str(kind))} {name[:CHARS_MAX]!r} is known"
    if near:
        return f"{text}; did you mean {' or '.join(near)}?"
    if kind in (Kind.JOB, Kind.RANK) and name in names.incidents:
        return f"{text}: that is an incident; run `leadline diagnose {name}`"
    if newest:
        return f"{text}; the newest are {', '.join(newest)}"
    return f"{text}, nor any other: is anything connected (`leadline doctor`)?"


# --- from a store -------------------------------------------------------------------------------------------------


def names_answer(store: Store, asked: Asked, name: str, kind: Kind = Kind.ANY) -> dict[str, Any]:
    """What `/api/v1/names` says of a name; whose names may be known is a matter of `asked`. Errors: StoreError."""
    return said(_names(store, asked, kind), name, kind)


def unknown_text(store: Store, asked: Asked, name: str, kind: Kind = Kind.ANY) -> str:
    """Why nothing can be told of this name; empty if it is known. Errors: StoreError."""
    return str(names_answer(store, asked, name, kind)["text"])


def no_incident(store: Store, asked: Asked, incident: str) -> RefusedError:
    """The error to raise where there is no incident of this id, with those that may be meant."""
    text = unknown_text(store, asked, incident, Kind.INCIDENT) or f"no incident {incident[:CHARS_MAX]!r} may be seen"
    return RefusedError("unknown_incident", f"{text} (`leadline show incidents` lists them)")


def _names(store: Store, asked: Asked, kind: Kind) -> Names:
    """The names that `kind` needs."""
    mine = " AND ".join(asked.conditions()) or "1"

    def column(sql: str) -> list[str]:
        found = store.query(f"{sql} LIMIT {NAMES_MAX} SETTINGS final = 0", asked.parameters(sql))
        return [str(each) for each in found.column("name").to_pylist()]

    def newest(parts: Iterable[tuple[str, str, str]]) -> list[str]:
        every = " UNION ALL ".join(
            f"SELECT toString({name}) AS name, max({time}) AS at FROM leadline.{table} WHERE {mine} GROUP BY name"
            for table, name, time in parts
        )
        return column(f"SELECT name FROM ({every}) WHERE name != '' GROUP BY name ORDER BY max(at) DESC, name")

    if kind is Kind.EXPECTATION:
        return Names(expectations=newest([(SLE.name, "expectation", "end_ns")]))
    with_job = ((STEP, "end_ns"), (COLLECTIVE, "enqueued_ns"), (LEDGER, "end_ns"), (INCIDENT, "start_ns"))
    jobs = newest((table.name, "job", time) for table, time in with_job)
    incidents = newest([(INCIDENT.name, "incident", "start_ns")])
    if kind in (Kind.JOB, Kind.INCIDENT):
        return Names(jobs, incidents)
    told = " UNION ALL ".join([
        f"SELECT toString(arrayJoin([child, parent])) AS name FROM leadline.{RELATION.name} WHERE {mine}",
        *(
            f"SELECT toString(entity) AS name FROM leadline.{table.name} WHERE {mine}"
            for table in (SERIES, INCIDENT, CAUSE)
        ),
    ])  # fmt: skip
    entities = column(f"SELECT DISTINCT name FROM ({told}) WHERE name != '' ORDER BY name")
    ranks = column(
        f"SELECT DISTINCT concat('rank:', toString(job), '/', toString(rank)) AS name FROM leadline.{STEP.name} "
        f"WHERE {mine} ORDER BY name"
    )
    hosts = column(f"SELECT DISTINCT concat('host:', toString(host)) AS name FROM leadline.{STEP.name} WHERE {mine}")
    return Names(jobs, incidents, [*entities, *ranks, *hosts])


def is_entity(name: str) -> bool:
    """Whether this is written as the id of an entity, such as host:h3; whether there is one is another matter."""
    kind, rest = EntityId.of(name)
    return bool(rest) and kind in ENTITY_KINDS
