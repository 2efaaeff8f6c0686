"""What probes tell of the small fabric of `lossy_links`: rows of `edge_fit`, `probe_hop`, `delay`, `relation`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

import pyarrow as pa
from tests.builders.fabrics import T0, S
from tests.builders.incident import Names, rows_of
from tests.builders.lossy_links import edge, leaf

from leadline.model.tables.fabric import DELAY, EDGE_FIT, PROBE_HOP, RELATION

HOSTS = [f"h{number}" for number in range(1, 9)]
PORTS = (8446, 8447)  # the first goes over spine 1, the other over spine 2
SENT = 50  # of a port and way in a second
NAMES = Names(tenant="provider", cluster="default")
Route = tuple[tuple[str, str], ...]  # links in order, each with the node that it is crossed to
Crossed = tuple[str, str]  # a link, and the node that it is crossed to


def up(number: int, spine: int) -> str:
    """Link between a leaf and a spine."""
    return f"link:leaf{number}/Up{spine}~spine{spine}/Down{number}"


def links_of(src: str, dst: str, port: int) -> Route:
    """The way of a probe."""
    one, other, spine = leaf(int(src[1:])), leaf(int(dst[1:])), port - 8445
    first, last = (edge(int(src[1:])), one), (edge(int(dst[1:])), dst)
    if one == other:
        return first, last
    return first, (up(int(one[4:]), spine), f"spine{spine}"), (up(int(other[4:]), spine), other), last


@dataclass(frozen=True)
class Probed:
    """What a mesh of all with all saw in the last `seconds` before T0 + 5 s."""

    loses: Mapping[Crossed, float] = field(default_factory=dict)
    waits_ns: Mapping[Crossed, int] = field(default_factory=dict)
    dead: tuple[str, ...] = ()  # links, or hosts: nothing comes over them since `since_s`
    since_s: int = 0  # second from which on it is so, T0 is 0
    until_s: int = 5
    stalls: Mapping[str, int] = field(default_factory=dict)  # ns, in every third second
    seconds: int = 20
    traced: bool = True
    loss: float = 0.0  # anywhere
    tails_ns: Mapping[Crossed, int] = field(default_factory=dict)  # that only the slowest hundredth waits
    noise_ns: int = 0  # up to which the slowest hundredth of any path waits
    unheard: str = ""  # a host of which nothing ever came: every other second all that was sent to it is lost

    def tables(self) -> dict[str, pa.Table]:
        rng = random.Random(7)
        fits, delays, hops = [], [], []
        pairs = [(one, other) if rng.random() < 0.5 else (other, one) for one, other in combinations(HOSTS, 2)]
        for src, dst in pairs:
            for port in PORTS:
                for second in range(5 - self.seconds, 5):
                    fits.append(self._fit(src, dst, port, second, rng))
                for one, other in ((src, dst), (dst, src)):
                    delays += [self._delay(one, other, port, end_s, rng) for end_s in range(-15, 1, 5)]
                    hops += self._hops(one, other, port)
        if not self.traced:
            hops = []
        return {
            EDGE_FIT.name: rows_of(EDGE_FIT, fits, NAMES), DELAY.name: rows_of(DELAY, delays, NAMES),
            PROBE_HOP.name: rows_of(PROBE_HOP, hops, NAMES), RELATION.name: rows_of(RELATION, relations(), NAMES),
        }  # fmt: skip

    def _is_dead(self, route: Route, src: str, dst: str) -> bool:
        return bool({link for link, _ in route} & set(self.dead) or {src, dst} & set(self.dead))

    def _fit(self, src: str, dst: str, port: int, second: int, rng: random.Random) -> dict[str, object]:
        row: dict[str, object] = {
            "host": src, "clock": f"{src}/1", "src": src, "dst": dst, "src_port": port, "state": "valid",
            "end_ns": T0 + second * S + rng.randrange(S // 2), "report_ns": S, "stall_ns": 200_000,
            "back_queue_ns": 5_000,
        }  # fmt: skip
        if src in self.stalls and second % 3 == 1:
            row["stall_ns"] = self.stalls[src]
        active = self.since_s <= second < self.until_s
        for way, (one, other) in (("there", (src, dst)), ("back", (dst, src))):
            route = links_of(one, other, port)
            kept = 1.0 - self.loss
            for crossed in route:
                kept *= 1.0 - (self.loses.get(crossed, 0.0) if active else 0.0)
            gone = active and self._is_dead(route, one, other)
            row[f"{way}_sent"] = 0 if gone else SENT
            row[f"{way}_lost"] = 0 if gone else sum(rng.random() > kept for _ in range(SENT))
        if self.unheard in (src, dst):
            row |= dict.fromkeys(("there_sent", "there_lost", "back_sent", "back_lost"), SENT * (second % 2))
        if not row["back_sent"]:  # nobody says what came there
            row |= {"there_sent": 0, "there_lost": 0, "state": "few-points"}
        return row

    def _delay(self, src: str, dst: str, port: int, end_s: int, rng: random.Random) -> dict[str, object]:
        wait_ns, tail_ns = (
            sum(waits.get(crossed, 0) for crossed in links_of(src, dst, port))
            for waits in (self.waits_ns, self.tails_ns)
        )
        tail_ns += wait_ns + (rng.randrange(self.noise_ns) if self.noise_ns else 0)
        return {
            "src": src, "dst": dst, "src_port": port, "class": 0, "end_ns": T0 + end_s * S, "window_ns": 5 * S,
            "min_ns": 2_000, "p50_ns": 2_500 + wait_ns, "p99_ns": 9_000 + tail_ns, "queue_p99_ns": 7_000 + tail_ns,
            "lost": 0.0, "count": 250,
        }  # fmt: skip

    def _hops(self, src: str, dst: str, port: int) -> list[dict[str, object]]:
        return [
            {"host": src, "clock": f"{src}/1", "src": src, "dst": dst, "src_port": port, "time_ns": T0 - 100 * S,
             "hop": hop, "address": address(node, link)}
            for hop, (link, node) in enumerate(links_of(src, dst, port)[:-1])
        ]  # fmt: skip


def address(node: str, link: str) -> str:
    """Address of the end of a link at a switch."""
    (number,) = [place for place, end in enumerate(_switch_ends()) if end == _end(node, link)]
    return f"10.9.0.{number}"


def relations() -> list[dict[str, object]]:
    """Cables, and addresses of switches."""
    found: list[dict[str, object]] = []
    for link in _links():
        ends = [f"{'port' if end[0] == 'h' else 'swport'}:{end}" for end in link.removeprefix("link:").split("~")]
        found.append({"child": ends[0], "parent": ends[1], "kind": "linked"})
    found += [
        {"child": f"address:10.9.0.{number}", "parent": f"swport:{end}", "kind": "in"}
        for number, end in enumerate(_switch_ends())
    ]
    return [{**row, "from_ns": T0 - 10**12, "source": "inventory", "confidence": 1.0} for row in found]


def _links() -> list[str]:
    return [edge(number) for number in range(1, 9)] + [up(one, spine) for one in (1, 2) for spine in (1, 2)]


def _switch_ends() -> list[str]:
    return [end for link in _links() for end in link.removeprefix("link:").split("~") if end[0] != "h"]


def _end(node: str, link: str) -> str:
    return next(end for end in link.removeprefix("link:").split("~") if end.partition("/")[0] == node)
