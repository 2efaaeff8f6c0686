"""Since when and until when something was there, and the last moment at which it was whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.graph.answers import ends_of
from leadline.analysis.graph.depends import KIND
from leadline.analysis.graph.graph import Graph
from leadline.analysis.graph.rows import OPEN, Rows, distinct, joined
from leadline.analysis.graph.walk import tenant_numbers
from leadline.model.ids import kind_of

ENDING_NS = 60 * 10**9  # the parts of one thing are told to be gone one by one, within such a time


@dataclass(frozen=True, slots=True)
class Lasting:
    """When something was there by its edges, in ns."""

    from_ns: int
    to_ns: int | None  # None while it is there
    whole_ns: int  # of its last minute the moment at which most of it held, the last one if there are several


def lasting(graph: Graph, entity: str, tenants: Iterable[str] | None = None) -> Lasting | None:
    """When an entity was there; None if no edge has it that `tenants` (None: anybody) told.

    A job is as much there as its ranks and what they run on. Edges that end before they begin are no evidence.
    """
    start = distinct(np.array([number for number in ends_of(graph, entity) if number >= 0], np.int64))
    rows = _told(graph, start, tenants)
    if not len(rows):
        return None
    from_ns, ends_ns = int(rows.from_ns.min()), int(rows.to_ns.max())
    if kind_of(entity) == "job":
        child = rows.child.astype(np.int64)
        ranks = distinct(child[graph.kinds(child) == KIND["rank"]])
        theirs = _told(graph, ranks, tenants)
        rows = joined([rows, theirs.take(np.isin(theirs.child, ranks))])
    return Lasting(from_ns, None if ends_ns == OPEN else ends_ns, _whole_ns(rows, ends_ns))


def _told(graph: Graph, node_M: Ints, tenants: Iterable[str] | None) -> Rows:
    rows = graph.take(graph.touching(node_M))
    keep_N = rows.to_ns > rows.from_ns
    wanted = tenant_numbers(graph, tenants)
    if wanted is not None:
        keep_N &= np.isin(rows.tenant, wanted)
    return rows.take(keep_N)


def _whole_ns(rows: Rows, ends_ns: int) -> int:
    """The last moment before `ends_ns` at which most edges hold: just before one of them ends.

    An edge that holds for longer than the thing itself does not keep it there.
    """
    ends_N = np.minimum(rows.to_ns, ends_ns)
    at_M = distinct(ends_N[ends_N >= ends_ns - ENDING_NS]) - 1
    begun_M = np.searchsorted(np.sort(rows.from_ns), at_M, "right")
    ended_M = np.searchsorted(np.sort(rows.to_ns), at_M, "right")
    held_M = begun_M - ended_M
    return int(at_M[np.flatnonzero(held_M == held_M.max())[-1]])
