"""Who may speak of what: whose word is evidence, and for whom.

    provider ─────────────────── of everything, for everybody: it owns the hosts, the fabric and their agents
    tenant ── its jobs, ranks, flows, on hosts it holds ── for everybody, where flows of all are told apart (`joint`)
    tenant ── anything else ──── for itself alone; counted as `not_yours` if it is another's to say

A tenant holds a host while a relation of the provider says so: `host:h1`, kind `held-by`, `tenant:acme`. What is on a
host is told by its name (`port:h1/eth0`, `process:h1/70`) or, where the name has no host, by the provider's relations
(`gpu:GPU-5c1e` in `host:h1`; `address:10.1.1.1` in `port:h1/eth0`). Nothing that a tenant says makes it hold anything.

Pure, and of the standard library: `runner` chooses rows by it, `ingest` counts by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from leadline.model.ids import EntityId, kind_of
from leadline.model.tables import Table

HELD_BY = "held-by"
"""Kind of the relation by which the provider says who holds a host."""
PLACED_BY = "in"
"""Kind of the provider's relation that says which host something without a host in its name is on."""

OWN_PART = "tenant:"
"""What `analysis_run.part` begins with where one tenant's verdicts on a cluster were concluded; its name follows."""


class Who(StrEnum):
    """Who may speak of something, the provider aside."""

    PROVIDER = "provider"  # nobody else
    HOLDER = "holder"  # the tenant that holds the host which it is on
    TENANT = "tenant"  # each tenant of its own: jobs are (tenant, cluster, name)
    LEADLINE = "leadline"  # no sender: Leadline concludes it, the server or the store writes it


KINDS: Mapping[str, Who] = {
    "tenant": Who.PROVIDER,
    "cluster": Who.PROVIDER,
    "job": Who.TENANT,
    "rank": Who.TENANT,
    "comm": Who.TENANT,
    "gpu": Who.HOLDER,
    "nvlink": Who.HOLDER,
    "host": Who.HOLDER,
    "port": Who.HOLDER,
    "qp": Who.HOLDER,  # the host of its address
    "flow": Who.HOLDER,  # the host at one of its ends, by what the provider's switches sampled
    "switch": Who.PROVIDER,
    "swport": Who.PROVIDER,
    "link": Who.PROVIDER,
    "xcvr": Who.PROVIDER,
    "storage": Who.PROVIDER,
    "service": Who.TENANT,
    "process": Who.HOLDER,
    "pod": Who.TENANT,
    "address": Who.HOLDER,
}
"""Who may speak of an entity, by its kind: a line for each of `ENTITY_KINDS`."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Who may say rows of a table. `entities`, `hosts`: the columns that say what a row is about (`kind:name`, or a
    host's name); one that is empty says nothing.

    `to_all`: what the provider says in it is evidence for every tenant. Not so for what is of jobs, each of which is
    its own tenant's, and for samples: what matters to others of the provider's is concluded in its own verdicts.
    `joint`: concluded once of all tenants' rows, so that whoever's a row is, analyses that are joint read it.
    """

    by: Who
    entities: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    to_all: bool = True
    joint: bool = False


_OF_JOBS = Spoken(Who.TENANT, hosts=("host",), to_all=False)
_ON_JOBS = Spoken(Who.LEADLINE, to_all=False)  # concluded of jobs
_ON_PARTS = Spoken(Who.LEADLINE)  # concluded of what jobs stand on
_ON_WAYS = Spoken(Who.LEADLINE, joint=True)  # concluded of the network, which all share

SPOKEN: Mapping[str, Spoken] = {
    "series": Spoken(Who.HOLDER, entities=("entity",), hosts=("host",)),
    "metric_sample": Spoken(Who.HOLDER, to_all=False),  # what `series` says of their stream
    "metric_rollup": Spoken(Who.LEADLINE, to_all=False),
    "event": Spoken(Who.HOLDER, entities=("entity",), hosts=("host",)),
    "step": _OF_JOBS,
    "collective": _OF_JOBS,
    "message_end": _OF_JOBS,
    "message": _ON_JOBS,
    "edge": _ON_JOBS,
    "operation": _OF_JOBS,
    "flow_sample": Spoken(Who.PROVIDER),
    "flow_sent": Spoken(Who.HOLDER, hosts=("host",)),
    "edge_fit": Spoken(Who.HOLDER, hosts=("src",)),
    "probe_hop": Spoken(Who.HOLDER, hosts=("src",)),
    "probe": Spoken(Who.HOLDER, hosts=("src", "dst")),
    "relation": Spoken(Who.HOLDER, entities=("child", "parent")),
    "conflict": _ON_PARTS,
    "watermark": Spoken(Who.HOLDER, hosts=("host",)),
    "clock_fit": _ON_PARTS,
    "delay": _ON_PARTS,
    "flow_path": _ON_WAYS,
    "path_hop": _ON_WAYS,
    "flow_volume": _ON_WAYS,
    "ecmp_group": _ON_WAYS,
    "ledger": _ON_JOBS,
    "baseline": _ON_JOBS,
    "profile": _ON_JOBS,  # of one tenant's streams
    "failure": _ON_PARTS,
    "expectation": _ON_PARTS,
    "sle": _ON_JOBS,  # of one tenant's entities; what was bad of the provider's is in `sle_loss`
    "sle_loss": _ON_PARTS,
    "anomaly": _ON_PARTS,
    "suspect": _ON_WAYS,
    "colocation": _ON_PARTS,
    "symptom": _ON_JOBS,
    "incident": _ON_JOBS,
    "cause": _ON_JOBS,
    "mark": _ON_JOBS,
    "action": _ON_JOBS,
    "analysis_run": _ON_JOBS,
}
"""Who may say rows of a table: a line for each of `TABLES`."""

OF_EVERYBODY = frozenset({"mark"})
"""Tables of which each row is read, whoever's it is: an operator's mark of one tenant's incident counts for all, and
only the server writes them, signed (`analysis.cause.silence` tells them apart)."""


def spoken(table: Table) -> Spoken:
    """Who may say rows of a table."""
    return SPOKEN[table.name]


def who(entity: str) -> Who:
    """Who may speak of an entity; of what is no entity that we know, the provider."""
    return KINDS.get(kind_of(entity), Who.PROVIDER)


def host_in(entity: str) -> str:
    """The host that an entity's own name says it is on; empty if it says none.

    `port:h1/eth0` -> `h1`. Of a GPU without a UUID, and of an NVSwitch's link, the name begins with the host.
    """
    kind, name = EntityId.of(entity)
    if kind == "host":
        return name
    host, slash, _ = name.partition("/")
    of_uuid = kind == "nvlink" and host.startswith(("GPU-", "MIG-"))
    return host if slash and kind in ("port", "process", "gpu", "nvlink") and not of_uuid else ""


def placed_as(entity: str) -> str:
    """The entity whose place decides who may speak of this one: of a queue pair its address, of an NVLink its GPU.

    `qp:10.1.1.1/300` -> `address:10.1.1.1`; `nvlink:GPU-5c1e/3` -> `gpu:GPU-5c1e`; else itself.
    """
    kind, name = EntityId.of(entity)
    if kind == "qp":
        return f"address:{name.rpartition('/')[0] or name}"
    return f"gpu:{name.partition('/')[0]}" if kind == "nvlink" else entity
