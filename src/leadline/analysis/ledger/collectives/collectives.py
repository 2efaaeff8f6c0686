"""The ledger told from collectives: follow what the job as a whole waited for, and blame the late arrival.

collective --> arrivals.py  cells: arrival and end of each rank at each collective
           --> clocks.py    whether the ranks' times can be held against each other
step       --> phases.py    input, backward pass, checkpoints of each rank
           --> waits.py     the path: a collective, its last arrival's own time, the collective before, ...
usual      --> expected.py  and here: whose each span of the path is, and how much of it is lost
           --> open_end.py  who is still waited for when the window ends
edge       --> edges.py     what each edge of a communicator held

An all-reduce makes everybody's step equally long, so long waits blame nobody; who came last beyond what its peers took
does. What this depth cannot tell it leaves open, with the input that it lacks in `missing`: another depth may know.
Method, sources, weaknesses: docs/analyses/ledger-collectives.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.ledger.collectives.arrival_kernels import ABSENT, FAILED
from leadline.analysis.ledger.collectives.arrivals import ALL, Arrivals, arrivals, met
from leadline.analysis.ledger.collectives.clocks import UNKNOWN_NS, Clocks, clocks, set_right
from leadline.analysis.ledger.collectives.edges import by_edge
from leadline.analysis.ledger.collectives.hidden import hidden
from leadline.analysis.ledger.collectives.open_end import STRAGGLERS_MAX, open_end, parted
from leadline.analysis.ledger.collectives.scatter import BEFORE_NS, beyond_scatter
from leadline.analysis.ledger.collectives.waits import COLLECTIVE, OWN, Waits, waits
from leadline.analysis.ledger.excess import excess_ns, within
from leadline.analysis.ledger.expected import NOISE_RATIO, Expected, expected
from leadline.analysis.ledger.layers import orderly
from leadline.analysis.ledger.phases import moved, phases
from leadline.analysis.ledger.pieces import COMM, JOB, RANK, Pieces
from leadline.analysis.ledger.segments import PLACE_OF, Segments
from leadline.analysis.spec import Window
from leadline.model.accounts import Category, Depth

# Probabilities that the ledger tells with its rows, by what a row rests on, so that a reader can weigh them; no verdict
# has a threshold on them. They were not calibrated: no counts stand behind them. Source: judgement.
SURE = 0.95  # of what the path tells with clocks that have a fit
SURE_ESTIMATED = 0.85  # with clocks that only the collectives vouch for
SURE_UNTOLD = 0.7  # compute that may be lateness below what clocks or the ranks' differences allow to tell
SURE_NO_BASELINE = 0.6  # communication of which nobody knows how long it should take
SURE_ROOTED = 0.6  # of operations in which not all wait for all
SYMMETRIC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
NO_CLOCKS = "clocks without a fit"


def from_collectives(
    collective: pa.Table, step: pa.Table, edge: pa.Table, baseline: pa.Table, *, window: Window
) -> tuple[Segments, dict[str, int]]:
    """What the collectives of one job tell of a window.

    collective, step: rows of the job, of the window and as much before it as there is (a rank's own time in it may
    begin before). edge: how long each edge held the communicators in the window. usual: what is usual, as of then.
    Returns: spans (of the path back from the last end, which may begin before the window and end after it), and what
    is missing: by name of the input, the ns that nobody can tell without it.
    Accuracy: begin and end of a span are right to within the clocks' bounds; who was late is told only beyond them
    and beyond what ranks differ by anyway.
    """
    missing: dict[str, int] = {}
    arrived = arrivals(collective)
    if arrived is None:
        if collective.num_rows:
            missing["collectives with numbers that belong together"] = window.window_ns
        return Segments.none(Depth.COLLECTIVES), missing
    missing |= dict.fromkeys(arrived.missing, 0)
    clock = clocks(collective, arrived)
    if (clock.bound_R[np.unique(arrived.cells.rank_M)] >= UNKNOWN_NS).any():
        missing[NO_CLOCKS] = window.window_ns
        return Segments.none(Depth.COLLECTIVES), missing
    if clock.ahead_R.any():
        arrived = replace(arrived, cells=met(set_right(arrived.cells, clock.ahead_R)))
    steps = moved(phases(step, arrived.ranks_R), clock.ahead_R)
    hidden_G = hidden(arrived.cells, arrived, steps_tell=bool((steps.backward_S < steps.backward_end_S).any()))
    found = waits(arrived.cells, hidden_G, steps, window.from_ns - BEFORE_NS)
    told = _Told(arrived, clock, expected(baseline, step, window), missing)
    parts, until_ns = [], window.from_ns
    if found is not None and len(found.end_P):
        until_ns = int(found.end_P[-1])
        parts = [told.own(found, window.from_ns), told.communication(found.since(window.from_ns))]
    parts.append(open_end(arrived, steps, clock, until_ns, window.to_ns, missing))
    pieces = within(Pieces.joined(parts), excess_ns(step, told.expected.step_ns, window), window)
    return orderly(by_edge(pieces, edge, arrived, window.job)), missing  # ends before arrivals make spans that overlap


@dataclass(frozen=True, slots=True)
class _Told:
    """Whose the spans of the path are."""

    arrived: Arrivals
    clock: Clocks
    expected: Expected
    missing: dict[str, int] = field(default_factory=dict)

    def own(self, found: Waits, from_ns: int) -> Pieces:
        """Own times: what all ranks take as compute, input, checkpoints of the job; what one took more as its own.

        found: with some time before `from_ns`, which tells how much ranks differ by.
        """
        is_own = found.kind_P == OWN
        rank_O, begin_O = found.rank_P[is_own], found.begin_P[is_own]  # O = own times
        own_O4, peers_O4 = found.own_P4[is_own], found.peers_P4[is_own]
        whole_O, input_O = own_O4[:, 0], np.minimum(own_O4[:, 1], own_O4[:, 0])
        checkpoint_O = np.minimum(own_O4[:, 2], whole_O - input_O)
        late_O = self._late(whole_O, own_O4[:, 3], peers_O4, rank_O)
        # What one rank took more of is its own in full, but lost only so far as it made the rank late.
        more_input_O = np.where(late_O > 0, np.maximum(input_O - peers_O4[:, 1], 0), 0).astype(np.int64)
        more_checkpoint_O = np.where(late_O > 0, np.maximum(checkpoint_O - peers_O4[:, 2], 0), 0).astype(np.int64)
        late_input_O = np.minimum(late_O, more_input_O)
        late_checkpoint_O = np.minimum(late_O - late_input_O, more_checkpoint_O)
        alike_checkpoint_O = checkpoint_O - more_checkpoint_O
        work_O = whole_O - input_O - checkpoint_O
        late_work_O = np.minimum(late_O - late_input_O - late_checkpoint_O, work_O)
        alike_input_O = np.where(own_O4[:, 3] > 0, np.minimum(input_O - more_input_O, peers_O4[:, 1]), input_O)
        lost_input_O = np.nan_to_num(np.maximum(alike_input_O - self.expected.input_ns, 0))
        sure = SURE if self.clock.fitted else SURE_ESTIMATED
        told_O = np.where((late_O > 0) | (own_O4[:, 3] == 0) | (whole_O <= peers_O4[:, 0]), sure, SURE_UNTOLD)
        laid = (  # in the order in which a step has them
            (alike_checkpoint_O, Category.CHECKPOINT, JOB, alike_checkpoint_O * self.expected.checkpoint_lost_share),
            (more_checkpoint_O, Category.CHECKPOINT, RANK, late_checkpoint_O),
            (input_O - more_input_O, Category.INPUT, JOB, lost_input_O),
            (more_input_O, Category.INPUT, RANK, late_input_O),
            (work_O - late_work_O, Category.COMPUTE, JOB, (work_O - late_work_O) * self.expected.compute_lost_share),
            (late_work_O, Category.STRAGGLER, RANK, late_work_O),
        )
        pieces = _laid(begin_O, laid, rank_O, told_O)
        return pieces.take(np.flatnonzero(pieces.end_K > from_ns))

    def _late(self, whole_O: Ints, peers_O: Ints, peers_O4: Floats, rank_O: Ints) -> Ints:
        """By how much own times exceed the peers' median, ns; 0 where clocks or what ranks differ by explain it.

        Of n peers that differ by chance, normally, by a standard deviation s, the last exceeds the median by about
        s * sqrt(2 ln n): whoever comes that late is no straggler, but the last of many. Nor is who comes last in its
        turn, by as much as the others in theirs (`scatter`).
        """
        late_O = np.where(peers_O > 0, whole_O - peers_O4[:, 0], 0.0)
        by_chance_O = peers_O4[:, 3] * np.sqrt(2 * np.log(np.maximum(peers_O, 1) + 1))
        told_O = (late_O > by_chance_O) & (late_O > self.clock.bound_R[rank_O])
        told_O &= beyond_scatter(np.maximum(late_O, 0.0), rank_O, peers_O)
        return np.where(told_O, late_O, 0).astype(np.int64)

    def communication(self, found: Waits) -> Pieces:
        """Collectives from the last arrival, or the end of the one before, to the end: lost is what is beyond usual."""
        is_collective = np.flatnonzero(found.kind_P == COLLECTIVE)
        group_Q, begin_Q, end_Q = (each[is_collective] for each in (found.group_P, found.begin_P, found.end_P))
        cells, arrived = self.arrived.cells, self.arrived
        comm_Q = cells.comm_G[group_Q]
        kinds, kind_Q = self._kinds(group_Q)
        baseline_Q = self.expected.collectives_ns(kinds)[kind_Q]
        length_Q = end_Q - begin_Q
        lost_Q = _beyond(length_Q, baseline_Q, np.cumsum(found.kind_P == OWN)[is_collective])
        symmetric = np.isin(arrived.op_G[group_Q], [place for place, op in enumerate(arrived.ops) if op in SYMMETRIC])
        sure_Q = np.where(np.isnan(baseline_Q), SURE_NO_BASELINE, SURE if self.clock.fitted else SURE_ESTIMATED)
        sure_Q = np.where(symmetric, sure_Q, np.minimum(sure_Q, SURE_ROOTED))
        failed_Q = cells.state_G[group_Q] == FAILED
        lost_Q = np.where(failed_Q, length_Q, lost_Q)
        seen_Q = np.where(cells.kind_C[comm_Q] == ALL, cells.seen_G[group_Q], arrived.size_C[comm_Q])
        partly_Q = (seen_Q < arrived.size_C[comm_Q]) & ~failed_Q
        told_Q = np.where(partly_Q, np.nan_to_num(np.minimum(baseline_Q, length_Q)), length_Q).astype(np.int64)
        self._untold(comm_Q[partly_Q], seen_Q[partly_Q], (length_Q - told_Q)[partly_Q])
        size = len(group_Q)
        whole = Pieces(
            begin_Q, begin_Q + told_Q, np.full(size, PLACE_OF[Category.COMMUNICATION]), np.full(size, COMM), comm_Q,
            np.where(partly_Q, 0.0, lost_Q), sure_Q,
        )  # fmt: skip
        deserted = np.flatnonzero(failed_Q & (seen_Q < arrived.size_C[comm_Q]))
        absent = [self._absent(whole, place, int(group_Q[place])) for place in deserted.tolist()]
        kept = np.setdiff1d(np.arange(size), [place for place, each in zip(deserted, absent, strict=True) if len(each)])
        return Pieces.joined([whole.take(kept), *absent])

    def _kinds(self, group_Q: Ints) -> tuple[list[str], Ints]:
        """Kinds of collectives as table `baseline` names them, and which of them each is."""
        arrived = self.arrived
        key_Q3 = np.column_stack([arrived.cells.comm_G[group_Q], arrived.op_G[group_Q], arrived.bytes_G[group_Q]])
        _, first, kind_Q = np.unique(key_Q3, axis=0, return_index=True, return_inverse=True)
        return [arrived.what(int(group_Q[place])) for place in first], kind_Q.ravel()

    def _untold(self, comm_Q: Ints, seen_Q: Ints, left_Q: Ints) -> None:
        """Name what is missing of collectives that some ranks told nothing of: who came last may be one of them."""
        for size, seen in np.unique(np.column_stack([self.arrived.size_C[comm_Q], seen_Q]), axis=0).tolist():
            left_ns = int(left_Q[(self.arrived.size_C[comm_Q] == size) & (seen_Q == seen)].sum())
            name = f"collectives of {size - seen} of {size} ranks"
            self.missing[name] = self.missing.get(name, 0) + left_ns

    def _absent(self, whole: Pieces, place: int, group: int) -> Pieces:
        """The time of a failed collective, for those who never came, if it is known who they are; none otherwise."""
        cells = self.arrived.cells
        comm = int(cells.comm_G[group])
        rank_M = cells.rank_M[cells.member_C[comm] : cells.member_C[comm + 1]]
        first = int(cells.first_cell_C[comm]) + (group - int(cells.first_group_C[comm])) * len(rank_M)
        rank_Q = rank_M[cells.state_X[first : first + len(rank_M)] == ABSENT]
        if len(rank_M) < self.arrived.size_C[comm] or not 0 < len(rank_Q) <= STRAGGLERS_MAX:
            return Pieces.none()
        cut = parted(int(whole.begin_K[place]), int(whole.end_K[place]), len(rank_Q))
        length = np.diff(cut)
        late = np.full(len(rank_Q), PLACE_OF[Category.STRAGGLER])
        sure = np.full(len(rank_Q), SURE_ESTIMATED / len(rank_Q))
        return Pieces(cut[:-1], cut[1:], late, np.full(len(rank_Q), RANK), rank_Q.astype(np.int64), length * 1.0, sure)


def _beyond(length_Q: Ints, baseline_Q: Floats, chain_Q: Ints) -> Floats:
    """What collectives took beyond the usual, ns; 0 where nobody knows what that is.

    Chains of them, one behind the other, are held against the usual as a whole: which bucket of a backward pass took
    some of another's time is chance, and to count what was longer but not what was shorter would call it loss.
    """
    more_Q = np.nan_to_num(length_Q - baseline_Q)
    chains = int(chain_Q.max(initial=0)) + 1
    more_C, baseline_C = (np.bincount(chain_Q, each, chains) for each in (more_Q, np.nan_to_num(baseline_Q)))
    longer_C = np.bincount(chain_Q, np.maximum(more_Q, 0), chains)
    lost_C = np.where(more_C > NOISE_RATIO * baseline_C, more_C, 0.0)
    # All of them as well: of a window in which as much was shorter as was longer, nothing is lost.
    whole, told = float(more_C.sum()), float(lost_C.sum())
    lost_C *= min(max(whole, 0.0) / told, 1.0) if told > 0 else 0.0
    share_C = np.divide(lost_C, longer_C, out=np.zeros(chains), where=longer_C > 0)
    return np.asarray(np.clip(np.maximum(more_Q, 0) * share_C[chain_Q], 0, length_Q))


def _laid(begin_O: Ints, laid: tuple[tuple[Ints, Category, int, Floats], ...], rank_O: Ints, sure_O: Floats) -> Pieces:
    """Parts of spans one after the other, from where each span begins."""
    parts, at_O = [], begin_O
    for length_O, category, whose, lost_O in laid:
        until_O = at_O + length_O
        size = len(begin_O)
        parts.append(
            Pieces(at_O, until_O, np.full(size, PLACE_OF[category]), np.full(size, whose), rank_O, lost_O * 1.0, sure_O)
        )
        at_O = until_O
    pieces = Pieces.joined(parts)
    return pieces.take(np.flatnonzero(pieces.begin_K < pieces.end_K))
