"""Whose rows a question is about, of which cluster, at which time: what every view begins with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from leadline.model.errors import UsageError
from leadline.model.ids import ENTITY_KINDS, kind_of
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables.fabric import RELATION
from leadline.store import Store


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose rows may be read, of which cluster (empty: any), as they were at which time.

    `latest`: no time was asked for, so what is over is shown as it was when it last was there, and that is said.
    """

    principal: Principal
    cluster: str
    at_ns: int
    latest: bool = False

    def conditions(self) -> list[str]:
        """Conditions on the owner of a row; their parameters are `parameters`."""
        found = []
        if self.cluster:
            found.append("cluster = {cluster:String}")
        if not self.principal.may(OPERATE):
            found.append("tenant = {tenant:String}")
        return found

    def parameters(self, sql: str) -> dict[str, object]:
        """Values of the conditions that `sql` has."""
        every = {"cluster": self.cluster, "tenant": self.principal.tenant, "at_ns": self.at_ns}
        return {name: value for name, value in every.items() if f"{{{name}:" in sql}


def only_cluster(store: Store, principal: Principal) -> str:
    """The cluster that relations are of; the principal's own if there are none. Errors: UsageError for several."""
    where = "" if principal.may(OPERATE) else "WHERE tenant = {tenant:String}"
    parameters = {} if principal.may(OPERATE) else {"tenant": principal.tenant}
    found = store.query(f"SELECT DISTINCT cluster FROM leadline.{RELATION.name} {where} LIMIT 100", parameters)
    names = sorted(str(name) for name in found.column("cluster").to_pylist())
    if len(names) > 1:
        raise UsageError(f"there are several clusters, {', '.join(names)}; say which with `cluster`")
    return names[0] if names else principal.cluster


def time_text(time_ns: int) -> str:
    """A time in UTC, as it can be given back in `at`; the ns where it is out of range."""
    try:
        return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(time_ns)


def plain_job(job: str) -> str:
    """The name of a job; `job:bert-1` is taken too. Errors: UsageError for the id of something else."""
    name = job.removeprefix("job:")
    if name == job and kind_of(name) in ENTITY_KINDS and ":" in name:
        raise UsageError(f"a job is asked for, such as bert-1 or job:bert-1; got {job[:100]!r}")
    return name
