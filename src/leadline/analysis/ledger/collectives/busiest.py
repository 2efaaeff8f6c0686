"""Which edge of a job crosses the most loaded link: whose its lost communication is, where no messages tell of edges.

A collective is as fast as its slowest edge, and an edge as fast as what is left to it on the busiest link on its way.
`analysis/path` says of every flow which link that is, and what everybody together sent over it the same way:

    edge        own bytes   busiest link of its path     carries       (a lab run, 10 s)
    2 > 1           24 MB   h3/eth0 ~ leaf1/Ethernet3     179 MB       <- another job fills the port of rank 1's host
    1 > 0           25 MB   h3/eth0 ~ leaf1/Ethernet3      26 MB          (the other way)
    3 > 2           24 MB   h5/eth0 ~ leaf1/Ethernet5      25 MB

Weakness: links of different speed are compared by bytes, because no table tells speeds of all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.ids import EntityId, kind_of

# Times that the busiest link carries of what the busiest link of a light edge does, at least: two flows instead of one.
# Source: recordings (docs/log.md, 2026-11-22).
RATIO_MIN = 2.0
# Share of edges that are light, because in a small ring a heavy flow fills the links of two of four. Source: recordings
# (docs/log.md, 2026-11-22).
LIGHT = 0.25
# Share of the largest edge's own bytes below which an edge is control traffic: rings send as much on each. Source:
# judgement.
OWN_SHARE_MIN = 0.1
# Ratio from which two links carry alike: of them the one nearer to the receiver counts, see `busiest_edge`. Volumes are
# known to some percent only. Source: judgement.
ALIKE = 0.8


@dataclass(frozen=True, slots=True)
class Edge:
    """What the flows of one edge carried in the window, and the busiest link that they crossed."""

    own_bytes: float
    link: str
    link_bytes: float  # of everybody, the same way


def busiest_edge(flow_path: pa.Table, job: str) -> str | None:
    """`rank:J/a>rank:J/b` whose way leads over the most loaded link; None where no link stands out.

    flow_path: rows of the job in the window (src_rank, dst_rank, dst, bytes, busiest, busiest_bytes; both directions of
    an edge are two). A link stands out if it carries at least twice what the lightest quarter of edges has to share.
    Where two carry alike, as the first and the last one of a heavy flow do, the one at the receiver counts: queues grow
    where a switch sends towards a host, while a sender's own port only holds its own sockets back.
    """
    edges = edges_of(flow_path, job)
    if len(edges) < 2:
        return None
    loads = [edge.link_bytes for edge in edges.values()]
    most = max(loads)
    if most < RATIO_MIN * float(np.quantile(loads, LIGHT)):
        return None
    alike = {name: edge for name, edge in edges.items() if edge.link_bytes >= ALIKE * most}
    return max(alike, key=lambda name: (_at_receiver(name, alike[name], flow_path), alike[name].own_bytes, name))


def edges_of(flow_path: pa.Table, job: str) -> Mapping[str, Edge]:
    """The job's edges that carry more than control traffic, by name."""
    rows = flow_path.filter(
        pc.and_(
            pc.and_(pc.is_valid(flow_path["src_rank"]), pc.is_valid(flow_path["dst_rank"])),
            pc.is_valid(flow_path["busiest"]),
        )
    )
    own: dict[str, float] = defaultdict(float)
    heaviest: dict[str, tuple[float, float, str]] = {}
    columns = ("src_rank", "dst_rank", "bytes", "busiest", "busiest_bytes")
    for src, dst, size, link, load in zip(*(rows[name].to_pylist() for name in columns), strict=True):
        name = f"{src}>{dst}"
        if src == dst or (kind_of(src), EntityId.of(src).job) != ("rank", job) or load is None:
            continue
        own[name] += size
        heaviest[name] = max(heaviest.get(name, (-1.0, 0.0, "")), (load, size, link))
    least = OWN_SHARE_MIN * max(own.values(), default=0.0)
    return {
        name: Edge(own[name], heaviest[name][2], heaviest[name][0]) for name in sorted(own) if own[name] >= least > 0
    }


def _at_receiver(name: str, edge: Edge, flow_path: pa.Table) -> bool:
    """Whether the link ends at the port that the edge's flows go to."""
    rows = flow_path.filter(
        pc.and_(
            pc.equal(flow_path["busiest"].cast(pa.string()), edge.link),
            pc.equal(flow_path["dst_rank"].cast(pa.string()), name.partition(">")[2]),
        )
    )
    ends = set(EntityId.of(edge.link).ends)
    return any(port is not None and port.removeprefix("port:") in ends for port in rows["dst"].to_pylist())
