"""A small made-up incident: a few rows of every table about one cluster, whose names are given.

Rows of one table point at rows of others (streams of samples, flows of messages, ranks on hosts), so that what must
hold between tables can be tested. Used for bundles: writing, reading, replaying, redacting.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from leadline.model.ids import entity_id, flow_id, link_id, series_id
from leadline.model.tables import BY_NAME, TABLES, Table, Type
from leadline.store import arrow_table
from leadline.store.bundle import Draft, write_bundle
from leadline.store.bundle_format import Manifest

BEGIN_NS = 1_750_000_000 * 10**9
SECOND_NS = 10**9
SPAN_S = 60
END_NS = BEGIN_NS + SPAN_S * SECOND_NS

# What a column holds where the rows below do not say otherwise.
_BLANK: dict[Type, Any] = {
    Type.SYM: "", Type.STR: "", Type.SYMS: [], Type.I64: 0, Type.U64: 0, Type.U128: 0, Type.F64: 0.0,
    Type.BOOL: False, Type.MAP: {},
}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """The proper names of the incident."""

    tenant: str = "acme"
    cluster: str = "lab"
    hosts: tuple[str, str] = ("h1", "h2")
    ports: tuple[str, str] = ("eth0", "Ethernet3")
    switch: str = "leaf1"
    job: str = "bert-1"
    gpu: str = "GPU-5c1e0a2b-0000-4000-8000-000000000001"
    addresses: tuple[str, str] = ("10.1.1.1", "10.1.2.1")

    def proper(self) -> list[str]:
        """All of them."""
        return [self.tenant, self.cluster, *self.hosts, *self.ports, self.switch, self.job, self.gpu, *self.addresses]


def rows_of(table: Table, rows: list[dict[str, Any]], names: Names) -> pa.Table:
    """Rows of a table; what a row does not give is blank, or null where that is allowed."""
    blank = {column.name: None if column.nullable else _BLANK[column.type] for column in table.columns}
    blank |= {"tenant": names.tenant, "cluster": names.cluster}
    return arrow_table(
        table, {column.name: [row.get(column.name, blank[column.name]) for row in rows] for column in table.columns}
    )


def incident(names: Names = Names(), seconds: int = SPAN_S) -> dict[str, pa.Table]:
    """Rows of every table, by its name; times from `BEGIN_NS` on, some edges and steps from before."""
    n = names
    host = [entity_id("host", each) for each in n.hosts]
    port = entity_id("port", n.hosts[0], n.ports[0])
    swport = entity_id("swport", n.switch, n.ports[1])
    link = link_id(port, swport)
    comm = f"{n.job}/0x9c"
    clock = [f"{each}/7f3a" for each in n.hosts]
    flow = [flow_id(17, *pair, 49152, 4791, 7) for pair in (n.addresses, n.addresses[::-1])]
    labels = [
        {"instance": f"{each}:9100", "device": n.ports[0], "mode": "idle", "address": n.addresses[0], "le": "0.5"}
        for each in n.hosts
    ]
    metric = f"rx_{n.hosts[0]}_bytes"
    series = [series_id({"__name__": metric, **each}) for each in labels]
    times = [BEGIN_NS + second * SECOND_NS for second in range(seconds)]
    seen = [{"host": each, "clock": on} for each, on in zip(n.hosts, clock, strict=True)]
    verdict = {"analysis": "cause", "version": 1}
    about = {"entity": swport, "others": [host[0], link], "kind": "loss", "evidence": f'[{{"row": "{link}", "n": 3}}]'}
    ended = {"end_ns": END_NS - 1, "window_ns": SECOND_NS}
    made: dict[str, list[dict[str, Any]]] = {
        "series": [
            {
                "series": each, "name": metric, "entity_kind": "port", "entity": entity_id("port", whose, n.ports[0]),
                "labels": told, "first_ns": BEGIN_NS, "last_ns": END_NS, "host": whose, "source": "scrape",
            }
            for each, whose, told in zip(series, n.hosts, labels, strict=True)
        ],
        "metric_sample": [
            {"series": each, "time_ns": at + place, "value": float("nan") if at == BEGIN_NS else at / 7e9 + place}
            for at in times
            for place, each in enumerate(series)
        ],
        "metric_rollup": [{"series": series[0], "time_ns": BEGIN_NS, "count": 300}],
        "event": [
            {
                **seen[0], "time_ns": at, "entity_kind": "port", "entity": port, "kind": "link-down",
                "message": f"{n.hosts[0]}: {n.ports[0]} lost carrier", "source": "netlink", "severity": "error",
                "batch": 9, "batch_row": place,
                "attributes": {"peer": swport, "owner": n.tenant, "flow": f"flow:{flow[0]:032x}", "state": "down"},
            }
            for place, at in enumerate(times[::10])
        ],
        "step": [
            {
                **seen[rank], "job": n.job, "rank": rank, "step": place, "start_ns": at - SECOND_NS, "end_ns": at + 5,
                "loss": 3.0 / (place + 1), "metrics": {"accuracy": "0.123456789", f"{n.job}/x": "12345678"},
                "batch": rank + 1, "batch_row": place,
            }
            for rank in (0, 1)
            for place, at in enumerate(times)
        ],
        "collective": [
            {
                **seen[0], "job": n.job, "comm": comm, "ranks": 2, "seq": place, "op": "all_reduce", "bytes": 1 << 20,
                "dtype": "float32", "enqueued_ns": at, "state": "finished", "source": "torch-hook", "batch": 3,
                "batch_row": place,
            }
            for place, at in enumerate(times)
        ],
        "message_end": [
            {**seen[0], "job": n.job, "comm": comm, "side": "send", "peer": 1, "begin_ns": times[0], "flow": flow[0]},
            {**seen[1], "job": n.job, "comm": comm, "side": "recv", "rank": 1, "begin_ns": times[0], "flow": None},
        ],
        "message": [
            {**verdict, **ended, "job": n.job, "comm": comm, "dst_rank": 1, "sent_ns": times[0], "flow": flow[0]}
        ],
        "edge": [{**verdict, **ended, "job": n.job, "comm": comm, "dst_rank": 1, "flow": flow[0]}],
        "operation": [{**seen[0], "job": n.job, "kind": "send", "start_ns": times[0]}],
        "flow_sample": [
            {
                "switch": n.switch, "in_port": n.ports[1], "time_ns": at, "rate": 100, "frame_bytes": 1518,
                "protocol": 17, "src_ip": n.addresses[place % 2], "dst_ip": n.addresses[1 - place % 2],
                "src_port": 49152, "dst_port": 4791, "dst_qp": 7, "flow": flow[place % 2], "batch": 4,
                "batch_row": place,
            }
            for place, at in enumerate(times)
        ],
        "flow_sent": [
            {
                **seen[0], "time_ns": times[1], "window_ns": 10**9, "flow": flow[0], "protocol": 17,
                "src_ip": n.addresses[0], "dst_ip": n.addresses[1], "src_port": 49152, "dst_port": 4791, "dst_qp": 7,
                "packets": 9, "again": 2, "bytes": 9000, "batch": 4, "batch_row": 7,
            }
        ],
        "probe": [
            {"src": n.hosts[0], "dst": n.hosts[1], "tx_ns": times[0], "tx_clock": clock[0], "rx_clock": clock[1]}
        ],
        "edge_fit": [
            {
                **seen[0], "src": n.hosts[0], "dst": n.hosts[1], "dst_clock": clock[1], "src_port": 8446,
                "end_ns": times[0], "probe_ns": times[0], "state": "valid", "stamp": "kernel",
            }
        ],
        "probe_hop": [
            {**seen[0], "src": n.hosts[0], "dst": n.hosts[1], "src_port": 8446, "time_ns": times[0],
             "address": n.addresses[1]},
        ],
        "relation": [
            {"child": f"rank:{n.job}/1", "parent": host[1], "kind": "runs-on", "from_ns": BEGIN_NS - 10**15},
            {"child": port, "parent": swport, "kind": "linked", "from_ns": BEGIN_NS + 5, "to_ns": END_NS},
            {"child": entity_id("gpu", n.gpu), "parent": host[0], "kind": "in", "from_ns": BEGIN_NS - 1},
        ],
        "watermark": [
            {**seen[0], "reported_ns": times[1], "to_ns": times[0], "sender": "agent", "job": n.job, "ranks": 1,
             "state": "open"},
            {**seen[1], "reported_ns": times[2], "to_ns": times[2], "sender": "agent", "job": n.job, "ranks": 1,
             "state": "ended"},
        ],
        "clock_fit": [{**seen[0], **verdict, "end_ns": times[1], "state": "fitted"}],
        "delay": [{**verdict, **ended, "src": n.hosts[0], "dst": n.hosts[1]}],
        "conflict": [
            {
                **verdict, "entity": port, "kind": "two-links", "start_ns": BEGIN_NS + 5, "claims": [swport, link],
                "sources": ["lldp", "inventory"], "used": swport, "text": f"{port} is linked twice",
                "seen_ns": BEGIN_NS + 10 * SECOND_NS,
            }
        ],
        "flow_path": [
            {
                **verdict, **ended, "flow": flow[1], "job": n.job, "src_rank": f"rank:{n.job}/1", "src": port,
                "src_ip": n.addresses[1], "dst_ip": n.addresses[0], "state": "unknown", "why": f"{n.switch} is silent",
            }
        ],
        "path_hop": [{**verdict, **ended, "flow": flow[1], "link": link}],
        "flow_volume": [{**verdict, **ended, "flow": flow[1], "link": link, "job": n.job}],
        "ecmp_group": [
            {
                **verdict, **ended, "switch": n.switch, "group": n.ports[1], "links": [link], "busiest": link,
                "colliding": [f"flow:{flow[1]:032x}"], "jobs": [n.job],
            }
        ],
        "ledger": [{**verdict, **ended, "job": n.job, "category": "communication", "owner": link}],
        "baseline": [{**verdict, **ended, "job": n.job, "what": f"all_reduce 1048576 B on 2 of {comm}"}],
        "profile": [
            {
                **verdict, **ended, "entity_kind": "host", "entity": host[0], "bin_s": 5,
                "since_ns": times[2], "bins": 60, "jobs": [n.job],
                "streams": f'[["node_load1","instance={n.hosts[0]}"]]', "numbers": n.hosts[0],
            }
        ],
        "failure": [
            {
                **verdict, "entity_kind": "host", "entity": host[0], "kind": "silent", "class": "host", "job": n.job,
                "start_ns": times[2], "seen_ns": times[3], "evidence": f"{n.hosts[0]} was not heard",
            }
        ],
        "expectation": [
            {"expectation": "throughput", "layer": "fabric", "from_ns": BEGIN_NS, "spec": "{}", "source": "defaults"}
        ],
        "sle": [{**verdict, **ended, "expectation": "throughput", "layer": "fabric", "entity": swport}],
        "sle_loss": [
            {**verdict, **ended, "expectation": "throughput", "layer": "fabric", "entity": swport, "culprit": port}
        ],
        "anomaly": [{**verdict, "entity": port, "metric": metric, "start_ns": BEGIN_NS - 5, "witness": "peers"}],
        "suspect": [{**verdict, **about, "start_ns": times[2]}],
        "colocation": [{**verdict, **about, "start_ns": times[2], "end_ns": times[3]}],
        "symptom": [
            {
                **verdict, "entity": f"job:{n.job}", "job": n.job, "symptom": "slow", "start_ns": times[2],
                "reported_ns": times[3], "seen_ns": times[4], "blamed": "[]", "evidence": f'["{link}"]',
            }
        ],
        "mark": [
            {
                "incident": f"{n.job}-slow-1", "entity": link, "rule": "link-errors", "mark": "right",
                "actor": n.tenant, "reason": f"the cable of {n.switch} was broken", "time_ns": times[4],
            }
        ],
        "incident": [{**verdict, "incident": f"{n.job}-slow-1", "job": n.job, "jobs": [n.job], "symptom": "slow",
                      "entity": f"job:{n.job}", "start_ns": times[2], "symptoms": "[]"}],
        "cause": [
            {
                **verdict, "incident": f"{n.job}-slow-1", "position": 1, "entity": link, "layer": "fabric",
                "class": "gray", "evidence": "[]", "score": "{}", "rule": "link-errors", "action": "replace-cable",
                "text": f"{link} loses frames",
                "start_ns": times[2],
            }
        ],
        "action": [
            {
                "action": "a-1", "incident": f"{n.job}-slow-1", "kind": "replace-cable", "entity": link,
                "time_ns": times[4], "actor": n.tenant, "reason": f"because of {n.switch}",
                "before": f'{{"port": "{swport}"}}', "after": "{}",
            }
        ],
        "analysis_run": [
            {"analysis": "cause", "part": n.job, **ended, "version": 1, "state": "failed", "error": f"no {n.switch}"}
        ],
    }  # fmt: skip
    return {table.name: rows_of(table, made[table.name], names) for table in TABLES}


def truth_of(names: Names) -> dict[str, Any]:
    """What the truth file of the incident says."""
    link = link_id(f"port:{names.hosts[0]}/{names.ports[0]}", f"swport:{names.switch}/{names.ports[1]}")
    fault = {"fault": "lossy_link", "component": [link], "layer": "fabric", "class": "gray", "onset_ns": BEGIN_NS + 5}
    return {"faults": [{**fault, "end_ns": END_NS, "decoy": False}], "seed": 7, "scenario": "lossy_link"}


def write_incident(path: Path, rows: dict[str, pa.Table], config: str = "store:\n  ttl: true\n") -> Path:
    """These rows as a bundle, without a store."""
    manifest = Manifest(BEGIN_NS, END_NS, versions={"leadline": "0.0.test"})
    with Draft(manifest, config, path.parent) as draft:
        for name, table in rows.items():
            draft.add(BY_NAME[name], [table])
        write_bundle(path, draft.chunks(), draft.size)
    return path
