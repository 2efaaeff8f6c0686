"""A mesh of six hosts in three racks and two pods, hand-made: h3 is slow, h5 dark, h6 never probed; a job's messages.

pod1: rack1 h1 h2, rack2 h3 h4      pod2: rack3 h5 h6
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import relation

S = 10**9
END = 1_750_000_000 * S
RACKS = {"h1": "rack1", "h2": "rack1", "h3": "rack2", "h4": "rack2", "h5": "rack3", "h6": "rack3"}
POD_OF = {"rack1": "pod1", "rack2": "pod1", "rack3": "pod2"}
OWNER = {"tenant": "provider", "cluster": "default"}
VERDICT = {**OWNER, "version": 1, "revision": 1}


def delay(src: str, dst: str, p50: int, *, ago_s: float = 0, end_ns: int = END, **more: Any) -> dict[str, Any]:
    """A row of `delay`: all source ports together."""
    return row(
        "delay", **{**VERDICT, "analysis": "delay", "src": src, "dst": dst, "src_port": None, "class": 0,
        "end_ns": end_ns - round(ago_s * S), "window_ns": 10 * S, "min_ns": p50 - 100, "p50_ns": p50, "p99_ns": 2 * p50,
        "queue_p99_ns": p50, "lost": 0.0, "count": 500, "bound_ns": 200, **more},
    )  # fmt: skip


def fit(host: str, offset: int, bound: int, *, ago_s: float = 0, end_ns: int = END, **more: Any) -> dict[str, Any]:
    """A row of `clock_fit`."""
    return row(
        "clock_fit", **{**VERDICT, "analysis": "clock", "host": host, "clock": f"{host}/7f3a",
        "end_ns": end_ns - round(ago_s * S), "offset_ns": offset, "rate_ppb": 12.5, "bound_ns": bound, "noise_ns": 40.0,
        "island": 1, "state": "fitted", **more},
    )  # fmt: skip


def delays(end_ns: int) -> Iterator[dict[str, Any]]:
    """Every pair of h1 to h5, in two windows."""
    hosts = ("h1", "h2", "h3", "h4", "h5")
    for src in hosts:
        for dst in hosts:
            if src == dst:
                continue
            dark = "h5" in (src, dst)
            for ago_s in (0, 10):
                p50 = 4_000 if dst == "h3" else 1_600 if src == "h3" else 900
                lost = {"lost": 1.0, "count": 0, "bound_ns": None} if dark else {}
                yield delay(src, dst, p50, ago_s=ago_s, end_ns=end_ns, **lost)


def places(end_ns: int) -> Iterator[dict[str, Any]]:
    """What the agents say of racks and pods."""
    for number, (host, rack) in enumerate(RACKS.items()):
        labels = {"rack": rack, "pod": POD_OF[rack], "instance": f"10.0.0.{number + 1}:9100"}
        yield row(
            "series", **OWNER, series=1 + number, name="leadline_agent_info", labels=labels, host=host,
            entity_kind="host", entity=f"host:{host}", first_ns=end_ns - 3600 * S, last_ns=end_ns,
        )  # fmt: skip


def relations(end_ns: int) -> Iterator[dict[str, Any]]:
    """A NIC port and a leaf of each host; bert-1 on h1 and h3."""
    for host, rack in RACKS.items():
        held: dict[str, Any] = {"from_ns": end_ns - 3600 * S}
        yield relation(f"port:{host}/eth0", "in", f"host:{host}", **held)
        yield relation(f"port:{host}/eth0", "linked", f"swport:leaf{rack[-1]}/Ethernet{host[1:]}", **held)
    for number, host in enumerate(("h1", "h3")):
        yield relation(f"rank:bert-1/{number}", "runs-on", f"host:{host}", from_ns=end_ns - 600 * S)


def edges(end_ns: int) -> list[dict[str, Any]]:
    """Messages of bert-1: a slow queue pair, an edge without a delay."""
    told = {**VERDICT, "analysis": "messages", "job": "bert-1", "comm": "bert-1/0x1", "end_ns": end_ns,
            "window_ns": 10 * S, "messages": 90, "flows": 1}  # fmt: skip
    slow = {"delay_p50_ns": 40_000, "delay_p99_ns": 90_000, "bound_ns": 300, "flow": 0xA1}
    return [row("edge", **told, src_rank=0, dst_rank=1, **slow), row("edge", **told, src_rank=1, dst_rank=0)]


def paths(end_ns: int) -> list[dict[str, Any]]:
    """The flow of the slow queue pair."""
    return [row(
        "flow_path", **VERDICT, analysis="path", flow=0xA1, end_ns=end_ns, window_ns=10 * S, job="bert-1",
        src="port:h1/eth0", dst="port:h3/eth0", src_ip="10.0.0.1", dst_ip="10.0.0.3", protocol=17, src_port=49_152,
        dst_port=4791, dst_qp=17, state="known",
    )]  # fmt: skip


def machines(end_ns: int) -> list[dict[str, Any]]:
    """h1 and h2 share a machine, told of each; of h4 it cannot be told."""
    told = {**VERDICT, "analysis": "colocation", "kind": "shares-machine", "start_ns": end_ns - 60 * S,
            "seen_ns": end_ns, "evidence": "[]"}  # fmt: skip
    return [
        row("colocation", **told, entity="host:h1", others=["host:h2"], probability=0.97),
        row("colocation", **told, entity="host:h2", others=["host:h1"], probability=0.97),
        row("colocation", **{**told, "kind": "unknown"}, entity="host:h4", others=["host:h3"], probability=0.5),
    ]


def fits(end_ns: int) -> list[dict[str, Any]]:
    """Clocks: h4 on an island of its own, h5 lost, h3 carried with a wide bound."""
    return [
        fit("h1", 50, 120, end_ns=end_ns), fit("h2", -70, 90, end_ns=end_ns),
        fit("h3", 900, 2_400, end_ns=end_ns, state="carried"), fit("h4", 5, 80, end_ns=end_ns, island=2),
        fit("h5", 0, 10, end_ns=end_ns, state="lost"), fit("h6", 10, 100, end_ns=end_ns, ago_s=30, rate_ppb=-2e5),
    ]  # fmt: skip


def daemons(end_ns: int) -> list[dict[str, Any]]:
    """What clock daemons say of three hosts; h3 has none."""
    said = {"h1": 1_000, "h2": 500, "h3": None, "h6": 40_000}
    return [
        row("edge_fit", **OWNER, host=host, clock=f"{host}/7f3a", src=host, dst=host, state="self",
            end_ns=end_ns - S, probe_ns=0, ahead_ns=0, window_ns=0, report_ns=0, bound_ns=bound, stamp="none", probes=0)
        for host, bound in said.items()
    ]  # fmt: skip


def mesh_tables(end_ns: int = END) -> dict[str, list[dict[str, Any]]]:
    """All of it."""
    return {
        "delay": list(delays(end_ns)), "series": list(places(end_ns)), "relation": list(relations(end_ns)),
        "edge": edges(end_ns), "flow_path": paths(end_ns), "colocation": machines(end_ns), "clock_fit": fits(end_ns),
        "edge_fit": daemons(end_ns),
    }  # fmt: skip


def agents_say(end_ns: int) -> dict[str, Any]:
    """The same places as OTLP, which is how agents tell them."""
    point = {"timeUnixNano": str(end_ns), "asDouble": 1.0}
    metrics = [{"name": "leadline_agent_info", "gauge": {"dataPoints": [point]}}]
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": [
                    {"key": name, "value": {"stringValue": value}}
                    for name, value in (("host.name", host), ("rack", rack), ("pod", POD_OF[rack]))
                ]},
                "scopeMetrics": [{"metrics": metrics}],
            }
            for host, rack in RACKS.items()
        ]
    }  # fmt: skip
