"""A small fabric whose links lose packets that nobody counts, as senders, path inference and switches tell of it.

Eight hosts, two leaves (h1 to h4, h5 to h8), two spines. Flows of a ring and its shortcuts, each over one spine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from tests.builders.fabrics import T0, S

from leadline.analysis.spec import Window
from leadline.model.ids import flow_id, series_id
from leadline.model.tables.fabric import FLOW_SENT, SUSPECT
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.tables.paths import PATH_HOP
from leadline.model.tables.spec import Table
from leadline.store.schema import arrow_table

WINDOW = Window(T0, T0 + 5 * S, tenant="provider")
TRIES = {-5: 2, -4: 1, -3: 1, -1: 1, 3: 1}  # second -> times that a flow tries: after 0.2, 0.4, 0.8 s, ...
SPINE1_LEAF2 = "link:leaf2/Up1~spine1/Down2"
LEAF1_SPINE1 = "link:leaf1/Up1~spine1/Down1"


def leaf(host: int) -> str:
    return "leaf1" if host <= 4 else "leaf2"


def edge(host: int) -> str:
    return f"link:h{host}/eth0~{leaf(host)}/Down{host}"


@dataclass(frozen=True)
class Flow:
    """One flow between two hosts over a spine (of those on one leaf over none)."""

    src: int
    dst: int
    spine: int

    @property
    def port(self) -> int:
        return 40_000 + 100 * self.src + 10 * self.dst + self.spine

    @property
    def id(self) -> int:
        return flow_id(6, f"10.0.0.{self.src}", f"10.0.0.{self.dst}", self.port, 7000)

    @property
    def back(self) -> int:
        return flow_id(6, f"10.0.0.{self.dst}", f"10.0.0.{self.src}", 7000, self.port)

    @property
    def links(self) -> tuple[str, ...]:
        if leaf(self.src) == leaf(self.dst):
            return edge(self.src), edge(self.dst)
        ups = [f"link:{one}/Up{self.spine}~spine{self.spine}/Down{one[-1]}" for one in (leaf(self.src), leaf(self.dst))]
        return edge(self.src), *ups, edge(self.dst)

    def goes(self, link: str, towards: str) -> bool:
        """Whether it crosses a link towards a node."""
        nodes = [f"h{self.src}", leaf(self.src), *([f"spine{self.spine}"] if len(self.links) == 4 else [])]
        nodes += [leaf(self.dst), f"h{self.dst}"] if len(self.links) == 4 else [f"h{self.dst}"]
        return link in self.links and nodes[self.links.index(link) + 1] == towards


FLOWS = tuple(
    Flow(src, dst, spine)
    for src in range(1, 9)
    for dst, spine in ((src % 8 + 1, 1 + src % 2), ((src + 3) % 8 + 1, 1 + src // 2 % 2))
)


@dataclass
class Site:
    """What each tells. `loses(flow)` is the probability that a packet of it is lost; `dead(flow)`: all are."""

    flows: Sequence[Flow] = FLOWS
    loses: Mapping[Flow, float] = field(default_factory=dict)
    dead: Iterable[Flow] = ()
    vanishes: Mapping[str, float] = field(default_factory=dict)  # switch -> packets in the newest interval
    drops: Mapping[str, float] = field(default_factory=dict)  # port -> packets that it says it dropped
    waits: Iterable[Flow] = ()  # whose round trips take long
    calm: float = 0.01  # intervals in which a burst is lost
    seed: int = 1

    def tables(self, earlier: Sequence[Mapping[str, object]] = ()) -> dict[str, pa.Table]:
        series, samples = self._counters()
        return {
            "flow_sent": rows_of(FLOW_SENT, list(self._sent())),
            "path_hop": rows_of(PATH_HOP, list(self._hops())),
            "series": rows_of(SERIES, series),
            "metric_sample": rows_of(METRIC_SAMPLE, samples),
            "suspect": rows_of(SUSPECT, list(earlier)),
        }

    def _sent(self) -> Iterator[dict[str, object]]:
        rng = np.random.default_rng(self.seed)
        dead = set(self.dead)
        for flow in self.flows:
            for second in range(-5, 5):
                lost = int(rng.binomial(300, self.loses.get(flow, 0.0))) + (9 if rng.random() < self.calm else 0)
                counted = {"packets": 300, "again": lost, "needless": 0, "acked_bytes": 400_000, "bytes": 420_000}
                counted["rtt_ns"] = 30_000_000 if flow in self.waits else 2_000_000
                if flow in dead:
                    if second not in TRIES:
                        continue
                    counted = {
                        "packets": TRIES[second],
                        "again": TRIES[second],
                        "needless": 0,
                        "acked_bytes": 0,
                        "bytes": 1500,
                    }
                yield {
                    "tenant": "provider", "cluster": "default", "host": f"h{flow.src}", "clock": f"h{flow.src}/1",
                    "time_ns": T0 + second * S + S // 2, "window_ns": S, "flow": flow.id, "protocol": 6,
                    "src_ip": f"10.0.0.{flow.src}", "dst_ip": f"10.0.0.{flow.dst}", "src_port": flow.port,
                    "dst_port": 7000, **counted,
                }  # fmt: skip

    def _hops(self) -> Iterator[dict[str, object]]:
        for flow in self.flows:
            for number, links in ((flow.id, flow.links), (flow.back, flow.links[::-1])):
                for hop, link in enumerate(links):
                    yield {
                        "tenant": "provider", "cluster": "default", "flow": number, "end_ns": T0 - 2 * S,
                        "window_ns": 10 * S, "hop": hop, "link": link, "probability": 0.99, "alternative": 0,
                        "analysis": "path", "version": 2, "revision": 0,
                    }  # fmt: skip

    def _counters(self) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        series, samples = [], []
        for switch in ("leaf1", "leaf2", "spine1", "spine2"):
            for port in ("Up1", "Up2") if switch.startswith("leaf") else ("Down1", "Down2"):
                for name in ("ifInUcastPkts", "ifOutUcastPkts", "ifOutDiscards"):
                    entity = f"swport:{switch}/{port}"
                    number = series_id({"__name__": name, "entity": entity})
                    series.append(
                        {
                            "tenant": "provider",
                            "cluster": "default",
                            "series": number,
                            "name": name,
                            "entity_kind": "swport",
                            "entity": entity,
                            "first_ns": T0 - 600 * S,
                            "last_ns": T0,
                            "source": "sflow",
                            "labels": {},
                        }
                    )
                    for place, second in enumerate((-42, -32, -22, -12, -2)):
                        gone = self.drops.get(entity, 0.0)
                        value = 0.0 if name == "ifOutDiscards" else 10_000.0 * place
                        if place == 4 and name == "ifOutUcastPkts":
                            value -= self.vanishes.get(switch, 0.0) / 2 + gone
                        elif place == 4 and name == "ifOutDiscards":
                            value = gone
                        samples.append(
                            {
                                "tenant": "provider",
                                "cluster": "default",
                                "series": number,
                                "time_ns": T0 + second * S,
                                "value": value,
                            }
                        )
        return series, samples


def rows_of(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """A whole table of rows given in part; a column that is not given is null, or 0 of an identity."""
    zero = {"batch": 1, "batch_row": 0, "revision": 0, "version": 1, "analysis": "test"}
    return arrow_table(
        table, {column.name: [row.get(column.name, zero.get(column.name)) for row in rows] for column in table.columns}
    )


def lossy_link(towards: Sequence[str] = ("spine1", "leaf2"), loss: float = 0.03, **more: object) -> Site:
    """The link between spine 1 and leaf 2 loses packets, on their way to the nodes named."""
    hit = {flow: loss for flow in FLOWS if any(flow.goes(SPINE1_LEAF2, node) for node in towards)}
    return Site(loses=hit, **more)  # type: ignore[arg-type]


def blackhole() -> Site:
    """Spine 1 loses whatever goes to host 8 or comes as acknowledgement to it."""
    dead = [flow for flow in FLOWS if len(flow.links) == 4 and flow.spine == 1 and 8 in (flow.src, flow.dst)]
    return Site(dead=dead, vanishes={"spine1": 40.0})
