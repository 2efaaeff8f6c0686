"""Hand-made verdicts of the analysis `path`: two jobs on two leaves and two spines, in a store.

bert-1 has ranks 0 on h1 and 1 on h3, resnet-2 0 on h2 and 1 on h4. bert-1's flow goes over spine1 and comes back over
spine2; resnet-2's (of tenant `beta`) goes over spine1 too. One flow is nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.builders.stores import opened_store

from leadline.model.ids import link_id
from leadline.model.tables import BY_NAME
from leadline.store import Store
from leadline.store.schema import arrow_table

S = 10**9
END, WINDOW = 1_750_000_010 * S, 10 * S
BOOT, STARTED = END - 3600 * S, END - 600 * S
THERE, BACK, OTHER, LOST = 0xA1, 0xA2, 0xB1, 0xC1
HEX = {flow: f"{flow:032x}" for flow in (THERE, BACK, OTHER, LOST)}
VERDICT = {"cluster": "default", "analysis": "path", "version": 1, "revision": 0, "end_ns": END, "window_ns": WINDOW}


def up(leaf: int, spine: int) -> str:
    """The link between a leaf and a spine."""
    return link_id(f"swport:leaf{leaf}/Ethernet{10 + spine}", f"swport:spine{spine}/Ethernet{leaf}")


def edge(host: int) -> str:
    """The link between a host and its leaf."""
    return link_id(f"port:h{host}/eth0", f"swport:leaf{(host + 1) // 2}/Ethernet{host}")


def over(src: int, spine: int, dst: int) -> list[str]:
    """The links from a host to another of the other leaf."""
    return [edge(src), up((src + 1) // 2, spine), up((dst + 1) // 2, spine), edge(dst)]


def flow(number: int, sender: int, receiver: int, job: str | None, ranks: tuple[str, str] | None, size: float,
         tenant: str = "acme", **more: Any) -> dict[str, Any]:  # fmt: skip
    """A row of `flow_path`."""
    return {
        **VERDICT, "tenant": tenant, "flow": number, "job": job, "src_rank": ranks and ranks[0],
        "dst_rank": ranks and ranks[1], "src": f"port:h{sender}/eth0", "dst": f"port:h{receiver}/eth0",
        "src_ip": f"10.0.0.{sender}", "dst_ip": f"10.0.0.{receiver}", "protocol": 17, "src_port": 4000 + number,
        "dst_port": 4791, "dst_qp": number, "state": "known", "probability": 0.99, "alternatives": 1, "samples": 400,
        "contradicting": 0, "bytes": size, "low": size * 0.9, "high": size * 1.1, "why": "",
        "busiest": None, "busiest_bytes": None, **more,
    }  # fmt: skip


def hops(number: int, links: list[str], tenant: str = "acme", alternative: int = 0, probability: float = 0.99,
         **more: Any) -> list[dict[str, Any]]:  # fmt: skip
    """Rows of `path_hop`."""
    return [
        {**VERDICT, "tenant": tenant, "flow": number, "hop": hop, "link": link, "probability": probability,
         "alternative": alternative, **more}
        for hop, link in enumerate(links)
    ]  # fmt: skip


def volumes(number: int, links: list[str], job: str | None, size: float, tenant: str = "acme",
            **more: Any) -> list[dict[str, Any]]:  # fmt: skip
    """Rows of `flow_volume`."""
    return [
        {**VERDICT, "tenant": tenant, "flow": number, "link": link, "job": job, "bytes": size, "low": size * 0.9,
         "high": size * 1.1, **more}
        for link in links
    ]  # fmt: skip


GROUP = {
    **VERDICT, "tenant": "provider", "switch": "leaf1", "group": "Ethernet11,Ethernet12", "links": [up(1, 1), up(1, 2)],
    "flows": 2, "bytes": 3e9, "efficiency": 0.5, "busiest": up(1, 1), "busiest_bytes": 3e9,
    "colliding": [f"flow:{HEX[THERE]}", f"flow:{HEX[OTHER]}"], "jobs": ["bert-1", "resnet-2"],
}  # fmt: skip
RUN = {
    "tenant": "provider", "cluster": "default", "analysis": "path", "part": "", "end_ns": END, "window_ns": WINDOW,
    "version": 1, "revision": 0, "state": "done", "rows_in": 9, "rows_out": 9, "digest": 1, "took_ns": 5, "error": "",
}  # fmt: skip
BERT, RESNET = ("rank:bert-1/0", "rank:bert-1/1"), ("rank:resnet-2/0", "rank:resnet-2/1")


def lie(seen_ns: int, count: int, **more: Any) -> dict[str, Any]:
    """A row of `conflict`: a switch that names the wrong port."""
    told = {name: value for name, value in VERDICT.items() if name not in ("end_ns", "window_ns")}
    return {
        **told, "tenant": "provider", "entity": "swport:spine1/Ethernet1", "kind": "wrong-port", "start_ns": BOOT,
        "end_ns": None, "seen_ns": seen_ns, "claims": [edge(1)], "sources": ["sflow"], "used": None, "count": count,
        "text": "samples of spine1 name a port that no neighbour sends to", **more,
    }  # fmt: skip


ROWS: dict[str, list[dict[str, Any]]] = {
    "analysis_run": [RUN],
    "flow_path": [
        flow(THERE, 1, 3, "bert-1", BERT, 2e9),
        flow(BACK, 3, 1, "bert-1", (BERT[1], BERT[0]), 1e8),
        flow(OTHER, 2, 4, "resnet-2", RESNET, 1e9, "beta", state="ambiguous", probability=0.5, alternatives=2,
             why="no sample above the leaves"),
        flow(LOST, 1, 4, None, None, 5e6, "provider", src=None, state="unknown", probability=0.0, alternatives=0,
             why="address 10.0.0.1 belongs to no known port"),
        flow(THERE, 1, 3, "bert-1", BERT, 7e9, end_ns=END - WINDOW, revision=0),  # the window before
    ],
    "path_hop": [
        *hops(THERE, over(1, 1, 3)),
        *hops(BACK, over(3, 2, 1)),
        *hops(OTHER, over(2, 1, 4), "beta", 0, 0.5),
        *hops(OTHER, over(2, 2, 4), "beta", 1, 0.5),
    ],
    "flow_volume": [
        *volumes(THERE, over(1, 1, 3), "bert-1", 2e9),
        *volumes(BACK, over(3, 2, 1), "bert-1", 1e8),
        *volumes(OTHER, over(2, 1, 4), "resnet-2", 1e9, "beta"),
        *volumes(LOST, [edge(1)], None, 5e6, "provider"),
    ],
    "ecmp_group": [GROUP],
    "conflict": [
        lie(END, 40), lie(END - WINDOW, 30, revision=1),  # told by this window, and before
        lie(END - WINDOW, 5, entity="swport:spine2/Ethernet2"),  # no longer told
    ],
}  # fmt: skip


def relation(child: str, kind: str, parent: str, tenant: str = "provider", **more: Any) -> dict[str, Any]:
    return {"tenant": tenant, "cluster": "default", "child": child, "parent": parent, "kind": kind, "from_ns": BOOT,
            "to_ns": None, "source": "inventory", "confidence": 1.0, **more}  # fmt: skip


def fabric() -> Iterator[dict[str, Any]]:
    """Four hosts, two leaves, two spines; bert-1 on h1 and h3, resnet-2 of tenant beta on h2 and h4."""
    for tenant in ("provider", "acme"):  # acme's agents tell its own hosts too
        for host in (1, 2, 3, 4) if tenant == "provider" else (1, 3):
            leaf = f"leaf{(host + 1) // 2}"
            yield relation(f"port:h{host}/eth0", "in", f"host:h{host}", tenant)
            yield relation(f"port:h{host}/eth0", "linked", f"swport:{leaf}/Ethernet{host}", tenant)
            yield relation(f"swport:{leaf}/Ethernet{host}", "in", f"switch:{leaf}", tenant)
    for leaf_number in (1, 2):
        for spine in (1, 2):
            low, high = f"swport:leaf{leaf_number}/Ethernet{10 + spine}", f"swport:spine{spine}/Ethernet{leaf_number}"
            yield relation(low, "linked", high)
            yield relation(low, "in", f"switch:leaf{leaf_number}")
            yield relation(high, "in", f"switch:spine{spine}")
    for job, hosts, tenant in (("bert-1", (1, 3), "acme"), ("resnet-2", (2, 4), "beta")):
        for number, host in enumerate(hosts):
            told = {"tenant": tenant, "from_ns": STARTED, "source": "torch-hook"}
            yield relation(f"rank:{job}/{number}", "in", f"job:{job}", **told)
            yield relation(f"rank:{job}/{number}", "runs-on", f"host:h{host}", **told)
    yield relation("rank:old-1/0", "in", "job:old-1", "acme", from_ns=BOOT, to_ns=BOOT + S)
    yield relation("rank:old-1/0", "runs-on", "host:h1", "acme", from_ns=BOOT, to_ns=BOOT + S)


def append(store: Store, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Store rows, table by table."""
    for name, some in rows.items():
        table = BY_NAME[name]
        store.append(table, arrow_table(table, {c.name: [row[c.name] for row in some] for c in table.columns}))


@contextmanager
def filled(directory: Path, rows: Mapping[str, list[dict[str, Any]]] = ROWS) -> Iterator[Store]:
    """A store with these rows, for the time of a `with`."""
    with opened_store(directory) as store:
        append(store, rows)
        yield store
