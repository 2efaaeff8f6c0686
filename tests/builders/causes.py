"""A site on which jobs hurt, for tests of causes: who runs where, what is odd, what hurts; times in seconds after T0.

bert-1: ranks 0..3 on GPU-0..GPU-3 in h1..h4, tenant ana      leaf1: h1, h2   leaf2: h3, h4   spine1 above both
moe-2:  ranks 0, 1 on GPU-4, GPU-5 in h2, h4, tenant bo       h4 and h5 are on one machine; nas1 is at leaf1
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from tests.builders.fabrics import STARTED, T0, S
from tests.builders.failures import rows_of
from tests.common.analysis_laws import Case, judged

from leadline.analysis.cause.cause import cause
from leadline.analysis.spec import Window
from leadline.model.ids import link_id

WINDOW = Window(T0, T0 + 2 * S, tenant="provider", provider="provider")
Row = dict[str, Any]
JOBS = {"bert-1": ("ana", ((0, 1), (1, 2), (2, 3), (3, 4))), "moe-2": ("bo", ((4, 2), (5, 4)))}
LEAF_OF = {1: "leaf1", 2: "leaf1", 3: "leaf2", 4: "leaf2", 5: "leaf2"}


def at(seconds: float) -> int:
    """A time, ns."""
    return T0 + round(seconds * S)


def relations() -> pa.Table:
    """Who is where."""
    pairs: list[tuple[str, str, str, str]] = []
    for job, (tenant, ranks) in JOBS.items():
        for rank, (gpu, host) in enumerate(ranks):
            name = f"rank:{job}/{rank}"
            pairs += [(tenant, name, f"job:{job}", "in"), (tenant, name, f"gpu:GPU-{gpu}", "runs-on")]
            pairs += [
                (tenant, name, f"host:h{host}", "runs-on"),
                (tenant, name, f"process:h{host}/{100 + gpu}", "runs-on"),
            ]
            pairs += [("provider", f"gpu:GPU-{gpu}", f"host:h{host}", "in")]
        pairs += [(tenant, f"job:{job}", "storage:nas1", "mounts")]
    for host, leaf in LEAF_OF.items():
        pairs += [
            ("provider", f"port:h{host}/eth0", f"host:h{host}", "in"),
            ("provider", f"port:h{host}/eth1", f"host:h{host}", "in"),
        ]
        pairs += [("provider", f"port:h{host}/eth0", f"swport:{leaf}/E{host}", "linked")]
        pairs += [("provider", f"swport:{leaf}/E{host}", f"switch:{leaf}", "in")]
    for number, leaf in ((1, "leaf1"), (2, "leaf2")):
        pairs += [("provider", f"swport:{leaf}/U1", f"swport:spine1/E{number}", "linked")]
        pairs += [("provider", f"swport:{leaf}/U1", f"switch:{leaf}", "in")]
        pairs += [("provider", f"swport:spine1/E{number}", "switch:spine1", "in")]
    pairs += [
        ("provider", "port:nas1/eth0", "storage:nas1", "in"),
        ("provider", "port:nas1/eth0", "swport:leaf1/E9", "linked"),
    ]
    pairs += [
        ("provider", "swport:leaf1/E9", "switch:leaf1", "in"),
        ("provider", "host:h4", "host:h5", "shares-machine"),
    ]
    rows = [{"tenant": tenant, "child": child, "parent": parent, "kind": kind, "from_ns": STARTED, "source": "test"}
            for tenant, child, parent, kind in pairs]  # fmt: skip
    return rows_of("relation", rows)


def blame(owner: str, category: str, lost: float = 10.0, how: str = "collectives", since_s: float = -20) -> Row:
    """One entry of `symptom.blamed`."""
    return {"owner": owner, "category": category, "how": how, "lost_gpu_seconds": lost, "since_ns": at(since_s)}


def symptom(*blamed: Row, job: str = "bert-1", kind: str = "slow", start_s: float = -20, end_s: float | None = None,
            bound_ns: int | None = 1_000_000, **more: Any) -> Row:  # fmt: skip
    """A row of `symptom`: a job that has been slow since 20 s before the window."""
    return {
        "tenant": JOBS[job][0] if job in JOBS else "provider", "entity": f"job:{job}", "job": job, "symptom": kind,
        "start_ns": at(start_s), "end_ns": None if end_s is None else at(end_s), "bound_ns": bound_ns,
        "reported_ns": at(start_s + 8), "lost_gpu_seconds": sum(each["lost_gpu_seconds"] for each in blamed),
        "lost_share": 0.4, "blamed": json.dumps(blamed), "missing": None, "evidence": "[]", "seen_ns": WINDOW.to_ns,
        **more,
    }  # fmt: skip


def anomaly(entity: str, metric: str, direction: str = "high", start_s: float = -21, *, score: float = 20.0,
            witness: str = "peers", bound_ns: int | None = 1_000_000, end_s: float | None = None) -> Row:  # fmt: skip
    """A row of `anomaly`: a metric that has been odd since a second before it hurt."""
    return {
        "entity_kind": entity.partition(":")[0], "entity": entity, "metric": metric, "label": None,
        "start_ns": at(start_s), "earliest_ns": at(start_s - 2), "end_ns": None if end_s is None else at(end_s),
        "bound_ns": bound_ns, "score": score, "share": 0.5, "direction": direction, "witness": witness,
        "expected": 1.0, "seen": 40.0, "reported_ns": at(start_s + 5), "seen_ns": WINDOW.to_ns,
    }  # fmt: skip


def event(entity: str, kind: str, seconds: float = -21, *, code: str | None = None, **more: Any) -> Row:
    """A row of `event`."""
    told = {"time_ns": at(seconds), "entity": entity, "entity_kind": entity.partition(":")[0], "kind": kind,
            "code": code, "message": f"{kind} of {entity}", "host": "h1"}  # fmt: skip
    return {**told, **more}


def flows(edges: Iterable[tuple[int, int, str]] = (), end_s: float = 0.0) -> tuple[list[Row], list[Row]]:
    """Rows of `flow_path` and `flow_volume`: flows of bert-1 between ranks (sender, receiver), by which links each."""
    paths, volumes = [], []
    for number, (sender, receiver, ways) in enumerate(edges):
        whose = {"flow": 7 + number, "job": "bert-1", "end_ns": at(end_s), "window_ns": 10 * S, "tenant": "ana"}
        paths.append({
            **whose, "src_rank": f"rank:bert-1/{sender}", "dst_rank": f"rank:bert-1/{receiver}", "protocol": 17,
            "src": f"port:h{sender + 1}/eth0", "dst": f"port:h{receiver + 1}/eth0", "src_ip": "10.0.0.1",
            "dst_ip": "10.0.0.2", "src_port": 1, "dst_port": 2, "state": "known", "probability": 1.0, "alternatives": 1,
            "samples": 9, "contradicting": 0, "bytes": 1e9, "low": 9e8, "high": 1.1e9, "why": "",
        })  # fmt: skip
        volumes += [{**whose, "link": link, "bytes": 1e9, "low": 9e8, "high": 1.1e9} for link in ways.split()]
    return paths, volumes


def volume(link: str, amount: float, end_s: float, job: str | None = None, flow: int = 99, **more: Any) -> Row:
    """A row of `flow_volume`."""
    return {"flow": flow, "link": link, "job": job, "end_ns": at(end_s), "window_ns": 10 * S, "bytes": amount,
            "low": amount, "high": amount, **more}  # fmt: skip


def host_link(host: int) -> str:
    """The link of a host."""
    return link_id(f"port:h{host}/eth0", f"swport:{LEAF_OF[host]}/E{host}")


UPLINK_1, UPLINK_2 = (link_id(f"swport:leaf{n}/U1", f"swport:spine1/E{n}") for n in (1, 2))

RING = (
    (0, 1, f"{host_link(1)} {host_link(2)}"),
    (1, 2, f"{host_link(2)} {UPLINK_1} {UPLINK_2} {host_link(3)}"),
    (2, 3, f"{host_link(3)} {host_link(4)}"),
    (3, 0, f"{host_link(4)} {UPLINK_2} {UPLINK_1} {host_link(1)}"),
)
"""Edges of a ring over the ranks of bert-1, with their ways."""


def case(**rows: Iterable[Row]) -> Case:
    """Input of `cause`: rows by table name, places as above."""
    tables = {name: rows_of(name, given) for name, given in rows.items()}
    names = [read.table.name for read in cause.reads]
    tables |= {name: rows_of(name, ()) for name in names if name not in tables}
    return Case({**tables, "relation": relations()}, WINDOW)


def told(item: Case) -> tuple[list[Row], list[Row]]:
    """Rows of `incident` and of `cause` that come of it."""
    found = judged(cause, item.tables, item.window)
    return _rows(found.get("incident", {})), _rows(found.get("cause", {}))


def _rows(columns: Mapping[str, Any]) -> list[Row]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def named(item: Case) -> list[tuple[str, str]]:
    """(entity, rule) of the causes that are named."""
    return [(row["entity"], row["rule"]) for row in told(item)[1] if row["chosen"]]


def throttled_host() -> Case:
    """Rank 2 of bert-1 is late, and the CPU of its host is throttled; a host elsewhere is as odd, and harmless."""
    return case(
        symptom=[symptom(blame("rank:bert-1/2", "straggler"))],
        anomaly=[
            anomaly("host:h3", "container_cpu_cfs_throttled_seconds_total"),
            anomaly("host:h5", "container_cpu_cfs_throttled_seconds_total"),
        ],
    )
