"""What the job as a whole waited for, as spans: the path through its collectives, and what own times were made of."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.ledger.collectives.arrival_kernels import NEVER, in_parts
from leadline.analysis.ledger.collectives.arrivals import Cells
from leadline.analysis.ledger.collectives.wait_kernels import COLLECTIVE, OWN, Phases, path, peers_of, running_latest

__all__ = ["COLLECTIVE", "OWN", "Waits", "waits"]


@dataclass(frozen=True, slots=True)
class Waits:
    """Spans of the path (P,), disjoint, in order of time; together without gaps from the first begin to the last end.

    kind_P: COLLECTIVE, or OWN: time of one rank before it arrived. group_P: the collective. rank_P: number of the rank
    whose own time it was, or whose end was waited for. own_P4, peers_P4: as in `wait_kernels.peers_of`; 0 of others.
    """

    kind_P: Ints
    group_P: Ints
    rank_P: Ints
    begin_P: Ints
    end_P: Ints
    own_P4: Ints
    peers_P4: Floats

    def since(self, from_ns: int) -> Waits:
        """Those that end after `from_ns`."""
        kept_P = self.end_P > from_ns
        return Waits(*(getattr(self, each.name)[kept_P] for each in fields(Waits)))


def waits(cells: Cells, hidden_G: Bools, phases: Phases, from_ns: int) -> Waits | None:
    """The path back from the last end, to `from_ns` or the first thing known. None: no collective ended."""
    if not len(cells.last_end_G) or cells.last_end_G.max() == NEVER:
        return None
    latest_X = running_latest(cells)
    group = int(np.argmax(cells.last_end_G))
    comm = int(cells.comm_G[group])
    size = int(cells.member_C[comm + 1] - cells.member_C[comm])
    first = int(cells.first_cell_C[comm]) + (group - int(cells.first_group_C[comm])) * size
    place = int(np.argmax(cells.end_X[first : first + size]))
    found = path(cells, latest_X, hidden_G, phases, group, place, from_ns, 4 * len(cells.comm_G) + 16)
    kind_P, group_P, rank_P, begin_P, end_P = (np.ascontiguousarray(each[::-1]) for each in found)
    own_P4, peers_P4 = np.zeros((len(kind_P), 4), np.int64), np.zeros((len(kind_P), 4))
    is_own = np.flatnonzero(kind_P == OWN)
    own_O4, peers_O4 = own_P4[is_own], peers_P4[is_own]
    in_parts(
        peers_of, len(is_own), cells, latest_X, hidden_G, phases, group_P[is_own], rank_P[is_own], begin_P[is_own],
        end_P[is_own], own_O4, peers_O4, each=int(np.diff(cells.member_C).max()),
    )  # fmt: skip
    own_P4[is_own], peers_P4[is_own] = own_O4, peers_O4
    return Waits(kind_P, group_P, rank_P, begin_P, end_P, own_P4, peers_P4)
