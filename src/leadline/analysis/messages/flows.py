"""Which flow a message rode: what its ends say, else the flows that both of its ranks own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Ids, Ints
from leadline.analysis.messages.group_kernels import grouped
from leadline.analysis.messages.pairs import Messages

_FLOW = re.compile(r"flow:([0-9a-f]{32})")
_RANKS_MAX = 8  # that may own one flow; a flow has two ends, and a few more where its ports were given away again


@dataclass(frozen=True, slots=True)
class Rode:
    """Flow of M messages: a place in flow_F2, -1 where it is not known; and how many it may have been."""

    flow_M: Ints
    flows_M: Ints
    flow_F2: Ids


def rode(messages: Messages, relation: pa.Table, job: str, tenant: str) -> Rode:
    """The flow that each message rode.

    What an end says counts: if both say something else, it was one of two. Where neither says anything, it is one of
    the flows that its two ranks both own in the window; ownership does not tell the direction, so a connection whose
    two directions have an id each leaves two. What the job's own tenant says of its ranks counts; only where that
    says nothing what others do, who may have a job of the same name.
    """
    ends = messages.ends
    send_M, recv_M = (
        np.where(each >= 0, ends.flow_N[each], -1) if len(ends) else each for each in (messages.send_M, messages.recv_M)
    )
    said_M = np.where(send_M >= 0, send_M, recv_M)
    flows_M = (said_M >= 0).astype(np.int64)
    differ_M = (send_M >= 0) & (recv_M >= 0) & (send_M != recv_M)
    flows_M[differ_M] = 2
    flow_M = np.where(differ_M, -1, said_M)
    open_M = np.flatnonzero(said_M < 0)
    if not len(open_M):
        return Rode(flow_M, flows_M, ends.flow_F2)
    own = relation.filter(pc.equal(relation["tenant"].cast(pa.string()), tenant))
    owned = owned_by_two(own, job) or owned_by_two(relation, job)
    row_O = messages.any_M[open_M]
    pair_O2 = np.ascontiguousarray(np.column_stack((ends.src_N[row_O], ends.dst_N[row_O])))
    place_O, first_P = grouped(pair_O2)
    candidates = [owned.get((min(pair), max(pair)), ()) for pair in map(tuple, pair_O2[first_P].tolist())]
    flows_M[open_M] = np.array([len(each) for each in candidates], np.int64)[place_O]
    only, flow_F2 = _with_more(ends.flow_F2, [each[0] if len(each) == 1 else -1 for each in candidates])
    flow_M[open_M] = only[place_O]
    return Rode(flow_M, flows_M, flow_F2)


def _with_more(flow_F2: Ids, numbers: Sequence[int]) -> tuple[Ints, Ids]:
    """Places of flows by number (-1: none), in the list and what had to be added to it."""
    place = {low | high << 64: at for at, (low, high) in enumerate(flow_F2.tolist())}
    more = sorted({number for number in numbers if number >= 0} - place.keys())
    place |= {number: len(flow_F2) + at for at, number in enumerate(more)}
    added = np.array([(number & (2**64 - 1), number >> 64) for number in more], np.uint64).reshape(-1, 2)
    return np.array([place.get(number, -1) for number in numbers], np.int64), np.concatenate((flow_F2, added))


def owned_by_two(relation: pa.Table, job: str) -> dict[tuple[int, int], tuple[int, ...]]:
    """Numbers of the flows, in order, that two ranks of a job (the smaller first) both own, or their processes do."""
    ranks = _ranks_of_processes(relation, job)
    owners: dict[int, set[int]] = defaultdict(set)
    for child, parent in _pairs(relation, "owns", "flow:", ("rank:", "process:")):
        number = _FLOW.fullmatch(child)
        if number and number[1].strip("0"):
            rank = _rank(parent, job)
            owners[int(number[1], 16)] |= ranks.get(parent, set()) if rank is None else {rank}
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for flow in sorted(owners):
        if len(owners[flow]) <= _RANKS_MAX:
            for pair in combinations(sorted(owners[flow]), 2):
                found[pair].append(flow)
    return {pair: tuple(each) for pair, each in found.items()}


def _ranks_of_processes(relation: pa.Table, job: str) -> dict[str, set[int]]:
    """Ranks of the job that a process is."""
    found: dict[str, set[int]] = defaultdict(set)
    both = [(process, rank) for process, rank in _pairs(relation, "member", "process:", ("rank:",))]
    both += [(process, rank) for rank, process in _pairs(relation, "runs-on", "rank:", ("process:",))]
    for process, entity in both:
        rank = _rank(entity, job)
        if rank is not None:
            found[process].add(rank)
    return found


def _pairs(relation: pa.Table, kind: str, child: str, parents: Sequence[str]) -> list[tuple[str, str]]:
    """(child, parent) of the rows of one kind between entities of these kinds."""
    rows = relation.filter(pc.equal(relation["kind"].cast(pa.string()), kind))
    child_N, parent_N = rows["child"].cast(pa.string()), rows["parent"].cast(pa.string())
    fits = pc.starts_with(parent_N, parents[0])
    for other in parents[1:]:
        fits = pc.or_(fits, pc.starts_with(parent_N, other))
    keep = pc.and_(pc.starts_with(child_N, child), fits)
    return list(zip(child_N.filter(keep).to_pylist(), parent_N.filter(keep).to_pylist(), strict=True))


def _rank(entity: str, job: str) -> int | None:
    """Number of a rank of the job; None for anything else."""
    number = entity.removeprefix(f"rank:{job}/")
    return int(number) if number != entity and re.fullmatch(r"[0-9]{1,9}", number) else None
