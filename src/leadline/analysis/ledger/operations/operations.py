"""The ledger's best depth: the critical path of the steps that ran, from the operations of a profiler's trace.

rank 0   |F0|F1|          B0 |B1|            what a step waited for at each instant, from its end back:
             \\ send     /                    compute, up to what its kind usually takes; beyond it: a late rank;
rank 1         |--F0---||B0|                 a transfer from when both ends were there; between them launch delays,
path     ######----####|####|###             of which nothing is said here
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.ledger.operations import kinds
from leadline.analysis.ledger.operations.kernels import critical
from leadline.analysis.ledger.operations.trace import Trace, read_trace, unfinished
from leadline.analysis.ledger.operations.whatif import Replay
from leadline.analysis.ledger.segments import PLACE_OF, Segments
from leadline.analysis.spec import Window
from leadline.model.accounts import Category, Depth

# Share beyond its kind's median from which an operation has lost the rest: S = 1.1 is what the paper calls slowed;
# below it lies what clock frequencies and kernels vary by. Source: paper: Lin et al., OSDI 2025, section 4.
LATE = 0.1
# An operation that begins up to this long before a computation of its worker ends was posted after it: in published
# traces computations of one stream overlap by a fraction of a millisecond, by how the profiler takes their times.
# Source: measured: the traces of docs/analyses/whatif.md.
SLACK_NS = 1_000_000
# Probabilities told of a path between hosts whose clocks are known to agree, and of one whose are not, so that a reader
# can weigh them. Source: judgement.
CONFIDENCE, CONFIDENCE_UNFITTED = 0.9, 0.7


def from_operations(operation: pa.Table, window: Window) -> Segments:
    """What the job waited for in the window, from its operations.

    Input: rows of table `operation` of one job in cluster time, from before the window too: at least one whole step
    must be among them, and the begin of the step that the window begins in. Returns: compute; communication by edge
    (`rank:J/a>rank:J/b`, sender first) or communicator; late ranks. Instants of launch delays and outside the known
    steps are left to others. Errors: none; no segment at all without a whole step.
    Accuracy: the path itself is exact, if clocks agree to within the shortest transfer.
    Source: as `operations_graph`; usual lengths are medians over all workers and steps that are given.
    """
    operation = _of_job(operation, window.job)
    trace, _ = read_trace(operation)
    if trace is None:
        return Segments.none(Depth.OPERATIONS)
    pieces = _Pieces.of(trace, operation, window)
    fitted = "bound_ns" in operation.column_names and operation.column("bound_ns").null_count == 0
    return _segments(pieces, trace, _job(operation, window), CONFIDENCE if fitted else CONFIDENCE_UNFITTED)


def _of_job(operation: pa.Table, job: str) -> pa.Table:
    if not job or not operation.num_rows or "job" not in operation.column_names:
        return operation
    return operation.filter(pc.equal(operation.column("job").cast(pa.string()), job))


def _job(operation: pa.Table, window: Window) -> str:
    return window.job or str(operation.column("job")[0].as_py())


@dataclass(frozen=True, slots=True)
class _Pieces:
    """N pieces of critical paths within a window, in order of time, disjoint. begin, end: ns, epoch. lost: ns of it.

    late_N: it is the part of a computation beyond what is usual. replica_N, operation_N: as in `Trace`.
    """

    begin_N: Ints
    end_N: Ints
    lost_N: Floats
    late_N: Ints
    replica_N: Ints
    operation_N: Ints

    @staticmethod
    def of(trace: Trace, operation: pa.Table, window: Window) -> _Pieces:
        baseline_O, saved_T = _baseline(trace)
        found = [
            _path(trace, int(origin), begin_DO, end_DO, baseline_O, saved)
            for origin, begin_DO, end_DO, saved in zip(
                trace.origin_T, trace.begin_TDO, trace.end_TDO, saved_T, strict=True
            )
            if int(origin) < window.to_ns and int(origin + end_DO.max()) > window.from_ns
        ]
        last = unfinished(operation, trace)
        if last is not None and last[0] < window.to_ns:
            found.append(_path(trace, last[0], last[1][0], last[1][1], baseline_O, None))
        whole = np.concatenate(found) if found else np.zeros((0, 6), np.int64)
        whole = whole[np.lexsort((whole[:, 1], whole[:, 0]))]
        return _clipped(whole, window)


def _baseline(trace: Trace) -> tuple[Floats, Floats]:
    """What operations usually take (O,), ns: the median of their kind; and what each step would save by it (T,), ns.

    Of synchronised operations it is what they take from when all had begun. A step does not save all that its path took
    longer: without it, another path is the longest. So it is replayed, with what is late cut to what is usual.
    """
    replay = Replay(trace)
    baseline_O = np.zeros(len(trace.kind_O))
    for kind in np.unique(trace.kind_O).tolist():
        of_kind = trace.kind_O == kind
        baseline_O[of_kind] = max(float(np.median(replay.real_TDO[:, :, of_kind])), 0.0)
    cut_TDO = np.where(replay.real_TDO > (1 + LATE) * baseline_O, baseline_O, replay.real_TDO)
    every_DO = replay.everything_DO
    return baseline_O, replay.lengths_T(every_DO) - replay.lengths_T(every_DO, real_TDO=cut_TDO)


def _path(trace: Trace, origin: int, begin_DO: Floats, end_DO: Floats, baseline_O: Floats, saved: float | None) -> Ints:
    """Pieces of one step (N, 6), ns: begin, end, lost, late, replica, operation. Late computations are split.

    saved: what the step would save, ns, to which lost times are cut in proportion; None if it has not ended.
    """
    span_N2, what_N3 = critical(trace.graph, begin_DO, end_DO, _ran_before(trace, begin_DO, end_DO))
    replica_N, operation_N = what_N3[:, 0], what_N3[:, 1]
    from_N, to_N = np.rint(span_N2).astype(np.int64).T
    baseline_N = baseline_O[operation_N]
    took_N = np.where(trace.graph.group_O[operation_N] >= 0, to_N - from_N, (end_DO - begin_DO)[replica_N, operation_N])
    over_N = np.where(took_N > (1 + LATE) * baseline_N, took_N - baseline_N, 0.0)
    over_N = np.minimum(np.rint(over_N).astype(np.int64), to_N - from_N)
    share = 1.0 if saved is None else min(max(saved, 0.0) / max(float(over_N.sum()), 1.0), 1.0)
    lost_N = (over_N * share).astype(np.int64)
    transfer_N = trace.of_kinds(kinds.COMMUNICATION)[operation_N]
    late_N = np.where(transfer_N, 0, over_N)
    baseline = np.column_stack(
        [from_N, to_N - late_N, np.where(transfer_N, lost_N, 0), np.zeros_like(from_N), replica_N, operation_N]
    )
    late = np.column_stack([to_N - late_N, to_N, lost_N, np.ones_like(from_N), replica_N, operation_N])
    pieces: Ints = np.concatenate([baseline, late])
    pieces = pieces[pieces[:, 1] > pieces[:, 0]]
    pieces[:, :2] += origin
    return pieces


def _ran_before(trace: Trace, begin_DO: Floats, end_DO: Floats) -> Ints:
    """The computation of the same worker that had ended last when each operation began (D, O), or -1."""
    ran_DO = np.full(begin_DO.shape, -1, np.int64)
    runs_O = ~trace.of_kinds(kinds.COMMUNICATION)
    for replica in range(len(begin_DO)):
        for stage in np.unique(trace.stage_O):
            of_worker = np.flatnonzero(trace.stage_O == stage)
            runs = of_worker[runs_O[of_worker] & (end_DO[replica, of_worker] > begin_DO[replica, of_worker])]
            runs = runs[np.argsort(end_DO[replica, runs], kind="stable")]
            begin = begin_DO[replica, of_worker]
            last = np.append(runs, -1)[np.searchsorted(end_DO[replica, runs], begin + SLACK_NS, "right") - 1]
            ran_DO[replica, of_worker] = np.where(begin_DO[replica, last] < begin, last, -1)
    return ran_DO


def _clipped(whole_N6: Ints, window: Window) -> _Pieces:
    """Within the window, none over another (steps that were run at once: the first has it), lost time in proportion."""
    begin_N, end_N, lost_N, late_N, replica_N, operation_N = whole_N6.T
    ended_N = np.concatenate([[window.from_ns], np.maximum.accumulate(end_N)[:-1]]) if len(end_N) else begin_N
    from_N = np.clip(np.maximum(begin_N, ended_N), window.from_ns, None)
    to_N = np.minimum(end_N, window.to_ns)
    kept = to_N > from_N
    share_N = (to_N - from_N)[kept] / (end_N - begin_N)[kept]
    return _Pieces(from_N[kept], to_N[kept], lost_N[kept] * share_N, late_N[kept], replica_N[kept], operation_N[kept])


def _segments(pieces: _Pieces, trace: Trace, job: str, confidence: float) -> Segments:
    names: list[str | None] = []
    category_N = np.full(len(pieces.begin_N), PLACE_OF[Category.COMPUTE], np.int64)
    category_N[pieces.late_N > 0] = PLACE_OF[Category.STRAGGLER]
    transfers = trace.of_kinds(kinds.COMMUNICATION)
    category_N[transfers[pieces.operation_N]] = PLACE_OF[Category.COMMUNICATION]
    known: dict[tuple[int, int, int], str | None] = {}
    for late, replica, operation in zip(
        pieces.late_N.tolist(), pieces.replica_N.tolist(), pieces.operation_N.tolist(), strict=True
    ):
        key = (late, replica, operation)
        if key not in known:
            known[key] = _owner(trace, job, bool(transfers[operation]), *key)
        names.append(known[key])
    owners = sorted({name for name in names if name is not None})
    place = {name: at for at, name in enumerate(owners)}
    owner_N = np.array([-1 if name is None else place[name] for name in names], np.int64)
    return _merged(pieces, category_N, owner_N, owners, confidence)


def _owner(trace: Trace, job: str, transfers: bool, late: int, replica: int, operation: int) -> str | None:
    """A late rank, the edge of a transfer, the communicator of a collective; None for a computation as usual."""
    stage, kind = int(trace.stage_O[operation]), kinds.KINDS[int(trace.kind_O[operation])]
    rank = int(trace.rank_DS[replica, stage])
    if not transfers:
        return f"rank:{job}/{rank}" if late else None
    peer = int(trace.graph.peer_O[operation])
    if peer >= 0:
        other = int(trace.rank_DS[replica, int(trace.stage_O[peer])])
        sender, receiver = (rank, other) if kind.endswith("send") else (other, rank)
        return f"rank:{job}/{sender}>rank:{job}/{receiver}"
    if kind == kinds.CLIP:
        return f"comm:{job}/all"
    if kind == kinds.EMBEDDING:
        return f"comm:{job}/embedding-dp{int(trace.dp_rank_D[replica])}"
    if kind == kinds.LAYERNORM or kind in kinds.BETWEEN_STAGES:
        return f"rank:{job}/{rank}"
    return f"comm:{job}/stage{stage}"


def _merged(pieces: _Pieces, category_N: Ints, owner_N: Ints, owners: list[str], confidence: float) -> Segments:
    """Neighbours of one category and owner as one."""
    first = np.ones(len(category_N), bool)
    first[1:] = (category_N[1:] != category_N[:-1]) | (owner_N[1:] != owner_N[:-1])
    first[1:] |= pieces.begin_N[1:] != pieces.end_N[:-1]
    at = np.flatnonzero(first)
    last = np.append(at[1:], len(first)) - 1 if len(at) else at
    lost_N = np.add.reduceat(pieces.lost_N, at) if len(at) else pieces.lost_N
    return Segments(
        Depth.OPERATIONS,
        pieces.begin_N[at],
        pieces.end_N[last],
        category_N[at],
        owner_N[at],
        np.minimum(lost_N, pieces.end_N[last] - pieces.begin_N[at]),
        np.full(len(at), confidence),
        owners,
    )
