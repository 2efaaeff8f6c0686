"""What tenants say of things that are not theirs: counted as it comes, stored all the same.

    provider's relations ──> Foreign: which hosts there are, who holds them, what is on them
    rows of a tenant ──> how many speak of what the provider has and the tenant does not hold ──> `not_yours`

This only counts. What is evidence and for whom the runner decides (`runner.whose`), by the same declaration
(`model.speakers`). Of what the provider never mentioned nothing is counted: nobody else has it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.ids import kind_of
from leadline.model.names import Mapped
from leadline.model.speakers import HELD_BY, PLACED_BY, Who, host_in, placed_as, spoken, who
from leadline.model.tables import Table
from leadline.model.tables.fabric import RELATION
from leadline.store import Store

EVER = 2**63 - 1
THINGS_MAX = 1_000_000
"""Hosts, GPUs and addresses that are known of a cluster, 200 bytes each: 16 times those of 10,000 hosts. What is beyond
is not counted."""
_NAMES = ("child", "parent", "kind", "to_ns")


@dataclass(slots=True)
class _Cluster:
    """What the provider said of one."""

    host_of: dict[str, str] = field(default_factory=dict)  # host, GPU or address -> the host it is, or is on
    held: dict[tuple[str, str], int] = field(default_factory=dict)  # (tenant, host) -> until when, ns


class Foreign:
    """Counts what is not the sender's to say. Thread-safe."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._lock = threading.Lock()
        self._clusters: dict[str, _Cluster] = {}

    def restore(self, store: Store) -> None:
        """Learn what the provider's relations in the store say. Errors: StoreError."""
        found = store.query(
            f"SELECT cluster, {', '.join(_NAMES)} FROM leadline.{RELATION.name} WHERE tenant = {{provider:String}} "
            "AND kind IN {kinds:Array(String)} AND isNull(to_ns)",
            {"provider": self.provider, "kinds": [HELD_BY, PLACED_BY]},
        )
        for cluster in pc.unique(found["cluster"].cast(pa.string())).to_pylist():
            self._learn(cluster, found.filter(pc.equal(found["cluster"].cast(pa.string()), cluster)))

    def rows(self, table: Table, rows: pa.Table, tenant: str, cluster: str, now_ns: int) -> int:
        """How many of some rows are not the tenant's to say. From the provider's relations it learns what is whose."""
        if tenant == self.provider:
            if table is RELATION:
                wanted = pc.is_in(rows["kind"].cast(pa.string()), value_set=pa.array([HELD_BY, PLACED_BY]))
                self._learn(cluster, rows.filter(wanted))
            return 0
        said = spoken(table)
        if cluster not in self._clusters or said.by is Who.LEADLINE:
            return 0
        if said.by is Who.PROVIDER:
            return int(rows.num_rows)
        foreign = None
        for column, prefix in [*((name, "") for name in said.entities), *((name, "host:") for name in said.hosts)]:
            texts = rows[column].cast(pa.string())
            named = [text for text in pc.unique(texts).to_pylist() if text]
            theirs = [text for text in named if self._is_foreign(f"{prefix}{text}", tenant, cluster, now_ns)]
            found = pc.is_in(texts, value_set=pa.array(theirs, pa.string()))
            foreign = found if foreign is None else pc.or_(foreign, found)
        return 0 if foreign is None else int(pc.sum(foreign).as_py() or 0)

    def streams(self, streams: Iterable[Mapped], tenant: str, cluster: str, now_ns: int) -> int:
        """How many of some new metric streams are not the tenant's to send."""
        if tenant == self.provider or cluster not in self._clusters:
            return 0
        return sum(
            any(self._is_foreign(name, tenant, cluster, now_ns) for name in _named(stream)) for stream in streams
        )

    def _is_foreign(self, entity: str, tenant: str, cluster: str, now_ns: int) -> bool:
        """Whether the provider has this thing, and the tenant may not speak of it now."""
        by = who(entity)
        if by is not Who.HOLDER:
            return by is Who.PROVIDER
        with self._lock:
            told = self._clusters[cluster]
            named = host_in(entity)
            host = told.host_of.get(f"host:{named}" if named else placed_as(entity))
            return host is not None and told.held.get((tenant, host), -EVER) <= now_ns

    def _learn(self, cluster: str, rows: pa.Table) -> None:
        texts = (rows[name].cast(pa.string()).to_pylist() for name in _NAMES[:3])
        with self._lock:
            told = self._clusters.setdefault(cluster, _Cluster())
            for child, parent, kind, to_ns in zip(*texts, rows["to_ns"].to_pylist(), strict=True):
                things = _places(child, parent, kind)
                if len(told.host_of) + len(things) <= THINGS_MAX:
                    told.host_of.update(things)
                if kind == HELD_BY and kind_of(parent) == "tenant":
                    told.held[parent.removeprefix("tenant:"), host_in(child)] = EVER if to_ns is None else to_ns


def _places(child: str, parent: str, kind: str) -> dict[str, str]:
    """The things that a relation names, with their hosts."""
    host = host_in(child) if kind == HELD_BY else host_in(parent)
    if not host:
        return {}
    on = {child: host} if kind == PLACED_BY and kind_of(child) in ("gpu", "address") else {}
    return {f"host:{host}": host, **on}


def _named(stream: Mapped) -> Sequence[str]:
    host = f"host:{stream.host}" if stream.host else ""
    return [name for name in (stream.entity, host) if name]
