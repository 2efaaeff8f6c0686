"""Edges as arrows from what stands to what it stands on, and how far they are followed.

Down from a job: its ranks, their GPUs and hosts, the hosts' ports, over their links to the leaf switches; storage and
its ports. Up from a thing: the same arrows backwards, from a switch to the ports that are linked to it and no further,
so that nobody depends on the whole fabric. What lies above the leaves is told by traced paths only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.depends import KIND, KINDS, WAY_OF_RULE, Way
from leadline.analysis.graph.rows import Rows

# In the order in which they stand on each other, so that one pass along it carries jobs down to the switches.
ORDER = ("job", "rank", "pod", "gpu", "host", "storage", "port", "swport", "switch")
_DOWN = np.isin(KINDS, ("rank", "pod", "gpu", "host", "storage", "port", "switch"))
_UP = np.isin(KINDS, ("job", "rank", "pod", "gpu", "host", "storage", "port", "swport"))
STEPS_MAX = 24  # more than twice the layers there are: what is deeper is a loop


@dataclass(frozen=True, slots=True)
class Arrows:
    """E arrows: `upper` stands on `lower`, by row `row`. Of a link there are two."""

    upper_E: Ints
    lower_E: Ints
    row_E: Ints
    link_E: Bools
    down_E: Bools  # followed downwards
    up_E: Bools  # followed upwards


def arrows(rows: Rows, rule_N: Ints, kind_N: Ints, start: Bools) -> Arrows:
    """The arrows of rows. `kind_N`: kinds of all nodes; `start`: what was asked for, whose every edge is followed."""
    way_N = WAY_OF_RULE[rule_N]
    on_N, under_N, link_N = (np.flatnonzero(way_N == way) for way in (Way.CHILD_ON_PARENT, Way.PARENT_ON_CHILD,
                                                                      Way.LINK))  # fmt: skip
    upper = np.concatenate([rows.child[on_N], rows.parent[under_N], rows.child[link_N], rows.parent[link_N]])
    lower = np.concatenate([rows.parent[on_N], rows.child[under_N], rows.parent[link_N], rows.child[link_N]])
    row = np.concatenate([on_N, under_N, link_N, link_N])
    link = np.arange(len(row)) >= len(on_N) + len(under_N)
    from_port = kind_N[upper] == KIND["port"]
    down = np.where(link, from_port | start[upper], _DOWN[kind_N[lower]] | start[upper])
    up = np.where(link, from_port, _UP[kind_N[upper]] | start[lower])
    return Arrows(upper.astype(np.int64), lower.astype(np.int64), row, link, down, up)


def reached(begin: Bools, from_E: Ints, to_E: Ints) -> Bools:
    """All nodes that are reached from those in `begin` along the pairs given, themselves included; (nodes,)."""
    seen = begin.copy()
    waiting = np.ones(len(from_E), bool)
    for _ in range(STEPS_MAX):
        now = waiting & seen[from_E]
        if not now.any():
            break
        waiting &= ~now
        seen[to_E[now]] = True
    return seen


def jobs_below(jobs: Ints, along: Arrows, use_E: Bools, kind_N: Ints) -> dict[int, tuple[int, ...]]:
    """Which of J jobs stand on each node: places in `jobs`, ascending, by node.

    64 jobs at a time as the bits of a word, carried from one kind to the next along arrows that are used.
    """
    count = len(kind_N)
    found: dict[int, tuple[int, ...]] = {}
    kind_E = kind_N[along.upper_E]
    passes = [np.flatnonzero(use_E & along.down_E & (kind_E == KIND[kind])) for kind in ORDER]
    for first in range(0, len(jobs), 64):
        bits = np.zeros(count, np.uint64)
        own = jobs[first : first + 64]
        bits[own] = np.uint64(1) << np.arange(len(own), dtype=np.uint64)
        for now in passes:
            np.bitwise_or.at(bits, along.lower_E[now], bits[along.upper_E[now]])
        _told(found, bits, first)
    return found


def _told(found: dict[int, tuple[int, ...]], bits: np.ndarray[tuple[int], np.dtype[np.uint64]], first: int) -> None:
    places: dict[int, tuple[int, ...]] = {}
    node_M = np.flatnonzero(bits)
    for node, word in zip(node_M.tolist(), bits[node_M].tolist(), strict=True):
        if word not in places:
            places[word] = tuple(first + place for place in range(64) if word >> place & 1)
        found[node] = found.get(node, ()) + places[word]
