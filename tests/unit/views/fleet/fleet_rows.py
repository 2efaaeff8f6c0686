"""A small fleet in rows: h1, h2 on leaf1, h3, h10 on leaf2, each with two NICs; counters of the last minute before NOW.

- h1: healthy; bert-1 runs on it and on h2.
- h2: receives with 1 % loss (its leaf discards towards it), and its eth1 has no carrier; the open incident names it.
- h3: nothing was heard of it. moe of beta ran there.
- h10: sends 10 % retransmissions by TCP; a metric of its GPU is far out. No job.
"""

from __future__ import annotations

from typing import Any

from tests.unit.views.incidents.incident_rows import NOW, S, cause, incident
from tests.unit.views.paths.path_rows import relation

LEAF = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h10": "leaf2"}
BEGIN = NOW - 60 * S
SINCE = NOW - 900 * S
DELAYS = {("h1", "h2"): 10_000, ("h3", "h2"): 40_000, ("h10", "h2"): 30_000, ("h2", "h1"): 9_000}


def _relations() -> list[dict[str, Any]]:
    out = []
    for tenant in ("provider", "acme"):
        for host in LEAF if tenant == "provider" else ("h1", "h2"):
            for rail in (0, 1):
                port, swport = f"port:{host}/eth{rail}", f"swport:{LEAF[host]}/Ethernet{host[1:]}{rail}"
                out.append(relation(port, "in", f"host:{host}", tenant, from_ns=SINCE))
                out.append(relation(port, "linked", swport, tenant, from_ns=SINCE))
            out.append(relation(f"port:{host}/docker0", "in", f"host:{host}", tenant, from_ns=SINCE))
            out.append(relation(f"gpu:GPU-{host}", "in", f"host:{host}", tenant, from_ns=SINCE))
    out.append(relation("address:10.0.3.7", "in", "port:h3/eth0", "provider", from_ns=SINCE))
    runs = (("bert-1", 0, "h1", "acme", None), ("bert-1", 1, "h2", "acme", None), ("moe", 0, "h3", "beta", NOW - 5 * S),
            ("old", 0, "h1", "acme", NOW - 300 * S))  # fmt: skip
    for job, rank, host, tenant, to_ns in runs:
        out.append(relation(f"rank:{job}/{rank}", "runs-on", f"host:{host}", tenant, from_ns=SINCE, to_ns=to_ns))
    return out


class Samples:
    """Rows of `series` and `metric_sample`; a stream is at its first value at BEGIN + 1 s, at its last at NOW - 1 s."""

    def __init__(self) -> None:
        self.series: list[dict[str, Any]] = []
        self.values: list[dict[str, Any]] = []

    def add(self, entity: str, name: str, first: float, last: float, host: str | None, tenant: str = "provider",
            **labels: str) -> None:  # fmt: skip
        owner = {"tenant": tenant, "cluster": "default"}
        number = len(self.series) + 1
        self.series.append(
            {**owner, "series": number, "name": name, "entity_kind": entity.partition(":")[0], "entity": entity,
             "unit": None, "labels": labels, "first_ns": SINCE, "last_ns": NOW, "type": "counter", "host": host,
             "source": "agent"}
        )  # fmt: skip
        for time_ns, value in ((SINCE, 0.0), (BEGIN + S, first), (NOW - S, last)):
            self.values.append({**owner, "series": number, "time_ns": time_ns, "value": value})


def _metrics() -> Samples:
    out = Samples()
    second = 58.0  # between the two samples
    for host, tenant in (("h1", "acme"), ("h2", "acme"), ("h10", "provider")):
        for rail in (0, 1):
            port = f"port:{host}/eth{rail}"
            # h1 receives 1e9 bytes/s by eth0 and 2e9 by eth1, of 4e9 that each can.
            out.add(port, "node_network_receive_bytes_total", 5e9, 5e9 + (rail + 1) * 1e9 * second, host, tenant)
            out.add(port, "node_network_receive_packets_total", 7.0, 7.0 + 1e6, host, tenant)
            out.add(port, "node_network_speed_bytes", 4e9, 4e9, host, tenant)
            out.add(port, "node_network_carrier", 1.0, 0.0 if port == "port:h2/eth1" else 1.0, host, tenant)
        # The bridge of containers carries the same packets once more, and is no NIC.
        out.add(f"port:{host}/docker0", "node_network_receive_bytes_total", 0.0, 1e12, host, tenant)
        out.add(f"host:{host}", "leadline_agent_info", 1.0, 1.0, host, tenant, rack=f"r{host[1:]}",
                **{"host.name": host, "version": "0.1.0"})  # fmt: skip
    out.add("port:h1/eth0", "node_network_receive_errs_total", 3.0, 3.0 + 29, "h1", "acme")
    # A counter that began anew: it grew by 40.
    out.add("port:h2/eth0", "node_network_receive_errs_total", 9e9, 2 * second, "h2", "acme")
    # The RDMA counters of the same NICs tell less than the Ethernet counters: the larger speaks.
    out.add("port:h1/mlx5_0", "node_infiniband_port_rcv_data_total", 0.0, 1e8 * second / 4, "h1", "acme")
    # The switch counts what it sends to h1, and what it takes from h3, where nobody else tells of it.
    out.add("swport:leaf1/Ethernet10", "node_network_transmit_bytes_total", 0.0, 1e9 * second, None)
    out.add("swport:leaf2/Ethernet30", "node_network_receive_bytes_total", 0.0, 2e6 * second, None)
    out.add("swport:leaf1/Ethernet20", "ifOutUcastPkts", 0.0, 990_000.0, None)
    out.add("swport:leaf1/Ethernet20", "ifOutDiscards", 0.0, 10_000.0, None)
    out.add("host:h10", "node_netstat_Tcp_OutSegs", 0.0, 90_000.0, "h10")
    out.add("host:h10", "node_netstat_Tcp_RetransSegs", 0.0, 10_000.0, "h10")
    out.add("host:h1", "node_netstat_Tcp_OutSegs", 0.0, 20.0, "h1", "acme")  # too few to tell a share of
    out.add("host:h1", "node_netstat_Tcp_RetransSegs", 0.0, 10.0, "h1", "acme")
    return out


def _anomaly(entity: str, score: float, **more: Any) -> dict[str, Any]:
    told = {"tenant": "provider", "cluster": "default", "analysis": "anomaly", "version": 1, "revision": 0}
    told |= {"entity_kind": entity.partition(":")[0], "entity": entity, "metric": "DCGM_FI_DEV_SM_CLOCK", "label": None}
    told |= {"start_ns": NOW - 50 * S, "earliest_ns": NOW - 55 * S, "bound_ns": None, "share": 1.0, "end_ns": None}
    told |= {"seen_ns": NOW, "score": score, "direction": "low", "witness": "peers", "expected": 1.0, "seen": 0.0}
    return {**told, "reported_ns": NOW - 45 * S, **more}


def _delay(src: str, dst: str, p99_ns: int, port: int = 8446) -> dict[str, Any]:
    numbers = {
        "min_ns": 1000,
        "p50_ns": 2000,
        "p99_ns": p99_ns,
        "queue_p99_ns": 0,
        "lost": 0.0,
        "count": 9,
        "state": "known",
    }
    return {"tenant": "provider", "cluster": "default", "analysis": "clock", "version": 1, "revision": 0, "src": src,
            "dst": dst, "src_port": port, "class": 0, "end_ns": NOW - 10 * S, "window_ns": 10 * S, "bound_ns": 500,
            **numbers}  # fmt: skip


def rows() -> dict[str, list[dict[str, Any]]]:
    """By table, for `path_rows.filled`."""
    metrics = _metrics()
    return {
        "relation": _relations(),
        "series": metrics.series,
        "metric_sample": metrics.values,
        "incident": [
            incident("bert-1-slow-1", "bert-1", -48),
            incident("bert-1-slow-0", "bert-1", -300, end_ns=NOW - 100 * S, state="over"),
            incident("bert-1-slow-2", "bert-1", -40, suppressed="maintenance"),
        ],
        "cause": [
            cause("bert-1-slow-1", 1, "link:h2/eth1~leaf1/Ethernet21", "link-down", 0.9, -48.0),
            cause("bert-1-slow-1", 2, "host:h10", "cpu-throttled", 0.1, -48.0),  # considered, and not it
            cause("bert-1-slow-0", 1, "host:h1", "cpu-throttled", 0.9, -300.0),
            cause("bert-1-slow-2", 1, "host:h1", "maintenance", 0.9, -40.0),
        ],
        "anomaly": [
            _anomaly("gpu:GPU-h10", 20.0),
            _anomaly("host:h1", 5.1),  # a little out, as some always are
            _anomaly("host:h2", 30.0, end_ns=NOW - 20 * S),
        ],
        "delay": [
            *(_delay(src, dst, p99) for (src, dst), p99 in DELAYS.items()),
            *(_delay(src, dst, p99 - 500, 8447) for (src, dst), p99 in DELAYS.items()),  # a shorter path
            _delay("h1", "h3", 0) | {"p99_ns": None, "p50_ns": None, "min_ns": None, "lost": 1.0, "count": 0},
        ],
    }
