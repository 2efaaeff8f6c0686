"""How long the collectives of each kind and size took by themselves: what `baseline` holds trouble against."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints
from leadline.analysis.ledger.collectives.arrivals import ALL, DONE, NEVER, arrivals

# ns; a longer collective than an hour is nonsense: twice the longest usual time-out. Source: bound.
LENGTH_NS_MAX = 3600 * 10**9


def served(collective: pa.Table) -> list[tuple[str, Ints]]:
    """Of each kind of collective (`baseline.what`): the lengths of those that all their ranks told of, ns.

    From the last arrival, or from the end of the one before it in its communicator, behind which it queued, to its
    last end: as the path of `collectives` takes them. Otherwise the buckets of a backward pass would each count the
    time of all before it, and trouble would hide in what is usual.
    """
    arrived = arrivals(collective)
    if arrived is None:
        return []
    cells = arrived.cells
    comm_G, last_end_G = cells.comm_G, cells.last_end_G
    whole_G = (cells.state_G == DONE) & (cells.seen_G == arrived.size_C[comm_G]) & (cells.kind_C[comm_G] == ALL)
    before_G = np.full(len(comm_G), NEVER)
    for comm in np.unique(comm_G).tolist():
        mine = slice(int(cells.first_group_C[comm]), int(cells.first_group_C[comm + 1]))
        before_G[mine][1:] = np.maximum.accumulate(last_end_G[mine])[:-1]
    begin_G = np.maximum(cells.last_G, np.where(before_G < last_end_G, before_G, NEVER))
    whole_G &= (last_end_G >= begin_G) & (begin_G > NEVER)
    whole_G[whole_G] = (last_end_G - begin_G)[whole_G] <= LENGTH_NS_MAX
    found = np.flatnonzero(whole_G)
    if not len(found):
        return []
    key_Q3 = np.column_stack([comm_G[found], arrived.op_G[found], arrived.bytes_G[found]])
    _, first, kind_Q = np.unique(key_Q3, axis=0, return_index=True, return_inverse=True)
    length_Q = (last_end_G - begin_G)[found]
    lengths: dict[str, list[Ints]] = {}
    for kind, place in enumerate(first.tolist()):
        what = arrived.what(int(found[place]))
        lengths.setdefault(what, []).append(length_Q[kind_Q.ravel() == kind])
    return [(what, np.concatenate(parts)) for what, parts in sorted(lengths.items())]
